"""The estimate: the calls, tokens and cost of an evaluation, before anything runs.

Models on this machine are loaded for their tokenizer and timed on a short text. Servers are not contacted: their tokens
are counted at four characters each, and their time is that of calls in the journal, or a typical one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from goldless.audit.texts import text_findings
from goldless.errors import CapabilityError, GoldlessError
from goldless.models.cache import default_journal
from goldless.models.call_paces import Kind, measured, seconds_per_call
from goldless.models.catalogue import PROVIDERS, check_scorer, is_local, open_model, unopened_identity
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
from goldless.models.journal import Journal, model_hash
from goldless.models.journalled import score_key
from goldless.models.prefix_tree import build_tree, computed_tokens
from goldless.models.usage import Price, batch_share, price_of
from goldless.records import CallFailure
from goldless.runs.collection import Collection
from goldless.runs.evaluation import differences
from goldless.runs.opening import OpenModel, Part
from goldless.runs.options import Options
from goldless.runs.pipeline import score_study
from goldless.runs.plan import SYNOPSIS_WRITER, RunPlan, plan_run
from goldless.runs.progress import Progress
from goldless.statistics.answering import moments
from goldless.statistics.comparisons import too_few_tasks
from goldless.statistics.deciding import ANYTIME, FIXED_SAMPLE, tasks_to_detect
from goldless.studies import Study

TASKS_MEASURED = 40
"""Number of tasks whose texts are counted; the rest are assumed to be similar."""
SERVER_CALLS_AT_ONCE = 20
SERVER_SECONDS_A_CALL = 1.0
SECONDS_A_TEXT = 5
"""How many times longer a call that writes a text takes."""
SYNOPSIS_TOKENS = 200
LABEL_TOKENS = 2
"""Tokens of a verdict that is chosen: the label, and the end of the turn."""
CHARACTERS_A_TOKEN = 4
TIMED_TOKENS = 400
POWER = 0.8
ROUNDING = 1e-9
"""Differences that vary by less than this share of the largest vary by rounding alone."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class NeededTasks:
    """What one kind of question needs."""

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


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of differences between two agents, from evidence."""

    metric: str
    unit: str
    sd: float
    """Median over pairs of agents."""
    pairs: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Power:
    """The tasks that a difference of ``detect`` standard deviations needs."""

    detect: float
    alpha: float
    power: float
    rows: tuple[NeededTasks, ...]
    spread: tuple[Spread, ...]
    """By metric; empty: there is no evidence yet."""

    @property
    def notes(self) -> list[str]:
        """What a standard deviation is here."""
        how = (
            f"Tasks to decide a true difference of {self.detect:g} standard deviations of the two agents' differences "
            f"with probability {self.power:g}, alpha {self.alpha:g} divided by the comparisons; within: with --until, "
            "which stops earlier where the difference is larger."
        )
        if not self.spread:
            return [how, "No evidence yet, so what that is in a metric's unit is unknown."]
        return [
            how,
            *(
                f"{one.metric}: {self.detect:g} standard deviations are {self.detect * one.sd:.3g} {one.unit} here "
                f"(median over {one.pairs} pairs of agents, up to {one.tasks} tasks)."
                for one in self.spread
            ),
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls of an evaluation."""

    study: str
    rows: tuple[PlannedCalls, ...]
    """Each metric by itself."""
    together: tuple[PlannedCalls, ...]
    """All metrics in one run, each call once."""
    notes: tuple[str, ...]
    """What was estimated, and how, in sentences."""
    power: Power | None = None
    """The tasks that ``--detect`` needs, if requested."""


async def plan_study(study: Study, options: Options) -> Plan:
    """Estimate the calls of an evaluation, for each metric alone and for all together."""
    work = plan_run(study, options)
    options = work.asked
    journal = Journal(options.journal or default_journal())
    try:
        async with AsyncExitStack() as stack:
            models = {part.name: await _known_model(part, options, stack) for part in work.parts()}
            rows: list[PlannedCalls] = []
            for metric in [m for m in work.metrics if m.needs.model or m.needs.table or m.needs.labels]:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # said once already
                    alone = plan_run(study, replace(options, metrics=(metric.name,)))
                rows += await _counted(alone, models, journal, metric.name)
            together = await _counted(work, models, journal, None)
            notes = (
                *_notes(work, list(models.values())),
                *_not_shared(together),
                *(f"warning: {found.message}" for found in text_findings(study)),
            )
            tasks = study.n_tasks_with_peers
            usd, seconds = (_per_task(together, name, tasks) for name in ("cost_usd", "seconds"))
            power = await _needed_tasks(study, options, usd_per_task=usd, seconds_per_task=seconds)
            notes = (*notes, *(() if power is None else power.notes))
            return Plan(study.name, tuple(rows), tuple(together), notes, power)
    finally:
        journal.close()


