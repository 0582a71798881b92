"""Results that new ones would replace: told by their signatures, and kept under a free name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goldless.gre_bench.edition_scores import EditionScores
from goldless.runs.store import noted_fingerprint

BOARD = "leaderboard.json"
CLEAN = "gre.json"
"""Where the leaderboards on clean papers stand."""


def would_lose(folder: Path, scores: EditionScores) -> bool:
    """Whether the run folder holds results that would be gone if these were written into it.

    They are there again where every leaderboard of before comes with the same signature, on all papers as on clean
    ones; a file of leaderboards that cannot be read is kept as well.
    """
    evaluation = scores.evaluation
    before = noted_fingerprint(folder)
    if before is not None and before != evaluation.fingerprint:
        return True
    try:
        old = {*_signatures(folder / BOARD), *_clean_signatures(folder / CLEAN)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return True
    new = {outcome.signature for outcome in evaluation.outcomes.values()}
    if evaluation.raters is not None:
        new.add(evaluation.raters.signature)
    if scores.clock is not None:
        new.update(line for lines in scores.clock.scope_signatures.values() for line in lines.values())
    return not old <= new


def _signatures(path: Path) -> Iterator[str]:
    """Of the leaderboards of all metrics; each begins with its metric's name."""
    if path.exists():
        yield from (str(board["signature"]) for board in _read(path)["metrics"].values())


def _clean_signatures(path: Path) -> Iterator[str]:
    """Of the leaderboards by papers that have any row."""
    if path.exists() and (clock := _read(path)["contamination"]):
        there = {(row["metric"], row["scope"]) for row in clock["scores"]}
        yield from (str(clock["scope_signatures"][metric][scope]) for metric, scope in there)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def free_name(folder: Path) -> Path:
    """A name beside the folder that nothing has: its own with the study's hash, and a number where that is taken."""
    name = f"{folder.name}-{(noted_fingerprint(folder) or 'before')[:8]}"
    found, number = folder.with_name(name), 1
    while found.exists():
        number += 1
        found = folder.with_name(f"{name}-{number}")
    return found
