"""Log-probabilities of a given text from a server: in which dialect it is asked, and how texts become tokens.

A *dialect* is a question and how its reply is read. Where ids are sent, the server shows its tokenizer, or the user
names one on this machine: context and target are tokenised separately, the ids are joined, and the reply must return
the same ids. Where text is sent, the reply must prove that there is a token boundary between context and target.

The *layout* says how messages become a context: ``chat`` is the model's own chat template, ``plain`` is the contents
joined by blank lines and ending in a blank line.

Which dialect a server has is found by scoring a few words. A server that silently ignores ``echo`` or
``prompt_logprobs``, as llama.cpp's does, is detected here: a dialect counts as supported only if a real reply passes
the same checks as every later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio

from goldless.errors import BudgetError
from goldless.models.http_api.client import (
    AttemptError,
    bad_reply,
    check_logprobs,
    first_choice,
    part_of,
    reading,
    usage_of,
)
from goldless.models.interface import ChatRequest, Message, ScoreRequest, TokenLogprobs
from goldless.models.tokens import KeptIds, pieces_of_prefixes, token_texts
from goldless.models.usage import most_chat_usage, most_score_usage

if TYPE_CHECKING:
    from goldless.models.chat_layout import ChatLayout
    from goldless.models.http_api.calls import Calls

Layout = Literal["chat", "plain"]
Ids = tuple[int, ...]
ASKED = (Message("user", "Which words follow?"),)
REPLIED = "One two three four."
"""A short conversation to try a server with."""


# --- tokenizers --------------------------------------------------------------------------------------------------


class PlainText:
    """No tokenizer: context and target are sent as text."""

    layout: Layout = "plain"
    """How messages become a context, known once something was encoded."""
    end: int | None = None
    """The token that closes the assistant's turn and is scored with the target, known once something was encoded."""

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 - nothing is sent
        """The request. Raises AttemptError."""
        return ScoreRequest(plain_layout(messages), target)

    async def texts(self, calls: Calls, ids: Ids) -> tuple[str, ...] | None:  # noqa: ARG002 - nothing is known
        """The text of each token, which concatenate to the whole text; None: not known. Raises AttemptError."""
        return None

    async def pieces(self, calls: Calls, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, "" for the end of the turn; None: not known. Raises AttemptError."""
        if isinstance(request.target, str):
            return None
        words = self.without_end(request.target)
        texts = await self.texts(calls, words)
        return texts if texts is None or words == request.target else (*texts, "")

    def without_end(self, target: Ids) -> Ids:
        """The target without the token that closes the turn."""
        return target[:-1] if target[-1:] == (self.end,) else target


class LocalTokenizer(PlainText):
    """A tokenizer on this machine, for a server that shows none."""

    def __init__(self, chat_layout: ChatLayout, digest: str) -> None:
        """``digest``: a hash of the tokenizer and its chat template."""
        self._chat_layout = chat_layout
        self.layout = "plain" if chat_layout.template is None else "chat"
        self.digest = digest
        self.end = chat_layout.end_of_turn()

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 - nothing is sent
        return ScoreRequest(self._chat_layout.context(messages), self._chat_layout.target(target))

    async def texts(self, calls: Calls, ids: Ids) -> tuple[str, ...] | None:  # noqa: ARG002 - nothing is sent
        return token_texts(self._chat_layout.tokenizer, ids)

    def spells(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        return self._chat_layout.tokenizer.decode(ids, skip_special_tokens=False)


class ServerTokenizer(PlainText):
    """The server's own tokenizer, called over HTTP; its replies are kept.

    Contexts are tokenised with the server's chat template if it offers that: through ``/tokenize`` with messages
    (vLLM), or through ``/v1/chat/completions`` returning the prompt's ids (SGLang). A server with neither gets the
    plain layout. Which of the three applies is determined on the first context and kept.
    """

    layout: Layout = "chat"

    def __init__(self, model: str, *, ask_chat_for_ids: bool = False) -> None:
        """``ask_chat_for_ids``: also try the chat endpoint's ``return_prompt_token_ids``."""
        self._model = model
        self._ways = [self.chat_ids, *([self._chat_by_reply] if ask_chat_for_ids else []), self._plain]
        self._end_known = False
        self._learning = anyio.Lock()
        self._ids = KeptIds()
        self._under_way: dict[tuple[Message, ...] | str, tuple[anyio.Event, list[AttemptError]]] = {}
        """Texts whose ids are being requested, with the failure if there was one."""

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request as ids: context and target tokenised separately, with a token boundary between them."""
        context_ids = await self._kept(calls, tuple(messages))
        await self._learn_end(calls)
        target_ids = await self._kept(calls, target) if target else ()
        return ScoreRequest(context_ids, target_ids if self.end is None else (*target_ids, self.end))

    async def _learn_end(self, calls: Calls) -> None:
        """Find the token after the assistant's words in a conversation that goes on; needs a chat template."""
        async with self._learning:
            if self._end_known or self.layout == "plain":
                return
            before = await self._kept(calls, ASKED)
            begin = (*before, *await self._kept(calls, REPLIED))
            try:
                whole = await self._kept(calls, (*ASKED, Message("assistant", REPLIED), *ASKED))
            except AttemptError as failure:
                if not failure.is_answer:
                    raise
                whole = ()
            # a template that begins a reply in another way than it quotes one shows nothing
            if whole[: len(begin)] == begin and len(whole) > len(begin):
                self.end = whole[len(begin)]
            self._end_known = True

    async def texts(self, calls: Calls, ids: Ids) -> tuple[str, ...] | None:
        """The text of each token, from the texts of all beginnings; None if the server has no ``/detokenize``."""
        if not ids:
            return ()
        try:
            whole = await self._detokenize(calls, ids)
        except AttemptError as failure:
            if not failure.is_answer:
                raise
            return None
        prefixes = [*[""] * (len(ids) - 1), whole]
        failures: list[AttemptError] = []

        async def spell(length: int) -> None:
            try:
                prefixes[length - 1] = await self._detokenize(calls, ids[:length])
            except AttemptError as failure:
                failures.append(failure)

        async with anyio.create_task_group() as tasks:
            for length in range(1, len(ids)):
                tasks.start_soon(spell, length)
        if failures:
            raise failures[0]
        return pieces_of_prefixes(prefixes)

    async def _detokenize(self, calls: Calls, ids: Ids) -> str:
        data = (await calls.post("/detokenize", {"model": self._model, "tokens": ids})).data
        text = data.get("prompt", data.get("text")) if isinstance(data, dict) else None  # vLLM's name, and SGLang's
        if not isinstance(text, str):
            raise bad_reply("/detokenize returned no text")
        return text

    async def first_ids(self, calls: Calls, words: Sequence[str]) -> list[int]:
        """The ids that each of the words begins with, at the beginning of a text and after a space."""
        texts = [form for word in words for form in (word, f" {word}")]
        return list(dict.fromkeys([(await self._kept(calls, text))[0] for text in texts]))

    async def _kept(self, calls: Calls, text: tuple[Message, ...] | str) -> Ids:
        """The ids, requested once for all concurrent callers; waiting callers share a failure."""
        while (known := self._ids.get(text)) is None:
            if text in self._under_way:
                done, failed = self._under_way[text]
                await done.wait()
                if failed:
                    raise failed[0]
                continue
            done, failed = self._under_way[text] = anyio.Event(), []
            try:
                if isinstance(text, str):
                    known = await self._tokenize(calls, {"prompt": text, "add_special_tokens": False})
                else:
                    known = await self._context(calls, text)
                return self._ids.put(text, known)
            except AttemptError as failure:
                failed.append(failure)
                raise
            finally:
                del self._under_way[text]
                done.set()
        return known

    async def _context(self, calls: Calls, messages: tuple[Message, ...]) -> Ids:
        for way in self._ways:
            try:
                ids = await way(calls, messages)
            except AttemptError as failure:
                # Only a server that says no is asked in another way; one that is down is not.
                if not failure.is_answer or way == self._ways[-1]:
                    raise
            else:
                self._ways = [way]
                self.layout = "plain" if way == self._plain else "chat"
                return ids
        raise AssertionError("the last method either returns or raises")  # pragma: no cover

    async def chat_ids(self, calls: Calls, messages: tuple[Message, ...]) -> Ids:
        """Ids of the messages in the server's chat template, as vLLM returns them. Raises AttemptError."""
        return await self._tokenize(calls, {"messages": messages, "add_generation_prompt": True})

    async def _chat_by_reply(self, calls: Calls, messages: tuple[Message, ...]) -> Ids:
        payload = {"model": self._model, "messages": messages, "max_tokens": 1, "return_prompt_token_ids": True}
        most = most_chat_usage(None, ChatRequest(messages, max_tokens=1))
        post = partial(calls.post, "/v1/chat/completions", payload, most)
        data = (await calls.paid(most, post, lambda answer: usage_of(part_of(answer.data, "usage")))).data
        return _checked_ids(first_choice(data).get("prompt_token_ids") or data.get("prompt_token_ids"))

    async def _plain(self, calls: Calls, messages: tuple[Message, ...]) -> Ids:
        return await self._tokenize(calls, {"prompt": plain_layout(messages), "add_special_tokens": True})

    async def _tokenize(self, calls: Calls, question: dict[str, Any]) -> Ids:
        data = (await calls.post("/tokenize", {"model": self._model, **question})).data
        return _checked_ids(part_of(data, "tokens"))


def plain_layout(messages: Sequence[Message]) -> str:
    """The contents joined by blank lines and ending in a blank line."""
    return "".join(f"{message.content}\n\n" for message in messages)


def _checked_ids(ids: Any) -> Ids:
    """The ids. Raises AttemptError if the server returned none: one that does not know the request returns []."""
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise bad_reply("the server returned no token ids")
    return tuple(ids)


# --- dialects ----------------------------------------------------------------------------------------------------

_AS_TRAINED = {"temperature": 1.0}
"""Log-probabilities are those of the model itself; some servers would scale them by any other temperature."""
_CLAMPED_NATS = -9999.0
"""vLLM's value for minus infinity, which cannot be summed as a log-probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way of requesting log p(target | context) of a model, for requests that its tokenizer has encoded."""

    name: str
    """Its name in the identity and in messages."""
    route: str = "/v1/completions"
    question: Callable[[Any, Any], Mapping[str, Any]]
    """The body of the request for a context and a target."""
    values: Callable[[Any, Any, Any], Sequence[Any]]
    """The values of the target's tokens in a reply, proven to be theirs. Raises AttemptError."""
    tokenizer: PlainText
    shares_contexts: bool = False
    """Whether the server computes a context once for several targets."""
    most_at_once: int | None = None
    """Calls above which it stops to do so; None: none."""

    async def score(self, calls: Calls, request: ScoreRequest) -> tuple[TokenLogprobs, str]:
        """The log-probabilities of the target's tokens, and the fingerprint of the server. Raises AttemptError."""
        context, target = request.context, request.target
        form, wanted, held = (str, "text", "token ids") if self.sends_text else (tuple, "token ids", "text")
        if not isinstance(context, form) or not isinstance(target, form):
            raise AttemptError("rejected", f"this server takes {wanted}, but the request has {held}")
        if not context:
            raise AttemptError("rejected", "the context is empty, and the first token of a text has no log-probability")
        answer = await calls.post(self.route, self.question(context, target), most_score_usage(request))
        data = answer.data
        values = self.values(data, context, target)
        check_logprobs(values)
        if values and min(values) <= _CLAMPED_NATS:
            raise bad_reply(f"got {min(values)!r}, which is not a log-probability")
        usage = usage_of(part_of(data, "meta_info") or part_of(data, "usage"))
        fingerprint = "" if self.sends_text else stable_fingerprint(data)
        return TokenLogprobs(tuple(map(float, values)), usage, answer.retries), fingerprint

    @property
    def sends_text(self) -> bool:
        """Whether context and target are sent as text."""
        return type(self.tokenizer) is PlainText


def stable_fingerprint(reply: Any) -> str:
    """The reply's ``system_fingerprint`` if it is vLLM's, a hash of its version and configuration; otherwise "".

    Others change it with every call, or whenever they update something.
    """
    found = part_of(reply, "system_fingerprint")
    return found if isinstance(found, str) and found.startswith("vllm-") else ""


def _sglang(model: str, tokenizer: LocalTokenizer | None) -> Dialect:
    """SGLang: ``/generate`` with ``logprob_start_len``.

    Only the suffix from the start index is returned, and the radix cache still serves what comes before it: the right
    primitive for many targets under one context. The token *at* the start index is returned without a value, because
    its predecessor is not computed; so the start is one token before the target.
    """

    def values(data: Any, context: Ids, target: Ids) -> Sequence[Any]:
        """The ids in the reply must be those sent, from the start index on."""
        rows, sent = part_of(data, "meta_info", "input_token_logprobs"), (context[-1], *target)
        if not isinstance(rows, list):
            raise bad_reply("/generate returned no input_token_logprobs")
        if len(rows) != len(sent):
            raise bad_reply(f"input_token_logprobs has {len(rows)} rows for {len(sent)} tokens from the start index on")
        for row, token in zip(rows, sent, strict=True):
            if not isinstance(row, list) or len(row) < 2 or row[1] != token:
                raise bad_reply(f"sent token {token}, but the reply has {row!r} at its position")
        return [row[0] for row in rows[1:]]

    return Dialect(
        name="sglang",
        route="/generate",
        question=lambda context, target: {
            "input_ids": context + target,
            "sampling_params": {"max_new_tokens": 0, **_AS_TRAINED},
            "return_logprob": True,
            "logprob_start_len": len(context) - 1,
        },
        values=values,
        tokenizer=tokenizer or ServerTokenizer(model, ask_chat_for_ids=True),
        shares_contexts=True,
        most_at_once=100,  # its policy lpm turns itself off when more than 128 calls wait
    )


def _vllm(model: str, tokenizer: LocalTokenizer | None, *, alternatives: int = 0) -> Dialect:
    """vLLM: ``prompt_logprobs`` on ``/v1/completions``.

    vLLM recomputes the whole prompt for such a request, and this route has no start offset, so the reply covers context
    and target. ``alternatives``: further tokens to return per position; 0 is the least work, old versions require 1.
    """

    def values(data: Any, context: Ids, target: Ids) -> Sequence[Any]:
        """Each position of the reply must have the id sent."""
        positions = first_choice(data).get("prompt_logprobs")
        if not isinstance(positions, list):
            raise bad_reply("the server accepted prompt_logprobs but returned none")
        if len(positions) != len(context) + len(target):
            raise bad_reply(f"prompt_logprobs has {len(positions)} positions for {len(context) + len(target)} tokens")
        found = []
        for entry, token in zip(positions[len(context) :], target, strict=True):
            if not isinstance(part_of(entry, str(token)), dict):
                raise bad_reply(f"sent token {token}, but the reply does not have it at its position")
            found.append(entry[str(token)].get("logprob"))
        return found

    return Dialect(
        name="vllm",
        question=lambda context, target: {
            "model": model,
            "prompt": context + target,
            "prompt_logprobs": alternatives,
            "max_tokens": 1,  # 0 is refused without echo
            **_AS_TRAINED,
        },
        values=values,
        tokenizer=tokenizer or ServerTokenizer(model),
    )


def _echo(model: str, tokenizer: LocalTokenizer | None, *, written_tokens: int = 0) -> Dialect:
    """The oldest dialect: ``/v1/completions`` with ``echo`` and ``logprobs``, for a server that hides its tokenizer.

    With a tokenizer on this machine, ids are sent, and the tokens of the reply must spell what was sent: ids of another
    tokenizer would mean other words. Without one, context and target are sent as one text, and ``text_offset`` must
    prove that a token begins exactly where the target begins. A tokenizer that merges across the boundary makes the
    target's log-probability undefined; then nothing is returned. ``written_tokens``: tokens to let the model write; 0
    is right, some servers require 1.
    """

    def values(data: Any, context: Any, target: Any) -> Sequence[Any]:
        choice = first_choice(data)
        if tokenizer is None and not str(choice.get("text") or "").startswith(context + target):
            raise bad_reply("the server accepted echo but did not return the prompt")
        tokens, found, offsets = _columns(choice.get("logprobs"))
        if tokenizer is None:
            first, end = _target_span(tokens, offsets, context, target)
        else:
            first, end = len(context), len(context) + len(target)
            if not end <= len(tokens) <= end + written_tokens:
                raise bad_reply(f"the server returned {len(tokens)} tokens for {end} ids")
            _check_spelling(tokenizer, tokens, first, target)
        return found[first:end]

    return Dialect(
        name="completions-echo",
        question=lambda context, target: {
            "model": model,
            "prompt": context + target,
            "echo": True,
            "logprobs": 1,
            "max_tokens": written_tokens,
            **_AS_TRAINED,
        },
        values=values,
        tokenizer=tokenizer or PlainText(),
    )


def _columns(logprobs: Any) -> tuple[list[str], list[Any], list[int]]:
    """Tokens, values and offsets, of equal length."""
    if not isinstance(logprobs, dict):
        raise bad_reply("the server accepted echo and logprobs but returned no logprobs")
    columns: list[Any] = [logprobs.get(name) for name in ("tokens", "token_logprobs", "text_offset")]
    if not all(isinstance(column, list) and column for column in columns):
        raise bad_reply("the reply lacks tokens, token_logprobs or text_offset")
    tokens, values, offsets = columns
    if not len(tokens) == len(values) == len(offsets):
        raise bad_reply("tokens, token_logprobs and text_offset differ in length")
    return tokens, values, offsets


def _check_spelling(local: LocalTokenizer, tokens: list[str], first: int, target: Ids) -> None:
    """Raise AttemptError unless the tokens of the reply spell the ids of the target."""
    words = local.without_end(target)
    spelled, meant = "".join(tokens[first : first + len(words)]), local.spells(words)
    odd = "\ufffd" in spelled + meant or any(token.startswith(("bytes:", "token_id:")) for token in tokens)
    if not odd and spelled.strip() != meant.strip():
        raise bad_reply(
            f"the server reads the ids as {spelled[:60]!r}, not as {meant[:60]!r}: the tokenizer that was given is "
            "not the model's"
        )


def _target_span(tokens: list[str], offsets: list[int], context: str, target: str) -> tuple[int, int]:
    """First and end index of the target's tokens. Raises AttemptError if the boundary is inside a token."""
    begin, mark = len(context), tokens[0]
    # some servers count a begin-of-text mark in text_offset although it is not in the text
    if len(offsets) > 1 and offsets[1] - offsets[0] == len(mark) and not context.startswith(mark):
        begin += len(mark)
    inside = [index for index, offset in enumerate(offsets) if begin <= offset < begin + len(target)]
    if not inside or offsets[inside[0]] != begin:
        raise bad_reply(
            "no token begins where the target begins: the server's tokenizer merges context and target, so the "
            "target has no log-probability of its own. Use a scorer that takes token ids"
        )
    first, end = inside[0], inside[-1] + 1
    if inside != list(range(first, end)):
        raise bad_reply("text_offset does not increase from token to token")
    written = "".join(tokens[first:end])
    # Pieces of a character come as a replacement character or as "bytes:\\x…"; then the offsets alone must do.
    spelled = "\ufffd" not in written and not any(token.startswith("bytes:") for token in tokens[first:end])
    if spelled and written != target:
        raise bad_reply(f"the tokens at the target's offsets spell {written[:60]!r}, not the target")
    return first, end


DIALECTS: Mapping[str, Sequence[Callable[[str, LocalTokenizer | None], Dialect]]] = {
    "sglang": (_sglang,),
    "vllm": (_vllm, partial(_vllm, alternatives=1)),
    "completions-echo": (_echo, partial(_echo, written_tokens=1)),
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


@dataclass(frozen=True, slots=True)
class Probed:
    """What probing a server for scoring has found."""

    findings: tuple[Finding, ...]
    dialect: Dialect | None = None
    """The first of those named that works."""
    weights: str | None = None
    """The weights behind the name, if it is an SGLang."""
    fingerprint: str = ""


async def probe_scoring(
    calls: Calls, model: str, names: Sequence[str], tokenizer: LocalTokenizer | None = None
) -> Probed:
    """Try the named dialects in their order, until one works."""
    findings: list[Finding] = []
    weights: str | None = None
    for name in names:
        if name == "sglang":
            try:
                weights = await sglang_weights(calls)
            except AttemptError as failure:
                findings.append(Finding("scoring as sglang", works=False, answer=failure.message))
                continue
        for variant in DIALECTS[name]:
            dialect = variant(model, tokenizer)
            encoded = False
            try:
                with reading():
                    request = await dialect.tokenizer.encode(calls, ASKED, REPLIED)
                    encoded = True
                    score = partial(dialect.score, calls, request)
                    reply, fingerprint = await calls.paid(most_score_usage(request), score, lambda one: one[0].usage)
            except AttemptError as failure:
                require_affordable(failure)
                findings.append(Finding(f"scoring as {name}", works=False, answer=failure.message))
                if not encoded or failure.status in {404, 405, 501}:
                    break  # another variant would fail for the same reason
            else:
                answer = f"{len(reply.logprobs)} values, {dialect.tokenizer.layout} layout"
                findings.append(Finding(f"scoring as {name}", works=True, answer=answer))
                return Probed(tuple(findings), dialect, weights, fingerprint)
    return Probed(tuple(findings), weights=weights)


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
