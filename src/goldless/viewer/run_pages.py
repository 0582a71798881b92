"""Pages about runs: the list of them, one with its leaderboards, its tasks, and what failed in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from goldless.errors import UserError
from goldless.viewer.documents import Document, part, rows
from goldless.viewer.library import Library
from goldless.viewer.links import Links
from goldless.viewer.rendering import decimals_for, is_number, render
from goldless.viewer.run_folders import OTHER_RESULTS, RESULTS, RunFolder, crash_rows
from goldless.viewer.task_index import ORDERS, SCOPES, TaskIndex, TaskQuery

FAILURES_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class Board:
    """A leaderboard as it is shown."""

    metric: str
    """As the index of tasks calls it."""
    title: str
    unit: str
    level: float
    rows: Sequence[Document]
    signature: str
    decimals: int
    lowest: float
    highest: float
    notes: tuple[str, ...] = ()

    @property
    def compared(self) -> bool:
        """Whether it says who is better than whom."""
        return any("better_than" in row for row in self.rows)


def run_list(library: Library, links: Links) -> str:
    """All runs."""
    return render("runs.html", links, runs=library.summaries(), root=library.root.resolve().name)


def progress_list(library: Library, links: Links) -> str:
    """The table of runs alone, to be put into the page again and again."""
    return render("_runs.html", links, runs=library.summaries())


def progress_of(library: Library, links: Links, name: str) -> str:
    """How far one run is, to be put into its page again and again."""
    return render("_progress.html", links, run=library.run(name).summary())


def run_page(library: Library, links: Links, name: str) -> str:
    """One run: how far it is, its leaderboards, reviewers, crash test and spending."""
    run = library.run(name)
    index = library.index(run)
    leaderboard, review, crash = (run.document(f"{file}.json") for file in ("leaderboard", "review", "crash_test"))
    return render(
        "run.html",
        links,
        run=run.summary(),
        index=index,
        agents={agent: number for number, agent in enumerate(index.agent_names)},
        boards=[*_boards(leaderboard), *_rankings(review)],
        review=review,
        reviewers=rows(review, "reviewers"),
        traits=list(dict.fromkeys(trait for row in rows(review, "reviewers") for trait in part(row, "traits"))),
        crash=crash_rows(crash),
        others=list(run.others),
        models=part(leaderboard, "models"),
        settings=part(leaderboard, "settings"),
        failures=[(kind, count) for found in (leaderboard, review) for kind, count in part(found, "failures").items()],
        spending=rows(run.document("made_by.json"), "spending"),
        problems=_unreadable(run),
    )


def _boards(leaderboard: Document) -> list[Board]:
    found = []
    for metric, outcome in part(leaderboard, "metrics").items():
        listed = rows(outcome, "rows") if isinstance(outcome, Mapping) else []
        if listed:
            found.append(_board(metric, metric, outcome, listed))
    return found


def _rankings(review: Document) -> list[Board]:
    metric = f"review: {review.get('scale')}"
    return [
        _board(metric, f"review, {name}", {**ranking, "signature": review.get("signature")}, rows(ranking, "agents"))
        for name, ranking in part(review, "rankings").items()
        if isinstance(ranking, Mapping) and rows(ranking, "agents")
    ]


def _board(metric: str, title: str, outcome: Document, listed: list[Document]) -> Board:
    ends = [_finite(row.get(name)) for row in listed for name in ("low", "high", "score")]
    there = [value for value in ends if value is not None]
    shown = [
        {
            **row,
            **{name: _finite(row.get(name)) for name in ("score", "low", "high")},
            "n": row.get("n", row.get("n_tasks")),
            "missing": _missing(row),
        }
        for row in listed
    ]
    return Board(
        metric=metric,
        title=title,
        unit=str(outcome.get("unit") or "score"),
        level=_finite(outcome.get("level")) or 0.95,
        rows=shown,
        signature=str(outcome.get("signature") or ""),
        decimals=decimals_for(ends),
        lowest=min(there, default=0.0),
        highest=max(there, default=1.0),
        notes=tuple(str(note) for note in outcome.get("notes") or ()),
    )


def _missing(row: Document) -> int | None:
    asked, used = row.get("asked"), row.get("used")
    return asked - used if isinstance(asked, int) and isinstance(used, int) else None


def _finite(value: object) -> float | None:
    return float(value) if is_number(value) else None


def _unreadable(run: RunFolder) -> list[str]:
    """Result files that are there and cannot be read."""
    names = (*RESULTS, *OTHER_RESULTS, "made_by.json")
    return [name for name in names if (run.path / name).is_file() and not run.document(name)]


# --- tasks -----------------------------------------------------------------------------------------------------------


def read_query(given: Mapping[str, str], index: TaskIndex) -> TaskQuery:
    """The query in an address; what it cannot mean is an error that says what is allowed."""
    order, scope = given.get("order") or "task", given.get("in") or "texts"
    for name, value, allowed in (("order", order, ORDERS), ("in", scope, SCOPES)):
        if value not in allowed:
            raise UserError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
    metric, agent = given.get("metric") or None, given.get("agent") or None
    if metric is not None and metric not in index.metrics:
        raise UserError(f"this run has no scores of {metric!r}; it has: {', '.join(index.metrics) or 'none'}")
    if agent is not None and agent not in index.agent_names:
        raise UserError(f"no agent {agent!r} in this run")
    failure = given.get("failure") or None
    if failure is not None and failure not in {"any", "none", *index.kinds}:
        raise UserError(f"failure is any, none or one of {', '.join(index.kinds) or '(there are none)'}")
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
        descending=given.get("down") == "1",
        page=page_number(given.get("page")),
    )


def _bound(name: str, given: str | None) -> float | None:
    if not given or not given.strip():
        return None
    try:
        value = float(given.replace("\u2212", "-"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"the score's {name} end is a number, not {given[:40]!r}")
    return value


def page_number(given: str | None) -> int:
    """A page's number; the first where none can be read."""
    return int(given) if given and given.isascii() and given.isdigit() and len(given) < 9 and int(given) > 0 else 1


