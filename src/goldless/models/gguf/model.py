"""A GGUF model as scorer and chat model: ``gguf:PATH``, and the embedded default.

The engine's files are built once and cached; after that the model loads without reading the GGUF again.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.cache import file_sha256, models_folder
from goldless.models.chat_layout import ChatLayout
from goldless.models.gguf.checkpoint import Architecture, Checkpoint
from goldless.models.gguf.engine import Engine
from goldless.models.gguf.graph import Kernel, save_body, save_head
from goldless.models.interface import ChatReply, ChatRequest, ModelIdentity, content_hash
from goldless.models.local_model import LoadedModel, LocalModel
from goldless.models.tokens import TextTokenizer
from goldless.models.turn_signs import is_control

if TYPE_CHECKING:
    from goldless.records import CallFailure

FORMAT = 3
"""Increased whenever the graphs change what they compute or how they are called."""
LARGEST_FLOAT32 = 300_000_000
"""Models with more weights keep the file's blocks: a quarter of the memory, about a quarter slower."""


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
        self._provider = provider
        self._name = name
        self._kernel = kernel
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
        built = build_model(path, self._kernel)
        self._name = self._name or path.stem
        identity = ModelIdentity(
            provider=self._provider,
            name=self._name,
            revision=built.sha256,
            tokenizer=built.tokenizer_hash,
            settings={"kernel": built.kernel, "layout": built.layout.name},
        )
        return LoadedModel(
            identity=identity,
            layout=built.layout,
            context_length=built.architecture.context_length,
            stop=built.layout.stop_tokens(),
            engine=Engine(built.architecture, built.folder),
        )


# --- the engine's files --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A model ready for the engine."""

    folder: Path
    sha256: str
    """Hash of the GGUF file."""
    architecture: Architecture
    layout: ChatLayout
    kernel: Kernel
    tokenizer_hash: str
    """Hash of tokenizer and chat template."""


def build_model(path: Path, kernel: Kernel | None = None) -> BuiltModel:
    """The engine's files for a GGUF file, from the cache or built now."""
    sha256 = file_sha256(path)
    kernels: tuple[Kernel, ...] = (kernel,) if kernel else ("float32", "blocks")
    folders = {known: models_folder() / f"{sha256[:16]}-{known}-v{FORMAT}" for known in kernels}
    for known, folder in folders.items():
        if (folder / "settings.json").exists():
            return _load(folder, sha256, known)
    checkpoint = Checkpoint(path)
    chosen: Kernel = kernel or ("float32" if checkpoint.weights() <= LARGEST_FLOAT32 else "blocks")
    folder = folders[chosen]
    folder.parent.mkdir(parents=True, exist_ok=True)
    # another process may build the same model now: each builds aside, the first rename wins
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".building-"))
    try:
        _write(checkpoint, aside, chosen)
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
    return _load(folder, sha256, chosen)


def _write(checkpoint: Checkpoint, folder: Path, kernel: Kernel) -> None:
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
    _tokenizer(checkpoint).save(str(folder / "tokenizer.json"))
    save_body(checkpoint, folder / "body.onnx", kernel)
    save_head(checkpoint, folder / "head.onnx", kernel)
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def _load(folder: Path, sha256: str, kernel: Kernel) -> BuiltModel:
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    tokenizer_text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    architecture = Architecture(**settings.pop("architecture"))
    tokenizer = TextTokenizer(Tokenizer.from_str(tokenizer_text), Tokenizer.from_str(tokenizer_text))
    layout = ChatLayout(tokenizer, **settings)
    digest = content_hash(tokenizer_text, layout.template)
    return BuiltModel(folder, sha256, architecture, layout, kernel, tokenizer_hash=digest)


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


def _tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    kind = checkpoint.get("tokenizer.ggml.model")
    tokens: list[str] = checkpoint.get("tokenizer.ggml.tokens")
    types: list[int] = checkpoint.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    if kind == "gpt2":
        tokenizer = _byte_level(checkpoint, tokens)
    elif kind == "llama":
        tokenizer = _sentencepiece(checkpoint, tokens)
    else:
        raise CapabilityError(
            f"{checkpoint.path}: unsupported tokenizer {kind!r} (supported: gpt2, llama). Load the original "
            "weights with hf:NAME_OR_PATH instead"
        )
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


def _byte_level(checkpoint: Checkpoint, tokens: list[str]) -> Tokenizer:
    name = checkpoint.get("tokenizer.ggml.pre", "default")
    if name not in PRE_TOKENIZERS:
        raise CapabilityError(
            f"{checkpoint.path}: unsupported pre-tokenizer {name!r} (supported: {', '.join(PRE_TOKENIZERS)}). Load "
            "the original weights with hf:NAME_OR_PATH instead"
        )
    merges = [tuple(merge.split(" ", 1)) for merge in checkpoint.get("tokenizer.ggml.merges")]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[name]()
    tokenizer.decoder = decoders.ByteLevel()
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _sentencepiece(checkpoint: Checkpoint, tokens: list[str]) -> Tokenizer:
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
