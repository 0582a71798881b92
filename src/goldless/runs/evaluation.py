"""The results of an evaluation with the evidence behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import Evidence, Schema
from goldless.metrics.metric import PAIRS, RESPONSES, pair_means
from goldless.records import Agent, FailureKind
from goldless.reports.document import HERE_ONLY
from goldless.reports.leaderboard import Leaderboard, Leaderboards, PairMeans
from goldless.reports.run_record import Spending
from goldless.studies import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOutcome(Leaderboard):
    """One metric's leaderboard with its scores of pairs and responses."""

    pair_table: pl.DataFrame = field(metadata=HERE_ONLY, compare=False)
    """Columns of ``metrics.metric.PAIRS``."""
    responses: pl.DataFrame = field(metadata=HERE_ONLY, compare=False)
    """Columns of ``metrics.metric.RESPONSES``."""
    agents: tuple[str, ...] = field(metadata=HERE_ONLY)
    """All agents of the study, in its order."""
    problems: Mapping[str, int] = field(default_factory=dict, metadata=HERE_ONLY)
    """Messages of a custom metric about responses it could not score, with counts."""
    KEYS = (*Leaderboard.KEYS[:-1], "matrix:pair_means")

    @property
    def leaderboard(self) -> Leaderboard:
        """The leaderboard, which it is itself."""
        return self

    @property
    def pairs(self) -> pl.DataFrame:
        """Columns of ``metrics.metric.PAIRS``, all rows in memory."""
        return self.pair_table

    @property
    def pair_means(self) -> PairMeans:
        """Mean over tasks of each agent with each peer."""
        known = {(agent, peer): score for agent, peer, score, _ in pair_means(self.pair_table).iter_rows()}
        return PairMeans(self.agents, tuple(tuple(known.get((a, peer)) for peer in self.agents) for a in self.agents))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evaluation(Leaderboards):
    """The results of one evaluation."""

    source: Study = field(metadata=HERE_ONLY)
    """The study that was evaluated."""
    evidence: Evidence = field(metadata=HERE_ONLY)
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)

    @property
    def outcomes(self) -> dict[str, MetricOutcome]:
        """The metrics that rank agents, by name."""
        return {name: found for name, found in self.metrics.items() if isinstance(found, MetricOutcome)}

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Its agents."""
        return self.source.agents

    def __repr__(self) -> str:
        """Study and metrics, without the evidence."""
        return f"<Evaluation of {self.study!r}: {', '.join(self.metrics)}>"

    @property
    def logprobs(self) -> pl.DataFrame:
        """The log-probabilities used by the metrics, without per-token values."""
        return self.evidence.logprobs.clone()

    @property
    def rewrites(self) -> pl.DataFrame:
        """The rewrites used by the metrics."""
        return self.evidence.rewrites.clone()

    @property
    def verdicts(self) -> pl.DataFrame:
        """The critic's verdicts used by the metrics."""
        return self.evidence.verdicts.clone()

    def leaderboard(self, metric: str | None = None) -> Leaderboard:
        """The leaderboard of a metric, which must be named if there are several besides length, a control."""
        boards = self.boards
        named = [name for name in boards if name != "length"]
        if metric is None and len(named) == 1:
            return boards[named[0]]
        if metric is None and len(boards) > 1:
            raise MetricError(f"name the metric of the leaderboard: {', '.join(boards)}")
        name = next(iter(boards), "") if metric is None else metric
        if name in boards:
            return boards[name]
        if self.raters is not None and name in {"", self.raters.metric}:
            raise MetricError(f"{self.raters.metric} does not rank agents. Use the result's raters instead")
        raise MetricError(f"{name!r} was not computed{nearest(name, boards) or '.'} Computed: {', '.join(boards)}")

    def to_polars(self) -> pl.DataFrame:
        """Scores of all responses: metric, task, agent, score (null: missing), pairs asked and used, signature."""
        return response_frame(self.outcomes.values())

    @property
    def examples(self) -> dict[FailureKind, str]:
        """One message for each cause of missing evidence."""
        return self.evidence.examples


def response_frame(outcomes: Iterable[MetricOutcome]) -> pl.DataFrame:
    """Response scores of several metrics as one table."""
    columns: Schema = {"metric": pl.String, **RESPONSES, "signature": pl.String}
    frames = [
        outcome.responses.with_columns(metric=pl.lit(outcome.metric), signature=pl.lit(outcome.signature))
        for outcome in outcomes
    ]
    return _one_table(frames, columns)


def pair_frame(outcomes: Iterable[MetricOutcome]) -> pl.DataFrame:
    """Pair scores of several metrics as one table."""
    frames = [outcome.pair_table.with_columns(metric=pl.lit(outcome.metric)) for outcome in outcomes]
    return _one_table(frames, {"metric": pl.String, **PAIRS})


def _one_table(frames: Iterable[pl.DataFrame], columns: Schema) -> pl.DataFrame:
    casts = [pl.col(name).cast(kind) for name, kind in columns.items()]
    return pl.concat([pl.DataFrame(schema=columns), *(frame.select(casts) for frame in frames)])
