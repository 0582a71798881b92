"""Kernels of the embedded engine beside transformers: speed, memory, and how far the sums are apart.

    python benchmarks/engine_kernels.py [FILE.gguf]

Each way runs in a process of its own and scores the same token ids: real sentences of the sample study, 600 tokens of
context and 150 of target an item, each item from scratch, with the head on the target only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goldless.models.embedded import locate_embedded

WAYS = ("transformers", "float32", "blocks")
CONTEXT, TARGET = 600, 150
Pair = tuple[tuple[int, ...], tuple[int, ...]]


def items(path: Path, count: int) -> list[Pair]:
    """Token ids of running text, cut to length; starts with the beginning token where the file wants one."""
    from goldless.models.gguf.model import build_model  # noqa: PLC0415 - not in the process that measures torch
    from goldless.studies import read_study, sample_study  # noqa: PLC0415

    layout = build_model(path).layout
    text = " ".join(response.text for _, responses in read_study(sample_study()) for response in responses)
    ids = layout.text(text)
    begin = layout.context(())[:1] if layout.add_begin else ()
    step = (len(ids) - CONTEXT - TARGET) // count
    cuts = [ids[i * step : i * step + CONTEXT + TARGET] for i in range(count)]
    return [(begin + cut[: CONTEXT - len(begin)], cut[CONTEXT - len(begin) :][:TARGET]) for cut in cuts]


def scorer(way: str, path: Path) -> Callable[[Pair], float]:
    """The sum of a target's log-probabilities."""
    if way != "transformers":
        from goldless.models.gguf.engine import Engine  # noqa: PLC0415
        from goldless.models.gguf.model import build_model  # noqa: PLC0415

        built = build_model(path, way)  # type: ignore[arg-type]
        engine = Engine(built.architecture, built.folder)
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


def measure(way: str, path: Path, pairs: list[Pair]) -> dict[str, Any]:
    begin = time.perf_counter()
    score = scorer(way, path)
    score(pairs[0])
    loaded = time.perf_counter() - begin
    begin = time.perf_counter()
    sums = [score(pair) for pair in pairs]
    seconds = time.perf_counter() - begin
    tokens = sum(len(context) + len(target) for context, target in pairs)
    scale = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20
    return {"load_seconds": loaded, "tokens_per_second": tokens / seconds, "peak_mib": peak, "sums": sums}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="a GGUF file; the embedded model where none is named")
    parser.add_argument("--items", type=int, default=6)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    path = (arguments.file or locate_embedded(print)).resolve()
    if arguments.way:
        pairs = [(tuple(c), tuple(t)) for c, t in json.load(sys.stdin)]
        print(json.dumps(measure(arguments.way, path, pairs)))
        return 0

    ways = [way for way in WAYS if way != "transformers" or importlib.util.find_spec("transformers")]
    pairs = items(path, arguments.items)
    scorer("blocks", path)  # converts the file now, so that loading is measured apart from converting
    print(f"{path.name}: {len(pairs)} items of {CONTEXT} + {TARGET} tokens\n")
    print("| way | load and first item, s | tokens/s | peak memory, MiB | largest difference of a sum, nats |")
    print("|---|---|---|---|---|")
    reference: list[float] | None = None
    for way in ways:
        command = [sys.executable, __file__, str(path), "--way", way]
        done = subprocess.run(command, input=json.dumps(pairs), capture_output=True, text=True, check=True)  # noqa: S603
        found = json.loads(done.stdout.splitlines()[-1])
        reference = reference or found["sums"]
        apart = max(abs(a - b) for a, b in zip(reference, found["sums"], strict=True))
        print(
            f"| {way} | {found['load_seconds']:.1f} | {found['tokens_per_second']:.0f} | {found['peak_mib']:.0f} | "
            f"{apart:.1e} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
