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

import polars as pl

from goldless.audit.texts import text_findings
from goldless.errors import CapabilityError
from goldless.evidence import RewriteEvidence, SynopsisEvidence, rewrites_frame, synopses_frame
from goldless.judging.asking import reads_by_scoring
from goldless.judging.critic import CriticPrompt, find_critic_prompt
from goldless.metrics.metric import Metric
from goldless.models.cache import default_journal
from goldless.models.call_paces import Kind, measured, seconds_per_call
from goldless.models.catalogue import PROVIDERS, check_scorer, is_local, open_model, unopened_identity
from goldless.models.interface import Capabilities, Message, ModelIdentity, ScoreReply, ScoreRequest, Usage
from goldless.models.journal import Journal, model_hash
from goldless.models.journalled import score_key
from goldless.models.prefix_tree import build_tree, computed_tokens
from goldless.models.usage import Price, batch_share, price_of
from goldless.preprocessing import MOST_TOKENS
from goldless.records import CallFailure
from goldless.runs.collection import Collector, Preprocessor, critic_batches, needs, with_peers
from goldless.runs.opening import Part
from goldless.runs.options import Options, check_options
from goldless.runs.plan import RunPlan, plan_run, with_default_metrics
from goldless.runs.power import Power, needed_tasks
from goldless.runs.reviewers import named_reviewers
from goldless.statistics.comparisons import too_few_tasks
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
    options = with_default_metrics(study, options)
    check_options(options)
    work = plan_run(study, options)
    journal = Journal(options.journal or default_journal())
    try:
        async with AsyncExitStack() as stack:
            models = {part.name: await _known_model(part, options, stack) for part in work.parts()}
            estimate = _Estimate(work.options, models, journal)
            rows: list[PlannedCalls] = []
            for metric in [m for m in work.metrics if m.needs.model or m.needs.table or m.needs.labels]:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # said once already
                    alone = plan_run(study, replace(options, metrics=(metric.name,)))
                rows += await estimate.calls(alone, metric)
            together = await estimate.calls(work, None)
            notes = (
                *estimate.notes(work),
                *_not_shared(together),
                *(f"warning: {found.message}" for found in text_findings(study)),
            )
            tasks = sum(1 for _ in with_peers(study))
            usd, seconds = (_per_task(together, name, tasks) for name in ("cost_usd", "seconds"))
            power = await needed_tasks(study, options, usd_per_task=usd, seconds_per_task=seconds)
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


class _Server:
    """A stand-in for a server's scorer that counts characters and calls nothing."""

    context_length = None

    def __init__(self, identity: ModelIdentity) -> None:
        provider = PROVIDERS.get(identity.provider)
        choice = provider is None or provider.choice
        self.capabilities = Capabilities(scoring=True, chat=True, choice=choice, one_call_choice=True)

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        return ScoreRequest("\n".join(message.content for message in messages), target)


@dataclass(frozen=True, slots=True)
class _Model:
    """What the estimate needs to know about a model."""

    name: str
    scorer: Any
    local: bool
    identity_hash: str | None
    """None if the journal cannot be searched."""
    price: Price | None
    tokens_a_second: float | None
    seconds_per_call: Mapping[Kind, float] = field(default_factory=dict)
    """What calls to a server took before, by the journal."""
    measured: Mapping[Kind, float] = field(default_factory=dict)
    """What one call took by ``goldless doctor``, of kinds that the journal does not have."""


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
    return _Model(identity.short, model, True, model_hash(identity), price_of(identity), speed)


def _at_server(identity: ModelIdentity, options: Options) -> _Model:
    """What is known of a model without asking its server."""
    journal = options.journal or default_journal()
    paces = {kind: seconds_per_call(journal, identity, kind) for kind in get_args(Kind)}
    known = {kind: seconds for kind, seconds in paces.items() if seconds is not None}
    alone = {kind: seconds for kind, seconds in measured(default_journal(), identity).items() if kind not in known}
    return _Model(identity.short, _Server(identity), False, None, _price(identity, options), None, known, alone)


def _price(identity: ModelIdentity, options: Options) -> Price | None:
    """The price of a model on a server, in batches if those are wanted."""
    price = price_of(identity) or options.price
    return price.shared(batch_share(identity)) if price is not None and options.batch else price


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


