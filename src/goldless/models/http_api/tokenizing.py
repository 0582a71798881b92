"""Tokenizers for servers: the server's own, called over HTTP with its replies kept, or one on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio

from goldless.models.http_api.client import AttemptError, bad_reply, part_of, usage_of
from goldless.models.interface import ChatRequest, Message, ScoreRequest
from goldless.models.tokens import KeptIds, pieces_of_prefixes, token_texts
from goldless.models.usage import most_chat_usage

if TYPE_CHECKING:
    from goldless.models.chat_layout import ChatLayout
    from goldless.models.http_api.calls import Calls

Layout = Literal["chat", "plain"]
"""How messages become a context."""
ASKED = (Message("user", "Which words follow?"),)
REPLIED = "One two three four."
"""A short conversation to try a server with."""


class Tokenizer:
    """Encodes contexts and targets, as token ids or as text."""

    layout: Layout = "chat"
    """How messages become a context, known once something was encoded."""
    end: int | None = None
    """The token that closes the assistant's turn and is scored with the target, known once something was encoded."""

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request. Raises AttemptError."""
        raise NotImplementedError

    async def pieces(self, calls: Calls, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, "" for the end of the turn; None if they are not known. Raises AttemptError."""
        if isinstance(request.target, str):
            return None
        words = self.without_end(request.target)
        texts = await self._texts(calls, words)
        return texts if texts is None or words == request.target else (*texts, "")

    async def _texts(self, calls: Calls, ids: tuple[int, ...]) -> tuple[str, ...] | None:
        """The text of each token."""
        raise NotImplementedError

    def without_end(self, target: tuple[int, ...]) -> tuple[int, ...]:
        """The target without the token that closes the turn."""
        return target[:-1] if target[-1:] == (self.end,) else target


class PlainText(Tokenizer):
    """No tokenizer: context and target are sent as text."""

    layout = "plain"

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 - nothing is sent
        """The request as text."""
        return ScoreRequest(plain_layout(messages), target)


