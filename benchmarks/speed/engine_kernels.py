"""The embedded engine beside transformers: speed, memory, and how far the sums are apart.

    python benchmarks/speed/engine_kernels.py [FILE.gguf]
    python benchmarks/speed/engine_kernels.py --products        # matrix products alone, onnxruntime beside torch

Each way runs in a process of its own and scores the same token ids: real sentences of the sample study, 600 tokens of
context and 150 of target an item, each item from scratch, with the head on the target only. Products are those of a
layer of the embedded model, by one thread, taking turns. CPU seconds say more than the clock on a busy machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goldless.models.embedded import locate_embedded

WAYS = ("transformers", "goldless")
CONTEXT, TARGET = 600, 150
PRODUCTS = {(576, 1536): 2, (1536, 576): 1, (576, 576): 2, (576, 192): 2}
"""Inputs and outputs of the weights of a layer, and how many there are of each."""
PRODUCT_TOKENS = 384
Pair = tuple[tuple[int, ...], tuple[int, ...]]


def items(path: Path, count: int) -> list[Pair]:
    """Token ids of running text, cut to length; starts with the beginning token where the file wants one."""
    from goldless.models.gguf import build_model  # noqa: PLC0415 - not in the process that measures torch
    from goldless.studies import read_study, sample_study  # noqa: PLC0415

    layout = build_model(path).layout
    text = " ".join(response.text for _, responses in read_study(sample_study()) for response in responses)
    ids = layout.tokenizer.text_ids(text)
    begin = layout.context(())[:1] if layout.add_begin else ()
    step = (len(ids) - CONTEXT - TARGET) // count
    cuts = [ids[i * step : i * step + CONTEXT + TARGET] for i in range(count)]
    return [(begin + cut[: CONTEXT - len(begin)], cut[CONTEXT - len(begin) :][:TARGET]) for cut in cuts]


def scorer(way: str, path: Path) -> Callable[[Pair], float]:
    """The sum of a target's log-probabilities."""
    if way != "transformers":
        from goldless.models.gguf import build_model  # noqa: PLC0415

        engine: Any = build_model(path).engine
        return lambda pair: float(engine.score([pair])[0].sum(dtype="float64"))

    import torch  # noqa: PLC0415 - an extra
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    model: Any = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()

    def score(pair: Pair) -> float:
        context, target = pair
        with torch.inference_mode():
            logits = model(torch.tensor([context + target]), logits_to_keep=len(target) + 1).logits[0, :-1]
            return float(logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None]).double().sum())

    return score


def products() -> None:
    """Print the speed of the products with weights, and the ratio of a whole layer's."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import numpy as np  # noqa: PLC0415 - it and torch read the number of threads when they are loaded
    import onnxruntime  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    def session(weights: Any) -> Any:
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
        product = helper.make_node("MatMul", ["x", "w"], ["y"])
        graph = helper.make_graph([product], "product", [x], [y], [numpy_helper.from_array(weights, "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    torch.set_num_threads(1)
    random, layer = np.random.default_rng(0), {"onnxruntime": 0.0, "torch": 0.0}
    for (inputs, outputs), number in PRODUCTS.items():
        x = random.standard_normal((PRODUCT_TOKENS, inputs), np.float32)
        w = random.standard_normal((inputs, outputs), np.float32)
        prepared, given, weights = session(w), torch.from_numpy(x), torch.from_numpy(np.ascontiguousarray(w.T))
        ways: dict[str, Callable[[], Any]] = {
            "onnxruntime": lambda s=prepared, x=x: s.run(None, {"x": x}),
            "torch": lambda x=given, w=weights: torch.nn.functional.linear(x, w),
        }
        for compute in ways.values():
            compute()
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(60):
            for name, compute in ways.items():
                begin = time.process_time()
                compute()
                seconds[name].append(time.process_time() - begin)
        for name, found in seconds.items():
            middle, operations = statistics.median(found), 2 * PRODUCT_TOKENS * inputs * outputs / 1e9
            layer[name] += number * middle
            speeds = f"{operations / middle:.0f} GFLOP per CPU s, best {operations / min(found):.0f}"
            print(f"{inputs} x {outputs}: {name} {speeds}", flush=True)
    print(f"a layer: onnxruntime takes {layer['onnxruntime'] / layer['torch']:.2f} times the CPU time of torch")


def measure(way: str, path: Path, pairs: list[Pair]) -> dict[str, Any]:
    begin = time.perf_counter()
    score = scorer(way, path)
    score(pairs[0])
    loaded = time.perf_counter() - begin
    begin, cpu = time.perf_counter(), time.process_time()
    sums = [score(pair) for pair in pairs]
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    tokens = sum(len(context) + len(target) for context, target in pairs)
    scale = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20
    rates = {"tokens_per_second": tokens / seconds, "per_cpu_second": tokens / cpu}
    return {"load_seconds": loaded, **rates, "peak_mib": peak, "sums": sums}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="a GGUF file; the embedded model where none is named")
    parser.add_argument("--items", type=int, default=6)
    parser.add_argument("--products", action="store_true", help="measure matrix products alone")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.products:
        products()
        return 0
    path = (arguments.file or locate_embedded(print)).resolve()
    if arguments.way:
        pairs = [(tuple(c), tuple(t)) for c, t in json.load(sys.stdin)]
        print(json.dumps(measure(arguments.way, path, pairs)))
        return 0

    ways = [way for way in WAYS if way != "transformers" or importlib.util.find_spec("transformers")]
    pairs = items(path, arguments.items)
    print(f"{path.name}: {len(pairs)} items of {CONTEXT} + {TARGET} tokens\n")
    print(
        "| way | load and first item, s | tokens/s | tokens per CPU s | peak MiB | largest difference of a sum, nats |"
    )
    print("|---|---|---|---|---|---|")
    reference: list[float] | None = None
    for way in ways:
        command = [sys.executable, __file__, str(path), "--way", way]
        done = subprocess.run(command, input=json.dumps(pairs), capture_output=True, text=True, check=True)  # noqa: S603
        found = json.loads(done.stdout.splitlines()[-1])
        reference = reference or found["sums"]
        apart = max(abs(a - b) for a, b in zip(reference, found["sums"], strict=True))
        print(
            f"| {way} | {found['load_seconds']:.1f} | {found['tokens_per_second']:.0f} | "
            f"{found['per_cpu_second']:.0f} | {found['peak_mib']:.0f} | {apart:.1e} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
