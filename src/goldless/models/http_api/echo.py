"""The oldest dialect: ``/v1/completions`` with ``echo`` and ``logprobs``, over plain text.

The server shows no tokenizer, so context and target go as one text, and ``text_offset`` must prove that a token
begins exactly where the target begins. A tokenizer that merges across the join makes the target's log-probability
undefined; then nothing is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from goldless.models.http_api.dialects import (
    SCORING_TEMPERATURE,
    Layout,
    checked_logprobs,
    first_choice,
    plain_layout,
    texts_of,
    usage_of,
)
from goldless.models.http_api.failures import bad_reply
from goldless.models.interface import Message, ScoreRequest, TokenLogprobs

if TYPE_CHECKING:
    from goldless.models.http_api.retrying import Calls


class EchoDialect:
    """``echo`` with ``logprobs``."""

    def __init__(self, model: str, *, written_tokens: int = 0) -> None:
        """``written_tokens``: tokens to let the model write; 0 is right, some servers want 1."""
        self._model = model
        self._written_tokens = written_tokens

    @property
    def name(self) -> str:
        """``completions-echo``."""
        return "completions-echo"

    @property
    def layout(self) -> Layout:
        """Always ``plain``."""
        return "plain"

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 see Dialect
        """The request as text."""
        return ScoreRequest(plain_layout(messages), target)

    async def pieces(self, calls: Calls, request: ScoreRequest) -> None:
        """Never: the server shows no tokenizer."""

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The log-probabilities of the tokens that begin within the target."""
        context, target = texts_of(request)
        answer = await calls.post(
            "/v1/completions",
            {
                "model": self._model,
                "prompt": context + target,
                "echo": True,
                "logprobs": 1,
                "max_tokens": self._written_tokens,
                "temperature": SCORING_TEMPERATURE,
            },
        )
        choice = first_choice(answer.data)
        if not str(choice.get("text") or "").startswith(context + target):
            raise bad_reply("the server took echo and did not return the prompt")
        tokens, values, offsets = _columns(choice.get("logprobs"))
        first, end = _target_span(tokens, offsets, context, target)
        logprobs = checked_logprobs(values[first:end], end - first)
        return TokenLogprobs(logprobs, usage_of(answer.data.get("usage")), answer.retries)


def _columns(logprobs: Any) -> tuple[list[str], list[Any], list[int]]:
    """Tokens, values and offsets, of equal length."""
    if not isinstance(logprobs, dict):
        raise bad_reply("the server took echo and logprobs and returned no logprobs")
    columns = tuple(logprobs.get(name) for name in ("tokens", "token_logprobs", "text_offset"))
    if not all(isinstance(column, list) and column for column in columns):
        raise bad_reply("the reply lacks tokens, token_logprobs or text_offset")
    tokens, values, offsets = columns
    if not len(tokens) == len(values) == len(offsets):  # type: ignore[arg-type]
        raise bad_reply("tokens, token_logprobs and text_offset differ in length")
    return tokens, values, offsets  # type: ignore[return-value]


def _target_span(tokens: list[str], offsets: list[int], context: str, target: str) -> tuple[int, int]:
    """First and end index of the target's tokens. Raises AttemptError where the join is no token boundary."""
    begin = len(context) + _leading_mark(tokens, offsets, context)
    end = begin + len(target)
    inside = [index for index, offset in enumerate(offsets) if begin <= offset < end]
    if not inside or offsets[inside[0]] != begin:
        raise bad_reply(
            "no token begins where the target begins: the server's tokenizer merges across the join of context and "
            "target, so the target has no log-probability of its own; use a scorer that takes token ids"
        )
    first, last = inside[0], inside[-1] + 1
    if inside != list(range(first, last)):
        raise bad_reply("text_offset does not rise from token to token")
    written = "".join(tokens[first:last])
    # Pieces of a character come as a replacement character or as "bytes:\\x…"; then the offsets alone must do.
    spelled = "\ufffd" not in written and not any(token.startswith("bytes:") for token in tokens[first:last])
    if spelled and written != target:
        raise bad_reply(f"the tokens at the target's offsets spell {written[:60]!r}, not the target")
    return first, last


def _leading_mark(tokens: list[str], offsets: list[int], context: str) -> int:
    """Characters of a begin-of-text mark that some servers count in ``text_offset`` though it is not in the text."""
    mark = tokens[0]
    counted = len(offsets) > 1 and offsets[1] - offsets[0] == len(mark)
    return len(mark) if counted and not context.startswith(mark) else 0
