"""An edition of GRE-bench: the metrics side by side, reviews written, and the leaderboard on papers nobody had seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldless.reports.documents.scores import ClockNote, EditionDocument, WrittenNote
from goldless.reports.html.blocks import (
    Block,
    Code,
    Fold,
    Section,
    Table,
    counts,
    ends,
    note,
    number,
    sentence,
    signed,
    words,
)
from goldless.reports.html.labels import percent, plural
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column

SCOPES = ("all", "common", "own")
"""Which papers a leaderboard is on."""
AGENT = Column("agent", "agent", "name")


def edition_section(run: RunResults) -> Section | None:
    """The section; None where the run is of no edition."""
    found = run.gre
    if found is None:
        return None
    blocks: list[Block] = [words(*_papers(found)), _side_by_side(run, found), _written(found)]
    if found.contamination is not None:
        blocks += _clock(found.contamination)
    return Section("edition", "The edition", tuple(blocks))


def _papers(found: EditionDocument) -> Iterator[str]:
    yield f"{plural(found.papers, 'paper')} of {found.source}, each review held against the references. "
    if found.left_out:
        yield f"Left out when collecting: {_counted(found.left_out)}."


def _side_by_side(run: RunResults, found: EditionDocument) -> Table:
    """Agents by the first metric, every metric beside the others; last those without any review."""
    columns = [AGENT]
    rows: dict[str, dict[str, Any]] = {}
    for place, (metric, board) in enumerate(run.boards.items()):
        columns.append(number(f"score{place}", metric, 2))
        columns.append(ends(percent(board.level), 2, name=f"low{place} high{place}"))
        for row in board.rows:
            mine = rows.setdefault(row.agent, {"agent": row.agent})
            mine |= {f"score{place}": row.score, f"low{place}": row.low, f"high{place}": row.high}
    for written in found.written:
        rows.setdefault(written.agent, {"agent": written.agent})
    return Table(("The metrics side by side",), tuple(columns), tuple(rows.values()))


def _written(found: EditionDocument) -> Table:
    columns = (
        AGENT,
        *counts(papers="papers", written="reviews"),
        Column("why", "missing", absent="none"),
        Column("shortened", "papers cut to fit", "count"),
        Column("seen", "noticed in its replies", absent="nothing"),
    )
    rows = tuple(row.cells(why=_counted(row.missing), seen=_noticed(row)) for row in found.written)
    return Table(("Reviews written",), columns, rows)


def _noticed(row: WrittenNote) -> str:
    return _counted(row.flags) if row.noticed is None else ", ".join(row.noticed)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in counts.items())


def _clock(clock: ClockNote) -> Iterator[Block]:
    columns = (
        AGENT,
        Column("cutoff_date", "cut-off", absent="unknown"),
        Column("clean", "papers after", "count", "unknown"),
        Column("dated", "papers with a date", "count"),
        number("share", "share", 2, absent="unknown"),
    )
    agents = tuple(row.cells() for row in clock.agents)
    yield Table(("Papers that became public after an agent's cut-off",), columns, agents)
    for scope in SCOPES:
        rows = tuple(row.cells() for row in clock.scores if row.scope == scope)
        if rows:
            whose = _whose(scope, clock)
            table = Table((f"Scores on {whose}",), _columns(scope, percent(clock.level)), rows)
            lines = (of_metric.get(scope) for of_metric in clock.scope_signatures.values())
            signatures = (Code(line) for line in lines if line)
            yield Fold((f"The leaderboard on {whose}",), (table, *_compared(scope), *signatures))
    yield from (note(sentence(text)) for text in clock.notes)


def _whose(scope: str, clock: ClockNote) -> str:
    if scope == "all":
        return "all papers that an agent has a score on"
    if scope == "common":
        return f"the {plural(len(clock.common), 'paper')} after everybody's cut-off"
    return "each agent's own papers after its cut-off"


def _columns(scope: str, level: str) -> tuple[Column, ...]:
    return (
        Column("metric", "metric", "name"),
        AGENT,
        number("score", "score", 2),
        ends(level, 2),
        signed("difference", "less human", 2, absent="-"),
        Column("difference_low difference_high", level, "signed interval", "-", 2),
        Column("n", "papers", "count"),
        *[number("all_score", "on all papers", 2)] * (scope != "all"),
    )


def _compared(scope: str) -> Iterator[Block]:
    """What to compare where agents stand on different papers."""
    if scope != "common":
        yield note(
            "Agents may stand on different papers here: compare the differences to human, which are taken on the same "
            "papers, not the scores."
        )
