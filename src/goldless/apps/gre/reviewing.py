"""Models review the papers of an edition, in parallel, with one journal and one budget; the study takes the reviews.

A review is a row of the study's table ``generations``: the reply, how it was asked for, and why it is missing if it is.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from goldless.apps.gre.edition import Edition, ModelConfig, ReviewConfig
from goldless.apps.gre.edition_study import table_rows, write_rows
from goldless.apps.gre.papers import PEOPLE, reads_as_person
from goldless.apps.gre.preregistration import check_registration
from goldless.apps.gre.review_form import CUT_REPLY, PROMPT_NAME, REVIEW_PROMPT, noticed, parse_review
from goldless.concurrency import side_by_side
from goldless.errors import CallError, GoldlessError, UserError
from goldless.evidence import OPEN_KINDS, GenerationEvidence, is_open
from goldless.files import temporary_prefix
from goldless.generation import GenerationStage
from goldless.models.cache import default_journal
from goldless.models.catalogue import is_server, open_model
from goldless.models.interface import ChatModel, content_hash
from goldless.models.journal import Journal
from goldless.models.provider import Use
from goldless.models.tokens import RequestLength
from goldless.records import Agent, CallFailure, Rating
from goldless.reports.document import HERE_ONLY
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.collection import CALLS_AT_ONCE
from goldless.runs.opening import OpenModel, Part, Spending, open_models, refuse_without_chat
from goldless.runs.options import Options
from goldless.runs.progress import Progress
from goldless.runs.store import try_writing
from goldless.signature import Signature
from goldless.studies import Study, read_study, write_study
from goldless.studies.recorded import AGENTS
from goldless.studies.study import MADE
from goldless.studies.tables import is_table
from goldless.studies.writing import Format, check_target, copy_table

GENERATIONS = "generations"
"""The study's table of how each review was made."""
SUBMITTED = "submission "
"""How the writer of a submission begins in that table."""
NOTHING_WRITTEN = CallFailure("bad_reply", "nothing was written but thoughts")
ONLY_FITTING = ("truncate", "cut")
"""Settings that change no request whose paper fits, and no review that ends by itself."""
FORMATS: Mapping[str, Format] = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
OWN_ITEMS = frozenset({GENERATIONS, "exams"})
"""Tables whose rows are not about the responses of a study."""

Pairs = frozenset[tuple[str, str]]
"""Tasks and agents."""


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
    """Why the review is missing; None: it is there."""
    failure_message: str | None = None
    flags: tuple[str, ...] = ()
    """Deviations from the requested format."""
    characters_cut: int = 0
    """Of the paper, so that it fits."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    settings: str = ""
    """Its signature."""
    asked: str | None = None
    """Hash of the request, known before a model is reached; None: a model itself was given."""

    @classmethod
    def of(cls, agent: str, written: GenerationEvidence, settings: str, asked: str | None = None) -> GeneratedReview:
        """The review that a model wrote."""
        parsed = None if written.text is None else parse_review(written.text)
        failure = NOTHING_WRITTEN if parsed is not None and not parsed.text else written.failure
        cut = (CUT_REPLY,) if written.finish == "length" and written.failure is None else ()
        return cls(
            agent=agent,
            model=written.writer,
            task=written.task,
            raw=written.reply,
            finish=written.finish,
            failure=None if failure is None else failure.kind,
            failure_message=None if failure is None else failure.message,
            flags=(*cut, *(() if parsed is None else parsed.flags)),
            characters_cut=written.characters_cut,
            input_tokens=written.input_tokens,
            output_tokens=written.output_tokens,
            settings=settings,
            asked=asked,
        )

    @cached_property
    def text(self) -> str | None:
        """Its sections under plain titles; None: missing."""
        return None if self.raw is None or self.failure is not None else parse_review(self.raw).text

    @property
    def is_open(self) -> bool:
        """Whether another run would request it again."""
        return self.failure in OPEN_KINDS


def noted_reviews(study: Study) -> dict[tuple[str, str], GeneratedReview]:
    """The reviews that models of a study have written, and those that are missing, by task and agent."""
    names = [one.name for one in fields(GeneratedReview)]
    rows: list[dict[str, Any]] = [{name: row.get(name) for name in names} for row in table_rows(study, GENERATIONS)]
    found = [GeneratedReview(**row | {"flags": tuple(row["flags"] or ())}) for row in rows]
    return {(one.task, one.agent): one for one in found}


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """Outcome of the reviews requested from an agent."""

    agent: str
    model: str | None
    asked: int
    used: int
    missing: int
    causes: Mapping[str, int]
    """Why they are missing, the most frequent first."""
    shortened: int
    """Papers that were cut off for it."""
    flagged: int
    flags: Mapping[str, int] = field(metadata=HERE_ONLY)


def count_reviews(agent: str, reviews: Iterable[GeneratedReview]) -> ReviewCounts:
    """The counts over one agent's reviews."""
    mine = [one for one in reviews if one.agent == agent]
    causes = Counter(one.failure for one in mine if one.failure is not None)
    return ReviewCounts(
        agent,
        mine[0].model if mine else None,
        len(mine),
        len(mine) - causes.total(),
        causes.total(),
        dict(causes.most_common()),
        sum(bool(one.characters_cut) for one in mine),
        sum(bool(one.flags) for one in mine),
        dict(Counter(flag for one in mine for flag in one.flags)),
    )


