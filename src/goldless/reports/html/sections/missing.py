"""What is missing: failed calls by cause with an example each, and tasks that could not be scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldless.reports.html.blocks import (
    Block,
    Code,
    Column,
    Figure,
    Fold,
    Name,
    Section,
    Table,
    Term,
    listed,
    note,
    words,
)
from goldless.reports.html.charts.bars import Bar, bar_chart
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import Failed, RunDocuments
from goldless.reports.html.labels import excerpt
from goldless.reports.html.numerals import plural

CAUSES = {
    "bad_reply": "the server's answer could not be used",
    "budget": "not sent: it would have gone over the budget",
    "connection": "no connection to the server",
    "no_synopsis": "the task has no synopsis of that name",
    "not_recorded": "the study does not carry it, and no model was to be asked",
    "rate_limited": "the server refused for too many requests",
    "refused": "the model declined to answer",
    "rejected": "the server does not take this request",
    "server_error": "the server failed",
    "timeout": "no answer in time",
    "too_long": "the text does not fit the model",
    "truncated": "the reply was cut at its length limit",
    "unparsable": "the reply says no verdict that could be read",
}


def missing_section(run: RunDocuments) -> Section | None:
    """The section; None where nothing is missing."""
    failed = run.failed or tuple(_counted(run))
    problems: Mapping[str, Any] = (run.get("crash_test") or {}).get("problems") or {}
    without = [str(name) for name in (run.get("leaderboard") or {}).get("tasks_without_peers") or ()]
    if not (failed or problems or without):
        return None
    blocks: list[Block] = []
    if failed:
        blocks += [_figure(failed), *_examples(failed)]
    if without:
        many = plural(len(without), "task")
        blocks.append(
            words(f"{many} had fewer than two responses, so nothing could be compared: ", *listed(without, 12), ".")
        )
    if problems:
        rows = tuple({"what": what, "count": times} for what, times in problems.items())
        columns = (Column("what", "what"), Column("count", "times", "count"))
        blocks.append(Table(("Missing in the crash test",), columns, rows))
    return Section("missing", "What is missing", tuple(blocks))


def _counted(run: RunDocuments) -> Iterator[Failed]:
    """Counts alone, where the folder holds no evidence."""
    for name, what in (("leaderboard", "answers the metrics rest on"), ("review", "judgements and exam answers")):
        for cause, times in ((run.get(name) or {}).get("failures") or {}).items():
            yield Failed(what, str(cause), int(times), "", "", None)


def _figure(failed: tuple[Failed, ...]) -> Figure:
    bars = [Bar(f"{row.what}: {row.cause.replace('_', ' ')}", row.count, f"{row.count:,}") for row in failed]
    rows = [
        {"what": row.what, "cause": row.cause, "meaning": CAUSES.get(row.cause), "count": row.count} for row in failed
    ]
    columns = (
        Column("what", "what"),
        Column("cause", "cause"),
        Column("meaning", "meaning", absent=""),
        Column("count", "missing", "count"),
    )
    return Figure(
        "missing",
        ("Missing evidence by cause",),
        ("What is ", Term("missing"), " is left out of every score; it never counts as zero."),
        pictures(bar_chart, bars, title="Missing evidence by cause"),
        (Table(("Missing evidence",), columns, tuple(rows)),),
    )


def _examples(failed: tuple[Failed, ...]) -> Iterator[Block]:
    for row in failed:
        if row.example is None and not row.task:
            continue
        said = row.example
        yield Fold(
            (f"An example: {row.cause.replace('_', ' ')} among {row.what}",),
            (
                note("Task ", Name(row.task or "unknown"), " · asked of ", Name(row.model or "unknown")),
                Code(excerpt(said)) if said else note("No text was kept."),
            ),
        )
