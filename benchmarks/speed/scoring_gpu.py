"""Packed prefix trees on a graphics card, against the same card scoring every pair from scratch.

    python benchmarks/speed/scoring_gpu.py

A model of Llama-3.1-8B's shape with random bf16 weights scores a GEM study made by seed: instructions, a synopsis for
each paper, candidates x, peers y. Random weights cost the same arithmetic as trained ones. All ways score the same
token ids with the same weights in one run.

Share of the ceiling: the arithmetic of all pairs as if each were scored alone and nothing were wasted, divided by the
time and by the rate of a large matrix product measured first. For a pair of n tokens, m of them in y:

    2 * (weights of the layers * n + weights of the head * m) + 2 * layers * heads * head size * n * (n + 1)

The last term is causal attention. Only a way that does not compute shared parts again can exceed 1. The column
"all logits" counts the head at every position and leaves attention out, as some published figures do.

Slow ways are timed on the first pairs. How far sums move is found apart from that, on pairs taken from all papers
alike, against one pair at a time; the table says on how many.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers

from goldless.models.local_weights.engine import TorchEngine
from goldless.models.local_weights.packed import LONGEST_CUDA, NO_WINDOW, SHORTEST_CUDA, PackedScorer, open_packed
from goldless.models.local_weights.packing import Lengths, Pack
from scoring_end_to_end import add_options, end_to_end

Pair = tuple[tuple[int, ...], tuple[int, ...]]
Scorer = Callable[[Sequence[Pair]], list[float]]
INSTRUCTIONS, SYNOPSIS, CANDIDATE, PEER = 110, 260, 220, 220
SPREAD = 0.25
BATCH = 16
WARM_UP = 2 * BATCH


@dataclass(frozen=True, slots=True)
class Study:
    """A shape of work: how many papers, candidates of each, and peers of each candidate."""

    papers: int
    candidates: int
    peers: int

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.candidates} x {self.peers}, {self.papers} papers"


def workload(study: Study, vocabulary: int, seed: int) -> list[Pair]:
    """All pairs of the study; where peers are all the other agents, an agent is not its own peer."""
    chance = np.random.default_rng(seed)

    def text(length: int) -> tuple[int, ...]:
        size = round(length * chance.uniform(1 - SPREAD, 1 + SPREAD))
        return tuple(chance.integers(0, vocabulary, size).tolist())

    instructions, pairs = text(INSTRUCTIONS), []
    all_pairs = study.peers == study.candidates - 1
    for _ in range(study.papers):
        synopsis = text(SYNOPSIS)
        candidates = [text(CANDIDATE) for _ in range(study.candidates)]
        peers = [text(PEER) for _ in range(study.candidates if all_pairs else study.peers)]
        pairs += [
            (instructions + synopsis + x, y)
            for i, x in enumerate(candidates)
            for j, y in enumerate(peers)
            if not (all_pairs and i == j)
        ]
    return pairs


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operations of scoring pairs one by one."""

    layers: int
    """Weights of the layers' matrices."""
    head: int
    attention: int
    """Layers times heads times head size."""

    def needed(self, pairs: Sequence[Pair]) -> float:
        """What must be computed: the head on y alone, attention to earlier tokens alone."""
        total = 0
        for context, target in pairs:
            n = len(context) + len(target)
            total += 2 * (self.layers * n + self.head * len(target)) + 2 * self.attention * n * (n + 1)
        return float(total)

    def all_logits(self, pairs: Sequence[Pair]) -> float:
        """The matrices at every position, attention left out."""
        return 2.0 * (self.layers + self.head) * sum(len(context) + len(target) for context, target in pairs)


def measured_ceiling(size: int = 8192) -> float:
    """Operations a second of a large bf16 matrix product of random numbers."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    times = []
    for i in range(23):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.matmul(a, b)
        end.record()
        torch.cuda.synchronize()
        if i >= 3:
            times.append(start.elapsed_time(end) / 1000)
    return 2 * size**3 / statistics.median(times)


def chosen_sum(logits: Any, target: tuple[int, ...]) -> Any:
    """Sum of the log p of a target's tokens, in float32, still on the device."""
    ids = torch.tensor(target, device=logits.device)[:, None]
    return logits.float().log_softmax(-1).gather(1, ids).sum()


@torch.inference_mode()
def one_by_one(model: Any, pairs: Sequence[Pair]) -> list[float]:
    """One pair at a time, logits of all positions."""
    sums = []
    for context, target in pairs:
        logits = model(torch.tensor([context + target], device="cuda"), use_cache=False).logits[0]
        sums.append(chosen_sum(logits[len(context) - 1 : -1], target))
    return torch.stack(sums).tolist()


