"""Generation of reviews: models review the papers of a study in parallel, with one journal and one budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import Any

from goldless.concurrency import side_by_side
from goldless.errors import CallError, GoldlessError, UserError
from goldless.evidence import GenerationEvidence, is_open
from goldless.generation import GenerationStage
from goldless.gre_bench.edition import ModelConfig, ReviewConfig
from goldless.gre_bench.edition_study import refused_names
from goldless.gre_bench.generated_reviews import (
    Generated,
    GeneratedReview,
    asked_about,
    finished_models,
    settled_reviews,
    way_of_asking,
)
from goldless.gre_bench.review_forms import PROMPT_NAME, REVIEW_PROMPT
from goldless.models.cache import default_journal
from goldless.models.interface import ChatModel
from goldless.models.journal import Journal
from goldless.models.tokens import RequestLength
from goldless.models.usage import Price
from goldless.records import CallFailure
from goldless.runs.collection import CALLS_AT_ONCE
from goldless.runs.opening import OpenModel, Part, open_models, refuse_without_chat
from goldless.runs.options import Options
from goldless.runs.progress import Progress
from goldless.signature import Signature
from goldless.studies import Study


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """Budget, journal and progress of calling models."""

    budget_usd: float | None = None
    price: Price | None = None
    """Price of a model whose price is unknown."""
    journal: Path | None = None
    on: str | None = None
    """Where models of this machine are computed, such as ``ray``; None: here."""
    timeout_seconds: float | None = None
    max_retries: int | None = None
    max_in_flight: int | None = None
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    def options(self, **others: Any) -> Options:
        """The same as options of a run, with additional ones."""
        return Options(**{one.name: getattr(self, one.name) for one in fields(self)}, **others)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewRequest:
    """Which models write reviews, and how."""

    models: Mapping[str, ModelConfig]
    """By the agent's name."""
    stand_ins: Mapping[str, ChatModel] = field(default_factory=dict)
    """Model objects by agent, instead of those in the config."""
    review: ReviewConfig = field(default_factory=ReviewConfig)
    asking: Asking = field(default_factory=Asking)

    @property
    def given(self) -> dict[str, str | ChatModel]:
        """Each agent's model, as its specification or itself."""
        return {name: self.stand_ins.get(name, config.model) for name, config in self.models.items()}

    @property
    def settings(self) -> dict[str, str]:
        """Settings of all requests, for signatures."""
        review = self.review
        return {
            "prompt": PROMPT_NAME,
            "max_tokens": str(review.max_tokens),
            "temperature": f"{review.temperature:g}",
            **({} if review.seed is None else {"seed": str(review.seed)}),
            "truncate": "on" if review.truncate else "off",
            "cut": "kept" if review.cut == "keep" else "missing",
        }

    @property
    def ways(self) -> dict[str, str]:
        """In which way each model is asked, by agent; not of models that are given themselves."""
        return {
            name: way_of_asking(config.model, self.settings, config.context_length)
            for name, config in self.models.items()
            if name not in self.stand_ins
        }


async def generate_reviews(study: Study, request: ReviewRequest) -> Generated:
    """Each model's review of each paper, where the paper is a task's prompt.

    A server whose reviews the study has, asked in the same way, is not reached for. Replies come from the journal where
    they are there already. What failed, does not fit or was not paid for is missing, with its cause; so is what is
    open of a model that cannot be reached, as long as there is anything else. Raises UserError for what can be known
    to be wrong before anything is asked.
    """
    _check(study, request)
    asking, given = request.asking, request.given
    settled = settled_reviews(study, request.ways)
    finished = finished_models(study, given, settled)
    if finished:
        asking.say(f"not called again, because all their reviews exist: {', '.join(sorted(finished))}")
    journal = Journal(asking.journal or default_journal())
    parts = [Part(name, model, "chat") for name, model in given.items() if name not in finished]
    lost: dict[str, GoldlessError] = {}
    try:
        async with open_models(parts, asking.options(), journal, lost=lost) as opened:
            stages = {}
            for name, model in opened.items():
                refuse_without_chat(model, "review papers")
                context = request.models[name].context_length
                asked = request.review.model_dump()
                stages[name] = GenerationStage(
                    model.chat, REVIEW_PROMPT, what="review", context_length=context, **asked
                )
            lengths = await _checked_lengths(stages, opened, asking, lost)
            if lost and not lengths and not any(settled.values()):
                raise next(iter(lost.values()))
            found = await _written(study, request, stages, opened, lengths)
            spending = tuple(opened[name].spending for name in given if name in opened)
    finally:
        journal.close()
    found |= {name: [settled[name][task] for task in study.tasks] for name in finished}
    found |= {name: _lost_reviews(name, study, request, cause, settled.get(name, {})) for name, cause in lost.items()}
    return Generated(
        tasks=tuple(study.tasks),
        agents=tuple(config.agent(name) for name, config in request.models.items()),
        reviews=tuple(review for name in given for review in found[name]),
        settings=request.settings,
        spending=spending,
    )


