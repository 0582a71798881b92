"""The perturbed study: a study with perturbed copies of its responses as further agents, to be written or drilled.

The *deception drill* says whether metrics and judges rate honest responses above deceptive ones. Deceptive agents are a
group of the study, or twins of its agents by the perturbation ``deceptive``. They enter the study like any other agent,
as peers too. For each metric the AUC is the probability that an honest response has a higher score than a deceptive one
to the same task, a tie counting half: computed within each task, then averaged over tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError, nearest
from goldless.evidence import OPEN_KINDS
from goldless.meta_evaluation.judges import draws_of
from goldless.meta_evaluation.perturbations.catalogue import DECEPTIVE
from goldless.meta_evaluation.perturbations.perturbation import Must, Perturbation, copy_name, perturb_all
from goldless.records import Agent, Response
from goldless.reports.document import HERE_ONLY, write
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.evaluation import MetricScores, averaged
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.pipeline import score_study
from goldless.statistics.bootstrap import task_intervals
from goldless.studies import Study, study_from_records, write_study

ORIGINAL, PEER = "original", "peer"


async def with_copies(
    study: Study, perturbations: Sequence[Perturbation], agents: Sequence[str], options: Options, *, writer: Any
) -> tuple[Study, pl.DataFrame, tuple[Spending, ...]]:
    """The study with a copy of each of these agents for every perturbation, and with the strategies as agents.

    It is without labels and recorded evidence. Also the texts, and what they cost.
    """
    responses = [response for _, given in study for response in given]
    originals = [response for response in responses if response.agent in agents]

    def changed(one: Perturbation) -> list[Response]:
        return [Response(task, one.name, "") for task in study.tasks] if one.is_strategy else originals

    texts, spending = await perturb_all(study, perturbations, changed, options, writer=writer, to="write responses")
    every = [*study.agents, *added_agents(study, perturbations, agents)]
    place = {agent.agent: number for number, agent in enumerate(every)}
    copies = texts.drop_nulls("text").select("task", "copy", "text")
    responses += [Response(*row) for row in copies.iter_rows()]
    responses.sort(key=lambda response: place[response.agent])
    joined = study_from_records([study.task(task) for task in study.tasks], responses, name=study.name)
    return joined.with_agents({agent.agent: agent for agent in every}), texts, spending


def added_agents(study: Study, perturbations: Sequence[Perturbation], agents: Sequence[str]) -> list[Agent]:
    """The strategies, and the copies, which keep the family and samples of their originals."""
    found = []
    for one in perturbations:
        for agent in () if one.is_strategy else study.agents:
            if agent.agent in agents:
                sample_of = agent.sample_of and copy_name(agent.sample_of, one.name)
                name = copy_name(agent.agent, one.name)
                found.append(Agent(name, group=one.kind, family=agent.family, sample_of=sample_of))
        found += [Agent(one.name, group=one.kind)] * one.is_strategy
    return found


# --- writing it ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PerturbationRow:
    """One perturbation or strategy."""

    name: str
    group: str
    must: Must | None
    """None: a strategy."""
    asked: int
    made: int
    unchanged: int
    """Number of texts that the perturbation did not change, ignoring white space."""
    missing: int
    """Number of texts that could not be made."""


@dataclass(frozen=True, slots=True)
class PerturbedStudy:
    """The texts made from a study."""

    study: str
    seed: int
    rows: tuple[PerturbationRow, ...]
    folder: str | None
    """The folder it was written to; None: not written, because calls are still open."""
    peers: tuple[str, ...]
    """Agents that were not perturbed, to compare the copies with."""
    failures: Mapping[str, int]
    """Number of missing texts, by cause."""
    examples: Mapping[str, str]
    """One message per cause."""
    spending: Spending | None = None
    KEYS = ("study", "seed", "perturbations:rows", "folder")

    @property
    def open(self) -> int:
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)

    def table(self) -> ReportTable:
        columns = (
            Column("perturbation", "perturbation"),
            Column("group", "group"),
            Column("must", "must", absent=""),
            *(Column(name, name, "count") for name in ("asked", "made", "missing", "unchanged")),
        )
        rows = tuple({"perturbation": row.name, **write(row)} for row in self.rows)
        return ReportTable("Texts made (must: how a sound metric reacts)", columns, rows)


async def perturb_study(
    study: Study,
    folder: Path,
    perturbations: Sequence[Perturbation],
    *,
    agents: Sequence[str] | None = None,
    writer: Any = None,
    options: Options | None = None,
) -> PerturbedStudy:
    """Write a study with a copy of every agent for every perturbation, and with the strategies as agents.

    ``agents``: agents whose responses are perturbed; None: all. ``writer``: a model or its name. Of the options, seed,
    journal, budget, price, progress and messages are used. Nothing is written while calls are open: the same call
    resumes from the journal. Labels are kept; recorded evidence is not, since it does not cover the copies.
    """
    options = options or Options()
    every = list(dict.fromkeys(perturbations))
    chosen: list[str] = []
    if not all(one.is_strategy for one in every):
        chosen = [one.agent for one in (study if agents is None else study.subset(agents=agents)).agents]
        if not study.n_responses:
            raise UserError(f"{study.name} has no responses to perturb")
    _check_new(folder)
    added = {agent.agent for agent in added_agents(study, every, chosen)}
    if taken := sorted(added & {agent.agent for agent in study.agents}):
        raise UserError(f"the study already has agents named {', '.join(taken)}. Rename them first")
    joined, texts, spending = await with_copies(study, every, chosen, options, writer=writer)
    rows = []
    for one in every:
        # a perturbation and a strategy may have one name
        own = texts.filter(perturbation=one.name).filter((pl.col("copy") == pl.col("agent")) == one.is_strategy)
        missing, same = own["text"].null_count(), int(own["unchanged"].sum())
        must = None if one.is_strategy else one.must
        rows.append(PerturbationRow(one.name, one.kind, must, len(own), len(own) - missing, same, missing))
    failed = texts.drop_nulls("failure")
    found = PerturbedStudy(
        study=study.name,
        seed=options.seed,
        rows=tuple(rows),
        folder=None,
        peers=tuple(one.agent for one in study.agents if one.agent not in chosen),
        failures=dict(Counter(failed["failure"])),
        examples=dict(failed.reverse().select("failure", "message").iter_rows()),
        spending=next(iter(spending), None),
    )
    if found.open:
        return found
    known = [replace(one, group=ORIGINAL if one.agent in chosen else one.group or PEER) for one in study.agents]
    joined = joined.with_agents({agent.agent: agent for agent in known}).with_labels(study.label_table)
    return replace(found, folder=str(write_study(joined, folder)))


def _check_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} already exists. Choose a new folder")


# --- the deception drill ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrillRow:
    """Success of one metric, with one model, in telling honest from deceptive responses."""

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
        missing = Counter(texts["failure"].drop_nulls())
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
    scores = averaged(found, study.samples).responses.with_columns(pl.col("agent").cast(pl.String))
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
