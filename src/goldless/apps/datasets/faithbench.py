"""FaithBench: summaries by language models, with the worst hallucination that people found in each."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import polars as pl

from goldless.apps.datasets.dataset import Dataset, SourceFile, Tables

FILE = "FaithBench.csv"
PROMPT = "Summarise this passage.\n\n"
SCORES = {"Unwanted": 0, "Questionable": 1, "Benign": 2, "Consistent": 3}
"""Score of the worst label; higher is better."""


def convert(files: Mapping[str, bytes]) -> Tables:
    """Make the tables of a study; the label is the worst one that a summary has."""
    rows = list(csv.DictReader(io.StringIO(files[FILE].decode("utf-8"), newline="")))
    task_of_passage: dict[str, str] = {}
    responses, labels = [], []
    for row in rows:
        task = task_of_passage.setdefault(row["source"], f"t{len(task_of_passage)}")
        responses.append({"task": task, "agent": row["LLM"], "text": row["summary"]})
        labels.append(
            {
                "task": task,
                "agent": row["LLM"],
                "rater": "people",
                "criterion": "worst hallucination",
                "score": SCORES[row["worst-label"]],
            }
        )
    tasks = [{"task": task, "prompt": PROMPT + passage} for passage, task in task_of_passage.items()]
    return {"tasks": pl.DataFrame(tasks), "responses": pl.DataFrame(responses), "labels": pl.DataFrame(labels)}


FAITHBENCH = Dataset(
    name="faithbench",
    question="How bad is the worst hallucination in a summary? 3 none, 2 benign, 1 questionable, 0 unwanted.",
    size="10 models, 80 passages",
    licence="CC BY-NC-SA 4.0",
    citation="Bao et al. 2025, FaithBench: A Diverse Hallucination Benchmark for Summarization by Modern LLMs",
    repository="vectara/FaithBench",
    commit="cf89797d82812c23b5d5e5c121f1d9b8983bbbce",
    files=(SourceFile(FILE, 1821812, "b64595319c5a0673c7af00a12c9340a79aeb3437c021b097745413da42d80a09"),),
    convert=convert,
)
