"""SGLang's dialect: ids from ``/tokenize``, ``/generate`` with ``logprob_start_len``.

Only the suffix from the start index is returned, and the radix cache still serves what comes before it: the right
primitive for many targets under one context. The token *at* the start index comes back without a value, because its
predecessor is not computed; so the start is one token before the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from goldless.models.http_api.dialects import SCORING_TEMPERATURE, Layout, checked_logprobs, ids_of, usage_of
from goldless.models.http_api.failures import bad_reply
from goldless.models.http_api.tokenizing import ServerTokenizer
from goldless.models.interface import Message, ScoreRequest, TokenLogprobs

if TYPE_CHECKING:
    from goldless.models.http_api.retrying import Calls


class SglangDialect:
    """``logprob_start_len`` over joined ids."""

    def __init__(self, model: str) -> None:
        self._tokenizer = ServerTokenizer(model, ask_chat_for_ids=True)

    @property
    def name(self) -> str:
        """``sglang``."""
        return "sglang"

    @property
    def layout(self) -> Layout:
        """How messages become a context."""
        return self._tokenizer.layout

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request as ids."""
        return await self._tokenizer.encode(calls, messages, target)

    async def pieces(self, calls: Calls, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, as ``/detokenize`` spells them."""
        _, target = ids_of(request)
        return await self._tokenizer.pieces(calls, target)

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The target's log-probabilities; the ids in the reply must be those sent, from the start index on."""
        context, target = ids_of(request)
        answer = await calls.post(
            "/generate",
            {
                "input_ids": context + target,
                "sampling_params": {"max_new_tokens": 0, "temperature": SCORING_TEMPERATURE},
                "return_logprob": True,
                "logprob_start_len": len(context) - 1,
            },
        )
        meta = answer.data.get("meta_info") if isinstance(answer.data, dict) else None
        rows = meta.get("input_token_logprobs") if isinstance(meta, dict) else None
        if not isinstance(rows, list):
            raise bad_reply("/generate returned no input_token_logprobs")
        values = _target_values(rows, (context[-1], *target))
        return TokenLogprobs(checked_logprobs(values, len(target)), usage_of(meta), answer.retries)


def _target_values(rows: list[Any], sent: tuple[int, ...]) -> list[Any]:
    """The values after the start index. Raises AttemptError where rows and ids sent differ."""
    if len(rows) != len(sent):
        raise bad_reply(f"input_token_logprobs holds {len(rows)} rows for {len(sent)} tokens from the start index on")
    for row, token in zip(rows, sent, strict=True):
        if not isinstance(row, list) or len(row) < 2 or row[1] != token:
            raise bad_reply(f"token {token} was sent, and the reply holds {row!r} in its place")
    return [row[0] for row in rows[1:]]
