"""A model provider: ``echo:WEIGHT`` predicts a word from how often the context has it.

It is a real language model, if a poor one: log p(word) = log(WEIGHT · share of the word in the context +
(1 - WEIGHT) / vocabulary). That is enough to score with, and to be read as a critic by the probabilities of its labels.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from goldless.errors import ModelSpecError
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    ScoreRequest,
    TokenLogprobs,
    Usage,
)
from goldless.models.provider import Form, Provider

VOCABULARY = 50_000


class EchoModel:
    """Scores words by the context's own, and writes back the last message."""

    capabilities = Capabilities(scoring=True, chat=True)
    context_length = None
    positions = "target"

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.identity = ModelIdentity("echo", f"{weight:g}", revision="1")  # another one where the numbers change

    async def prepare(self) -> None:
        """Nothing is loaded."""

    async def aclose(self) -> None:
        """Nothing is held."""

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The texts themselves: words are found when they are scored."""
        return ScoreRequest("\n".join(message.content for message in messages), target)

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...]:
        """The target cut before each word."""
        return tuple(_words(str(request.target)))

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """One value per word of each target."""
        for number, request in enumerate(requests):
            known = Counter(word.strip() for word in _words(str(request.context)))
            values = [self._logprob(word.strip(), known) for word in _words(str(request.target))]
            deliver({number: TokenLogprobs(tuple(values), Usage(len(known) + len(values), 0))})

    def _logprob(self, word: str, known: Counter[str]) -> float:
        return math.log(self.weight * known[word] / max(1, known.total()) + (1 - self.weight) / VOCABULARY)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """What was said last."""
        return ChatReply(request.messages[-1].content, "stop")


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\w+|\s*[^\w\s]|\s+$", text) or [text]


def open_echo(rest: str, _use: object, _say: object) -> EchoModel:
    """The model of ``echo:WEIGHT``."""
    try:
        weight = float(rest)
    except ValueError:
        weight = math.nan
    if not 0 < weight < 1:
        raise ModelSpecError(f"echo:WEIGHT must have a weight between 0 and 1, got {rest!r}. Try echo:0.5.")
    return EchoModel(weight)


echo = Provider(
    forms=(Form("echo:WEIGHT", "an example: words of the context are likelier, by a weight between 0 and 1"),),
    make=open_echo,
    local=True,
    small=True,
)