@dataclass(slots=True)
class _Count:
    """Calls to a model: tokens read and written, tokens computed, and replies in the journal."""

    calls: int = 0
    tokens: int = 0
    written: int = 0
    computed: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class _Estimate:
    options: Options
    models: dict[str, _Model]
    journal: Journal

    async def calls(self, work: RunPlan, metric: Metric | None) -> list[PlannedCalls]:
        """The calls to each model."""
        found: list[PlannedCalls] = []
        if not work.asks_models:
            return found
        name = None if metric is None else metric.name
        part_of, share = _measured(work.study)
        reviewers = named_reviewers(work.options.reviewers) if work.scales else {}
        for part in work.parts():
            model = self.models[part.name]
            if part.use == "scoring":
                count = await self._scoring(work, part.name, model, part_of)
                found.append(_row(name, part.name, model, count, share=share))
            elif part.name == "critic":
                found.append(_row(name, part.name, model, await self._judging(work, model, part_of), share=share))
            elif part.name in reviewers:
                found.append(_row(name, f"reviewer {part.name}", model, _reviewing(work)))
            else:
                count = _rewriting(work) if part.name.startswith("rewriter") else _writing(work)
                found.append(_row(name, part.name, model, count))
        return found

    async def _scoring(self, work: RunPlan, part: str, model: _Model, part_of: Study) -> _Count:
        wanted = work.by_scorer(needs(work.likelihood, work.study, work.options, _stand_ins(work)))[part]
        synopses = _stand_in_synopses(work)
        count = _Count()
        seen: set[Any] = set()
        collector = Collector(work.study, self.options, control=work.control)
        for jobs in collector.jobs(model.scorer, wanted, work.peers, synopses, only=set(part_of.tasks)):
            asked = [await job.stage.request(job.task, q, job.texts) for job in jobs for q in job.questions]
            self._add(count, [request for request in asked if isinstance(request, ScoreRequest)], model, seen)
        return count

    async def _judging(self, work: RunPlan, model: _Model, part_of: Study) -> _Count:
        prompt = find_critic_prompt(self.options.critic_prompt)
        texts = {(r.task, r.agent): r.text for _, responses in work.study for r in responses}
        tasks = set(part_of.tasks)
        asked = [question for question in work.questions if question.task in tasks]
        count = _Count()
        seen: set[Any] = set()
        can, verdicts = model.scorer.capabilities, self.options.verdicts
        scoring, chosen = reads_by_scoring(can, verdicts), verdicts != "labels" and can.choice
        for batch in critic_batches(asked, local=model.local):
            pairs = [(texts[q.task, q.first], texts[q.second_task, q.second]) for q in batch]
            requests = [
                request
                for pair in pairs
                for request in await _verdict_requests(model, prompt, pair, scoring=scoring, explained=not chosen)
            ]
            self._add(count, requests, model, seen)
            if not scoring:
                count.written += len(pairs) * (LABEL_TOKENS if chosen else prompt.most_tokens // 2)
        return count

    def _add(self, count: _Count, asked: Sequence[ScoreRequest], model: _Model, seen: set[Any]) -> None:
        """Count requests that are sent to a model together, without duplicates."""
        new = list({request: None for request in asked if request not in seen})
        seen.update(new)
        count.calls += len(new)
        count.tokens += sum(request.tokens for request in new)
        if model.identity_hash is not None:
            known = self.journal.find([score_key(model.identity_hash, request) for request in new])
            count.known += len(known)
        sequences = [_token_ids(request) for request in new]
        count.computed += computed_tokens(build_tree(sequences)) if sequences else 0

    def notes(self, work: RunPlan) -> Iterable[str]:
        """What was estimated, and how, in sentences."""
        tasks = sum(1 for _ in with_peers(work.study))
        if len(work.study.agents) > 1 and tasks and (few := too_few_tasks(tasks)):
            yield few
        if tasks > TASKS_MEASURED:
            yield f"counted on {TASKS_MEASURED} tasks; the others are assumed to be similar"
        if work.rewriting:
            yield "rewrites do not exist yet and are counted as long as the responses"
        if work.synopses:
            yield f"synopses do not exist yet and are counted as {SYNOPSIS_TOKENS} tokens"
        if any(not model.local for model in self.models.values()):
            yield (
                f"for servers, a token is assumed to have {CHARACTERS_A_TOKEN} characters, and a call to take "
                f"{SERVER_SECONDS_A_CALL:g} s with {SERVER_CALLS_AT_ONCE} calls at once where the journal has none"
            )
        yield from self._paces()
        if work.options.batch:
            yield "with --batch, prices are those of batches, and each round of calls takes up to 24 hours"
        if any(model.tokens_a_second for model in self.models.values()):
            speeds = {m.name: m.tokens_a_second for m in self.models.values() if m.tokens_a_second}
            yield "; ".join(f"{name}: {speed:,.0f} tokens per second now" for name, speed in speeds.items())

    def _paces(self) -> Iterator[str]:
        """How long calls to servers took before."""
        for model in {model.name: model for model in self.models.values()}.values():
            for where, seconds, at_once in (
                ("in the journal", model.seconds_per_call, "with as many calls at once as there were"),
                ("by goldless doctor", model.measured, f"alone; {SERVER_CALLS_AT_ONCE} at once are assumed"),
            ):
                if seconds:
                    paces = ", ".join(f"a {kind} {took:.2g} s" for kind, took in seconds.items())
                    yield f"{model.name}: {where}, {paces}, {at_once}"


def _token_ids(request: ScoreRequest) -> tuple[int, ...]:
    """The ids of context and target, or for a text those of pieces as long as a token usually is."""
    if not isinstance(request.context, str) and not isinstance(request.target, str):
        return request.context + request.target
    text = f"{request.context}{request.target}"
    return tuple(hash(text[i : i + CHARACTERS_A_TOKEN]) for i in range(0, len(text), CHARACTERS_A_TOKEN))


def _measured(study: Study) -> tuple[Study, float]:
    """A sample of tasks spread over the study, and the factor to scale its counts by."""
    tasks = [task.task for task, _ in with_peers(study)]
    if len(tasks) <= TASKS_MEASURED:
        return study, 1.0
    step = len(tasks) / TASKS_MEASURED
    some = [tasks[int(i * step)] for i in range(TASKS_MEASURED)]
    return study.subset(tasks=some), len(tasks) / len(some)


async def _verdict_requests(
    model: _Model, prompt: CriticPrompt, texts: tuple[str, str], *, scoring: bool, explained: bool
) -> list[ScoreRequest]:
    if scoring:
        messages = prompt.messages(*texts)
        return [await model.scorer.encode(messages, prompt.spoken(label)) for label in prompt.labels]
    messages = prompt.messages(*texts, explained=explained)
    return [ScoreRequest("\n".join(message.content for message in messages), "")]


def _row(metric: str | None, part: str, model: _Model, count: _Count, *, share: float | None = None) -> PlannedCalls:
    """The calls; ``share``: the factor to scale counts by, None: nothing to scale, and the calls write texts."""
    texts, share = share is None, 1.0 if share is None else share
    calls, tokens, written = (round(x * share) for x in (count.calls, count.tokens, count.written))
    left = 1 - count.known / count.calls if count.calls else 0.0
    computed = round(count.computed * share) if model.local and count.computed else None
    seconds = None
    if model.local and model.tokens_a_second and computed is not None:
        seconds = computed * left / model.tokens_a_second
    if not model.local:
        kind: Kind = "text" if texts else "score" if part == "scorer" else "verdict"
        alone = model.measured.get(kind, SERVER_SECONDS_A_CALL * (SECONDS_A_TEXT if texts else 1))
        seconds = calls * model.seconds_per_call.get(kind, alone / SERVER_CALLS_AT_ONCE)
    return PlannedCalls(
        metric=metric,
        part=part,
        model=model.name,
        calls=calls,
        known=None if texts or model.identity_hash is None else round(count.known * share),
        tokens=tokens + written,
        computed_tokens=computed,
        cost_usd=None if model.price is None else model.price.cost(Usage(round(tokens * left), round(written * left))),
        seconds=seconds,
        shared_tokens=round(count.computed * share) if not texts and part != "critic" and not model.local else None,
    )


def _rewriting(work: RunPlan) -> _Count:
    """The rewrites of one rewriter."""
    calls = read = written = 0
    for template in work.options.chosen_templates():
        known = {key for preprocessor in work.preprocessors for key in preprocessor.texts()}
        for _, responses in with_peers(work.study):
            for text in (r.text for r in responses if (r.task, r.agent) not in known):
                calls += 1
                read += (len(template.rewrite) + len(text)) // CHARACTERS_A_TOKEN
                written += min(MOST_TOKENS, len(text) // CHARACTERS_A_TOKEN + 1)
    return _Count(calls, read, written)


def _reviewing(work: RunPlan) -> _Count:
    """The ratings of one reviewer."""
    calls = read = written = 0
    for scale in work.scales:
        for task, responses in work.study:
            for response in responses:
                calls += 1
                read += (len(scale.opening) + len(task.prompt or "") + len(response.text)) // CHARACTERS_A_TOKEN
                written += scale.most_tokens // 2
    return _Count(calls, read, written)


def _writing(work: RunPlan) -> _Count:
    """The synopses to write."""
    calls = read = 0
    for task, _ in with_peers(work.study):
        for name in work.synopses:
            if name not in task.synopses:
                calls += 1
                read += len(task.prompt or "") // CHARACTERS_A_TOKEN
    return _Count(calls, read, calls * SYNOPSIS_TOKENS)


def _stand_ins(work: RunPlan) -> Sequence[Preprocessor]:
    """The known rewrites, with the responses in place of those not written yet."""
    if not work.rewriting:
        return work.preprocessors
    found = []
    for template in work.options.chosen_templates():
        for i in range(len(work.options.rewriters)):
            # a mark before the text keeps it apart from the response itself and from other rewriters'
            rows = rewrites_frame(
                [
                    RewriteEvidence(f"rewriter {i + 1}", r.task, r.agent, f"{'-' * (i + 1)} {r.text}")
                    for _, responses in with_peers(work.study)
                    for r in responses
                ]
            )
            whole = pl.concat([rows, *(preprocessor.table for preprocessor in work.preprocessors)])
            found.append(Preprocessor(template.name, whole.unique(("task", "agent"), keep="last", maintain_order=True)))
    return found


def _stand_in_synopses(work: RunPlan) -> pl.DataFrame:
    text = "word " * SYNOPSIS_TOKENS
    return synopses_frame(
        [
            SynopsisEvidence("planned", task.task, name, text)
            for task, _ in with_peers(work.study)
            for name in work.synopses
            if name not in task.synopses
        ]
    )
