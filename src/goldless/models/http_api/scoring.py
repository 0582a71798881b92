"""Log-probabilities of a given text from a server: in which dialect it is asked, and how texts become tokens.

Where ids are sent, context and target are tokenised separately by the server's tokenizer or one on this machine, the
ids are joined, and the reply must return the same ids. Where text is sent, the reply must prove that there is a token
boundary between the two. A server that silently ignores ``echo`` or ``prompt_logprobs``, as llama.cpp's does, fails
these checks. The *layout* of a context is the model's own ``chat`` template, or ``plain``: contents joined by blank
lines and ending in one.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from goldless.concurrency import side_by_side
from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.http_api.client import AttemptError, Client, bad_reply, part_of
from goldless.models.http_api.formats import FORMATS, check_logprobs
from goldless.models.interface import ChatRequest, Message, ScoreRequest, TokenLogprobs, Usage, content_hash
from goldless.models.tokens import UNFINISHED, ChatLayout, KeptIds, fast_tokenizer, token_texts
from goldless.models.turn_signs import is_control
from goldless.models.usage import most_usage

Ids = tuple[int, ...]
ASKED = (Message("user", "Which words follow?"),)
REPLIED = "One two three four."  # a short conversation to try a server with
_BESIDE = ("tokenizer_config.json", "chat_template.jinja")  # beside a tokenizer.json


# --- tokenizers --------------------------------------------------------------------------------------------------


class PlainText:
    """No tokenizer: context and target are sent as text."""

    layout: Literal["chat", "plain"] = "plain"
    end: int | None = None
    """The token that closes the assistant's turn and is scored with the target. Both known once it was used."""

    def __init__(self, model: str) -> None:
        self._model = model

    async def encode(self, client: Client, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 - nothing is sent
        """The request. Raises AttemptError."""
        return ScoreRequest(_plain_layout(messages), target)

    async def texts(self, client: Client, ids: Ids) -> tuple[str, ...] | None:  # noqa: ARG002 - nothing is known
        """The text of each token, which concatenate to the whole text; None: not known. Raises AttemptError."""
        return None

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

    async def encode(self, client: Client, messages: Sequence[Message], target: str) -> ScoreRequest:  # noqa: ARG002 - nothing is sent
        return ScoreRequest(self._chat_layout.context(messages), self._chat_layout.target(target))

    async def texts(self, client: Client, ids: Ids) -> tuple[str, ...] | None:  # noqa: ARG002 - nothing is sent
        return token_texts(self._chat_layout.tokenizer, ids)

    def spells(self, ids: Sequence[int]) -> str:
        return self._chat_layout.tokenizer.decode(ids, skip_special_tokens=False)


class ServerTokenizer(PlainText):
    """The server's own tokenizer, called over HTTP; its replies are kept.

    Contexts are tokenised with the server's chat template: through ``/tokenize`` with messages (vLLM), or through
    ``/v1/chat/completions`` returning the prompt's ids (SGLang). A server with neither gets the plain layout.
    """

    layout: Literal["chat", "plain"] = "chat"

    def __init__(self, model: str, *, by_reply: bool = False) -> None:
        super().__init__(model)
        self._ways = [self.chat_ids, *[self._chat_by_reply] * by_reply, self._plain]
        self._end_known = False
        self._ids = KeptIds()

    async def encode(self, client: Client, messages: Sequence[Message], target: str) -> ScoreRequest:
        context = await self._kept(client, tuple(messages))
        if not self._end_known and self.layout == "chat":
            await self._learn_end(client)
        ids = await self._kept(client, target) if target else ()
        return ScoreRequest(context, ids if self.end is None else (*ids, self.end))

    async def _learn_end(self, client: Client) -> None:
        begin = (*await self._kept(client, ASKED), *await self._kept(client, REPLIED))
        try:
            whole = await self._kept(client, (*ASKED, Message("assistant", REPLIED), *ASKED))
        except AttemptError as failure:
            if not failure.is_answer:
                raise
            whole = ()
        # a template that begins a reply in another way than it quotes one shows nothing
        if whole[: len(begin)] == begin and len(whole) > len(begin):
            self.end = whole[len(begin)]
        self._end_known = True

    async def texts(self, client: Client, ids: Ids) -> tuple[str, ...] | None:
        """The text of each token, from the texts of all beginnings; None if the server has no ``/detokenize``."""
        prefixes = [""] * len(ids)

        async def spell(length: int) -> None:
            data = await client.post("/detokenize", {"model": self._model, "tokens": ids[:length]})
            text = part_of(data, "prompt") or part_of(data, "text")  # vLLM's name, and SGLang's
            if not isinstance(text, str):
                raise bad_reply("/detokenize returned no text")
            prefixes[length - 1] = text

        try:
            if ids:
                await spell(len(ids))
        except AttemptError as failure:
            if not failure.is_answer:
                raise
            return None
        await side_by_side(spell, range(1, len(ids)), client.limiter.maximum)
        pieces, before = [], ""
        for position, prefix in enumerate(prefixes, 1):
            known = prefix if position == len(prefixes) else prefix.rstrip(UNFINISHED)
            known = before if len(known) < len(before) else known  # a character that is unfinished still
            if not known.startswith(before):
                return None
            pieces.append(known[len(before) :])
            before = known
        return tuple(pieces)

    async def _kept(self, client: Client, text: tuple[Message, ...] | str) -> Ids:
        if (known := self._ids.get(text)) is not None:
            return known
        if isinstance(text, str):
            return self._ids.put(text, await self._tokenize(client, prompt=text, add_special_tokens=False))
        return self._ids.put(text, await self._context(client, text))

    async def _context(self, client: Client, messages: tuple[Message, ...]) -> Ids:
        way, *others = self._ways
        try:
            ids = await way(client, messages)
        except AttemptError as failure:
            # Only a server that says no is asked in another way; one that is down is not.
            if not failure.is_answer or not others:
                raise
            self._ways = others
            return await self._context(client, messages)
        self._ways = [way]
        self.layout = "plain" if way == self._plain else "chat"
        return ids

    async def chat_ids(self, client: Client, messages: tuple[Message, ...]) -> Ids:
        """Ids of the messages in the server's chat template, as vLLM returns them. Raises AttemptError."""
        return await self._tokenize(client, messages=messages, add_generation_prompt=True)

    async def _chat_by_reply(self, client: Client, messages: tuple[Message, ...]) -> Ids:
        payload = {"model": self._model, "messages": messages, "max_tokens": 1, "return_prompt_token_ids": True}
        most = most_usage(ChatRequest(messages, max_tokens=1))
        data = await client.post("/v1/chat/completions", payload, most, usage=FORMATS["openai"].usage)
        return _checked_ids(data["choices"][0].get("prompt_token_ids") or data.get("prompt_token_ids"))

    async def _plain(self, client: Client, messages: tuple[Message, ...]) -> Ids:
        return await self._tokenize(client, prompt=_plain_layout(messages), add_special_tokens=True)

    async def _tokenize(self, client: Client, **question: Any) -> Ids:
        return _checked_ids(part_of(await client.post("/tokenize", {"model": self._model, **question}), "tokens"))


def _plain_layout(messages: Sequence[Message]) -> str:
    return "".join(f"{message.content}\n\n" for message in messages)


def _checked_ids(ids: Any) -> Ids:
    """The ids. Raises AttemptError if the server returned none: one that does not know the request returns []."""
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise bad_reply("the server returned no token ids")
    return tuple(ids)


def open_tokenizer(given: str) -> LocalTokenizer:
    """The tokenizer that ``tokenizer=`` names: a file or folder, or one from the hub."""
    import huggingface_hub  # noqa: PLC0415 - seldom needed, like the others here
    from tokenizers import Tokenizer  # noqa: PLC0415

    path = Path(given).expanduser()
    if not path.exists():
        try:
            path = Path(huggingface_hub.snapshot_download(given, allow_patterns=["tokenizer.json", *_BESIDE]))
        except Exception as error:  # noqa: BLE001 - whatever the hub's client raises, the answer is the same
            raise PrerequisiteError(
                f"tokenizer={given}: neither a file or folder here nor found on the hub ({type(error).__name__}). "
                "Give the path of a tokenizer.json or of a folder with one"
            ) from None
    file = path / "tokenizer.json" if path.is_dir() else path
    settings_file, template_file = (file.with_name(name) for name in _BESIDE)
    try:
        text = file.read_text(encoding="utf-8")
        tokenizer = Tokenizer.from_str(text)
        settings = json.loads(settings_file.read_bytes()) if settings_file.is_file() else {}
    except Exception as error:  # noqa: BLE001 - the library raises plain exceptions
        raise ModelSpecError(
            f"tokenizer must be a tokenizer.json, a folder with one, or a model of the hub, got {given!r} ({error})"
        ) from None
    template = template_file.read_text(encoding="utf-8") if template_file.is_file() else settings.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = next((one["template"] for one in template if one.get("name") == "default"), None)
    control = frozenset(
        token["id"]
        for token in json.loads(text).get("added_tokens") or ()
        if is_control(token["content"], template or "", special=token["special"])
    )
    marks = [settings.get(name) or "" for name in ("bos_token", "eos_token")]
    begin, end = (str(mark.get("content") or "") if isinstance(mark, dict) else str(mark) for mark in marks)
    begins = bool(begin) and tokenizer.encode("a").ids[:1] == [tokenizer.token_to_id(begin)]
    layout = ChatLayout(fast_tokenizer(tokenizer, control), template, begin, end, begins)
    return LocalTokenizer(layout, content_hash(text, template))


# --- dialects ----------------------------------------------------------------------------------------------------

_AS_TRAINED = {"temperature": 1.0}
"""Log-probabilities are those of the model itself; some servers would scale them by any other temperature."""
_CLAMPED_NATS = -9999.0  # vLLM's value for minus infinity, which cannot be summed as a log-probability
_NOT_OURS = "the reply is not about the tokens that were sent"


class Dialect(ABC):
    """One way of requesting log p(target | context) of a model, for requests that its tokenizer has encoded."""

    name: str
    route = "/v1/completions"
    shares_contexts = False  # whether the server computes a context once for several targets
    most_at_once: int | None = None  # calls above which it stops to do so; None: none
    shown: Callable[[str], PlainText] = ServerTokenizer  # the tokenizer that such a server shows

    def __init__(self, model: str, local: LocalTokenizer | None) -> None:
        self.model = model
        self.tokenizer: PlainText = local or self.shown(model)

    @abstractmethod
    def question(self, context: Any, target: Any) -> Mapping[str, Any]: ...
    @abstractmethod
    def values(self, data: Any, context: Any, target: Any) -> Sequence[Any]:
        """The values of the target's tokens in a reply, proven to be theirs. Raises AttemptError for another reply."""

    async def score(self, client: Client, request: ScoreRequest, *, probing: bool = False) -> tuple[TokenLogprobs, str]:
        """The log-probabilities of the target, and the server's fingerprint; ``probing``: nothing is set aside."""
        context, target = request.context, request.target
        sends_text = type(self.tokenizer) is PlainText
        form, wanted, held = (str, "text", "token ids") if sends_text else (tuple, "token ids", "text")
        if not isinstance(context, form) or not isinstance(target, form):
            raise AttemptError("rejected", f"this server takes {wanted}, but the request has {held}")
        if not context:
            raise AttemptError("rejected", "the context is empty, and the first token of a text has no log-probability")
        question, most = self.question(context, target), most_usage(request)
        data = await client.post(self.route, question, most, usage=_usage if probing else None)
        values = self.values(data, context, target)
        check_logprobs(values)
        if values and min(values) <= _CLAMPED_NATS:
            raise bad_reply(f"got {min(values)!r}, which is not a log-probability")
        reply = TokenLogprobs(tuple(map(float, values)), _usage(data))
        return reply, "" if sends_text else stable_fingerprint(data)


def _usage(data: Any) -> Usage:
    """Tokens charged, by an OpenAI ``usage`` object or SGLang's ``meta_info``."""
    return FORMATS["openai"].usage({"usage": part_of(data, "meta_info") or part_of(data, "usage")})


def stable_fingerprint(reply: Any) -> str:
    """The reply's ``system_fingerprint`` if it is vLLM's, a hash of its version and configuration; otherwise ""."""
    found = part_of(reply, "system_fingerprint")  # others change it with every call, or with every update
    return found if isinstance(found, str) and found.startswith("vllm-") else ""


class Sglang(Dialect):
    """SGLang: ``/generate`` with ``logprob_start_len``; the radix cache serves what comes before it.

    The token *at* the start index is returned without a value, so the start is one token before the target.
    """

    name = "sglang"
    route = "/generate"
    shares_contexts = True
    most_at_once = 100  # its policy lpm turns itself off when more than 128 calls wait
    shown = partial(ServerTokenizer, by_reply=True)

    def question(self, context: Ids, target: Ids) -> Mapping[str, Any]:
        return {
            "input_ids": context + target,
            "sampling_params": {"max_new_tokens": 0, **_AS_TRAINED},
            "return_logprob": True,
            "logprob_start_len": len(context) - 1,
        }

    def values(self, data: Any, context: Ids, target: Ids) -> Sequence[Any]:
        rows = data["meta_info"]["input_token_logprobs"]
        if [row[1] for row in rows] != [context[-1], *target]:
            raise bad_reply(_NOT_OURS)
        return [row[0] for row in rows[1:]]


class Vllm(Dialect):
    """vLLM: ``prompt_logprobs`` on ``/v1/completions``, where the reply covers context and target.

    Old versions must be asked for at least one further token at each position.
    """

    name = "vllm"

    def question(self, context: Ids, target: Ids) -> Mapping[str, Any]:
        prompt = {"prompt": context + target, "prompt_logprobs": 1}
        return {"model": self.model, **prompt, "max_tokens": 1, **_AS_TRAINED}  # 0 is refused without echo

    def values(self, data: Any, context: Ids, target: Ids) -> Sequence[Any]:
        positions = data["choices"][0].get("prompt_logprobs")
        if not isinstance(positions, list):
            raise bad_reply("the server accepted prompt_logprobs but returned none")
        own = zip(positions[len(context) :], target, strict=False)
        found = [part_of(entry, str(token)) for entry, token in own]
        if len(positions) != len(context) + len(target) or None in found:
            raise bad_reply(_NOT_OURS)
        return [entry["logprob"] for entry in found]


class Echo(Dialect):
    """The oldest dialect: ``/v1/completions`` with ``echo`` and ``logprobs``, for a server that hides its tokenizer.

    With a tokenizer on this machine, ids are sent, and the tokens of the reply must spell what was sent. Without one,
    context and target are sent as one text, and ``text_offset`` must prove that a token begins exactly where the target
    begins. Some servers must be let to write a token.
    """

    name = "completions-echo"
    shown = PlainText

    def question(self, context: Any, target: Any) -> Mapping[str, Any]:
        asked = {"prompt": context + target, "echo": True, "logprobs": 1, "max_tokens": 1}
        return {"model": self.model, **asked, **_AS_TRAINED}

    def values(self, data: Any, context: Any, target: Any) -> Sequence[Any]:
        choice, local = data["choices"][0], self.tokenizer
        if isinstance(context, str) and not str(choice.get("text") or "").startswith(context + target):
            raise bad_reply("the server accepted echo but did not return the prompt")
        logprobs = choice.get("logprobs")
        if not logprobs:
            raise bad_reply("the server accepted echo and logprobs but returned no logprobs")
        rows = list(zip(*(logprobs[name] for name in ("tokens", "token_logprobs", "text_offset")), strict=True))
        if not isinstance(local, LocalTokenizer):
            return _target_values(rows, context, target)
        first, end = len(context), len(context) + len(target)
        if not end <= len(rows) <= end + 1:
            raise bad_reply(f"the server returned {len(rows)} tokens for {end} ids")
        words = local.without_end(target)
        spelled, meant = "".join(row[0] for row in rows[first : first + len(words)]), local.spells(words)
        if _is_text([*(row[0] for row in rows), meant]) and spelled.strip() != meant.strip():
            raise bad_reply(
                f"the server reads the ids as {spelled[:60]!r}, not as {meant[:60]!r}: the tokenizer that was given is "
                "not the model's"
            )
        return [row[1] for row in rows[first:end]]


def _target_values(rows: list[tuple[str, Any, int]], context: str, target: str) -> Sequence[Any]:
    """The values of the target's tokens, by text, value and offset of each. Raises AttemptError if it begins in one."""
    begin, mark = len(context), rows[0][0]
    # some servers count a begin-of-text mark in text_offset although it is not in the text
    if len(rows) > 1 and rows[1][2] - rows[0][2] == len(mark) and not context.startswith(mark):
        begin += len(mark)
    inside = [row for row in rows if begin <= row[2] < begin + len(target)]
    if not inside or inside[0][2] != begin:
        raise bad_reply(
            "no token begins where the target begins: the server's tokenizer merges context and target, so the "
            "target has no log-probability of its own. Use a scorer that takes token ids"
        )
    first = rows.index(inside[0])
    if inside != rows[first : first + len(inside)]:
        raise bad_reply("text_offset does not increase from token to token")
    tokens = [row[0] for row in inside]
    # otherwise the offsets alone must do
    if _is_text(tokens) and "".join(tokens) != target:
        raise bad_reply(f"the tokens at the target's offsets spell {''.join(tokens)[:60]!r}, not the target")
    return [row[1] for row in inside]


def _is_text(tokens: Sequence[str]) -> bool:
    return not any("\ufffd" in token or token.startswith(("bytes:", "token_id:")) for token in tokens)


DIALECTS: Mapping[str, type[Dialect]] = {dialect.name: dialect for dialect in (Sglang, Vllm, Echo)}


async def sglang_weights(client: Client) -> str:
    """The weights behind a served name, with their version if one is set. Raises AttemptError if it is no SGLang."""
    try:
        data = await client.send("GET", "/get_model_info")
    except AttemptError:
        data = await client.send("GET", "/model_info")
    path = part_of(data, "model_path")
    if not isinstance(path, str):
        raise bad_reply("/model_info responds, but not as in SGLang")
    version = str(data.get("weight_version") or "default")
    return path if version == "default" else f"{path}@{version}"
