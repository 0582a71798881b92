"""The model interface: two Protocols and the requests and replies they exchange.

A *scorer* returns log-probabilities of a given text. A *chat model* writes text, or chooses among given answers. A
backend may be both. What a model may have besides is in ``OPTIONAL``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from goldless.errors import UserError
from goldless.models.marks import process_mark
from goldless.models.thoughts import reply_start, reply_tokens
from goldless.models.turn_signs import without_turn_signs
from goldless.records import CallFailure


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; no content can end its turn or begin another one, see ``turn_signs``."""

    role: Literal["system", "user", "assistant"]
    content: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", without_turn_signs(self.content))


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Everything that must be equal for two calls to be the same call."""

    provider: str
    """The prefix of its provider, such as ``embedded``, ``hf`` or ``http``."""
    name: str
    """The model's name as the user knows it."""
    revision: str = ""
    """Hash of the weights, revision of the repository, or what the server reports about itself."""
    tokenizer: str = ""
    """Hash of the tokenizer and chat template, if they are visible to us."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Other settings that change its numbers: precision, kernel, dialect."""

    @property
    def short(self) -> str:
        """A short name for tables and signatures, by which recorded log-probabilities are matched to a model."""
        name = self.name if self.provider == self.name else f"{self.provider}:{self.name}"
        name += f"@{self.revision[:8]}" if self.revision else ""
        precision = {"bfloat16": "bf16", "float16": "fp16"}.get(self.settings.get("dtype", ""))
        if precision is None:
            return name
        # in half precision a sum changes by whole nats with the computation
        return f"{name}/{precision}{'-packed' * self.settings.get('sharing', '').startswith('packed')}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that one call was charged for."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The abilities of a model."""

    scoring: bool = False
    """Returns log-probabilities of a given text."""
    chat: bool = False
    """Writes text."""
    choice: bool = False
    """Returns probabilities over given answers."""
    one_call_choice: bool = False
    """Returns them with what it writes, in one call, where scoring each answer takes a call each."""
    token_logprobs: bool = False
    """Returns log-probabilities of the tokens it writes."""
    together: bool = False
    """Computes on this machine, and faster with more tasks per call."""
    keeps_prefixes: bool = False
    """On a server that computes what requests begin with once, if one of them is answered before the others."""


Use = Literal["both", "chat", "scoring"]
"""The purpose that a model is opened for."""


class AnyModel(Protocol):
    """The common part of scorers and chat models."""

    @property
    def identity(self) -> ModelIdentity: ...
    @property
    def capabilities(self) -> Capabilities:
        """The abilities of the model; may be known only after ``prepare``."""

    async def prepare(self) -> None:
        """Load, connect or probe. Raises a UserError if the model cannot be used."""

    async def aclose(self) -> None:
        """Release resources."""


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A request for log p(target | context): token ids to be joined, or texts for a server that hides its tokenizer."""

    context: tuple[int, ...] | str
    target: tuple[int, ...] | str

    @property
    def tokens(self) -> int:
        """Tokens to compute, estimated at four characters per token for plain text."""
        return sum(len(part) if isinstance(part, tuple) else len(part) // 4 + 1 for part in (self.context, self.target))


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """log p of each token of a target, in nats, in order, target positions only."""

    logprobs: tuple[float, ...]
    usage: Usage = Usage()

    @property
    def total(self) -> float:
        return float(sum(self.logprobs))


ScoreReply = TokenLogprobs | CallFailure
ROUNDING_NATS = 1e-3
"""By about this much a log-probability can exceed zero in half precision."""
Deliver = Callable[[Mapping[int, ScoreReply]], None]
"""Called with replies by request index as they come; those computed together, together: all are kept or none."""


def is_log_probability(value: float) -> bool:
    """Return True for a finite number that is at most zero, but for rounding."""
    return -math.inf < value <= ROUNDING_NATS


def check_score_reply(request: ScoreRequest, reply: ScoreReply) -> ScoreReply:
    """The reply, or a failure if it does not have one log-probability for each token of the target."""
    if isinstance(reply, CallFailure):
        return reply
    found, target = len(reply.logprobs), request.target
    # a text is cut into tokens by the server alone
    expected = found if isinstance(target, str) else len(target)
    if found == expected and all(map(is_log_probability, reply.logprobs)):
        return reply
    message = f"got {found} values for {expected} tokens, or values that are not log-probabilities"
    return CallFailure("bad_reply", message, charged=(reply.usage.input_tokens, reply.usage.output_tokens))


@runtime_checkable
class Scorer(AnyModel, Protocol):
    """A model that returns log-probabilities of a given text (the papers' evaluation-LM)."""

    @property
    def context_length(self) -> int | None:
        """Maximum tokens of context and target together; None if unknown."""

    @property
    def positions(self) -> str:
        """The summed positions, for the signature: ``target`` or ``target+end`` (with the end-of-turn token)."""

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request for log p(target as the assistant's turn | messages)."""

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, which concatenate to the target; an end token is "". None if unknown."""

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Score all requests, in any order, sharing common parts; deliver every reply once."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for a text, or for a choice among given answers."""

    messages: tuple[Message, ...]
    max_tokens: int = 1024
    temperature: float = 0.0
    seed: int | None = None
    choices: tuple[str, ...] = ()
    """If given, the reply is one of these, with the probability of each if the backend can return it."""
    logprobs: bool = False
    """Return log-probabilities of the written tokens if the backend can."""
    mark: str = ""
    """The mark that the messages ask the verdict to carry; calls that differ by it alone are the same call."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's reply without its thoughts, see ``thoughts``, however a backend returns them."""

    text: str
    """Empty if the thoughts have no end."""
    finish: Literal["stop", "length", "choice"] = "stop"
    """``length``: cut at max_tokens, or while thinking."""
    token_logprobs: tuple[tuple[str, float], ...] | None = None
    """Each token of the text with its log-probability in nats; None if the backend's tokens are not those of the text.
    """
    choice_logprobs: Mapping[str, float] | None = None
    """log p of each given answer, normalised over the answers; None if the backend cannot return it."""
    usage: Usage = Usage()
    mark: str = ""
    """For a reply from the journal: the mark that its question carried."""
    earlier_usage: Usage | None = field(default=None, compare=False)
    """For a reply from the journal: the tokens charged when its call was made."""

    def __post_init__(self) -> None:
        start = reply_start(self.text)
        if start is None:
            object.__setattr__(self, "finish", "length")
        if start != 0:
            object.__setattr__(self, "text", self.text[start:] if start else "")
        if self.token_logprobs is None or self.finish == "choice":
            return
        tokens = reply_tokens([token for token, _ in self.token_logprobs], self.text)
        logprobs = tuple((token, self.token_logprobs[place][1]) for place, token in tokens.items())
        object.__setattr__(self, "token_logprobs", logprobs or None)


def finished(reply: ChatReply | CallFailure) -> ChatReply | CallFailure:
    """The reply, or the failure of one that ended before the model had finished thinking."""
    if isinstance(reply, CallFailure) or reply.finish != "length" or reply.text.strip():
        return reply
    return CallFailure(
        "truncated",
        "the reply ended while the model was still thinking. Allow more thoughts with ?thinking=TOKENS, or fewer with "
        "?effort=low",
    )


def unusable(reply: ChatReply | CallFailure, what: str, most_tokens: int) -> CallFailure | None:
    """The reason why the text is missing: the call failed, it was cut, or it is empty; None if it is usable."""
    found = usable(reply, what, most_tokens)
    return None if isinstance(found, str) else found


def usable(reply: ChatReply | CallFailure, what: str, most_tokens: int) -> str | CallFailure:
    """The text of a reply, or why it is missing."""
    if isinstance(reply, CallFailure):
        return reply
    if reply.finish == "length":
        return CallFailure("truncated", f"the {what} was cut at {most_tokens} tokens")
    return reply.text.strip() or CallFailure("bad_reply", f"the {what} is empty")


class Writer(Protocol):
    """The part of a chat model that writing stages need."""

    @property
    def identity(self) -> ModelIdentity: ...
    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply, or why there is none. Raises only UserError, for problems that no retry can fix."""


@runtime_checkable
class ChatModel(AnyModel, Writer, Protocol):
    """A model that writes text."""


class NotSentError(UserError):
    """A batch that certainly was not accepted by its provider."""


class QueueFullError(NotSentError):
    """A batch that its provider takes only once others have been answered, or a smaller one."""


class Model(Scorer, ChatModel, Protocol):
    """A backend that is both a scorer and a chat model, as far as its capabilities go."""


async def _nothing(*_: Any) -> None:
    """For a model that has no such method."""


OPTIONAL: Mapping[str, Any] = {
    # maximum tokens of a request and its reply, or of context and target, together; None if unknown
    "context_length": None,
    # read(contexts, targets): tokenise these texts together, so that encode finds them
    "read": _nothing,
    # count_tokens(messages): tokens as the model reads them; None if unknown. Raises CallError if it is down
    "count_tokens": _nothing,
    # merges_at_join(target): whether the tokenizer would merge a context's end with this target's beginning
    "merges_at_join": lambda _: False,
    # mark(question): the mark that a verdict on this question must carry
    "mark": process_mark,
    # training_record(): the record of its training; empty if there is none. Known after prepare
    "training_record": dict,
    # charge_to(ledger): let it pay for calls that the model makes besides those it is asked for, such as probes
    "charge_to": lambda _: None,
}
"""Members a model may have and need not, and what one without them answers through ``WrappedModel``."""


class WrappedModel:
    """A model inside an object such as a journal or a meter; everything not overridden is passed on."""

    def __init__(self, model: Any) -> None:
        self._model: Model = model

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._model, name, OPTIONAL[name]) if name in OPTIONAL else getattr(self._model, name)


def content_hash(*parts: Any) -> str:
    """sha256 of plain data, independent of dictionary order."""
    body = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(body.encode()).hexdigest()
