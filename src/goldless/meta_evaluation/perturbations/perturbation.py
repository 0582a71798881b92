"""A perturbation: what it is, how a sound metric reacts, and a study with perturbed copies of its responses.

Built-in perturbations and those of plugins are records of the same type, found by name in the catalogue.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from pathlib import Path
from typing import Any, Literal

import polars as pl

from goldless.concurrency import side_by_side
from goldless.errors import GoldlessError, UserError
from goldless.evidence import OPEN_KINDS, PERTURBED
from goldless.models.interface import ChatRequest, Message, Writer, usable
from goldless.records import Agent, CallFailure, Response
from goldless.reports.document import InMemory, Result, cells
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import OpenModel, Part, Spending, open_journal, open_models
from goldless.runs.options import Options
from goldless.studies import Study, study_from_records, write_study

Kind = Literal["degradation", "manipulation", "good faith", "problematic"]
Must = Literal["fall", "not rise"]
LEAST_TOKENS = 1024
MOST_TOKENS = 4096
TEXTS: Any = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
"""Instructions to writers, and words put into responses, by perturbation."""


@dataclass(frozen=True)
class Setting:
    """The context in which a perturbation is applied."""

    study: Study
    responses: Sequence[Response]
    """The responses to change."""
    name: str
    """The full name of the perturbation."""
    seed: int = 0
    chat: Writer | None = None
    peers: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """The peers of each task and agent that is scored, where they are known."""

    @property
    def writer(self) -> Writer:
        if self.chat is None:
            raise UserError(f"{self.name} needs a chat model. Name a writer")
        return self.chat

    @property
    def form(self) -> str | None:
        """The word in brackets after the name; None without one."""
        _, bracket, rest = self.name.partition("[")
        return rest.removesuffix("]") if bracket else None


Made = str | CallFailure
Change = Callable[[Response], Made | Awaitable[Made]]
"""The text of a response after the perturbation, or why it is missing; either may be awaitable."""
Apply = Callable[[Setting], Change]


@dataclass(frozen=True)
class Perturbation:
    """A way to change responses, and how a sound metric reacts."""

    name: str
    """The full name, such as ``deletion[paper]``; a word in capitals stands for any word of the user's."""
    kind: Kind
    """``degradation``: content is lost. ``manipulation``: no content is added. The others are strategies, which answer
    every task as an agent of their own."""
    source: str
    """The paper and section it comes from, or the project."""
    description: str
    apply: Apply
    """Changes the responses of a setting one by one; ``of_text`` makes it from a function of the text."""
    needs_writer: bool = False
    """True if it needs a chat model."""
    scope: Literal["candidate", "everybody"] = "candidate"
    """``everybody``: all responses are changed alike, including those that the candidate is compared with."""
    by_default: bool = True
    """True if it is applied if none is named; otherwise it has to be requested."""
    forms: tuple[Perturbation, ...] = ()
    """Other forms of it, named ``NAME[WORD]``."""

    @property
    def must(self) -> Must:
        return "not rise" if self.kind == "manipulation" else "fall"

    @property
    def is_strategy(self) -> bool:
        return self.kind in {"good faith", "problematic"}

    def with_form(
        self, word: str, apply: Apply, source: str | None = None, description: str | None = None, **differing: Any
    ) -> Perturbation:
        """A copy with one more form, ``NAME[WORD]``, applied by ``apply``; None: as in the plain form."""
        differing |= {"source": source or self.source, "description": description or self.description}
        form = replace(self, name=f"{self.name}[{word}]", apply=apply, forms=(), **differing)
        return replace(self, forms=(*self.forms, form))


def of_text(change: Callable[[str], str]) -> Apply:
    """The way to apply a function of the text alone."""
    return lambda _: lambda response: change(response.text)


def of_response(change: Callable[[Setting, Response], Made | Awaitable[Made]]) -> Apply:
    """The way to apply a function of the setting and one response."""
    return lambda setting: lambda response: change(setting, response)


