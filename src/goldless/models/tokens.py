"""Tokens: how texts and whole conversations become token ids, the text of each token, and the length of requests.

Texts of people and models are encoded with special tokens switched off, so a response that contains ``<|im_end|>`` is
read as those characters and cannot end its turn. Only the template's own text may become special tokens.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import Template, TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from goldless.errors import CapabilityError
from goldless.models.interface import Message, WrappedModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNFINISHED = "\ufffd"
"""The character a decoder writes for an incomplete one whose other bytes are in the next token."""
MOST_KEPT = 2_000_000
"""Maximum token ids kept, about 100 MB."""
TEMPLATE_DATE = dt.date(2024, 7, 26)
"""The date given to templates, the default of the Llama 3 ones: a prompt must not change overnight."""
PLAIN_END = "\n\n"
"""Separator after every message for a model without chat template."""
STAND_IN = "\ue000{}\ue001"
"""Placeholder for a content while the template is rendered, to find the template's own text."""


class KeptIds(dict[Hashable, tuple[int, ...]]):
    """A cache of token ids, emptied when it is full.

    Every candidate of a task is scored against the same peers: each text occurs many times and is tokenised once.
    """

    _size = 0

    def put(self, key: Hashable, ids: tuple[int, ...]) -> tuple[int, ...]:
        if self._size > MOST_KEPT:
            self.clear()
            self._size = 0
        self._size += len(ids)
        self[key] = ids
        return ids


class TextTokenizer:
    """A tokenizer that treats template text and user text separately, and tokenises each text once."""

    def __init__(self, tokenizer: Tokenizer, for_texts: Tokenizer) -> None:
        """``for_texts`` encodes texts of people and models: what is special in it is read as characters."""
        for_texts.encode_special_tokens = True
        self.backend, self._for_texts = tokenizer, for_texts
        added = for_texts.get_added_tokens_decoder()
        self.control = frozenset(i for i, token in added.items() if token.special)
        """Ids of special tokens, which a text of people or models never becomes."""
        self._kept = KeptIds()

    def __reduce__(self) -> tuple[type[TextTokenizer], tuple[Tokenizer, Tokenizer]]:
        return TextTokenizer, (self.backend, self._for_texts)

    def text_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a text of people or models: never a special token."""
        if (known := self._kept.get(text)) is not None:
            return known
        (encoding,) = self._for_texts.encode_batch_fast([text], add_special_tokens=False)
        return self._kept.put(text, tuple(encoding.ids))

    def template_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a template's own text: special tokens are recognised, none is added."""
        key, encode = ("template", text), self.backend.encode
        return self._kept.get(key) or self._kept.put(key, tuple(encode(text, add_special_tokens=False).ids))

    def read(self, texts: Iterable[str]) -> None:
        """Tokenise texts of people or models together, so that ``text_ids`` finds them."""
        new = [text for text in dict.fromkeys(texts) if self._kept.get(text) is None]
        for text, encoding in zip(new, self._for_texts.encode_batch_fast(new, add_special_tokens=False), strict=True):
            self._kept.put(text, tuple(encoding.ids))

    def token_id(self, token: str) -> int | None:
        """The id of one token of the vocabulary, or None if there is no such token."""
        found: int | None = self.backend.token_to_id(token)
        return found

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return str(self.backend.decode(list(ids), skip_special_tokens=skip_special_tokens))


def token_texts(tokenizer: TextTokenizer, ids: Sequence[int]) -> tuple[str, ...] | None:
    """The text of each token, which concatenate to the whole text; None if the tokenizer cannot be split this way.

    A character spread over several tokens belongs to the one that completes it; the others have no text.
    """
    from tokenizers.decoders import DecodeStream  # noqa: PLC0415 - slow to import

    stream, whole = DecodeStream(skip_special_tokens=True), tokenizer.decode(ids)
    pieces = [stream.step(tokenizer.backend, token) or "" for token in ids]
    said = "".join(pieces)
    if not whole.startswith(said):
        return None
    if pieces:
        pieces[-1] += whole[len(said) :]  # a text may itself end in the mark of an unfinished character
    if tokenizer.decode(tokenizer.text_ids("a")) == " a":
        # some tokenizers add a space before every text and do not remove it
        first = next((i for i, piece in enumerate(pieces) if piece), None)
        if first is not None:
            pieces[first] = pieces[first].removeprefix(" ")
    return tuple(pieces)