@dataclass(frozen=True, slots=True)
class Generated:
    """Reviews of the papers of a study, written by models."""

    models: tuple[Agent, ...]
    """The models as agents."""
    reviews: tuple[GeneratedReview, ...]
    """One per model and paper, including missing ones."""
    settings: Mapping[str, str]
    """Settings of all requests, for signatures."""
    spending: tuple[Spending, ...] = ()

    KEYS = ("signature", "settings", "asked", "open", "agents")

    @property
    def signature(self) -> str:
        """The signature of all requests."""
        return str(Signature("reviews", self.settings))

    @property
    def asked(self) -> int:
        """Number of reviews."""
        return len(self.reviews)

    @property
    def open(self) -> int:
        """Number of reviews that another run would request again."""
        return sum(review.is_open for review in self.reviews)

    @property
    def agents(self) -> list[ReviewCounts]:
        """Counts by agent."""
        return [count_reviews(model.agent, self.reviews) for model in self.models]

    @property
    def incomplete(self) -> str | None:
        """A sentence about reviews still to be written; None if there are none."""
        kinds = Counter(review.failure for review in self.reviews if review.is_open)
        if not kinds:
            return None
        causes = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        return f"incomplete: {self.open} of {self.asked} reviews are missing ({causes}). Run the same command again"

    @property
    def examples(self) -> dict[str, str]:
        """One example of a missing review per cause."""
        return {r.failure: f"{r.agent} on {r.task}: {r.failure_message}" for r in self.reviews if r.failure is not None}

    def table(self) -> ReportTable:
        """The table for people, with a note per agent that explains its flags."""
        columns = (
            Column("agent", "agent"),
            Column("model", "model", wide=True),
            Column("asked", "asked", "count"),
            Column("used", "used", "count"),
            Column("missing", "missing", "count"),
            Column("causes", "why missing"),
            Column("shortened", "papers cut", "count"),
            Column("flagged", "flagged", "count"),
        )
        counted = self.agents
        causes = [", ".join(f"{kind} {count}" for kind, count in one.causes.items()) or None for one in counted]
        rows = tuple({**asdict(one), "causes": said} for one, said in zip(counted, causes, strict=True))
        notes = [f"{one.agent}: flagged reviews: {', '.join(noticed(one.flags))}." for one in counted if one.flags]
        return ReportTable("Reviews written", columns, rows, notes=tuple(notes))


# --- the stage -------------------------------------------------------------------------------------------------------