class LocalTokenizer(Tokenizer):
    """A tokenizer on this machine, for a server that shows none."""

    def __init__(self, chat_layout: ChatLayout, digest: str) -> None:
        """``digest``: a hash of the tokenizer and its chat template."""
        self._chat_layout = chat_layout
        self.layout = "plain" if chat_layout.template is None else "chat"
        self.digest = digest
        self.end = chat_layout.end_of_turn()

    async def encode(self, calls: Calls, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 - nothing is sent
        """The request as ids."""
        return ScoreRequest(self._chat_layout.context(messages), self._chat_layout.target(target))

    async def _texts(self, calls: Calls, ids: tuple[int, ...]) -> tuple[str, ...] | None:  # noqa: ARG002 - nothing is sent
        return token_texts(self._chat_layout.tokenizer, ids)

    def spells(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        return self._chat_layout.tokenizer.decode(ids, skip_special_tokens=False)


class _PendingText:
    """A text whose ids are being requested."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.failure: AttemptError | None = None


class ServerTokenizer(Tokenizer):
    """The server's own tokenizer.

    Contexts are tokenised with the server's chat template if it offers that: through ``/tokenize`` with messages
    (vLLM), or through ``/v1/chat/completions`` returning the prompt's ids (SGLang). A server with neither gets the
    plain layout. Which of the three applies is determined on the first context and kept.
    """

    def __init__(self, model: str, *, ask_chat_for_ids: bool = False) -> None:
        """``ask_chat_for_ids``: also try the chat endpoint's ``return_prompt_token_ids``."""
        self._model = model
        self._ways = [self.chat_ids, *([self._chat_by_reply] if ask_chat_for_ids else []), self._plain]
        self._end_known = False
        self._learning = anyio.Lock()
        self._ids = KeptIds()
        self._under_way: dict[tuple[Message, ...] | str, _PendingText] = {}

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

    async def _texts(self, calls: Calls, ids: tuple[int, ...]) -> tuple[str, ...] | None:
        """The text of each token, which concatenate to the whole text; None if the server has no ``/detokenize``."""
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

    async def _detokenize(self, calls: Calls, ids: tuple[int, ...]) -> str:
        """The text of the ids: ``prompt`` in vLLM's reply, ``text`` in SGLang's."""
        data = (await calls.post("/detokenize", {"model": self._model, "tokens": ids})).data
        text = data.get("prompt", data.get("text")) if isinstance(data, dict) else None
        if not isinstance(text, str):
            raise bad_reply("/detokenize returned no text")
        return text

    async def first_ids(self, calls: Calls, words: Sequence[str]) -> list[int]:
        """The ids that each of the words begins with, at the beginning of a text and after a space."""
        texts = [form for word in words for form in (word, f" {word}")]
        return list(dict.fromkeys([(await self._kept(calls, text))[0] for text in texts]))

    async def _kept(self, calls: Calls, text: tuple[Message, ...] | str) -> tuple[int, ...]:
        """The ids, requested once for all concurrent callers; waiting callers share a failure."""
        while (known := self._ids.get(text)) is None:
            other = self._under_way.get(text)
            if other is None:
                return self._ids.put(text, await self._asked(calls, text))
            await other.done.wait()
            if other.failure is not None:
                raise other.failure
        return known

    async def _asked(self, calls: Calls, text: tuple[Message, ...] | str) -> tuple[int, ...]:
        asked = self._under_way[text] = _PendingText()
        try:
            if isinstance(text, str):
                return await self._tokenize(calls, {"prompt": text, "add_special_tokens": False})
            return await self._context(calls, text)
        except AttemptError as failure:
            asked.failure = failure
            raise
        finally:
            del self._under_way[text]
            asked.done.set()

    async def _context(self, calls: Calls, messages: tuple[Message, ...]) -> tuple[int, ...]:
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

    async def chat_ids(self, calls: Calls, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Ids of the messages in the server's chat template, as vLLM returns them. Raises AttemptError."""
        return await self._tokenize(calls, {"messages": messages, "add_generation_prompt": True})

    async def _chat_by_reply(self, calls: Calls, messages: tuple[Message, ...]) -> tuple[int, ...]:
        payload = {"model": self._model, "messages": messages, "max_tokens": 1, "return_prompt_token_ids": True}
        most = most_chat_usage(None, ChatRequest(messages, max_tokens=1))
        post = partial(calls.post, "/v1/chat/completions", payload, most)
        data = (await calls.paid(most, post, lambda answer: usage_of(part_of(answer.data, "usage")))).data
        return _checked_ids(first_choice(data).get("prompt_token_ids") or data.get("prompt_token_ids"))

    async def _plain(self, calls: Calls, messages: tuple[Message, ...]) -> tuple[int, ...]:
        return await self._tokenize(calls, {"prompt": plain_layout(messages), "add_special_tokens": True})

    async def _tokenize(self, calls: Calls, question: dict[str, Any]) -> tuple[int, ...]:
        data = (await calls.post("/tokenize", {"model": self._model, **question})).data
        return _checked_ids(part_of(data, "tokens"))


def plain_layout(messages: Sequence[Message]) -> str:
    """The contents joined by blank lines and ending in a blank line."""
    return "".join(f"{message.content}\n\n" for message in messages)


def first_choice(data: Any) -> dict[str, Any]:
    """The first choice of an OpenAI-style reply. Raises AttemptError if there is none."""
    try:
        choice = data["choices"][0]
    except (KeyError, IndexError, TypeError):
        raise bad_reply("the reply has no choices") from None
    if not isinstance(choice, dict):
        raise bad_reply("the reply's first choice is not an object")
    return choice


def _checked_ids(ids: Any) -> tuple[int, ...]:
    """The ids. Raises AttemptError if the server returned none: one that does not know the request returns []."""
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise bad_reply("the server returned no token ids")
    return tuple(ids)
