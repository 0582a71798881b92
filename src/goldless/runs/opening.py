"""The models of a run: each opened, loaded and paid for once, however many roles it has.

A scorer that was trained: how it was asked and on which tasks, held against what it is to score now.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.errors import CallError, CapabilityError, GoldlessError, PrerequisiteError, WaitingError
from goldless.models.cache import default_journal
from goldless.models.canaries import CanaryReport
from goldless.models.canaries import check_scorer as check_canaries
from goldless.models.catalogue import check_scorer, is_local, open_model
from goldless.models.interface import (
    AnyModel,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    Scorer,
    ScoreRequest,
    Use,
    WrappedModel,
    content_hash,
)
from goldless.models.journal import Journal
from goldless.models.journalled import BatchedChat, JournalledModel, batching, raise_if_waiting
from goldless.models.tokens import RequestLength, context_limit, request_length
from goldless.models.usage import Budget, Ledger, batch_share, price_of
from goldless.records import CallFailure, Response, Task
from goldless.reports.run_record import Spending as Spending  # noqa: PLC0414 - verbs take it from here
from goldless.runs.options import Options
from goldless.runs.places import Workers, find_place
from goldless.runs.progress import Progress
from goldless.templates import TEMPLATES, Template

CALLS_AT_ONCE = 256
SCORERS = "embedded, gguf:PATH, hf:NAME_OR_PATH, a vLLM or SGLang server by http://HOST:PORT/v1#MODEL"


@dataclass(frozen=True)
class Part:
    """A role and the model for it."""

    name: str
    """Such as ``scorer``, ``critic``."""
    given: Any
    """A specification, or the model itself."""
    use: Use


class OpenJudge(WrappedModel):
    """A model that gives verdicts: it writes, and scores labels where it can; a server must pass its canaries first."""

    def __init__(self, model: OpenModel, journal: Journal) -> None:
        super().__init__(model.scorer)
        self._opened = model
        self.journal = journal

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        return await self._opened.chat.chat(request)

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        if not is_local(self.identity):
            await check_canaries(self._opened.model, self.journal, self._opened.ledger)
        await self._opened.scorer.score(requests, deliver)


class OpenModel:
    """A prepared model behind the journal."""

    def __init__(self, model: Any, journal: Journal, ledger: Ledger, *, batch: bool = False) -> None:
        self.model: Any = model
        self.local = is_local(model.identity)
        """True if it computes on this machine, or on a fleet of such, one request at a time in each process."""
        self.crew: Workers | None = getattr(model, "crew", None)
        """The workers elsewhere that compute it; None: there are none."""
        self.ledger = ledger
        if batch and ledger.price is not None:  # only from here on: probes are not in a batch
            ledger.price = ledger.price.shared(batch_share(model.identity))
        self.batched = BatchedChat(model, journal, ledger) if batch else None
        self.scorer = self.chat = self.batched or JournalledModel(model, journal, ledger)
        self.judge: Any = OpenJudge(self, journal)

    @property
    def identity(self) -> ModelIdentity:
        """It changes when a server refuses a setting."""
        return self.model.identity  # type: ignore[no-any-return]

    def replica(self, replicate: int) -> OpenModel:
        """The same model, whose calls are others than those of the same requests here."""
        other = copy(self)
        other.scorer = other.chat = self.chat.replica(replicate)
        other.judge = OpenJudge(other, self.judge.journal)
        return other

    @property
    def spending(self) -> Spending:
        reused = self.chat.reused
        known = self.ledger.price is not None and not reused.unpriced
        return Spending(
            model=self.identity.short,
            calls=self.ledger.calls,
            reused=reused.calls,
            usage=self.ledger.usage,
            cost_usd=None if self.ledger.price is None else self.ledger.spent_usd,
            estimated=self.ledger.estimated,
            kept=self.ledger.kept,
            kept_usage=self.ledger.kept_usage,
            result_usd=self.ledger.spent_usd + reused.cost_usd if known else None,
        )

    def at_once(self, calls: int = CALLS_AT_ONCE, *, here: int = 1) -> int:
        """Requests under way: ``calls`` at a server, ``here`` on this machine, some for each worker of a fleet."""
        if self.crew is not None:
            return self.crew.at_once
        return here if self.local else calls

    def context_limit(self, requested: int | None) -> int | None:
        """Maximum tokens of request and reply, ``requested`` if that is lower; None: the server decides."""
        return context_limit(self.chat, requested)

    async def request_length(self, messages: Sequence[Message]) -> RequestLength:
        """The messages' length; raises CallError if the model can count it but does not respond now."""
        return await request_length(self.chat, messages)

    async def check_scorer(self) -> CanaryReport:
        """The report of its canaries; raises CanaryError if its log-probabilities cannot be trusted."""
        return await check_canaries(self.model, self.judge.journal, self.ledger)

    def require_chat(self, purpose: str) -> None:
        """Raise if it cannot write text."""
        if not self.model.capabilities.chat:
            raise CapabilityError(f"{self.identity.short} does not write text, so it cannot {purpose}")

    def progress(self, stage: str, done: int, total: int, failed: int = 0) -> Progress:
        """Progress of a stage that calls it, with the cost of its calls so far."""
        usage, spent = self.ledger.usage, self.spending.cost_usd
        workers = None if self.crew is None else self.crew.size
        tokens, reused = usage.input_tokens + usage.output_tokens, self.chat.reused.calls
        return Progress(stage, done, total, tokens, spent, workers, failed, reused)


