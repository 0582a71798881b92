"""What a model is to goldless: two Protocols and the requests and replies they exchange.

A *scorer* gives log-probabilities of a given text. A *chat model* writes text, or chooses among given answers.
A backend may be both. Neither knows the journal, the budget or the study. A chat model that knows how long its requests
are is a *measuring model* besides.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from goldless.records import CallFailure

HALF_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16"}
"""Their short names."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Everything that must be equal for two calls to be the same call."""

    provider: str
    """The prefix of its provider, such as ``embedded``, ``hf`` or ``http``."""
    name: str
    """The model's name as the user knows it."""
    revision: str = ""
    """Hash of the weights, revision of the repository, or what the server says of itself."""
    tokenizer: str = ""
    """Hash of the tokenizer and chat template, where they are ours to see."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Whatever else changes its numbers: precision, kernel, dialect."""

    @property
    def short(self) -> str:
        """One word for tables and signatures: provider, name and the first digits of the revision.

        In half precision, where a sum moves by whole nats with the way of computing, precision and way come behind it:
        by this word recorded log-probabilities are taken for a model's own.
        """
        name = self.name if self.provider == self.name else f"{self.provider}:{self.name}"
        return (f"{name}@{self.revision[:8]}" if self.revision else name) + self._coarse

    @property
    def _coarse(self) -> str:
        """Nothing in float32; else the precision, and whether sequences are packed."""
        precision = HALF_PRECISIONS.get(self.settings.get("dtype", ""))
        packed = self.settings.get("sharing", "").startswith("packed")
        return "" if precision is None else f"/{precision}{'-packed' if packed else ''}"

    def as_dict(self) -> dict[str, Any]:
        """The identity as plain JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens one call was charged for."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """The sum of two calls."""
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do."""

    scoring: bool = False
    """Log-probabilities of a given text."""
    chat: bool = False
    """Text out."""
    choice: bool = False
    """Probabilities over given answers."""
    token_logprobs: bool = False
    """Log-probabilities of the tokens it writes."""
    together: bool = False
    """Computes on this machine, and faster the more tasks it is asked about in one call."""


@runtime_checkable
class AnyModel(Protocol):
    """What scorers and chat models have in common."""

    @property
    def identity(self) -> ModelIdentity:
        """Who computes or answers."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; may be known only after ``prepare``."""

    async def prepare(self) -> None:
        """Load, connect or probe. Raises a UserError where the model cannot be used."""

    async def aclose(self) -> None:
        """Give back files, threads and connections."""


# --- scoring ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Ask for log p(target | context), token by token.

    Both sides are token ids where the tokenizer is at hand, and the ids are joined. A server that shows no tokenizer
    gets both as text, and its reply must prove that a token boundary stands between them.
    """

    context: tuple[int, ...] | str
    target: tuple[int, ...] | str

    @property
    def tokens(self) -> int:
        """Tokens to be computed, estimated at four characters a token for plain text."""
        return sum(len(part) if isinstance(part, tuple) else len(part) // 4 + 1 for part in (self.context, self.target))


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """log p of each token of a target, in nats, natural order, target positions only."""

    logprobs: tuple[float, ...]
    usage: Usage = Usage()
    retries: tuple[CallFailure, ...] = ()
    """Failed attempts that came before this success."""

    @property
    def total(self) -> float:
        """Sum over the target's tokens, in nats."""
        return float(sum(self.logprobs))


ScoreReply = TokenLogprobs | CallFailure
Deliver = Callable[[Mapping[int, ScoreReply]], None]
"""Called with replies by request index as soon as they are there. Replies computed together are delivered together:
they are kept together or not at all, so that a run that was killed computes the same numbers again."""


