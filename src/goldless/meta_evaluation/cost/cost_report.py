"""The result of ``goldless cost``: costs of metrics and reviewers on a study and on more tasks, and panels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from goldless.meta_evaluation.cost.judgement_costs import ReviewerCost
from goldless.meta_evaluation.cost.panels import Frontier
from goldless.models.call_paces import Pace
from goldless.reports.document import write
from goldless.reports.findings import Said
from goldless.reports.report_table import Column, ReportTable

Source = Literal["spent", "planned", "estimated", "no model", "not known"]
"""``spent``: charged in a run. ``planned``: from a plan. ``estimated``: tokens of judgements by the length of the text
or as given. ``no model``: no model is called. ``not known``: a custom metric, which may call any model."""


@dataclass(frozen=True, slots=True)
class ScaledCost:
    """The cost on another number of similar tasks."""

    tasks: int
    calls: float
    tokens: float
    tokens_low: float | None = None
    """Interval of the mean over tasks; None: too few tasks, or the cost does not depend on tasks."""
    tokens_high: float | None = None
    usd: float | None = None
    """None: price unknown."""
    usd_low: float | None = None
    usd_high: float | None = None
    seconds: float | None = None
    """None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one model for one metric, or for all metrics of a run."""

    metrics: tuple[str, ...]
    """Several if a run computed them together."""
    part: str
    """The model's role; empty: no model is called."""
    model: str
    source: Source
    run: str | None = None
    """The folder it was read from."""
    calls: int = 0
    reused: int = 0
    """Replies from the journal: paid for before, and not in the other numbers."""
    tokens: int = 0
    usd: float | None = 0.0
    """None: price unknown."""
    seconds: float | None = None
    """None: not known."""
    unkept_calls: int = 0
    """Calls without a reply to keep: probes and failed attempts, which do not grow with the tasks."""
    unkept_tokens: int = 0
    growth: str = ""
    """How calls grow, in words."""
    fixed: bool = False
    """Whether the cost does not depend on the number of tasks, as with a budget of calls."""
    even: bool = False
    """Whether tokens are assumed equal on every task, so that an interval over tasks would be meaningless."""
    pace: Pace | None = None
    """The model's calls in the journal."""
    scaled: ScaledCost | None = None
    """None: there is nothing to scale."""

    @property
    def row(self) -> dict[str, Any]:
        """The cost as one row of a table."""
        row = {**write(self), "metric": ", ".join(self.metrics)}
        scaled = self.scaled
        if scaled is not None:
            row |= {f"scaled_{name}": value for name, value in write(scaled).items()}
            if scaled.tokens and scaled.tokens_low and scaled.tokens_high:
                row |= {
                    "share_low": scaled.tokens_low / scaled.tokens,
                    "share_high": scaled.tokens_high / scaled.tokens,
                }
        return row


@dataclass(frozen=True, slots=True)
class CostReport:
    """The costs of metrics and reviewers on a study and on more tasks."""

    study: str
    n_tasks: int
    """Number of tasks with responses of at least two agents."""
    n_agents: int
    tasks: int
    """Number of tasks that costs are scaled to."""
    level: float
    rows: tuple[Cost, ...]
    notes: tuple[str, ...]
    reviewers: tuple[ReviewerCost, ...] = ()
    """What the reviewers' judgements cost."""
    panels: Frontier | None = None
    """Panels of the reviewers; None: they were not compared."""
    KEYS = ("study", "n_tasks", "n_agents", "tasks", "level", "rows", "notes", "total", "reviewers", "panels")

    @property
    def total(self) -> ScaledCost | None:
        """The sum over rows on the larger number of tasks; unknown if a price is unknown. None: no rows."""
        rows = [row.scaled for row in self.rows if row.scaled is not None]
        if not rows:
            return None
        asked = [row.scaled for row in self.rows if row.source != "no model"]
        return ScaledCost(
            self.tasks,
            calls=sum(row.calls for row in rows),
            tokens=sum(row.tokens for row in rows),
            usd=_sum(None if row.scaled is None else row.scaled.usd for row in self.rows),
            seconds=_sum(None if scaled is None else scaled.seconds for scaled in asked),
        )

    def findings(self) -> Iterator[Said]:
        """What accuracy the money buys, where panels were compared."""
        yield from () if self.panels is None else self.panels.findings()

    def tables(self) -> list[ReportTable]:
        """Costs here, on more tasks, of reviewers, and panels, as far as there are any."""
        found = [self.table(), self.scaled_table(), *[self.reviewer_table()] * bool(self.reviewers)]
        return [*found, *(() if self.panels is None else self.panels.tables())]

    def table(self) -> ReportTable:
        """A table of costs on this study."""
        columns = (
            Column("metric", "metric", "name"),
            Column("part", "role", "name", ""),
            Column("model", "model", "name", wide=True),
            Column("source", "source"),
            Column("calls", "calls", "count"),
            Column("reused", "reused", "count", wide=not any(row.reused for row in self.rows)),
            Column("tokens", "tokens", "count"),
            Column("usd", "USD", "usd", "unknown"),
            Column("seconds", "time", "seconds", "?"),
        )
        title = f"Cost on {self.study}: {self.n_tasks} tasks, {self.n_agents} agents"
        return ReportTable(title, columns, tuple(row.row for row in self.rows))

    def scaled_table(self) -> ReportTable:
        """A table of costs on more tasks."""
        interval = f"{self.level * 100:g}% interval"
        columns = (
            Column("metric", "metric", "name"),
            Column("part", "role", "name", ""),
            Column("scaled_calls", "calls", "large"),
            Column("scaled_tokens", "tokens", "large"),
            Column("scaled_usd", "USD", "usd", "unknown"),
            Column("share_low share_high", interval, "shares", decimals=1),
            Column("scaled_seconds", "time", "seconds", "?"),
            Column("scaled_tokens_low scaled_tokens_high", "tokens", "interval", decimals=0, wide=True),
            Column("scaled_usd_low scaled_usd_high", "USD", "interval", decimals=2, wide=True),
            Column("growth", "grows with", wide=True),
        )
        title = f"The same on {self.tasks:,} similar tasks with {self.n_agents} agents"
        return ReportTable(title, columns, tuple(row.row for row in self.rows))

    def reviewer_table(self) -> ReportTable:
        """One row per reviewer."""
        columns = (
            Column("reviewer", "reviewer", "name"),
            Column("judgements", "judgements", "count"),
            Column("tokens_a_judgement", "tokens each", "count"),
            Column("tokens_from", "token source"),
            Column("input_usd_per_million", "USD/M in", "usd", "?"),
            Column("output_usd_per_million", "out", "usd", "?"),
            Column("price_from", "price source"),
            Column("usd", "USD", "usd", "unknown", wide=True),
        )
        return ReportTable("Reviewers' judgements", columns, tuple(map(write, self.reviewers)))


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None: one of the values is not known."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None
