"""Run folders written by hand, for tests of the report: every number in them was chosen, not measured."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tests.support.paths import FIXTURES

DOCUMENTS = FIXTURES / "documents"
AGENTS = ("ann", "bob", "cy")
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "</textarea></style></svg><b>bold",
    "\u202eright-to-left\u2066",
    "nul\x00bell\x07\x1b[31mred",
    '=HYPERLINK("http://example.test")',
    "{{ 7 * 7 }} {% raw %}",
    "x" * 10_000,
)


def estimate(value: float, low: float, high: float) -> dict[str, float]:
    """A score with its interval."""
    return {"value": value, "low": low, "high": high, "n": 4}


def board(scores: Mapping[str, tuple[float, float, float] | None], **more: object) -> dict[str, object]:
    """One metric's part of ``leaderboard.json``: agents in order with score, low and high."""
    names = list(scores)
    rows = [
        {
            "rank": None if ends is None else place,
            "agent": name,
            "group": None,
            "estimate": {"note": "no task was scored"} if ends is None else estimate(*ends),
            "asked": 8,
            "used": 0 if ends is None else 8,
            "better_than": [],
            "between_prompts": None,
        }
        for place, (name, ends) in enumerate(scores.items(), 1)
    ]
    means = [[None if i == j else float(i + 2 * j) for j in range(len(names))] for i in range(len(names))]
    known = {name: ends[0] for name, ends in scores.items() if ends is not None}
    comparisons = [
        {"first": one, "second": other, "difference": known[one] - known[other], "p": 0.01, "p_holm": 0.03, "n": 4}
        for i, one in enumerate(known)
        for other in list(known)[i + 1 :]
    ]
    return {
        "metric": "gem-raw",
        "unit": "nats",
        "level": 0.95,
        "rows": rows,
        "comparisons": comparisons,
        "settings": {"metric": "gem-raw", "scorer": "toy", "seed": "0", "goldless": "0.1.0"},
        "by_wording": {},
        "influence": [],
        "matrix": {"agents": names, "means": means},
        **more,
    }


THREE = {"ann": (12.5, 11.0, 14.0), "bob": (7.25, 6.5, 8.0), "cy": (-1.75, -3.0, -0.5)}


def leaderboard(**metrics: dict[str, object]) -> dict[str, object]:
    """``leaderboard.json``."""
    return {
        "study": "letters",
        "fingerprint": "ab" * 32,
        "models": {},
        "canaries": None,
        "settings": {"template": "general"},
        "asked": 24,
        "open": 0,
        "complete": True,
        "failures": {},
        "tasks_without_peers": [],
        "metrics": metrics or {"gem-raw": board(THREE)},
    }


def document(name: str) -> dict[str, Any]:
    """A result of one verb, as a run folder holds it."""
    return json.loads((DOCUMENTS / f"{name}.json").read_text(encoding="utf-8"))


def every_document() -> dict[str, dict[str, Any]]:
    """One document of each kind."""
    others = ("review", "crash_test", "agreement", "calibration", "bias", "cost", "consistency")
    return {"leaderboard": leaderboard(), **{name: document(name) for name in others}}


def write_folder(
    folder: Path,
    documents: Mapping[str, object],
    *,
    scores: Sequence[tuple[str, str, str, float | None]] = (),
    agents: Sequence[Mapping[str, object]] = (),
    failed: Sequence[Mapping[str, object]] = (),
) -> Path:
    """A run folder. ``scores``: metric, task, agent, score. ``failed``: rows of ``judgements``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    if scores:
        with (folder / "response_scores.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("metric", "task", "agent", "score"), *scores])
    if agents:
        (folder / "agents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in agents), encoding="utf-8")
    if failed:
        pl.DataFrame(failed).write_parquet(folder / "judgements.parquet")
    return folder


def hostile_folder(folder: Path) -> Path:
    """A run whose agents, tasks, metrics, judges and replies are all hostile."""
    scores = {name: (float(place), place - 0.5, place + 0.5) for place, name in enumerate(HOSTILE)}
    influence = [
        {"agent": name, "task": name, "change": 0.5, "rank": 1, "rank_without": 2, "ranking_changes": True}
        for name in HOSTILE[:3]
    ]
    documents = every_document()
    first = HOSTILE[0]
    documents["leaderboard"] = leaderboard(
        **{name: board(scores, influence=influence, unit=name) for name in (first, HOSTILE[4])}
    ) | {"study": first, "tasks_without_peers": list(HOSTILE), "models": {first: {"name": first, "provider": first}}}
    changes = documents["crash_test"]["metrics"]["gem-raw"]["perturbations"]
    rows = [{**row, "perturbation": name} for row, name in zip(changes, HOSTILE, strict=False)]
    documents["crash_test"]["metrics"] = {first: {"signature": first, "perturbations": rows}}
    documents["review"]["notes"] = list(HOSTILE)
    documents["made_by"] = {
        "made": {first: {"at": first, "spending": [{"model": first, "usage": {}}]}},
        "goldless": first,
    }
    return write_folder(
        folder,
        documents,
        scores=[
            (first, name, agent, 1.0 + place)
            for place, name in enumerate(HOSTILE)
            for agent in HOSTILE
            if "\x00" not in name + agent
        ],
        agents=[
            {"agent": name, "group": name, "parameters": 10.0**place, "family": name}
            for place, name in enumerate(HOSTILE, 6)
        ],
        failed=[{"reviewer": n, "task": n, "output": n, "failure": "unparsable"} for n in HOSTILE],
    )
