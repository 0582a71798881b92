"""Tokenizer of a GGUF file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from goldless.errors import CapabilityError
from goldless.models.turn_signs import is_control

if TYPE_CHECKING:
    from goldless.models.gguf.checkpoint import Checkpoint

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


def build_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The file's tokenizer."""
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