@asynccontextmanager
async def open_journal(path: Path | None, occasion: str = "") -> AsyncIterator[Journal]:
    """The journal of replies (default: the user's); on another ``occasion`` the same calls are made again."""
    journal = Journal(path or default_journal(), occasion)
    try:
        yield journal
    finally:
        journal.close()


@asynccontextmanager
async def open_models(
    parts: Sequence[Part], options: Options, journal: Journal, *, lost: dict[str, GoldlessError] | None = None
) -> AsyncIterator[Mapping[str, OpenModel]]:
    """The models by role, loaded or connected; those opened here are closed afterwards.

    ``lost``: takes the parts whose model cannot be reached or loaded now, with the cause, and the others go on; where
    it is not given, the first such cause is raised.

    After the block, calls that wait for a batch are sent, and WaitingError is raised if anything is out. An error that
    goldless raised in the block may be due to what is not there yet: what waits is sent all the same.
    """
    budget = None if options.models.budget_usd is None else Budget(options.models.budget_usd)
    crew = None if options.models.on is None else find_place(options.models.on).workers(options.models.on, options.say)
    by_model: dict[str | int, list[Part]] = {}
    for part in parts:
        by_model.setdefault(part.given if isinstance(part.given, str) else id(part.given), []).append(part)
    models = [(played, *_open(played, options, crew, budget)) for played in by_model.values()]
    opened: dict[str, OpenModel] = {}
    async with AsyncExitStack() as stack:
        if crew is not None:
            stack.push_async_callback(crew.aclose)
        for played, model, ledger, batch in models:
            if isinstance(played[0].given, str):
                stack.push_async_callback(model.aclose)
            try:
                await model.prepare()
            except (CallError, PrerequisiteError) as error:
                if lost is None:
                    raise
                lost |= {part.name: error for part in played}
                continue
            ready = OpenModel(model, journal, ledger or _ledger(model, played[0].given, options, budget), batch=batch)
            opened |= {part.name: ready for part in played}
            if ready.batched is not None:
                await ready.batched.collect()
        cause = None
        try:
            yield opened
        except GoldlessError as error:
            cause = error
        await _send_batches([one.batched for one in dict.fromkeys(opened.values()) if one.batched is not None], cause)


async def _send_batches(batches: Sequence[BatchedChat], cause: GoldlessError | None) -> None:
    for waiting in batches:
        await waiting.submit()
    raise_if_waiting(batches, cause)
    if cause is not None:
        raise cause


def stop_if_waiting(models: Iterable[OpenModel]) -> None:
    """Raise WaitingError if calls wait for a batch: what follows from their replies cannot be asked yet."""
    if any(model.batched is not None and model.batched.waits for model in models):
        raise WaitingError("calls wait for a batch")


