"""The perturbed study: a study with perturbed copies of its responses as further agents, ready to be scored."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from goldless.errors import UserError
from goldless.evidence import OPEN_KINDS
from goldless.files import temporary_prefix
from goldless.meta_evaluation.judges import agent_names
from goldless.meta_evaluation.perturbations.perturbation import Must, Perturbation, copy_name, perturb_all
from goldless.records import Agent, Response
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.studies import Study, read_study, write_study

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
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)

    def as_json(self) -> dict[str, Any]:
        folder = None if self.folder is None else str(self.folder)
        rows = [asdict(row) for row in self.rows]
        return {"study": self.study, "seed": self.seed, "perturbations": rows, "folder": folder}

    def table(self) -> ReportTable:
        columns = (
            Column("perturbation", "perturbation"),
            Column("group", "group"),
            Column("must", "must", absent=""),
            *(Column(name, name, "count") for name in ("asked", "made", "missing", "unchanged")),
        )
        rows = tuple({"perturbation": row.name, **asdict(row)} for row in self.rows)
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
    wanted: set[str] = set()
    if not all(one.is_strategy for one in every):
        wanted = set(agent_names(study if agents is None else study.subset(agents=agents)))
    chosen = [agent for agent in agent_names(study) if agent in wanted]
    added = [
        Agent(name, group=one.kind)
        for one in every
        for name in ([one.name] if one.is_strategy else [copy_name(agent, one.name) for agent in chosen])
    ]
    _check(study, folder, every, added, writer)
    originals = [response for _, responses in study for response in responses if response.agent in wanted]
    texts, spending = await perturb_all(
        study,
        every,
        lambda one: [Response(task, one.name, "") for task in study.tasks] if one.is_strategy else originals,
        options,
        writer=writer,
        to="write perturbed responses",
    )
    rows: list[PerturbationRow] = []
    made: dict[str, list[Response]] = {}
    for one in every:
        own = texts[one.name]
        for text in own:
            if text.text is not None:
                agent = text.agent if one.is_strategy else text.copy
                made.setdefault(text.task, []).append(Response(text.task, agent, text.text))
        used, same = sum(text.text is not None for text in own), sum(text.unchanged for text in own)
        must = None if one.is_strategy else one.must
        rows.append(PerturbationRow(one.name, one.kind, must, len(own), used, same, len(own) - used))
    failures = [text.failure for own in texts.values() for text in own if text.failure is not None]
    found = PerturbedStudy(
        study=study.name,
        seed=options.seed,
        rows=tuple(rows),
        folder=None,
        peers=tuple(agent for agent in agent_names(study) if agent not in wanted),
        failures=dict(Counter(failure.kind for failure in failures)),
        examples={failure.kind: failure.message for failure in reversed(failures)},
        spending=next(iter(spending), None),
    )
    return found if found.open else replace(found, folder=_write(study, folder, wanted, added, made))


def _check(study: Study, folder: Path, every: Sequence[Perturbation], added: Sequence[Agent], writer: Any) -> None:
    """Refuse, before anything is paid for, what cannot be written; all that is wrong at once."""
    wrong = []
    if not all(each.is_strategy for each in every) and not study.n_responses:
        wrong.append(f"{study.name} has no responses to perturb")
    if not every:
        wrong.append("no perturbation and no strategy given. Name at least one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        wrong.append(f"{folder} already exists. Choose a new folder")
    taken = sorted({agent.agent for agent in added} & set(agent_names(study)))
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


def _write(
    study: Study,
    folder: Path,
    chosen: set[str],
    added: Sequence[Agent],
    responses: Mapping[str, Sequence[Response]],
) -> Path:
    """The folder; its tables are checked like any other study's before they take their place.

    Perturbed agents are of the group ``original``, the others peers unless they have a group of their own.
    """
    known = [replace(a, group=ORIGINAL if a.agent in chosen else a.group or PEER) for a in study.agents]
    agents = ({name: getattr(agent, name) for name in Agent.__slots__} for agent in (*known, *added))
    tables = {
        "tasks": study.rows("tasks"),
        "agents": ({name: value for name, value in row.items() if value is not None} for row in agents),
        "responses": (
            {"task": one.task, "agent": one.agent, "text": one.text}
            for task, own in study
            for one in (*own, *responses.get(task.task, ()))
        ),
        "labels": study.rows("labels"),
    }
    fresh = Path(tempfile.mkdtemp(prefix=temporary_prefix()))
    try:
        for table, rows in tables.items():
            with (fresh / f"{table}.jsonl").open("wb") as lines:
                for row in rows:
                    lines.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        if not study.n_ratings + study.n_preferences:
            (fresh / "labels.jsonl").unlink()
        return write_study(read_study(fresh), folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
