"""A GGUF model as scorer and chat model: ``gguf:PATH``, and the embedded default.

The engine's files, two ONNX graphs and a tokenizer, are built once and cached; after that the model loads without
reading the GGUF again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from goldless.errors import PrerequisiteError
from goldless.models.cache import file_sha256, models_folder
from goldless.models.chat_layout import ChatLayout
from goldless.models.gguf.checkpoint import Architecture, FloatArray, GgufFile
from goldless.models.gguf.graph import Kernel, past_names, save_body, save_head
from goldless.models.interface import ChatReply, ChatRequest, ModelIdentity, content_hash
from goldless.models.local_engine import HEAD_ELEMENTS, LocalEngine
from goldless.models.local_model import LoadedModel, LocalModel
from goldless.models.tokens import TextTokenizer
from goldless.models.turn_signs import is_control

if TYPE_CHECKING:
    from goldless.records import CallFailure

FORMAT = 3
"""Increased whenever the graphs change what they compute or how they are called."""
LARGEST_FLOAT32 = 300_000_000
"""Models with more weights keep the file's blocks: a quarter of the memory, about a quarter slower."""
CALL_TOKENS = 384
BLOCKED = np.float32(-1e30)
"""Added to the score of a position that must not be seen."""

Past = list[FloatArray]
"""Keys and values of a path, layer by layer: [key-value heads, tokens, head size]."""


class GgufModel(LocalModel):
    """A model in a GGUF file, computed on the CPU."""

    def __init__(
        self,
        locate: Path | Callable[[], Path],
        *,
        provider: str = "gguf",
        name: str | None = None,
        kernel: Kernel | None = None,
        too_small_to_write: bool = False,
    ) -> None:
        """``locate`` is the file, or a function that returns it when first needed."""
        super().__init__()
        self._locate = locate
        self._provider, self._name, self._kernel = provider, name, kernel
        self._too_small_to_write = too_small_to_write

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """A written text, or the most likely of the given answers; warns once if the model is too small for that."""
        if self._too_small_to_write:
            self._too_small_to_write = False
            warnings.warn(
                f"{self._name} is a small model: it can score given texts, but is not suitable for rewriting or "
                "judging. Use a larger model for that (openai:MODEL, http://HOST:PORT/v1#MODEL, gguf:PATH, "
                "hf:NAME_OR_PATH)",
                stacklevel=1,
            )
        return await super().chat(request)

    def _load(self) -> LoadedModel:
        path = self._locate if isinstance(self._locate, Path) else self._locate()
        return build_model(path, self._kernel, provider=self._provider, name=self._name)


# --- the engine's files --------------------------------------------------------------------------------------------


def build_model(
    path: Path, kernel: Kernel | None = None, *, provider: str = "gguf", name: str | None = None
) -> LoadedModel:
    """The model of a GGUF file; the engine's files are from the cache or built now."""
    sha256 = file_sha256(path)
    kernels: tuple[Kernel, ...] = (kernel,) if kernel else ("float32", "blocks")
    folders = {known: models_folder() / f"{sha256[:16]}-{known}-v{FORMAT}" for known in kernels}
    found = next((known for known in kernels if (folders[known] / "settings.json").exists()), None)
    if found is None:
        checkpoint = GgufFile(path)
        found = kernel or ("float32" if checkpoint.weights() <= LARGEST_FLOAT32 else "blocks")
        _build(checkpoint, folders[found], found)
    folder = folders[found]
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    tokenizer_text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    architecture = Architecture(**settings.pop("architecture"))
    tokenizer = TextTokenizer(Tokenizer.from_str(tokenizer_text), Tokenizer.from_str(tokenizer_text))
    layout = ChatLayout(tokenizer, **settings)
    return LoadedModel(
        identity=ModelIdentity(
            provider=provider,
            name=name or path.stem,
            revision=sha256,
            tokenizer=content_hash(tokenizer_text, layout.template),
            settings={"kernel": found, "layout": layout.name},
        ),
        layout=layout,
        context_length=architecture.context_length,
        stop=layout.stop_tokens(),
        engine=Engine(architecture, folder),
    )


