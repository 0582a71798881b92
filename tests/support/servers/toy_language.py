"""A language model small enough to check by hand: words as tokens, a smoothed bigram as probability."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

CORPUS = """
The first review says that the method is sound and that the experiments are small. The second review says that the
method is new. One two three four. The capital of France is Paris. Which words follow? One two three four.
"""
VOCABULARY = 4096
BEGIN = "<s>"

Tokenizing = Literal["words", "merging"]
_PATTERNS = {
    "words": re.compile(r"\w+|\s+|[^\w\s]"),
    # White space joins the word after it, so that no token begins where a target after "\n\n" begins.
    "merging": re.compile(r"\s*\w+|\s+|[^\w\s]"),
}


def tokens_of(text: str, tokenizing: Tokenizing = "words") -> list[str]:
    """The tokens, which joined give the text."""
    return _PATTERNS[tokenizing].findall(text)


def token_id(token: str) -> int:
    """The same number for the same token, always."""
    return zlib.crc32(token.encode())


class Bigram:
    """p(token | previous) = (count(previous, token) + 1) / (count(previous) + VOCABULARY)."""

    def __init__(self, corpus: str = CORPUS) -> None:
        words = tokens_of(corpus)
        self._pairs = Counter(pairwise(words))
        self._words = Counter(words[:-1])

    def logprob(self, previous: str, token: str) -> float:
        return math.log((self._pairs[previous, token] + 1) / (self._words[previous] + VOCABULARY))

    def logprobs(self, tokens: Sequence[str]) -> list[float | None]:
        """One value a token; None for the first, which follows nothing."""
        return [None, *(self.logprob(a, b) for a, b in pairwise(tokens))]


class Reading:
    """A model that reads: a token has probability 1/2 where it came before, else 1/8."""

    def logprobs(self, tokens: Sequence[str]) -> list[float | None]:
        """One value a token; None for the first."""
        return [None, *(math.log(1 / 2 if token in tokens[:i] else 1 / 8) for i, token in enumerate(tokens) if i)]


def chat_tokens(messages: Sequence[dict[str, str]]) -> list[str]:
    """A chat template: a mark for the role, the content, an end mark, and the mark of the assistant's turn."""
    tokens = [BEGIN]
    for message in messages:
        tokens += [f"<{message['role']}>", *tokens_of(message["content"]), "<end>"]
    return [*tokens, "<assistant>"]
