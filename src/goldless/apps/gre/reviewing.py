"""Models review the papers of an edition, in parallel, with one journal and one budget; the study takes the reviews.

A review is a row of the study's table ``generations``: the reply, how it was asked for, and why it is missing if it is.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from goldless.apps.gre.additions import added_sentences
from goldless.apps.gre.config import ModelConfig, ReviewConfig
from goldless.apps.gre.edition import Edition, table_rows, write_rows
from goldless.apps.gre.review_form import PROMPT_NAME, REVIEW_PROMPT, review_sections, review_text
from goldless.concurrency import side_by_side
from goldless.errors import CallError, GoldlessError, UserError
from goldless.evidence import OPEN_KINDS
from goldless.files import temporary_prefix
from goldless.models.catalogue import is_local
from goldless.models.interface import ChatReply, ChatRequest, Message, Usage, content_hash, unusable
from goldless.records import Agent, CallFailure, Task
from goldless.reports.document import InMemory, Result, read, written_property
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import OpenModel, Part, open_journal, open_models
from goldless.runs.options import Options
from goldless.runs.store import try_writing
from goldless.signature import Signature
from goldless.studies import Study, read_study, write_study
from goldless.studies.writing import check_target

GENERATIONS = "generations"
"""The study's table of how each review was made."""
SUBMITTED = "submission "
"""The beginning of a submission's writer in that table."""
ESTIMATE_MARGIN = 0.05
"""Share of a context left free when a paper is cut by estimated tokens."""
AGENT_COLUMNS = ("target", "given", "first", "second", "agent")
"""The columns of labels and evidence that name an agent."""
Pair = tuple[str, str]
"""A task and an agent."""


@dataclass(frozen=True)
class GeneratedReview:
    """One model's review of one paper: a row of the table ``generations``."""

    agent: str
    model: str
    task: str
    raw: str | None = None
    """The reply; None: there is none."""
    finish: str | None = None
    failure: str | None = None
    """The reason why the review is missing; None: it is there."""
    failure_message: str | None = None
    characters_cut: int = 0
    """Of the paper, so that it fits."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    settings: str = ""
    """Its signature."""
    asked: str | None = None
    """Hash of the request, known before a model is reached; None: a model itself was given."""

    def missing(self, why: CallFailure) -> GeneratedReview:
        return replace(self, failure=why.kind, failure_message=why.message)

    @property
    def text(self) -> str | None:
        """Its sections under plain titles; None: missing."""
        return None if self.failure is not None else review_text(self._reply) or None

    @property
    def _reply(self) -> str:
        return ChatReply(self.raw or "").text

    @property
    def noticed(self) -> list[str]:
        """Deviations from the requested format."""
        if self.text is None:
            return []
        plain = not review_sections(self._reply)
        return ["cut off at the length limit"] * (self.finish == "length") + ["without any section"] * plain

    @property
    def is_open(self) -> bool:
        """True if another run would request it again."""
        return self.failure in OPEN_KINDS


def noted_reviews(study: Study) -> dict[Pair, GeneratedReview]:
    """The reviews that models of a study have written, and those that are missing, by task and agent."""
    try:
        rows = table_rows(study, GENERATIONS)
        found = [
            read(GeneratedReview, json.dumps({name: value for name, value in row.items() if value is not None}))
            for row in rows
        ]
    except ValueError as error:
        raise UserError(f"{study.name}: the table {GENERATIONS} was changed by hand: {error}. Restore it") from error
    return {(one.task, one.agent): one for one in found}


@dataclass(frozen=True)
class WrittenReviews:
    """The number of reviews that an agent has written."""

    agent: str
    papers: int
    written: int
    missing: Mapping[str, int]
    """Papers without a review by it, by cause, the most frequent first."""
    noticed: tuple[str, ...]
    """Deviations noticed in its replies, with counts."""
    shortened: int
    """Papers that were cut off for it."""
    parameters: float | None = None
    """The model's size; None: unknown."""