def fast_tokenizer(backend: Tokenizer, control: frozenset[int] = frozenset()) -> TextTokenizer:
    """The tokenizer, and a copy for texts, in which these tokens, too, are read as characters."""
    rules = json.loads(backend.to_str())
    # a tokenizer file may ask for texts to be cut or padded: never here
    rules["truncation"] = rules["padding"] = None
    plain = type(backend).from_str(json.dumps(rules))
    for token in rules["added_tokens"]:
        token["special"] = token["special"] or token["id"] in control
    return TextTokenizer(plain, type(backend).from_str(json.dumps(rules)))


# --- conversations --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatLayout:
    """The way messages become token ids: by the model's chat template, or plainly without one."""

    tokenizer: TextTokenizer
    template: str | None
    begin: str
    """Beginning-of-sequence token."""
    end: str
    """End-of-sequence token."""
    add_begin: bool
    """True if a sequence without template starts with the beginning-of-sequence token."""

    @property
    def name(self) -> str:
        return "plain" if self.template is None else "chat"

    def context(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids up to where the assistant's turn begins."""
        if self.template is None:
            begin = self.tokenizer.token_id(self.begin) if self.add_begin else None
            text = self.tokenizer.text_ids(_plain(messages))
            return text if begin is None else (begin, *text)
        turns, (first, *others) = self._turns(messages)
        ids = self.tokenizer.template_ids(first)
        for message, piece in zip(turns, others, strict=True):
            ids += self.tokenizer.text_ids(message.content) + self.tokenizer.template_ids(piece)
        return ids

    def read(self, contexts: Iterable[Sequence[Message]], targets: Iterable[str]) -> None:
        """Tokenise many texts together, so that ``context`` and ``target`` find them."""
        if self.template is None:
            texts = [_plain(messages) for messages in contexts]
        else:
            texts = [turn.content for messages in contexts for turn in self._turns(messages)[0]]
        self.tokenizer.read([*texts, *targets])

    def target(self, text: str) -> tuple[int, ...]:
        """Token ids of a whole assistant's turn: the text, and the end-of-turn token if there is one."""
        ids, end = self.tokenizer.text_ids(text), self.end_of_turn()
        return ids if end is None else (*ids, end)

    def pieces(self, target: tuple[int, ...]) -> tuple[str, ...] | None:
        """The texts of a target's tokens, an end-of-turn token as ""; None if the tokenizer cannot be split."""
        ended = target[-1:] == (self.end_of_turn(),)
        texts = token_texts(self.tokenizer, target[:-1] if ended else target)
        return None if texts is None else (*texts, *[""] * ended)

    def merges_at_join(self, target: str) -> bool:
        """True if the tokenizer merges the end of the context with the start of the target when given both as one text.

        If so, the model was trained on the merged token and never saw the boundary where its log-probabilities would be
        read.
        """
        encode, decode = self.tokenizer.template_ids, self.tokenizer.decode
        if self.template is None:
            encode, before = self.tokenizer.text_ids, PLAIN_END
        else:
            before = self._pieces((Message("user", ""),), open_turn=True)[-1]
        apart, together = decode(encode(before), skip_special_tokens=False), encode(before + target)
        beginnings = (decode(together[:end], skip_special_tokens=False) for end in range(len(together) + 1))
        return apart not in beginnings

    def end_of_turn(self) -> int | None:
        """The token that closes the assistant's turn, or None without template."""
        if self.template is None:
            return None
        closing = self._pieces((Message("user", ""), Message("assistant", "")), open_turn=False)[-1]
        ids = self.tokenizer.template_ids(closing)
        # a template may write a blank before the token that closes the turn
        special = [i for i in ids if i in self.tokenizer.control]
        if special:
            return special[0]
        return ids[0] if ids else self.tokenizer.token_id(self.end)

    def stop_tokens(self) -> frozenset[int]:
        return frozenset(t for t in (self.end_of_turn(), self.tokenizer.token_id(self.end)) if t is not None)

    def _turns(self, messages: Sequence[Message]) -> tuple[Sequence[Message], list[str]]:
        """The messages as the template takes them, and its own text around them."""
        try:
            return messages, self._pieces(messages, open_turn=True)
        except CapabilityError:
            if len(messages) < 2 or messages[0].role != "system":
                raise
        # some templates know no system role: its words then open the first turn
        merged = Message(messages[1].role, f"{messages[0].content}\n\n{messages[1].content}")
        return self._turns([merged, *messages[2:]])

    def _pieces(self, messages: Sequence[Message], *, open_turn: bool) -> list[str]:
        """The template's own text before, between and after the messages' contents."""
        if self.template is None:
            raise CapabilityError("this model has no chat template")
        roles = tuple(message.role for message in messages)
        text = _rendered(self.template, roles, open_turn=open_turn, begin=self.begin, end=self.end)
        pieces = []
        for i in range(len(messages)):
            before, found, text = text.partition(STAND_IN.format(i))
            if not found:
                raise CapabilityError("the model's chat template drops or reorders messages")
            pieces.append(before)
        return [*pieces, text]


def _plain(messages: Sequence[Message]) -> str:
    return "".join(f"{message.content}{PLAIN_END}" for message in messages)


@functools.lru_cache(maxsize=256)
def _rendered(template: str, roles: tuple[str, ...], *, open_turn: bool, begin: str, end: str) -> str:
    stand_ins = [{"role": role, "content": STAND_IN.format(i)} for i, role in enumerate(roles)]
    try:
        return _compiled(template).render(
            messages=stand_ins, add_generation_prompt=open_turn, bos_token=begin, eos_token=end
        )
    except TemplateError as error:
        raise CapabilityError(f"the model's chat template does not accept these messages: {error}") from error


@functools.lru_cache(maxsize=16)
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
    )

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = TEMPLATE_DATE.strftime
    return environment.from_string(template)


