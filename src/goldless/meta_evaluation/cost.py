"""The result of ``goldless plan --cost``: what runs cost per task and in all, and would cost on more tasks.

Everything is read from the run folders: calls, tokens and US dollars by model, for all metrics of a run together,
because metrics of one run share evidence. If a folder also has a review, its spending is separate, and what other verbs
spent there belongs to neither. Replies from the journal were paid for before and are counted separately. A price that
is not known stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from goldless.errors import UserError
from goldless.files import MADE_BY
from goldless.models.interface import Usage
from goldless.reports.document import Result, cells, written_property
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.reports.run_record import Spending


@dataclass(frozen=True)
class ScaledCost:
    """The cost on another number of similar tasks, if no reply were in the journal."""

    tasks: int
    calls: float
    tokens: float | None
    """None: not known."""
    usd: float | None
    """None: price unknown."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one model in one run: for all its metrics together, or for its review."""

    run: str
    """The folder."""
    n_tasks: int
    """Number of its tasks with responses of at least two agents."""
    n_agents: int
    metrics: tuple[str, ...]
    """Several if the run computed them together."""
    part: str = ""
    """The model's role; empty: no model was called."""
    model: str = ""
    calls: int = 0
    reused: int = 0
    """Replies from the journal: paid for before, and not in the other numbers."""
    tokens: int = 0
    usd: float | None = 0.0
    """None: price unknown."""
    scaled: ScaledCost | None = None
    """None: there is nothing to scale."""

    @written_property
    def usd_per_task(self) -> float | None:
        """The cost of a task if no reply were in the journal; None: not known."""
        if self.scaled is None or self.scaled.usd is None:
            return None
        return self.scaled.usd / self.scaled.tasks


@dataclass(frozen=True)
class CostReport(Result):
    """The costs of runs, and the same on more tasks."""

    tasks: int
    """Number of tasks that costs are scaled to."""
    rows: tuple[Cost, ...]
    notes: tuple[str, ...] = field()

    @written_property
    def total(self) -> ScaledCost:
        """The sum over rows on that number of tasks; unknown if a part is unknown."""
        scaled = [row.scaled for row in self.rows]
        tokens = [None if cost is None else cost.tokens for cost in scaled]
        usd = [None if cost is None else cost.usd for cost in scaled]
        calls = sum(cost.calls for cost in scaled if cost is not None)
        return ScaledCost(self.tasks, calls, _sum(tokens), _sum(usd))

    def tables(self) -> list[ReportTable]:
        names = (
            Column("run", "run", "name"),
            Column("metric", "metric", "name"),
            Column("part", "role", "name", "no model"),
        )
        here = (
            *names,
            Column("model", "model", "name", wide=True),
            Column("n_tasks", "tasks", "count"),
            Column("n_agents", "agents", "count", wide=True),
            Column("calls", "calls", "count"),
            Column("reused", "reused", "count", wide=not any(row.reused for row in self.rows)),
            Column("tokens", "tokens", "count"),
            Column("usd", "USD", "usd", "unknown"),
            Column("usd_per_task", "USD/task", "usd", "unknown"),
        )
        there = (
            *names,
            Column("scaled_calls", "calls", "large"),
            Column("scaled_tokens", "tokens", "large", "unknown"),
            Column("scaled_usd", "USD", "usd", "unknown"),
        )
        rows = tuple(map(_cells, self.rows))
        return [
            ReportTable("Cost of the runs", here, rows),
            ReportTable(f"The same on {self.tasks:,} similar tasks", there, rows),
        ]


def _cells(cost: Cost) -> dict[str, object]:
    """The row of a table."""
    row = cells(cost, metric=", ".join(cost.metrics), usd_per_task=cost.usd_per_task)
    if cost.scaled is None:
        return row
    return row | {f"scaled_{name}": amount for name, amount in cells(cost.scaled).items()}


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None: one of the values is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def run_costs(runs: Sequence[Path | str], *, tasks: int = 10_000) -> CostReport:
    """The costs that run folders record, each model's per run, and the same on ``tasks`` tasks."""
    rows = tuple(row for folder in runs for row in _costs(RunFolder(folder, str(folder)), tasks))
    return CostReport(tasks, rows, tuple(_notes(rows)))