def _not_shared(rows: Sequence[PlannedCalls]) -> Iterable[str]:
    """What scoring costs on a server that computes the same context again for every score."""
    for row in rows:
        if row.shared_tokens:
            yield (
                f"{row.model}: SGLang shares contexts between scores and computes about {row.shared_tokens:,} of the "
                f"{row.tokens:,} tokens; vLLM and servers with echo do not and compute all, "
                f"{row.tokens / row.shared_tokens:.1f} times as many"
            )


def _per_task(rows: Sequence[PlannedCalls], name: str, tasks: int) -> float | None:
    """What a task that is not yet in the journal takes; None: unknown, or nothing is asked."""
    found = 0.0
    for row in rows:
        value, left = getattr(row, name), row.calls - (row.known or 0)
        if value is None or not left:
            return None
        found += value * row.calls / left
    return found / tasks if rows and tasks else None


# --- models ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Model:
    """What the estimate needs to know about a model."""

    identity: ModelIdentity
    capabilities: Capabilities
    scorer: Any
    """A model on this machine, for its tokenizer; None: a server, whose tokens are counted by characters."""
    identity_hash: str | None
    """None if the journal cannot be searched."""
    price: Price | None
    tokens_a_second: float | None
    seconds_per_call: Mapping[Kind, float] = field(default_factory=dict)
    """What calls to a server took before, by the journal."""
    measured: Mapping[Kind, float] = field(default_factory=dict)
    """What one call took by ``goldless doctor``, of kinds that the journal does not have."""

    @property
    def local(self) -> bool:
        return self.scorer is not None


async def _known_model(part: Part, options: Options, stack: AsyncExitStack) -> _Model:
    given = part.given
    if part.use == "scoring":
        check_scorer(given)
    # told without opening it: a plan needs no key
    named = unopened_identity(given) if isinstance(given, str) else None
    if named is not None:
        return _at_server(named, options)
    model = open_model(given, say=options.say) if isinstance(given, str) else given
    try:
        identity = model.identity
        local = is_local(identity)
    except CapabilityError:
        local = True  # says who it is once it is loaded, so it is on this machine
    if not local:
        return _at_server(identity, options)
    if isinstance(given, str):
        stack.push_async_callback(model.aclose)
    await model.prepare()
    identity = model.identity
    scores = model.capabilities.scoring
    speed = await _speed(model) if scores else None
    return _Model(identity, model.capabilities, model, model_hash(identity), price_of(identity), speed)


def _at_server(identity: ModelIdentity, options: Options) -> _Model:
    """What is known of a model without asking its server."""
    journal = options.journal or default_journal()
    paces = {kind: seconds_per_call(journal, identity, kind) for kind in get_args(Kind)}
    known = {kind: seconds for kind, seconds in paces.items() if seconds is not None}
    alone = {kind: seconds for kind, seconds in measured(default_journal(), identity).items() if kind not in known}
    provider = PROVIDERS.get(identity.provider)
    choice = provider is None or provider.choice
    can = Capabilities(scoring=True, chat=True, choice=choice, one_call_choice=True)
    price = price_of(identity) or options.price
    if price is not None and options.batch:
        price = price.shared(batch_share(identity))
    return _Model(identity, can, None, None, price, None, known, alone)


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


# --- counting ----------------------------------------------------------------------------------------------------