def as_address(query: TaskQuery) -> dict[str, object]:
    """The query as it stands in an address."""
    return {
        "metric": query.metric,
        "agent": query.agent,
        "failure": query.failure,
        "missing": "1" if query.missing else None,
        "low": query.low,
        "high": query.high,
        "q": query.search,
        "in": None if query.scope == "texts" else query.scope,
        "order": None if query.order == "task" else query.order,
        "down": "1" if query.descending else None,
        "page": None if query.page == 1 else query.page,
    }


def tasks_page(library: Library, links: Links, name: str, given: Mapping[str, str], *, most: int | None = None) -> str:
    """The tasks of a run; ``most``: so many, of a static site."""
    run = library.run(name)
    index = library.index(run)
    query = read_query(given, index)
    if most is not None:
        query = replace(query, size=most)
    found = index.page(query)
    values = [value for row in found.rows for value in (row["score"], row["low"], row["high"])]
    texts: dict[str, str] = {}
    if not links.live:
        texts = {str(row["task"]): _haystack(index, str(row["task"])) for row in found.rows}
    agent_number = None if query.agent is None else index.agent_names.index(query.agent)
    return render(
        "tasks.html",
        links,
        run=run.summary(),
        index=index,
        query=query,
        agent_number=agent_number,
        agent_numbers={agent: number for number, agent in enumerate(index.agent_names)},
        found=found,
        address=as_address(replace(query, page=1)),
        decimals=decimals_for(values),  # type: ignore[arg-type]
        texts=texts,
        of=len(index.tasks),
    )


def _haystack(index: TaskIndex, task: str) -> str:
    """What a static site's search looks through."""
    texts = [index.tables.task(task).prompt or "", *index.tables.responses(task).values()]
    return "\n".join(text[:20_000] for text in texts)


# --- failures --------------------------------------------------------------------------------------------------------


def failures_page(library: Library, links: Links, name: str, given: Mapping[str, str]) -> str:
    """What failed in a run, and why, a page of it."""
    run = library.run(name)
    index = library.index(run)
    kind = given.get("kind") or None
    if kind is not None and kind not in index.kinds:
        raise UserError(f"no call of this run failed as {kind!r}; causes: {', '.join(index.kinds) or 'none'}")
    counts = index.failures.group_by("table", "kind").agg(pl.col("count").sum()).sort("table", "kind")
    page = page_number(given.get("page"))
    total = int(index.failures.filter(kind is None or pl.col("kind") == kind)["count"].sum())
    pages = max(1, -(-total // FAILURES_A_PAGE))
    page = min(page, pages)
    return render(
        "failures.html",
        links,
        run=run.summary(),
        counts=counts.to_dicts(),
        kind=kind,
        rows=_failed(index, kind, (page - 1) * FAILURES_A_PAGE),
        total=total,
        page=page,
        pages=pages,
        numbers=index.numbers,
        agents={agent: number for number, agent in enumerate(index.agent_names)},
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
            some = frame.select(wanted).filter(failed).slice(begin, FAILURES_A_PAGE - len(found)).collect()
            found += [{"table": table, **row} for row in some.iter_rows(named=True)]
        begin = max(0, begin - here)
        if len(found) >= FAILURES_A_PAGE:
            break
    return found
