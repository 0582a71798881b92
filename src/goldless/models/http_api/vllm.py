"""vLLM's dialect: ids from ``/tokenize``, ``prompt_logprobs`` on ``/v1/completions``.

vLLM computes the whole prompt anew for such a request and has no start offset, so the reply covers context and target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from goldless.models.http_api.dialects import (
    SCORING_TEMPERATURE,
    Layout,
    checked_logprobs,
    first_choice,
    ids_of,
    usage_of,
)
from goldless.models.http_api.failures import bad_reply
from goldless.models.http_api.tokenizing import ServerTokenizer
from goldless.models.interface import Message, ScoreRequest, TokenLogprobs

if TYPE_CHECKING:
    from goldless.models.http_api.retrying import Calls


class VllmDialect:
    """``prompt_logprobs`` over joined ids."""

    def __init__(self, model: str, *, alternatives: int = 0) -> None:
        """``alternatives``: further tokens to name at each position; 0 is least work, old versions want 1."""
        self._model = model
        self._alternatives = alternatives
        self._tokenizer = ServerTokenizer(model)

    @property
    def name(self) -> str:
        """``vllm``."""
        return "vllm"

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
        """The target's log-probabilities; each position of the reply must name the id sent."""
        context, target = ids_of(request)
        answer = await calls.post(
            "/v1/completions",
            {
                "model": self._model,
                "prompt": context + target,
                "prompt_logprobs": self._alternatives,
                "max_tokens": 1,  # 0 is refused without echo
                "temperature": SCORING_TEMPERATURE,
            },
        )
        positions = first_choice(answer.data).get("prompt_logprobs")
        if not isinstance(positions, list):
            raise bad_reply("the server took prompt_logprobs and returned none")
        if len(positions) != len(context) + len(target):
            raise bad_reply(f"prompt_logprobs holds {len(positions)} positions for {len(context) + len(target)} tokens")
        values = [_value(entry, token) for entry, token in zip(positions[len(context) :], target, strict=True)]
        return TokenLogprobs(checked_logprobs(values, len(target)), usage_of(answer.data.get("usage")), answer.retries)


def _value(entry: Any, token: int) -> Any:
    try:
        return entry[str(token)]["logprob"]
    except (KeyError, TypeError):
        raise bad_reply(f"token {token} was sent, and the reply does not name it at its position") from None
