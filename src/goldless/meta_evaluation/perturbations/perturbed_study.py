"""The perturbed study: a study with perturbed copies of its responses as further agents, ready to be scored."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from goldless.errors import UserError
from goldless.evidence import OPEN_KINDS
from goldless.meta_evaluation.perturbations.applying import perturb
from goldless.meta_evaluation.perturbations.catalogue import Perturbation
from goldless.meta_evaluation.perturbations.perturbation_table import PerturbationRow, PerturbationTable
from goldless.meta_evaluation.strategies import Strategy, write_strategy
from goldless.models.cache import default_journal
from goldless.models.journal import Journal
from goldless.records import Agent, CallFailure, Response
from goldless.runs.collection import CALLS_AT_ONCE
from goldless.runs.opening import OpenModel, Part, Spending, open_models, refuse_without_chat
from goldless.runs.options import Options, Progress
from goldless.studies import Study, read_study, write_study

MARK = "~"
"""Between an agent's name and the perturbation of its copy."""
ORIGINAL, PEER = "original", "peer"


@dataclass(frozen=True, slots=True)
class PerturbedStudy:
    """What was made of a study."""

    table: PerturbationTable
    folder: Path | None
    """Where it was written; None: nothing was, as calls are still open."""
    peers: tuple[str, ...]
    """Agents that were not perturbed, to hold the copies against."""
    failures: Mapping[str, int]
    """Texts that are missing, by cause."""
    examples: Mapping[str, str]
    """One message for each cause."""
    spending: Spending | None = None

    @property
    def open(self) -> int:
        """Texts that a second run would ask for again."""
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be made."""

    study: Study
    chosen: tuple[str, ...]
    """Agents whose responses are perturbed."""
    perturbations: Sequence[Perturbation]
    strategies: Sequence[Strategy]

    @property
    def needs_writer(self) -> list[str]:
        """Names of those that a chat model makes."""
        both: list[Perturbation | Strategy] = [*self.perturbations, *self.strategies]
        return [each.name for each in both if each.needs_writer]


@dataclass(slots=True)
class _Made:
    """What has been made so far."""

    agents: list[Agent] = field(default_factory=list)
    responses: dict[str, list[Response]] = field(default_factory=dict)
    """By task."""
    rows: list[PerturbationRow] = field(default_factory=list)
    failures: list[CallFailure] = field(default_factory=list)

    def add(self, task: str, agent: str, text: str | None, failure: CallFailure | None) -> None:
        if text is not None:
            self.responses.setdefault(task, []).append(Response(task, agent, text))
        if failure is not None:
            self.failures.append(failure)


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

    ``agents``: whose responses are perturbed; None: all. ``writer``: a model or its name. Of the options, seed,
    journal, budget, price, progress and messages count. Nothing is written while calls are open: the same call
    goes on from the journal. Labels are kept; recorded evidence is not, as it knows nothing of the copies.
    """
    options = options or Options()
    work = _Work(
        study=study,
        chosen=_chosen(study, agents) if perturbations else (),
        perturbations=tuple(dict.fromkeys(perturbations)),
        strategies=tuple(dict.fromkeys(strategies)),
    )
    _check(work, folder, writer)
    made, spending = _Made(), None
    if not work.needs_writer:
        await _make(work, made, None, options)
    else:
        journal = Journal(options.journal or default_journal())
        try:
            async with open_models([Part("writer", writer, "chat")], options, journal) as models:
                refuse_without_chat(models["writer"], "write perturbed responses")
                await _make(work, made, models["writer"], options)
                spending = models["writer"].spending
        finally:
            journal.close()
    counts: Counter[str] = Counter(failure.kind for failure in made.failures)
    found = PerturbedStudy(
        table=PerturbationTable(study.name, options.seed, tuple(made.rows)),
        folder=None,
        peers=tuple(agent.agent for agent in study.agents if agent.agent not in work.chosen),
        failures=dict(counts),
        examples={failure.kind: failure.message for failure in reversed(made.failures)},
        spending=spending,
    )
    return found if found.open else replace(found, folder=_write(work, made, folder))


def _chosen(study: Study, agents: Sequence[str] | None) -> tuple[str, ...]:
    known = [agent.agent for agent in study.agents]
    if agents is None:
        return tuple(known)
    wanted = {agent.agent for agent in study.subset(agents=agents).agents}
    return tuple(agent for agent in known if agent in wanted)


