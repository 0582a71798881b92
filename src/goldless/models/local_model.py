"""A model on this machine as scorer and chat model; its backend only loads it and provides the engine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
import numpy as np

from goldless.errors import CapabilityError
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Usage,
)
from goldless.models.thoughts import NEAR, reply_start, template_opening
from goldless.models.tokens import KeptIds, token_texts
from goldless.records import CallFailure

if TYPE_CHECKING:
    from goldless.models.local_engine import LocalEngine, Pair, Stop
    from goldless.models.tokens import ChatLayout

Result = TypeVar("Result")
DECIMALS = 6
"""Log-probabilities are rounded to a millionth of a nat, far below any engine's noise."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The result of loading a model, as a backend returns it."""

    identity: ModelIdentity
    layout: ChatLayout
    context_length: int | None
    """Maximum tokens of context and target together; None if the model has no limit."""
    stop: frozenset[int]
    """Tokens that end a reply."""
    engine: LocalEngine | None
    """None after the model was closed."""
    together: bool = False
    """True if the requests of many tasks are computed faster in one call than task by task."""


class LocalModel(ABC):
    """Scorer and chat model over an engine that runs in a thread of this process."""

    def __init__(self) -> None:
        self._loaded: LoadedModel | None = None
        self._closing = threading.Event()
        self._loading = anyio.Lock()
        self._contexts = KeptIds()

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process: everything it knows, but no engine, so that it can encode and must load."""
        known = None if self._loaded is None else replace(self._loaded, engine=None)
        own = ("_closing", "_loading", "_contexts")
        return {**{name: value for name, value in vars(self).items() if name not in own}, "_loaded": known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        LocalModel.__init__(self)
        vars(self).update(state)

    @abstractmethod
    def _load(self) -> LoadedModel:
        """Find, check and load the model; runs in a thread."""

    @property
    def loaded(self) -> LoadedModel:
        """The loaded model, known after ``prepare``."""
        if self._loaded is None:
            raise CapabilityError("the model is not loaded. Call prepare() first")
        return self._loaded

    @property
    def engine(self) -> LocalEngine:
        if self.loaded.engine is None:
            raise CapabilityError("the model is closed. Call prepare() first")
        return self.loaded.engine

    @property
    def identity(self) -> ModelIdentity:
        return self.loaded.identity

    @property
    def capabilities(self) -> Capabilities:
        together = self._loaded is not None and self._loaded.together
        return Capabilities(scoring=True, chat=True, choice=True, token_logprobs=True, together=together)

    @property
    def context_length(self) -> int | None:
        return self.loaded.context_length

    @property
    def positions(self) -> str:
        return "target" if self.loaded.layout.template is None else "target+end"

    async def prepare(self) -> None:
        async with self._loading:
            if self._loaded is None or self._loaded.engine is None:
                self._closing = threading.Event()
                self._loaded = await anyio.to_thread.run_sync(self._load)
                self._contexts = KeptIds()

    async def aclose(self) -> None:
        """Release the engine; a computation in progress stops at its next step."""
        self._closing.set()
        if self._loaded is not None:
            self._loaded = replace(self._loaded, engine=None)

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        return ScoreRequest(self._context(messages), self.loaded.layout.target(target))

    async def read(self, contexts: Sequence[Sequence[Message]], targets: Sequence[str]) -> None:
        read = self.loaded.layout.read
        new = [messages for messages in dict.fromkeys(map(tuple, contexts)) if self._contexts.get(messages) is None]
        await anyio.to_thread.run_sync(lambda: read(new, targets))

    def merges_at_join(self, target: str) -> bool:
        return self.loaded.layout.merges_at_join(target)

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        return self.loaded.layout.pieces(_ids(request)[1])

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        return len(self._context(messages))

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        pairs = dict(enumerate(map(_ids, requests)))
        replies: dict[int, ScoreReply] = {}
        for i in list(pairs):
            if (failure := self._unfit(*pairs[i])) is not None:
                replies[i] = failure
                del pairs[i]
        engine = self.engine
        values = await self._in_thread(lambda stop: engine.score(list(pairs.values()), cancelled=stop))
        for i, logprobs in zip(pairs, values, strict=True):
            # a float32 times a million is exact in float64, so this is what Python's round() gives, digit for digit
            rounded = np.round(logprobs.astype(np.float64), DECIMALS).tolist()
            replies[i] = TokenLogprobs(tuple(rounded), Usage(input_tokens=requests[i].tokens))
        deliver(replies)

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        context = self._context(request.messages)
        if request.choices:
            return await self._choose(context, request.choices)
        if not context:
            return CallFailure(
                "rejected", "there is no message to continue, and this model has no beginning-of-sequence token"
            )
        if (failure := self._unfit(context, (0,))) is not None:
            return failure
        length, engine, stop = self.context_length, self.engine, self.loaded.stop
        most = request.max_tokens if length is None else min(request.max_tokens, length - len(context))

        def write(cancelled: Stop) -> list[tuple[int, float]]:
            temperature, seed = request.temperature, request.seed
            return list(
                engine.generate(context, most=most, stop=stop, temperature=temperature, seed=seed, cancelled=cancelled)
            )

        tokens, tokenizer = await self._in_thread(write), self.loaded.layout.tokenizer
        ids = [token for token, _ in tokens]
        opening = template_opening(tokenizer.decode(context[-NEAR:], skip_special_tokens=False))
        text = opening + tokenizer.decode(ids, skip_special_tokens=False)  # marks of thoughts may be special tokens
        pieces = (token_texts(tokenizer, ids) or ()) if request.logprobs else ()
        return ChatReply(
            text=tokenizer.decode(ids) if reply_start(text) == 0 else text,
            finish="length" if len(tokens) == most else "stop",
            token_logprobs=tuple((piece, round(p, DECIMALS)) for piece, (_, p) in zip(pieces, tokens, strict=False))
            or None,
            usage=Usage(len(context), len(tokens)),
        )

    async def _choose(self, context: tuple[int, ...], choices: tuple[str, ...]) -> ChatReply | CallFailure:
        engine, pairs = self.engine, [(context, self.loaded.layout.target(choice)) for choice in choices]
        if (failure := next((found for pair in pairs if (found := self._unfit(*pair))), None)) is not None:
            return failure
        values = await self._in_thread(lambda stop: engine.score(pairs, cancelled=stop))
        sums = np.asarray([value.sum(dtype=np.float64) for value in values])
        logprobs = sums - np.logaddexp.reduce(sums)
        return ChatReply(
            text=choices[int(np.argmax(logprobs))],
            finish="choice",
            choice_logprobs={c: round(float(p), DECIMALS) for c, p in zip(choices, logprobs, strict=True)},
            usage=Usage(len(context), 1),
        )

    def _context(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of the messages; the same object for equal messages, so that many requests share it."""
        key = tuple(messages)
        return self._contexts.get(key) or self._contexts.put(key, self.loaded.layout.context(key))

    def _unfit(self, context: tuple[int, ...], target: tuple[int, ...]) -> CallFailure | None:
        if not context or not target:
            return CallFailure("rejected", "context and target must have at least one token each")
        length, limit = len(context) + len(target), self.context_length
        if limit is None or length <= limit:
            return None
        return CallFailure("too_long", f"{length} tokens do not fit the model's context of {limit}")

    async def _in_thread(self, work: Callable[[Stop], Result]) -> Result:
        """The result of work in a thread, which is stopped when this call is cancelled or the model is closed."""
        stopping, closing = threading.Event(), self._closing
        try:
            return await anyio.to_thread.run_sync(
                lambda: work(lambda: stopping.is_set() or closing.is_set()), abandon_on_cancel=True
            )
        finally:
            stopping.set()


def _ids(request: ScoreRequest) -> Pair:
    if isinstance(request.context, str) or isinstance(request.target, str):
        raise CapabilityError("this model takes token ids. Make the request with its encode()")
    return request.context, request.target
