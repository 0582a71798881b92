"""Pages about runs: the list, one run with its leaderboards, its tasks, and its failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import polars as pl
from markupsafe import Markup

from goldless.errors import UserError
from goldless.reports.document import Shown
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import table_html
from goldless.reports.html.charts.svg import element
from goldless.reports.html.labels import decimals_for, label
from goldless.reports.leaderboard import Leaderboard, Leaderboards
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.review import ReviewReport
from goldless.viewer.library import Library, RunSummary
from goldless.viewer.links import Links
from goldless.viewer.rendering import bar, render
from goldless.viewer.task_index import ORDERS, SCOPES, Order, TaskIndex, TaskQuery, paged

FAILURES_A_PAGE = 100
EVERYTHING: Mapping[str, str] = MappingProxyType({})
"""The query that leaves nothing out."""
PLOT = Column("plot", Markup('<span class="hidden">interval plot</span>'))


@dataclass(frozen=True, slots=True)
class Board:
    """A leaderboard as shown."""

    title: str
    table: Markup
    signature: str
    notes: tuple[str, ...] = ()


def run_list(library: Library, links: Links, given: Mapping[str, str] = EVERYTHING) -> str:
    """All runs, or those that match the search."""
    runs, search = library.summaries(), _search(given)
    found = [run for run in runs if _matches(run, search)]
    return render("runs.html", links, runs=found, of=len(runs), search=search, root=library.root.resolve().name)


def progress_list(library: Library, links: Links, given: Mapping[str, str] = EVERYTHING) -> str:
    """Only the table of runs, for repeated updates of the page."""
    search = _search(given)
    return render("_runs.html", links, runs=[run for run in library.summaries() if _matches(run, search)])


def _search(given: Mapping[str, str]) -> str:
    return (given.get("q") or "").strip()[:200]


def _matches(run: RunSummary, search: str) -> bool:
    """Whether every word of the search is in the run's name, study, results, leader or state."""
    said = " ".join(filter(None, (run.name, run.study, *run.results, run.leader, run.state))).casefold()
    return all(word in said for word in search.casefold().split())


def progress_of(library: Library, links: Links, name: str) -> str:
    """The progress of one run, for repeated updates of the page."""
    return render("_progress.html", links, run=RunSummary.of(library.run(name)))


def run_page(library: Library, links: Links, name: str) -> str:
    """One run: progress, leaderboards, reviewers, other results and spending."""
    run = library.run(name)
    index = library.index(run)
    leaderboard, review = run.leaderboard or Leaderboards(), run.review or ReviewReport()

    def board_link(metric: str, agent: str) -> str | None:
        query = {"metric": metric, "agent": agent, "order": "score"}
        return links.tasks(name, query) if metric in index.metrics else None

    return render(
        "run.html",
        links,
        run=RunSummary.of(run),
        index=index,
        boards=list(_boards(leaderboard, review, board_link)),
        no_voters=review.nobody,
        reviewers=[_html(one) for one in (review.reviewers_table(), review.exam_table())] if review.reviewers else [],
        others=[_other(title, result) for title, result in run.others.items()],
        models=leaderboard.models,
        settings=leaderboard.settings,
        failures=[*leaderboard.failures.items(), *review.failures.items()],
        spending=run.made_by.spending,
        problems=run.unreadable,
    )


BoardLink = Callable[[str, str], str | None]
"""The address that lists an agent's tasks under a metric."""


def _boards(leaderboard: Leaderboards, review: ReviewReport, link: BoardLink) -> Iterator[Board]:
    for metric, board in leaderboard.boards.items():
        yield Board(metric, _board_table(metric, board, metric, link), board.signature, board.notes)
    for name, board in review.boards.items():
        title = f"review, {name}"
        table = _board_table(f"review: {review.scale}", board, title, link)
        yield Board(title, table, board.signature, board.notes)


def _board_table(metric: str, board: Leaderboard, caption: str, link: BoardLink) -> Markup:
    found = board.table(full=True)
    ends = min(board.ends, default=0.0), max(board.ends, default=1.0)
    columns = [replace(one, name="link") if one.name == "agent" else one for one in found.columns]
    columns.insert(1 + [one.name for one in columns].index("low high"), PLOT)
    rows = [
        {
            **row,
            "link": agent_link(row["agent"], link(metric, row["agent"])),
            "plot": bar(row["score"], row["low"], row["high"], *ends),
        }
        for row in found.rows
    ]
    return table_html(columns, rows, f"{caption}, in {board.unit}, higher is better", class_="hidden")


def agent_link(agent: str, address: str | None) -> Markup | str:
    """An agent's name, as a link if there is an address."""
    return agent if address is None else element("a", element("bdi", label(agent)), href=address)


