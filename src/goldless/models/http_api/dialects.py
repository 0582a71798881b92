"""The ways of requesting log-probabilities of a given text from a server.

A *dialect* turns messages and a target into a request and a request into log-probabilities. Two kinds exist. With
*ids*, the server exposes its tokenizer: context and target are tokenised separately, the ids are joined, and the reply
must return the same ids. With *text*, the reply must prove that there is a token boundary between context and target.

The *layout* says how messages become a context: ``chat`` is the server's own chat template, ``plain`` is the contents
joined by blank lines and ending in a blank line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from goldless.models.http_api.client import AttemptError, bad_reply, check_logprobs, part_of, usage_of
from goldless.models.http_api.tokenizing import (
    IdsTokenizer,
    Layout,
    LocalTokenizer,
    ServerTokenizer,
    first_choice,
    plain_layout,
)
from goldless.models.interface import Message, ScoreRequest, TokenLogprobs
from goldless.models.usage import most_score_usage

if TYPE_CHECKING:
    from goldless.models.http_api.calls import Answer, Calls

Form = TypeVar("Form", tuple[int, ...], str)

SCORING_TEMPERATURE = 1.0
"""Log-probabilities are those of the model itself; some servers would scale them by any other temperature."""

_CLAMPED_NATS = -9999.0
"""vLLM's value for minus infinity, which cannot be summed as a log-probability."""