async def review_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    only: Sequence[str] | None = None,
    stand_ins: Mapping[str, ChatModel] | None = None,
    options: Options | None = None,
) -> tuple[Edition, Generated]:
    """Write models' reviews of the papers of an edition.

    ``settings``: of the config's table ``review``. ``models``: more of its table ``models``, by agent. ``only``: the
    agents that are to review now; all by default. ``stand_ins``: models themselves, by agent, instead of their names.
    ``options``: budget, price, journal and so on.
    """
    asked = {"review": settings, "models": models or {}}
    _refuse_other_models(edition, models or {})
    planned = edition.planned(asked)
    study = planned.whole_study()
    chosen = _chosen(planned, study, only)
    request = ReviewRequest(chosen, stand_ins or {}, planned.config.review, options or Options())
    specs = {name: planned.config.models[name].model for name in {**chosen, **(models or {})}}
    finished = request.finished(study)
    check_models((model, "chat") for name, model in {**specs, **request.given}.items() if name not in finished)
    check_target(edition.study_folder, overwrite=True)
    for folder in (edition.folder, edition.study_folder):
        try_writing(folder, "Reviews are added to the study there; make it writable")
    if wrong := list(_rests_on(study, request.replaced(study))):
        raise UserError("\n".join(wrong))
    if (registered := check_registration(planned)) is not None:
        request.options.say(registered.sentence)
    generated = await generate_reviews(study, request)
    add_reviews(edition.study_folder, generated, facts=planned.models)
    return edition.with_settings(asked), generated


def _refuse_other_models(edition: Edition, models: Mapping[str, Mapping[str, Any]]) -> None:
    """Reject a name that another model has: the reviews and facts of the two would be mixed up."""
    known = edition.config.models
    taken = [
        f"{name} is {known[name].model}, not {given['model']}"
        for name, given in models.items()
        if name in known and given.get("model", known[name].model) != known[name].model
    ]
    if taken:
        raise UserError(
            f"{edition.folder}: {'; '.join(taken)}. Give the new model another name, or change it in edition.toml "
            "with its size, family and cutoff; its reviews then replace the old ones"
        )


def _chosen(edition: Edition, study: Study, only: Sequence[str] | None) -> dict[str, ModelConfig]:
    models = edition.config.models
    if not models:
        raise UserError(f"{edition.folder}: no models. Add some with --models, or in edition.toml")
    if unknown := [name for name in only or () if name not in models]:
        raise UserError(f"unknown models: {', '.join(unknown)}. The edition has: {', '.join(models)}")
    chosen = {name: model for name, model in models.items() if only is None or name in only}
    written = {review.agent for review in noted_reviews(study).values() if str(review.model).startswith(SUBMITTED)}
    if submitted := [name for name in chosen if name in written]:
        raise UserError(f"names of submissions: {', '.join(submitted)}. Give the models other names: NAME=MODEL")
    return chosen


def check_models(given: Iterable[tuple[Any, Use]]) -> None:
    """Reject model specs that are not valid or not available here, with all problems at once.

    Nothing is loaded or sent. Model objects are not checked. Messages do not repeat addresses, which may contain
    secrets.
    """
    wrong = []
    for spec, use in given:
        if isinstance(spec, str):
            try:
                open_model(spec, use=use)
            except UserError as error:
                wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise UserError("\n".join(dict.fromkeys(map(str, wrong))))


# --- asking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """Which models write reviews, and how."""

    models: Mapping[str, ModelConfig]
    """By the agent's name."""
    stand_ins: Mapping[str, ChatModel] = field(default_factory=dict)
    """Model objects by agent, instead of those in the config."""
    review: ReviewConfig = field(default_factory=ReviewConfig)
    options: Options = field(default_factory=Options)

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

    def asked(self, name: str, paper: str | None) -> str | None:
        """What a model is asked about a paper: ``REQUEST-FIT``; None of a model that is given itself.

        Hashes, since an address is nobody else's business. With the same ``REQUEST`` a paper that fits is asked about
        in the same words.
        """
        if name in self.stand_ins:
            return None
        config = self.models[name]
        request = {key: value for key, value in self.settings.items() if key not in ONLY_FITTING}
        fit = [self.settings[key] for key in ONLY_FITTING]
        return f"{content_hash(config.model, request, paper)[:16]}-{content_hash(fit, config.context_length)[:8]}"

    def settled(self, study: Study) -> dict[str, dict[str, GeneratedReview]]:
        """What the study has of the models, asked in the same way, by agent and paper; open calls are not settled."""
        found: dict[str, dict[str, GeneratedReview]] = {name: {} for name in self.models}
        tasks = set(study.tasks)
        for (task, agent), noted in noted_reviews(study).items():
            if agent not in found or task not in tasks or noted.is_open or noted.asked is None:
                continue
            if noted.asked == self.asked(agent, study.task(task).prompt):
                found[agent][task] = noted
        return found

    def finished(self, study: Study) -> frozenset[str]:
        """Agents on servers with a review of every paper of the study.

        A model on this machine is never among them: its files may be others by now, which shows when they are read.
        """
        settled, given = self.settled(study), self.given
        return frozenset(
            agent
            for agent, reviews in settled.items()
            if isinstance(spec := given[agent], str)
            and is_server(spec)
            and all(task in reviews and reviews[task].text for task in study.tasks)
        )

    def replaced(self, study: Study) -> Pairs:
        """Papers and agents whose reviews in the study came of other requests; where that is not noted, none."""
        noted, found = noted_reviews(study), []
        for task, responses in study:
            for pair in [(task.task, response.agent) for response in responses if response.agent in self.models]:
                asked = noted[pair].asked if pair in noted else ""
                now = self.asked(pair[1], task.prompt)
                if asked is not None and now is not None and asked.partition("-")[0] != now.partition("-")[0]:
                    found.append(pair)
        return frozenset(found)