class CountedModel(OpenModel):
    """Stands in for a model of a run: it is asked all that a run asks, and counts.

    It writes texts of the usual length, since a run goes on to ask about them; scores and verdicts are missing.
    """

    def __init__(self, part: Part, found: _Model, journal: Journal) -> None:
        self.part, self.found = part, found
        self.calls = self.tokens = self.written = self.computed = self.known = 0
        self.model: Any = _Counter(self)
        self.scorer: Any = self.model
        self.chat: Any = self.model
        self.journal = journal
        self.seen: set[ScoreRequest | ChatRequest] = set()

    @property
    def judge(self) -> Any:
        """The model in the role of a critic or reviewer."""
        return self.model

    def progress(self, stage: str, done: int, total: int, failed: int = 0) -> Progress:
        """Progress of a stage that counts."""
        return Progress(stage, done, total, 0, None, None, failed)

    @property
    def writes(self) -> bool:
        """Whether its calls write texts that are scored later."""
        return self.part.name == SYNOPSIS_WRITER or self.part.name.startswith("rewriter")

    def row(self, metric: str | None, share: float) -> PlannedCalls:
        """What was counted; ``share``: the factor to scale it by."""
        found, scores = self.found, self.part.use == "scoring"
        texts = not scores and self.part.name != "critic"
        share = 1.0 if texts else share
        calls, tokens, written = (round(x * share) for x in (self.calls, self.tokens, self.written))
        left = 1 - self.known / self.calls if self.calls else 0.0
        computed = round(self.computed * share)
        seconds = None
        if found.local and found.tokens_a_second and computed:
            seconds = computed * left / found.tokens_a_second
        if not found.local:
            kind: Kind = "text" if texts else "score" if scores else "verdict"
            alone = found.measured.get(kind, SERVER_SECONDS_A_CALL * (SECONDS_A_TEXT if texts else 1))
            seconds = calls * found.seconds_per_call.get(kind, alone / SERVER_CALLS_AT_ONCE)
        usage = Usage(round(tokens * left), round(written * left))
        return PlannedCalls(
            metric=metric,
            part=self.part.name if self.writes or not texts else f"reviewer {self.part.name}",
            model=found.identity.short,
            calls=calls,
            known=None if texts or found.identity_hash is None else round(self.known * share),
            tokens=tokens + written,
            computed_tokens=computed if found.local and computed else None,
            cost_usd=None if found.price is None else found.price.cost(usage),
            seconds=seconds,
            shared_tokens=computed if scores and not found.local else None,
        )


