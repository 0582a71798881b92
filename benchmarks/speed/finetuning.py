"""Fine-tuning once from end to end, with the paper's recipe: how long it takes, how much memory, what it changes.

    python benchmarks/speed/finetuning.py [--shape 1b] [--tasks 40] [--epochs 3] [--weights 4bit] [--base FOLDER]

Needs no hub: the base is built on the spot with random weights (or is yours), and the study is generated: three agents
a task, each a list of short judgements of which some are common to the task, with the lengths measured on reviews (an
abstract of 260 tokens, texts of 220, give or take a quarter; the tokenizer is one of bytes). Runs on CUDA where there
is a card. A second run of the same command reuses what the first one kept in the work folder.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

import anyio
import polars as pl

from goldless.apps.finetune.options import FinetuneOptions, Recipe
from goldless.apps.finetune.pipeline import finetune_study
from goldless.runs.options import Options
from goldless.runs.progress import Progress
from goldless.studies import Study, study_from_frame
from random_base import SHAPES, build_base

AGENTS = ("first", "second", "third")
VERBS = ("appreciates", "criticizes", "questions", "suggests")
THINGS = ("clarity", "novelty", "baselines", "proofs", "data", "ablations", "figures", "scale", "code", "scope")


def judgement(chance: random.Random) -> str:
    """One line."""
    return f"The reviewer {chance.choice(VERBS)} the {chance.choice(THINGS)}"


def generated_study(tasks: int, seed: int = 0) -> Study:
    """A study in which responses to one task share half of their lines."""
    chance = random.Random(seed)
    rows, known = [], []
    for i in range(tasks):
        common = [judgement(chance) for _ in range(4)]
        length = round(260 * chance.uniform(0.75, 1.25))
        words = f"paper {i} on " + " ".join(chance.choice(THINGS) for _ in range(length // 7))
        known.append({"task": f"paper {i}", "synopsis_abstract": words[:length]})
        for agent in AGENTS:
            lines = chance.sample(common, 3)
            while sum(map(len, lines)) < 220 * chance.uniform(0.75, 1.25):
                lines.append(judgement(chance))
            chance.shuffle(lines)
            rows.append({"task": f"paper {i}", "agent": agent, "text": "\n".join(lines)})
    return study_from_frame(pl.DataFrame(rows), tasks=pl.DataFrame(known), name="generated")


class Clock:
    """Seconds of every stage."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def __call__(self, progress: Progress) -> None:
        """Note a stage."""
        self.begun.setdefault(progress.stage, time.perf_counter())
        self.ended[progress.stage] = time.perf_counter()
        if progress.done == progress.total or progress.done % 20 == 0:
            print(f"  {progress.stage}: {progress.done} of {progress.total}", flush=True)


def main() -> None:
    """Run it and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="1b")
    parser.add_argument("--base", type=Path, help="a model folder of yours instead of a random one")
    parser.add_argument("--weights", help="4bit: train on 4-bit weights, as the paper did")
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=Recipe().epochs)
    parser.add_argument("--learning-rate", type=float, default=Recipe().learning_rate)
    parser.add_argument("--work", type=Path, help="folder for base, adapter and journal; a temporary one by default")
    arguments = parser.parse_args()

    import torch  # noqa: PLC0415 - an extra

    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        begin = time.perf_counter()
        base = arguments.base or build_base(work / f"random-{arguments.shape}", arguments.shape)
        print(f"base: {base.name}, {time.perf_counter() - begin:.1f} s to build or find", flush=True)
        clock = Clock()
        own = FinetuneOptions(
            base=f"hf:{base}" + (f"?weights={arguments.weights}" if arguments.weights else ""),
            folder=work / f"tuned-{base.name}-{arguments.weights or 'own'}-{arguments.tasks}-{arguments.epochs}",
            template="peer-review",
            raw=True,
            # a base of random weights does not read its context
            untested_base=arguments.base is None,
            epochs=arguments.epochs,
            learning_rate=arguments.learning_rate,
        )
        options = Options.of(journal=work / "journal.sqlite", progress=clock, say=print)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        found = anyio.run(finetune_study, generated_study(arguments.tasks), own, options)

    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"
    print(f"\n{card}, torch {torch.__version__}, {found.plan.base.settings}")
    for stage, ended in clock.ended.items():
        print(f"{stage}: {ended - clock.begun[stage]:.1f} s")
    seconds = clock.ended.get("training", 0.0) - clock.begun.get("training", 0.0)
    if seconds:
        examples = found.counts.examples * arguments.epochs / seconds
        print(f"{found.training.steps} steps; {examples:.1f} examples/s, {found.training.steps / seconds:.2f} steps/s")
    if torch.cuda.is_available():
        print(f"peak memory of the card: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    (_, first), *_, (_, last) = found.training.losses
    print(f"loss: first {first:.3f}, last {last:.3f} nats/token; {found.counts}")
    for table in found.tables():
        print(f"\n{table.to_markdown()}")


if __name__ == "__main__":
    main()
