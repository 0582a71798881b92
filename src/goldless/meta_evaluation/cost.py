"""The result of ``goldless plan --cost``: what runs cost per task and in all, and would cost on more tasks.

Everything is read from the run folders: calls, tokens and US dollars by model, for all metrics of a run together,
because metrics of one run share evidence. If a folder also has a review, its spending is separate, and what other verbs
spent there belongs to neither. Replies from the journal were paid for before and are counted separately. A price that
is not known stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import numpy as np

from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.files import MADE_BY
from goldless.judging.judges import find_judge
from goldless.models.interface import Usage
from goldless.reports.document import write
from goldless.reports.findings import Said
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.reports.run_record import Spending
from goldless.signature import Signature
from goldless.statistics.bootstrap import ABSENT, USUAL, Draws, Estimate, task_intervals
from goldless.studies import Study

READ_ONCE = ("rewriter", "synopsis writer")
"""Roles, by how they begin, that read each response once; the others of a score read it with every other one."""


@dataclass(frozen=True)
class ScaledCost:
    """The cost on another number of similar tasks, if no reply were in the journal."""

    tasks: int
    calls: float
    tokens: Estimate
    """None: not known. Without an interval: too few tasks, or the cost does not depend on tasks."""
    usd: Estimate
    """None: price unknown."""
    KEYS = (
        *("tasks", "calls", "tokens:tokens.value", "tokens_low:tokens.low", "tokens_high:tokens.high"),
        *("usd:usd.value", "usd_low:usd.low", "usd_high:usd.high"),
    )


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

    @property
    def usd_per_task(self) -> float | None:
        """The cost of a task if no reply were in the journal; None: not known."""
        if self.scaled is None or self.scaled.usd.value is None:
            return None
        return self.scaled.usd.value / self.scaled.tasks

    KEYS = ("*", "usd_per_task")


@dataclass(frozen=True)
class CostReport:
    """The costs of runs, and the same on more tasks."""

    tasks: int
    """Number of tasks that costs are scaled to."""
    level: float
    rows: tuple[Cost, ...]
    notes: tuple[str, ...]
    KEYS = ("*", "total")

    @property
    def total(self) -> ScaledCost:
        """The sum over rows on that number of tasks; unknown if a part is unknown."""
        scaled = [row.scaled for row in self.rows]
        tokens = [None if cost is None else cost.tokens.value for cost in scaled]
        usd = [None if cost is None else cost.usd.value for cost in scaled]
        calls = sum(cost.calls for cost in scaled if cost is not None)
        return ScaledCost(self.tasks, calls, Estimate(_sum(tokens)), Estimate(_sum(usd)))

    def findings(self) -> Iterator[Said]:
        yield from ()

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
            Column("share_low share_high", f"{self.level * 100:g}% interval", "shares", decimals=1),
            Column("scaled_tokens_low scaled_tokens_high", "tokens", "interval", decimals=0, wide=True),
            Column("scaled_usd_low scaled_usd_high", "USD", "interval", decimals=2, wide=True),
        )
        rows = tuple(map(_cells, self.rows))
        return [
            ReportTable("Cost of the runs", here, rows),
            ReportTable(f"The same on {self.tasks:,} similar tasks", there, rows),
        ]


def _cells(cost: Cost) -> dict[str, object]:
    """The row of a table."""
    row = {**write(cost), "metric": ", ".join(cost.metrics)}
    if cost.scaled is None:
        return row
    row |= {f"scaled_{name}": value for name, value in write(cost.scaled).items()}
    tokens = cost.scaled.tokens
    if tokens.value and tokens.low and tokens.high:
        row |= {"share_low": tokens.low / tokens.value, "share_high": tokens.high / tokens.value}
    return row


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None: one of the values is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def run_costs(runs: Sequence[Path | str], *, tasks: int = 10_000, **draws: Unpack[Draws]) -> CostReport:
    """The costs that run folders record, each model's per run, and the same on ``tasks`` tasks."""
    settings: Draws = {**USUAL, **draws}
    rows = tuple(row for folder in runs for row in _costs(RunFolder(folder, str(folder)), tasks, settings))
    return CostReport(tasks, settings["level"], rows, tuple(_notes(rows)))