class _Counter:
    """The methods of a model, which count."""

    def __init__(self, counted: CountedModel) -> None:
        self.counted = counted
        self.identity = counted.found.identity
        self.capabilities = counted.found.capabilities
        self.context_length = None if counted.found.scorer is None else counted.found.scorer.context_length

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        scorer = self.counted.found.scorer
        if scorer is not None:
            return await scorer.encode(messages, target)  # type: ignore[no-any-return]
        return ScoreRequest("\n".join(message.content for message in messages), target)

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        counted = self.counted
        new = list({request: None for request in requests if request not in counted.seen})
        counted.seen.update(new)
        counted.calls += len(new)
        counted.tokens += sum(request.tokens for request in new)
        if counted.found.identity_hash is not None:
            keys = [score_key(counted.found.identity_hash, request) for request in new]
            counted.known += len(counted.journal.find(keys))
        if new:
            counted.computed += computed_tokens(build_tree([_token_ids(request) for request in new]))
        deliver(dict.fromkeys(range(len(requests)), NOT_ASKED))

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        counted = self.counted
        text = None
        if counted.part.name == SYNOPSIS_WRITER:
            text = "word " * SYNOPSIS_TOKENS
        elif counted.writes:  # a mark keeps it apart from the response itself and from other rewriters' texts
            text = f"{counted.part.name}: {request.messages[-1].content}"
        if request not in counted.seen:
            counted.seen.add(request)
            read = sum(len(message.content) for message in request.messages) // CHARACTERS_A_TOKEN + 1
            counted.calls += 1
            counted.tokens += read
            counted.computed += read
            if text is not None:
                counted.written += min(request.max_tokens, len(text) // CHARACTERS_A_TOKEN + 1)
            else:
                counted.written += LABEL_TOKENS if request.choices else request.max_tokens // 2
        return NOT_ASKED if text is None else ChatReply(text)


NOT_ASKED = CallFailure("not_recorded", "counted, not asked", attempts=0)


async def _counted(
    work: RunPlan, models: Mapping[str, _Model], journal: Journal, metric: str | None
) -> list[PlannedCalls]:
    """The calls to each model, counted by a run that asks nobody, on a sample of tasks spread over the study."""
    if not work.asks_models:
        return []
    names = [task.task for task, _ in work.study.with_peers()]
    share = max(1.0, len(names) / TASKS_MEASURED)
    tasks = {names[int(i * share)] for i in range(min(len(names), TASKS_MEASURED))}
    counted = {part.name: CountedModel(part, models[part.name], journal) for part in work.parts()}
    quiet = replace(work.options, say=lambda _: None, progress=lambda _: None, so_far=None, on_too_long="skip")
    await Collection(replace(work, options=quiet), counted, only=tasks).collect()
    return [model.row(metric, share) for model in counted.values()]


def _notes(work: RunPlan, models: Sequence[_Model]) -> Iterator[str]:
    """What was estimated, and how, in sentences."""
    tasks = work.study.n_tasks_with_peers
    if len(work.study.agents) > 1 and tasks and (few := too_few_tasks(tasks)):
        yield few
    if tasks > TASKS_MEASURED:
        yield f"counted on {TASKS_MEASURED} tasks; the others are assumed to be similar"
    if work.rewriting:
        yield "rewrites do not exist yet and are counted as long as the responses"
    if work.synopses:
        yield f"synopses do not exist yet and are counted as {SYNOPSIS_TOKENS} tokens"
    if any(not model.local for model in models):
        yield (
            f"for servers, a token is assumed to have {CHARACTERS_A_TOKEN} characters, and a call to take "
            f"{SERVER_SECONDS_A_CALL:g} s with {SERVER_CALLS_AT_ONCE} calls at once where the journal has none"
        )
    yield from _paces(models)
    if work.options.batch:
        yield "with --batch, prices are those of batches, and each round of calls takes up to 24 hours"
    speeds = {model.identity.short: model.tokens_a_second for model in models if model.tokens_a_second}
    if speeds:
        yield "; ".join(f"{name}: {speed:,.0f} tokens per second now" for name, speed in speeds.items())


def _paces(models: Sequence[_Model]) -> Iterator[str]:
    """How long calls to servers took before."""
    for model in {model.identity.short: model for model in models}.values():
        for where, seconds, at_once in (
            ("in the journal", model.seconds_per_call, "with as many calls at once as there were"),
            ("by goldless doctor", model.measured, f"alone; {SERVER_CALLS_AT_ONCE} at once are assumed"),
        ):
            if seconds:
                paces = ", ".join(f"a {kind} {took:.2g} s" for kind, took in seconds.items())
                yield f"{model.identity.short}: {where}, {paces}, {at_once}"


def _token_ids(request: ScoreRequest) -> tuple[int, ...]:
    """The ids of context and target, or for a text those of pieces as long as a token usually is."""
    if not isinstance(request.context, str) and not isinstance(request.target, str):
        return request.context + request.target
    text = f"{request.context}{request.target}"
    return tuple(hash(text[i : i + CHARACTERS_A_TOKEN]) for i in range(0, len(text), CHARACTERS_A_TOKEN))


# --- tasks needed ----------------------------------------------------------------------------------------------------


async def _needed_tasks(
    study: Study, options: Options, *, usd_per_task: float | None, seconds_per_task: float | None
) -> Power | None:
    """The tasks that ``--detect`` needs with the agents of a study; None: it is not asked for."""
    if options.detect is None:
        return None
    k, detect = len(study.one_sample_each().agents), options.detect
    rows = []
    for question, tests in (("A>B", 1), ("best", k - 1), ("baseline=A", k - 1), ("all pairs", k * (k - 1) // 2)):
        alpha = options.alpha / max(1, tests)
        fixed = tasks_to_detect(detect, alpha=alpha, power=POWER, bound=FIXED_SAMPLE)
        until = tasks_to_detect(detect, alpha=alpha, power=POWER, bound=ANYTIME, at_least=options.at_least)
        usd, seconds = (
            None if fixed is None or each is None else each * fixed for each in (usd_per_task, seconds_per_task)
        )
        rows.append(NeededTasks(question, tests, fixed, None if question == "all pairs" else until, usd, seconds))
    return Power(detect, options.alpha, POWER, tuple(rows), await _spread(study, options))


async def _spread(study: Study, options: Options) -> tuple[Spread, ...]:
    """The spread of differences in the evidence of a study; empty where it has none for these metrics."""
    found: list[Spread] = []
    for name in options.metrics:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what it could not use is no matter of a plan
                scored = await score_study(study, replace(options, metrics=(name,), recorded=True, say=lambda _: None))
        except GoldlessError:
            continue  # no evidence for it
        for one in scored.scores.values():
            if one.scores.raters is None:
                apart = differences(one.of_agents(study), scored.plan.agents).differences
                n, _, sd = moments(apart)
                known = sd[(n > 1) & (sd > ROUNDING * np.nan_to_num(np.abs(apart)).max(initial=0.0))]
                if len(known):
                    middle = float(np.median(known))
                    found.append(Spread(one.metric.name, one.metric.unit, middle, len(known), int(n.max())))
    return tuple(found)
