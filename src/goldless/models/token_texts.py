"""The text of each token: where in a scored text its log-probabilities belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

UNFINISHED = "\ufffd"
"""What a decoder writes for the bytes of a character whose other bytes stand in the next token."""


class Decoding(Protocol):
    """As much of a tokenizer as is needed to spell tokens."""

    def text_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a text."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of token ids."""


def token_texts(tokenizer: Decoding, ids: Sequence[int]) -> tuple[str, ...] | None:
    """The text of each token, which joined give the text of all; None where the tokenizer cannot be cut so.

    A character whose bytes lie in several tokens belongs to the one that completes it; the others have no text.
    Each token is decoded behind the one before it only, so the work grows with the length, not with its square.
    """
    pieces: list[str] = []
    start = read = 0
    before = ""
    for position in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[start:position])
        if text.endswith(UNFINISHED) and position < len(ids):
            pieces.append("")
            continue
        if not text.startswith(before):
            return None
        pieces.append(text[len(before) :])
        start, read, before = read, position, tokenizer.decode(ids[read:position])
    return _without_added_space(tokenizer, pieces)


def _without_added_space(tokenizer: Decoding, pieces: list[str]) -> tuple[str, ...]:
    """The pieces without the blank that some tokenizers put before every text and do not take away again."""
    if tokenizer.decode(tokenizer.text_ids("a")) == " a":
        first = next((i for i, piece in enumerate(pieces) if piece), None)
        if first is not None:
            pieces[first] = pieces[first].removeprefix(" ")
    return tuple(pieces)


def pieces_of_prefixes(prefixes: Sequence[str]) -> tuple[str, ...] | None:
    """The text of each token from the texts of the first token, the first two, and so on; None where they do not grow.

    For a tokenizer that is asked over a wire: all prefixes can be asked at once.
    """
    pieces = []
    before = ""
    for position, prefix in enumerate(prefixes, 1):
        known = prefix if position == len(prefixes) else prefix.rstrip(UNFINISHED)
        if len(known) < len(before):
            known = before  # a character that is unfinished still
        if not known.startswith(before):
            return None
        pieces.append(known[len(before) :])
        before = known
    return tuple(pieces)
