"""The GEM paper's Table 2, of our own: metrics under degradations and manipulations of recorded reviews.

    python benchmarks/papers/table2.py [--papers 64] [--scorer embedded] [--metrics NAMES] [--out FOLDER]

Reads the recorded ICLR 2023 reviews (folder iclr23_reviews in GOLDLESS_RECORDED or ../shared/data), takes human2 as the
candidate and human1 as the reference, both cut to about 250 tokens, and crash-tests GEM-raw and GEM-S given the
abstract, with and without task control, BARTScore, ROUGE-L, BLEU, BERTScore and length under perturbations that need no
model. The scorer is the embedded model by default. Replies are journalled: an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import anyio
import polars as pl

import goldless
from goldless.meta_evaluation.crash_test import crash_test, save_crash_test
from goldless.runs.options import Options
from goldless.runs.progress import Progress
from goldless.studies import study_from_frame

CHARACTERS = 1_000
"""About 250 tokens."""
METRICS = (
    "gem-raw",
    "gem-raw+control",
    "gem-s[abstract]",
    "gem-s[abstract]+control",
    "bartscore",
    "bartscore-precision",
    "bartscore-recall",
    "rouge-l",
    "bleu",
    "bertscore",
    "length",
)
PERTURBATIONS = (
    "deletion[paper]",
    "deletion",
    "shuffled-task",
    "null[peer-review]",
    "collusion",
    "elongation[peer-review]",
    "repetition",
    "verdict-injection",
    "praise",
    "case-flip",
    "format",
    "padding",
    "pattern",
    "style-of-all",
)


def cut(text: str) -> str:
    """The beginning of a text, up to the last sentence that fits."""
    short = text[:CHARACTERS]
    ends = [m.end() for m in re.finditer(r"[.?!\n]", short)]
    return short[: ends[-1]].strip() if len(text) > CHARACTERS and ends else short.strip()


def short_study(recorded: goldless.Study, papers: int) -> goldless.Study:
    """The beginnings of two reviews of each paper that has an abstract."""
    tasks, rows = [], []
    for task, responses in recorded:
        if "abstract" in task.synopses and len(tasks) < papers:
            tasks.append({"task": task.task, "synopsis_abstract": task.synopses["abstract"]})
            rows += [
                {"task": task.task, "agent": r.agent, "text": cut(r.text) + "\n"}
                for r in responses
                if r.agent in {"human1", "human2"}
            ]
    return study_from_frame(pl.DataFrame(rows), tasks=pl.DataFrame(tasks), name=f"{len(tasks)} papers")


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--papers", type=int, default=64)
    arguments.add_argument("--scorer", default="embedded")
    arguments.add_argument("--metrics", default=",".join(METRICS))
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("GOLDLESS_RECORDED", beside)) / "iclr23_reviews"
    if not folder.is_dir():
        sys.exit(f"the recorded reviews are not there: {folder}")
    study = short_study(goldless.read_study(folder), given.papers)

    def tell(progress: Progress) -> None:
        if progress.done == progress.total or progress.done % 10 < 2:
            print(f"{progress.stage} {progress.done} of {progress.total}", file=sys.stderr, flush=True)

    options = Options.of(
        metrics=given.metrics.split(","), scorer=given.scorer, templates=("peer-review",), progress=tell
    )

    async def run() -> None:
        test = await crash_test(study, options, perturbations=PERTURBATIONS, agents=("human2",), references=("human1",))
        print(test.to_markdown())
        if given.out is not None:
            save_crash_test(test, given.out)

    anyio.run(run)


if __name__ == "__main__":
    main()
