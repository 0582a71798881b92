"""What an evaluation gives: frozen results, from which tables and files are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import LogprobEvidence, RewriteEvidence
from goldless.metrics.scores import PairScore, ResponseScore
from goldless.models.canaries import CanaryReport
from goldless.models.interface import ModelIdentity, Usage
from goldless.records import FailureKind
from goldless.reports.leaderboard import Leaderboard

OPEN_KINDS: frozenset[FailureKind] = frozenset({"rate_limited", "server_error", "timeout", "connection", "budget"})
"""Failures that another run of the same command would try again."""


@dataclass(frozen=True, slots=True)
class MetricOutcome:
    """One metric's scores."""

    metric: str
    signature: str
    pairs: tuple[PairScore, ...]
    responses: tuple[ResponseScore, ...]
    leaderboard: Leaderboard


@dataclass(frozen=True, slots=True)
class Spending:
    """What the calls of one model came to."""

    model: str
    calls: int
    """Calls made now."""
    reused: int
    """Replies that were in the journal."""
    usage: Usage
    cost_usd: float | None
    """None: price unknown."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of one evaluation."""

    study: str
    fingerprint: str
    outcomes: Mapping[str, MetricOutcome]
    """By metric."""
    logprobs: tuple[LogprobEvidence, ...]
    rewrites: tuple[RewriteEvidence, ...]
    scorer: ModelIdentity
    canaries: CanaryReport | None
    spending: tuple[Spending, ...]
    tasks_without_peers: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def leaderboard(self, metric: str | None = None) -> Leaderboard:
        """The leaderboard of a metric; of the only one where none is named."""
        if metric is None:
            metric = next(iter(self.outcomes))
        if metric not in self.outcomes:
            raise MetricError(
                f"{metric!r} was not computed{nearest(metric, self.outcomes) or '.'} "
                f"Computed: {', '.join(self.outcomes)}."
            )
        return self.outcomes[metric].leaderboard

    def to_polars(self) -> pl.DataFrame:
        """Scores of all responses: metric, task, agent, score (null: missing), pairs asked and used, signature."""
        return response_frame(self.outcomes.values())

    @property
    def failures(self) -> Counter[FailureKind]:
        """Missing evidence by cause."""
        rows: list[LogprobEvidence | RewriteEvidence] = [*self.logprobs, *self.rewrites]
        return Counter(row.failure.kind for row in rows if row.failure is not None)

    @property
    def asked(self) -> int:
        """How many log-probabilities and rewrites were wanted."""
        return len(self.logprobs) + len(self.rewrites)

    @property
    def open(self) -> int:
        """How many are missing for a cause that may pass."""
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)

    @property
    def complete(self) -> bool:
        """Whether another run of the same command would find nothing left to ask."""
        return self.open == 0


def response_frame(outcomes: Iterable[MetricOutcome]) -> pl.DataFrame:
    """Response scores of several metrics as one table."""
    rows = [(o.metric, r.task, r.agent, r.score, r.asked, r.used, o.signature) for o in outcomes for r in o.responses]
    schema = {
        "metric": pl.String,
        "task": pl.String,
        "agent": pl.String,
        "score": pl.Float64,
        "asked": pl.Int64,
        "used": pl.Int64,
        "signature": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
