"""Results of an evaluation, from which tables and files are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from goldless.audit.finding import Finding
from goldless.audit.peer_graph import PeerGraph
from goldless.errors import MetricError, nearest
from goldless.evidence import Evidence, Schema
from goldless.files import Frames, frames, whole
from goldless.metrics.label_information import LabelInformation
from goldless.metrics.metric import PAIRS, RESPONSES
from goldless.models.canaries import CanaryReport
from goldless.models.interface import ModelIdentity
from goldless.records import Agent, FailureKind
from goldless.reports.leaderboard import Leaderboard, RaterRow, RaterTable
from goldless.runs.opening import Spending
from goldless.runs.rounds import Stopped
from goldless.statistics.effects import GroupComparison
from goldless.statistics.influence import Influence
from goldless.studies import Study
from goldless.templates import Template


@dataclass(frozen=True, slots=True)
class MetricOutcome:
    """One metric's scores."""

    metric: str
    signature: str
    pair_table: Frames
    """Columns of ``metrics.metric.PAIRS``, in parts on disk where they do not fit memory."""
    responses: pl.DataFrame
    """Columns of ``metrics.metric.RESPONSES``."""
    leaderboard: Leaderboard
    by_wording: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Agents' scores by prompt, if there are several."""
    influence: tuple[Influence, ...] = ()
    """The tasks that move an agent's score most."""
    groups: GroupComparison | None = None
    """Comparison of two groups of agents, if requested."""
    peer_graph: PeerGraph | None = None
    """Which agents predict which; None: too few agents, or the metric does not score pairs."""
    problems: Mapping[str, int] = field(default_factory=dict)
    """Messages of a custom metric about responses it could not score, with counts."""
    summary: Mapping[str, float] = field(default_factory=dict)
    """Numbers about the study as a whole, by name."""

    @property
    def pairs(self) -> pl.DataFrame:
        """Columns of ``metrics.metric.PAIRS``, all rows in memory."""
        return whole(self.pair_table)


@dataclass(frozen=True, slots=True)
class RaterOutcome:
    """Information shared between raters' labels, by criterion (None: labels without criterion)."""

    metric: str
    signature: str
    by_criterion: Mapping[str | None, LabelInformation]

    @property
    def table(self) -> RaterTable:
        """Raters by criterion, after the mean over their pairs."""
        rows = []
        for criterion, found in self.by_criterion.items():
            name, partners = criterion or "-", len(found.raters) - 1
            rows.append(RaterRow(name, None, found.overall.value, found.overall.null, found.overall.p, partners))
            for group in found.groups:
                who = "all raters" if group.group is None else f"{group.group} ({group.raters})"
                shared = group.information
                row = RaterRow(name, who, shared.value, shared.null, shared.p, partners, group.low, group.high)
                rows.append(row)
            for rater in found.raters:
                one = rater.information
                row = RaterRow(name, rater.rater, None, None, None, rater.partners)
                rows.append(row if one is None else replace(row, value=one.value, null=one.null, p=one.p))
        return RaterTable(self.metric, self.signature, tuple(rows))


