"""Pages about runs: the list, one run with its results, its tasks, and its failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
from markupsafe import Markup

from goldless.apps.studio.viewer.library import Library, RunSummary
from goldless.apps.studio.viewer.links import Links
from goldless.apps.studio.viewer.rendering import PLOT, bar, linked, page_number, render
from goldless.apps.studio.viewer.task_index import (
    ORDERS,
    SCOPES,
    TOKEN_VALUES,
    Order,
    Page,
    TaskIndex,
    TaskQuery,
    scanned,
)
from goldless.errors import UserError
from goldless.reports.controls import direction
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import table_html
from goldless.reports.html.labels import decimals_for, label
from goldless.reports.html.page import drawn
from goldless.reports.html.sections.ranking import ranking_table
from goldless.reports.html.sections.verdict import verdict_blocks
from goldless.reports.leaderboard import Leaderboard, Leaderboards
from goldless.reports.report_table import ReportTable
from goldless.reports.review import ReviewReport

FAILURES_A_PAGE = 100
ASKED = ("metric", "agent", "failure", "missing", "low", "high", "q", "in", "order", "down")
"""What an address of tasks may ask for, besides the page."""


def run_list(library: Library, links: Links, given: Mapping[str, str], *, template: str = "runs.html") -> str:
    """All runs, or those that match the search."""
    runs, search = library.summaries(), (given.get("q") or "").strip()[:200]
    found = [run for run in runs if _matches(run, search)]
    return render(template, links, runs=found, of=len(runs), search=search, root=library.root.resolve().name)


def _matches(run: RunSummary, search: str) -> bool:
    """Whether every word of the search is in the run's name, study, results, leader or state."""
    said = " ".join(filter(None, (run.name, run.study, *run.results, run.leader, run.state))).casefold()
    return all(word in said for word in search.casefold().split())


def progress_of(library: Library, links: Links, _: Mapping[str, str], name: str) -> str:
    """The progress of one run, for repeated updates of the page."""
    return render("_progress.html", links, run=RunSummary.of(library.run(name)))


def run_page(library: Library, links: Links, _: Mapping[str, str], name: str) -> str:
    """One run: progress, leaderboards, reviewers, other results and spending."""
    run = library.run(name)
    index = library.index(run)
    leaderboard, review = run.leaderboard or Leaderboards(), run.review or ReviewReport()
    boards = [(metric, metric, board) for metric, board in leaderboard.boards.items()]
    boards += [(f"review, {kind}", f"review: {review.scale}", board) for kind, board in review.boards.items()]
    return render(
        "run.html",
        links,
        run=RunSummary.of(run),
        index=index,
        verdict=drawn(verdict_blocks(run), bare=True) if run.results else "",
        ranking=drawn([ranking_table(run)], bare=True) if len(run.standings) > 1 else "",
        boards=[(title, _board(links, index, title, metric, board), board) for title, metric, board in boards],
        no_voters=review.nobody,
        reviewers=[_html(one) for one in (review.reviewers_table(), review.exam_table())] if review.reviewers else [],
        others=[
            {
                "title": title.replace("_", " ").capitalize(),
                "findings": [in_text(one, label) for one in result.findings()],
                "tables": [_html(table) for table in result.tables()],
            }
            for title, result in run.others.items()
        ],
        models=leaderboard.models,
        settings=leaderboard.settings,
        failures=[*leaderboard.failures.items(), *review.failures.items()],
        spending=run.made_by.spending,
        problems=run.unreadable,
    )


def _board(links: Links, index: TaskIndex, title: str, metric: str, board: Leaderboard) -> Markup:
    """The board's own table, with a plot, and with links from agents to their tasks by score."""
    found = board.table(beaten="ranks", full=True)
    ends = min(board.ends, default=0.0), max(board.ends, default=1.0)
    columns = [replace(one, name="link") if one.name == "agent" else one for one in found.columns]
    columns.insert(1 + [one.name for one in columns].index("low high"), PLOT)
    rows = []
    for row in found.rows:
        query = {"metric": metric, "agent": row["agent"], "order": "score"}
        address = links.to("tasks", index.run.name, **query) if metric in index.metrics else None
        plot = bar(row["score"], row["low"], row["high"], *ends)
        rows.append({**row, "link": linked(row["agent"], address), "plot": plot})
    return table_html(columns, rows, f"{title}, in {board.unit}, {direction(metric)}", class_="hidden")


def _html(table: ReportTable) -> Markup:
    return table_html(table.columns, table.rows, table.title)


# --- tasks -----------------------------------------------------------------------------------------------------------


