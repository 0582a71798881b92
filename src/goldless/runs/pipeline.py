"""The pipeline: the only place that knows the order of the stages.

study → preprocessing → scoring → metrics → statistics → leaderboard
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import numpy as np

from goldless.errors import CapabilityError, GoldlessError, MetricError, UserError, nearest
from goldless.evidence import LogprobEvidence, RewriteEvidence
from goldless.metrics import gem
from goldless.models.cache import default_journal
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.catalogue import Use, open_model
from goldless.models.interface import ChatModel, Scorer
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledChat, JournalledScorer
from goldless.models.usage import FREE_PROVIDERS, Budget, Ledger, Price, price_of
from goldless.preprocessing import RewritingStage
from goldless.records import CallFailure, Response, Task
from goldless.reports.leaderboard import Leaderboard, make_leaderboard
from goldless.runs.evaluation import Evaluation, MetricOutcome, Spending
from goldless.scoring import ScoringStage, questions, refuse_too_long
from goldless.signature import Signature
from goldless.studies import Study
from goldless.templates import Template, find_template

METRICS = {
    "gem-raw": "pointwise mutual information between responses as they are",
    "gem": "the same after a chat model has rewritten them into plain points (needs --rewriter)",
}
TASKS_AT_ONCE = 32
"""Tasks in flight with a server; on this machine one after the other."""

OnTooLong = Literal["error", "skip"]
RewritesByResponse = Mapping[tuple[str, str], RewriteEvidence]
"""By task and agent."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is."""

    stage: str
    done: int
    total: int
    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to evaluate."""

    metrics: Sequence[str] = ("gem-raw",)
    scorer: str | Scorer = "embedded"
    rewriter: str | ChatModel | None = None
    template: str = "general"
    seed: int = 0
    resamples: int = 10_000
    level: float = 0.95
    on_too_long: OnTooLong = "error"
    budget_usd: float | None = None
    price: Price | None = None
    """Price of a model whose price is not known."""
    journal: Path | None = None
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)


async def evaluate_study(study: Study, options: Options) -> Evaluation:
    """Collect what evidence is missing and compute the metrics."""
    template = find_template(options.template)
    _check_metrics(options)
    _check_peers(study)
    recorded = _recorded_rewrites(study) if "gem" in options.metrics else {}
    rewriting = "gem" in options.metrics and any(_to_rewrite(study, recorded))
    if rewriting and options.rewriter is None:
        raise MetricError("gem rewrites responses first: name a chat model with --rewriter, or use gem-raw")
    budget = None if options.budget_usd is None else Budget(options.budget_usd)
    journal = Journal(options.journal or default_journal())
    try:
        scoring_model = _open(options.scorer, "scoring", options)
        chat_model = _open(options.rewriter, "chat", options) if rewriting else None
        _check_budget(budget, options, scoring_model, chat_model)
        async with (
            _ready_scorer(scoring_model, options, journal, budget) as scorer,
            _ready_rewriter(chat_model, options, journal, budget) as rewriter,
        ):
            canaries = await check_scorer(scorer.scorer, journal)
            work = _Work(study, options, template, scorer, rewriter)
            rewrites = await work.rewrite(recorded) if "gem" in options.metrics else {}
            outcomes: dict[str, MetricOutcome] = {}
            logprobs: list[LogprobEvidence] = []
            for metric in dict.fromkeys(options.metrics):
                evidence = await work.score(rewrites if metric == "gem" else None)
                logprobs += evidence
                outcomes[metric] = _outcome(metric, study, evidence, work, canaries)
            return Evaluation(
                study=study.name,
                fingerprint=study.fingerprint,
                outcomes=outcomes,
                logprobs=tuple(logprobs),
                rewrites=tuple(rewrites.values()),
                scorer=scorer.identity,
                canaries=canaries,
                spending=_spending(scorer, rewriter),
                tasks_without_peers=tuple(t for t in study.tasks if len(study.responses(t)) < 2),
                settings={"template": template.name, "seed": str(options.seed), "resamples": str(options.resamples)},
            )
    finally:
        journal.close()


@dataclass(frozen=True, slots=True)
class _Work:
    """The stages of one evaluation."""

    study: Study
    options: Options
    template: Template
    scorer: JournalledScorer
    rewriter: JournalledChat | None

    async def rewrite(self, recorded: RewritesByResponse) -> RewritesByResponse:
        """Rewrites of all responses that have peers: those the study carries, and the others made now."""
        done = dict(recorded)
        wanted = list(_to_rewrite(self.study, recorded))
        if self.rewriter is not None:
            await self._rewrite_now(self.rewriter, wanted, done)
        order = [(r.task, r.agent) for _, rs in self.study for r in rs]
        return {key: done[key] for key in order if key in done}

    async def _rewrite_now(
        self, rewriter: JournalledChat, wanted: Sequence[Response], done: dict[tuple[str, str], RewriteEvidence]
    ) -> None:
        stage = RewritingStage(rewriter, self.template)
        finished = 0

        async def one(response: Response) -> None:
            nonlocal finished
            done[response.task, response.agent] = await stage.rewrite(response)
            finished += 1
            self._report("rewriting", finished, len(wanted), rewriter)

        local = rewriter.identity.provider in FREE_PROVIDERS
        await _at_once(1 if local else TASKS_AT_ONCE * 8, [_later(one, r) for r in wanted])

    async def score(self, rewrites: RewritesByResponse | None) -> list[LogprobEvidence]:
        """Evidence for every pair of responses to a task, or of their rewrites."""
        names = {row.rewriter for row in rewrites.values()} if rewrites else set()
        stage = ScoringStage(self.scorer, self.template, rewriter="+".join(sorted(names)) or None)
        jobs = [(task, _texts(responses, rewrites)) for task, responses in self.study if len(responses) > 1]
        if self.options.on_too_long == "error" and self.scorer.identity.provider in FREE_PROVIDERS:
            refuse_too_long([row for task, texts in jobs for row in await stage.measure(task, texts)])
        total = sum(len(list(questions(list(texts)))) for _, texts in jobs)
        found: dict[str, list[LogprobEvidence]] = {}
        finished = 0

        async def one(task: Task, texts: Mapping[str, str | CallFailure]) -> None:
            nonlocal finished
            found[task.task] = await stage.score_task(task, texts)
            finished += len(found[task.task])
            self._report("scoring", finished, total, self.scorer)

        local = self.scorer.identity.provider in FREE_PROVIDERS
        await _at_once(1 if local else TASKS_AT_ONCE, [_later(one, *job) for job in jobs])
        evidence = [row for task, _ in jobs for row in found[task.task]]
        if self.options.on_too_long == "error":
            refuse_too_long(evidence)
        return evidence

    def _report(self, stage: str, done: int, total: int, model: JournalledScorer | JournalledChat) -> None:
        ledger = model.ledger
        cost = None if ledger.price is None else ledger.spent_usd
        self.options.progress(
            Progress(stage, done, total, ledger.usage.input_tokens + ledger.usage.output_tokens, cost)
        )


def _texts(responses: Sequence[Response], rewrites: RewritesByResponse | None) -> dict[str, str | CallFailure]:
    """What is scored, by agent."""
    if rewrites is None:
        return {response.agent: response.text for response in responses}
    texts: dict[str, str | CallFailure] = {}
    for response in responses:
        row = rewrites[response.task, response.agent]
        texts[response.agent] = row.text or row.failure or CallFailure("bad_reply", "no rewrite")
    return texts


def _recorded_rewrites(study: Study) -> RewritesByResponse:
    """Rewrites that the study carries."""
    table = study.table("rewrites")
    rows = [] if table is None else table.to_dicts()
    known = {
        (row["task"], row["agent"]): RewriteEvidence(
            row.get("rewriter") or "recorded", row["task"], row["agent"], row["text"].strip()
        )
        for row in rows
        if row.get("text") and row["text"].strip()
    }
    return {key: row for key, row in known.items() if study.response(*key) is not None}


def _to_rewrite(study: Study, recorded: RewritesByResponse) -> Iterator[Response]:
    """Responses with peers, of which the study carries no rewrite."""
    return (r for _, rs in study if len(rs) > 1 for r in rs if (r.task, r.agent) not in recorded)


def _outcome(
    metric: str, study: Study, evidence: list[LogprobEvidence], work: _Work, canaries: CanaryReport
) -> MetricOutcome:
    pairs = gem.pair_scores(evidence)
    responses = gem.response_scores(pairs)
    signature = str(_signature(metric, study, evidence, work, canaries))
    board = _leaderboard(metric, study, responses, signature, work.options)
    return MetricOutcome(metric, signature, tuple(pairs), tuple(responses), board)


def _signature(
    metric: str, study: Study, evidence: list[LogprobEvidence], work: _Work, canaries: CanaryReport
) -> Signature:
    identity, options = work.scorer.identity, work.options
    rewriters = sorted({row.rewriter for row in evidence if row.rewriter is not None})
    settings = {
        "scorer": identity.short,
        **({"rewriter": "+".join(rewriters)} if rewriters else {}),
        "template": work.template.name,
        "synopsis": "none",
        **{key: identity.settings[key] for key in ("layout", "kernel", "dialect") if key in identity.settings},
        "positions": work.scorer.positions,
        "noise": f"{canaries.noise_nats:.0e}nats",
        "peers": "all",
        "missing": "left-out",
        "interval": f"tasks-expanded-percentile-{options.level:g}",
        "test": "sign-flip-holm",
        "resamples": str(options.resamples),
        "seed": str(options.seed),
        "study": study.fingerprint[:8],
    }
    return Signature(metric, settings)


def _leaderboard(metric: str, study: Study, responses: Sequence[Any], signature: str, options: Options) -> Leaderboard:
    agents = [agent.agent for agent in study.agents]
    tasks = list(study.tasks)
    values = np.full((len(tasks), len(agents)), np.nan)
    row_of, column_of = {t: i for i, t in enumerate(tasks)}, {a: j for j, a in enumerate(agents)}
    asked, used = dict.fromkeys(agents, 0), dict.fromkeys(agents, 0)
    for r in responses:
        values[row_of[r.task], column_of[r.agent]] = math.nan if r.score is None else r.score
        asked[r.agent] += r.asked
        used[r.agent] += r.used
    return make_leaderboard(
        values,
        agents,
        metric=metric,
        unit="nats",
        signature=signature,
        asked=asked,
        used=used,
        groups={agent.agent: agent.group for agent in study.agents},
        seed=options.seed,
        resamples=options.resamples,
        level=options.level,
    )


def _check_metrics(options: Options) -> None:
    if not options.metrics:
        raise MetricError(f"no metric was named. Known: {', '.join(METRICS)}.")
    for metric in options.metrics:
        if metric not in METRICS:
            known = "\n".join(f"  {name:10} {text}" for name, text in METRICS.items())
            raise MetricError(f"unknown metric {metric!r}{nearest(metric, METRICS)}\nKnown metrics:\n{known}")
    if options.on_too_long not in get_args(OnTooLong):
        raise UserError(f"on_too_long is one of {', '.join(get_args(OnTooLong))}, not {options.on_too_long!r}")
    if options.seed < 0:
        raise UserError(f"a seed is a whole number that is not negative, not {options.seed}")
    if not 0 < options.level < 1:
        raise UserError(f"an interval's level lies between 0 and 1, not at {options.level}")
    if options.resamples < 100:
        raise UserError(f"{options.resamples} resamples are too few for an interval; give at least 100")


def _check_peers(study: Study) -> None:
    if study.n_responses == 0:
        raise MetricError(f"{study.name}: the study has no responses, so there is nothing to score")
    answered = [agent.agent for agent in study.agents]
    if len(answered) < 2:
        raise MetricError(
            f"{study.name}: only one agent ({answered[0]}). GEM and GEM-raw ask what one response tells about "
            "another's, so they need a second agent: another model, a person, an earlier version. No metric of this "
            "version works on one agent alone."
        )
    if all(len(responses) < 2 for _, responses in study):
        raise MetricError(
            f"{study.name}: no task was answered by two agents, so no response has a peer to be compared with"
        )


def _open(given: str | Scorer | ChatModel | None, use: Use, options: Options) -> Any:
    return open_model(given, use=use, say=options.say) if isinstance(given, str) else given


def _check_budget(budget: Budget | None, options: Options, *models: Any) -> None:
    """Refuse a budget that allows no call before anything is sent.

    A model on this machine says who it is only once it is loaded; it is free.
    """
    for model in models:
        if model is not None:
            with suppress(CapabilityError):
                _ledger(model, options, budget)


@asynccontextmanager
async def _ready_scorer(
    model: Any, options: Options, journal: Journal, budget: Budget | None
) -> AsyncIterator[JournalledScorer]:
    """The scorer, loaded or connected; closed afterwards where it was opened here."""
    try:
        await model.prepare()
        if not model.capabilities.scoring:
            raise CapabilityError(
                f"{model.identity.short} gives no log-probabilities of a given text, which GEM and GEM-raw need. "
                "Scorers are: embedded, gguf:PATH, hf:NAME_OR_PATH, a vLLM or SGLang server by "
                "http://HOST:PORT/v1#MODEL."
            )
        yield JournalledScorer(model, journal, _ledger(model, options, budget))
    finally:
        if isinstance(options.scorer, str):
            await model.aclose()


@asynccontextmanager
async def _ready_rewriter(
    model: Any, options: Options, journal: Journal, budget: Budget | None
) -> AsyncIterator[JournalledChat | None]:
    if model is None:
        yield None
        return
    try:
        await model.prepare()
        if not model.capabilities.chat:
            raise CapabilityError(f"{model.identity.short} writes no text, so it cannot rewrite responses for gem.")
        yield JournalledChat(model, journal, _ledger(model, options, budget))
    finally:
        if isinstance(options.rewriter, str):
            await model.aclose()


def _ledger(model: ChatModel | Scorer, options: Options, budget: Budget | None) -> Ledger:
    return Ledger(model.identity.short, price_of(model.identity) or options.price, budget)


def _spending(scorer: JournalledScorer, rewriter: JournalledChat | None) -> tuple[Spending, ...]:
    models = [model for model in (scorer, rewriter) if model is not None]
    return tuple(
        Spending(
            model=model.identity.short,
            calls=model.ledger.calls,
            reused=model.reused,
            usage=model.ledger.usage,
            cost_usd=None if model.ledger.price is None else model.ledger.spent_usd,
        )
        for model in models
    )


def _later(work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: work(*arguments)


async def _at_once(limit: int, jobs: Sequence[Callable[[], Any]]) -> None:
    """Run all jobs, at most ``limit`` at a time."""
    queue = iter(jobs)

    async def worker() -> None:
        for job in queue:
            await job()

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(min(limit, len(jobs))):
                tasks.start_soon(worker)
    except BaseExceptionGroup as group:
        # jobs that ran side by side may all have failed for the same cause: one error is enough
        ours, others = group.split(GoldlessError)
        if ours is None or others is not None:
            raise
        raise _leaf(ours) from None


def _leaf(group: BaseExceptionGroup[GoldlessError]) -> GoldlessError:
    first = group.exceptions[0]
    return _leaf(first) if isinstance(first, BaseExceptionGroup) else first