def written_reviews(
    agent: Agent, reviews: Iterable[GeneratedReview], papers: int, written: int | None = None
) -> WrittenReviews:
    """The counts over one agent's reviews; ``written``: how many are there, if that is more than these."""
    mine = [one for one in reviews if one.agent == agent.agent]
    missing = Counter(one.failure for one in mine if one.failure is not None)
    there = len(mine) - missing.total() if written is None else written
    if (unasked := papers - there - missing.total()) > 0:
        missing["not there"] = unasked
    noticed = Counter(what for one in mine for what in one.noticed)
    counted = tuple(f"{count} {what}" for what, count in noticed.items())
    cut = sum(bool(one.characters_cut) for one in mine)
    return WrittenReviews(agent.agent, papers, there, dict(missing.most_common()), counted, cut, agent.parameters)


@dataclass(frozen=True)
class Generated(Result):
    """Reviews of the papers of a study, written by models."""

    models: InMemory[tuple[Agent, ...]]
    """The models as agents."""
    reviews: InMemory[tuple[GeneratedReview, ...]]
    """One per model and paper, including missing ones."""
    settings: Mapping[str, str] = field()
    """Settings of all requests, for signatures."""
    spending: InMemory[tuple[Any, ...]] = ()

    @written_property
    def signature(self) -> str:
        return str(Signature("reviews", self.settings))

    @written_property
    def asked(self) -> int:
        return len(self.reviews)

    @written_property
    def open(self) -> int:
        """Number of reviews that another run would request again."""
        return sum(review.is_open for review in self.reviews)

    @written_property
    def agents(self) -> list[WrittenReviews]:
        papers = len({review.task for review in self.reviews})
        return [written_reviews(model, self.reviews, papers) for model in self.models]

    @property
    def incomplete(self) -> str | None:
        """A sentence about reviews still to be written; None if there are none."""
        kinds = Counter(review.failure for review in self.reviews if review.is_open)
        causes = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        said = f"incomplete: {self.open} of {self.asked} reviews are missing ({causes}). Run the same command again"
        return said if kinds else None

    @property
    def examples(self) -> dict[str, str]:
        """One example of a missing review per cause."""
        return {r.failure: f"{r.agent} on {r.task}: {r.failure_message}" for r in self.reviews if r.failure is not None}

    def tables(self) -> list[ReportTable]:
        return [self.table()]

    def table(self) -> ReportTable:
        columns = (
            Column("agent", "agent"),
            Column("papers", "asked", "count"),
            Column("written", "used", "count"),
            Column("lacking", "missing", "count"),
            Column("causes", "why missing"),
            Column("shortened", "papers cut", "count"),
            Column("noticed", "noticed"),
        )
        rows = []
        for one in self.agents:
            causes = ", ".join(f"{kind} {count}" for kind, count in one.missing.items())
            told = {"causes": causes or None, "noticed": ", ".join(one.noticed) or None}
            rows.append({**asdict(one), "lacking": one.papers - one.written, **told})
        return ReportTable("Reviews written", columns, tuple(rows))


# --- the stage -------------------------------------------------------------------------------------------------------


