"""``goldless.reward`` on batches of groups beside transformers, pair by pair, on the very same token ids and weights.

    python benchmarks/speed/reward.py                 # the embedded model on this machine's cores, float32
    python benchmarks/speed/reward.py --device cuda   # Llama-3.1-8B's shape with random bf16 weights on a graphics card

A batch is what GRPO sends: some prompts with a group of completions each. A completion is rewarded for what it says
about its prompt's references, less what it says about references of other prompts; so each is paired with every
reference and every control text, and each of these is also scored once per prompt without a completion. The texts are
made up by seed. The whole call is timed: texts are grouped, tokenised, scored and turned into rewards. The model is
loaded, and on a card compiled, before the clock starts. Then transformers scores the same distinct requests, one at a
time with the head on the target alone, on the same cores; on a card also in sorted batches.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import anyio
import numpy as np

import goldless
from goldless.models.cache import default_journal
from goldless.models.canaries import CanaryReport
from goldless.models.embedded import embedded_model, locate_embedded
from goldless.models.gguf import available_cores
from goldless.models.interface import Deliver, ScoreReply, ScoreRequest, TokenLogprobs, WrappedModel
from goldless.models.journal import Journal
from goldless.models.local_engine import build_tree, computed_tokens
from goldless.records import Response, Task
from goldless.studies import study_from_records

Pair = tuple[tuple[int, ...], tuple[int, ...]]
Way = Callable[[Sequence[Pair]], list[float]]
SPREAD = 0.25
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]


@dataclass(frozen=True, slots=True)
class Shape:
    """A batch: its numbers, and the lengths of texts in made-up words."""

    prompts: int
    group: int
    references: int
    words: tuple[int, int, int]
    """Of a prompt, a completion and a reference."""


class Texts:
    """Made-up texts, no one like another."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self._words = ["".join(self._chance.choice(SYLLABLES, self._chance.integers(1, 4))) for _ in range(4000)]

    def text(self, words: int) -> str:
        """A text of about so many words."""
        return " ".join(self._chance.choice(self._words, round(words * self._chance.uniform(1 - SPREAD, 1 + SPREAD))))

    def batch(self, shape: Shape) -> dict[str, list[Any]]:
        """A batch as TRL passes it."""
        prompt, completion, reference = shape.words
        rows: dict[str, list[Any]] = {"prompts": [], "completions": [], "reference": []}
        for _ in range(shape.prompts):
            known = [self.text(reference) for _ in range(shape.references)]
            rows["prompts"] += [self.text(prompt)] * shape.group
            rows["completions"] += [self.text(completion) for _ in range(shape.group)]
            rows["reference"] += [known] * shape.group
        return rows


class Recorder(WrappedModel):
    """A scorer that keeps what it was asked and what it said."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.pairs: list[Pair] = []
        self.sums: list[float] = []

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Score all requests."""
        found: dict[int, ScoreReply] = {}

        def keep(replies: Any) -> None:
            found.update(replies)
            deliver(replies)

        await self._model.score(requests, keep)
        for i, request in enumerate(requests):
            reply = found[i]
            if not isinstance(reply, TokenLogprobs):
                sys.exit(f"a request was not scored: {reply.message}")
            self.pairs.append((tuple(request.context), tuple(request.target)))  # type: ignore[arg-type]
            self.sums.append(reply.total)


def cpu_ways() -> tuple[Any, dict[str, Way]]:
    """The embedded model, and transformers with the same weights."""
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        sys.exit("transformers is needed to compare with: pip install 'goldless[transformers,bench]'")
    from scoring_cpu import transformers_scorer  # noqa: PLC0415

    alone = transformers_scorer(locate_embedded(print))
    return embedded_model(), {"transformers, pair by pair": lambda pairs: alone(list(pairs))}


