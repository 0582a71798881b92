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


class GgufFile:
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
        four_bits = tensor.tensor_type in FOUR_BITS
        return _blocks(np.asarray(tensor.data), tensor.tensor_type) if four_bits else self.dense(name)

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


def _blocks(data: ByteArray, kind: GGMLQuantizationType) -> Blocks:
    """The blocks of a four-bit tensor: what gguf reads where all codes are the same tells scales and zero points."""
    size, codes_at, minimum_at = FOUR_BITS[kind]

    def read(code: int | None = None, *, minimum: bool = False) -> FloatArray:
        raw = data.reshape(data.shape[0], -1, size).copy()
        if code is not None:
            raw[..., codes_at] = code * 0x11
        if not minimum:
            raw[..., minimum_at] = 0
        values: FloatArray = dequantize(raw.reshape(data.shape), kind).reshape(data.shape[0], -1, BLOCK)
        return values

    eight = read(8)
    scales = (read(9) - eight)[..., :1]  # exact: codes and scales have few bits
    safe = np.where(scales == 0, np.float32(1), scales)
    codes = (np.rint((read() - eight) / safe) + 8).astype(np.uint8)
    zeros = None
    if kind != GGMLQuantizationType.Q4_0:
        codes[scales[..., 0] == 0] = 0  # a constant block is its minimum
        zeros = (-read(0, minimum=True)[..., 0] / safe[..., 0]).astype(np.float32)
    return Blocks(codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4)), safe[..., 0], zeros)


FOUR_BITS = {
    GGMLQuantizationType.Q4_0: (18, slice(2, 18), slice(0)),
    GGMLQuantizationType.Q4_1: (20, slice(4, 20), slice(2, 4)),
    GGMLQuantizationType.Q4_K: (144, slice(16, 144), slice(2, 4)),
}
"""Formats that stay as they are: bytes of a block, and where its codes and its minimum are."""