def _notes(rows: Sequence[Cost]) -> Iterator[str]:
    if any(row.reused for row in rows):
        yield "reused: from the journal, paid for before; costs on more tasks assume that every call is made again"
    for row in rows:
        if row.scaled is not None and row.scaled.tokens.value is None:
            yield f"{row.run}: all replies of {row.model} were in the journal, so it does not record their tokens"
    if any(row.calls for row in rows):
        yield "calls without a reply to keep, such as probes, are not counted on more tasks"
    if any(len(row.metrics) > 1 for row in rows):
        yield "metrics of one run share evidence, so their spending is given together"
    if any(row.scaled is not None and row.scaled.tokens.low is not None for row in rows):
        yield "intervals: Student's t or bootstrap over tasks, of the length of what is read on a task"


# --- one run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Result:
    """Return the work and the cost of the models of a run's score, or of its review."""

    metrics: tuple[str, ...]
    spending: Sequence[Spending]
    models: Mapping[str, str]
    """By role."""
    read_once: tuple[str, ...]
    """The beginnings of roles that read each response once."""
    limited: tuple[str, ...] = ()
    """Roles whose calls a budget limits, on any number of tasks."""


def _results(run: RunFolder) -> Iterator[_Result]:
    for name in ("leaderboard", "review", "made_by"):
        run.required(name)
    made, board, review = run.made_by.made, run.leaderboard, run.review
    if board is not None and "score" in made:
        models = {part: identity.short for part, identity in board.models.items()}
        settings = [Signature.parse(metric.signature).settings for metric in board.metrics.values()]
        limited = ("critic",) if any("calls" in one for one in settings) else ()
        yield _Result(tuple(board.metrics), made["score"].spending, models, READ_ONCE, limited)
    if review is not None and "review" in made:
        models = {reviewer.name: reviewer.model or "" for reviewer in review.reviewers}
        once = () if find_judge(review.scale).pairwise else tuple(models)
        yield _Result((f"review[{review.scale}]",), made["review"].spending, models, once)


def _costs(run: RunFolder, tasks: int, draws: Draws) -> Iterator[Cost]:
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
            yield replace(empty, scaled=ScaledCost(tasks, 0.0, Estimate(0.0), Estimate(0.0)))
        for spent in result.spending:
            parts = [part for part, model in result.models.items() if model == spent.model]
            cost = replace(empty, part=", ".join(parts) or "model", model=spent.model, calls=spent.calls)
            cost = replace(cost, reused=spent.reused, tokens=_tokens(spent.usage), usd=spent.cost_usd)
            if here == 0:
                yield cost
                continue
            fixed = bool(parts) and set(parts) <= {*result.limited}
            pairs = not parts or not all(part.startswith(result.read_once) for part in parts)
            share = ABSENT if fixed else _length(study, draws, pairs=pairs)
            yield replace(cost, scaled=_scaled(spent, tasks, 1.0 if fixed else tasks / here, share))


def _length(study: Study, draws: Draws, *, pairs: bool) -> Estimate:
    """The mean length of what is read on a task, as a share of itself.

    ``pairs``: every response is read with every other one; else each once.
    """
    lengths = []
    for task, responses in study.with_peers():
        texts = sum(len(response.text) for response in responses)
        prompts = len(responses) * len(task.prompt or "")
        lengths.append((len(responses) - 1) * (2 * texts + prompts) if pairs else texts + prompts)
    read: FloatArray = np.array(lengths, np.float64)
    mean = float(read.mean())
    if mean <= 0:
        return ABSENT
    (share,) = task_intervals(read[:, None] / mean, **draws)
    return share if share.low is None else replace(share, low=max(0.0, share.low))


def _scaled(spent: Spending, tasks: int, times: float, share: Estimate) -> ScaledCost:
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
    return ScaledCost(tasks, replies * times, _times(share, tokens, times), _times(share, usd, times))


def _times(share: Estimate, amount: float | None, times: float) -> Estimate:
    """A share of an amount, ``times`` as much."""
    whole = None if amount is None else amount * times
    low, high = (None if end is None or whole is None else end * whole for end in (share.low, share.high))
    return replace(share, value=whole, low=low, high=high)


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
