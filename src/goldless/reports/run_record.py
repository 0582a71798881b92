"""The record that a run keeps of itself: how its results were made and what they cost, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from goldless.models.interface import Usage


@dataclass(frozen=True)
class Spending:
    """Calls, tokens and cost of one model."""

    model: str
    calls: int = 0
    """Calls made now."""
    reused: int = 0
    """Replies that were in the journal."""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    """None: price unknown."""
    estimated: int = 0
    """Of the calls, the ones whose tokens and cost are the most they can be: the server did not report them."""
    kept: int | None = None
    """Of the calls, the ones with a reply to keep, unlike probes; None: not recorded."""
    kept_usage: Usage | None = None
    result_usd: float | None = None
    """The cost of all replies, whichever process made their calls; None: not known of each."""


def usd_per_task(spending: Sequence[Spending], tasks: int) -> float | None:
    """Cost of one task by the calls made now, those from the journal at the same price; None: unknown or free."""
    known = [(s.cost_usd / s.calls) * (s.calls + s.reused) for s in spending if s.cost_usd and s.calls]
    return sum(known) / tasks if known and tasks else None


@dataclass(frozen=True)
class Made:
    """The time when one verb wrote its results, and their cost."""

    at: str = ""
    spending: tuple[Spending, ...] = ()


@dataclass(frozen=True)
class MadeBy:
    """``made_by.json``: how the results of a run folder were made."""

    goldless: str = ""
    """The version."""
    python: str = "unknown"
    machine: str = ""
    study: str = ""
    fingerprint: str = ""
    made: Mapping[str, Made] = field(default_factory=dict)
    """By verb."""
    spending: tuple[Spending, ...] = ()
    """The spending of all verbs."""


@dataclass(frozen=True)
class AgentSoFar:
    """One agent's mean over the tasks that have a score."""

    agent: str
    score: float | None = None
    tasks: int = 0


@dataclass(frozen=True)
class BoardSoFar:
    """All agents under a metric, or in a ranking, highest first."""

    metric: str
    unit: str = ""
    rows: tuple[AgentSoFar, ...] = ()


@dataclass(frozen=True)
class RunProgress:
    """``progress.json``: how far a run is."""

    state: str = "unknown"
    stage: str = ""
    done: int | None = None
    total: int | None = None
    failed: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    workers: int | None = None
    per_second: float | None = None
    seconds_left: float | None = None
    updated_at: float | None = None
    so_far: tuple[BoardSoFar, ...] = ()

    @property
    def share(self) -> float | None:
        """Done of total, between 0 and 1; None if unknown."""
        if self.done is None or not self.total:
            return None
        return min(1.0, max(0.0, self.done / self.total))
