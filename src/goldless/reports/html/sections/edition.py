"""An edition of GRE-bench: the metrics side by side, reviews written, and the leaderboard on papers nobody had seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldless.reports.html.blocks import Block, Code, Column, Fold, Section, Table, note, sentence, words
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import number, percent, plural

Row = Mapping[str, Any]
SCOPES = ("all", "common", "own")
"""Which papers a leaderboard is on."""


def edition_section(run: RunDocuments) -> Section | None:
    """The section; None where the run is of no edition."""
    found = run.get("gre")
    if found is None:
        return None
    blocks: list[Block] = [words(*_papers(found)), _side_by_side(run), _written(found)]
    clock = found.get("contamination")
    if clock is not None:
        blocks += _clock(clock)
    return Section("edition", "The edition", tuple(blocks))


def _papers(found: Row) -> Iterator[str]:
    yield f"{plural(int(found['papers']), 'paper')} of {found['source']}, each review held against the references. "
    if found.get("left_out"):
        reasons = ", ".join(f"{count} {str(reason).replace('_', ' ')}" for reason, count in found["left_out"].items())
        yield f"Left out when collecting: {reasons}."


def _side_by_side(run: RunDocuments) -> Table:
    """Agents by the first metric, every metric beside the others; last those without any review."""
    columns = [Column("agent", "agent", "name")]
    rows: dict[str, dict[str, Any]] = {}
    for place, (metric, board) in enumerate(run.boards.items()):
        level = percent(float(board.get("level", 0.9)))
        columns += [
            Column(f"score{place}", metric, "number", 2),
            Column(f"low{place}", f"{level} low", "number", 2, absent="none"),
            Column(f"high{place}", "high", "number", 2, absent="none"),
        ]
        for row in board["rows"]:
            mine = rows.setdefault(str(row["agent"]), {"agent": row["agent"]})
            mine |= {f"{key}{place}": number(row, key) for key in ("score", "low", "high")}
    for row in (run.get("gre") or {}).get("written") or ():
        rows.setdefault(str(row["agent"]), {"agent": row["agent"]})
    return Table(("The metrics side by side",), tuple(columns), tuple(rows.values()))


def _written(found: Row) -> Table:
    columns = (
        Column("agent", "agent", "name"),
        Column("papers", "papers", "count"),
        Column("written", "reviews", "count"),
        Column("why", "missing", absent="none"),
        Column("shortened", "papers cut to fit", "count"),
        Column("noticed", "noticed in its replies", absent="nothing"),
    )
    rows = [{**row, "why": _counted(row["missing"]), "noticed": _noticed(row)} for row in found.get("written") or ()]
    return Table(("Reviews written",), columns, tuple(rows))


def _noticed(row: Row) -> str:
    # results of before say it by codes alone
    return ", ".join(row["noticed"]) if "noticed" in row else _counted(row["flags"])


def _counted(counts: Row) -> str:
    return ", ".join(f"{count} {str(what).replace('_', ' ')}" for what, count in counts.items())


def _clock(clock: Row) -> Iterator[Block]:
    agents = (
        Column("agent", "agent", "name"),
        Column("cutoff_date", "cut-off", absent="unknown"),
        Column("clean", "papers after", "count", absent="unknown"),
        Column("dated", "papers with a date", "count"),
        Column("share", "share", "number", 2, absent="unknown"),
    )
    yield Table(("Papers that became public after an agent's cut-off",), agents, tuple(clock["agents"]))
    for scope in SCOPES:
        rows = tuple(row for row in clock["scores"] if row["scope"] == scope)
        if rows:
            whose = _whose(scope, clock)
            table = Table((f"Scores on {whose}",), _columns(scope, clock), rows)
            yield Fold((f"The leaderboard on {whose}",), (table, *_compared(scope), *_signatures(scope, clock)))
    yield from (note(sentence(text)) for text in clock.get("notes") or ())


def _signatures(scope: str, clock: Row) -> Iterator[Block]:
    lines = (of_metric.get(scope) for of_metric in (clock.get("scope_signatures") or {}).values())
    yield from (Code(str(line)) for line in lines if line)


def _whose(scope: str, clock: Row) -> str:
    if scope == "all":
        return "all papers that an agent has a score on"
    if scope == "common":
        return f"the {plural(len(clock['common']), 'paper')} after everybody's cut-off"
    return "each agent's own papers after its cut-off"


def _columns(scope: str, clock: Row) -> tuple[Column, ...]:
    level = percent(float(clock.get("level", 0.9)))
    columns = (
        Column("metric", "metric", "name"),
        Column("agent", "agent", "name"),
        Column("score", "score", "number", 2),
        Column("low", f"{level} low", "number", 2, absent="none"),
        Column("high", "high", "number", 2, absent="none"),
        Column("difference", "less human", "signed", 2, absent="-"),
        Column("difference_low", f"{level} low", "signed", 2, absent="-"),
        Column("difference_high", "high", "signed", 2, absent="-"),
        Column("n", "papers", "count"),
    )
    return columns if scope == "all" else (*columns, Column("all_score", "on all papers", "number", 2))


def _compared(scope: str) -> Iterator[Block]:
    """What to compare where agents stand on different papers."""
    if scope != "common":
        yield note(
            "Agents may stand on different papers here: compare the differences to human, which are taken on the same "
            "papers, not the scores."
        )
