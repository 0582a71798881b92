"""The models of a run: each opened, loaded and paid for once, however many parts it plays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.errors import CallError, CapabilityError, GoldlessError, PrerequisiteError
from goldless.models.cache import default_journal
from goldless.models.catalogue import is_local, open_model
from goldless.models.interface import ModelIdentity, Usage
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledChat, JournalledScorer
from goldless.models.provider import Use
from goldless.models.usage import Budget, Ledger, price_of
from goldless.runs.options import Options, Progress

SCORERS = "embedded, gguf:PATH, hf:NAME_OR_PATH, a vLLM or SGLang server by http://HOST:PORT/v1#MODEL"


@dataclass(frozen=True, slots=True)
class Part:
    """A part a model is to play."""

    name: str
    """Such as ``scorer``, ``critic``."""
    given: Any
    """A specification, or the model itself."""
    use: Use


@dataclass(frozen=True, slots=True)
class Spending:
    """What the calls of one model came to."""

    model: str
    calls: int
    """Calls made now."""
    reused: int
    """Replies that were in the journal."""
    usage: Usage
    cost_usd: float | None
    """None: price unknown."""


class OpenModel:
    """A prepared model behind the journal."""

    def __init__(self, model: Any, journal: Journal, ledger: Ledger) -> None:
        self.model = model
        self.ledger = ledger
        self.scorer = JournalledScorer(model, journal, ledger)
        self.chat = JournalledChat(model, journal, ledger)

    @property
    def identity(self) -> ModelIdentity:
        """Who it is."""
        return self.model.identity  # type: ignore[no-any-return]

    @property
    def local(self) -> bool:
        """Whether it computes on this machine, one thing after the other."""
        return is_local(self.identity)

    @property
    def spending(self) -> Spending:
        """What its calls came to."""
        return Spending(
            model=self.identity.short,
            calls=self.ledger.calls,
            reused=self.scorer.reused + self.chat.reused,
            usage=self.ledger.usage,
            cost_usd=None if self.ledger.price is None else self.ledger.spent_usd,
        )

    def progress(self, stage: str, done: int, total: int) -> Progress:
        """How far a stage is that asks it, and what its calls have come to."""
        usage, spent = self.ledger.usage, self.spending.cost_usd
        return Progress(stage, done, total, usage.input_tokens + usage.output_tokens, spent)


@asynccontextmanager
async def open_journal(path: Path | None) -> AsyncIterator[Journal]:
    """The journal that replies are kept in: the user's own where none is named."""
    journal = Journal(path or default_journal())
    try:
        yield journal
    finally:
        journal.close()


@asynccontextmanager
async def open_models(
    parts: Sequence[Part], options: Options, journal: Journal, *, lost: dict[str, GoldlessError] | None = None
) -> AsyncIterator[Mapping[str, OpenModel]]:
    """The models by part, loaded or connected; those that were opened here are closed afterwards.

    ``lost``: takes the parts whose model cannot be reached or loaded now, with the cause, and the others go on; where
    it is not given, the first such cause is raised.
    """
    budget = None if options.budget_usd is None else Budget(options.budget_usd)
    unique = _unique(parts)
    models = [_open(played, options) for played in unique]
    for model in models:
        # a model on this machine says who it is only once it is loaded; it is free
        with suppress(CapabilityError):
            _ledger(model, options, budget)
    opened: dict[str, OpenModel] = {}
    async with AsyncExitStack() as stack:
        for played, model in zip(unique, models, strict=True):
            if isinstance(played[0].given, str):
                stack.push_async_callback(model.aclose)
            try:
                await model.prepare()
            except (CallError, PrerequisiteError) as error:
                if lost is None:
                    raise
                lost |= {part.name: error for part in played}
                continue
            ready = OpenModel(model, journal, _ledger(model, options, budget))
            opened |= {part.name: ready for part in played}
        yield opened


def _unique(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts grouped by the model that plays them."""
    groups: list[list[Part]] = []
    for part in parts:
        for group in groups:
            same = group[0].given == part.given if isinstance(part.given, str) else group[0].given is part.given
            if same:
                group.append(part)
                break
        else:
            groups.append([part])
    return groups


def _open(played: Sequence[Part], options: Options) -> Any:
    given, uses = played[0].given, {part.use for part in played}
    if not isinstance(given, str):
        return given
    return open_model(given, use=uses.pop() if len(uses) == 1 else "both", say=options.say)


def _ledger(model: Any, options: Options, budget: Budget | None) -> Ledger:
    return Ledger(model.identity.short, price_of(model.identity) or options.price, budget)


def refuse_without_scoring(model: OpenModel, metrics: Sequence[str]) -> None:
    """Raise where a model that gives no log-probabilities was asked for metrics made of them."""
    if model.model.capabilities.scoring:
        return
    can = "It can serve tvd-mi as --critic, and rewrite for gem as --rewriter. " * model.model.capabilities.chat
    raise CapabilityError(
        f"{model.identity.short} gives no log-probabilities of a given text, which {', '.join(metrics)} "
        f"need{'s' * (len(metrics) == 1)}. {can}Scorers are: {SCORERS}."
    )


def refuse_without_chat(model: OpenModel, purpose: str) -> None:
    """Raise where a model that writes nothing was asked to write."""
    if not model.model.capabilities.chat:
        raise CapabilityError(f"{model.identity.short} writes no text, so it cannot {purpose}.")