async def generate_reviews(study: Study, request: ReviewRequest) -> Generated:
    """Each model's review of each paper, where the paper is a task's prompt.

    A server whose reviews the study has, asked in the same way, is not reached for. Replies come from the journal where
    they are there already. What failed, does not fit or was not paid for is missing, with its cause; so is what is
    open of a model that cannot be reached, as long as there is anything else. Raises UserError for what can be known
    to be wrong before anything is asked.
    """
    _check_request(study, request)
    options, given, settled = request.options, request.given, request.settled(study)
    finished = request.finished(study)
    if finished:
        options.say(f"not called again, because all their reviews exist: {', '.join(sorted(finished))}")
    journal = Journal(options.journal or default_journal())
    parts = [Part(name, model, "chat") for name, model in given.items() if name not in finished]
    lost: dict[str, GoldlessError] = {}
    try:
        async with open_models(parts, options, journal, lost=lost) as opened:
            stages = {}
            for name, model in opened.items():
                refuse_without_chat(model, "review papers")
                limit, asked = request.models[name].context_length, request.review.model_dump()
                stages[name] = GenerationStage(model.chat, REVIEW_PROMPT, what="review", context_length=limit, **asked)
            lengths = await _checked_lengths(stages, opened, options, lost)
            if lost and not lengths and not any(settled.values()):
                raise next(iter(lost.values()))
            found = await _written(study, request, stages, opened, lengths)
            spending = tuple(opened[name].spending for name in given if name in opened)
    finally:
        journal.close()
    found |= {name: [settled[name][task] for task in study.tasks] for name in finished}
    found |= {name: _lost_reviews(name, study, request, cause, settled[name]) for name, cause in lost.items()}
    return Generated(
        models=tuple(config.agent(name) for name, config in request.models.items()),
        reviews=tuple(review for name in given for review in found[name]),
        settings=request.settings,
        spending=spending,
    )


def _check_request(study: Study, request: ReviewRequest) -> None:
    """Reject invalid requests before any model is opened, with all problems at once."""
    wrong = list(refused_names(study, request.models))
    for (other, one), (name, two) in combinations(request.given.items(), 2):
        if one == two if isinstance(one, str) else one is two:
            wrong.append(
                f"{other} and {name} are the same model with the same settings, so they would write the same "
                "reviews. Leave one out, or use other settings in a separate edition"
            )
    if not request.models:
        wrong.append("choose at least one model, such as openai:MODEL, NAME=http://HOST:PORT/v1#MODEL or embedded")
    empty = [task for task in study.tasks if not (study.task(task).prompt or "").strip()]
    if empty:
        shown = ", ".join(empty[:10]) + (f" and {len(empty) - 10} more" if len(empty) > 10 else "")
        wrong.append(f"{len(empty)} of {len(study)} tasks have no prompt, which must be the full paper: {shown}")
    if wrong:
        raise UserError("\n".join(wrong))