class Dialect(Protocol):
    """One way of requesting log p(target | context)."""

    name: str
    """Its name in the identity and in messages."""
    shares_contexts: bool = False
    """Whether the server computes a context once for several targets."""
    most_at_once: int | None = None
    """Calls above which it stops to do so; None: none."""
    fingerprint: str = ""
    """What the server says of its version and configuration, once something was scored; empty if nothing."""

    @property
    def layout(self) -> Layout:
        """How messages become a context."""

    @property
    def ends_turns(self) -> bool:
        """Whether the end-of-turn token is scored with the target; known once something was encoded."""

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request in this dialect's form. Raises AttemptError."""

    async def pieces(self, calls: Calls, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, or None if the server cannot return them. Raises AttemptError."""

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The log-probabilities of the target's tokens, proven to be theirs. Raises AttemptError."""


def stable_fingerprint(reply: Any) -> str:
    """The reply's ``system_fingerprint`` if it is vLLM's, a hash of its version and configuration; otherwise "".

    Others change it with every call, or whenever they update something.
    """
    found = part_of(reply, "system_fingerprint")
    return found if isinstance(found, str) and found.startswith("vllm-") else ""


def _checked_logprobs(values: Sequence[Any], expected: int) -> tuple[float, ...]:
    """The values as log-probabilities in nats. Raises AttemptError if they are not valid."""
    if len(values) != expected:
        raise bad_reply(f"got {len(values)} log-probabilities for {expected} tokens")
    check_logprobs(values)
    if values and min(values) <= _CLAMPED_NATS:
        raise bad_reply(f"got {min(values)!r}, which is not a log-probability")
    return tuple(map(float, values))


# --- by token ids ------------------------------------------------------------------------------------------------


class _IdsDialect(Dialect):
    """What the dialects of servers with a visible tokenizer have in common."""

    def __init__(self, model: str, tokenizer: IdsTokenizer | None = None, *, ask_chat_for_ids: bool = False) -> None:
        """``tokenizer``: the server's own if not given."""
        self._model = model
        self._tokenizer = tokenizer or ServerTokenizer(model, ask_chat_for_ids=ask_chat_for_ids)

    @property
    def layout(self) -> Layout:
        """How messages become a context."""
        return self._tokenizer.layout

    @property
    def ends_turns(self) -> bool:
        """Whether the end-of-turn token is scored with the target."""
        return self._tokenizer.end is not None

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request as ids."""
        return await self._tokenizer.encode(calls, messages, target)

    async def pieces(self, calls: Calls, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text; the end of the turn has none."""
        _, target = _sides(request, tuple)
        if target[-1:] != (self._tokenizer.end,):
            return await self._tokenizer.pieces(calls, target)
        pieces = await self._tokenizer.pieces(calls, target[:-1])
        return None if pieces is None else (*pieces, "")


class SglangDialect(_IdsDialect):
    """SGLang: ``/generate`` with ``logprob_start_len``.

    Only the suffix from the start index is returned, and the radix cache still serves what comes before it: the right
    primitive for many targets under one context. The token *at* the start index is returned without a value, because
    its predecessor is not computed; so the start is one token before the target.
    """

    name = "sglang"
    shares_contexts = True
    most_at_once = 100  # its policy lpm turns itself off when more than 128 calls wait

    def __init__(self, model: str, tokenizer: IdsTokenizer | None = None) -> None:
        super().__init__(model, tokenizer, ask_chat_for_ids=True)

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The target's log-probabilities; the ids in the reply must be those sent, from the start index on."""
        context, target = _sides(request, tuple)
        question = {
            "input_ids": context + target,
            "sampling_params": {"max_new_tokens": 0, "temperature": SCORING_TEMPERATURE},
            "return_logprob": True,
            "logprob_start_len": len(context) - 1,
        }
        answer = await calls.post("/generate", question, most_score_usage(request))
        meta = part_of(answer.data, "meta_info")
        rows = part_of(meta, "input_token_logprobs")
        if not isinstance(rows, list):
            raise bad_reply("/generate returned no input_token_logprobs")
        values = _values_after_start(rows, (context[-1], *target))
        return TokenLogprobs(_checked_logprobs(values, len(target)), usage_of(meta), answer.retries)


class VllmDialect(_IdsDialect):
    """vLLM: ``prompt_logprobs`` on ``/v1/completions``.

    vLLM recomputes the whole prompt for such a request, and this route has no start offset, so the reply covers context
    and target.
    """

    name = "vllm"

    def __init__(self, model: str, tokenizer: IdsTokenizer | None = None, *, alternatives: int = 0) -> None:
        """``alternatives``: further tokens to return per position; 0 is the least work, old versions require 1."""
        super().__init__(model, tokenizer)
        self._alternatives = alternatives

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The target's log-probabilities; each position of the reply must have the id sent."""
        context, target = _sides(request, tuple)
        question = {
            "model": self._model,
            "prompt": context + target,
            "prompt_logprobs": self._alternatives,
            "max_tokens": 1,  # 0 is refused without echo
            "temperature": SCORING_TEMPERATURE,
        }
        answer = await calls.post("/v1/completions", question, most_score_usage(request))
        self.fingerprint = stable_fingerprint(answer.data)
        positions = first_choice(answer.data).get("prompt_logprobs")
        if not isinstance(positions, list):
            raise bad_reply("the server accepted prompt_logprobs but returned none")
        if len(positions) != len(context) + len(target):
            raise bad_reply(f"prompt_logprobs has {len(positions)} positions for {len(context) + len(target)} tokens")
        values = [_value_at(entry, token) for entry, token in zip(positions[len(context) :], target, strict=True)]
        return TokenLogprobs(_checked_logprobs(values, len(target)), usage_of(answer.data.get("usage")), answer.retries)


def _sides(request: ScoreRequest, form: type[Form]) -> tuple[Form, Form]:
    """Context and target, both as ids or both as text. Raises AttemptError for a request made for another dialect."""
    context, target = request.context, request.target
    if not isinstance(context, form) or not isinstance(target, form):
        wanted, held = ("text", "token ids") if form is str else ("token ids", "text")
        raise AttemptError("rejected", f"this server takes {wanted}, but the request has {held}")
    if not context:
        raise AttemptError("rejected", "the context is empty, and the first token of a text has no log-probability")
    return context, target


def _values_after_start(rows: list[Any], sent: tuple[int, ...]) -> list[Any]:
    """The values after the start index. Raises AttemptError where rows and ids sent differ."""
    if len(rows) != len(sent):
        raise bad_reply(f"input_token_logprobs has {len(rows)} rows for {len(sent)} tokens from the start index on")
    for row, token in zip(rows, sent, strict=True):
        if not isinstance(row, list) or len(row) < 2 or row[1] != token:
            raise bad_reply(f"sent token {token}, but the reply has {row!r} at its position")
    return [row[0] for row in rows[1:]]


def _value_at(entry: Any, token: int) -> Any:
    try:
        return entry[str(token)]["logprob"]
    except (KeyError, TypeError):
        raise bad_reply(f"sent token {token}, but the reply does not have it at its position") from None


class EchoIdsDialect(_IdsDialect):
    """``/v1/completions`` with ``echo`` over token ids that were made here, for a gateway that hides the tokenizer.

    The tokens of the reply must spell what was sent: ids of another tokenizer would mean other words.
    """

    name = "completions-echo"

    def __init__(self, model: str, tokenizer: LocalTokenizer, *, written_tokens: int = 0) -> None:
        """``written_tokens``: tokens to let the model write; 0 is right, some servers require 1."""
        super().__init__(model, tokenizer)
        self._local = tokenizer
        self._written_tokens = written_tokens

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The target's log-probabilities."""
        context, target = _sides(request, tuple)
        answer = await _echoed(calls, request, self._model, context + target, self._written_tokens)
        self.fingerprint = stable_fingerprint(answer.data)
        tokens, values, _ = _columns(first_choice(answer.data).get("logprobs"))
        sent = len(context) + len(target)
        if not sent <= len(tokens) <= sent + self._written_tokens:
            raise bad_reply(f"the server returned {len(tokens)} tokens for {sent} ids")
        words = target[:-1] if target[-1:] == (self._local.end,) else target
        first = len(context)
        spelled, meant = "".join(tokens[first : first + len(words)]), self._local.spells(words)
        odd = "\ufffd" in spelled + meant or any(token.startswith(("bytes:", "token_id:")) for token in tokens)
        if not odd and spelled.strip() != meant.strip():
            raise bad_reply(
                f"the server reads the ids as {spelled[:60]!r}, not as {meant[:60]!r}: the tokenizer that was given is "
                "not the model's"
            )
        logprobs = _checked_logprobs(values[first:sent], len(target))
        return TokenLogprobs(logprobs, usage_of(answer.data.get("usage")), answer.retries)


# --- by text -----------------------------------------------------------------------------------------------------


class EchoDialect(Dialect):
    """The oldest dialect: ``/v1/completions`` with ``echo`` and ``logprobs``, over plain text.

    The server has no visible tokenizer, so context and target are sent as one text, and ``text_offset`` must prove that
    a token begins exactly where the target begins. A tokenizer that merges across the boundary makes the target's
    log-probability undefined; then nothing is returned.
    """

    name = "completions-echo"
    layout: Layout = "plain"
    ends_turns = False

    def __init__(self, model: str, *, written_tokens: int = 0) -> None:
        """``written_tokens``: tokens to let the model write; 0 is right, some servers require 1."""
        self._model = model
        self._written_tokens = written_tokens

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 see Dialect
        """The request as text."""
        return ScoreRequest(plain_layout(messages), target)

    async def pieces(self, calls: Calls, request: ScoreRequest) -> None:
        """None: the server has no visible tokenizer."""

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The log-probabilities of the tokens that begin within the target."""
        context, target = _sides(request, str)
        answer = await _echoed(calls, request, self._model, context + target, self._written_tokens)
        choice = first_choice(answer.data)
        if not str(choice.get("text") or "").startswith(context + target):
            raise bad_reply("the server accepted echo but did not return the prompt")
        tokens, values, offsets = _columns(choice.get("logprobs"))
        first, end = _target_span(tokens, offsets, context, target)
        logprobs = _checked_logprobs(values[first:end], end - first)
        return TokenLogprobs(logprobs, usage_of(answer.data.get("usage")), answer.retries)


async def _echoed(calls: Calls, request: ScoreRequest, model: str, prompt: object, written_tokens: int) -> Answer:
    """The reply to a prompt that is to be echoed with its log-probabilities."""
    question = {
        "model": model,
        "prompt": prompt,
        "echo": True,
        "logprobs": 1,
        "max_tokens": written_tokens,
        "temperature": SCORING_TEMPERATURE,
    }
    return await calls.post("/v1/completions", question, most_score_usage(request))


def _columns(logprobs: Any) -> tuple[list[str], list[Any], list[int]]:
    """Tokens, values and offsets, of equal length."""
    if not isinstance(logprobs, dict):
        raise bad_reply("the server accepted echo and logprobs but returned no logprobs")
    columns = tuple(logprobs.get(name) for name in ("tokens", "token_logprobs", "text_offset"))
    if not all(isinstance(column, list) and column for column in columns):
        raise bad_reply("the reply lacks tokens, token_logprobs or text_offset")
    tokens, values, offsets = columns
    if not len(tokens) == len(values) == len(offsets):  # type: ignore[arg-type]
        raise bad_reply("tokens, token_logprobs and text_offset differ in length")
    return tokens, values, offsets  # type: ignore[return-value]


def _target_span(tokens: list[str], offsets: list[int], context: str, target: str) -> tuple[int, int]:
    """First and end index of the target's tokens. Raises AttemptError if the boundary is inside a token."""
    begin = len(context) + _leading_mark(tokens, offsets, context)
    end = begin + len(target)
    inside = [index for index, offset in enumerate(offsets) if begin <= offset < end]
    if not inside or offsets[inside[0]] != begin:
        raise bad_reply(
            "no token begins where the target begins: the server's tokenizer merges context and target, so the "
            "target has no log-probability of its own. Use a scorer that takes token ids"
        )
    first, last = inside[0], inside[-1] + 1
    if inside != list(range(first, last)):
        raise bad_reply("text_offset does not increase from token to token")
    written = "".join(tokens[first:last])
    # Pieces of a character come as a replacement character or as "bytes:\\x…"; then the offsets alone must do.
    spelled = "\ufffd" not in written and not any(token.startswith("bytes:") for token in tokens[first:last])
    if spelled and written != target:
        raise bad_reply(f"the tokens at the target's offsets spell {written[:60]!r}, not the target")
    return first, last


def _leading_mark(tokens: list[str], offsets: list[int], context: str) -> int:
    """Length of a begin-of-text mark that some servers count in ``text_offset`` although it is not in the text."""
    mark = tokens[0]
    counted = len(offsets) > 1 and offsets[1] - offsets[0] == len(mark)
    return len(mark) if counted and not context.startswith(mark) else 0


def _echo(model: str, tokenizer: LocalTokenizer | None, *, written_tokens: int = 0) -> Dialect:
    """Echo by ids if they can be made here, otherwise by text."""
    if tokenizer is None:
        return EchoDialect(model, written_tokens=written_tokens)
    return EchoIdsDialect(model, tokenizer, written_tokens=written_tokens)


WORDINGS: Mapping[str, Sequence[Callable[[str, LocalTokenizer | None], Dialect]]] = {
    SglangDialect.name: (SglangDialect,),
    VllmDialect.name: (VllmDialect, partial(VllmDialect, alternatives=1)),
    EchoDialect.name: (_echo, partial(_echo, written_tokens=1)),
}
"""Each dialect in its variants, the one for the newest servers first."""
