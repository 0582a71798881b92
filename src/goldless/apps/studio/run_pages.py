"""Pages about runs: the list, one run with its results, its tasks, and its failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
from markupsafe import Markup

from goldless import Leaderboard
from goldless.apps.studio.rendering import PLOT, bar, linked, page_number
from goldless.apps.studio.site import RunSummary, Site
from goldless.apps.studio.task_index import ORDERS, SCOPES, Page, TaskIndex
from goldless.errors import UserError
from goldless.reports.html.blocks import inline, table_html
from goldless.reports.html.page import run_summary

FAILURES_A_PAGE = 100
ASKED = ("metric", "agent", "failure", "missing", "low", "high", "q", "in", "order", "down")
"""Parameters of an address of tasks, besides the page."""
Given = Mapping[str, str]


def run_list(site: Site, given: Given, *, template: str = "runs.html") -> str:
    """All runs, or those of which every word of the search is in the name, study, results, leader or state."""
    runs, search = site.summaries(), (given.get("q") or "").strip()[:200]

    def matches(run: RunSummary) -> bool:
        said = " ".join(
            filter(None, (run.name, run.study, *run.results, run.leader and run.leader.agent, run.state))
        ).casefold()
        return all(word in said for word in search.casefold().split())

    found = [run for run in runs if matches(run)]
    return site.page(template, runs=found, of=len(runs), search=search, root=site.root.resolve().name)


def run_page(site: Site, _: Given, name: str) -> str:
    """One run: progress, leaderboards, reviewers, other results and spending."""
    index = site.indexed(name)
    run = index.run
    leaderboard, review = run.leaderboard_or_empty, run.review_or_empty
    boards = [(metric, metric, board) for metric, board in leaderboard.boards.items()]
    boards += [(f"review: {kind}", f"review: {review.scale}", board) for kind, board in review.boards.items()]
    verdict, ranking = run_summary(run)
    return site.page(
        "run.html",
        index,
        verdict=verdict,
        ranking=ranking,
        boards=[(title, _board(site, index, title, metric, board), board) for title, metric, board in boards],
        no_voters=review.nobody,
        reviewers=[*[review.reviewers_table()] * bool(review.reviewers), *[review.exam_table()] * bool(review.exams)],
        others={name.replace("_", " ").capitalize(): result for name, result in run.others.items()},
        finding=inline,
        table=lambda one: table_html(one.columns, one.rows, one.title),
        models=leaderboard.models,
        settings=leaderboard.settings,
        failures=[*leaderboard.failures.items(), *review.failures.items()],
        spending=run.made_by.spending,
        problems=run.unreadable,
    )


def _board(site: Site, index: TaskIndex, title: str, metric: str, board: Leaderboard) -> Markup:
    """The board's own table, with a plot, and with links from agents to their tasks by score."""
    found = board.table(beaten="ranks", full=True)
    ends = min(board.ends, default=0.0), max(board.ends, default=1.0)
    columns = [replace(one, name="link") if one.name == "agent" else one for one in found.columns]
    columns.insert(1 + [one.name for one in columns].index("low high"), PLOT)
    rows = []
    for row in found.rows:
        query = {"metric": metric, "agent": row["agent"], "order": "score"}
        address = site.links.to("tasks", index.run.name, **query) if metric in index.metrics else None
        plot = bar(row["score"], row["low"], row["high"], *ends)
        rows.append({**row, "link": linked(row["agent"], address), "plot": plot})
    return table_html(columns, rows, f"{title}, in {board.scale}", class_="hidden")


# --- tasks -----------------------------------------------------------------------------------------------------------


def read_query(given: Given, index: TaskIndex) -> dict[str, Any]:
    """The query in an address, as ``TaskIndex.page`` takes it; an error says what is allowed."""

    def bound(name: str) -> float | None:
        text = (given.get(name) or "").strip()
        try:
            value = float(text.replace("\u2212", "-")) if text else 0.0
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UserError(f"the {name} score limit must be a number, got {text[:40]!r}")
        return value if text else None

    metric, agent = index.metric(given.get("metric")), index.agent(given.get("agent"))
    # a pairwise review is listed by disagreement: the mean over agents is the same for all tasks
    usual = "disagreement" if agent is None and index.pairwise(metric) else "task"
    order, scope, failure = given.get("order") or usual, given.get("in") or "texts", given.get("failure") or None
    causes = (None, "any", "none", *index.kinds)
    for name, value, allowed in (("order", order, ORDERS), ("in", scope, SCOPES), ("failure", failure, causes)):
        if value not in allowed:
            raise UserError(f"{name} must be one of {', '.join(filter(None, allowed))}, got {value!r}")
    return {
        "metric": metric,
        "agent": agent,
        "failure": failure,
        "missing": bool(given.get("missing")),
        "low": bound("low"),
        "high": bound("high"),
        "search": (given.get("q") or "")[:200],
        "scope": scope,
        "order": order,
        "descending": given.get("down") == "1" if given.get("order") else order == "disagreement",
        "page": page_number(given.get("page")),
    }


def tasks_page(site: Site, given: Given, name: str) -> str:
    """The tasks of a run."""
    index = site.indexed(name)
    query = read_query(given, index)
    found, metric, agent = index.page(**query), query["metric"], query["agent"]
    scores = index.scores.filter(pl.col("metric") == (metric or ""))["score"]
    return site.page(
        "tasks.html",
        index,
        query=query,
        agent_number=None if agent is None else index.agent_numbers[agent],
        found=found,
        ends=(scores.min() or 0.0, scores.max() or 1.0),
        address={key: value for key, value in given.items() if key in ASKED and value},
        pairwise=index.pairwise(metric),
    )


# --- failures --------------------------------------------------------------------------------------------------------


def failures_page(site: Site, given: Given, name: str) -> str:
    """The failures of a run and their causes, one page of them."""
    index, kind = site.indexed(name), given.get("kind") or None
    if kind is not None and kind not in index.kinds:
        raise UserError(f"no failure of kind {kind!r} in this run. Kinds: {', '.join(index.kinds) or 'none'}")
    counts = index.failures.group_by("table", "kind").agg(pl.len().alias("count")).sort("table", "kind").to_dicts()
    chosen = index.failures.filter(kind is None or pl.col("kind") == kind)
    found = Page.of(chosen, page_number(given.get("page")), FAILURES_A_PAGE)
    return site.page("failures.html", index, counts=counts, kind=kind, found=found)