def read_query(given: Mapping[str, str], index: TaskIndex) -> TaskQuery:
    """The query in an address; an invalid one raises an error that says what is allowed."""
    metric, agent = given.get("metric") or None, given.get("agent") or None
    usual = _usual_order(index, metric or next(iter(index.metrics), None), agent)
    order, scope = given.get("order") or usual, given.get("in") or "texts"
    for name, value, allowed in (("order", order, ORDERS), ("in", scope, SCOPES)):
        if value not in allowed:
            raise UserError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    if metric is not None and metric not in index.metrics:
        raise UserError(f"no scores of {metric!r} in this run. It has: {', '.join(index.metrics) or 'none'}")
    if agent is not None and agent not in index.agent_numbers:
        raise UserError(f"no agent {agent!r} in this run")
    failure = given.get("failure") or None
    if failure is not None and failure not in {"any", "none", *index.kinds}:
        raise UserError(
            f"failure must be any, none or one of {', '.join(index.kinds) or '(there are none)'}, got {failure!r}"
        )
    return TaskQuery(
        metric=metric or next(iter(index.metrics), None),
        agent=agent,
        failure=failure,
        missing=bool(given.get("missing")),
        low=_bound("low", given.get("low")),
        high=_bound("high", given.get("high")),
        search=(given.get("q") or "")[:200],
        scope=scope,  # type: ignore[arg-type]
        order=order,  # type: ignore[arg-type]
        descending=given.get("down") == "1" if given.get("order") else order == "disagreement",
        page=page_number(given.get("page")),
    )


def _usual_order(index: TaskIndex, metric: str | None, agent: str | None) -> Order:
    """A pairwise review is listed by disagreement: the mean over agents is the same for all tasks."""
    return "disagreement" if agent is None and index.pairwise(metric) else "task"


def _bound(name: str, given: str | None) -> float | None:
    if not given or not given.strip():
        return None
    try:
        value = float(given.replace("\u2212", "-"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"the {name} score limit must be a number, got {given[:40]!r}")
    return value


def tasks_page(library: Library, links: Links, given: Mapping[str, str], name: str, *, most: int | None = None) -> str:
    """The tasks of a run; ``most``: at most this many, for a static site."""
    run = library.run(name)
    index = library.index(run)
    query = read_query(given, index)
    if most is not None:
        query = replace(query, size=most, order="task", descending=False)
    found = index.page(query)
    scores = index.scores.filter(pl.col("metric") == (query.metric or ""))["score"]
    return render(
        "tasks.html",
        links,
        run=RunSummary.of(run),
        index=index,
        query=query,
        agent_number=None if query.agent is None else index.agent_numbers[query.agent],
        found=found,
        ends=(scores.min() or 0.0, scores.max() or 1.0),
        address={key: value for key, value in given.items() if key in ASKED and value},
        pairwise=index.pairwise(query.metric),
        decimals=decimals_for(row[name] for row in found.rows for name in ("score", "low", "high")),
        texts={} if links.live else {row["task"]: _haystack(index, row["task"]) for row in found.rows},
    )


def _haystack(index: TaskIndex, task: str) -> str:
    """The text that a static site's search looks through."""
    texts = [index.task(task).prompt or "", *index.responses(task).values()]
    return "\n".join(text[:20_000] for text in texts if text is not None)


# --- failures --------------------------------------------------------------------------------------------------------


def failures_page(library: Library, links: Links, given: Mapping[str, str], name: str) -> str:
    """The failures of a run and their causes, one page of them."""
    run = library.run(name)
    index = library.index(run)
    kind = given.get("kind") or None
    if kind is not None and kind not in index.kinds:
        raise UserError(f"no failure of kind {kind!r} in this run. Kinds: {', '.join(index.kinds) or 'none'}")
    of_kind = kind is None or pl.col("kind") == kind
    chosen = index.failures.filter(of_kind)
    page = Page.of(range(int(chosen["count"].sum())), page_number(given.get("page")), FAILURES_A_PAGE)
    return render(
        "failures.html",
        links,
        run=RunSummary.of(run),
        index=index,
        counts=index.failures.group_by("table", "kind").agg(pl.col("count").sum()).sort("table", "kind").to_dicts(),
        kind=kind,
        found=page,
        rows=_failed(index, kind, chosen, (page.page - 1) * FAILURES_A_PAGE),
    )


def _failed(index: TaskIndex, kind: str | None, chosen: pl.DataFrame, begin: int) -> list[dict[str, Any]]:
    """A page of failed rows from this one on, one table after the other."""
    found: list[dict[str, Any]] = []
    for table in dict.fromkeys(chosen["table"]):
        here = int(chosen.filter(pl.col("table") == table)["count"].sum())
        frame = scanned(index.run, table)
        if frame is not None and begin < here and len(found) < FAILURES_A_PAGE:
            failed = pl.col("failure").is_not_null() if kind is None else pl.col("failure") == kind
            wanted = [name for name in frame.collect_schema().names() if name not in {TOKEN_VALUES, "text"}]
            rows = frame.select("failure").with_row_index("row").filter(failed)
            at = rows.slice(begin, FAILURES_A_PAGE - len(found)).collect()["row"].to_list()
            near = frame.select(wanted).slice(at[0], at[-1] - at[0] + 1).collect()
            some = near[[row - at[0] for row in at]]
            found += [{"table": table, **row} for row in some.iter_rows(named=True)]
        begin = max(0, begin - here)
    return found
