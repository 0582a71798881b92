"""What the ways of asking a server for log-probabilities have in common.

A *dialect* turns messages and a target into a request and a request into log-probabilities. Two kinds exist. With
*ids*, the server shows its tokenizer: context and target are tokenised apart, the ids are joined, and the reply must
bring the same ids back. With *text*, the reply must prove that a token boundary stands between context and target.

The *layout* says how messages become a context: ``chat`` is the server's own chat template, ``plain`` is the contents
joined by blank lines and ending in a blank line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from goldless.models.http_api.failures import AttemptError, bad_reply
from goldless.models.interface import Message, ScoreRequest, TokenLogprobs, Usage

if TYPE_CHECKING:
    from goldless.models.http_api.retrying import Calls

Layout = Literal["chat", "plain"]

SCORING_TEMPERATURE = 1.0
"""Log-probabilities are those of the model itself; some servers would scale them by any other temperature."""

_CLAMPED_NATS = -9999.0
"""vLLM writes this for minus infinity, which is no log-probability anybody could sum."""
_ROUNDING_NATS = 1e-3
"""Log-probabilities in half precision come out above zero by at most about this much."""


class Dialect(Protocol):
    """One way of asking for log p(target | context)."""

    @property
    def name(self) -> str:
        """Its name in the identity and in messages."""

    @property
    def layout(self) -> Layout:
        """How messages become a context."""

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request in the form this dialect asks with. Raises AttemptError."""

    async def pieces(self, calls: Calls, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, or None where the server cannot tell. Raises AttemptError."""

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The log-probabilities of the target's tokens, proven to be theirs. Raises AttemptError."""


def plain_layout(messages: Sequence[Message]) -> str:
    """The contents joined by blank lines and ending in a blank line."""
    return "".join(f"{message.content}\n\n" for message in messages)


def ids_of(request: ScoreRequest) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Context and target as ids. Raises AttemptError for a request made for another dialect."""
    context, target = request.context, request.target
    if isinstance(context, str) or isinstance(target, str):
        raise AttemptError("rejected", "this server is asked with token ids, and the request holds text")
    if not context:
        raise AttemptError("rejected", "the context is empty, and the first token of a text has no log-probability")
    return context, target


def texts_of(request: ScoreRequest) -> tuple[str, str]:
    """Context and target as text. Raises AttemptError for a request made for another dialect."""
    context, target = request.context, request.target
    if not isinstance(context, str) or not isinstance(target, str):
        raise AttemptError("rejected", "this server is asked with text, and the request holds token ids")
    if not context:
        raise AttemptError("rejected", "the context is empty, and the first token of a text has no log-probability")
    return context, target


def checked_logprobs(values: Sequence[Any], expected: int) -> tuple[float, ...]:
    """The values as log-probabilities in nats. Raises AttemptError where they cannot be that."""
    if len(values) != expected:
        raise bad_reply(f"the reply holds {len(values)} log-probabilities for {expected} tokens")
    for value in values:
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise bad_reply(f"the reply holds {value!r} in the place of a log-probability")
        if value > _ROUNDING_NATS or value <= _CLAMPED_NATS:
            raise bad_reply(f"the reply holds {value!r}, which is no log-probability")
    return tuple(map(float, values))


def usage_of(counts: Any) -> Usage:
    """Tokens charged, from an OpenAI ``usage`` object or SGLang's ``meta_info``."""
    if not isinstance(counts, dict):
        return Usage()
    return Usage(int(counts.get("prompt_tokens") or 0), int(counts.get("completion_tokens") or 0))


def first_choice(data: Any) -> dict[str, Any]:
    """The first choice of an OpenAI-style reply. Raises AttemptError where there is none."""
    try:
        choice = data["choices"][0]
    except (KeyError, IndexError, TypeError):
        raise bad_reply("the reply has no choices") from None
    if not isinstance(choice, dict):
        raise bad_reply("the reply's first choice is no object")
    return choice
