"""What the journal knows of a model: how many tokens, dollars and seconds its calls have taken."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from goldless.models.interface import ModelIdentity

TOTALS = (
    "select models.model, identity, count(*), sum(input_tokens + output_tokens), sum(cost_usd), count(cost_usd) "
    "from calls join models on models.model = calls.model group by models.model"
)
TIMES = (
    "select max(attempts.started_at), calls.created_at from calls join attempts on attempts.key = calls.key "
    "where calls.model = ? and attempts.started_at <= calls.created_at group by calls.key"
)


@dataclass(frozen=True, slots=True)
class Pace:
    """All calls of one model that a journal holds, whatever they were made for."""

    calls: int
    tokens: int
    usd: float | None
    """None: the price of some was unknown."""
    seconds: float | None
    """Time in which at least one call was under way; None: not noted."""


def journal_paces(path: Path) -> dict[str, Pace]:
    """The pace of each model in a journal, by the model's short name; nothing where there is no such journal."""
    if not path.is_file():
        return {}
    try:
        journal = sqlite3.connect(f"file:{path.resolve().as_posix()}?mode=ro", uri=True)
        try:
            return {
                ModelIdentity(**json.loads(identity)).short: Pace(
                    calls, tokens, usd if priced == calls else None, _busy(journal, model)
                )
                for model, identity, calls, tokens, usd, priced in journal.execute(TOTALS).fetchall()
            }
        finally:
            journal.close()
    except (sqlite3.Error, ValueError, TypeError):
        return {}  # a journal that cannot be read tells nothing; whoever writes to it will be told


def _busy(journal: sqlite3.Connection, model: str) -> float | None:
    """Seconds in which at least one call was under way."""
    times = np.array(journal.execute(TIMES, (model,)).fetchall(), dtype=np.float64)
    if not len(times):
        return None
    start, end = times[np.argsort(times[:, 0])].T
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])
    return float(np.maximum(0.0, end - np.maximum(start, reached)).sum())
