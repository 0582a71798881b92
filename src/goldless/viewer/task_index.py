"""The index of one run: a small table of scores and failures by task, kept until its files change."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from goldless.grouped import mean_in_order
from goldless.records import Agent
from goldless.reports.run_folder import EVIDENCE, RunFolder, Stamp, failed_rows, stamp
from goldless.reports.run_folder import SCORES as SCORES_FILE
from goldless.viewer.evidence_tables import TABLES, EvidenceTables

KEYS = {"metric": pl.String, "task": pl.String, "agent": pl.String}
SCORES = {**KEYS, "score": pl.Float64, "asked": pl.Int64, "used": pl.Int64}
FAILURES = {"table": pl.String, "task": pl.String, "agent": pl.String, "kind": pl.String, "count": pl.UInt32}
EXCERPT = 160
FILES = (SCORES_FILE, "agents.jsonl")
KEPT = 8
"""Indexes that are kept in memory."""

SPLITS = {"metric": pl.String, "task": pl.String, "disagreement": pl.Float64}
PASSAGE = 90
"""Characters before and after a search text that are shown with it."""

Order = Literal["task", "score", "spread", "disagreement", "missing", "failures"]
Scope = Literal["texts", "replies"]
ORDERS = get_args(Order)
SCOPES = get_args(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks to list, and in which order."""

    metric: str | None = None
    agent: str | None = None
    """The agent whose score counts; None: the mean over agents."""
    failure: str | None = None
    """A cause, ``any`` or ``none``; None: all tasks."""
    missing: bool = False
    """Only tasks with a missing score."""
    low: float | None = None
    high: float | None = None
    search: str = ""
    scope: Scope = "texts"
    """Where to search: prompts and responses, or the replies of judges."""
    order: Order = "task"
    descending: bool = False
    page: int = 1
    size: int = 50


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of the list of tasks."""

    rows: list[dict[str, Any]]
    """number, task, prompt, score, low, high, best, worst, spread, disagreement, missing, asked, failures, passage"""
    total: int
    page: int
    pages: int
    lowest: float | None
    """Range of the scores of all tasks under this metric, for one scale in all rows."""
    highest: float | None


@dataclass(frozen=True, slots=True)
class TaskIndex:
    """Scores and failures of a run by task."""

    tables: EvidenceTables
    tasks: tuple[str, ...]
    agents: tuple[Agent, ...]
    prompts: pl.DataFrame
    """task, number, prompt (its beginning)"""
    scores: pl.DataFrame
    splits: pl.DataFrame
    """How far the comparisons of a pairwise review disagree, by metric and task."""
    failures: pl.DataFrame
    numbers: Mapping[str, int] = field(repr=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics with scores."""
        return tuple(self.scores["metric"].unique(maintain_order=True))

    def pairwise(self, metric: str | None) -> bool:
        """Whether a metric is a review by comparisons: its mean over agents is one half on every task."""
        return metric in set(self.splits["metric"])

    @property
    def kinds(self) -> tuple[str, ...]:
        """The causes of failure."""
        return tuple(sorted(self.failures["kind"].unique()))

    @property
    def agent_names(self) -> tuple[str, ...]:
        """The agents, in the order of the run."""
        return tuple(agent.agent for agent in self.agents)

    @property
    def agent_numbers(self) -> dict[str, int]:
        """The number of each agent."""
        return {agent: number for number, agent in enumerate(self.agent_names)}

    def of_task(self, task: str) -> dict[tuple[str, str], dict[str, object]]:
        """The scores of a task, by metric and agent."""
        found = self.scores.filter(pl.col("task") == task)
        return {(row["metric"], row["agent"]): row for row in found.iter_rows(named=True)}

    def page(self, query: TaskQuery) -> TaskPage:
        """The tasks that match the query, one page of them."""
        frame = self._by_task(query)
        lowest, highest = frame["low"].min(), frame["high"].max()
        frame = self._filtered(frame, query)
        if query.search:
            frame = frame.join(self.matching(query.search, query.scope, query.agent), on="task", maintain_order="left")
        by = {"task": "number"}.get(query.order, query.order)
        frame = frame.sort(by, "number", descending=[query.descending, False], nulls_last=True)
        number, pages, begin = paged(len(frame), query.page, query.size)
        shown = frame.slice(begin, query.size).to_dicts()
        for row in shown if query.search else ():
            row["passage"] = _passage(row.pop("text"), query.search)
        return TaskPage(shown, len(frame), number, pages, _float(lowest), _float(highest))

    def _by_task(self, query: TaskQuery) -> pl.DataFrame:
        metric = query.metric if query.metric in self.metrics else next(iter(self.metrics), None)
        scores = self.scores.filter(pl.col("metric") == metric) if metric is not None else self.scores.clear()
        found = scores.group_by("task").agg(
            mean_in_order(pl.col("score")),
            pl.col("score").min().alias("low"),
            pl.col("score").max().alias("high"),
            pl.col("agent").sort_by("score", descending=True, nulls_last=True).first().alias("best"),
            pl.col("agent").sort_by("score", nulls_last=True).first().alias("worst"),
            (pl.col("asked") - pl.col("used")).sum().alias("missing"),
            pl.col("asked").sum(),
        )
        found = found.with_columns((pl.col("high") - pl.col("low")).alias("spread"))
        if query.agent is not None:
            own = scores.filter(pl.col("agent") == query.agent)
            own = own.select("task", pl.col("score"), (pl.col("asked") - pl.col("used")).alias("missing"), "asked")
            found = own.join(found.drop("score", "missing", "asked"), on="task", how="left")
        split = self.splits.filter(pl.col("metric") == (metric or "")).select("task", "disagreement")
        found = found.join(split, on="task", how="left")
        counted = self._failures_of(query).group_by("task").agg(pl.col("count").sum().cast(pl.Int64).alias("failures"))
        return self.prompts.join(
            found, on="task", how="left" if query.agent is None or metric is None else "inner", maintain_order="left"
        ).join(counted, on="task", how="left", maintain_order="left")

    def _filtered(self, frame: pl.DataFrame, query: TaskQuery) -> pl.DataFrame:
        failed = pl.col("failures").fill_null(0) > 0
        if query.failure == "any":
            frame = frame.filter(failed)
        elif query.failure == "none":
            frame = frame.filter(~failed)
        elif query.failure is not None:
            some = self._failures_of(query).filter(pl.col("kind") == query.failure)
            frame = frame.join(some.select("task").unique(), on="task", how="semi", maintain_order="left")
        if query.missing:
            frame = frame.filter(pl.col("missing").fill_null(0) > 0)
        if query.low is not None:
            frame = frame.filter(pl.col("score") >= query.low)
        if query.high is not None:
            frame = frame.filter(pl.col("score") <= query.high)
        return frame

    def _failures_of(self, query: TaskQuery) -> pl.DataFrame:
        """The failures, of the query's agent if it names one."""
        return self.failures.filter(query.agent is None or pl.col("agent") == query.agent)

    def matching(self, search: str, scope: Scope = "texts", agent: str | None = None) -> pl.DataFrame:
        """Tasks whose texts contain the search text, ignoring case: task, source (of the first such text), text.

        ``agent``: look only at its responses.
        """
        pattern = f"(?i){re.escape(search)}"
        places = {
            "texts": (("tasks", "prompt", pl.lit("prompt")), ("responses", "text", pl.col("agent"))),
            "replies": (("judgements", "output", pl.col("reviewer")),),
        }
        found = []
        for table, column, source in places[scope]:
            frame, columns = self.tables.scan(table), self.tables.columns(table)
            if frame is None or column not in columns:
                continue
            wanted = pl.col(column).str.contains(pattern)
            if table == "responses" and agent is not None:
                wanted &= pl.col("agent") == agent
            task, text = pl.col("task").cast(pl.String), pl.col(column).alias("text")
            found.append(frame.filter(wanted).select(task, source.cast(pl.String).alias("source"), text))
        named = self.prompts.lazy().filter(pl.col("task").str.contains(pattern))
        named = named.select("task", pl.lit("name").alias("source"), pl.col("task").alias("text"))
        return pl.concat([*found, named]).unique("task", keep="first", maintain_order=True).collect()