def _notes(rows: Sequence[Cost]) -> Iterator[str]:
    if any(row.reused for row in rows):
        yield "reused: from the journal, paid for before; costs on more tasks assume that every call is made again"
    for row in rows:
        if row.scaled is not None and row.scaled.tokens is None:
            yield f"{row.run}: all replies of {row.model} were in the journal, so it does not record their tokens"
    if any(row.calls for row in rows):
        yield "calls without a reply to keep, such as probes, are not counted on more tasks"
    if any(len(row.metrics) > 1 for row in rows):
        yield "metrics of one run share evidence, so their spending is given together"


# --- one run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Result:
    """Return the work and the cost of the models of a run's score, or of its review."""

    metrics: tuple[str, ...]
    spending: Sequence[Spending]
    models: Mapping[str, str]
    """By role."""
    limited: tuple[str, ...] = ()
    """Roles whose calls a budget limits, on any number of tasks."""


def _results(run: RunFolder) -> Iterator[_Result]:
    for name in ("leaderboard", "review", "made_by"):
        run.required(name)
    made, board, review = run.made_by.made, run.leaderboard, run.review
    if board is not None and "score" in made:
        models = {part: identity.short for part, identity in board.models.items()}
        limited = ("critic",) if any("calls" in metric.settings for metric in board.metrics.values()) else ()
        yield _Result(tuple(board.metrics), made["score"].spending, models, limited)
    if review is not None and "review" in made:
        models = {reviewer.name: reviewer.model or "" for reviewer in review.reviewers}
        yield _Result((f"review[{review.scale}]",), made["review"].spending, models)


def _costs(run: RunFolder, tasks: int) -> Iterator[Cost]:
    results = list(_results(run))
    if not results:
        raise UserError(
            f"{run.path} is not a run folder: it needs leaderboard.json or review.json, and {MADE_BY} that says what "
            "they cost. Write one with goldless score STUDY --out FOLDER or goldless review STUDY --out FOLDER"
        )
    study = run.study
    here = study.n_tasks_with_peers
    for result in results:
        empty = Cost(run=run.name, n_tasks=here, n_agents=len(study.agents), metrics=result.metrics)
        if not result.spending:
            yield replace(empty, scaled=ScaledCost(tasks, 0.0, 0.0, 0.0))
        for spent in result.spending:
            parts = [part for part, model in result.models.items() if model == spent.model]
            cost = replace(empty, part=", ".join(parts) or "model", model=spent.model, calls=spent.calls)
            cost = replace(cost, reused=spent.reused, tokens=_tokens(spent.usage), usd=spent.cost_usd)
            if here == 0:
                yield cost
                continue
            fixed = bool(parts) and set(parts) <= {*result.limited}
            yield replace(cost, scaled=_scaled(spent, tasks, 1.0 if fixed else tasks / here))


def _scaled(spent: Spending, tasks: int, times: float) -> ScaledCost:
    """Return the spending on the replies that are kept, for ``times`` as many, none of them from the journal.

    Such a reply costs what the run's calls cost. Where it made none, US dollars are those of all its replies, and
    tokens are not known.
    """
    kept = spent.calls if spent.kept is None else spent.kept
    replies = kept + spent.reused
    tokens = usd = None
    if kept:  # without probes and failed attempts, which do not grow with the tasks
        tokens = _tokens(spent.kept_usage or spent.usage) * replies / kept
        if spent.cost_usd is not None:
            usd = spent.cost_usd * tokens / max(1, _tokens(spent.usage))
    elif spent.result_usd is not None:
        usd = spent.result_usd - (spent.cost_usd or 0.0)
    tokens, usd = (None if amount is None else amount * times for amount in (tokens, usd))
    return ScaledCost(tasks, replies * times, tokens, usd)


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