def cuda_ways(layers: int, texts: Texts) -> tuple[Any, dict[str, Way]]:
    """A large random model on the card, and transformers with the same weights."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    from goldless.models.local_weights.packed import LONGEST_CUDA  # noqa: PLC0415
    from scoring_end_to_end import MadeModel, trained_layout  # noqa: PLC0415
    from scoring_gpu import batches, llama_shape, one_by_one, open_scorer  # noqa: PLC0415

    if not torch.cuda.is_available():
        sys.exit("--device cuda needs a CUDA device")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}")
    model = llama_shape(layers)
    packed = open_scorer(model, LONGEST_CUDA)
    study = study_from_records(
        [Task("t")], [Response("t", f"a{i}", texts.text(200)) for i in range(64)], name="texts for the tokenizer"
    )
    packed.engine.packed = packed
    made = MadeModel(packed.engine, packed.settings, trained_layout(study))
    anyio.run(made.prepare)
    # random weights read no context: the canaries would rightly refuse them
    journal = Journal(default_journal())
    passed = CanaryReport(tokens_counted=True, copied_nats=-1.0, shuffled_nats=-2.0, noise_nats=0.0)
    journal.keep_canary_report(made.identity, json.dumps(asdict(passed)))
    journal.close()
    return made, {
        "transformers, pair by pair": lambda pairs: one_by_one(model, pairs),
        "transformers, sorted batches of 16": lambda pairs: batches(model, pairs, head_on_target=True),
    }


def compare(model: Any, ways: dict[str, Way], shape: Shape, texts: Texts, arguments: argparse.Namespace) -> None:
    """Measure all ways on the same batches in turns, and print."""
    recorder = Recorder(model)
    bank = [texts.text(shape.words[2]) for _ in range(32)]
    reward = goldless.reward(scorer=recorder, bank=bank, control_tasks=arguments.control)
    reward(**texts.batch(Shape(2, 2, 1, (20, 20, 20))))
    for way in ways.values():
        way(recorder.pairs[:4])
    names = ["goldless.reward", *ways]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    worst, computing = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    shared, alone, requests = [], [], []
    for _ in range(arguments.batches):
        batch = texts.batch(shape)
        if arguments.device == "cuda":  # compiles what this batch needs; then its texts are tokenised anew
            reward(**batch)
            model.forget()
        recorder.pairs, recorder.sums = [], []
        begin, busy = time.perf_counter(), time.process_time()
        rewards = reward(**batch)
        seconds["goldless.reward"].append(time.perf_counter() - begin)
        computing["goldless.reward"] += time.process_time() - busy
        if None in rewards:
            sys.exit(f"rewards are missing: {dict(reward.missing)}")
        pairs, sums = recorder.pairs, recorder.sums
        for name, way in ways.items():
            begin, busy = time.perf_counter(), time.process_time()
            found = way(pairs)
            seconds[name].append(time.perf_counter() - begin)
            computing[name] += time.process_time() - busy
            worst[name] = max(worst[name], *(abs(a - b) for a, b in zip(sums, found, strict=True)))
        requests.append(len(pairs))
        alone.append(sum(len(context) + len(target) for context, target in pairs))
        shared.append(computed_tokens(build_tree([context + target for context, target in pairs])))
    completions = shape.prompts * shape.group
    print(
        f"\n{shape.prompts} prompts x {shape.group} completions, {shape.references} references and "
        f"{arguments.control} control texts each; {arguments.batches} batches, medians; signature {reward.signature}"
    )
    print(
        f"{statistics.mean(requests):.0f} requests a batch, {sum(alone) / sum(requests):.0f} tokens each; "
        f"{sum(alone):,} tokens pair by pair, {sum(shared):,} in the tree, ratio {sum(alone) / sum(shared):.2f}"
    )
    mine = statistics.median(seconds["goldless.reward"])
    for name, times in seconds.items():
        median = statistics.median(times)
        each = statistics.median(a / b for a, b in zip(times, seconds["goldless.reward"], strict=True))
        print(
            f"{name:36} {median:8.2f} s a batch {completions / median:8.2f} completions/s   goldless.reward is "
            f"{median / mine:5.2f} times as fast (median of batches {each:.2f}, in CPU seconds "
            f"{computing[name] / computing['goldless.reward']:.2f})   "
            f"largest difference of a sum {worst[name]:.1e} nats",
            flush=True,
        )
    reward.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--prompts", type=int, help="per batch (2, on a card 16)")
    parser.add_argument("--group", type=int, default=8, help="completions of each prompt")
    parser.add_argument("--references", type=int, nargs="+", default=[1, 2], help="of each prompt; one table each")
    parser.add_argument("--control", type=int, default=2, help="references of other prompts")
    parser.add_argument(
        "--words", type=int, nargs=3, metavar=("PROMPT", "COMPLETION", "REFERENCE"), help="110 80 40; 190 160 100"
    )
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--layers", type=int, default=32, help="of the model on the card")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    card = arguments.device == "cuda"
    words = tuple(arguments.words or ((190, 160, 100) if card else (110, 80, 40)))
    texts = Texts(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        if card:
            os.environ["GOLDLESS_HOME"] = folder
        else:
            print(f"{available_cores()} cores")
        model, ways = cuda_ways(arguments.layers, texts) if card else cpu_ways()
        for references in arguments.references:
            shape = Shape(arguments.prompts or (16 if card else 2), arguments.group, references, words)
            compare(model, ways, shape, texts, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
