"""What a metric gives: a score per pair and per response, absent where there is none."""

from __future__ import annotations

from dataclasses import dataclass

from goldless.records import FailureKind


@dataclass(frozen=True, slots=True)
class PairScore:
    """What one agent's response tells about one peer's."""

    task: str
    agent: str
    """The candidate (x)."""
    peer: str
    """The reference (y)."""
    score: float | None
    """None: missing."""
    missing: FailureKind | None = None
    """Why; None where there is a score, or where nobody asked."""


@dataclass(frozen=True, slots=True)
class ResponseScore:
    """One response's score."""

    task: str
    agent: str
    score: float | None
    """None: missing."""
    asked: int
    """Pairs that should have been scored."""
    used: int
    """Pairs that were."""
