"""BLEU and ROUGE-L in batches against the packages pair by pair: the time, and the difference of the numbers.

    python benchmarks/speed/baselines.py [--pairs 100]

Takes recorded ICLR 2023 reviews (folder iclr23_reviews in GOLDLESS_RECORDED or ../shared/data), every review against
the two others of its paper, and scores the same pairs twice in one run: by our batch, and by calling rouge_score and
sacreBLEU pair by pair. Prints the seconds of both, their ratio, and the greatest difference of a score. Each pair
stands in both directions, so every text comes in several pairs, as it does in a study.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU

import goldless
from goldless.metrics.catalogue import baseline

Pairs = list[tuple[str, str]]


def recorded_pairs(wanted: int) -> Pairs:
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("GOLDLESS_RECORDED", beside)) / "iclr23_reviews"
    if not folder.is_dir():
        sys.exit(f"the recorded reviews are not there: {folder}")
    study = goldless.read_study(folder)
    texts = ([r.text for r in study.responses(task)] for task in study.tasks)
    return list(itertools.islice((pair for some in texts for pair in itertools.permutations(some, 2)), wanted))


def timed(score: Callable[[], list[float]]) -> tuple[list[float], float]:
    start = time.perf_counter()
    found = score()
    return found, time.perf_counter() - start


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--pairs", type=int, default=100)
    pairs = recorded_pairs(arguments.parse_args().pairs)
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    rouge = RougeScorer(["rougeL"], use_stemmer=True)
    bleu = BLEU(smooth_method="none", effective_order=False)
    alone: dict[str, Callable[[str, str], float]] = {
        "rouge-l": lambda candidate, reference: rouge.score(reference, candidate)["rougeL"].fmeasure,
        "bleu": lambda candidate, reference: bleu.sentence_score(candidate, [reference]).score / 100,
    }
    print(f"{len(pairs)} pairs of reviews\n")
    print("| | pair by pair | batch | ratio | greatest difference |\n|---|---|---|---|---|")
    for name, one in alone.items():
        metric = baseline(name)
        metric.scores([("warm", "up")])  # imports
        theirs, slow = timed(lambda one=one: [one(*pair) for pair in pairs])
        ours, fast = timed(lambda metric=metric: metric.scores(pairs))
        difference = max(abs(a - b) for a, b in zip(theirs, ours, strict=True))
        print(f"| {name} | {slow:.2f} s | {fast:.2f} s | {slow / fast:.1f} | {difference:.1e} |")


if __name__ == "__main__":
    main()