async def review_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    only: Sequence[str] | None = None,
    stand_ins: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> tuple[Edition, Generated]:
    """Write models' reviews of the papers of an edition.

    ``settings``: of the config's table ``review``. ``models``: more of its table ``models``, by agent. ``only``: the
    agents that are to review now; all by default. ``stand_ins``: models themselves, by agent, instead of their names.
    ``options``: budget, price, journal and so on.
    """
    known, options = edition.config.models, options or Options()
    for name, given in (models or {}).items():
        # the reviews and facts of two models of one name would be mixed up
        if name in known and given.get("model", known[name].model) != known[name].model:
            raise UserError(
                f"{edition.folder}: {name} is {known[name].model}, not {given['model']}. Give the new model another "
                "name, or change it in edition.toml with its size, family and cutoff; its reviews then replace the old"
            )
    asked = {"review": settings, "models": models or {}}
    planned = edition.planned(asked)
    study, every = planned.whole_study(), planned.config.models
    if not every:
        raise UserError(f"{edition.folder}: no models. Add some with --models, or in edition.toml")
    chosen = {name: model for name, model in every.items() if only is None or name in only}
    mine = {pair: one for pair, one in noted_reviews(study).items() if pair[1] in chosen}
    if submitted := sorted({one.agent for one in mine.values() if str(one.model).startswith(SUBMITTED)}):
        raise UserError(f"names of submissions: {', '.join(submitted)}. Give the models other names: NAME=MODEL")
    request = ReviewRequest(chosen, stand_ins or {}, planned.config.review, options)
    check_target(edition.study_folder, overwrite=True)
    for folder in (edition.folder, edition.study_folder):
        try_writing(folder, "Reviews are added to the study there; make it writable")
    written = {pair: one.asked for pair, one in mine.items() if one.text}
    other = {pair for pair, hashed in written.items() if hashed != request.asked(pair[1], study.task(pair[0]).prompt)}
    _refuse_replacing(study, other)
    for sentence in added_sentences(planned):
        options.say(sentence)
    generated = await generate_reviews(study, request)
    add_reviews(edition.study_folder, generated)
    return edition.with_settings(asked), generated


# --- asking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReviewRequest:
    """The models that write reviews, and their settings."""

    models: Mapping[str, ModelConfig]
    """By the agent's name."""
    stand_ins: Mapping[str, Any] = field(default_factory=dict)
    """Model objects by agent, instead of those in the config."""
    review: ReviewConfig = field(default_factory=ReviewConfig)
    options: Options = field(default_factory=Options)

    @property
    def settings(self) -> dict[str, str]:
        review = self.review
        return {
            "prompt": PROMPT_NAME,
            "max_tokens": str(review.max_tokens),
            "temperature": f"{review.temperature:g}",
            **({} if review.seed is None else {"seed": str(review.seed)}),
            "truncate": "on" if review.truncate else "off",
            "cut": "kept" if review.cut == "keep" else "missing",
        }

    def asked(self, name: str, paper: str | None) -> str | None:
        """A hash of what a model is asked about a paper, as an address is nobody else's business; None: a stand-in."""
        if name in self.stand_ins:
            return None
        config, request = self.models[name], self.settings
        fit = [request.pop("truncate"), request.pop("cut")]
        return f"{content_hash(config.model, request, paper)[:16]}-{content_hash(fit, config.context_length)[:8]}"

    def settled(self, study: Study) -> dict[Pair, GeneratedReview]:
        """The reviews that the study has of models on servers, asked for in the same way.

        A model on this machine may have other files by now, which shows when they are read.
        """
        tasks = set(study.tasks)
        served = {n for n, config in self.models.items() if n not in self.stand_ins and not is_local(config.model)}
        return {
            (task, agent): noted
            for (task, agent), noted in noted_reviews(study).items()
            if agent in served and task in tasks and noted.text
            if noted.asked == self.asked(agent, study.task(task).prompt)
        }


