"""A GRE-bench edition: metrics side by side, reviews written, and the leaderboard on papers newer than every cutoff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from goldless.reports.html.blocks import (
    Block,
    Code,
    Fold,
    Table,
    counts,
    ends,
    names,
    note,
    number,
    remarks,
    section,
    signed,
    texts,
    words,
)
from goldless.reports.html.labels import percent, plural
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder

SCOPES = ("all", "common", "own")
"""Sets of papers that a leaderboard can use."""
AGENT = Column("agent", "agent", "name")
WRITTEN_COLUMNS = (
    AGENT,
    *counts(papers="papers", written="reviews"),
    *texts("none", why="missing"),
    *counts(shortened="papers cut off"),
    *texts("nothing", seen="noticed in replies"),
)
CLOCK_COLUMNS = (
    AGENT,
    *texts("unknown", cutoff_date="cutoff"),
    *counts("unknown", clean="papers after cutoff"),
    *counts(dated="dated papers"),
    number("share", "share", 2, absent="unknown"),
)


Rows = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ClockNote:
    """Which agents cannot have seen which papers."""

    common: tuple[str, ...] = ()
    agents: Rows = ()
    scores: Rows = ()
    """Scores of agents on the papers of a scope."""
    level: float = 0.9
    scope_signatures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredNote:
    """The pre-registration of an edition."""

    hash: str = ""
    date: str = ""
    changed: tuple[str, ...] = ()
    """Parts of the edition that are not as registered."""


@dataclass(frozen=True, slots=True)
class HoldingNote:
    """Whether scores hold under hidden instructions."""

    metric: str = ""
    level: float = 0.9
    agents: Rows = ()


@dataclass(frozen=True, slots=True)
class SubmissionsNote:
    """The best submission of each team."""

    level: float = 0.9
    teams: Rows = ()


@dataclass(frozen=True, slots=True)
class EditionDocument:
    """``gre.json``."""

    source: str = ""
    demonstration: str | None = None
    papers: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    written: Rows = ()
    """How many reviews each agent has written."""
    contamination: ClockNote | None = None
    preregistered: RegisteredNote | None = None
    injected: HoldingNote | None = None
    submissions: SubmissionsNote | None = None


@section("edition", "The edition")
def edition_section(run: RunFolder) -> Iterator[Block]:
    """The edition and its leaderboards; None if the run is not an edition."""
    found = run.gre
    if found is None:
        return
    left_out = f"Left out when collecting: {_counted(found.left_out)}." if found.left_out else ""
    papers = f"{plural(found.papers, 'paper')} from {found.source}"
    yield words(f"{papers}. Each review is compared with the reference reviews. {left_out}")
    yield _side_by_side(run, found)
    yield Table("Reviews written", WRITTEN_COLUMNS, [_written(row) for row in found.written])
    if found.contamination is not None:
        yield from _clock(found.contamination)
    yield from _public(found)


def _public(found: EditionDocument) -> Iterator[Block]:
    """What a public board shows: the pre-registration, hidden instructions, and the best of each team."""
    if (registered := found.preregistered) is not None:
        changed = f"Changed since: {', '.join(registered.changed)}." if registered.changed else "Unchanged since."
        yield words(f"Preregistered {registered.date[:10]}, hash {registered.hash}. {changed}")
    columns: tuple[Column, ...]
    if (held := found.injected) is not None:
        columns = (
            AGENT,
            number("clean", held.metric, 2),
            signed("difference", "with instruction", 2, absent="missing"),
            Column("low high", percent(held.level), "signed interval", "-", 2),
            *counts(n="papers", reviews="reviews", obeyed="obeyed"),
            *texts("unknown", verdict="score"),
        )
        yield Table("Papers with hidden instructions, which are not in the ranking", columns, held.agents)
    if (submitted := found.submissions) is not None:
        columns = (
            *names(metric="metric", team="team"),
            *counts(submissions="submissions"),
            *texts("none is complete", best="best"),
            number("corrected", "corrected for the choice", 2),
            ends(percent(submitted.level), 2),
            number("score", "as scored", 2),
        )
        yield Table("The best submission of each team", columns, submitted.teams)


def _side_by_side(run: RunFolder, found: EditionDocument) -> Table:
    """All metrics, one row per agent, sorted by the first metric; agents without reviews come last."""
    columns = [AGENT]
    rows: dict[str, dict[str, Any]] = {}
    for place, (metric, board) in enumerate(run.boards.items()):
        columns.append(number(f"score{place}", metric, 2))
        columns.append(ends(percent(board.level), 2, name=f"low{place} high{place}"))
        for row in board.rows:
            mine = rows.setdefault(row.agent, {"agent": row.agent})
            mine |= {f"score{place}": row.score, f"low{place}": row.low, f"high{place}": row.high}
    for written in found.written:
        rows.setdefault(written["agent"], {"agent": written["agent"]})
    return Table("The metrics side by side", columns, [*rows.values()])


def _written(row: Mapping[str, Any]) -> dict[str, Any]:
    seen = ", ".join(row["noticed"]) if row.get("noticed") is not None else _counted(row.get("flags") or {})
    return {**row, "why": _counted(row.get("missing") or {}), "seen": seen}


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in counts.items())


def _clock(clock: ClockNote) -> Iterator[Block]:
    yield Table("Papers published after each agent's cutoff", CLOCK_COLUMNS, clock.agents)
    for scope in SCOPES:
        rows = [row for row in clock.scores if row.get("scope") == scope]
        if rows:
            whose = _whose(scope, clock)
            table = Table(f"Scores on {whose}", _columns(scope, percent(clock.level)), rows)
            lines = (of_metric.get(scope) for of_metric in clock.scope_signatures.values())
            signatures = (Code(line) for line in lines if line)
            yield Fold(f"The leaderboard on {whose}", (table, *_compared(scope), *signatures))
    yield from remarks(clock.notes)


def _whose(scope: str, clock: ClockNote) -> str:
    if scope == "all":
        return "all papers that an agent has a score for"
    if scope == "common":
        return f"the {plural(len(clock.common), 'paper')} after every agent's cutoff"
    return "each agent's papers after its own cutoff"


def _columns(scope: str, level: str) -> tuple[Column, ...]:
    return (
        *names(metric="metric"),
        AGENT,
        number("score", "score", 2),
        ends(level, 2),
        signed("difference", "minus human", 2, absent="-"),
        Column("difference_low difference_high", level, "signed interval", "-", 2),
        *counts(n="papers"),
        *[number("all_score", "on all papers", 2)] * (scope != "all"),
    )


def _compared(scope: str) -> Iterator[Block]:
    """What to compare when agents are scored on different papers."""
    if scope != "common":
        yield note(
            "Agents may be scored on different papers here. Compare the differences from human, which use the same "
            "papers, not the scores."
        )