def _lost_reviews(
    name: str, study: Study, request: ReviewRequest, cause: GoldlessError, settled: Mapping[str, GeneratedReview]
) -> list[GeneratedReview]:
    """The reviews of a model that could not be reached: missing, except those already settled."""
    failure = CallFailure("connection", str(cause).splitlines()[0])
    if isinstance(cause, CallError) and is_open(cause.failure):
        failure = cause.failure
    request.asking.say(f"{name}: cannot be reached now, so its reviews are left for another run ({failure.message})")
    writer = name if name in request.stand_ins else request.models[name].model
    settings = str(Signature("review", {"model": writer, **request.settings}))
    return [
        settled.get(task) or GeneratedReview(name, GenerationEvidence(writer, task, failure=failure), settings)
        for task in study.tasks
    ]


async def _checked_lengths(
    stages: Mapping[str, GenerationStage],
    models: Mapping[str, OpenModel],
    asking: Asking,
    lost: dict[str, GoldlessError],
) -> dict[str, RequestLength]:
    """The length of a request without a paper, by agent; reports how lengths are known.

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
                asking.say(
                    f"{name}: unknown context length, so the server decides what is too long, and some servers cut "
                    "papers silently. Set context_length in its [models] table in edition.toml"
                )
        elif least.tokens + stage.max_tokens >= limit:
            wrong.append(
                f"{name}: the prompt has {least} and the review up to {stage.max_tokens:,}, which leaves no "
                f"room for a paper in a context of {limit:,}. Lower max_tokens, or leave this model out"
            )
        elif not least.exact:
            asking.say(f"{name}: whether a paper fits {limit:,} tokens is estimated from its characters")
    if wrong:
        raise UserError("\n".join(wrong))
    return lengths


async def _written(
    study: Study,
    request: ReviewRequest,
    stages: Mapping[str, GenerationStage],
    models: Mapping[str, OpenModel],
    lengths: Mapping[str, RequestLength],
) -> dict[str, list[GeneratedReview]]:
    """All reviews by agent, in the order of the papers; agents run in parallel."""
    found: dict[tuple[str, str], GeneratedReview] = {}
    ways, total, failed = request.ways, len(lengths) * len(study.tasks), 0

    async def one_model(name: str) -> None:
        limit = stages[name].limit
        told = {"model": models[name].identity.short, **request.settings, "context": str(limit or "unknown")}
        if limit is not None and not lengths[name].exact:
            told["tokens"] = "estimated"
        settings = str(Signature("review", told))

        async def one(task: str) -> None:
            nonlocal failed
            paper = study.task(task)
            evidence = await stages[name].write(paper)
            asked = asked_about(ways[name], paper.prompt) if name in ways else None
            found[name, task] = GeneratedReview(name, evidence, settings, asked)
            failed += found[name, task].is_open
            request.asking.progress(_progress(len(found), total, models, failed))

        await side_by_side(one, study.tasks, models[name].at_once(CALLS_AT_ONCE))

    await side_by_side(one_model, list(lengths), max(1, len(lengths)))
    return {name: [found[name, task] for task in study.tasks] for name in lengths}


def _progress(ended: int, total: int, models: Mapping[str, OpenModel], failed: int) -> Progress:
    ledgers = [model.ledger for model in models.values()]
    tokens = sum(ledger.usage.input_tokens + ledger.usage.output_tokens for ledger in ledgers)
    cost = None if any(ledger.price is None for ledger in ledgers) else sum(ledger.spent_usd for ledger in ledgers)
    workers = max((model.workers for model in models.values() if model.workers is not None), default=None)
    return Progress("writing reviews", ended - failed, total, tokens, cost, workers, failed)


# --- what is refused -----------------------------------------------------------------------------------------------


def _check(study: Study, request: ReviewRequest) -> None:
    """Reject invalid requests before any model is opened, with all problems at once."""
    wrong = [*refused_names(study, request.models), *_same_models(request.given)]
    if not request.models:
        wrong.append("choose at least one model, such as openai:MODEL, NAME=http://HOST:PORT/v1#MODEL or embedded")
    empty = [task for task in study.tasks if not (study.task(task).prompt or "").strip()]
    if empty:
        shown = ", ".join(empty[:10]) + (f" and {len(empty) - 10} more" if len(empty) > 10 else "")
        wrong.append(f"{len(empty)} of {len(study)} tasks have no prompt, which must be the full paper: {shown}")
    if wrong:
        raise UserError("\n".join(wrong))


def _same_models(given: Mapping[str, str | ChatModel]) -> Iterator[str]:
    for (other, one), (name, two) in combinations(given.items(), 2):
        if one == two if isinstance(one, str) else one is two:
            yield (
                f"{other} and {name} are the same model with the same settings, so they would write the same "
                "reviews. Leave one out, or use other settings in a separate edition"
            )