class _Generation(Extension):
    """``{% generation %}``, which some templates use to mark the assistant's text for training: ignored here."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


# --- the length of requests -----------------------------------------------------------------------------------------

LETTERS_A_TOKEN = 3
"""Characters per token for letters and spaces; every other ASCII character counts as a token. The estimate is 1.3 to
1.5 times the tokens of four machine-learning papers, and too low in no segment of 5,000 characters.
"""
TOKENS_A_CHARACTER = 2
"""Tokens per character beyond ASCII: mathematical signs and other scripts often take several."""
MESSAGE_TOKENS = 16
"""Maximum tokens that a chat template adds around a message."""
_LETTERS = re.compile(r"[A-Za-z ]+")


@dataclass(frozen=True, slots=True)
class RequestLength:
    """The length of a request."""

    tokens: int
    exact: bool
    """True if the model counted it; otherwise it is an estimate, on the safe side for papers."""

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens" if self.exact else f"about {self.tokens:,} tokens (estimated)"


async def request_length(model: object, messages: Sequence[Message]) -> RequestLength:
    """The messages' length as the model counts it, or an estimate.

    Raises CallError if the model can count it but does not respond now.
    """
    counted = await WrappedModel(model).count_tokens(messages)
    if counted is not None:
        return RequestLength(counted, exact=True)
    return RequestLength(sum(estimated_tokens(m.content) + MESSAGE_TOKENS for m in messages), exact=False)


def estimated_tokens(text: str) -> int:
    """Estimated tokens of a text, rather too many than too few."""
    signs = _LETTERS.sub("", text)
    letters, plain = len(text) - len(signs), len(signs.encode("ascii", "ignore"))
    return math.ceil(letters / LETTERS_A_TOKEN) + plain + (len(signs) - plain) * TOKENS_A_CHARACTER


def context_limit(model: object, given: int | None) -> int | None:
    """Maximum tokens of request and reply: the model's limit, or the user's if that is lower or the only one.

    None: unknown, the server decides.
    """
    known = WrappedModel(model).context_length
    return min((limit for limit in (known, given) if limit is not None), default=None)
