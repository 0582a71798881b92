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
    """A GGUF file: metadata by key, ``architecture``, and weights by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._reader = GGUFReader(path)
        except (ValueError, OSError, IndexError) as error:
            raise UserError(
                f"{path}: not a readable GGUF file ({error}). Give the path of a .gguf file; join the parts of a "
                "split file first"
            ) from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        name = self.get("general.architecture")
        if name not in ARCHITECTURES:
            raise self.unsupported(f"architecture {name!r} (supported: {', '.join(ARCHITECTURES)})")

        def number(key: str, default: Any = None) -> Any:
            return self.get(f"{name}.{key}", default)

        width, heads = number("embedding_length"), number("attention.head_count")
        self.architecture = Architecture(
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
        scaling = number("rope.scaling.type")
        if scaling not in {None, "none"} and "rope_freqs.weight" not in self:
            raise self.unsupported(f"rope scaling {scaling!r}")
        self._check_tensors()

    def unsupported(self, what: str) -> CapabilityError:
        """The error of a file that the engine cannot compute exactly."""
        return CapabilityError(
            f"{self._path}: unsupported {what}. Load the original weights with hf:NAME_OR_PATH, or serve the model "
            "with vLLM or SGLang and use http://HOST:PORT/v1#MODEL"
        )

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

    def _check_tensors(self) -> None:
        """Reject quantisations that cannot be read, and layers of another kind, such as mixtures of experts."""
        for tensor in self._tensors.values():
            try:
                dequantize(tensor.data[:1], tensor.tensor_type)
            except NotImplementedError:
                kind = tensor.tensor_type.name
                raise self.unsupported(f"quantisation {kind} (supported: Q4 to Q8, F16, BF16, F32)") from None
        layers = [f"blk.{i}." for i in range(self.architecture.layers)]
        needed = {"token_embd.weight", "output_norm.weight"}
        needed.update(f"{layer}{part}.weight" for layer in layers for part in LAYER_PARTS)
        known = needed | {"output.weight", "rope_freqs.weight"}
        known.update(f"{layer}attn_{part}.bias" for layer in layers for part in "qkv")
        missing, unknown = sorted(needed - self._tensors.keys()), sorted(self._tensors.keys() - known)
        if missing or unknown:
            first = f"there is no tensor {missing[0]}" if missing else f"there is a tensor {unknown[0]}"
            raise self.unsupported(f"layers: {first} ({len(missing)} tensors are missing, {len(unknown)} are unknown)")


# --- four-bit formats --------------------------------------------------------------------------------------------


def _half(raw: ByteArray, start: int) -> FloatArray:
    """The float16 number at a byte of every block, as float32: [rows, blocks]."""
    return np.ascontiguousarray(raw[..., start : start + 2]).view(np.float16).astype(np.float32)[..., 0]


def _q4_0(data: ByteArray) -> Blocks:
    raw = data.reshape(data.shape[0], -1, 18)
    return Blocks(_pack(_halves(raw[..., 2:])), _half(raw, 0), None)


def _q4_1(data: ByteArray) -> Blocks:
    raw = data.reshape(data.shape[0], -1, 20)
    return _with_minimum(_halves(raw[..., 4:]), _half(raw, 0), -_half(raw, 2))


def _q4_k(data: ByteArray) -> Blocks:
    rows = data.shape[0]
    raw = data.reshape(rows, -1, 144)
    # scales and minima of the eight 32-weight blocks in each 256-weight super-block
    low, middle, high = raw[..., 4:8], raw[..., 8:12], raw[..., 12:16]
    scales = np.concatenate([low & 0x3F, (high & 0x0F) | ((low >> 2) & 0x30)], axis=-1)
    minima = np.concatenate([middle & 0x3F, (high >> 4) | ((middle >> 2) & 0x30)], axis=-1)
    # 64 weights share 32 bytes: low halves are the first 32 weights, high halves the next
    codes = _halves(raw[..., 16:].reshape(rows, -1, 32)).reshape(rows, -1, BLOCK)
    of_blocks = ((_half(raw, at)[..., None] * part).reshape(rows, -1) for at, part in ((0, scales), (2, minima)))
    return _with_minimum(codes, *of_blocks)


def _with_minimum(codes: ByteArray, scales: FloatArray, minima: FloatArray) -> Blocks:
    """Blocks whose value is ``scale * code - minimum``.

    A block of scale zero is constant: it becomes code 0 everywhere under scale 1.
    """
    constant = scales == 0
    codes = np.where(constant[..., None], np.uint8(0), codes)
    scales = np.where(constant, np.float32(1), scales)
    return Blocks(_pack(codes), scales, (minima / scales).astype(np.float32))


def _halves(packed: ByteArray) -> ByteArray:
    """The codes in the low halves of a block's bytes, then those in the high halves: GGUF's order."""
    return np.concatenate([packed & 0x0F, packed >> 4], axis=-1)


def _pack(codes: ByteArray) -> ByteArray:
    """Two neighbouring codes per byte: onnxruntime's order."""
    return codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))


UNPACKERS = {
    GGMLQuantizationType.Q4_0: _q4_0,
    GGMLQuantizationType.Q4_1: _q4_1,
    GGMLQuantizationType.Q4_K: _q4_k,
}