def rewritten(instruction: str, what: str, *, language: str = "") -> Apply:
    """The way to have a writer rewrite the text; ``language``: instead of {language}, where no form names one."""
    return of_response(
        lambda setting, response: written(
            setting.writer, instruction.replace("{language}", setting.form or language), response.text, what=what
        )
    )


async def written(
    writer: Writer, instruction: str, material: str, *, what: str, most_tokens: int | None = None
) -> Made:
    """The writer's text, or why it is missing: the call failed, or the text is cut off or empty.

    ``most_tokens``: room for it; None: that of a new version of the material, about twice its own length.
    """
    room = most_tokens or min(MOST_TOKENS, max(LEAST_TOKENS, len(material) // 2))
    messages = (Message("system", instruction), Message("user", material))
    reply = await writer.chat(ChatRequest(messages, max_tokens=room))
    return usable(reply, what, room)


def absent(message: str, kind: Literal["not_recorded", "no_synopsis"] = "not_recorded") -> CallFailure:
    """The reason why a text could not be made, where nobody was asked."""
    return CallFailure(kind, message, attempts=0)


# --- applying it ---------------------------------------------------------------------------------------------------


def copy_name(agent: str, perturbation: str) -> str:
    """The name of an agent's perturbed copy."""
    return f"{agent}~{perturbation}"


async def perturb(
    study: Study,
    perturbation: Perturbation,
    *,
    responses: Sequence[Response],
    seed: int = 0,
    writer: Writer | None = None,
    at_once: int = 1,
    peers: Mapping[tuple[str, str], Sequence[str]] | None = None,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> pl.DataFrame:
    """These responses of the study after the perturbation, in their order, with the columns of ``PERTURBED``.

    ``writer`` writes those that need a chat model, with ``at_once`` requests at a time. ``peers``: those of each task
    and agent, if known. ``tell`` is called with the number done and the total. Errors in a perturbation's code are
    reported with its name.
    """
    name = perturbation.name
    change = perturbation.apply(Setting(study, responses, name, seed, writer, peers or {}))
    found: dict[int, tuple[Any, ...]] = {}

    async def one(place: int) -> None:
        response = responses[place]
        whose = f"the response of {response.agent!r} to task {response.task!r}"
        try:
            changed = change(response)
            made = await changed if isawaitable(changed) else changed
        except GoldlessError:
            raise
        except Exception as error:
            raise UserError(f"{name} failed on {whose}: {type(error).__name__}: {error}") from error
        if not isinstance(made, str | CallFailure):
            raise UserError(f"{name} must return a text or a CallFailure for {whose}, got {made!r}")
        if isinstance(made, str) and not made.strip():
            made = absent(f"nothing is left of the text after {name}")
        copy = response.agent if perturbation.is_strategy else copy_name(response.agent, name)
        text, failure = (made, None) if isinstance(made, str) else (None, made)
        unchanged = text is not None and text.split() == response.text.split()
        result = text, unchanged, failure and failure.kind, failure and failure.message
        found[place] = (name, response.task, response.agent, copy, *result)
        tell(len(found), len(responses))

    await side_by_side(one, range(len(responses)), at_once)
    return pl.DataFrame([found[place] for place in range(len(responses))], PERTURBED, orient="row")


async def perturb_all(
    study: Study,
    perturbations: Sequence[Perturbation],
    responses: Callable[[Perturbation], Sequence[Response]],
    options: Options,
    *,
    writer: Any,
    to: str,
    peers: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> tuple[pl.DataFrame, tuple[Spending, ...]]:
    """The texts of all perturbations, in their order, and what they cost.

    ``writer``: a model or its name, opened only if one is needed; ``to``: what it is to do, for a message.
    """
    found: dict[int, pl.DataFrame] = {}
    async with AsyncExitStack() as stack:
        model: OpenModel | None = None
        if needy := [one.name for one in perturbations if one.needs_writer]:
            if writer is None:
                raise UserError(f"{', '.join(needy)}: needs a chat model. Name one with --writer, or leave it out")
            journal = await stack.enter_async_context(open_journal(options.models.journal))
            parts = [Part("writer", writer, "chat")]
            model = (await stack.enter_async_context(open_models(parts, options, journal)))["writer"]
            model.require_chat(to)
        for place, one in sorted(enumerate(perturbations), key=lambda placed: placed[1].needs_writer):
            asking: dict[str, Any] = {}
            if model is not None and one.needs_writer:

                def tell(done: int, total: int, name: str = one.name, model: OpenModel = model) -> None:
                    options.progress(model.progress(f"perturbing: {name}", done, total))

                asking = {"writer": model.chat, "at_once": model.at_once(), "tell": tell}
            given: dict[str, Any] = {"responses": responses(one), "seed": options.statistics.seed, "peers": peers}
            found[place] = await perturb(study, one, **given, **asking)
        return pl.concat([found[place] for place in sorted(found)]), () if model is None else (model.spending,)


# --- a study with copies ---------------------------------------------------------------------------------------------

ORIGINAL, PEER = "original", "peer"


async def with_copies(
    study: Study, perturbations: Sequence[Perturbation], agents: Sequence[str], options: Options, *, writer: Any
) -> tuple[Study, pl.DataFrame, tuple[Spending, ...]]:
    """The study with a copy of each of these agents for every perturbation, and with the strategies as agents.

    Copies have the family and samples of their originals. It is without labels and recorded evidence. Also the texts,
    and what they cost.
    """
    added = []
    for one in perturbations:
        added += [Agent(one.name, group=one.kind)] * one.is_strategy
        for agent in () if one.is_strategy else study.agents:
            if agent.agent in agents:
                sample_of = agent.sample_of and copy_name(agent.sample_of, one.name)
                name = copy_name(agent.agent, one.name)
                added.append(Agent(name, group=one.kind, family=agent.family, sample_of=sample_of))
    known = study.agent_list
    if taken := sorted({agent.agent for agent in added}.intersection(known)):
        raise UserError(f"the study already has agents named {', '.join(taken)}. Rename them first")
    responses = [response for _, given in study for response in given]
    originals = [response for response in responses if response.agent in agents]

    def changed(one: Perturbation) -> list[Response]:
        return [Response(task, one.name, "") for task in study.tasks] if one.is_strategy else originals

    texts, spending = await perturb_all(study, perturbations, changed, options, writer=writer, to="write responses")
    copies = texts.drop_nulls("text").select("task", "copy", "text")
    place = {agent: number for number, agent in enumerate([*known, *(agent.agent for agent in added)])}
    responses += [Response(*row) for row in copies.iter_rows()]
    responses.sort(key=lambda response: place[response.agent])
    joined = study_from_records([study.task(task) for task in study.tasks], responses, name=study.name)
    return joined.with_agents({agent.agent: agent for agent in (*study.agents, *added)}), texts, spending


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class PerturbedStudy(Result):
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
    spending: InMemory[tuple[Spending, ...]] = ()

    @property
    def open(self) -> int:
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)

    def tables(self) -> list[ReportTable]:
        return [self.table()]

    def table(self) -> ReportTable:
        columns = (
            Column("perturbation", "perturbation"),
            Column("group", "group"),
            Column("must", "must", absent=""),
            *(Column(name, name, "count") for name in ("asked", "made", "missing", "unchanged")),
        )
        rows = tuple(cells(row, perturbation=row.name) for row in self.rows)
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
        seed=options.statistics.seed,
        rows=tuple(rows),
        folder=None,
        peers=tuple(one for one in study.agent_list if one not in chosen),
        failures=dict(Counter(failed["failure"])),
        examples=dict(failed.reverse().select("failure", "message").iter_rows()),
        spending=tuple(spending),
    )
    if found.open:
        return found
    known = [replace(one, group=ORIGINAL if one.agent in chosen else one.group or PEER) for one in study.agents]
    joined = joined.with_agents({agent.agent: agent for agent in known}).with_labels(study.label_table)
    return replace(found, folder=str(write_study(joined, folder)))


def _check_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} already exists. Choose a new folder")