def _check(work: _Work, folder: Path, writer: Any) -> None:
    """Refuse, before anything is paid for, what cannot be written; all that is wrong at once."""
    wrong = []
    if work.perturbations and not work.study.n_responses:
        wrong.append(f"{work.study.name} has no responses, so there is nothing to perturb")
    if not work.perturbations and not work.strategies:
        wrong.append("no perturbation and no strategy was named")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        wrong.append(f"{folder} is there already and is not written over; name a new folder")
    new = {f"{agent}{MARK}{each.name}" for each in work.perturbations for agent in work.chosen}
    new |= {strategy.name for strategy in work.strategies}
    taken = sorted(new & {agent.agent for agent in work.study.agents})
    if taken:
        wrong.append(f"the study already has agents of the names {', '.join(taken)}; rename them first")
    if work.needs_writer and writer is None:
        needy = work.needs_writer
        wrong.append(
            f"{', '.join(needy)} need{'s' * (len(needy) == 1)} a chat model: name one as writer (--writer), or leave "
            f"{'it' if len(needy) == 1 else 'them'} out"
        )
    if wrong:
        raise UserError("\n".join(wrong))


async def _make(work: _Work, made: _Made, writer: OpenModel | None, options: Options) -> None:
    flight = 1 if writer is None or writer.local else CALLS_AT_ONCE
    chat = None if writer is None else writer.chat
    study, chosen = work.study, set(work.chosen)
    originals = [r for _, responses in study for r in responses if r.agent in chosen]
    for each in work.perturbations:
        texts = await perturb(
            study,
            each,
            responses=originals,
            seed=options.seed,
            writer=chat,
            at_once=flight,
            tell=partial(_tell, options, writer, each.name),
        )
        made.agents += [Agent(f"{agent}{MARK}{each.name}", group=each.kind) for agent in work.chosen]
        for text in texts:
            made.add(text.task, f"{text.agent}{MARK}{each.name}", text.text, text.failure)
        used = sum(text.text is not None for text in texts)
        unchanged = sum(text.unchanged for text in texts)
        made.rows.append(PerturbationRow(each.name, each.kind, each.must, len(texts), used, unchanged))
    tasks = [study.task(task) for task in study.tasks]
    for strategy in work.strategies:
        tell = partial(_tell, options, writer, strategy.name)
        answers = await write_strategy(tasks, strategy, chat, at_once=flight, tell=tell)
        made.agents.append(strategy.agent)
        for answer in answers:
            made.add(answer.task, answer.agent, answer.text, answer.failure)
        used = sum(answer.text is not None for answer in answers)
        made.rows.append(PerturbationRow(strategy.name, strategy.group, None, len(answers), used, 0))


def _tell(options: Options, writer: OpenModel | None, stage: str, done: int, total: int) -> None:
    if writer is not None:
        ledger = writer.ledger
        tokens = ledger.usage.input_tokens + ledger.usage.output_tokens
        cost = None if ledger.price is None else ledger.spent_usd
        options.progress(Progress(stage, done, total, tokens, cost))


def _write(work: _Work, made: _Made, folder: Path) -> Path:
    """The folder; its tables are checked like any other study's before they take their place."""
    study = work.study
    fresh = Path(tempfile.mkdtemp(prefix="goldless-"))
    try:
        for table, rows in (
            ("tasks", study.rows("tasks")),
            ("agents", _agent_rows(work, made)),
            ("responses", _response_rows(study, made)),
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


def _agent_rows(work: _Work, made: _Made) -> Iterator[dict[str, Any]]:
    """Perturbed agents are of the group ``original``, the others peers unless they have a group of their own."""
    known = [replace(a, group=ORIGINAL if a.agent in work.chosen else a.group or PEER) for a in work.study.agents]
    for agent in (*known, *made.agents):
        row = {name: getattr(agent, name) for name in Agent.__slots__}
        yield {name: value for name, value in row.items() if value is not None}


def _response_rows(study: Study, made: _Made) -> Iterator[dict[str, Any]]:
    for task, responses in study:
        for response in (*responses, *made.responses.get(task.task, ())):
            yield {"task": response.task, "agent": response.agent, "text": response.text}
