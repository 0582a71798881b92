"""8-bit products beside float32 in the embedded engine: CPU seconds for the same trees, and what it does to sums.

    python benchmarks/speed/eight_bit.py

``blocks``: 8-bit weights in blocks of 32 with 8-bit activations by row (ONNX Runtime's MatMulNBits). ``tensors``: 8-bit
weights by column, and activations rounded by one scale for all tokens of a call (DynamicQuantizeMatMul), so that a sum
depends on what else is in the call. Sums are of the sample study's responses, each given a peer's to the same task.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np

from goldless.models import gguf
from goldless.models.embedded import locate_embedded
from goldless.models.interface import Message
from goldless.models.local_engine import FloatArray
from goldless.studies import read_study, sample_study
from scoring_cpu import Pair, workload

BLOCK = 32
ROUNDS = 2
MICROSOFT = "com.microsoft"
Linear = Callable[[gguf.GraphBuilder, str, FloatArray, FloatArray | None], str]


def by_blocks(g: gguf.GraphBuilder, x: str, matrix: FloatArray, bias: FloatArray | None = None) -> str:
    outputs, inputs = matrix.shape
    blocks = matrix.reshape(outputs, inputs // BLOCK, BLOCK)
    scale = np.abs(blocks).max(-1) / 127 + np.float32(1e-12)
    rounded = (np.rint(blocks / scale[..., None]) + 128).astype(np.uint8)
    size = {"K": inputs, "N": outputs, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
    out = g.op("MatMulNBits", x, g.weight(rounded), g.weight(scale), domain=MICROSOFT, **size)
    return out if bias is None else g.op("Add", out, g.weight(bias))


def by_tensors(g: gguf.GraphBuilder, x: str, matrix: FloatArray, bias: FloatArray | None = None) -> str:
    scale = np.abs(matrix).max(1) / 127 + np.float32(1e-12)
    rounded = np.rint(matrix / scale[:, None]).astype(np.int8)
    out = g.op("DynamicQuantizeMatMul", x, g.weight(rounded.T), g.weight(scale), domain=MICROSOFT)
    return out if bias is None else g.op("Add", out, g.weight(bias))


def engine_with(linear: Linear, path: Path, folder: Path) -> gguf.Engine:
    """The engine of a file, with every product of a weight matrix computed in another way."""
    folder.mkdir()
    checkpoint = gguf.GgufFile(path)
    with patch.object(gguf.GraphBuilder, "linear", linear):
        gguf.save_body(checkpoint, folder / "body.onnx")
        gguf.save_head(checkpoint, folder / "head.onnx")
    return gguf.Engine(checkpoint.architecture, folder)


def sample_pairs(model: gguf.LoadedModel) -> list[Pair]:
    pairs = []
    for task, responses in read_study(sample_study()):
        for one in responses:
            context = [Message("user", task.prompt or ""), Message("assistant", one.text), Message("user", "And you?")]
            given = model.layout.context(context)
            pairs += [(given, model.layout.target(peer.text)) for peer in responses if peer is not one]
    return pairs


def main() -> None:
    path = locate_embedded(print)
    model = gguf.build_model(path)
    with tempfile.TemporaryDirectory() as folder:
        engines = {
            "float32": model.engine,
            "blocks": engine_with(by_blocks, path, Path(folder) / "blocks"),
            "tensors": engine_with(by_tensors, path, Path(folder) / "tensors"),
        }
        tasks = [workload(6, (150, 60, 60), 49152, seed) for seed in range(ROUNDS)]
        seconds = {name: list[float]() for name in engines}
        for engine in engines.values():
            engine.score(tasks[0])  # loads the weights
        for task in tasks:
            for name, engine in engines.items():
                began = time.process_time()
                engine.score(task)
                seconds[name].append(time.process_time() - began)
        pairs = sample_pairs(model)[:120]
        sums = {name: np.array([part.sum() for part in engine.score(pairs)]) for name, engine in engines.items()}
        alone = {
            name: np.array([engine.score([pair])[0].sum() for pair in pairs[:20]]) for name, engine in engines.items()
        }
    print(f"{len(pairs)} sums of {sums['float32'].min():.0f} to {sums['float32'].max():.0f} nats")
    for name in engines:
        ratio = np.median(np.divide(seconds["float32"], seconds[name]))
        error = sums[name] - sums["float32"]
        shift = np.abs(alone[name] - sums[name][: len(alone[name])]).max()
        print(
            f"{name}: {ratio:.2f} times as fast by CPU seconds; sums differ by {error.std():.2f} nats (sd), at most "
            f"{np.abs(error).max():.2f}; alone or in a call, at most {shift:.4f}"
        )


if __name__ == "__main__":
    main()
