"""Looking after a journal: checking, counting, forgetting, merging; and how fast models answered before."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from goldless.errors import UserError
from goldless.files import write_text
from goldless.models.interface import ModelIdentity
from goldless.models.journal import DAMAGED, FORMAT, REPLIES, Journal, read_row

TOTALS = (
    "select calls.model, identity, count(*), coalesce(sum(input_tokens + output_tokens), 0), "
    "case when count(cost_usd) = count(*) then sum(cost_usd) end, coalesce(sum(estimated), 0), "
    "min(created_at), max(created_at) from calls left join models using (model) group by calls.model order by 3 desc"
)
ORPHANS = (
    "delete from bodies where hash not in "
    "(select json_extract(request, '$.context') from calls where kind = 'score' and json_valid(request))"
)
CHOSEN = (
    "where (:hashes is null or model in (select value from json_each(:hashes))) "
    "and (:before is null or created_at < :before)"
)


@dataclass(frozen=True, slots=True)
class Soundness:
    """The result of a check."""

    replies: int
    """As they were stored."""
    damaged: int
    problems: tuple[str, ...]
    """Damage of the file itself, as SQLite words it."""


@dataclass(frozen=True, slots=True)
class ModelTotal:
    """The replies of one model in a journal."""

    model: str
    calls: int
    tokens: int
    cost_usd: float | None
    """None: the price of some calls was not known."""
    estimated: int
    """Of the calls, those booked at the most they can cost."""
    first: float
    last: float
    """When the first and the last reply came, in seconds since 1970."""


def check_journal(path: Path) -> Soundness:
    """Look at every reply of a journal and at the file itself; nothing is changed."""
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give the path of a journal")
    problems: list[str] = []
    counts = {True: 0, False: 0}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as journal:
            problems += [str(line) for (line,) in journal.execute("pragma integrity_check(20)") if line != "ok"]
            for row in journal.execute(REPLIES):
                counts[read_row(row) is not None] += 1
    except DAMAGED as error:
        problems.append(str(error))
    return Soundness(counts[True], counts[False], tuple(problems))


def model_totals(journal: Journal) -> list[ModelTotal]:
    """Calls, tokens and cost by model, the most called one first; a model without a readable identity by its hash."""
    return [ModelTotal(_short(model, identity), *counts) for model, identity, *counts in journal.rows(TOTALS)]


def forget(journal: Journal, *, model: str | None, before: float | None, dry_run: bool) -> tuple[int, float]:
    """Delete replies of a model, or those stored before a moment, or both; returns their number and what they cost."""
    hashes = [found for found, identity in journal.rows("select * from models") if _short(found, identity) == model]
    if model is not None and not hashes:
        known = ", ".join(sorted(one.model for one in model_totals(journal)))
        raise UserError(f"the journal has no replies of {model!r}. It has replies of: {known or 'no model'}")
    chosen = {"hashes": None if model is None else json.dumps(hashes), "before": before}
    with journal.transaction() as run:
        total = f"select count(*), coalesce(sum(cost_usd), 0) from calls {CHOSEN}"  # noqa: S608 - only our words
        count, usd = run.execute(total, chosen).fetchone()
        if not dry_run:
            for table in ("calls", "failures"):
                run.execute(f"delete from {table} {CHOSEN}", chosen)  # noqa: S608 - only our words
            run.execute("delete from attempts where key not in (select key from calls)")
            run.execute(ORPHANS)
            if before is None:
                run.executemany("delete from canaries where model = ?", [(one,) for one in hashes])
    return int(count), float(usd)


def merge(journal: Journal, path: Path) -> tuple[int, int]:
    """Take over the replies of another journal, all or none: how many were added, and how many were there already."""
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give the path of a journal")
    if path.resolve() == journal.path.resolve():
        raise UserError(f"{path} is the journal itself. Give another journal")
    try:
        journal.rows("attach ? as other", f"{path.resolve().as_uri()}?mode=ro")
        ((found,),) = journal.rows("pragma other.user_version")
        if found != FORMAT:
            raise UserError(f"it has format {found}, this version of goldless reads format {FORMAT}")  # noqa: TRY301
        with journal.transaction() as run:
            for table in ("models", "bodies", "canaries", "calls"):
                added = run.execute(
                    f"insert into main.{table} select * from other.{table} where true on conflict do nothing"  # noqa: S608 - fixed names
                ).rowcount
            (replies,) = run.execute("select count(*) from other.calls").fetchone()
        journal.rows("detach other")
    except UserError as error:
        raise UserError(
            f"{path}: cannot be merged, and nothing was added ({error.__cause__ or error}). If it is damaged, save "
            f"what can be read and merge that: sqlite3 {path.name} .recover | sqlite3 saved"
        ) from error
    return added, replies - added


def _short(model: str, identity: str | None) -> str:
    """The short name of a model, or its hash where the journal does not have it."""
    try:
        return ModelIdentity(**json.loads(identity or "")).short
    except (ValueError, TypeError):
        return model


# --- how fast models answered ----------------------------------------------------------------------------------------

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
class CallPace:
    """Calls of one model in a journal, for any purpose."""

    calls: int
    tokens: int
    usd: float | None  # None: the price of some was unknown
    seconds: float | None  # time in which at least one call was running; None: not recorded


def call_paces(path: Path, kind: Kind | None = None) -> Sequence[tuple[ModelIdentity, CallPace]]:
    """The calls of each model in a journal, all or those of one kind; empty if there is no such journal."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as journal:
            found = journal.execute(PACES, {"kind": kind or "%"}).fetchall()
        return [(ModelIdentity(**json.loads(identity)), CallPace(*counts)) for identity, *counts in found]
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
