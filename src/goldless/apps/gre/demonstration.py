"""The offline edition: invented papers, reviews and models, so that everything can be run and seen. Not a result.

Twelve short papers with three human reviews each and the reviews of three models, all made up by us, lie beside this
module; so do the preprocessed forms of these reviews and what the papers' authors claim. The embedded model is the
fourth reviewer, rewrites its own reviews, and scores everybody.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from goldless.apps.gre.edition import Edition, is_edition, open_or_begin, write_rows
from goldless.files import write_whole
from goldless.runs.store import try_writing

FOLDER = Path(__file__).parent / "demo_edition"
INVENTED: Mapping[str, Mapping[str, Any]] = {
    "invented-70b": {"parameters": 70e9, "family": "invented", "cutoff_date": "2026-02"},
    "invented-8b": {"parameters": 8e9, "family": "invented", "cutoff_date": "2026-04"},
    "invented-1b": {"parameters": 1e9, "family": "invented", "cutoff_date": "2025"},
}
"""Sizes and cutoffs are as invented as the models."""
EMBEDDED = "smollm2-135m"
SETTINGS: Mapping[str, Any] = {
    "demonstration": True,
    "collect": {"from_folder": "invented-papers", "reviews": 3, "seed": 0},
    "review": {"max_tokens": 64, "temperature": 0.7, "seed": 2, "cut": "keep"},
    "score": {"scorer": "embedded", "rewriter": ["embedded"], "rewrite_max_tokens": 96},
}
"""Short texts, because the embedded model writes slowly; some temperature, because it repeats itself without."""


def begin_demonstration(folder: Path) -> Edition:
    """Create an edition of the invented papers in a new folder, or open the one that is there."""
    edition = open_or_begin(folder)
    if is_edition(folder):
        return edition
    try_writing(folder, "Choose another folder with --out")
    shutil.copytree(FOLDER, folder / "invented-papers", ignore=shutil.ignore_patterns("model_*"))
    models = {n: {"model": f"scripted:{_script_file(folder, n)}", **facts} for n, facts in INVENTED.items()}
    models[EMBEDDED] = {"model": "embedded", "parameters": 135e6, "family": "SmolLM2"}
    return edition.with_settings({**SETTINGS, "models": models})


def write_scripts(edition: Edition) -> None:
    """Write the replies of the invented models to the collected papers."""
    study = edition.study()
    for name in INVENTED:
        answers = [row for row in _lines(FOLDER / "model_reviews.jsonl") if row["agent"] == name]
        script = _script_file(edition.folder, name)
        script.parent.mkdir(exist_ok=True)
        write_rows(script, [{"prompt": study.task(row["paper"]).prompt, "answer": row["text"]} for row in answers])


def add_invented_rewrites(edition: Edition) -> None:
    """Add the rewrites of the invented models' reviews to those of the human ones."""
    path = edition.study_folder / "rewrites.jsonl"
    there = _lines(path)
    known = {(row["task"], row["agent"]) for row in there}
    new = [
        {"rewriter": row["rewriter"], "task": row["paper"], "agent": row["agent"], "text": row["text"]}
        for row in _lines(FOLDER / "model_rewrites.jsonl")
        if (row["paper"], row["agent"]) not in known
    ]
    if new:
        write_whole(path, lambda aside: write_rows(aside, [*there, *new]))


def _script_file(folder: Path, agent: str) -> Path:
    return folder.resolve() / "scripts" / f"{agent}.jsonl"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