@runtime_checkable
class Scorer(AnyModel, Protocol):
    """A model that gives log-probabilities of a given text (the papers' evaluation-LM)."""

    @property
    def context_length(self) -> int | None:
        """Most tokens of context and target together; None where unknown."""

    @property
    def positions(self) -> str:
        """Which positions are summed, for the signature: ``target`` or ``target+end`` (with the end-of-turn token)."""

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request for log p(target as the assistant's turn | messages)."""

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, which joined give the target; an end token is "". None where it cannot tell."""

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Score all requests, in any order and sharing what they share; deliver every reply once."""


@runtime_checkable
class JoiningScorer(Protocol):
    """A scorer that joins token ids and can tell whether its tokenizer would. No scorer need be one."""

    def merges_at_join(self, target: str) -> bool:
        """Whether the tokenizer would make one token of a context's end and this target's beginning."""


@runtime_checkable
class TrainedScorer(Protocol):
    """A scorer that may know what it was trained with and on. No scorer need be one."""

    def training_record(self) -> Mapping[str, Any]:
        """What is kept of its training; empty where nothing is. Known after ``prepare``."""


# --- chat ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Ask for a text, or for a choice among given answers."""

    messages: tuple[Message, ...]
    max_tokens: int = 1024
    temperature: float = 0.0
    seed: int | None = None
    choices: tuple[str, ...] = ()
    """When given, the answer is one of these, with the probability of each where the backend can tell."""
    logprobs: bool = False
    """Return log-probabilities of the written tokens where the backend can."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a chat model wrote."""

    text: str
    finish: Literal["stop", "length", "choice"] = "stop"
    """``length``: cut at max_tokens."""
    token_logprobs: tuple[tuple[str, float], ...] | None = None
    """Each written token with its log-probability in nats."""
    choice_logprobs: Mapping[str, float] | None = None
    """log p of each given answer, normalised over the answers; None where the backend cannot tell."""
    usage: Usage = Usage()
    retries: tuple[CallFailure, ...] = ()
    earlier_usage: Usage | None = field(default=None, compare=False)
    """Of a reply out of the journal: what its call was charged for when it was made."""


def unusable(reply: ChatReply | CallFailure, what: str, most_tokens: int) -> CallFailure | None:
    """Why the text is missing: the call failed, it was cut, or it is empty; None where it can be used."""
    if isinstance(reply, CallFailure):
        return reply
    if reply.finish == "length":
        return CallFailure("truncated", f"the {what} was cut at {most_tokens} tokens")
    if not reply.text.strip():
        return CallFailure("bad_reply", f"the {what} came back empty")
    return None


class Writer(Protocol):
    """What a stage needs of a chat model that writes."""

    @property
    def identity(self) -> ModelIdentity:
        """Who writes."""

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply."""


@runtime_checkable
class ChatModel(AnyModel, Protocol):
    """A model that writes text."""

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply, or why there is none. Raises only UserError, for what no retry can mend."""


@runtime_checkable
class MeasuringModel(Protocol):
    """A chat model that may know how many tokens a request has and how many fit. No model need be one."""

    @property
    def context_length(self) -> int | None:
        """Most tokens of a request and its reply together; None where unknown."""

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of the messages as the model reads them; None where it cannot tell.

        Raises CallError where it could tell, but does not answer now.
        """


# --- both ------------------------------------------------------------------------------------------------------


class Model(Scorer, ChatModel, Protocol):
    """A backend that is both a scorer and a chat model, as far as its capabilities go."""


class WrappedModel:
    """A model inside an object that adds to it, such as a journal or a meter: what is not changed goes through."""

    def __init__(self, model: Any) -> None:
        """``model`` need have only what is asked of it."""
        self._model: Model = model

    @property
    def identity(self) -> ModelIdentity:
        """Who computes or answers."""
        return self._model.identity

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._model.capabilities

    async def prepare(self) -> None:
        """Load, connect or probe."""
        await self._model.prepare()

    async def aclose(self) -> None:
        """Give back what the model holds."""
        await self._model.aclose()


class WrappedScorer(WrappedModel):
    """A scorer inside such an object."""

    @property
    def context_length(self) -> int | None:
        """Most tokens of context and target together."""
        return self._model.context_length

    @property
    def positions(self) -> str:
        """Which positions are summed."""
        return self._model.positions

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request for log p(target | messages)."""
        return await self._model.encode(messages, target)

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, as the scorer tells them."""
        return await self._model.pieces(request)


def content_hash(*parts: Any) -> str:
    """sha256 of plain data, independent of dictionary order."""
    body = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(body.encode()).hexdigest()
