"""What the counts of a metric's leaderboard count: pairs of responses, or single responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def counts_pairs(board: Mapping[str, Any]) -> bool:
    """Whether asked, used and missing count pairs of responses; else they count responses.

    A signature says what single responses are held against. Metrics of the user's do not say so: of theirs, responses
    are counted where scores were used and no pair has one.
    """
    parts = str(board.get("signature") or "").split("|")
    if "against:nothing" in parts or "against:reference" in parts:
        return False
    matrix = board.get("matrix")
    if not matrix or not any(row.get("used") for row in board["rows"]):
        return True
    return any(mean is not None for line in matrix["means"] for mean in line)
