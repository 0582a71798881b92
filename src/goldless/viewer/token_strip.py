"""The heat strip: every token of a text in a shade of its log-probability, or of what a candidate adds to it."""

from __future__ import annotations

import threading
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from goldless.errors import GoldlessError
from goldless.models.embedded import embedded_model, find_embedded
from goldless.models.gguf.model import GgufModel
from goldless.models.interface import Message

SURPRISE_LIMITS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Nats of surprise, -log p, at which the shade changes: 0 hardly any to 6 a great deal."""
GAIN_LIMITS = (-4.0, -1.0, -0.25, 0.25, 1.0, 4.0)
"""Nats gained at which the shade changes: 0 misleads to 6 tells much, 3 near nothing."""

SENTENCE_LIMITS = (-20.0, -5.0, -1.0, 1.0, 5.0, 20.0)
"""The same of a whole sentence."""

Kind = Literal["surprise", "gain"]


@dataclass(frozen=True, slots=True)
class StripToken:
    """One token in its shade."""

    text: str | None
    """None: the tokens' texts are not known here."""
    nats: float
    shade: str
    """A class of the style sheet: ``s0`` to ``s6``, ``g0`` to ``g6``."""


def surprise_shade(logprob_nats: float) -> str:
    """The shade of a log-probability."""
    return f"s{bisect(SURPRISE_LIMITS, -logprob_nats)}"


def gain_shade(gain_nats: float, limits: Sequence[float] = GAIN_LIMITS) -> str:
    """The shade of a gain."""
    return f"g{bisect(limits, gain_nats)}"


def strip(values: Sequence[float], pieces: Sequence[str] | None, *, kind: Kind = "surprise") -> tuple[StripToken, ...]:
    """The strip of these values; pieces of another number are of another tokenizer and are left out."""
    shade = surprise_shade if kind == "surprise" else gain_shade
    texts: Sequence[str | None] = pieces if pieces is not None and len(pieces) == len(values) else [None] * len(values)
    return tuple(StripToken(text, value, shade(value)) for text, value in zip(texts, values, strict=True))


class Tokenizers:
    """Cuts texts into a scorer's tokens, where its tokenizer is on this machine; nothing is ever downloaded."""

    def __init__(self) -> None:
        self._embedded: GgufModel | None = None
        self._tried = False
        self._lock = threading.Lock()

    def pieces(self, scorer: str, text: str) -> tuple[str, ...] | None:
        """The texts of the tokens, an end-of-turn token as ""; None where the tokenizer is not at hand."""
        model = self._model() if scorer.startswith("embedded:") else None
        if model is None or model.identity.short != scorer:
            return None
        return anyio.run(_pieces, model, text)

    def _model(self) -> GgufModel | None:
        with self._lock:
            if not self._tried:
                self._tried = True
                if find_embedded() is not None:
                    try:
                        model = embedded_model()
                        anyio.run(model.prepare)
                        self._embedded = model
                    except (GoldlessError, OSError):
                        self._embedded = None
            return self._embedded


async def _pieces(model: GgufModel, text: str) -> tuple[str, ...] | None:
    request = await model.encode((Message("user", "-"),), text)
    pieces = await model.pieces(request)
    return pieces if pieces is not None and "".join(pieces) == text else None
