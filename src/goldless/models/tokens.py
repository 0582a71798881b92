"""Tokens: a cache of ids, the text of each token, and the length of requests."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goldless.models.interface import Message, WrappedModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNFINISHED = "\ufffd"
"""The character a decoder writes for an incomplete one whose other bytes are in the next token."""
MOST_KEPT = 2_000_000
"""Maximum token ids kept, about 100 MB."""
LETTERS_A_TOKEN = 3
"""Characters per token for letters and spaces; every other ASCII character counts as a token. The estimate is 1.3 to
1.5 times the tokens of four machine-learning papers, and too low in no segment of 5,000 characters.
"""
TOKENS_A_CHARACTER = 2
"""Tokens per character beyond ASCII: mathematical signs and other scripts often take several."""
MESSAGE_TOKENS = 16
"""Maximum tokens that a chat template adds around a message."""
_LETTERS = re.compile(r"[A-Za-z ]+")


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
