"""One thing the audit found, in a sentence and as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something a reader of the ranking should know."""

    kind: str
    """The check that found it, such as ``same-text``."""
    agents: tuple[str, ...]
    """The agents it concerns."""
    message: str
    """A whole sentence."""
    metrics: tuple[str, ...] = ()
    """The metrics it concerns; empty: the texts themselves."""


def listed(names: tuple[str, ...] | list[str], most: int = 5) -> str:
    """Names in a sentence: ``a``, ``a and b``, ``a, b and 4 more``."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
