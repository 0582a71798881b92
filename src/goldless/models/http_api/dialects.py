"""The ways of requesting log-probabilities of a given text from a server.

A *dialect* turns messages and a target into a request and a request into log-probabilities. Two kinds exist. With
*ids*, the server exposes its tokenizer: context and target are tokenised separately, the ids are joined, and the reply
must return the same ids. With *text*, the reply must prove that there is a token boundary between context and target.

The *layout* says how messages become a context: ``chat`` is the server's own chat template, ``plain`` is the contents
joined by blank lines and ending in a blank line.

Which dialect a server has is found by scoring a few words. A server that silently ignores ``echo`` or
``prompt_logprobs``, as llama.cpp's does, is detected here: a dialect counts as supported only if a real reply passes
the same checks as every later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from goldless.errors import BudgetError
from goldless.models.http_api.client import AttemptError, bad_reply, check_logprobs, part_of, reading, usage_of
from goldless.models.http_api.tokenizing import (
    ASKED,
    REPLIED,
    LocalTokenizer,
    PlainText,
    ServerTokenizer,
    Tokenizer,
    first_choice,
)
from goldless.models.interface import ScoreRequest, TokenLogprobs
from goldless.models.usage import most_score_usage

if TYPE_CHECKING:
    from goldless.models.http_api.calls import Calls

SCORING_TEMPERATURE = 1.0
"""Log-probabilities are those of the model itself; some servers would scale them by any other temperature."""

_CLAMPED_NATS = -9999.0
"""vLLM's value for minus infinity, which cannot be summed as a log-probability."""


class Dialect:
    """One way of requesting log p(target | context), for requests that its tokenizer has encoded."""

    name: str
    """Its name in the identity and in messages."""
    shares_contexts = False
    """Whether the server computes a context once for several targets."""
    most_at_once: int | None = None
    """Calls above which it stops to do so; None: none."""
    fingerprint = ""
    """What the server says of its version and configuration, once something was scored; empty if nothing."""

    def __init__(self, model: str, tokenizer: Tokenizer) -> None:
        self._model = model
        self.tokenizer = tokenizer

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The log-probabilities of the target's tokens, proven to be theirs. Raises AttemptError."""
        raise NotImplementedError


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


class SglangDialect(Dialect):
    """SGLang: ``/generate`` with ``logprob_start_len``.

    Only the suffix from the start index is returned, and the radix cache still serves what comes before it: the right
    primitive for many targets under one context. The token *at* the start index is returned without a value, because
    its predecessor is not computed; so the start is one token before the target.
    """

    name = "sglang"
    shares_contexts = True
    most_at_once = 100  # its policy lpm turns itself off when more than 128 calls wait

    def __init__(self, model: str, tokenizer: LocalTokenizer | None = None) -> None:
        super().__init__(model, tokenizer or ServerTokenizer(model, ask_chat_for_ids=True))

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


class VllmDialect(Dialect):
    """vLLM: ``prompt_logprobs`` on ``/v1/completions``.

    vLLM recomputes the whole prompt for such a request, and this route has no start offset, so the reply covers context
    and target.
    """

    name = "vllm"

    def __init__(self, model: str, tokenizer: LocalTokenizer | None = None, *, alternatives: int = 0) -> None:
        """``alternatives``: further tokens to return per position; 0 is the least work, old versions require 1."""
        super().__init__(model, tokenizer or ServerTokenizer(model))
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


def _sides(request: ScoreRequest, form: type[str | tuple[int, ...]]) -> tuple[Any, Any]:
    """Context and target, both as text or both as ids. Raises AttemptError for a request made for another dialect."""
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


# --- by echo -----------------------------------------------------------------------------------------------------


