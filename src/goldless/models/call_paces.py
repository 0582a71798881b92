"""How fast models answered before: calls, tokens, cost and time, by what a journal recorded."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from goldless.files import write_text
from goldless.models.interface import ModelIdentity

Kind = Literal["score", "verdict", "text"]
"""Of calls: a text scored, a few tokens written, more written."""
MEASURED = "doctor.json"
VERDICT_TOKENS = 16
"""The most that a verdict has without an explanation."""
_ONLY = {
    None: "1",
    "score": "calls.kind = 'score'",
    "verdict": f"calls.kind = 'chat' and calls.output_tokens <= {VERDICT_TOKENS}",
    "text": f"calls.kind = 'chat' and calls.output_tokens > {VERDICT_TOKENS}",
}
TOTALS = (
    "select models.model, identity, count(*), sum(input_tokens + output_tokens), sum(cost_usd), count(cost_usd) "
    "from calls join models on models.model = calls.model where {only} group by models.model"
)
TIMES = (
    "select max(attempts.started_at), calls.created_at from calls join attempts on attempts.key = calls.key "
    "where calls.model = ? and attempts.started_at <= calls.created_at and {only} group by calls.key"
)


@dataclass(frozen=True, slots=True)
class Pace:
    """Calls of one model in a journal, for any purpose."""

    calls: int
    tokens: int
    usd: float | None
    """None: the price of some was unknown."""
    seconds: float | None
    """Time in which at least one call was running; None: not recorded."""


def call_paces(path: Path, kind: Kind | None = None) -> Sequence[tuple[ModelIdentity, Pace]]:
    """The calls of each model in a journal, all or those of one kind; empty if there is no such journal."""
    if not path.is_file():
        return ()
    only = _ONLY[kind]
    try:
        journal = sqlite3.connect(f"file:{path.resolve().as_posix()}?mode=ro", uri=True)
        try:
            return [
                (
                    ModelIdentity(**json.loads(identity)),
                    Pace(calls, tokens, usd if priced == calls else None, _busy(journal, model, only)),
                )
                for model, identity, calls, tokens, usd, priced in journal.execute(TOTALS.format(only=only)).fetchall()
            ]
        finally:
            journal.close()
    except (sqlite3.Error, ValueError, TypeError):
        return ()  # a journal that cannot be read tells nothing; whoever writes to it will be told


def seconds_per_call(path: Path, identity: ModelIdentity, kind: Kind) -> float | None:
    """The time of one call, by those to the model so far, as many at once as there were; None: not known."""
    known = [pace for other, pace in call_paces(path, kind) if _same(other, identity) and pace.seconds is not None]
    calls = sum(pace.calls for pace in known)
    return sum(pace.seconds or 0.0 for pace in known) / calls if calls else None


def _same(other: ModelIdentity, identity: ModelIdentity) -> bool:
    """A server is known by its address, or if it names its weights, by the model's name alone."""
    named = (other.provider, other.name) == (identity.provider, identity.name)
    return named and other.settings.get("server") in {identity.settings.get("server"), "own"}


def keep_measured(path: Path, identity: ModelIdentity, seconds: Mapping[Kind, float]) -> None:
    """Keep what single calls to a model took, beside a journal; the last measurement counts."""
    others = [(of, times) for of, times in _measurements(path) if not _same(of, identity)]
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [(of.as_dict(), times) for of, times in [*others, (identity, dict(seconds))]]
    write_text(path.with_name(MEASURED), json.dumps(kept) + "\n")


def measured(path: Path, identity: ModelIdentity) -> dict[Kind, float]:
    """What single calls to a model took when they were measured; empty: they were not."""
    for of, seconds in _measurements(path):
        if _same(of, identity):
            return seconds
    return {}


def _measurements(path: Path) -> list[tuple[ModelIdentity, dict[Kind, float]]]:
    try:
        found = json.loads(path.with_name(MEASURED).read_bytes())
        return [
            (ModelIdentity(**of), {kind: float(times[kind]) for kind in get_args(Kind) if kind in times})
            for of, times in found
        ]
    except (OSError, ValueError, TypeError):
        return []  # not measured, or by another version


def _busy(journal: sqlite3.Connection, model: str, only: str) -> float | None:
    """Seconds in which at least one call was under way."""
    times = np.array(journal.execute(TIMES.format(only=only), (model,)).fetchall(), dtype=np.float64)
    if not len(times):
        return None
    start, end = times[np.argsort(times[:, 0])].T
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])
    return float(np.maximum(0.0, end - np.maximum(start, reached)).sum())