def _open(
    played: Sequence[Part], options: Options, crew: Workers | None, budget: Budget | None
) -> tuple[Any, Ledger | None, bool]:
    """A model, its ledger if it says who it is before it is loaded, and whether its calls are sent as batches."""
    given, uses = played[0].given, {part.use for part in played}
    if isinstance(given, str) and "scoring" in uses:
        check_scorer(given)
    use = next(iter(uses)) if len(uses) == 1 else "both"
    model = None if crew is None else crew.model(given, use)
    if model is None and isinstance(given, str):
        model = open_model(given, use=use, say=options.say)
    model, ledger = model or given, None
    with suppress(CapabilityError):  # one that says who it is only once it is loaded is here, and free
        ledger = _ledger(model, given, options, budget)
        WrappedModel(model).charge_to(ledger)  # it also pays for probes
    batch = options.models.batch and uses != {"scoring"}
    if batch:
        batching(model)
    return model, ledger, batch


def _ledger(model: Any, given: object, options: Options, budget: Budget | None) -> Ledger:
    return Ledger(model.identity.short, price_of(model.identity, given) or options.models.price, budget)


def refuse_without_scoring(model: OpenModel, metrics: Sequence[str]) -> None:
    """Raise if a model cannot return the log-probabilities that metrics need."""
    if model.model.capabilities.scoring:
        return
    can = "It can be the --critic of tvd-mi or the --rewriter of gem. " * model.model.capabilities.chat
    raise CapabilityError(
        f"{model.identity.short} does not return log-probabilities of a given text, which {', '.join(metrics)} "
        f"need{'s' * (len(metrics) == 1)}. {can}Scorers: {SCORERS}"
    )


def layout_note(model: AnyModel) -> str | None:
    """A warning about a chat model on a server that is scored without its chat template."""
    if model.identity.settings.get("layout") != "plain" or not model.capabilities.chat or is_local(model.identity):
        return None
    return (
        f"{model.identity.short} is scored WITHOUT its chat template, because its server shows no tokenizer that "
        "applies it: scores differ from those of the same model elsewhere. Add the model's tokenizer, as in "
        "http://HOST:PORT/v1#MODEL?tokenizer=NAME_OR_PATH"
    )


TRAINED_ON = "trained_on"
"""Key of the task hashes in a training record."""
ASKED_WITH = ("predict", "synopsis_heading", "candidate_heading")
"""The fields of a template that a scorer reads."""


def task_marks(task: Task, responses: Iterable[Response]) -> set[str]:
    """Hashes that identify a task: of its name with its prompt, and with each response to it."""
    texts = [task.prompt, *(response.text for response in responses)]
    return {content_hash(task.task, text) for text in texts if text}


def trained_on(tasks: Iterable[tuple[Task, Sequence[Response]]]) -> dict[str, list[str]]:
    """The part of a training record that tells these tasks: no text, only hashes."""
    return {TRAINED_ON: sorted({mark for task, responses in tasks for mark in task_marks(task, responses)})}


def scorer_notes(
    scorer: Scorer, templates: Iterable[Template], tasks: Iterable[tuple[Task, Sequence[Response]]]
) -> list[str]:
    """Warnings about using a scorer this way: otherwise than it was trained, or without its chat template."""
    record = WrappedModel(scorer).training_record()
    unlike = layout_note(scorer)
    found = [] if unlike is None else [unlike]
    trained, name = record.get("template") or {}, scorer.identity.short
    other = [t.name for t in templates if trained and any(getattr(t, one) != trained.get(one) for one in ASKED_WITH)]
    if other:
        used = str(trained["name"])
        if used not in TEMPLATES:  # a custom one is named after its file and a hash
            used = f"{used.rpartition('@')[0] or used}.toml, the file it was trained with"
        found.append(
            f"{name} was trained with the template {trained['name']}, but is used with {', '.join(other)} here, so "
            f"its scores may be off. Use --template {used}"
        )
    marks = set(record.get(TRAINED_ON) or ())
    seen = [not marks.isdisjoint(task_marks(*task)) for task in tasks] if marks else []
    if any(seen):
        found.append(
            f"{name} was trained on {sum(seen)} of the {len(seen)} tasks scored here and has seen responses to them. "
            "Score other tasks"
        )
    return found
