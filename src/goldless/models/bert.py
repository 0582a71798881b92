"""all-MiniLM-L6-v2 on onnxruntime: sentences in, unit vectors out, on the CPU.

The encoder is one ONNX graph, built from the weights of a safetensors file. It maps token ids to one unit vector per
sequence: the mean of its last hidden states without padding (sentence-transformers' modules Transformer, Pooling,
Normalize).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from goldless.models.embedding_files import LIMIT, TOKENIZER, WEIGHTS

FloatArray = npt.NDArray[np.float32]

OPSET = 20
LEAST_NORM = 1e-12
"""Minimum length of a vector in a division, as in torch's ``normalize``."""
HIDDEN = -1e9
"""Added to the attention on padding."""
LAYERS, HEADS, NORM_EPSILON = 6, 12, 1e-12
"""Constants that the checkpoint's shapes do not give."""
BATCH_TOKENS = 1024
"""Tokens per batch, including padding: more is not faster on a CPU."""


def read_safetensors(path: Path) -> dict[str, FloatArray]:
    """The float32 tensors of a safetensors file: a length, a JSON table of offsets, and the numbers."""
    content = np.memmap(path, dtype=np.uint8, mode="r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    table = json.loads(content[8 : 8 + length].tobytes())
    tensors = {}
    for name, entry in table.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = (8 + length + place for place in entry["data_offsets"])
            tensors[name] = np.frombuffer(content[begin:end].tobytes(), np.float32).reshape(entry["shape"])
    return tensors


def encoder_graph(tensors: dict[str, FloatArray]) -> bytes:
    """The encoder as a serialised ONNX model: ``ids`` and ``mask`` [b, l] → ``vectors`` [b, width]."""
    g = _Graph(tensors)
    x = g.embedded()
    mask = g.op("Cast", "mask", to=TensorProto.FLOAT)
    shut = g.op("Mul", g.op("Sub", g.number(1.0), mask), g.number(HIDDEN))
    shut = g.op("Unsqueeze", shut, g.axes(1, 2))
    for layer in range(LAYERS):
        x = g.layer(layer, x, shut)
    weight = g.op("Unsqueeze", mask, g.axes(2))
    total = g.op("ReduceSum", g.op("Mul", x, weight), g.axes(1), keepdims=0)
    mean = g.op("Div", total, g.op("ReduceSum", mask, g.axes(1), keepdims=1))
    norm = g.op("Max", g.op("ReduceL2", mean, g.axes(1), keepdims=1), g.number(LEAST_NORM))
    g.nodes.append(helper.make_node("Div", [mean, norm], ["vectors"]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "l"]) for name in ("ids", "mask")]
    outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", g.width])]
    graph = helper.make_graph(g.nodes, "goldless", inputs, outputs, initializer=g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return bytes(model.SerializeToString())


class _Graph:
    """Nodes and weights, added step by step. Each method returns the name of what it computed."""

    def __init__(self, tensors: dict[str, FloatArray]) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.width = tensors["embeddings.word_embeddings.weight"].shape[1]
        self._tensors = tensors

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def weight(self, array: npt.NDArray[Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def axes(self, *values: int) -> str:
        return self.weight(np.array(values, dtype=np.int64))

    def number(self, value: float) -> str:
        return self.weight(np.array(value, dtype=np.float32))

    def norm(self, x: str, name: str) -> str:
        gain, bias = (self.weight(self._tensors[f"{name}.LayerNorm.{part}"]) for part in ("weight", "bias"))
        return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=NORM_EPSILON)

    def linear(self, x: str, name: str) -> str:
        product = self.op("MatMul", x, self.weight(self._tensors[f"{name}.weight"].T))
        return self.op("Add", product, self.weight(self._tensors[f"{name}.bias"]))

    def embedded(self) -> str:
        """Embeddings of words, positions and the first sentence type (the only one used)."""
        words = self.op("Gather", self.weight(self._tensors["embeddings.word_embeddings.weight"]), "ids")
        places = self._tensors["embeddings.position_embeddings.weight"]
        places = places + self._tensors["embeddings.token_type_embeddings.weight"][0]
        length = self.op("Gather", self.op("Shape", "ids"), self.axes(1))
        known = self.op("Slice", self.weight(places), self.axes(0), length, self.axes(0))
        return self.norm(self.op("Add", words, known), "embeddings")

    def layer(self, number: int, x: str, shut: str) -> str:
        """One layer: attention and feed-forward, each added to its input and normalised."""
        prefix = f"encoder.layer.{number}"
        attended = self.linear(self._attention(f"{prefix}.attention.self", x, shut), f"{prefix}.attention.output.dense")
        x = self.norm(self.op("Add", x, attended), f"{prefix}.attention.output")
        inner = self.op("Gelu", self.linear(x, f"{prefix}.intermediate.dense"))
        return self.norm(self.op("Add", x, self.linear(inner, f"{prefix}.output.dense")), f"{prefix}.output")

    def _attention(self, prefix: str, x: str, shut: str) -> str:
        size = self.width // HEADS

        def split(part: str, order: list[int]) -> str:
            parts = self.op("Reshape", self.linear(x, f"{prefix}.{part}"), self.axes(0, 0, HEADS, size))
            return self.op("Transpose", parts, perm=order)

        query = self.op("Mul", split("query", [0, 2, 1, 3]), self.number(float(1 / np.sqrt(size))))
        likeness = self.op("Add", self.op("MatMul", query, split("key", [0, 2, 3, 1])), shut)
        mixed = self.op("MatMul", self.op("Softmax", likeness, axis=-1), split("value", [0, 2, 1, 3]))
        return self.op("Reshape", self.op("Transpose", mixed, perm=[0, 2, 1, 3]), self.axes(0, 0, self.width))


class BertEncoder:
    """The encoder and its tokenizer."""

    limit = LIMIT

    def __init__(self, folder: Path) -> None:
        """Read the files in the folder; takes about a second."""
        self.tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.tokenizer.encode_special_tokens = True  # "[SEP]" in a response stays five characters
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        graph = encoder_graph(read_safetensors(folder / WEIGHTS))
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text; no text may be longer than the limit."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(ids), self._session.get_outputs()[0].shape[1]), dtype=np.float32)
        for batch in _batches([len(one) for one in ids]):
            longest = max(len(ids[i]) for i in batch)
            padded, mask = np.zeros((2, len(batch), longest), dtype=np.int64)
            for row, i in enumerate(batch):
                padded[row, : len(ids[i])] = ids[i]
                mask[row, : len(ids[i])] = 1
            vectors[batch] = self._session.run(None, {"ids": padded, "mask": mask})[0]
        return vectors


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