def _build(checkpoint: GgufFile, folder: Path, kernel: Kernel) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # another process may build the same model now: each builds aside, the first rename wins
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".building-"))
    tokens = checkpoint.get("tokenizer.ggml.tokens")
    begin = checkpoint.get("tokenizer.ggml.bos_token_id")
    end = checkpoint.get("tokenizer.ggml.eos_token_id")
    spaced = checkpoint.get("tokenizer.ggml.model") == "llama"
    settings = {
        "architecture": asdict(checkpoint.architecture),
        "template": checkpoint.get("tokenizer.chat_template"),
        "begin": tokens[begin] if begin is not None else "",
        "end": tokens[end] if end is not None else "",
        "add_begin": bool(begin is not None and checkpoint.get("tokenizer.ggml.add_bos_token", spaced)),
    }
    try:
        _tokenizer(checkpoint).save(str(aside / "tokenizer.json"))
        save_body(checkpoint, aside / "body.onnx", kernel)
        save_head(checkpoint, aside / "head.onnx", kernel)
        (aside / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        if not folder.exists():
            aside.rename(folder)
    except OSError as error:
        if not (folder / "settings.json").exists():
            raise PrerequisiteError(
                f"cannot write the converted model to {folder} ({error}). Free some disk space, or set "
                "GOLDLESS_HOME to a folder on a larger disk"
            ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


class Engine(LocalEngine):
    """Computes with the graphs in a folder, on the CPU."""

    def __init__(self, architecture: Architecture, folder: Path) -> None:
        super().__init__(call_tokens=CALL_TOKENS)
        self.architecture = architecture
        self._folder = folder
        self._past_names = past_names(architecture)

    # weights are loaded when first needed: a run that finds everything in the journal needs none

    @cached_property
    def _body(self) -> Any:
        return self._session("body.onnx")

    @cached_property
    def _head(self) -> Any:
        return self._session("head.onnx")

    def _session(self, name: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = available_cores()
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # made for inputs of one shape; with ours it only keeps memory
        return onnxruntime.InferenceSession(self._folder / name, options, providers=["CPUExecutionProvider"])

    def _run(self, rows: Sequence[tuple[int, ...]], past: Past | None) -> tuple[FloatArray, Callable[[int], Past]]:
        if past is None:
            shape = (self.architecture.key_value_heads, 0, self.architecture.head_size)
            past = [np.zeros(shape, np.float32) for _ in self._past_names]
        lengths, before = np.asarray([len(row) for row in rows]), past[0].shape[1]
        column = np.arange(lengths.max())
        inside = column[None, :] < lengths[:, None]
        ends = np.cumsum(lengths)
        # padding is at the end of a row, so hiding the future keeps it out of every real position
        mask = np.where(np.arange(before + len(column)) > before + column[:, None], BLOCKED, np.float32(0))
        feed: dict[str, Any] = {
            "ids": np.concatenate([np.asarray(row, np.int64) for row in rows]),
            "positions": np.concatenate([np.arange(before, before + length, dtype=np.int64) for length in lengths]),
            "rows": np.where(inside, (ends - lengths)[:, None] + column[None, :], 0).astype(np.int64),
            "places": np.flatnonzero(inside).astype(np.int64),
            "mask": np.broadcast_to(mask, (len(rows), *mask.shape)),
            **{f"past_{name}": array for name, array in zip(self._past_names, past, strict=True)},
        }
        hidden, *new = self._body.run(None, feed)

        def extended(row: int) -> Past:
            own = slice(ends[row] - lengths[row], ends[row])
            return [
                np.concatenate([old, fresh[own].transpose(1, 0, 2)], axis=1)
                for old, fresh in zip(past, new, strict=True)
            ]

        return hidden, extended

    def _chosen(self, states: FloatArray, tokens: Sequence[int]) -> Iterator[float]:
        targets, size = np.asarray(tokens, np.int64), max(1, HEAD_ELEMENTS // self.architecture.vocabulary)
        for begin in range(0, len(targets), size):
            feed = {"hidden": states[begin : begin + size], "targets": targets[begin : begin + size]}
            yield from self._head.run(["chosen"], feed)[0]

    def _logprobs(self, state: FloatArray) -> FloatArray:
        feed = {"hidden": state, "targets": np.zeros(1, np.int64)}
        logits, normaliser = self._head.run(["logits", "normaliser"], feed)
        logprobs: FloatArray = (logits - normaliser)[0]
        return logprobs


def available_cores() -> int:
    """Cores this process may use; OMP_NUM_THREADS limits them, as Ray and batch systems set it for their workers."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- the tokenizer ------------------------------------------------------------------------------------------------

CONTROL, USER_DEFINED = 3, 4
"""GGUF token types. User-defined tokens are whole words of the vocabulary (runs of spaces, tags), found in any text."""
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_WORDS = QWEN_WORDS.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
"""Word patterns the two tokenizers were trained with (published in their tokenizer files)."""


def _bytes(*, words: bool) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words)


def _split(pattern: str) -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), _bytes(words=False)])


PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "default": lambda: _bytes(words=True),
    "gpt-2": lambda: _bytes(words=True),
    "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _bytes(words=True)]),
    "qwen2": lambda: _split(QWEN_WORDS),
    "llama-bpe": lambda: _split(LLAMA3_WORDS),
}


def _tokenizer(checkpoint: GgufFile) -> Tokenizer:
    kind = checkpoint.get("tokenizer.ggml.model")
    tokens: list[str] = checkpoint.get("tokenizer.ggml.tokens")
    types: list[int] = checkpoint.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    if kind == "gpt2":
        tokenizer = _byte_level(checkpoint, tokens)
    elif kind == "llama":
        tokenizer = _sentencepiece(checkpoint, tokens)
    else:
        raise checkpoint.unsupported(f"tokenizer {kind!r} (supported: gpt2, llama)")
    template = checkpoint.get("tokenizer.chat_template") or ""
    control: list[str] = []
    words: list[str] = []
    for token, type_ in zip(tokens, types, strict=True):
        if type_ in {CONTROL, USER_DEFINED}:
            spaced = token.replace("▁", " ")  # SentencePiece's spaces
            (control if is_control(spaced, template, special=type_ == CONTROL) else words).append(token)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in words])
    return tokenizer


def _byte_level(checkpoint: GgufFile, tokens: list[str]) -> Tokenizer:
    name = checkpoint.get("tokenizer.ggml.pre", "default")
    if name not in PRE_TOKENIZERS:
        raise checkpoint.unsupported(f"pre-tokenizer {name!r} (supported: {', '.join(PRE_TOKENIZERS)})")
    merges = [tuple(merge.split(" ", 1)) for merge in checkpoint.get("tokenizer.ggml.merges")]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[name]()
    tokenizer.decoder = decoders.ByteLevel()
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _sentencepiece(checkpoint: GgufFile, tokens: list[str]) -> Tokenizer:
    """SentencePiece's pair merging: the pair whose union has the best score merges first."""
    scores: list[float] = checkpoint.get("tokenizer.ggml.scores")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    merges = [
        (-scores[i], i, piece[:cut], piece[cut:])
        for piece, i in vocabulary.items()
        for cut in range(1, len(piece))
        if piece[:cut] in vocabulary and piece[cut:] in vocabulary
    ]
    merges.sort(key=lambda m: (m[0], m[1], len(m[2])))
    unknown = tokens[checkpoint.get("tokenizer.ggml.unknown_token_id", 0)]
    model = models.BPE(
        vocabulary,
        [(left, right) for _, _, left, right in merges],
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    prepend = [normalizers.Prepend("▁")] if checkpoint.get("tokenizer.ggml.add_space_prefix", True) else []
    tokenizer.normalizer = normalizers.Sequence([*prepend, normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer
