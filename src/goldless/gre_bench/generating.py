"""Generating: models review the papers of a study, many side by side, through the journal and within one budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from goldless.concurrency import side_by_side
from goldless.dates import last_day
from goldless.errors import CallError, GoldlessError, UserError, nearest
from goldless.evidence import OPEN_KINDS, GenerationEvidence
from goldless.generation import MOST_TOKENS, Cut, GenerationStage
from goldless.gre_bench.adding import add_reviews, refused_names
from goldless.gre_bench.asked_before import asked_about, finished_models, settled_reviews, way_of_asking
from goldless.gre_bench.generated_reviews import Generated, GeneratedReview, generated_review
from goldless.gre_bench.review_prompt import NAME, REVIEW_PROMPT
from goldless.models.cache import default_journal
from goldless.models.interface import ChatModel
from goldless.models.journal import Journal
from goldless.models.tokens import RequestLength
from goldless.models.usage import Price
from goldless.records import Agent, CallFailure
from goldless.runs.collection import CALLS_AT_ONCE
from goldless.runs.opening import OpenModel, Part, open_models, refuse_without_chat
from goldless.runs.options import Options, Progress
from goldless.runs.reviewers import named_reviewers
from goldless.signature import Signature
from goldless.studies import Study

__all__ = ["Generated", "GenerationOptions", "add_reviews", "generate_reviews"]

GROUP = "model"
"""Of the agents, unless they have one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOptions:
    """How models are asked for reviews."""

    models: Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ()
    """``SPEC``, ``NAME=SPEC``, a model, or names with either; the name is the agent's."""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    """What is known of the models, by agent name; a cut-off of a month or a year means its last day."""
    max_tokens: int = MOST_TOKENS
    temperature: float = 0.0
    seed: int | None = None
    truncate: bool = False
    """Cut a paper that does not fit a model's context at its end; else its review is missing, as ``too_long``."""
    context_length: Mapping[str, int] = field(default_factory=dict)
    """Most tokens of request and reply by agent name, where a server does not tell, or where it is to be less."""
    cut: Cut = "missing"
    """What becomes of a review that reached ``max_tokens``."""
    budget_usd: float | None = None
    price: Price | None = None
    """Price of a model whose price is not known."""
    journal: Path | None = None
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    @property
    def settings(self) -> dict[str, str]:
        """How all models are asked, for signatures."""
        return {
            "prompt": NAME,
            "max_tokens": str(self.max_tokens),
            "temperature": f"{self.temperature:g}",
            **({} if self.seed is None else {"seed": str(self.seed)}),
            "truncate": "on" if self.truncate else "off",
            "cut": "kept" if self.cut == "keep" else "missing",
        }

    @property
    def ways(self) -> dict[str, str]:
        """In which way each model is asked, by agent; not of models that are given themselves."""
        named = named_reviewers(self.models)
        lengths = {name: self.context_length.get(name) for name in named}
        return {n: way_of_asking(m, self.settings, lengths[n]) for n, m in named.items() if isinstance(m, str)}


async def generate_reviews(study: Study, options: GenerationOptions) -> Generated:
    """Each model's review of each paper, where the paper is a task's prompt.

    A server whose reviews the study has, asked in the same way, is not reached for. Replies come from the journal where
    they are there already. What failed, does not fit or was not paid for is missing, with its cause; so is what is
    open of a model that cannot be reached, as long as there is anything else. Raises UserError for what can be known
    to be wrong before anything is asked.
    """
    named = named_reviewers(options.models)
    _check(study, options, named)
    settled = settled_reviews(study, options.ways)
    finished = finished_models(study, named, settled)
    if finished:
        options.say(f"not asked again, since all their reviews are there: {', '.join(sorted(finished))}")
    opening = Options(budget_usd=options.budget_usd, price=options.price, say=options.say)
    journal = Journal(options.journal or default_journal())
    parts = [Part(name, given, "chat") for name, given in named.items() if name not in finished]
    lost: dict[str, GoldlessError] = {}
    try:
        async with open_models(parts, opening, journal, lost=lost) as opened:
            stages = {name: _stage(opened[name], name, options) for name in opened}
            lengths = await _checked_lengths(stages, opened, options, lost)
            if lost and not lengths and not any(settled.values()):
                raise next(iter(lost.values()))
            found = await _Writing(study, options, {name: stages[name] for name in lengths}, opened).reviews(lengths)
            found |= {name: [settled[name][task] for task in study.tasks] for name in finished}
            for name, cause in lost.items():
                found[name] = _lost_reviews(
                    name, named[name], study, options, cause=cause, settled=settled.get(name, {})
                )
            return Generated(
                tasks=tuple(study.tasks),
                agents=tuple(_agent(name, options) for name in named),
                reviews=tuple(review for name in named for review in found[name]),
                settings=options.settings,
                spending=tuple(opened[name].spending for name in named if name in opened),
            )
    finally:
        journal.close()


def _stage(model: OpenModel, name: str, options: GenerationOptions) -> GenerationStage:
    refuse_without_chat(model, "review papers")
    return GenerationStage(
        model.chat,
        REVIEW_PROMPT,
        what="review",
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        seed=options.seed,
        context_length=options.context_length.get(name),
        truncate=options.truncate,
        cut=options.cut,
    )


def _lost_reviews(
    name: str,
    given: object,
    study: Study,
    options: GenerationOptions,
    *,
    cause: GoldlessError,
    settled: Mapping[str, GeneratedReview],
) -> list[GeneratedReview]:
    """The reviews of a model that could not be reached: open, but for those that are settled."""
    failure = CallFailure("connection", str(cause).splitlines()[0])
    if isinstance(cause, CallError) and cause.failure.kind in OPEN_KINDS:
        failure = cause.failure
    options.say(f"{name}: cannot be asked now, so its missing reviews are left open ({failure.message})")
    writer = given if isinstance(given, str) else name
    settings = str(Signature("review", {"model": writer, **options.settings}))
    return [
        settled.get(task) or GeneratedReview(name, GenerationEvidence(writer, task, failure=failure), settings)
        for task in study.tasks
    ]


async def _checked_lengths(
    stages: Mapping[str, GenerationStage],
    models: Mapping[str, OpenModel],
    options: GenerationOptions,
    lost: dict[str, GoldlessError],
) -> dict[str, RequestLength]:
    """How long a request without a paper is, by agent; says how lengths are known.

    ``lost``: takes the models that do not answer. Raises UserError where a model has no room for a paper at all.
    """
    wrong, lengths = [], {}
    for name, stage in stages.items():
        try:
            limit, least = stage.limit, await stage.least_length()
        except CallError as error:
            lost[name] = error
            continue
        lengths[name] = least
        if limit is None:
            if not models[name].local:
                options.say(
                    f"{name}: its context length is not known, so its server decides what is too long, and some cut "
                    "papers without a word; give it as context_length under its [models] table in edition.toml"
                )
        elif least.tokens + stage.max_tokens >= limit:
            wrong.append(
                f"{name}: the prompt has {least} and the review may have {stage.max_tokens:,}, which leaves no "
                f"room for a paper in a context of {limit:,}; lower max_tokens, or leave this model out"
            )
        elif not least.exact:
            options.say(f"{name}: whether a paper fits {limit:,} tokens is estimated from its characters")
    if wrong:
        raise UserError("\n".join(wrong))
    return lengths


