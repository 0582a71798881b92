"""Any model of the package sentence-transformers, by name or folder: an optional extra, since it needs torch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from goldless.errors import PrerequisiteError
from goldless.models.sentence_embedding.bert_graph import FloatArray

INSTALL = "pip install 'goldless[embeddings]'"


class LibraryEncoder:
    """A model loaded by sentence-transformers; the package decides on the device."""

    def __init__(self, name: str) -> None:
        """Loads the model, which the package may download first."""
        try:
            library = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise PrerequisiteError(
                f"bertscore[{name}] needs the package sentence-transformers, which cannot be imported ({error}): "
                f"{INSTALL}. bertscore alone needs nothing more."
            ) from error
        try:
            self._model: Any = library.SentenceTransformer(name)
        except Exception as error:  # the package raises whatever its parts raise
            raise PrerequisiteError(
                f"bertscore[{name}]: sentence-transformers cannot load this model ({_first_line(error)}). NAME is a "
                "model on the Hugging Face hub or a folder that the package saved."
            ) from error
        self.tokenizer = self._fast_tokenizer(name)
        self.limit = int(self._model.max_seq_length or self._model.tokenizer.model_max_length)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One vector of length 1 a text, none of which is longer than the limit."""
        found = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)

    def _fast_tokenizer(self, name: str) -> Any:
        """The tokenizer that tells where in the text each token stands, set to cut and fill nothing.

        A copy: the package sets its own to cut whenever it encodes.
        """
        fast = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise PrerequisiteError(
                f"bertscore[{name}]: this model has no fast tokenizer, so long sentences cannot be cut where a word "
                "ends. Use a model that has a tokenizer.json."
            )
        copy = type(fast).from_str(fast.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
