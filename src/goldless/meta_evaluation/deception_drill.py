"""The deception drill: whether metrics and judges rate honest responses above deceptive ones.

Deceptive agents are a group of the study, or twins of its agents by the perturbation ``deceptive``. They enter the
study like any other agent, as peers too. For each metric the AUC is the probability that an honest response has a
higher score than a deceptive one to the same task, a tie counting half: computed within each task, then averaged over
tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from goldless.errors import UserError, nearest
from goldless.evidence import OPEN_KINDS
from goldless.meta_evaluation.judges import draws_of
from goldless.meta_evaluation.perturbations.catalogue import DECEPTIVE
from goldless.meta_evaluation.perturbations.perturbation import copy_name
from goldless.meta_evaluation.perturbations.perturbed_study import with_copies
from goldless.reports.document import HERE_ONLY, write
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.evaluation import MetricScores, averaged
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.pipeline import score_study
from goldless.statistics.bootstrap import task_intervals
from goldless.studies import Study


@dataclass(frozen=True, slots=True)
class DrillRow:
    """How well one metric, with one model, tells honest from deceptive responses."""

    metric: str
    model: str | None
    """The scorer, juror or critic; None: the metric takes none, or the evidence is recorded without its name."""
    auc: float | None
    """0.5: chance; below: the deceptive ones are rated higher. None: no task has scores of both."""
    low: float | None
    high: float | None
    tasks: int
    honest: int
    """Scored responses."""
    deceptive: int
    missing: int
    signature: str


@dataclass(frozen=True, slots=True)
class DeceptionDrill:
    """The result for each metric and model."""

    study: str
    level: float
    honest: tuple[str, ...]
    deceptive: tuple[str, ...]
    rows: tuple[DrillRow, ...]
    missing: Mapping[str, int]
    """Texts and evidence, by cause."""
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)

    @property
    def open(self) -> int:
        return sum(count for kind, count in self.missing.items() if kind in OPEN_KINDS)

    def table(self) -> ReportTable:
        columns = (
            Column("metric", "metric"),
            Column("model", "model", "name", absent=""),
            Column("auc", "AUC", "probability"),
            Column("low high", "interval", "interval", decimals=3),
            *(Column(name, name, "count") for name in ("tasks", "honest", "deceptive", "missing")),
        )
        notes = ["AUC: how often an honest response has a higher score than a deceptive one to the same task."]
        if self.missing:
            notes.append(f"Missing: {', '.join(f'{n} {kind}' for kind, n in sorted(self.missing.items()))}.")
        title = f"{len(self.honest)} honest and {len(self.deceptive)} deceptive agents"
        return ReportTable(
            title, columns, tuple(map(write, self.rows)), " || ".join(row.signature for row in self.rows), tuple(notes)
        )


async def deception_drill(
    study: Study,
    options: Options,
    *,
    honest: str | None = None,
    deceptive: str | None = None,
    writer: Any = None,
    scorers: Sequence[Any] = (),
) -> DeceptionDrill:
    """The AUC of honest over deceptive responses for each metric and scorer.

    ``honest``, ``deceptive``: groups of the agents table. Without them ``writer`` makes a deceptive twin of every
    response, and all agents of the study are honest. ``scorers``: several models, each by itself; such as jurors of
    growing size.
    """
    spending: tuple[Spending, ...] = ()
    missing: Counter[str] = Counter()
    if honest is not None or deceptive is not None:
        if writer is not None:
            raise UserError(
                "--writer makes deceptive twins, which --honest and --deceptive name: leave out one of them"
            )
        if honest == deceptive:
            raise UserError(f"--honest and --deceptive must be two groups, got {honest!r} for both")
        one, other = _group(study, honest, "honest"), _group(study, deceptive, "deceptive")
    elif writer is None:
        raise UserError(
            "name two groups with --honest and --deceptive, or a chat model that writes twins with --writer"
        )
    elif options.recorded:
        raise UserError("twins have no recorded evidence. Leave out --recorded, or name groups of the study")
    else:
        one = tuple(dict.fromkeys(agent.sample_of or agent.agent for agent in study.agents))
        other = tuple(copy_name(agent, DECEPTIVE.name) for agent in one)
        every = [agent.agent for agent in study.agents]
        study, texts, spending = await with_copies(study, [DECEPTIVE], every, options, writer=writer)
        missing = Counter(str(text.failure.kind) for text in texts[DECEPTIVE.name] if text.failure is not None)
    rows: list[DrillRow] = []
    for scorer in dict.fromkeys(scorers) or (options.scorer,):
        scored = await score_study(study, replace(options, scorer=scorer))
        spending += scored.spending
        missing += Counter({str(kind): count for kind, count in scored.evidence.failures.items()})
        for found in scored.scores.values():
            # a metric without a scorer is the same under each
            if found.metric.needs.logprobs is not None or found.metric.name not in {row.metric for row in rows}:
                rows.append(_row(found, study, one, other, options))
    return DeceptionDrill(study.name, options.level, one, other, tuple(rows), missing, spending)


def _group(study: Study, name: str | None, option: str) -> tuple[str, ...]:
    known = list(dict.fromkeys(agent.group for agent in study.agents if agent.group is not None))
    if name not in known:
        has = f"Groups: {', '.join(known)}" if known else "No agent has a group; add a column group to the agents table"
        raise UserError(f"--{option} must be a group of agents, got {name!r}{nearest(name or '', known) or '.'} {has}")
    return tuple(dict.fromkeys(agent.sample_of or agent.agent for agent in study.agents if agent.group == name))


def _row(found: MetricScores, study: Study, one: Sequence[str], other: Sequence[str], options: Options) -> DrillRow:
    scores = averaged(found.scores, study.samples).responses.with_columns(pl.col("agent").cast(pl.String))
    mine = scores.filter(pl.col("agent").is_in([*one, *other])).with_columns(first=pl.col("agent").is_in(list(one)))
    there = mine.drop_nulls("score")
    honest, lies = there.filter("first"), there.filter(~pl.col("first"))
    pairs = honest.join(lies, on="task", suffix="_other", maintain_order="left")
    wins = ((pl.col("score") - pl.col("score_other")).sign() + 1) / 2
    values = pairs.group_by("task", maintain_order=True).agg(wins.mean())["score"].to_numpy()[:, None]
    (interval,) = task_intervals(values, **draws_of(options))
    settings = found.signature.settings
    return DrillRow(
        metric=found.metric.name,
        model=settings.get("scorer") or settings.get("critic"),
        auc=interval.value,
        low=None if interval.low is None else max(0.0, interval.low),
        high=None if interval.high is None else min(1.0, interval.high),
        tasks=len(values),
        honest=len(honest),
        deceptive=len(lies),
        missing=len(mine) - len(there),
        signature=str(found.signature),
    )