@dataclass(frozen=True)
class PaperReviewStage:
    """One model that reviews: it gets the prompt, then the whole paper, and its whole reply must fit after both."""

    agent: str
    model: OpenModel
    request: ReviewRequest

    @property
    def limit(self) -> int | None:
        """Maximum tokens of request and reply; None: unknown, the server decides."""
        return self.model.context_limit(self.request.models[self.agent].context_length)

    async def settings(self) -> str:
        """The signature of the model's reviews; says how the length of a paper is known."""
        limit, least = self.limit, await self.model.request_length(_messages(""))
        told = {"model": self.model.identity.short, **self.request.settings, "context": str(limit or "unknown")}
        if limit is None and not self.model.local:
            self.request.options.say(
                f"{self.agent}: unknown context length, so the server decides what is too long, and some servers cut "
                "papers silently. Set context_length in its [models] table in edition.toml"
            )
        elif limit is not None and not least.exact:
            told["tokens"] = "estimated"
            said = f"whether a paper fits {limit:,} tokens is estimated from its characters"
            self.request.options.say(f"{self.agent}: {said}")
        return str(Signature("review", told))

    async def review(self, task: Task, settings: str) -> GeneratedReview:
        """The review of a paper; missing if the paper does not fit, the call failed, or the text is unusable."""
        review, given = self.request.review, task.prompt or ""
        asked = self.request.asked(self.agent, task.prompt)
        name = self.model.identity.short
        found = GeneratedReview(self.agent, name, task.task, settings=settings, asked=asked)
        try:
            paper = await self._fitted(given)
        except CallError as error:
            return found.missing(error.failure)
        found = replace(found, characters_cut=len(given) - len(paper))
        how: dict[str, Any] = {name: getattr(review, name) for name in ("max_tokens", "temperature", "seed")}
        reply = await self.model.chat.chat(ChatRequest(_messages(paper), **how))
        failure = unusable(reply, "review", review.max_tokens)
        if not isinstance(reply, CallFailure):
            usage = reply.earlier_usage or reply.usage
            tokens = {} if usage == Usage() else {key: getattr(usage, key) for key in ("input_tokens", "output_tokens")}
            found = replace(found, raw=reply.text, finish=reply.finish, **tokens)
            if review.cut == "keep" and reply.finish == "length" and reply.text.strip():
                failure = None
            if failure is None and found.text is None:
                failure = CallFailure("bad_reply", "nothing was written but thoughts")
        return found if failure is None else found.missing(failure)

    async def _fitted(self, paper: str) -> str:
        """The paper, or as much of it as fits where it may be cut. Raises CallError with why the review is missing."""
        if not paper:
            raise CallError(CallFailure("not_recorded", "the study has no text of the paper", attempts=0))
        limit, review = self.limit, self.request.review
        if limit is None:
            return paper
        whole = await self.model.request_length(_messages(paper))
        if whole.tokens + review.max_tokens <= limit:
            return paper
        message = f"{whole} and {review.max_tokens:,} for the review do not fit the context of {limit:,}"
        fits, does_not = 0, len(paper) if review.truncate else 0  # leading characters
        room = limit - review.max_tokens - (0 if whole.exact else math.ceil(limit * ESTIMATE_MARGIN))
        while does_not - fits > 1:
            middle = (fits + does_not) // 2
            if (await self.model.request_length(_messages(paper[:middle]))).tokens <= room:
                fits = middle
            else:
                does_not = middle
        if not paper[:fits].strip():
            even = ", even with all of it cut" * review.truncate
            raise CallError(CallFailure("too_long", f"{message}{even}", attempts=0))
        return paper[:fits]


def _messages(paper: str) -> tuple[Message, ...]:
    return Message("system", REVIEW_PROMPT), Message("user", paper)


