"""The small studies that golden outputs are made from: plain files, written here and by no part of goldless."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path

Rows = Iterable[Mapping[str, object]]

SUBJECTS = ("rivers", "clocks", "lamps", "boats", "dogs", "cats")
POINTS = {"ann": 9, "bob": 5, "cy": 2, "dan": 4}
FACTS = ("came late", "cost little", "stood still", "ran north", "broke twice", "were sold", "grew old", "sank", "won")


def text(subject: str, agent: str) -> str:
    """A response that says what it is about and how good it is, then as many facts; bob mixes facts of his own in."""
    facts = FACTS[: POINTS[agent]] if agent != "bob" else FACTS[2:7]
    return " ".join([f"About {subject}: {POINTS[agent]} points.", *(f"The {subject} {fact}." for fact in facts)])


def answers() -> list[dict[str, object]]:
    """One file of answers, as a user has them."""
    return [
        {"task": subject, "prompt": f"Tell of {subject} please.", "agent": agent, "text": text(subject, agent)}
        for subject in SUBJECTS
        for agent in POINTS
    ]


def tables() -> dict[str, Rows]:
    """A study folder with people's labels and every kind of recorded evidence."""
    pairs = list(permutations(POINTS, 2))
    shifted = dict(zip(SUBJECTS, (*SUBJECTS[1:], SUBJECTS[0]), strict=True))
    return {
        "tasks": [
            {"task": s, "prompt": f"Tell of {s} please.", "reference": f"The {s} came late and ran north."}
            for s in SUBJECTS
        ],
        "responses": [{"task": s, "agent": a, "text": text(s, a)} for s in SUBJECTS for a in POINTS],
        "agents": [
            {"agent": a, "group": "deceptive" if a == "cy" else "honest", "parameters": float(n), "family": a[0]}
            for a, n in POINTS.items()
        ],
        "labels": [
            {"task": s, "agent": a, "rater": r, "score": n + (i + n) % 3 - (r == "rae")}
            for i, s in enumerate(SUBJECTS)
            for a, n in POINTS.items()
            for r in ("pia", "rae")
        ],
        "judgements": [
            {"reviewer": r, "format": "pairwise", "task": s, "first": a, "second": b, "output": said}
            for i, s in enumerate(SUBJECTS)
            for r in ("honest", "lazy", "noisy")
            for j, (a, b) in enumerate(pairs)
            for said in [_said(r, a, b, i + j)]
        ],
        "logprobs": [
            {"scorer": "past", "task": s, "target": b, "given": a}
            | {"sum_logprob_nats": -20.5 - (i % 3) / 7 + (POINTS[a] / 2 if a else 0), "tokens": 9}
            for i, s in enumerate(SUBJECTS)
            for b in POINTS
            for a in (None, *POINTS)
            if a != b
        ],
        "verdicts": [
            {"critic": "past", "task": s, "first": a, "second": b, "second_task": other}
            | {"value": 0.5 + POINTS[a] / 25 if other == s else 0.25 + (i % 2) / 10}
            for i, s in enumerate(SUBJECTS)
            for a, b in pairs
            for other in (s, shifted[s], shifted[shifted[s]])
        ],
        "rewrites": [
            {"rewriter": "past", "task": s, "agent": a, "text": f"{s} {a} in other words"}
            for s in SUBJECTS
            for a in POINTS
        ],
    }


def _said(reviewer: str, first: str, second: str, number: int) -> str:
    better = "one" if POINTS[first] > POINTS[second] else "two"
    if reviewer == "honest":
        return f"The better response is {better}."
    if reviewer == "lazy":
        return "one"
    return "hard to say" if number % 7 == 0 else "two" if number % 5 == 0 else better


def write(path: Path, rows: Rows) -> None:
    """JSON lines, or CSV where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = list(rows)
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(listed[0]))
            table.writeheader()
            table.writerows(listed)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in listed), encoding="utf-8")


def make(folder: Path) -> None:
    """All studies and tables that the cases name, in this folder."""
    write(folder / "answers.jsonl", answers())
    write(folder / "answers.csv", answers())
    for name, rows in tables().items():
        write(folder / "study" / f"{name}.jsonl", rows)
    others = [{"task": s, **{a: text(s, a) for a in POINTS}} for s in SUBJECTS]
    write(folder / "wide.csv", others)
    papers(folder / "papers")
    write(folder / "bad.csv", _bad(answers()[:6]))
    write(folder / "configured" / "answers.csv", answers())
    settings = 'level = 0.9\n[score]\nmetric = "length"\n'
    (folder / "configured" / "goldless.toml").write_text(settings, encoding="utf-8")
    for name in ("tasks", "responses", "logprobs", "judgements"):
        write(folder / "half" / f"{name}.jsonl", tables()[name])
    write(folder / "half" / "labels.jsonl", (row for row in tables()["labels"] if row["task"] in SUBJECTS[:4]))
    many = [row | {"task": f"{row['task']}{n}"} for n in range(4) for row in answers()]
    write(folder / "many.jsonl", many)


def _bad(rows: Sequence[dict[str, object]]) -> Rows:
    """A row without an agent, one said twice, one without a text."""
    return [rows[0], rows[0], rows[1] | {"agent": ""}, rows[2] | {"text": ""}, *rows[3:]]


def papers(folder: Path) -> None:
    """A folder of papers and their reviews for ``gre collect``."""
    subjects = {"p1": "rivers", "p2": "clocks", "p3": "lamps"}
    write(
        folder / "papers.jsonl", [{"paper": p, "title": f"On {s}", "abstract": f"Of {s}."} for p, s in subjects.items()]
    )
    reviews = [
        {"paper": p, "review": r, "text": text(s, a)}
        for p, s in subjects.items()
        for r, a in zip("xyz", POINTS, strict=False)
    ]
    write(folder / "reviews.jsonl", reviews)
    (folder / "papers").mkdir()
    for paper, subject in subjects.items():
        whole = f"Tell of {subject} please. {text(subject, 'ann')}"
        (folder / "papers" / f"{paper}.txt").write_text(whole, encoding="utf-8")
