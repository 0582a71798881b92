"""Writes small studies with labels and recorded judgements, for tests of bias."""

from __future__ import annotations

import json
from pathlib import Path

import goldless


def bias_study(folder: Path, tables: dict[str, list[dict]]) -> goldless.Study:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return goldless.read_study(folder)


def responses(texts: dict[str, dict[str, str]]) -> list[dict]:
    return [{"task": t, "agent": a, "text": text} for t, by in texts.items() for a, text in by.items()]


def comparison(reviewer: str, task: str, first: str, second: str, output: str) -> dict:
    row = {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second}
    return row | {"output": output}


def both_orders(reviewer: str, task: str, better: str, worse: str) -> list[dict]:
    """A reviewer that finds the same one better whichever is shown first."""
    return [comparison(reviewer, task, better, worse, "one"), comparison(reviewer, task, worse, better, "two")]


def rating(task: str, agent: str, score: float, rater: str = "r1") -> dict:
    return {"task": task, "agent": agent, "rater": rater, "score": score}
