"""Run folders written by hand, for tests of the report: every number in them was chosen here."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

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


def board(scores: Mapping[str, tuple[float, float, float] | None], **more: object) -> dict[str, object]:
    """One metric's part of ``leaderboard.json``: agents in order with score, low and high."""
    names = list(scores)
    rows = [
        {
            "rank": None if ends is None else place,
            "agent": name,
            "group": None,
            "score": None if ends is None else ends[0],
            "low": None if ends is None else ends[1],
            "high": None if ends is None else ends[2],
            "n": 0 if ends is None else 4,
            "asked": 8,
            "used": 0 if ends is None else 8,
            "missing": 8 if ends is None else 0,
            "better_than": [],
            "note": "no task was scored" if ends is None else None,
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
        "signature": "gem-raw|scorer:toy|seed:0|goldless:0.1.0",
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


def trait(value: float | None, limit: float | None) -> dict[str, object]:
    low, high = (None, None) if value is None else (value - 0.05, value + 0.05)
    return {"value": value, "low": low, "high": high, "n": 40, "asked": 40, "threshold": limit, "difference": None}


def review() -> dict[str, object]:
    agents = [
        {"agent": "ann", "rank": 1, "score": 0.8125, "low": 0.75, "high": 0.875, "n_tasks": 4, "asked": 16, "used": 16},
        {"agent": "bob", "rank": 2, "score": 0.1875, "low": 0.125, "high": 0.25, "n_tasks": 4, "asked": 16, "used": 15},
    ]
    return {
        "study": "letters",
        "scale": "pairwise",
        "exams": ["auto"],
        "signature": "peer-review|scale:pairwise|exam:auto|goldless:0.1.0",
        "reviewers": [
            {
                "name": "judge-a",
                "traits": {"consistency": trait(0.9, 0.6), "pertinence": trait(0.95, 0.8)},
                "passed": True,
                "why": "consistency 0.9 above 0.6",
                "weight": 0.925,
                "asked": 16,
                "used": 16,
                "missing": 0,
            },
            {
                "name": "judge-b",
                "traits": {"consistency": trait(0.3, 0.6), "pertinence": trait(None, 0.8)},
                "passed": False,
                "why": "consistency 0.3 not above 0.6",
                "weight": None,
                "asked": 16,
                "used": 15,
                "missing": 1,
            },
        ],
        "nobody_passed": None,
        "panel": {"reviewers": ["judge-a"], "weights": {"judge-a": 0.925}},
        "ranking": agents,
        "rankings": {"win rate": {"unit": "win rate", "agents": agents, "notes": []}},
        "failures": {"unparsable": 1},
        "complete": True,
        "notes": ["self-confidence is not recorded"],
    }


def perturbation(name: str, must: str, rating: str, smd: float, half: float) -> dict[str, object]:
    return {
        "metric": "gem-raw",
        "perturbation": name,
        "kind": "degradation" if must == "fall" else "manipulation",
        "must": must,
        "rating": rating,
        "reason": "falls",
        "mean_before": 10.0,
        "mean_after": 8.0,
        "smd": smd,
        "smd_low": smd - half,
        "smd_high": smd + half,
        "paired_d": smd,
        "p": 0.001,
        "p_holm": 0.0025,
        "samples": 30,
        "tasks": 15,
        "responses": 30,
        "unchanged": 0,
        "not_made": 0,
        "missing": 0,
        "note": None,
    }


def crash_test() -> dict[str, object]:
    return {
        "study": "letters",
        "margin": 0.2,
        "level": 0.95,
        "responses": 30,
        "responses_there_are": 120,
        "problems": {},
        "metrics": {
            "gem-raw": {
                "signature": "crash-test|margin:0.2|goldless:0.1.0",
                "counts": {"pass": 1, "fail": 1, "not shown": 1},
                "perturbations": [
                    perturbation("deletion", "fall", "pass", -1.25, 0.25),
                    perturbation("padding", "not rise", "fail", 0.75, 0.25),
                    perturbation("format", "not rise", "not shown", 0.0, 0.5),
                ],
            }
        },
    }


def accuracy(name: str, value: float) -> dict[str, object]:
    return {
        "name": name,
        "accuracy": value,
        "low": value - 0.05,
        "high": value + 0.05,
        "n_pairs": 200,
        "asked": 200,
        "used": 198,
        "missing": 2,
        "tied": 3,
        "n_tasks": 40,
        "level": 0.95,
        "convention": "default",
        "by_task": value,
    }


def agreement() -> dict[str, object]:
    def judge(name: str, kind: str, value: float) -> dict[str, object]:
        spearman = {"coefficient": "spearman", "over": "tasks", "value": value - 0.25, "low": value - 0.375}
        return {
            "name": name,
            "kind": kind,
            "accuracy": accuracy(name, value),
            "correlations": [{**spearman, "high": value - 0.125, "asked": 40, "n": 38, "undefined": 2, "n_tasks": 38}],
            "signature": f"{name}|goldless:0.1.0",
        }

    share = {"n": 300, "n_tasks": 40, "level": 0.95}
    labels = {"raters": 5, "ratings": 400, "preferences": 0, "pairs": 220, "decided": 200, "tied": 20}
    alpha = {"alpha": 0.5, "low": 0.375, "high": 0.625, "measurement": "ordinal", "n_units": 80, "n_values": 400}
    return {
        "study": "letters",
        "fingerprint": "",
        "convention": "default",
        "level": 0.95,
        "complete": True,
        "criteria": [
            {
                "criterion": None,
                "labels": labels | {"by_preference": 0, "contradicted": 0, "margin": 2.0},
                "judges": [judge("gem-raw", "metric", 0.625), judge("judge-a", "reviewer", 0.75)],
                "comparisons": [],
                "ceiling": {
                    "source": "ratings",
                    "n_raters": 5,
                    "alpha": alpha | {"unpaired": 0, "n_tasks": 40, "level": 0.95},
                    "accuracy": share | {"value": 0.6875, "low": 0.65625, "high": 0.71875},
                    "tied": 0,
                    "spearman": {"mean": 0.4375, "low": 0.375, "high": 0.5, "n": 40, "level": 0.95},
                    "undefined": 0,
                    "raters": [],
                    "named": True,
                    "note": None,
                },
                "signature": "agreement|labels:0123|goldless:0.1.0",
                "notes": ["gem-raw says nothing of 2 of 200 decided pairs"],
            }
        ],
    }


def bias() -> dict[str, object]:
    def row(kind: str, judge: str, measure: str, value: float, neutral: float | None, **more: object):
        shown = None if neutral is None else not value - 0.0625 <= neutral <= value + 0.0625
        return {
            "bias": kind,
            "judge": judge,
            "kind": "reviewer",
            "measure": measure,
            "about": None,
            "value": value,
            "low": value - 0.0625,
            "high": value + 0.0625,
            "neutral": neutral,
            "shown": shown,
            "asked": 100,
            "used": 98,
            "missing": 2,
            "ties": 1,
            "n_tasks": 40,
            "level": 0.95,
            "note": None,
            "pair": None,
            **more,
        }

    return {
        "study": "letters",
        "fingerprint": "",
        "scale": "pairwise",
        "convention": "default",
        "orders": "each",
        "level": 0.95,
        "reviewers": ["judge-a", "judge-b"],
        "weights": {"judge-a": 1.0, "judge-b": 1.0},
        "metrics": [],
        "labels": {},
        "coverage": [{"judge": "judge-a", "kind": "reviewer", "of": "judgements", "asked": 100, "used": 98}],
        "notes": [],
        "complete": True,
        "signature": "bias|goldless:0.1.0",
        "rows": [
            row("position", "judge-a", "decided for the one shown first", 0.625, 0.5),
            row("position", "judge-b", "decided for the one shown first", 0.53125, 0.5),
            row("position", "judge-a", "flips when the order is swapped", 0.25, None),
            row("self-preference", "ann, bob", "preference gap", 0.125, 0.0, pair=["ann", "bob"]),
        ],
        "unavailable": [{"bias": "length", "reason": "all responses are equally long", "judges": []}],
    }


def cost() -> dict[str, object]:
    return {
        "study": "letters",
        "n_tasks": 40,
        "n_agents": 3,
        "tasks": 10_000,
        "level": 0.95,
        "rows": [
            {"metrics": ["gem-raw"], "part": "scorer", "model": "toy", "source": "spent", "calls": 24, "reused": 6}
            | {
                "tokens": 4096,
                "usd": 0.25,
                "scaled": {"tasks": 10_000, "calls": 6000.0, "tokens": 1024000.0, "usd": 62.5},
            }
        ],
        "reviewers": [],
        "notes": [],
    }


def consistency() -> dict[str, object]:
    row = {"metric": "gem-raw", "first": "small", "second": "large", "coefficient": "spearman", "value": 0.875}
    rest = {"low": 0.75, "high": 1.0, "within_task": 0.5, "n_agents": 6, "n_tasks": 40, "asked": 240, "used": 240}
    signatures = {"gem-raw by small": "gem-raw|scorer:small", "gem-raw by large": "gem-raw|scorer:large"}
    whole = row | rest | {"tasks_used": 40, "level": 0.95}
    return {"rows": [whole], "level": 0.95, "signatures": signatures, "notes": []}


def calibration() -> dict[str, object]:
    agent = {"agent": "ann", "mean": 4.25, "low": 4.0, "high": 4.5, "labelled": 20, "unlabelled": 80}
    rest = {"labels_worth": 26.5, "label_mean": 4.5, "missing": 0, "weights": {"length": 0.25}}
    pair = {"first": "ann", "second": "bob", "difference": 0.5, "low": 0.25, "high": 0.75, "p_holm": 0.001, "p": 0.001}
    pair |= {"labelled": 20, "unlabelled": 80, "decided": True}
    return {
        "study": "letters",
        "fingerprint": "",
        "level": 0.95,
        "proxies": ["length"],
        "labelled": 20,
        "tasks": 100,
        "agents": [agent | rest],
        "comparisons": [pair | {"verdict": "ann is better"}],
        "shares": [{"agent": "ann", "judge": "length", "share": 0.5, "low": 0.25, "high": 0.75, "good": 9, "bad": 11}],
        "next_labels": [{"task": "t21", "chance": 0.25, "expected_change": 0.01}],
        "signature": "calibration|estimate:ppi++-by-task",
        "notes": [],
    }


def every_document() -> dict[str, dict[str, object]]:
    """One document of each kind."""
    return {
        "leaderboard": leaderboard(),
        "review": review(),
        "crash_test": crash_test(),
        "agreement": agreement(),
        "calibration": calibration(),
        "bias": bias(),
        "cost": cost(),
        "consistency": consistency(),
    }


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
    changes = crash_test()["metrics"]["gem-raw"]["perturbations"]
    rows = [{**row, "perturbation": name} for row, name in zip(changes, HOSTILE, strict=False)]
    documents["crash_test"]["metrics"] = {first: {"signature": first, "counts": {"pass": 1}, "perturbations": rows}}
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
