"""A GGUF file: the architecture's numbers and the weights that the engine needs.

Four-bit weights can stay as they are: onnxruntime's block-quantised matrix product represents them exactly
(``value = scale * (code - zero)`` over blocks along the input dimension). Others are expanded to float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from goldless.errors import CapabilityError, UserError

FloatArray = npt.NDArray[np.float32]
ByteArray = npt.NDArray[np.uint8]

ARCHITECTURES = ("llama", "qwen2")
BLOCK = 32
LAYER_PARTS = (
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
    *("ffn_norm", "ffn_gate", "ffn_up", "ffn_down"),
)


@dataclass(frozen=True, slots=True)
class Architecture:
    """The numbers that shape a decoder-only transformer."""

    name: str
    layers: int
    width: int
    heads: int
    key_value_heads: int
    head_size: int
    context_length: int
    norm_epsilon: float
    rope_base: float
    rope_half_split: bool
    """Whether the file's query and key rows are already in half-split order."""
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """A weight matrix [outputs, inputs] as 4-bit codes with a scale and a zero point per block of 32 inputs."""

    codes: ByteArray
    """[outputs, blocks, 16]; two codes per byte, low half first."""
    scales: FloatArray
    """[outputs, blocks]"""
    zeros: FloatArray | None
    """[outputs, blocks]; None: 8 everywhere."""

    def expand(self) -> FloatArray:
        codes = np.stack([self.codes & 0x0F, self.codes >> 4], axis=-1).reshape(*self.codes.shape[:2], -1)
        zeros = np.float32(8) if self.zeros is None else self.zeros[..., None]
        values = (codes.astype(np.float32) - zeros) * self.scales[..., None]
        return values.reshape(values.shape[0], -1)


class Checkpoint:
    """A GGUF file: ``metadata``, ``architecture``, and weights by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = GGUFReader(path)
        except (ValueError, OSError, IndexError) as error:
            raise UserError(
                f"{path}: not a readable GGUF file ({error}). Give the path of a .gguf file; join the parts of a "
                "split file first"
            ) from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.architecture = self._architecture()
        self._refuse_unknown_quantisation()
        self._refuse_other_layers()

    def get(self, key: str, default: Any = None) -> Any:
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def dense(self, name: str) -> FloatArray:
        """A tensor in float32, rows first."""
        tensor = self._tensors[name]
        return np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)

    def matrix(self, name: str) -> Blocks | FloatArray:
        """A weight matrix [outputs, inputs] in the file's own blocks if possible, otherwise in float32."""
        tensor = self._tensors[name]
        unpack = UNPACKERS.get(tensor.tensor_type)
        return self.dense(name) if unpack is None else unpack(np.asarray(tensor.data))

    def weights(self) -> int:
        return sum(int(tensor.n_elements) for tensor in self._tensors.values())

    def _architecture(self) -> Architecture:
        name = self.get("general.architecture")
        if name not in ARCHITECTURES:
            raise CapabilityError(
                f"{self.path}: unsupported architecture {name!r} (supported: {', '.join(ARCHITECTURES)}). Load the "
                "original weights with hf:NAME_OR_PATH, or serve the model with vLLM or SGLang and use "
                "http://HOST:PORT/v1#MODEL"
            )

        def number(key: str, default: Any = None) -> Any:
            return self.get(f"{name}.{key}", default)

        width, heads = number("embedding_length"), number("attention.head_count")
        return Architecture(
            name=name,
            layers=number("block_count"),
            width=width,
            heads=heads,
            key_value_heads=number("attention.head_count_kv", heads),
            head_size=number("attention.key_length") or width // heads,
            context_length=number("context_length"),
            norm_epsilon=float(number("attention.layer_norm_rms_epsilon", 1e-6)),
            rope_base=float(number("rope.freq_base", 10000.0)),
            rope_half_split=name != "llama",
            vocabulary=len(self.get("tokenizer.ggml.tokens") or ()),
        )

    def _refuse_unknown_quantisation(self) -> None:
        unknown = set()
        for tensor in self._tensors.values():
            try:
                dequantize(tensor.data[:1], tensor.tensor_type)
            except NotImplementedError:
                unknown.add(tensor.tensor_type.name)
        scaling = self.get(f"{self.architecture.name}.rope.scaling.type")
        if unknown:
            raise CapabilityError(
                f"{self.path}: unsupported quantisation {', '.join(sorted(unknown))}. Use a file in Q4_0, Q4_1, "
                "Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, F16, BF16 or F32, or the original weights with "
                "hf:NAME_OR_PATH"
            )
        if scaling not in {None, "none"} and "rope_freqs.weight" not in self:
            raise CapabilityError(f"{self.path}: unsupported rope scaling {scaling!r}. Use hf:NAME_OR_PATH instead")

    def _refuse_other_layers(self) -> None:
        """Reject a file that names a known architecture but has other layers, such as mixtures of experts."""
        layers = [f"blk.{i}." for i in range(self.architecture.layers)]
        needed = ["token_embd.weight", *(f"{layer}{part}.weight" for layer in layers for part in LAYER_PARTS)]
        needed.append("output_norm.weight")
        optional = {"output.weight", "rope_freqs.weight"}
        optional.update(f"{layer}attn_{part}.bias" for layer in layers for part in "qkv")
        missing = [name for name in needed if name not in self]
        unknown = sorted(self._tensors.keys() - optional.union(needed))
        if missing or unknown:
            what = f"no tensor {missing[0]}" if missing else f"a tensor {unknown[0]}"
            raise CapabilityError(
                f"{self.path}: {what} ({len(missing)} expected tensors are missing, {len(unknown)} are unknown), so "
                "its layers are not supported. Use hf:NAME_OR_PATH, or a server, for this model"
            )


