"""The deception drill: whether metrics and judges rate honest responses above deceptive ones.

Deceptive agents are a group of the study, or twins of its agents that a chat model writes. They enter the study like
any other agent, as peers too. For each metric the AUC is the probability that an honest response has a higher score
than a deceptive one to the same task, a tie counting half: computed within each task, then averaged over tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from goldless.errors import UserError, nearest
from goldless.evidence import OPEN_KINDS
from goldless.meta_evaluation.perturbations.collusion import DECEPTIVE
from goldless.meta_evaluation.perturbations.perturbation import copy_name, open_writer, perturb
from goldless.records import Agent, Response
from goldless.reports.document import HERE_ONLY
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.outcomes import MetricScores
from goldless.runs.pipeline import score_study
from goldless.runs.samples import averaged
from goldless.statistics.bootstrap import task_intervals
from goldless.statistics.effects import auc
from goldless.studies import Study, study_from_records

HONEST, TWINS = "honest", "deceptive"
COLUMNS = (
    Column("metric", "metric"),
    Column("model", "model", "name", absent=""),
    Column("auc", "AUC", "probability"),
    Column("low high", "interval", "interval", decimals=3),
    Column("tasks", "tasks", "count"),
    Column("honest", "honest", "count"),
    Column("deceptive", "deceptive", "count"),
    Column("missing", "missing", "count"),
)


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
        """Calls that another run would make again."""
        return sum(count for kind, count in self.missing.items() if kind in OPEN_KINDS)

    def table(self) -> ReportTable:
        """A table for people to read."""
        notes = ["AUC: how often an honest response has a higher score than a deceptive one to the same task."]
        if self.missing:
            notes.append(f"Missing: {', '.join(f'{n} {kind}' for kind, n in sorted(self.missing.items()))}.")
        title = f"{len(self.honest)} honest and {len(self.deceptive)} deceptive agents"
        rows = tuple(asdict(row) for row in self.rows)
        return ReportTable(title, COLUMNS, rows, " || ".join(row.signature for row in self.rows), tuple(notes))


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
    spending: list[Spending] = []
    failures: Counter[str] = Counter()
    if honest is not None or deceptive is not None:
        if writer is not None:
            raise UserError(
                "--writer makes deceptive twins, which --honest and --deceptive name: leave out one of them"
            )
        if honest == deceptive:
            raise UserError(f"--honest and --deceptive must be two groups, got {honest!r} for both")
        one, other = _group(study, honest, HONEST), _group(study, deceptive, TWINS)
    else:
        study, one, other, made, spent = await _with_twins(study, options, writer)
        failures += made
        spending += spent
    rows: list[DrillRow] = []
    for scorer in dict.fromkeys(scorers) or (options.scorer,):
        scored = await score_study(study, replace(options, scorer=scorer))
        spending += scored.spending
        failures += Counter({str(kind): count for kind, count in scored.evidence.failures.items()})
        for found in scored.scores.values():
            plain = len(rows) > 0 and found.metric.needs.logprobs is None
            if not plain or found.metric.name not in {row.metric for row in rows}:
                rows.append(_row(found, study, one, other, options))
    return DeceptionDrill(study.name, options.level, one, other, tuple(rows), failures, tuple(spending))


def _group(study: Study, name: str | None, option: str) -> tuple[str, ...]:
    known = list(dict.fromkeys(agent.group for agent in study.agents if agent.group is not None))
    if name not in known:
        has = f"Groups: {', '.join(known)}" if known else "No agent has a group; add a column group to the agents table"
        raise UserError(f"--{option} must be a group of agents, got {name!r}{nearest(name or '', known) or '.'} {has}")
    return tuple(dict.fromkeys(agent.sample_of or agent.agent for agent in study.agents if agent.group == name))


async def _with_twins(
    study: Study, options: Options, writer: Any
) -> tuple[Study, tuple[str, ...], tuple[str, ...], Counter[str], tuple[Spending, ...]]:
    """The study with a deceptive twin of every agent, the names of both, and what is missing."""
    if writer is None:
        raise UserError(
            "name two groups with --honest and --deceptive, or a chat model that writes twins with --writer"
        )
    if options.recorded:
        raise UserError("twins have no recorded evidence. Leave out --recorded, or name groups of the study")
    originals = [response for _, responses in study for response in responses]
    async with open_writer(writer, options, to="write deceptive twins") as opened:
        texts = await perturb(
            study,
            DECEPTIVE,
            responses=originals,
            seed=options.seed,
            writer=opened.chat,
            at_once=opened.at_once,
            tell=partial(opened.tell, DECEPTIVE.name),
        )
        spent = opened.spending
    copies = [Response(text.task, text.copy, text.text) for text in texts if text.text is not None]
    tasks = [study.task(task) for task in study.tasks]
    joined = study_from_records(tasks, [*originals, *copies], name=study.name)
    twin = partial(copy_name, perturbation=DECEPTIVE.name)
    agents = {agent.agent: agent for agent in study.agents}
    agents |= {
        name: Agent(name, group=TWINS, family=agent.family, sample_of=agent.sample_of and twin(agent.sample_of))
        for agent in study.agents
        if (name := twin(agent.agent))
    }
    one = tuple(dict.fromkeys(agent.sample_of or agent.agent for agent in study.agents))
    failures = Counter(str(text.failure.kind) for text in texts if text.failure is not None)
    return joined.with_agents(agents), one, tuple(map(twin, one)), failures, spent


def _row(found: MetricScores, study: Study, one: Sequence[str], other: Sequence[str], options: Options) -> DrillRow:
    scores = averaged(found.scores, study.samples).responses.with_columns(pl.col("task", "agent").cast(pl.String))
    mine = scores.filter(pl.col("agent").is_in([*one, *other]))
    first = pl.col("agent").is_in(list(one))
    by_task = [
        auc(rows.filter(first)["score"].to_numpy(), rows.filter(~first)["score"].to_numpy())
        for _, rows in mine.drop_nulls("score").group_by("task", maintain_order=True)
    ]
    values = np.array([[value] for value in by_task if value is not None]).reshape(-1, 1)
    (interval,) = task_intervals(values, seed=options.seed, resamples=options.resamples, level=options.level)
    there = mine.drop_nulls("score")
    settings = found.signature.settings
    return DrillRow(
        metric=found.metric.name,
        model=settings.get("scorer") or settings.get("critic"),
        auc=interval.value,
        low=None if interval.low is None else max(0.0, interval.low),
        high=None if interval.high is None else min(1.0, interval.high),
        tasks=len(values),
        honest=len(there.filter(first)),
        deceptive=len(there.filter(~first)),
        missing=len(mine) - len(there),
        signature=str(found.signature),
    )