def tag(text: str, kind: str) -> Markup:
    """A word on a coloured background."""
    return element("span", text, class_=f"tag {kind}".strip())


def _other(name: str, result: Shown) -> dict[str, Any]:
    """A result of another verb: what it says, and its tables."""
    said = [in_text(one, label) for one in result.findings()]
    return {
        "title": name.replace("_", " ").capitalize(),
        "findings": said,
        "tables": [_html(table) for table in result.tables()],
    }


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
    if agent is not None and agent not in index.agent_names:
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


def page_number(given: str | None) -> int:
    """A page number; 1 if it cannot be read."""
    return int(given) if given and given.isascii() and given.isdigit() and len(given) < 9 and int(given) > 0 else 1


def as_address(query: TaskQuery, index: TaskIndex) -> dict[str, object]:
    """The query as in an address."""
    usual = _usual_order(index, query.metric, query.agent)
    default = query.order == usual and query.descending == (usual == "disagreement")
    return {
        "metric": query.metric,
        "agent": query.agent,
        "failure": query.failure,
        "missing": "1" if query.missing else None,
        "low": query.low,
        "high": query.high,
        "q": query.search,
        "in": None if query.scope == "texts" else query.scope,
        "order": None if default else query.order,
        "down": "1" if query.descending and not default else None,
        "page": None if query.page == 1 else query.page,
    }


def tasks_page(library: Library, links: Links, name: str, given: Mapping[str, str], *, most: int | None = None) -> str:
    """The tasks of a run; ``most``: at most this many, for a static site."""
    run = library.run(name)
    index = library.index(run)
    query = read_query(given, index)
    if most is not None:
        query = replace(query, size=most, order="task", descending=False)
    found = index.page(query)
    texts: dict[str, str] = {}
    if not links.live:
        texts = {str(row["task"]): _haystack(index, str(row["task"])) for row in found.rows}
    agent_number = None if query.agent is None else index.agent_names.index(query.agent)
    return render(
        "tasks.html",
        links,
        run=RunSummary.of(run),
        index=index,
        query=query,
        agent_number=agent_number,
        agent_numbers=index.agent_numbers,
        found=found,
        address=as_address(replace(query, page=1), index),
        pairwise=index.pairwise(query.metric),
        decimals=decimals_for(row[name] for row in found.rows for name in ("score", "low", "high")),
        texts=texts,
        of=len(index.tasks),
    )


def _haystack(index: TaskIndex, task: str) -> str:
    """The text that a static site's search looks through."""
    texts = [index.tables.task(task).prompt or "", *index.tables.responses(task).values()]
    return "\n".join(text[:20_000] for text in texts if text is not None)


# --- failures --------------------------------------------------------------------------------------------------------


def failures_page(library: Library, links: Links, name: str, given: Mapping[str, str]) -> str:
    """The failures of a run and their causes, one page of them."""
    run = library.run(name)
    index = library.index(run)
    kind = given.get("kind") or None
    if kind is not None and kind not in index.kinds:
        raise UserError(f"no failure of kind {kind!r} in this run. Kinds: {', '.join(index.kinds) or 'none'}")
    counts = index.failures.group_by("table", "kind").agg(pl.col("count").sum()).sort("table", "kind")
    total = int(index.failures.filter(kind is None or pl.col("kind") == kind)["count"].sum())
    page, pages, begin = paged(total, page_number(given.get("page")), FAILURES_A_PAGE)
    return render(
        "failures.html",
        links,
        run=RunSummary.of(run),
        counts=counts.to_dicts(),
        kind=kind,
        rows=_failed(index, kind, begin),
        total=total,
        page=page,
        pages=pages,
        numbers=index.numbers,
        agents=index.agent_numbers,
    )


def _failed(index: TaskIndex, kind: str | None, begin: int) -> list[dict[str, Any]]:
    """Failed rows of all tables, one table after the other."""
    found: list[dict[str, Any]] = []
    for table in dict.fromkeys(index.failures["table"]):
        frame, columns = index.tables.scan(table), index.tables.columns(table)
        if frame is None:
            continue
        failed = pl.col("failure").is_not_null() if kind is None else pl.col("failure") == kind
        counted = index.failures.filter(pl.col("table") == table)
        here = int(counted.filter(kind is None or pl.col("kind") == kind)["count"].sum())
        if begin < here:
            wanted = [name for name in columns if name not in {"logprobs_nats", "text"}]
            rows = frame.select("failure").with_row_index("row").filter(failed)
            some = rows.slice(begin, FAILURES_A_PAGE - len(found)).collect()["row"].to_list()
            found += [{"table": table, **row} for row in index.tables.at(table, some, wanted).iter_rows(named=True)]
        begin = max(0, begin - here)
        if len(found) >= FAILURES_A_PAGE:
            break
    return found
