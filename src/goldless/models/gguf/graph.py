"""ONNX graphs of a decoder-only transformer, built from a checkpoint's weights.

Two graphs. The *body* takes new tokens and the keys and values of the path above them, under any mask, and gives the
final hidden states and the new keys and values. The *head* turns chosen hidden states into log-probabilities. Kept
apart, the head runs on scored positions only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from goldless.models.gguf.checkpoint import BLOCK, Architecture, Blocks, FloatArray, GgufFile

Kernel = Literal["float32", "blocks"]
"""How matrix products run: on weights expanded to float32, or on the file's own 4-bit blocks in float32 arithmetic."""
Shapes = Mapping[str, Sequence[int | str]]
"""Arrays by name; a dimension of any size is a letter."""

OPSET = 21
SMALL_WEIGHT = 1024
"""Weights below this many bytes are in the graph itself."""
PAGE = 4096
"""Larger weights start on a new page, so that the runtime can map the file."""
VOCABULARY_BLOCK = 256
"""Logits summed per block."""
NO_LOGIT = -1e30
"""Padding for the logits missing from the last block."""
FLOAT32_ARITHMETIC = 1
"""The accuracy level of MatMulNBits that does not round activations."""


class GraphBuilder:
    """Nodes and weights of one graph, added step by step. Each method returns the name of what it computed."""

    def __init__(self, path: Path, kernel: Kernel) -> None:
        """Weights are written to a file beside ``path`` one by one: the whole model is never in memory."""
        self.kernel = kernel
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._path = path
        self._data = path.with_suffix(".data").open("wb")

    def op(self, kind: str, *inputs: str, domain: str = "", name: str | None = None, **attributes: Any) -> str:
        name = name or f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        return self.weight(np.asarray(value, dtype=dtype))

    def weight(self, array: np.ndarray[Any, Any]) -> str:
        name = f"w{len(self._weights)}"
        if array.nbytes < SMALL_WEIGHT:
            self._weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            return name
        self._data.seek(-(-self._data.tell() // PAGE) * PAGE)
        tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        where = {"location": self._path.with_suffix(".data").name, "offset": self._data.tell(), "length": array.nbytes}
        for key, value in where.items():
            tensor.external_data.add(key=key, value=str(value))
        np.ascontiguousarray(array).tofile(self._data)
        self._weights.append(tensor)
        return name

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(shape))

    def linear(self, x: str, matrix: Blocks | FloatArray, bias: FloatArray | None = None) -> str:
        """X times the transpose of a weight matrix [outputs, inputs], plus a bias."""
        if isinstance(matrix, Blocks) and self.kernel == "blocks":
            rows, blocks, _ = matrix.codes.shape
            parts = [self.weight(part) for part in (matrix.codes, matrix.scales, matrix.zeros) if part is not None]
            form = {"K": blocks * BLOCK, "N": rows, "bits": 4, "block_size": BLOCK}
            form["accuracy_level"] = FLOAT32_ARITHMETIC
            out = self.op("MatMulNBits", x, *parts, domain="com.microsoft", **form)
        else:
            dense = matrix.expand() if isinstance(matrix, Blocks) else matrix
            out = self.op("MatMul", x, self.weight(dense.T))
        return out if bias is None else self.op("Add", out, self.weight(bias))

    def norm(self, x: str, gain: FloatArray, epsilon: float, name: str | None = None) -> str:
        return self.op("SimplifiedLayerNormalization", x, self.weight(gain), name=name, axis=-1, epsilon=epsilon)

    def save(self, *, integers: Shapes, floats: Shapes, outputs: Shapes) -> None:
        """Write the graph from its inputs to its outputs, which are names given to ``op``."""
        self._data.close()
        value = helper.make_tensor_value_info
        inputs = [value(name, TensorProto.INT64, shape) for name, shape in integers.items()]
        inputs += [value(name, TensorProto.FLOAT, shape) for name, shape in floats.items()]
        found = [value(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self._nodes, "goldless", inputs, found, initializer=self._weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        self._path.write_bytes(model.SerializeToString())


def save_body(checkpoint: GgufFile, path: Path, kernel: Kernel) -> None:
    """Write the body graph.

    New tokens are packed, one after the other: ``ids`` and ``positions`` [n]. For attention alone they are laid out
    as ``rows`` [b, l] of indices into them, one row per sequence, padded at the end; ``places`` [n] maps back from the
    flattened rows. Every row sees the whole past, as far as ``mask`` [b, l, p + l] allows.
    """
    arch, g = checkpoint.architecture, GraphBuilder(path, kernel)
    x = g.op("Gather", g.weight(checkpoint.dense("token_embd.weight")), "ids")
    count = g.op("Squeeze", g.op("Shape", "ids"))
    order = g.op("Unsqueeze", g.op("Range", g.constant(0), count, g.constant(1)), g.constant([0]))
    mask = g.op("Unsqueeze", "mask", g.constant([1, 2]))
    shared = (mask, order, *_rotation(g, checkpoint))
    for layer in range(arch.layers):
        x = _layer(g, checkpoint, layer, x, shared)
    g.norm(x, checkpoint.dense("output_norm.weight"), arch.norm_epsilon, name="hidden")
    heads, size, past = arch.key_value_heads, arch.head_size, past_names(arch)
    g.save(
        integers={"ids": ["n"], "positions": ["n"], "places": ["n"], "rows": ["b", "l"]},
        floats={"mask": ["b", "l", "t"], **{f"past_{name}": [heads, "p", size] for name in past}},
        outputs={"hidden": ["n", arch.width], **{name: ["n", heads, size] for name in past}},
    )


def save_head(checkpoint: GgufFile, path: Path, kernel: Kernel) -> None:
    """Write the head graph: hidden states [n, width] and targets [n] → log p of the targets.

    Beside it the logits and their normaliser [n, 1]: log p of everything is their difference.
    """
    arch, g = checkpoint.architecture, GraphBuilder(path, kernel)
    name = "output.weight" if "output.weight" in checkpoint else "token_embd.weight"
    logits = g.op("Identity", g.linear("hidden", checkpoint.matrix(name)), name="logits")
    normaliser = log_sum_exp(g, logits, arch.vocabulary, name="normaliser")
    of_targets = g.op("GatherElements", logits, g.op("Unsqueeze", "targets", g.constant([1])), axis=1)
    g.op("Squeeze", g.op("Sub", of_targets, normaliser), g.constant([1]), name="chosen")
    g.save(
        integers={"targets": ["n"]},
        floats={"hidden": ["n", arch.width]},
        outputs={"logits": ["n", arch.vocabulary], "normaliser": ["n", 1], "chosen": ["n"]},
    )


def log_sum_exp(g: GraphBuilder, logits: str, vocabulary: int, *, name: str) -> str:
    """Log of the sum of exponentials of each row [n, vocabulary] → [n, 1], block by block.

    LogSoftmax over a whole row adds tens of thousands of float32 numbers one after the other, in 4 to 16 partial sums
    by processor. What is small beside a sum is lost from it, so every log-probability came out too high, on arm64 most.
    """
    missing = -vocabulary % VOCABULARY_BLOCK
    if missing:
        logits = g.op("Pad", logits, g.constant([0, 0, 0, missing]), g.constant(NO_LOGIT, np.float32))
    blocks = g.reshape(logits, 0, -1, VOCABULARY_BLOCK)
    within = g.op("LogSoftmax", blocks, axis=-1)
    first = [g.op("Slice", x, g.constant([0]), g.constant([1]), g.constant([-1])) for x in (blocks, within)]
    of_blocks = g.op("Squeeze", g.op("Sub", *first), g.constant([-1]))
    top = g.op("ReduceMax", of_blocks, g.constant([1]), keepdims=1)
    total = g.op("ReduceSum", g.op("Exp", g.op("Sub", of_blocks, top)), g.constant([1]), keepdims=1)
    return g.op("Add", top, g.op("Log", total), name=name)


def _rotation(g: GraphBuilder, checkpoint: GgufFile) -> tuple[str, str]:
    """Cosine and sine of the rotary angles: [n, head_size / 2] each."""
    arch = checkpoint.architecture
    exponents = np.arange(0, arch.head_size, 2, dtype=np.float64) / arch.head_size
    frequencies = arch.rope_base**-exponents
    if "rope_freqs.weight" in checkpoint:
        frequencies = frequencies / checkpoint.dense("rope_freqs.weight").astype(np.float64)
    positions = g.op("Unsqueeze", g.op("Cast", "positions", to=TensorProto.FLOAT), g.constant([1]))
    angles = g.op("Mul", positions, g.weight(frequencies.astype(np.float32)[None, :]))
    return g.op("Cos", angles), g.op("Sin", angles)


def _layer(g: GraphBuilder, checkpoint: GgufFile, layer: int, x: str, shared: Sequence[str]) -> str:
    """One transformer layer: attention and feed-forward, each around a residual."""
    prefix, epsilon = f"blk.{layer}.", checkpoint.architecture.norm_epsilon
    normed = g.norm(x, checkpoint.dense(f"{prefix}attn_norm.weight"), epsilon)
    x = g.op("Add", x, _attention(g, checkpoint, layer, normed, shared))
    h = g.norm(x, checkpoint.dense(f"{prefix}ffn_norm.weight"), epsilon)
    gate = g.linear(h, checkpoint.matrix(f"{prefix}ffn_gate.weight"))
    gate = g.op("Mul", gate, g.op("Sigmoid", gate))
    up = g.linear(h, checkpoint.matrix(f"{prefix}ffn_up.weight"))
    return g.op("Add", x, g.linear(g.op("Mul", gate, up), checkpoint.matrix(f"{prefix}ffn_down.weight")))


def _attention(g: GraphBuilder, checkpoint: GgufFile, layer: int, x: str, shared: Sequence[str]) -> str:
    """Grouped-query attention over the past and the new tokens, without repeating keys or values for each head."""
    arch, (mask, *angles) = checkpoint.architecture, shared
    heads, key_heads, size = arch.heads, arch.key_value_heads, arch.head_size

    def project(part: str) -> str:
        """New queries, keys or values: [n, heads x head_size]."""
        name = f"blk.{layer}.attn_{part}"
        bias = checkpoint.dense(f"{name}.bias") if f"{name}.bias" in checkpoint else None
        return g.linear(x, checkpoint.matrix(f"{name}.weight"), bias)

    def rotated(y: str, count: int) -> str:
        flat, interleaved = g.reshape(y, 1, -1, count * size), int(not arch.rope_half_split)
        return g.op("RotaryEmbedding", flat, *angles, domain="com.microsoft", interleaved=interleaved)

    def in_rows(y: str) -> str:
        """Packed [n, heads, head_size] laid out as [b, heads, l, head_size]."""
        return g.op("Transpose", g.op("Gather", y, "rows"), perm=[0, 2, 1, 3])

    def with_past(part: str, y: str) -> str:
        """The past before each row: [b, key-value heads, p + l, head_size]."""
        new = g.op("Reshape", y, g.constant([-1, key_heads, size]), name=f"{part}_{layer}")
        batch = g.op("Shape", "rows", start=0, end=1)
        past = g.op("Expand", f"past_{part}_{layer}", g.op("Concat", batch, g.constant([1, 1, 1]), axis=0))
        return g.op("Concat", past, in_rows(new), axis=2)

    keys = with_past("key", rotated(project("k"), key_heads))
    values = with_past("value", project("v"))
    query = g.reshape(rotated(project("q"), heads), -1, heads, size)
    # queries that share a key stand below each other, so that one product serves them all
    grouped = g.reshape(in_rows(query), 0, key_heads, -1, size)
    scaled = g.op("Mul", grouped, g.constant(size**-0.5, np.float32))
    scores = g.op("MatMul", scaled, g.op("Transpose", keys, perm=[0, 1, 3, 2]))
    groups = g.constant([0, key_heads, heads // key_heads])
    by_head = g.op("Concat", groups, g.op("Shape", mask, start=-2), axis=0)
    weights = g.op("Softmax", g.op("Add", g.op("Reshape", scores, by_head), mask), axis=-1)
    mixed = g.op("MatMul", g.op("Reshape", weights, g.op("Shape", scores)), values)
    packed = g.op("Transpose", g.reshape(mixed, 0, heads, -1, size), perm=[0, 2, 1, 3])
    joined = g.op("Gather", g.reshape(packed, -1, heads * size), "places")
    return g.linear(joined, checkpoint.matrix(f"blk.{layer}.attn_output.weight"))


def past_names(arch: Architecture) -> list[str]:
    """The names of the past, in order: key and value of layer 0, of layer 1 and so on."""
    return [f"{part}_{layer}" for layer in range(arch.layers) for part in ("key", "value")]
