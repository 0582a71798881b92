"""Tree scoring against scoring every pair from scratch, and against transformers and llama.cpp one pair at a time.

    python benchmarks/speed/scoring_cpu.py

The workload is shaped like the sample study: several candidates a task, every other response a peer. All score the same
token ids of the same file (the embedded model's) on the same cores, taking turns: ours and transformers in float32,
llama.cpp with the 4-bit weights as they are and 8-bit activations. It comes in the wheel ``ik-llama-cpp-python``.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from goldless.models.embedded import locate_embedded
from goldless.models.gguf import available_cores, build_model
from goldless.models.local_engine import build_tree, computed_tokens

Pair = tuple[tuple[int, ...], tuple[int, ...]]


def workload(agents: int, lengths: tuple[int, int, int], vocabulary: int, seed: int) -> list[Pair]:
    """All ordered pairs of one task: shared instructions, then the candidate, then the peer."""
    chance = random.Random(seed)

    def text(length: int) -> tuple[int, ...]:
        return tuple(chance.randrange(vocabulary) for _ in range(length))

    root = text(lengths[0])
    candidates = [text(lengths[1]) for _ in range(agents)]
    peers = [text(lengths[2]) for _ in range(agents)]
    return [(root + candidates[i], peers[j]) for i in range(agents) for j in range(agents) if i != j]


def transformers_scorer(path: Path) -> Callable[[list[Pair]], list[float]]:
    """Sums by transformers, one pair at a time, with the head on the target's positions only."""
    import torch  # noqa: PLC0415 - an extra
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    torch.set_num_threads(available_cores())
    model: Any = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()

    def score(pairs: list[Pair]) -> list[float]:
        sums = []
        with torch.inference_mode():
            for context, target in pairs:
                ids = torch.tensor([context + target])
                logits = model(ids, logits_to_keep=len(target) + 1).logits[0, :-1]
                chosen = logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None])
                sums.append(float(chosen.sum()))
        return sums

    return score


def llama_scorer(path: Path, vocabulary: int) -> Callable[[list[Pair]], list[float]]:
    """Sums by llama.cpp, one pair at a time, with logits of the target's positions only."""
    from ik_llama_cpp._ctypes_api import llama_batch_free  # noqa: PLC0415 - an extra
    from ik_llama_cpp._internals import IkContext, IkModel, make_batch  # noqa: PLC0415

    context = IkContext(IkModel(str(path)), n_ctx=2048, n_threads=available_cores())

    def score(pairs: list[Pair]) -> list[float]:
        sums = []
        for before, target in pairs:
            batch = make_batch([*before, *target], logits_last=False)
            places = range(len(before) - 1, len(before) + len(target) - 1)
            for place in places:
                batch.logits[place] = 1
            context.kv_cache_clear()
            if context.decode(batch):
                raise RuntimeError("llama.cpp could not compute a batch")
            total = 0.0
            for place, token in zip(places, target, strict=True):
                logits = np.ctypeslib.as_array(context.get_logits(place), (vocabulary,)).astype(np.float64)
                top = logits.max()
                total += logits[token] - top - np.log(np.exp(logits - top).sum())
            llama_batch_free(batch)
            sums.append(total)
        return sums

    return score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--lengths", type=int, nargs=3, default=(150, 60, 60), metavar=("ROOT", "X", "Y"))
    parser.add_argument("--tasks", type=int, default=3, help="measured tasks; the medians are compared")
    arguments = parser.parse_args()

    path = locate_embedded(print)
    engine: Any = build_model(path).engine
    ways: dict[str, Callable[[list[Pair]], list[float]]] = {
        "tree": lambda pairs: [float(v.sum(dtype="float64")) for v in engine.score(pairs)],
        "from scratch": lambda pairs: [float(engine.score([pair])[0].sum(dtype="float64")) for pair in pairs],
    }
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        ways["transformers"] = transformers_scorer(path)
    else:
        print("torch is not installed: transformers is left out (pip install 'goldless[transformers,bench]')")
    if importlib.util.find_spec("ik_llama_cpp"):
        ways["llama.cpp"] = llama_scorer(path, engine.architecture.vocabulary)
    else:
        print("llama.cpp is not installed and left out (pip install ik-llama-cpp-python)")

    def task(seed: int) -> list[Pair]:
        return workload(arguments.agents, tuple(arguments.lengths), engine.architecture.vocabulary, seed)

    warm = task(-1)
    for way in ways.values():
        way(warm[:4])
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    of_cores: dict[str, list[float]] = {name: [] for name in ways}
    worst = dict.fromkeys(ways, 0.0)
    for seed in range(arguments.tasks):
        pairs = task(seed)
        sums: dict[str, list[float]] = {}
        for name, way in ways.items():
            begin, used = time.perf_counter(), time.process_time()
            sums[name] = way(pairs)
            seconds[name].append(time.perf_counter() - begin)
            of_cores[name].append(time.process_time() - used)
        for name in ways:
            worst[name] = max(worst[name], *(abs(a - b) for a, b in zip(sums["tree"], sums[name], strict=True)))

    pairs = task(0)
    alone = sum(len(context) + len(target) for context, target in pairs)
    shared = computed_tokens(build_tree([context + target for context, target in pairs]))
    print(f"{len(pairs)} pairs a task, {arguments.tasks} tasks, {available_cores()} cores")
    print(f"tokens a task: {alone:,} from scratch, {shared:,} in the tree; ratio {alone / shared:.2f}")
    for name, times in seconds.items():
        median, used = statistics.median(times), statistics.median(of_cores[name])
        print(
            f"{name:14} {median:7.2f} s, {used:7.2f} CPU s a task, {alone / used:6.0f} requested tokens per CPU s   "
            f"tree needs 1/{used / statistics.median(of_cores['tree']):.2f} of it   "
            f"largest difference {worst[name]:.1e} nats"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