def _passage(text: str, search: str) -> tuple[str, str, str] | None:
    """What is before the first match, the match, and what is after it; None: case is another matter in this script."""
    found = re.search(re.escape(search), text, re.IGNORECASE)
    if found is None:
        return None
    begin, end = max(0, found.start() - PASSAGE), found.end() + PASSAGE
    before, after = text[begin : found.start()], text[found.end() : end]
    return "…" * (begin > 0) + before, found[0], after + "…" * (end < len(text))


def paged(total: int, page: int, size: int) -> tuple[int, int, int]:
    """The page shown, the number of pages, and the first row, for this many rows and this page size."""
    pages = max(1, -(-total // size))
    page = min(max(1, page), pages)
    return page, pages, (page - 1) * size


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# --- making it -----------------------------------------------------------------------------------------------------


def kept_index(run: RunFolder) -> TaskIndex:
    """The index of a run folder as it is now; it is rebuilt when a file of the run was written."""
    now = stamp([*(run.path / name for name in FILES), *(path for name in TABLES for path in run.files(name))])
    with _MAKING:
        return _index(run.path, now)


_MAKING = threading.Lock()


@functools.lru_cache(maxsize=KEPT)
def _index(path: Path, _: Stamp) -> TaskIndex:
    return make_index(RunFolder(path))


def make_index(run: RunFolder) -> TaskIndex:
    """Read what an index needs: scores, the beginnings of prompts, and counts of failures."""
    tables = EvidenceTables(run)
    scores = pl.DataFrame(schema=SCORES) if run.scores is None else run.scores.select(*SCORES)
    scores = pl.concat([scores, run.judged_scores])
    failures = _failures(tables)
    prompts = _prompts(tables, scores, failures)
    agents = {agent.agent: agent for agent in run.agent_notes}
    others = [*_unique(tables, "responses", "agent"), *scores["agent"].drop_nulls().unique(maintain_order=True)]
    agents |= {name: Agent(agent=name) for name in others if name not in agents}
    tasks = tuple(prompts["task"])
    numbers = {task: number for number, task in enumerate(tasks)}
    return TaskIndex(tables, tasks, tuple(agents.values()), prompts, scores, _splits(tables), failures, numbers)


def _unique(tables: EvidenceTables, table: str, column: str) -> list[str]:
    frame = tables.scan(table)
    if frame is None or column not in tables.columns(table):
        return []
    return [str(x) for x in frame.select(column).drop_nulls().unique(maintain_order=True).collect()[column]]


def _splits(tables: EvidenceTables) -> pl.DataFrame:
    """By task, the mean over pairs of 1 - |2p - 1|, where p is the share of a pair's comparisons that one side won.

    0: all comparisons of every pair agree; 1: each pair's are divided equally.
    """
    frame, columns = tables.scan("judgements"), set(tables.columns("judgements"))
    if frame is None or not {"format", "task", "value", "first", "second"} <= columns:
        return pl.DataFrame(schema=SPLITS)
    first, second, value = pl.col("first"), pl.col("second"), pl.col("value").cast(pl.Float64)
    pairs = frame.filter(first.is_not_null() & second.is_not_null() & value.is_not_null()).select(
        pl.concat_str(pl.lit("review: "), pl.col("format")).alias("metric"),
        "task",
        pl.min_horizontal(first, second).alias("one"),
        pl.max_horizontal(first, second).alias("other"),
        pl.when(first < second).then(value).otherwise(1 - value).alias("value"),
    )
    by_pair = pairs.group_by("metric", "task", "one", "other", maintain_order=True)
    split = mean_in_order(1 - (2 * pl.col("value") - 1).abs()).alias("disagreement")
    by_task = by_pair.agg(mean_in_order(pl.col("value"))).group_by("metric", "task").agg(split)
    return by_task.select(pl.col(name).cast(kind) for name, kind in SPLITS.items()).collect()


def _failures(tables: EvidenceTables) -> pl.DataFrame:
    found = []
    for table in EVIDENCE:
        frame = tables.scan(table)
        rows = None if frame is None else failed_rows(frame, table)
        if rows is not None:
            counts = rows.group_by("task", "agent", "kind", maintain_order=True).agg(pl.len().alias("count"))
            found.append(counts.select(pl.lit(table).alias("table"), "task", "agent", "kind", "count"))
    if not found:
        return pl.DataFrame(schema=FAILURES)
    return pl.concat(found).collect().select(pl.col(name).cast(kind) for name, kind in FAILURES.items())


def _prompts(tables: EvidenceTables, scores: pl.DataFrame, failures: pl.DataFrame) -> pl.DataFrame:
    """Tasks in study order, or in order of first appearance, with the beginning of each prompt."""
    frame = tables.scan("tasks")
    if frame is not None and "task" in tables.columns("tasks"):
        prompt = pl.col("prompt").str.slice(0, EXCERPT) if "prompt" in tables.columns("tasks") else pl.lit(None)
        known = frame.select(pl.col("task").cast(pl.String), prompt.cast(pl.String).alias("prompt")).collect()
    else:
        named = [*_unique(tables, "responses", "task"), *scores["task"].drop_nulls(), *failures["task"].drop_nulls()]
        tasks = list(dict.fromkeys(named))
        known = pl.DataFrame(
            {"task": tasks, "prompt": [None] * len(tasks)}, schema={"task": pl.String, "prompt": pl.String}
        )
    return known.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