def refused_names(study: Study, names: Iterable[str]) -> Iterator[str]:
    """Why models cannot have these names in the study: people have them."""
    people = {agent.agent for agent in study.agents if agent.group in PEOPLE}
    for name in names:
        if reads_as_person(name) or name in people:
            yield f"{name!r} is reserved for human reviews. Give the model another name: NAME=SPEC"


async def _checked_lengths(
    stages: Mapping[str, GenerationStage],
    models: Mapping[str, OpenModel],
    options: Options,
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
                options.say(
                    f"{name}: unknown context length, so the server decides what is too long, and some servers cut "
                    "papers silently. Set context_length in its [models] table in edition.toml"
                )
        elif least.tokens + stage.max_tokens >= limit:
            wrong.append(
                f"{name}: the prompt has {least} and the review up to {stage.max_tokens:,}, which leaves no "
                f"room for a paper in a context of {limit:,}. Lower max_tokens, or leave this model out"
            )
        elif not least.exact:
            options.say(f"{name}: whether a paper fits {limit:,} tokens is estimated from its characters")
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
    total = len(lengths) * len(study.tasks)

    async def one_model(name: str) -> None:
        limit = stages[name].limit
        told = {"model": models[name].identity.short, **request.settings, "context": str(limit or "unknown")}
        if limit is not None and not lengths[name].exact:
            told["tokens"] = "estimated"
        settings = str(Signature("review", told))

        async def one(task: str) -> None:
            paper = study.task(task)
            written = await stages[name].write(paper)
            found[name, task] = GeneratedReview.of(name, written, settings, request.asked(name, paper.prompt))
            request.options.progress(_progress(found.values(), total, models))

        await side_by_side(one, study.tasks, models[name].at_once(CALLS_AT_ONCE))

    await side_by_side(one_model, list(lengths), max(1, len(lengths)))
    return {name: [found[name, task] for task in study.tasks] for name in lengths}


def _progress(reviews: Iterable[GeneratedReview], total: int, models: Mapping[str, OpenModel]) -> Progress:
    ended = [review.is_open for review in reviews]
    ledgers = [model.ledger for model in models.values()]
    tokens = sum(ledger.usage.input_tokens + ledger.usage.output_tokens for ledger in ledgers)
    cost = None if any(ledger.price is None for ledger in ledgers) else sum(ledger.spent_usd for ledger in ledgers)
    workers = max((model.workers for model in models.values() if model.workers is not None), default=None)
    return Progress("writing reviews", len(ended) - sum(ended), total, tokens, cost, workers, sum(ended))


def _lost_reviews(
    name: str, study: Study, request: ReviewRequest, cause: GoldlessError, settled: Mapping[str, GeneratedReview]
) -> list[GeneratedReview]:
    """The reviews of a model that could not be reached: missing, except those already settled."""
    failure = CallFailure("connection", str(cause).splitlines()[0])
    if isinstance(cause, CallError) and is_open(cause.failure):
        failure = cause.failure
    request.options.say(f"{name}: cannot be reached now, so its reviews are left for another run ({failure.message})")
    writer = name if name in request.stand_ins else request.models[name].model
    settings = str(Signature("review", {"model": writer, **request.settings}))
    return [
        settled.get(task) or GeneratedReview.of(name, GenerationEvidence(writer, task, failure=failure), settings)
        for task in study.tasks
    ]


# --- the study takes the reviews -------------------------------------------------------------------------------------


def add_reviews(study_folder: Path, generated: Generated, *, facts: Sequence[Agent] = ()) -> Path:
    """Write the reviews into the study of that folder, as responses of new agents, and return the folder.

    Reviews of the same agents and papers are replaced, also by missing ones, but not where a call failed that another
    run would make again. Refused where labels or recorded evidence are about a text that would go. ``facts``: agents
    whose size, family and cutoff are these now, also where one is no longer known.
    """
    if not study_folder.is_dir():
        raise UserError(f"{study_folder} is not a folder. Reviews can only be added to a study folder")
    study = read_study(study_folder)
    there = {(response.task, response.agent): response.text for _, responses in study for response in responses}
    reviews = {(r.task, r.agent): r for r in generated.reviews if not r.is_open or (r.task, r.agent) not in there}
    wrong = list(refused_names(study, [agent.agent for agent in generated.models]))
    if strange := list(dict.fromkeys(repr(task) for task, _ in reviews if task not in set(study.tasks))):
        wrong.append(f"{study.name} has no tasks named {', '.join(strange[:10])}. Is it another study?")
    wrong += _rests_on(
        study, frozenset(pair for pair in reviews if pair in there and there[pair] != reviews[pair].text)
    )
    if wrong:
        raise UserError("\n".join(wrong))
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as fresh:
        _write(Path(fresh), study, reviews, {agent.agent: agent for agent in (*generated.models, *facts)})
        return write_study(read_study(fresh), study_folder, format=_format(study_folder), overwrite=True)


def _rests_on(study: Study, replaced: Pairs) -> Iterator[str]:
    """Labels and evidence of the study about reviews that would be replaced."""
    agents = ", ".join(sorted({agent for _, agent in replaced}))
    for table, rows in _rows_about(study, replaced).items():
        if rows:
            yield (
                f"{rows} rows of the table {table} are about reviews of {agents} that would be replaced. Remove them, "
                "or add the new reviews under another name"
            )


def _rows_about(study: Study, pairs: Pairs) -> dict[str, int]:
    """Number of labels and rows of recorded evidence about these responses, by table."""
    if not pairs:
        return {}
    found = {"labels": 0}
    for label in study.labels():
        agents = (label.agent,) if isinstance(label, Rating) else (label.first, label.second)
        found["labels"] += any((label.task, agent) in pairs for agent in agents)
    meant = [{"task": task, "agent": agent} for task, agent in pairs]
    for table in study.recorded:
        frame = None if table in OWN_ITEMS else study.table(table)
        if frame is None or "task" not in frame.columns:
            continue
        said = [
            pl.struct(task=pl.col(task).cast(pl.String), agent=pl.col(agent).cast(pl.String)).is_in(meant)
            for task in ("task", "second_task")
            for agent in AGENTS
            if {task, agent} <= set(frame.columns)
        ]
        found[table] = frame.filter(pl.any_horizontal(said)).height if said else 0
    return found


def _format(folder: Path) -> Format:
    """The format that the study's tables have."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and is_table(file) and file.stem in MADE]
    return FORMATS[files[0].suffix.lower()] if files else "jsonl"


def _write(
    fresh: Path,
    study: Study,
    reviews: Mapping[tuple[str, str], GeneratedReview],
    facts: Mapping[str, Agent],
) -> None:
    """Write all tables of the study with the reviews to a folder."""
    known = {agent.agent: agent for agent in study.agents}
    known |= {n: replace(a, group=known[n].group or a.group) if n in known else a for n, a in facts.items()}
    named = dict.fromkeys([*(agent.agent for agent in study.agents), *(agent for _, agent in reviews)])
    earlier = [row for row in table_rows(study, GENERATIONS) if (row.get("task"), row.get("agent")) not in reviews]
    tables: dict[str, Iterable[Mapping[str, Any]]] = {
        "tasks": study.rows("tasks"),
        "agents": [{key: value for key, value in asdict(known[name]).items() if value is not None} for name in named],
        "responses": _response_rows(study, reviews),
        GENERATIONS: [*earlier, *map(asdict, reviews.values())],
    }
    if study.n_ratings + study.n_preferences:
        tables["labels"] = study.rows("labels")
    for table, rows in tables.items():
        write_rows(fresh / f"{table}.jsonl", rows)
    for table in study.recorded:
        file = study.recorded_file(table)
        if file is not None and table != GENERATIONS:
            copy_table(file, fresh)


def _response_rows(study: Study, reviews: Mapping[tuple[str, str], GeneratedReview]) -> Iterator[dict[str, Any]]:
    written: dict[str, list[dict[str, Any]]] = {}
    for (task, agent), review in reviews.items():
        if review.text is not None:
            written.setdefault(task, []).append({"task": task, "agent": agent, "text": review.text})
    for one, responses in study:
        for response in responses:
            if (response.task, response.agent) not in reviews:
                yield {"task": response.task, "agent": response.agent, "text": response.text}
        yield from written.get(one.task, ())
