"""How fast models answered before: calls, tokens, cost and time, by what a journal recorded."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from goldless.files import write_text
from goldless.models.interface import ModelIdentity

Kind = Literal["score", "verdict", "text"]  # of calls: a text scored, a few tokens written, more written
VERDICT_TOKENS = 16  # the most that a verdict has without an explanation
PACES = f"""
with chosen as (
    select *, case when kind = 'score' then 'score' when output_tokens <= {VERDICT_TOKENS} then 'verdict' else 'text'
    end as purpose from calls
), timed as (
    select chosen.model, max(started_at) as began, created_at as ended from chosen join attempts using (key)
    where started_at <= created_at and purpose like :kind group by key
), busy as (
    select model, ended - max(began, coalesce(max(ended) over earlier, began)) as seconds from timed
    window earlier as (partition by model order by began rows between unbounded preceding and 1 preceding)
)
select identity, count(*), sum(input_tokens + output_tokens),
    case when count(cost_usd) = count(*) then sum(cost_usd) end,
    (select sum(max(0.0, seconds)) from busy where busy.model = models.model)
from chosen join models using (model) where purpose like :kind group by models.model
"""  # noqa: S608 - fixed words
"""``busy``: the time that each call adds to that in which those before it were running."""


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
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as journal:
            found = journal.execute(PACES, {"kind": kind or "%"}).fetchall()
        return [(ModelIdentity(**json.loads(identity)), Pace(*counts)) for identity, *counts in found]
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
    others = [(of.as_dict(), times) for of, times in _measurements(path) if not _same(of, identity)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path.with_name("doctor.json"), json.dumps([*others, (identity.as_dict(), dict(seconds))]) + "\n")


def measured(path: Path, identity: ModelIdentity) -> dict[Kind, float]:
    """What single calls to a model took when they were measured; empty: they were not."""
    return next((seconds for of, seconds in _measurements(path) if _same(of, identity)), {})


def _measurements(path: Path) -> list[tuple[ModelIdentity, dict[Kind, float]]]:
    try:
        found = json.loads(path.with_name("doctor.json").read_bytes())
        return [
            (ModelIdentity(**of), {kind: float(times[kind]) for kind in get_args(Kind) if kind in times})
            for of, times in found
        ]
    except (OSError, ValueError, TypeError):
        return []  # not measured, or by another version
