"""Names in the sentences of an audit."""

from __future__ import annotations


def listed(names: tuple[str, ...] | list[str], most: int = 5) -> str:
    """Names in a sentence: ``a``, ``a and b``, ``a, b and 4 more``."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