@torch.inference_mode()
def batches(model: Any, pairs: Sequence[Pair], *, head_on_target: bool) -> list[float]:
    """Sorted batches, padded at the end; causality keeps the padding out, so no mask is needed."""
    order = sorted(range(len(pairs)), key=lambda i: -sum(map(len, pairs[i])))
    sums: dict[int, Any] = {}
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        longest = max(sum(map(len, pairs[i])) for i in rows)
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        for row, i in enumerate(rows):
            ids[row, : sum(map(len, pairs[i]))] = torch.tensor(pairs[i][0] + pairs[i][1])
        states = model.model(ids.cuda(), use_cache=False).last_hidden_state
        logits = None if head_on_target else model.lm_head(states)
        for row, i in enumerate(rows):
            context, target = pairs[i]
            scored = slice(len(context) - 1, len(context) + len(target) - 1)
            read = model.lm_head(states[row, scored]) if logits is None else logits[row, scored]
            sums[i] = chosen_sum(read, target)
    return torch.stack([sums[i] for i in range(len(pairs))]).tolist()


def packed_sums(scorer: PackedScorer, pairs: Sequence[Pair]) -> list[float]:
    """Sums by packed prefix trees."""
    return [float(values.sum(dtype=np.float64)) for values in scorer.score(pairs)]


def spread(total: int, count: int) -> list[int]:
    """So many places of a list, at even distances from its beginning to its end; all where it has no more."""
    return sorted({round(place) for place in np.linspace(0, total - 1, min(total, count))})


