"""The perturbed study: a study with perturbed copies of its responses as further agents, ready to be scored."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from goldless.errors import UserError
from goldless.evidence import OPEN_KINDS
from goldless.files import temporary_prefix
from goldless.meta_evaluation.judges import agent_names
from goldless.meta_evaluation.perturbations.perturbation import (
    Made,
    Must,
    OpenWriter,
    Perturbation,
    copy_name,
    open_writer,
    perturb,
)
from goldless.meta_evaluation.strategies import Strategy, write_strategy
from goldless.records import Agent, CallFailure, Response
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.studies import Study, read_study, write_study

ORIGINAL, PEER = "original", "peer"
COLUMNS = (
    Column("perturbation", "perturbation"),
    Column("group", "group"),
    Column("must", "must", absent=""),
    *(Column(name, name, "count") for name in ("asked", "made", "missing", "unchanged")),
)


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

    @property
    def missing(self) -> int:
        """Number of texts that could not be made."""
        return self.asked - self.made


@dataclass(frozen=True, slots=True)
class PerturbationTable:
    """The texts made from a study."""

    study: str
    seed: int
    rows: tuple[PerturbationRow, ...]

    def as_json(self) -> dict[str, Any]:
        """The table as plain data."""
        rows = [{**asdict(row), "missing": row.missing} for row in self.rows]
        return {"study": self.study, "seed": self.seed, "perturbations": rows}

    def table(self) -> ReportTable:
        """A table for people to read."""
        rows = tuple({"perturbation": row.name, "missing": row.missing, **asdict(row)} for row in self.rows)
        return ReportTable("Texts made (must: how a sound metric reacts)", COLUMNS, rows)


@dataclass(frozen=True, slots=True)
class PerturbedStudy:
    """The texts made from a study."""

    table: PerturbationTable
    folder: Path | None
    """The folder it was written to; None: not written, because calls are still open."""
    peers: tuple[str, ...]
    """Agents that were not perturbed, to compare the copies with."""
    failures: Mapping[str, int]
    """Number of missing texts, by cause."""
    examples: Mapping[str, str]
    """One message per cause."""
    spending: Spending | None = None

    @property
    def open(self) -> int:
        """Number of texts that another run would request again."""
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)


@dataclass(slots=True)
class _Work:
    """What is to be made, and what has been made so far."""

    study: Study
    chosen: tuple[str, ...]
    """Agents whose responses are perturbed."""
    perturbations: Sequence[Perturbation]
    strategies: Sequence[Strategy]
    agents: list[Agent] = field(default_factory=list)
    responses: dict[str, list[Response]] = field(default_factory=dict)
    """By task."""
    rows: list[PerturbationRow] = field(default_factory=list)
    failures: list[CallFailure] = field(default_factory=list)

    @property
    def needs_writer(self) -> list[str]:
        """Names of those that need a chat model."""
        both: list[Perturbation | Strategy] = [*self.perturbations, *self.strategies]
        return [each.name for each in both if each.needs_writer]

    def add(self, task: str, agent: str, made: Made | None) -> None:
        """Add the result for a task and an agent."""
        if isinstance(made, str):
            self.responses.setdefault(task, []).append(Response(task, agent, made))
        elif made is not None:
            self.failures.append(made)


async def perturb_study(
    study: Study,
    folder: Path,
    *,
    perturbations: Sequence[Perturbation] = (),
    strategies: Sequence[Strategy] = (),
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
    work = _Work(
        study=study,
        chosen=_chosen(study, agents) if perturbations else (),
        perturbations=tuple(dict.fromkeys(perturbations)),
        strategies=tuple(dict.fromkeys(strategies)),
    )
    _check(work, folder, writer)
    needed = writer if work.needs_writer else None
    async with open_writer(needed, options, to="write perturbed responses") as opened:
        await _make(work, opened, options)
    found = PerturbedStudy(
        table=PerturbationTable(study.name, options.seed, tuple(work.rows)),
        folder=None,
        peers=tuple(agent.agent for agent in study.agents if agent.agent not in work.chosen),
        failures=dict(Counter(failure.kind for failure in work.failures)),
        examples={failure.kind: failure.message for failure in reversed(work.failures)},
        spending=next(iter(opened.spending), None),
    )
    return found if found.open else replace(found, folder=_write(work, folder))


def _chosen(study: Study, agents: Sequence[str] | None) -> tuple[str, ...]:
    known = agent_names(study)
    if agents is None:
        return known
    wanted = {agent.agent for agent in study.subset(agents=agents).agents}
    return tuple(agent for agent in known if agent in wanted)


def _check(work: _Work, folder: Path, writer: Any) -> None:
    """Refuse, before anything is paid for, what cannot be written; all that is wrong at once."""
    wrong = []
    if work.perturbations and not work.study.n_responses:
        wrong.append(f"{work.study.name} has no responses to perturb")
    if not work.perturbations and not work.strategies:
        wrong.append("no perturbation and no strategy given. Name at least one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        wrong.append(f"{folder} already exists. Choose a new folder")
    new = {copy_name(agent, each.name) for each in work.perturbations for agent in work.chosen}
    new |= {strategy.name for strategy in work.strategies}
    taken = sorted(new & {agent.agent for agent in work.study.agents})
    if taken:
        wrong.append(f"the study already has agents named {', '.join(taken)}. Rename them first")
    if work.needs_writer and writer is None:
        needy = work.needs_writer
        wrong.append(
            f"{', '.join(needy)} need{'s' * (len(needy) == 1)} a chat model. Name one with --writer, or leave "
            f"{'it' if len(needy) == 1 else 'them'} out"
        )
    if wrong:
        raise UserError("\n".join(wrong))


async def _make(work: _Work, writer: OpenWriter, options: Options) -> None:
    study, chosen = work.study, set(work.chosen)
    originals = [r for _, responses in study for r in responses if r.agent in chosen]
    how: dict[str, Any] = {"at_once": writer.at_once}
    for each in work.perturbations:
        how["tell"] = partial(writer.tell, each.name)
        texts = await perturb(study, each, responses=originals, seed=options.seed, writer=writer.chat, **how)
        work.agents += [Agent(copy_name(agent, each.name), group=each.kind) for agent in work.chosen]
        for text in texts:
            work.add(text.task, text.copy, text.failure or text.text)
        used, unchanged = sum(text.text is not None for text in texts), sum(text.unchanged for text in texts)
        work.rows.append(PerturbationRow(each.name, each.kind, each.must, len(texts), used, unchanged))
    tasks = [study.task(task) for task in study.tasks]
    for strategy in work.strategies:
        how["tell"] = partial(writer.tell, strategy.name)
        answers = await write_strategy(tasks, strategy, writer.chat, **how)
        work.agents.append(strategy.agent)
        for task, answer in zip(study.tasks, answers, strict=True):
            work.add(task, strategy.name, answer)
        used = sum(isinstance(answer, str) for answer in answers)
        work.rows.append(PerturbationRow(strategy.name, strategy.group, None, len(answers), used, 0))


def _write(work: _Work, folder: Path) -> Path:
    """The folder; its tables are checked like any other study's before they take their place."""
    study = work.study
    fresh = Path(tempfile.mkdtemp(prefix=temporary_prefix()))
    try:
        for table, rows in (
            ("tasks", study.rows("tasks")),
            ("agents", _agent_rows(work)),
            ("responses", _response_rows(work)),
            ("labels", study.rows("labels")),
        ):
            with (fresh / f"{table}.jsonl").open("wb") as lines:
                for row in rows:
                    lines.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        if not study.n_ratings + study.n_preferences:
            (fresh / "labels.jsonl").unlink()
        return write_study(read_study(fresh), folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _agent_rows(work: _Work) -> Iterator[dict[str, Any]]:
    """Perturbed agents are of the group ``original``, the others peers unless they have a group of their own."""
    known = [replace(a, group=ORIGINAL if a.agent in work.chosen else a.group or PEER) for a in work.study.agents]
    for agent in (*known, *work.agents):
        row = {name: getattr(agent, name) for name in Agent.__slots__}
        yield {name: value for name, value in row.items() if value is not None}


def _response_rows(work: _Work) -> Iterator[dict[str, Any]]:
    for task, responses in work.study:
        for response in (*responses, *work.responses.get(task.task, ())):
            yield {"task": response.task, "agent": response.agent, "text": response.text}