@dataclass(frozen=True, slots=True)
class _Writing:
    """A study, and the models that its papers are put to."""

    study: Study
    options: GenerationOptions
    stages: Mapping[str, GenerationStage]
    """By agent."""
    models: Mapping[str, OpenModel]
    """By agent."""

    async def reviews(self, lengths: Mapping[str, RequestLength]) -> dict[str, list[GeneratedReview]]:
        """All reviews by agent, in the order of the papers; the agents work at the same time."""
        found: dict[tuple[str, str], GeneratedReview] = {}
        settings = {name: self._signature(name, exact=length.exact) for name, length in lengths.items()}
        asking = [partial(self._one_model, name, settings[name], found) for name in self.stages]
        await side_by_side(lambda ask: ask(), asking, max(1, len(asking)))
        return {name: [found[name, task] for task in self.study.tasks] for name in self.stages}

    async def _one_model(self, name: str, settings: str, found: dict[tuple[str, str], GeneratedReview]) -> None:
        stage, model, way = self.stages[name], self.models[name], self.options.ways.get(name)

        async def one(task: str) -> None:
            paper = self.study.task(task)
            evidence = await stage.write(paper)
            asked = None if way is None else asked_about(way, paper.prompt)
            found[name, task] = generated_review(name, evidence, settings, asked=asked)
            self._report(len(found))

        await side_by_side(one, self.study.tasks, 1 if model.local else CALLS_AT_ONCE)

    def _signature(self, name: str, *, exact: bool) -> str:
        limit = self.stages[name].limit
        context = {"context": "unknown" if limit is None else str(limit)}
        estimated = {} if limit is None or exact else {"tokens": "estimated"}
        model = {"model": self.models[name].identity.short}
        return str(Signature("review", {**model, **self.options.settings, **context, **estimated}))

    def _report(self, done: int) -> None:
        ledgers = [model.ledger for model in self.models.values()]
        tokens = sum(ledger.usage.input_tokens + ledger.usage.output_tokens for ledger in ledgers)
        cost = None if any(ledger.price is None for ledger in ledgers) else sum(ledger.spent_usd for ledger in ledgers)
        total = len(self.stages) * len(self.study.tasks)
        self.options.progress(Progress("writing reviews", done, total, tokens, cost))


def _agent(name: str, options: GenerationOptions) -> Agent:
    """What is known of a model."""
    known = options.agents.get(name, Agent(name))
    return replace(known, agent=name, group=known.group or GROUP)


# --- what is refused -----------------------------------------------------------------------------------------------


def _check(study: Study, options: GenerationOptions, named: Mapping[str, Any]) -> None:
    """Refuse, before anything is opened, what cannot be reviewed; all that is wrong at once."""
    wrong = [*_wrong_names(study, named), *_wrong_numbers(options), *_wrong_knowledge(options, named)]
    empty = [task for task in study.tasks if not (study.task(task).prompt or "").strip()]
    if empty:
        shown = ", ".join(empty[:10]) + (f" and {len(empty) - 10} more" if len(empty) > 10 else "")
        wrong.append(f"{len(empty)} of {len(study)} tasks have no prompt, which holds the full paper: {shown}")
    if wrong:
        raise UserError("\n".join(wrong))


def _wrong_names(study: Study, named: Mapping[str, Any]) -> Iterator[str]:
    if not named:
        yield "name at least one model, such as openai:MODEL, NAME=http://HOST:PORT/v1#MODEL or embedded"
    yield from refused_names(study, named)
    names = list(named)
    for place, name in enumerate(names):
        for other in names[:place]:
            same = named[name] == named[other] if isinstance(named[name], str) else named[name] is named[other]
            if same:
                yield (
                    f"{other} and {name} are the same model under the same settings, so they would write the same "
                    "reviews; leave one out, or ask it with other settings in a run of its own"
                )


def _wrong_numbers(options: GenerationOptions) -> Iterator[str]:
    def whole(value: object, least: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    if not whole(options.max_tokens, 1):
        yield f"max_tokens is a whole number of at least 1, not {options.max_tokens!r}"
    if options.seed is not None and not whole(options.seed, 0):
        yield f"a seed is a whole number that is not negative, not {options.seed!r}"
    if not 0 <= options.temperature < math.inf:
        yield f"a temperature is a number that is not negative, not {options.temperature!r}"
    if options.cut not in get_args(Cut):
        yield f"cut is one of {', '.join(get_args(Cut))}, not {options.cut!r}"
    for name, length in options.context_length.items():
        if not whole(length, 1):
            yield f"context_length of {name} is a whole number of at least 1, not {length!r}"


def _wrong_knowledge(options: GenerationOptions, named: Mapping[str, Any]) -> Iterator[str]:
    for what, given in (("agents", options.agents), ("context_length", options.context_length)):
        for name in given:
            if name not in named:
                yield f"{what}: no model is called {name!r}{nearest(name, named)}; named are: {', '.join(named)}"
    for name, agent in options.agents.items():
        if agent.parameters is not None and not 0 < agent.parameters < math.inf:
            yield f"parameters of {name}: {agent.parameters!r}; a number of parameters such as 7e9 is needed"
        if agent.cutoff_date is not None and last_day(agent.cutoff_date) is None:
            yield f"cutoff_date of {name}: {agent.cutoff_date!r}; a date is YYYY, YYYY-MM or YYYY-MM-DD"