@dataclass(frozen=True, slots=True, repr=False)
class StudyResult(ABC):
    """Results of an evaluation or a review of a study."""

    source: Study
    """The study that was evaluated."""

    @property
    def study(self) -> str:
        """Name of the study."""
        return self.source.name

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its tasks and responses."""
        return self.source.fingerprint

    @property
    @abstractmethod
    def open(self) -> int:
        """Number of rows of evidence that are missing for a temporary cause; 0 if no model was called."""

    @property
    def complete(self) -> bool:
        """Whether everything requested was collected, so that running the command again would change nothing."""
        return self.open == 0


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(StudyResult):
    """The results of one evaluation."""

    outcomes: Mapping[str, MetricOutcome]
    """By metric."""
    raters: RaterOutcome | None
    """Results of ``tvd-mi[labels]``."""
    evidence: Evidence
    models: Mapping[str, ModelIdentity]
    """By role; empty if only recorded evidence was used."""
    canaries: CanaryReport | None
    spending: tuple[Spending, ...]
    tasks_without_peers: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What the audit found in texts and scores."""
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the results depend on besides evidence, for a replay."""
    templates: Mapping[str, Template] = field(default_factory=dict)
    """Custom templates, by name."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Text of the critic's prompts, by name."""
    stopped: Stopped | None = None
    """Where it stopped, and what is decided; None: it was not to stop early."""

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Its agents."""
        return self.source.agents

    def __repr__(self) -> str:
        """Study and metrics, without the evidence."""
        computed = [*self.outcomes, *([] if self.raters is None else [self.raters.metric])]
        return f"<Evaluation of {self.study!r}: {', '.join(computed)}>"

    @property
    def logprobs(self) -> pl.DataFrame:
        """The log-probabilities used by the metrics, without per-token values."""
        large = self.evidence.large.get("logprobs")
        return self.evidence.logprobs.clone() if large is None else pl.concat(large)

    @property
    def rewrites(self) -> pl.DataFrame:
        """The rewrites used by the metrics."""
        return self.evidence.rewrites.clone()

    @property
    def verdicts(self) -> pl.DataFrame:
        """The critic's verdicts used by the metrics."""
        large = self.evidence.large.get("verdicts")
        return self.evidence.verdicts.clone() if large is None else pl.concat(large)

    @property
    def scorer(self) -> ModelIdentity | None:
        """The model that computed the log-probabilities; None if no model was called."""
        return self.models.get("scorer")

    def leaderboard(self, metric: str | None = None) -> Leaderboard:
        """The leaderboard of a metric, which must be named if there are several besides length, a control."""
        named = [name for name in self.outcomes if name != "length"]
        if metric is None and len(named) == 1:
            return self.outcomes[named[0]].leaderboard
        if metric is None and len(self.outcomes) > 1:
            raise MetricError(f"name the metric of the leaderboard: {', '.join(self.outcomes)}")
        name = next(iter(self.outcomes), "") if metric is None else metric
        if name in self.outcomes:
            return self.outcomes[name].leaderboard
        if self.raters is not None and name in {"", self.raters.metric}:
            raise MetricError(f"{self.raters.metric} does not rank agents. Use the result's raters instead")
        raise MetricError(
            f"{name!r} was not computed{nearest(name, self.outcomes) or '.'} Computed: {', '.join(self.outcomes)}"
        )

    def to_polars(self) -> pl.DataFrame:
        """Scores of all responses: metric, task, agent, score (null: missing), pairs asked and used, signature."""
        return response_frame(self.outcomes.values())

    @property
    def failures(self) -> Counter[FailureKind]:
        """Missing evidence by cause."""
        return self.evidence.failures

    @property
    def examples(self) -> dict[FailureKind, str]:
        """One message for each cause of missing evidence."""
        return self.evidence.examples

    @property
    def asked(self) -> int:
        """Number of log-probabilities, verdicts, rewrites and synopses requested."""
        return self.evidence.asked

    @property
    def open(self) -> int:
        """Number missing for a temporary cause; 0 if no model was called."""
        return self.evidence.open if self.models else 0


def response_frame(outcomes: Iterable[MetricOutcome]) -> pl.DataFrame:
    """Response scores of several metrics as one table."""
    columns: Schema = {"metric": pl.String, **RESPONSES, "signature": pl.String}
    frames = [
        outcome.responses.with_columns(metric=pl.lit(outcome.metric), signature=pl.lit(outcome.signature))
        for outcome in outcomes
    ]
    return _one_table(frames, columns)


def pair_frames(outcomes: Iterable[MetricOutcome]) -> Iterator[pl.DataFrame]:
    """Pair scores of several metrics as the parts of one table."""
    columns: Schema = {"metric": pl.String, **PAIRS}
    yield pl.DataFrame(schema=columns)
    for outcome in outcomes:
        for rows in frames(outcome.pair_table):
            yield _one_table([rows.with_columns(metric=pl.lit(outcome.metric))], columns)


def _one_table(frames: Iterable[pl.DataFrame], columns: Schema) -> pl.DataFrame:
    casts = [pl.col(name).cast(kind) for name, kind in columns.items()]
    return pl.concat([pl.DataFrame(schema=columns), *(frame.select(casts) for frame in frames)])