async def generate_reviews(study: Study, request: ReviewRequest) -> Generated:
    """Each model's review of each paper, where the paper is a task's prompt.

    Reviews that the study has, asked for in the same way, are not asked for again. Replies come from the journal where
    they are there already. What failed, does not fit or was not paid for is missing, with its cause; so is what is
    open of a model that cannot be reached, as long as there is anything else.
    """
    options, found = request.options, request.settled(study)
    todo = {name: [task for task in study.tasks if (task, name) not in found] for name in request.models}
    if finished := [name for name, tasks in todo.items() if not tasks]:
        options.say(f"not called again, because all their reviews exist: {', '.join(sorted(finished))}")
    given = {name: request.stand_ins.get(name, config.model) for name, config in request.models.items()}
    parts = [Part(name, model, "chat") for name, model in given.items() if todo[name]]
    lost: dict[str, GoldlessError] = {}
    written: dict[Pair, GeneratedReview] = {}
    async with (
        open_journal(options.models.journal) as journal,
        open_models(parts, options, journal, lost=lost) as opened,
    ):
        for model in opened.values():
            model.require_chat("review papers")

        async def one_model(name: str) -> None:
            stage = PaperReviewStage(name, opened[name], request)
            try:
                settings = await stage.settings()
            except CallError as error:
                lost[name] = error
                return

            async def one(task: str) -> None:
                written[task, name] = await stage.review(study.task(task), settings)
                failed = sum(review.is_open for review in written.values())
                total = sum(len(todo[other]) for other in opened if other not in lost)
                now = ("writing reviews", len(written) - failed, total, failed)
                told = [model.progress(*now) for model in opened.values()]
                costs = [one.cost_usd for one in told]
                cost = None if None in costs else sum(filter(None, costs))
                options.progress(replace(told[0], tokens=sum(one.tokens for one in told), cost_usd=cost))

            await side_by_side(one, todo[name], opened[name].at_once())

        await side_by_side(one_model, list(opened), max(1, len(opened)))
        spending = tuple(model.spending for model in opened.values())
    found |= written
    if lost and not found:
        raise next(iter(lost.values()))
    for name, cause in lost.items():
        unreached = CallFailure("connection", str(cause).splitlines()[0])
        failure = cause.failure if isinstance(cause, CallError) and cause.failure.kind in OPEN_KINDS else unreached
        options.say(f"{name}: cannot be reached now, so its reviews are left for another run ({failure.message})")
        for task in todo[name]:
            found[task, name] = GeneratedReview(name, str(given[name]), task).missing(failure)
    return Generated(
        models=tuple(config.agent(name) for name, config in request.models.items()),
        reviews=tuple(found[task, name] for name in request.models for task in study.tasks),
        settings=request.settings,
        spending=spending,
    )


# --- the study takes the reviews -------------------------------------------------------------------------------------


def add_reviews(study_folder: Path, generated: Generated) -> Path:
    """Write the reviews into the study of that folder, as responses of new agents, and return the folder.

    Reviews of the same agents and papers are replaced, also by missing ones, but not where a call failed that another
    run would make again. Refused where labels or recorded evidence are about a text that would go.
    """
    study = read_study(study_folder)
    texts: dict[Pair, str | None] = {(r.task, r.agent): r.text for _, responses in study for r in responses}
    reviews = {(r.task, r.agent): r for r in generated.reviews if not r.is_open or (r.task, r.agent) not in texts}
    _refuse_replacing(study, {pair for pair, one in reviews.items() if pair in texts and texts[pair] != one.text})
    agents = {agent.agent: agent for agent in (*study.agents, *generated.models)}
    earlier = [row for row in table_rows(study, GENERATIONS) if (row.get("task"), row.get("agent")) not in reviews]
    texts = {pair: text for pair, text in texts.items() if pair not in reviews}
    texts |= {pair: review.text for pair, review in reviews.items()}
    rows: dict[str, list[dict[str, Any]]] = {
        "agents": [{key: value for key, value in asdict(a).items() if value is not None} for a in agents.values()],
        "responses": [{"task": t, "agent": a, "text": text} for (t, a), text in texts.items() if text is not None],
        GENERATIONS: [*earlier, *map(asdict, reviews.values())],
    }
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as aside:
        fresh = write_study(study.without_recorded(except_=set(study.recorded) - {GENERATIONS}), Path(aside) / "study")
        for table, made in rows.items():
            write_rows(fresh / f"{table}.jsonl", made)
        return write_study(read_study(fresh), study_folder, overwrite=True)


def _refuse_replacing(study: Study, replaced: set[Pair]) -> None:
    """Raise where labels or recorded evidence are about reviews that would be replaced."""
    columns = [(task, agent) for task in ("task", "second_task") for agent in AGENT_COLUMNS]
    for table in sorted({"labels", *study.recorded} - {GENERATIONS, "exams"}) if replaced else ():
        rows = study.rows("labels") if table == "labels" else table_rows(study, table)
        count = sum(any((row.get(task), row.get(agent)) in replaced for task, agent in columns) for row in rows)
        if count:
            raise UserError(
                f"{count} rows of the table {table} are about reviews of "
                f"{', '.join(sorted({agent for _, agent in replaced}))} that would be replaced. Remove them, or add "
                "the new reviews under another name"
            )
