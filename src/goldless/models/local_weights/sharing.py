"""The ways of computing a prefix tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Sharing = Literal["auto", "packed", "cached"]
"""``packed``: many branches in one sequence under a tree mask; ``cached``: node by node, each under the keys and values
of its path; ``auto``: packed on a graphics card, cached elsewhere."""


def sharing_word(settings: Mapping[str, str]) -> str | None:
    """How a model with these settings in its identity shares, in one word for signatures; None where they do not say.

    ``none``: every text is computed from its beginning.
    """
    words = {"packed prefix tree": "packed", "prefix tree": "cached", "none": "none"}
    told = settings.get("sharing", "").partition(";")[0].partition(":")[0]
    return words.get(told)