def _half(raw: ByteArray, start: int, count: int = 1) -> FloatArray:
    """Float16 numbers inside blocks of bytes, as float32: [rows, blocks, count]."""
    return np.ascontiguousarray(raw[..., start : start + 2 * count]).view(np.float16).astype(np.float32)


def _q4_0(data: ByteArray) -> Blocks:
    raw = data.reshape(data.shape[0], -1, 18)
    scales = _half(raw, 0)[..., 0]
    return Blocks(_pair_neighbours(raw[..., 2:]), scales, None)


def _q4_1(data: ByteArray) -> Blocks:
    raw = data.reshape(data.shape[0], -1, 20)
    return _with_minimum(_pair_neighbours(raw[..., 4:]), _half(raw, 0)[..., 0], -_half(raw, 2)[..., 0])


def _q4_k(data: ByteArray) -> Blocks:
    rows = data.shape[0]
    raw = data.reshape(rows, -1, 144)
    # scales and minima of the eight 32-weight blocks in each 256-weight super-block
    low, middle, high = raw[..., 4:8], raw[..., 8:12], raw[..., 12:16]
    scales = np.concatenate([low & 0x3F, (high & 0x0F) | ((low >> 2) & 0x30)], axis=-1)
    minima = np.concatenate([middle & 0x3F, (high >> 4) | ((middle >> 2) & 0x30)], axis=-1)
    # 64 weights share 32 bytes: low halves are the first 32 weights, high halves the next
    packed = raw[..., 16:].reshape(rows, -1, 4, 1, 32)
    codes = np.concatenate([packed & 0x0F, packed >> 4], axis=3).reshape(rows, -1, 32)
    of_blocks = (_half(raw, 0) * scales).reshape(rows, -1), (_half(raw, 2) * minima).reshape(rows, -1)
    return _with_minimum(_pack(codes), *of_blocks)


def _with_minimum(codes: ByteArray, scales: FloatArray, minima: FloatArray) -> Blocks:
    """Blocks whose value is ``scale * code - minimum``.

    A block of scale zero is constant: it becomes code 0 everywhere under scale 1.
    """
    constant = scales == 0
    codes = np.where(constant[..., None], np.uint8(0), codes)
    scales = np.where(constant, np.float32(1), scales)
    return Blocks(codes, scales, (minima / scales).astype(np.float32))


def _pair_neighbours(nibbles: ByteArray) -> ByteArray:
    """From (weight i, weight i + 16) per byte, as GGUF packs them, to (weight 2i, weight 2i + 1)."""
    return _pack(np.concatenate([nibbles & 0x0F, nibbles >> 4], axis=-1))


def _pack(codes: ByteArray) -> ByteArray:
    return codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))


UNPACKERS = {
    GGMLQuantizationType.Q4_0: _q4_0,
    GGMLQuantizationType.Q4_1: _q4_1,
    GGMLQuantizationType.Q4_K: _q4_k,
}
