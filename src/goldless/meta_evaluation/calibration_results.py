"""Results of a calibration, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from goldless.reports.document import HERE_ONLY, write
from goldless.reports.findings import Name, Said
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class CalibratedAgent:
    """An agent's mean label over all tasks, estimated from labels and proxies."""

    agent: str
    mean: float
    low: float
    high: float
    labelled: int
    """Tasks with labels."""
    unlabelled: int
    labels_worth: float
    """How many labelled tasks would give the same variance without proxies."""
    label_mean: float
    """Mean of the labels alone, of the tasks drawn at random."""
    missing: int
    """Responses for which a proxy has no score; the agent's mean of that proxy is used."""
    weights: Mapping[str, float]
    """λ of each proxy."""


@dataclass(frozen=True, slots=True)
class CalibratedComparison:
    """Two agents on the people's scale, on the tasks that both answered."""

    first: str
    second: str
    difference: float
    """Mean of first minus second, from the differences on each task."""
    low: float
    high: float
    p: float
    p_holm: float
    """Corrected for all comparisons; below 0.05 the difference is decided."""
    labelled: int
    unlabelled: int
    more_labels: int | None
    """Further tasks to label until it is decided, if the difference stays as it is; None: all are not enough."""
    tasks_needed: int | None
    """Tasks, all labelled, that would decide it; None: no number of them."""
    decided: bool
    KEYS = ("*", "verdict")

    @property
    def verdict(self) -> str:
        if self.decided:
            return f"{self.first if self.difference > 0 else self.second} is better"
        if self.more_labels is not None:
            return f"undecided: about {self.more_labels} more labelled tasks"
        if self.tasks_needed is None:
            return "undecided: no difference"
        return f"undecided: about {self.tasks_needed:,} tasks, all labelled"


@dataclass(frozen=True, slots=True)
class JudgeShare:
    """An agent's share of good responses by one binary judge, corrected for the judge's errors."""

    agent: str
    judge: str
    share: float | None
    """None: not defined, ``note`` says why."""
    low: float | None
    high: float | None
    judged: float | None
    """The share that the judge passes, on unlabelled tasks."""
    sensitivity: float | None
    specificity: float | None
    good: int
    """Labelled good responses."""
    bad: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class NextLabel:
    """A task to label next."""

    task: str
    chance: float
    """Its chance to be drawn, needed to use its labels."""
    expected_change: float | None
    """How far its labels are expected to move the undecided differences; None: drawn at random, before any label."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Agents on the people's scale."""

    study: str
    fingerprint: str
    criterion: str | None
    level: float
    proxies: tuple[str, ...] = ()
    labelled: int = 0
    """Labelled tasks, each for all of its agents."""
    tasks: int = 0
    agents: tuple[CalibratedAgent, ...] = ()
    comparisons: tuple[CalibratedComparison, ...] = ()
    shares: tuple[JudgeShare, ...] = ()
    next_labels: tuple[NextLabel, ...] = ()
    rule: str | None = None
    """How the next labels were chosen; None: none were requested."""
    notes: tuple[str, ...] = ()
    signature: str = ""
    evaluation: Evaluation | None = field(default=None, metadata=HERE_ONLY)
    """The metrics computed as proxies."""

    def findings(self) -> Iterator[Said]:
        if self.agents:
            best = max(self.agents, key=lambda agent: agent.mean)
            ends = f"{best.low:.3f} to {best.high:.3f}"
            yield Name(best.agent), f" has the highest mean label: {best.mean:.3f} ({ends})."

    def tables(self) -> list[ReportTable]:
        found = [self._agent_table()] if self.agents else []
        found += [self._comparison_table()] if self.comparisons else []
        found += [self._share_table()] if self.shares else []
        return [*found, *([self._next_table()] if self.next_labels else [])]

    def to_markdown(self) -> str:
        return "\n".join([*(table.to_markdown() for table in self.tables()), *(f"- {note}" for note in self.notes), ""])

    def _interval(self) -> str:
        return f"{self.level * 100:g}%"

    def _agent_table(self) -> ReportTable:
        columns = (
            Column("agent", "agent", "name"),
            Column("mean", "mean", "number", decimals=2),
            Column("low high", self._interval(), "interval", decimals=2),
            Column("label_mean", "labels alone", "number", decimals=2),
            Column("labelled", "labelled tasks", "count"),
            Column("labels_worth", "worth", "number", decimals=1),
            Column("unlabelled", "unlabelled", "count"),
            Column("missing", "missing", "count", wide=True),
            Column("weights", "weights", wide=True),
        )
        rows: list[dict[str, Cell]] = []
        for one in sorted(self.agents, key=lambda agent: -agent.mean):
            weights = ", ".join(f"{name} {weight:.3g}" for name, weight in one.weights.items())
            rows.append({**write(one), "weights": weights})
        by = ", ".join(self.proxies)
        of = "" if self.criterion is None else f", {self.criterion}"
        return ReportTable(f"Agents on the people's scale{of}, with {by}", columns, tuple(rows), self.signature)

    def _comparison_table(self) -> ReportTable:
        columns = (
            Column("first", "first", "name"),
            Column("second", "second", "name"),
            Column("difference", "difference", "signed", decimals=2),
            Column("low high", self._interval(), "signed interval", decimals=2),
            Column("p_holm", "p", "probability"),
            Column("verdict", "decision"),
        )
        rows = tuple(map(write, self.comparisons))
        return ReportTable("Which agent do people prefer?", columns, rows, self.signature)

    def _share_table(self) -> ReportTable:
        columns = (
            Column("agent", "agent", "name"),
            Column("judge", "judge", "name"),
            Column("judged", "passed", "number", decimals=2),
            Column("share", "corrected", "number", decimals=2, reason="note"),
            Column("low high", self._interval(), "interval", decimals=2),
            Column("sensitivity", "sensitivity", "number", decimals=2),
            Column("specificity", "specificity", "number", decimals=2),
            Column("good", "good", "count"),
            Column("bad", "bad", "count"),
        )
        rows = tuple(map(write, self.shares))
        return ReportTable("Share of good responses, corrected for the judge's errors", columns, rows, self.signature)

    def _next_table(self) -> ReportTable:
        columns = (
            Column("task", "task", "name"),
            *([Column("expected_change", "expected change", "number", decimals=4)] if self.agents else []),
            Column("chance", "chance", "number", decimals=3),
        )
        rows = tuple(map(write, self.next_labels))
        return ReportTable(f"Label these {len(rows)} tasks next", columns, rows, notes=(self.rule or "",))
