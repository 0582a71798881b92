"""TED talks from Chinese to English: translations with the errors that professional translators marked (MQM)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import polars as pl

from goldless.apps.datasets.dataset import Dataset, SourceFile, Tables

FILE = "ted/zhen/mqm_ted_zhen.tsv"
MARKS = ("<v>", "</v>")
"""Marks around the words of an error."""
PENALTIES = {"Major": 5, "Minor": 1}
NON_TRANSLATION_PENALTY = 25


def convert(files: Mapping[str, bytes]) -> Tables:
    """Make the tables of a study; the label is minus the penalty of all errors in a segment."""
    lines = io.StringIO(files[FILE].decode("utf-8"), newline="")
    prompts: dict[str, str] = {}
    texts: dict[tuple[str, str], str] = {}
    penalties: dict[tuple[str, str], int] = {}
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        task = f"{row['doc']}-{row['seg_id']}"
        key = (task, row["system"])
        prompts.setdefault(task, without_marks(row["source"]))
        texts.setdefault(key, without_marks(row["target"]))
        penalties[key] = penalties.get(key, 0) + penalty(row["category"], row["severity"])
    tasks = [{"task": task, "prompt": prompt} for task, prompt in prompts.items()]
    responses = [{"task": task, "agent": agent, "text": text} for (task, agent), text in texts.items()]
    labels = [
        {"task": task, "agent": agent, "rater": "translator", "criterion": "MQM", "score": -errors}
        for (task, agent), errors in penalties.items()
    ]
    return {"tasks": pl.DataFrame(tasks), "responses": pl.DataFrame(responses), "labels": pl.DataFrame(labels)}


def penalty(category: str, severity: str) -> int:
    """The weight of one error."""
    if severity == "Major" and "Non-translation" in category:
        return NON_TRANSLATION_PENALTY
    return PENALTIES.get(severity, 0)


def without_marks(text: str) -> str:
    """The text without the marks of an error."""
    for mark in MARKS:
        text = text.replace(mark, "")
    return text


TED_ZHEN = Dataset(
    name="ted_zhen",
    question="How many errors has a translation from Chinese? Minus the MQM penalty.",
    size="15 translators (2 are people), 529 segments",
    licence="Apache-2.0",
    citation="Freitag et al. 2021, Results of the WMT21 Metrics Shared Task",
    repository="google/wmt-mqm-human-evaluation",
    commit="7fadea281aff8db61cc72fc3d469a4dca78b82a6",
    files=(SourceFile(FILE, 2597899, "d91fc0dd21c1949f1e7570671d01ceb1798ebd8d7ea8998844b1a35983de4ed3"),),
    convert=convert,
)
