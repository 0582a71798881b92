"""Results that new ones would replace: told by their signatures, and kept under a free name."""

from __future__ import annotations

import json
from pathlib import Path

from goldless.runs.evaluation import Evaluation
from goldless.runs.store import noted_fingerprint

BOARD = "leaderboard.json"


def would_lose(folder: Path, evaluation: Evaluation) -> bool:
    """Whether the run folder holds results that would be gone if these were written into it.

    They are there again where every metric of before comes with the same signature; a leaderboard that cannot be read
    is kept as well.
    """
    before = noted_fingerprint(folder)
    if before is not None and before != evaluation.fingerprint:
        return True
    try:
        found = json.loads((folder / BOARD).read_text(encoding="utf-8"))
        old = {str(metric): str(board["signature"]) for metric, board in found["metrics"].items()}
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return True
    new = {name: outcome.signature for name, outcome in evaluation.outcomes.items()}
    if evaluation.raters is not None:
        new[evaluation.raters.metric] = evaluation.raters.signature
    return any(new.get(metric) != signature for metric, signature in old.items())


def free_name(folder: Path) -> Path:
    """A name beside the folder that nothing has: its own with the study's hash, and a number where that is taken."""
    name = f"{folder.name}-{(noted_fingerprint(folder) or 'before')[:8]}"
    found, number = folder.with_name(name), 1
    while found.exists():
        number += 1
        found = folder.with_name(f"{name}-{number}")
    return found