class Table:
    """Measures ways on one study and prints a line for each."""

    def __init__(
        self, study: Study, pairs: list[Pair], arithmetic: Arithmetic, ceiling: float, *, alone: Scorer, compared: int
    ) -> None:
        """``alone`` scores one by one what the others are compared with, on so many pairs."""
        self._pairs, self._arithmetic, self._ceiling = pairs, arithmetic, ceiling
        self._places = spread(len(pairs), compared)
        self._alone = alone([pairs[i] for i in self._places])
        papers = len({i * study.papers // len(pairs) for i in self._places})
        print(f"\n## {study.name}: {len(pairs)} pairs\n")
        print(
            "| way | timed pairs | pairs/s | share | all logits | peak GB | change of a sum over "
            f"{len(self._places)} pairs of {papers} papers: median, largest (nats) | notes |"
        )
        print("|---|---|---|---|---|---|---|---|", flush=True)

    def measure(self, name: str, way: Scorer, count: int | None = None, notes: Callable[[], str] = str) -> None:
        """Time a way on the first pairs, after a warm-up."""
        pairs = self._pairs[:count]
        way(pairs[:WARM_UP])
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        sums = way(pairs)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        peak, noted = torch.cuda.max_memory_allocated(), notes()
        compared = [sums[i] for i in self._places] if count is None else way([self._pairs[i] for i in self._places])
        changes = [abs(a - b) for a, b in zip(compared, self._alone, strict=True)]
        shares = [
            work(pairs) / seconds / self._ceiling for work in (self._arithmetic.needed, self._arithmetic.all_logits)
        ]
        print(
            f"| {name} | {len(pairs)} | {len(pairs) / seconds:.1f} | {shares[0]:.2f} | {shares[1]:.2f} | "
            f"{peak / 1e9:.1f} | {statistics.median(changes):.3f}, {max(changes):.3f} | "
            f"{noted} |",
            flush=True,
        )


def llama_shape(layers: int) -> Any:
    """A model of Llama-3.1-8B's shape with random weights, made on the card."""
    config = transformers.LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=131_072,
        rope_theta=500_000.0,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    with torch.device("cuda"):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def arithmetic_of(model: Any) -> Arithmetic:
    """Counted from the model's own matrices."""
    config = model.config
    matrices = sum(weight.numel() for weight in model.model.layers.parameters() if weight.ndim > 1)
    head_size = config.hidden_size // config.num_attention_heads
    return Arithmetic(
        layers=matrices,
        head=model.lm_head.weight.numel(),
        attention=config.num_hidden_layers * config.num_attention_heads * head_size,
    )


def open_scorer(model: Any, length: int) -> PackedScorer:
    """The packed scorer with sequences of a length. Raises UnsupportedAttention where the model cannot be packed."""
    scorer = open_packed(TorchEngine(model, tuple(range(1000, 1024))))
    scorer.lengths = Lengths(length, min(length, SHORTEST_CUDA))
    return scorer


def compare(study: Study, model: Any, ceiling: float, scorer: PackedScorer, arguments: argparse.Namespace) -> None:
    """One study, all ways."""
    table = Table(
        study,
        workload(study, model.config.vocab_size, arguments.seed),
        arithmetic_of(model),
        ceiling,
        alone=lambda pairs: one_by_one(model, pairs),
        compared=arguments.baseline // 2,
    )
    table.measure("one at a time, all logits", lambda pairs: one_by_one(model, pairs), arguments.baseline // 2)
    for name, head_on_target in (("all logits", False), ("head on y", True)):
        table.measure(
            f"sorted batches of {BATCH}, {name}",
            lambda pairs, head=head_on_target: batches(model, pairs, head_on_target=head),
            arguments.baseline,
        )

    cached = scorer.engine
    table.measure(
        "prefix tree node by node, cached keys and values",
        lambda pairs: [float(values.sum(dtype=np.float64)) for values in cached.score(pairs)],
        arguments.baseline,
    )

    packs: list[Pack] = []
    logprobs = scorer.logprobs

    def counted(pack: Pack) -> Any:
        packs.append(pack)
        return logprobs(pack)

    scorer.logprobs = counted  # type: ignore[method-assign] # the packs of the measured pass are counted

    def notes() -> str:
        filled = sum(len(pack.tokens) for pack in packs) / sum(pack.length for pack in packs)
        return f"{len(packs)} sequences, {filled:.1%} filled"

    # once for compilation, apart
    begin = time.perf_counter()
    packed_sums(scorer, workload(study, model.config.vocab_size, arguments.seed))
    print(f"first pass, with compilation: {time.perf_counter() - begin:.1f} s", flush=True)

    def way(pairs: Sequence[Pair]) -> list[float]:
        packs.clear()
        return packed_sums(scorer, pairs)

    table.measure("packed prefix tree", way, notes=notes)


def truth(model: Any, scorer: PackedScorer, seed: int) -> None:
    """How far bf16 is from float32, one by one and packed: neither may be further off than the other."""
    pairs = workload(Study(2, 6, 2), model.config.vocab_size, seed)
    ways = {"one at a time": one_by_one(model, pairs), "packed prefix tree": packed_sums(scorer, pairs)}
    exact = one_by_one(model.float(), pairs)
    print(f"\nagainst float32 one at a time, {len(pairs)} pairs, sums about {statistics.mean(exact):.0f} nats:")
    for name, sums in ways.items():
        changes = [a - b for a, b in zip(sums, exact, strict=True)]
        print(
            f"- bf16 {name}: mean {statistics.mean(changes):+.3f}, spread {statistics.pstdev(changes):.3f}, "
            f"largest {max(map(abs, changes)):.3f} nats"
        )


def compare_fp8(model: Any, scorer: PackedScorer, arguments: argparse.Namespace) -> None:
    """The kernel in bf16 and, afterwards, with the same layers in 8-bit floats, on the same pairs."""
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow, quantize_  # noqa: PLC0415

    studies = [Study(arguments.papers, 6, 2), Study(arguments.many, 20, 19)]
    loads = {study.name: workload(study, model.config.vocab_size, arguments.seed) for study in studies if study.papers}
    print("\n## 8-bit floats\n\n| study | bf16 pairs/s | fp8 pairs/s | ratio | change of a sum: median, largest |")
    print("|---|---|---|---|---|", flush=True)
    before = {name: _rate(scorer, pairs) for name, pairs in loads.items()}
    quantize_(
        model.model.layers, Float8DynamicActivationFloat8WeightConfig(granularity=PerRow(), set_inductor_config=False)
    )
    torch.compiler.reset()
    # without the check of values: in 8 bits they move by more than it allows
    fp8 = PackedScorer(TorchEngine(model, tuple(range(1000, 1024))), [NO_WINDOW])
    fp8.lengths = scorer.lengths
    for name, pairs in loads.items():
        (rate, sums), (rate_fp8, sums_fp8) = before[name], _rate(fp8, pairs)
        changes = [abs(a - b) for a, b in zip(sums, sums_fp8, strict=True)]
        print(
            f"| {name} | {rate:.1f} | {rate_fp8:.1f} | {rate_fp8 / rate:.2f} | "
            f"{statistics.median(changes):.3f}, {max(changes):.3f} |",
            flush=True,
        )


def _rate(scorer: PackedScorer, pairs: Sequence[Pair]) -> tuple[float, list[float]]:
    """Pairs per second once everything is compiled, and the sums."""
    packed_sums(scorer, pairs)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    sums = packed_sums(scorer, pairs)
    return len(pairs) / (time.perf_counter() - begin), sums


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=int, default=64, help="of 6 candidates x 2 peers")
    parser.add_argument("--many", type=int, default=8, help="papers of 20 candidates x 19 peers")
    parser.add_argument("--baseline", type=int, default=192, help="pairs for the batches; half as many one by one")
    parser.add_argument("--length", type=int, default=LONGEST_CUDA, help="tokens of the longest packed sequence")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--end-to-end", action="store_true", help="the whole of goldless score beside the kernel")
    parser.add_argument("--fp8", action="store_true", help="the kernel with weights and activations in 8-bit floats")
    add_options(parser)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device; benchmarks/speed/scoring_cpu.py runs without one")

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}")
    ceiling = measured_ceiling()
    print(f"ceiling: {ceiling / 1e12:.0f} TFLOP/s (bf16 matrix product of 8192 x 8192 random numbers)", flush=True)
    model = llama_shape(arguments.layers)
    scorer = open_scorer(model, arguments.length)
    if arguments.end_to_end:
        scorer.engine.packed = scorer
        end_to_end(scorer.engine, scorer.settings, arguments)
    if arguments.fp8:
        compare_fp8(model, scorer, arguments)
    if arguments.end_to_end or arguments.fp8:
        return 0
    studies = [Study(arguments.papers, 6, 2), Study(arguments.many, 20, 19)]
    for study in studies:
        if study.papers:
            compare(study, model, ceiling, scorer, arguments)
    truth(model, scorer, arguments.seed + 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
