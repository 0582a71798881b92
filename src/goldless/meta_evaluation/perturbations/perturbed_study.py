"""The perturbed study: a study with perturbed copies of its responses as further agents, ready to be scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.evidence import OPEN_KINDS
from goldless.meta_evaluation.perturbations.perturbation import Must, Perturbation, copy_name, perturb_all
from goldless.records import Agent, Response
from goldless.reports.document import write
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.studies import Study, study_from_records, write_study

ORIGINAL, PEER = "original", "peer"


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
    added = [
        Agent(name, group=one.kind)
        for one in every
        for name in ([one.name] if one.is_strategy else [copy_name(agent, one.name) for agent in chosen])
    ]
    _check(study, folder, every, added, writer)
    originals = [response for _, responses in study for response in responses if response.agent in chosen]
    texts, spending = await perturb_all(
        study,
        every,
        lambda one: [Response(task, one.name, "") for task in study.tasks] if one.is_strategy else originals,
        options,
        writer=writer,
        to="write perturbed responses",
    )
    rows: list[PerturbationRow] = []
    made: list[Response] = []
    for one in every:
        own = texts[one.name]
        new = [
            Response(text.task, text.agent if one.is_strategy else text.copy, text.text)
            for text in own
            if text.text is not None
        ]
        same, must = sum(text.unchanged for text in own), None if one.is_strategy else one.must
        rows.append(PerturbationRow(one.name, one.kind, must, len(own), len(new), same, len(own) - len(new)))
        made += new
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
    joined = with_agents(study, made, [*known, *added]).with_labels(study.label_table)
    return replace(found, folder=str(write_study(joined, folder)))


def with_agents(study: Study, responses: Iterable[Response], agents: Sequence[Agent]) -> Study:
    """The study with further responses, without labels and recorded evidence; ``agents``: all of them, in order."""
    place = {agent.agent: number for number, agent in enumerate(agents)}
    every = [*(response for _, given in study for response in given), *responses]
    every.sort(key=lambda response: place[response.agent])
    joined = study_from_records([study.task(task) for task in study.tasks], every, name=study.name)
    return joined.with_agents({agent.agent: agent for agent in agents})


def _check(study: Study, folder: Path, every: Sequence[Perturbation], added: Sequence[Agent], writer: Any) -> None:
    """Refuse, before anything is paid for, what cannot be written; all that is wrong at once."""
    wrong = []
    if not all(each.is_strategy for each in every) and not study.n_responses:
        wrong.append(f"{study.name} has no responses to perturb")
    if not every:
        wrong.append("no perturbation and no strategy given. Name at least one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        wrong.append(f"{folder} already exists. Choose a new folder")
    taken = sorted({agent.agent for agent in added} & {agent.agent for agent in study.agents})
    if taken:
        wrong.append(f"the study already has agents named {', '.join(taken)}. Rename them first")
    needy = [each.name for each in every if each.needs_writer]
    if needy and writer is None:
        wrong.append(
            f"{', '.join(needy)} need{'s' * (len(needy) == 1)} a chat model. Name one with --writer, or leave "
            f"{'it' if len(needy) == 1 else 'them'} out"
        )
    if wrong:
        raise UserError("\n".join(wrong))
