"""Sentence embeddings: unit vectors, close for similar meanings.

Models are those of the package sentence-transformers, an extra because it needs torch. They are loaded when first
needed, once per process, and compute each sentence once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from goldless.errors import PrerequisiteError
from goldless.metrics.metric import Extra

FloatArray = npt.NDArray[np.float32]

EMBEDDINGS = Extra("embeddings", "sentence_transformers")
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
VECTORS_KEPT = 1 << 16
"""Sentences whose vectors are kept (about 100 MB at 384 numbers each)."""
AROUND = 8
"""More tokens than any model adds around a text."""
LONG = "cut into pieces at word ends"
"""Treatment of a sentence beyond the limit: nothing is left out."""


class Encoder(Protocol):
    """A model that turns sentences into unit vectors."""

    tokenizer: Any
    """Its tokenizer of the package tokenizers, which neither cuts nor pads."""
    limit: int
    """The most tokens of a sentence."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text, [n, width]."""


class SentenceEmbedder:
    """A model that is loaded when it is first needed."""

    def __init__(self, load: Callable[[], Encoder], settings: Mapping[str, str], extra: Extra | None = None) -> None:
        """``settings`` identify the model in a signature, ``extra`` has its package; both are known before loading."""
        self.settings = settings
        self.extra = extra
        self._load = load
        self._known: dict[str, FloatArray] = {}
        self._lock = threading.Lock()

    def pieces(self, sentence: str) -> tuple[str, ...]:
        """The sentence or, if it is too long for the model, its parts, halved until each fits."""
        with self._lock:
            encoder = self._encoder
            # in plain letters a token is at least one character, so most sentences need no count
            fits = sentence.isascii() and len(sentence) + AROUND <= encoder.limit
            if fits or len(encoder.tokenizer.encode(sentence).ids) <= encoder.limit:
                return (sentence,)
            cut = encoder.tokenizer.encode(sentence, add_special_tokens=False)
        # at the word start nearest to the middle token, or at the middle character
        half = len(cut.ids) // 2
        begins = [i for i in range(1, len(cut.ids)) if cut.word_ids[i] != cut.word_ids[i - 1] and cut.offsets[i][0]]
        middle = cut.offsets[min(begins, key=lambda i: abs(i - half))][0] if begins else len(sentence) // 2
        halves = (sentence[:middle].strip(), sentence[middle:].strip())
        return tuple(piece for part in halves if part for piece in self.pieces(part))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text, [n, width]; every text must be one of ``pieces``."""
        with self._lock:
            if len(self._known) > VECTORS_KEPT:
                self._known.clear()
            missing = [text for text in dict.fromkeys(texts) if text not in self._known]
            if missing:
                self._known.update(zip(missing, self._encoder.encode(missing), strict=True))
            return np.array([self._known[text] for text in texts], dtype=np.float32)

    @cached_property
    def _encoder(self) -> Encoder:
        return self._load()


def default_embedder() -> SentenceEmbedder:
    """The model of ``bertscore`` without a name."""
    return named_embedder(DEFAULT_MODEL)


@cache
def named_embedder(name: str) -> SentenceEmbedder:
    """A model of the package sentence-transformers, by name or folder."""
    settings = {"model": name, "by": "sentence-transformers", "long": LONG}
    return SentenceEmbedder(lambda: LibraryEncoder(name), settings, EMBEDDINGS)


class LibraryEncoder:
    """A model loaded by sentence-transformers, which may download it first and decides on the device."""

    def __init__(self, name: str) -> None:
        library = EMBEDDINGS.load(f"bertscore[{name}]")
        try:
            self._model: Any = library.SentenceTransformer(name)
            # a copy: the package sets its own to truncate whenever it encodes
            fast = self._model.tokenizer.backend_tokenizer
            self.tokenizer = _whole(type(fast).from_str(fast.to_str()))
        except Exception as error:  # the package raises whatever its parts raise
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise PrerequisiteError(
                f"bertscore[{name}]: sentence-transformers cannot load this model ({line}). NAME must be a model on "
                "the Hugging Face hub, or a folder that the package saved, with a tokenizer.json"
            ) from error
        self.limit = int(self._model.max_seq_length or self._model.tokenizer.model_max_length)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        found = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)


def _whole(tokenizer: Any) -> Any:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
