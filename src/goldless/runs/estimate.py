"""The estimate: the calls, tokens and cost of an evaluation, before anything runs.

Models on this machine are loaded for their tokenizer and timed on a short text. Servers are not contacted: their tokens
are counted at four characters each, and their time is that of calls in the journal, or a typical one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from goldless.audit.texts import text_findings
from goldless.errors import CapabilityError, GoldlessError, PrerequisiteError, listed
from goldless.models.cache import default_journal
from goldless.models.catalogue import PROVIDERS, check_scorer, is_local, open_model, unopened_identity
from goldless.models.embedded import find_embedded
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    ScoreReply,
    ScoreRequest,
    Usage,
)
from goldless.models.journal import Journal, Kind, measured, model_hash
from goldless.models.journalled import score_key
from goldless.models.local_engine import build_tree, computed_tokens
from goldless.models.usage import Price, batch_share, price_of
from goldless.records import CallFailure
from goldless.reports.document import Result
from goldless.runs.collection import Collection
from goldless.runs.evaluation import averaged, score_table
from goldless.runs.opening import OpenModel, Part, open_journal
from goldless.runs.options import Options
from goldless.runs.pipeline import score_study
from goldless.runs.plan import SYNOPSIS_WRITER, RunPlan, plan_run
from goldless.runs.progress import Progress
from goldless.statistics.answering import moments
from goldless.statistics.comparisons import all_pairs, too_few_tasks
from goldless.statistics.deciding import ANYTIME, FIXED_SAMPLE, tasks_to_detect
from goldless.studies import Study

TASKS_MEASURED = 40
"""Number of tasks whose texts are counted; the rest are assumed to be similar."""
SERVER_CALLS_AT_ONCE = 20
SECONDS_A_CALL = 1.0
SECONDS_A_TEXT = 5.0
"""Of a call that writes a text."""
SYNOPSIS_TOKENS = 200
LABEL_TOKENS = 2
"""Tokens of a verdict that is chosen: the label, and the end of the turn."""
CHARACTERS_A_TOKEN = 4
TIMED_TOKENS = 400
POWER = 0.8
ROUNDING = 1e-9
"""Differences that vary by less than this share of the largest vary by rounding alone."""


@dataclass(frozen=True)
class PlannedCalls:
    """Calls to one model for one metric, or for all metrics together."""

    metric: str | None
    """None: all metrics together."""
    part: str
    """Role of the model: scorer, critic, rewriter, synopsis writer."""
    model: str
    calls: int
    """Different calls."""
    known: int | None
    """Calls whose replies are already in the journal; None: unknown until the server identifies its model."""
    tokens: int
    """Tokens of all calls, each counted in full, as a server charges them."""
    computed_tokens: int | None
    """Tokens to compute when common prefixes are shared; None: up to the server."""
    cost_usd: float | None
    """None: price unknown."""
    seconds: float | None
    """None: unknown."""
    shared_tokens: int | None = None
    """Tokens that a server computes if it shares contexts between scores; None: it computes nothing else."""


@dataclass(frozen=True)
class NeededTasks:
    """The tasks that one kind of question needs."""

    question: str
    tests: int
    """Comparisons that alpha is divided by."""
    tasks: int | None
    """Tasks for a number fixed beforehand; None: over ten million."""
    tasks_until: int | None
    """Tasks within which ``--until`` decides, with the same power."""
    usd: float | None
    """Cost of ``tasks``; None: unknown."""
    seconds: float | None


@dataclass(frozen=True)
class Spread:
    """The standard deviation of differences between two agents, from evidence."""

    metric: str
    unit: str
    sd: float
    """Median over pairs of agents."""
    pairs: int
    tasks: int


@dataclass(frozen=True)
class Power:
    """The tasks that a difference of ``detect`` standard deviations needs."""

    detect: float
    alpha: float
    power: float
    rows: tuple[NeededTasks, ...]
    spread: tuple[Spread, ...]
    """By metric; empty: there is no evidence yet."""

    def notes(self, metrics: Sequence[str]) -> Iterator[str]:
        """The meaning of the numbers, and the difference in the unit of each of these metrics."""
        yield (
            f"Tasks to decide a true difference of {self.detect:g} standard deviations of the two agents' differences "
            f"with probability {self.power:g}, alpha {self.alpha:g} divided by the comparisons; within: with --until, "
            "which stops earlier where the difference is larger."
        )
        for one in self.spread:
            yield (
                f"{one.metric}: {self.detect:g} standard deviations are {self.detect * one.sd:.3g} {one.unit} here "
                f"(median over {one.pairs} pairs of agents, up to {one.tasks} tasks)."
            )
        if unscored := [name for name in metrics if name not in {one.metric for one in self.spread}]:
            yield (
                f"{listed(unscored)}: unknown in this unit, as the study holds no scores. After goldless score STUDY "
                f"--out RUN, goldless plan RUN --detect {self.detect:g} says it."
            )


@dataclass(frozen=True)
class Plan(Result):
    """The calls of an evaluation."""

    study: str
    rows: tuple[PlannedCalls, ...]
    """Each metric by itself."""
    together: tuple[PlannedCalls, ...]
    """All metrics in one run, each call once."""
    notes: tuple[str, ...] = field()
    """The quantities estimated, and how, in sentences."""
    power: Power | None = None
    """The tasks that ``--detect`` needs, if requested."""


async def plan_study(study: Study, options: Options, *, may_download: bool = True) -> Plan:
    """Estimate the calls of an evaluation, for each metric alone and for all together.

    Raises PrerequisiteError if the embedded model is needed and not there, unless it ``may_download``.
    """
    work = plan_run(study, options)
    needs_embedded = any(part.given == "embedded" for part in work.parts())
    if needs_embedded and not may_download and find_embedded() is None:
        raise PrerequisiteError("the embedded model is not on this machine yet. Run downloads it first, once")
    options = work.asked
    async with open_journal(options.models.journal) as journal, AsyncExitStack() as stack:
        models = {part.name: await _known_model(part, options, journal, stack) for part in work.parts()}
        rows: list[PlannedCalls] = []
        for metric in [m for m in work.metrics if m.needs.model or m.needs.table or m.needs.labels]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said once already
                alone = plan_run(study, options.changed(metrics=(metric.name,)))
            rows += [one.row(metric.name) for one in await _counted(alone, models)]
        counted = await _counted(work, models)
        together = [one.row(None) for one in counted]
        notes = _notes(work, list(models.values()), together)
        power = (
            None if options.stopping.detect is None else await _power(study, options, options.stopping.detect, counted)
        )
        told = power.notes([metric.name for metric in work.metrics]) if power else ()
        return Plan(study.name, tuple(rows), tuple(together), (*notes, *told), power)


# --- counting ----------------------------------------------------------------------------------------------------

NOT_ASKED = CallFailure("not_recorded", "counted, not asked", attempts=0)


@dataclass
class Counter:
    """A model that counts what it is asked, and what is known of it.

    It writes texts of the usual length, since a run goes on to ask about them; scores and verdicts are missing.
    """

    part: Part
    identity: ModelIdentity
    capabilities: Capabilities
    price: Price | None
    journal: Journal
    real: Any = None
    """The model on this machine, for its tokenizer; None: a server, whose tokens are counted by characters."""
    tokens_a_second: float | None = None
    paces: Mapping[Kind, float] = field(default_factory=dict)
    """Seconds for each call to a server, with many at once."""
    notes: Sequence[str] = ()
    """Where these are from."""
    calls: int = 0
    tokens: int = 0
    written: int = 0
    computed: int = 0
    known: int = 0
    seen: set[ScoreRequest | ChatRequest] = field(default_factory=set)
    share: float = 1.0
    """All tasks per task that it is asked about."""

    @property
    def context_length(self) -> int | None:
        return None if self.real is None else self.real.context_length

    @property
    def writes(self) -> bool:
        """True if its calls write texts that are scored later."""
        return self.part.name == SYNOPSIS_WRITER or self.part.name.startswith("rewriter")

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        if self.real is not None:
            return await self.real.encode(messages, target)  # type: ignore[no-any-return]
        return ScoreRequest("\n".join(message.content for message in messages), target)

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        new = list({request: None for request in requests if request not in self.seen})
        self.seen.update(new)
        self.calls += len(new)
        self.tokens += sum(request.tokens for request in new)
        if self.real is not None:
            hashed = model_hash(self.identity)
            self.known += len(self.journal.find([score_key(hashed, request) for request in new]))
        if new:
            self.computed += computed_tokens(build_tree([_token_ids(request) for request in new]))
        deliver(dict.fromkeys(range(len(requests)), NOT_ASKED))

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        text = None
        if self.part.name == SYNOPSIS_WRITER:
            text = "word " * SYNOPSIS_TOKENS
        elif self.writes:  # a mark keeps it apart from the response itself and from other rewriters' texts
            text = f"{self.part.name}: {request.messages[-1].content}"
        if request not in self.seen:
            self.seen.add(request)
            read = sum(len(message.content) for message in request.messages) // CHARACTERS_A_TOKEN + 1
            self.calls += 1
            self.tokens += read
            self.computed += read
            if text is not None:
                self.written += min(request.max_tokens, len(text) // CHARACTERS_A_TOKEN + 1)
            else:
                self.written += LABEL_TOKENS if request.choices else request.max_tokens // 2
        return NOT_ASKED if text is None else ChatReply(text)

    def row(self, metric: str | None) -> PlannedCalls:
        """The counts on all tasks."""
        scores, local = self.part.use == "scoring", self.real is not None
        texts = not scores and self.part.name != "critic"
        share = 1.0 if texts else self.share
        calls, tokens, written, computed = (
            round(count * share) for count in (self.calls, self.tokens, self.written, self.computed)
        )
        left = 1 - self.known / self.calls if self.calls else 0.0
        seconds = None if calls else 0.0
        if not local:
            seconds = calls * self.paces["text" if texts else "score" if scores else "verdict"]
        elif self.tokens_a_second and computed:
            seconds = computed * left / self.tokens_a_second
        usage = Usage(round(tokens * left), round(written * left))
        return PlannedCalls(
            metric=metric,
            part=self.part.name if self.writes or not texts else f"reviewer {self.part.name}",
            model=self.identity.short,
            calls=calls,
            known=None if texts or not local else round(self.known * share),
            tokens=tokens + written,
            computed_tokens=computed if local and computed else None,
            cost_usd=None if self.price is None else self.price.of_call(tokens / max(1, calls)).cost(usage),
            seconds=seconds,
            shared_tokens=computed if scores and not local else None,
        )


class CountedModel(OpenModel):
    """Stands in for a model of a run."""

    def __init__(self, counter: Counter) -> None:
        self.model: Any = counter
        self.scorer: Any = counter
        self.chat: Any = counter
        self.judge: Any = counter
        self.local, self.batched, self.crew = is_local(counter.identity), None, None

    def progress(self, stage: str, done: int, total: int, failed: int = 0) -> Progress:
        return Progress(stage, done, total, 0, None, None, failed)


async def _known_model(part: Part, options: Options, journal: Journal, stack: AsyncExitStack) -> Counter:
    given = part.given
    if part.use == "scoring":
        check_scorer(given)
    # told without opening it: a plan needs no key
    identity = unopened_identity(given) if isinstance(given, str) else None
    if identity is None:
        model = open_model(given, say=options.say) if isinstance(given, str) else given
        with suppress(CapabilityError):  # one on this machine says who it is once it is loaded
            identity = model.identity
        if identity is None or is_local(identity):
            if isinstance(given, str):
                stack.push_async_callback(model.aclose)
            await model.prepare()
            identity, can = model.identity, model.capabilities
            speed = await _speed(model) if can.scoring else None
            return Counter(part, identity, can, price_of(identity), journal, model, tokens_a_second=speed)
    alone, notes = measured(default_journal(), identity), []
    usual: dict[Kind, float] = {"text": SECONDS_A_TEXT, "score": SECONDS_A_CALL, "verdict": SECONDS_A_CALL}
    paces = {kind: seconds / SERVER_CALLS_AT_ONCE for kind, seconds in {**usual, **alone}.items()}
    if alone:
        took = ", ".join(f"a {kind} {seconds:.2g} s" for kind, seconds in alone.items())
        how = f"alone; {SERVER_CALLS_AT_ONCE} at once are assumed"
        notes = [f"{identity.short}: by goldless doctor, {took}, {how}"]
    provider = PROVIDERS.get(identity.provider)
    can = Capabilities(scoring=True, chat=True, choice=provider is None or provider.choice, one_call_choice=True)
    price = price_of(identity, given) or options.models.price
    if price is not None and options.models.batch:
        price = price.shared(batch_share(identity))
    return Counter(part, identity, can, price, journal, paces=paces, notes=notes)


async def _speed(model: Any) -> float | None:
    """Tokens per second, measured on one short text; None if it was too fast to measure."""
    text = "The second boiler was checked on Tuesday and again on Friday. " * (TIMED_TOKENS // 14)
    requests = [await model.encode([Message("user", text)], "It was checked twice.")]
    replies: dict[int, ScoreReply] = {}
    await model.score(requests, replies.update)  # the first one warms up
    begin = time.perf_counter()
    await model.score(requests, replies.update)
    seconds = time.perf_counter() - begin
    if isinstance(replies.get(0), CallFailure) or seconds < 1e-3:
        return None
    return float(requests[0].tokens / seconds)


async def _counted(work: RunPlan, models: Mapping[str, Counter]) -> list[Counter]:
    """Each model with its calls, counted by a run that asks nobody, on a sample of tasks spread over the study."""
    parts = work.parts()
    if not parts:
        return []
    names = [task.task for task, _ in work.study.with_peers()]
    share = max(1.0, len(names) / TASKS_MEASURED)
    tasks = {names[int(i * share)] for i in range(min(len(names), TASKS_MEASURED))}
    made = [replace(models[part.name], part=part, seen=set(), share=share) for part in parts]
    counted = {one.part.name: CountedModel(one) for one in made}
    quiet = work.options.changed(say=lambda _: None, progress=lambda _: None, so_far=None, on_too_long="skip")
    await Collection(replace(work, options=quiet), counted, only=tasks).collect()
    return made


def _token_ids(request: ScoreRequest) -> tuple[int, ...]:
    """The ids of context and target, or for a text those of pieces as long as a token usually is."""
    if not isinstance(request.context, str) and not isinstance(request.target, str):
        return request.context + request.target
    text = f"{request.context}{request.target}"
    return tuple(hash(text[i : i + CHARACTERS_A_TOKEN]) for i in range(0, len(text), CHARACTERS_A_TOKEN))


def _notes(work: RunPlan, models: Sequence[Counter], together: Sequence[PlannedCalls]) -> Iterator[str]:
    """The quantities estimated, and how, in sentences."""
    tasks = work.study.n_tasks_with_peers
    if len(work.study.agents) > 1 and tasks and (few := too_few_tasks(tasks)):
        yield few
    if tasks > TASKS_MEASURED:
        yield f"counted on {TASKS_MEASURED} tasks; the others are assumed to be similar"
    if work.rewriting:
        yield "rewrites do not exist yet and are counted as long as the responses"
    if work.synopses:
        yield f"synopses do not exist yet and are counted as {SYNOPSIS_TOKENS} tokens"
    if any(model.real is None for model in models):
        yield (
            f"for servers, a token is assumed to have {CHARACTERS_A_TOKEN} characters, and a call to take "
            f"{SECONDS_A_CALL:g} s with {SERVER_CALLS_AT_ONCE} calls at once where the journal has none"
        )
    yield from dict.fromkeys(note for model in models for note in model.notes)
    if work.options.models.batch:
        yield "with --batch, prices are those of batches, and each round of calls takes up to 24 hours"
    speeds = {model.identity.short: model.tokens_a_second for model in models if model.tokens_a_second}
    if speeds:
        yield "; ".join(f"{name}: {speed:,.0f} tokens per second now" for name, speed in speeds.items())
    for row in together:
        if row.shared_tokens:
            yield (
                f"{row.model}: SGLang shares contexts between scores and computes about {row.shared_tokens:,} of the "
                f"{row.tokens:,} tokens; vLLM and servers with echo do not and compute all, "
                f"{row.tokens / row.shared_tokens:.1f} times as many"
            )
    yield from (f"warning: {found.message}" for found in text_findings(work.study))


# --- tasks needed ----------------------------------------------------------------------------------------------------


async def _power(study: Study, options: Options, detect: float, counted: Sequence[Counter]) -> Power:
    """The tasks that ``--detect`` needs with the agents of a study, and what they take."""
    new = [replace(one, known=0).row(None) for one in counted]

    def per_task(values: Sequence[float | None]) -> float | None:
        """The amount that a task takes of which nothing is in the journal; None: unknown, or nothing is asked."""
        known = [value for value in values if value is not None]
        tasks = study.n_tasks_with_peers if new and all(row.calls for row in new) else 0
        return sum(known) / tasks if tasks and len(known) == len(new) else None

    usd_each, seconds_each = (per_task([getattr(row, name) for row in new]) for name in ("cost_usd", "seconds"))
    k = len(study.one_sample_each().agents)
    rows = []
    for question, tests in (("A>B", 1), ("best", k - 1), ("baseline=A", k - 1), ("all pairs", k * (k - 1) // 2)):
        alpha = options.stopping.alpha / max(1, tests)
        fixed = tasks_to_detect(detect, alpha=alpha, power=POWER, bound=FIXED_SAMPLE)
        until = tasks_to_detect(detect, alpha=alpha, power=POWER, bound=ANYTIME, at_least=options.stopping.at_least)
        usd, seconds = (None if fixed is None or each is None else each * fixed for each in (usd_each, seconds_each))
        rows.append(NeededTasks(question, tests, fixed, None if question == "all pairs" else until, usd, seconds))
    return Power(detect, options.stopping.alpha, POWER, tuple(rows), await _spread(study, options))


async def _spread(study: Study, options: Options) -> tuple[Spread, ...]:
    """The spread of differences in the evidence of a study; empty where it has none for these metrics."""
    found: list[Spread] = []
    for name in options.scoring.metrics:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what it could not use is no matter of a plan
                scored = await score_study(study, options.changed(metrics=(name,), recorded=True, say=lambda _: None))
        except GoldlessError:
            continue  # no evidence for it
        for one in scored.scores.values():
            if one.raters is None:
                apart = all_pairs(
                    score_table(averaged(one, study.samples).responses, scored.collected.plan.agents)
                ).differences
                n, _, sd = moments(apart)
                known = sd[(n > 1) & (sd > ROUNDING * np.nan_to_num(np.abs(apart)).max(initial=0.0))]
                if len(known):
                    middle = float(np.median(known))
                    found.append(Spread(one.metric.name, one.metric.unit, middle, len(known), int(n.max())))
    return tuple(found)