class EchoDialect(Dialect):
    """The oldest dialect: ``/v1/completions`` with ``echo`` and ``logprobs``, for a server that hides its tokenizer.

    With a tokenizer on this machine, ids are sent, and the tokens of the reply must spell what was sent: ids of another
    tokenizer would mean other words. Without one, context and target are sent as one text, and ``text_offset`` must
    prove that a token begins exactly where the target begins. A tokenizer that merges across the boundary makes the
    target's log-probability undefined; then nothing is returned.
    """

    name = "completions-echo"

    def __init__(self, model: str, tokenizer: LocalTokenizer | None = None, *, written_tokens: int = 0) -> None:
        """``written_tokens``: tokens to let the model write; 0 is right, some servers require 1."""
        super().__init__(model, tokenizer or PlainText())
        self._local = tokenizer
        self._written_tokens = written_tokens

    async def score(self, calls: Calls, request: ScoreRequest) -> TokenLogprobs:
        """The log-probabilities of the target's tokens, or of those that begin within its text."""
        context, target = _sides(request, str if self._local is None else tuple)
        question = {
            "model": self._model,
            "prompt": context + target,
            "echo": True,
            "logprobs": 1,
            "max_tokens": self._written_tokens,
            "temperature": SCORING_TEMPERATURE,
        }
        answer = await calls.post("/v1/completions", question, most_score_usage(request))
        choice = first_choice(answer.data)
        if self._local is None and not str(choice.get("text") or "").startswith(context + target):
            raise bad_reply("the server accepted echo but did not return the prompt")
        tokens, values, offsets = _columns(choice.get("logprobs"))
        if self._local is None:
            first, end = _target_span(tokens, offsets, context, target)
        else:
            self.fingerprint = stable_fingerprint(answer.data)
            first, end = len(context), len(context) + len(target)
            self._check_spelling(self._local, tokens, first, target)
        logprobs = _checked_logprobs(values[first:end], end - first)
        return TokenLogprobs(logprobs, usage_of(answer.data.get("usage")), answer.retries)

    def _check_spelling(self, local: LocalTokenizer, tokens: list[str], first: int, target: tuple[int, ...]) -> None:
        """Raise AttemptError unless the tokens of the reply spell the ids of the target."""
        sent = first + len(target)
        if not sent <= len(tokens) <= sent + self._written_tokens:
            raise bad_reply(f"the server returned {len(tokens)} tokens for {sent} ids")
        words = local.without_end(target)
        spelled, meant = "".join(tokens[first : first + len(words)]), local.spells(words)
        odd = "\ufffd" in spelled + meant or any(token.startswith(("bytes:", "token_id:")) for token in tokens)
        if not odd and spelled.strip() != meant.strip():
            raise bad_reply(
                f"the server reads the ids as {spelled[:60]!r}, not as {meant[:60]!r}: the tokenizer that was given is "
                "not the model's"
            )


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


WORDINGS: Mapping[str, Sequence[Callable[[str, LocalTokenizer | None], Dialect]]] = {
    SglangDialect.name: (SglangDialect,),
    VllmDialect.name: (VllmDialect, partial(VllmDialect, alternatives=1)),
    EchoDialect.name: (EchoDialect, partial(EchoDialect, written_tokens=1)),
}
"""Each dialect in its variants, the one for the newest servers first."""


# --- which of them a server has ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one probe."""

    ability: str
    """What was probed, such as ``scoring as vllm``."""
    works: bool
    answer: str
    """The server's reply, described."""


async def find_dialect(
    calls: Calls, model: str, names: Sequence[str], tokenizer: LocalTokenizer | None = None
) -> tuple[Dialect | None, str | None, tuple[Finding, ...]]:
    """The first of the named dialects that works, the weights if it is an SGLang, and the findings of all probes."""
    findings: list[Finding] = []
    weights: str | None = None
    if SglangDialect.name in names:
        try:
            weights = await sglang_weights(calls)
        except AttemptError as failure:
            findings.append(Finding(f"scoring as {SglangDialect.name}", works=False, answer=failure.message))
    for name in names:
        if name == SglangDialect.name and weights is None:
            continue
        for wording in WORDINGS[name]:
            dialect = wording(model, tokenizer)
            finding, same_for_all = await _try(calls, dialect)
            findings.append(finding)
            if finding.works:
                return dialect, weights, tuple(findings)
            if same_for_all:
                break  # another wording would fail for the same reason
    return None, weights, tuple(findings)


async def _try(calls: Calls, dialect: Dialect) -> tuple[Finding, bool]:
    """The finding, and whether it also applies to other variants of the dialect."""
    ability, encoded = f"scoring as {dialect.name}", False
    try:
        with reading():
            request = await dialect.tokenizer.encode(calls, ASKED, REPLIED)
            encoded = True
            score = partial(dialect.score, calls, request)
            reply = await calls.paid(most_score_usage(request), score, lambda found: found.usage)
    except AttemptError as failure:
        require_affordable(failure)
        no_such_route = failure.status in {404, 405, 501}
        return Finding(ability, works=False, answer=failure.message), not encoded or no_such_route
    return Finding(ability, works=True, answer=f"{len(reply.logprobs)} values, {dialect.tokenizer.layout} layout"), True


def require_affordable(failure: AttemptError) -> None:
    """Raise BudgetError if a first call was not sent because the budget does not allow it."""
    if failure.kind == "budget":
        raise BudgetError("the budget does not allow the short calls that test what the model can do. Raise --budget")


async def sglang_weights(calls: Calls) -> str:
    """The weights behind an SGLang's served name, and their version if one is set.

    Raises AttemptError if the server is not an SGLang.
    """
    try:
        data = (await calls.get("/get_model_info")).data
    except AttemptError:
        data = (await calls.get("/model_info")).data
    path = part_of(data, "model_path")
    if not isinstance(path, str):
        raise bad_reply("/model_info responds, but not as in SGLang")
    version = str(data.get("weight_version") or "default")
    return path if version == "default" else f"{path}@{version}"
