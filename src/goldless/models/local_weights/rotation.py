"""Rotations of positions that depend on the length of a text.

Under most rotations a position looks the same in every text. Under these, one set of angles is taken for a whole call,
by the largest position in it: what a short text shares with a long one is then not the same in both, and nothing that
was computed for one may serve the other.
"""

from __future__ import annotations

from typing import Any

ROTATED_BY_LENGTH = frozenset({"dynamic", "longrope"})
ANGLES = "inv_freq"
"""What transformers calls the angles, behind the kind of layer where a model has several."""


def rotates_by_length(config: Any) -> bool:
    """Whether a model's positions are rotated by the length of the text they are in."""
    found = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    # a model with several kinds of layers has a dictionary for each
    parts = [found, *(part for part in found.values() if isinstance(part, dict))]
    return any(str(part.get("rope_type") or part.get("type")) in ROTATED_BY_LENGTH for part in parts)


def forget_length(body: Any) -> None:
    """Give a model the angles of a short text again: transformers keeps those of the longest text it has seen."""
    for module in body.modules():
        longest = getattr(module, "original_max_seq_len", None)
        if longest is None:
            continue
        for name, angles in list(module.named_buffers(recurse=False)):
            kind = name.removesuffix(ANGLES)
            first = getattr(module, f"{kind}original_{ANGLES}", None)
            if name.endswith(ANGLES) and first is not None:
                setattr(module, name, first.to(angles.device))
                setattr(module, f"{kind}max_seq_len_cached", longest)
