"""The perturbed study: a study with perturbed copies of its responses as further agents, ready to be scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.evidence import OPEN_KINDS
from goldless.meta_evaluation.perturbations.perturbation import (
    Must,
    Perturbation,
    PerturbedText,
    copy_name,
    perturb_all,
)
from goldless.records import Agent, Response
from goldless.reports.document import write
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.studies import Study, study_from_records, write_study

ORIGINAL, PEER = "original", "peer"


async def with_copies(
    study: Study, perturbations: Sequence[Perturbation], agents: Sequence[str], options: Options, *, writer: Any
) -> tuple[Study, dict[str, list[PerturbedText]], tuple[Spending, ...]]:
    """The study with a copy of each of these agents for every perturbation, and with the strategies as agents.

    It is without labels and recorded evidence. Also the texts by perturbation, and what they cost.
    """
    originals = [response for _, responses in study for response in responses if response.agent in agents]

    def changed(one: Perturbation) -> list[Response]:
        return [Response(task, one.name, "") for task in study.tasks] if one.is_strategy else originals

    texts, spending = await perturb_all(study, perturbations, changed, options, writer=writer, to="write responses")
    every = [*study.agents, *added_agents(study, perturbations, agents)]
    place = {agent.agent: number for number, agent in enumerate(every)}
    responses = [response for _, given in study for response in given]
    for one in perturbations:
        named = [(text.agent if one.is_strategy else text.copy, text) for text in texts[one.name]]
        responses += [Response(text.task, name, text.text) for name, text in named if text.text is not None]
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
    _check(study, folder, every, chosen, writer)
    joined, texts, spending = await with_copies(study, every, chosen, options, writer=writer)
    rows = []
    for one in every:
        own = texts[one.name]
        missing, same = sum(text.text is None for text in own), sum(text.unchanged for text in own)
        must = None if one.is_strategy else one.must
        rows.append(PerturbationRow(one.name, one.kind, must, len(own), len(own) - missing, same, missing))
    failures = [text.failure for own in texts.values() for text in own if text.failure is not None]
    found = PerturbedStudy(
        study=study.name,
        seed=options.seed,
        rows=tuple(rows),
        folder=None,
        peers=tuple(one.agent for one in study.agents if one.agent not in chosen),
        failures=dict(Counter(failure.kind for failure in failures)),
        examples={failure.kind: failure.message for failure in reversed(failures)},
        spending=next(iter(spending), None),
    )
    if found.open:
        return found
    known = [replace(one, group=ORIGINAL if one.agent in chosen else one.group or PEER) for one in study.agents]
    joined = joined.with_agents({agent.agent: agent for agent in known}).with_labels(study.label_table)
    return replace(found, folder=str(write_study(joined, folder)))


def _check(study: Study, folder: Path, every: Sequence[Perturbation], chosen: Sequence[str], writer: Any) -> None:
    """Refuse, before anything is paid for, what cannot be written; all that is wrong at once."""
    wrong = []
    if not all(each.is_strategy for each in every) and not study.n_responses:
        wrong.append(f"{study.name} has no responses to perturb")
    if not every:
        wrong.append("no perturbation and no strategy given. Name at least one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        wrong.append(f"{folder} already exists. Choose a new folder")
    added = {agent.agent for agent in added_agents(study, every, chosen)}
    if taken := sorted(added & {agent.agent for agent in study.agents}):
        wrong.append(f"the study already has agents named {', '.join(taken)}. Rename them first")
    if needy := [each.name for each in every if each.needs_writer and writer is None]:
        need, them = ("needs", "it") if len(needy) == 1 else ("need", "them")
        wrong.append(f"{', '.join(needy)} {need} a chat model. Name one with --writer, or leave {them} out")
    if wrong:
        raise UserError("\n".join(wrong))
