"""The index of one run: a small table of scores and failures by task, kept until its files change.

Texts and evidence are read when a page shows them, one task's rows at a time.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from goldless.errors import StudyError, UserError
from goldless.evidence import TABLES as SCHEMAS
from goldless.files import POLARS_FAILED
from goldless.grouped import mean_in_order
from goldless.records import Agent, Task
from goldless.reports.run_folder import EVIDENCE, KEYS, SCORES, RunFolder, Stamp, failed_rows, stamp
from goldless.studies.recorded import check_inside

TABLES = ("tasks", "responses", "labels", "critic_contrasts", "pair_scores", *EVIDENCE)
NEEDED = {
    "responses": ("agent", "text"),
    "pair_scores": ("metric", "agent", "peer", "score"),
    "logprobs": ("target", "given"),
    "verdicts": ("first", "second", "second_task"),
    "judgements": ("reviewer", "format"),
    "rewrites": ("agent", "rewriter"),
}
"""Columns without which the rows of a table say nothing."""
TOKEN_VALUES = "logprobs_nats"  # noqa: S105 - a column
"""The one large column: read only for the rows shown."""
NEAR = 2_000
"""Rows that are closer than this are read together."""
MOST_READS = 16
"""Rows that are in more places than this are found by reading all."""
SCORED = {**KEYS, "asked": pl.Int64, "used": pl.Int64}
FAILED = {"table": pl.String, "task": pl.String, "agent": pl.String, "kind": pl.String, "count": pl.UInt32}
SPLIT = {"metric": pl.String, "task": pl.String, "disagreement": pl.Float64}
EXCERPT = 160
PASSAGE = 90
"""Characters before and after a search text that are shown with it."""
KEPT = 8
"""Indexes that are kept in memory."""

Order = Literal["task", "score", "spread", "disagreement", "missing", "failures"]
Scope = Literal["texts", "replies"]
ORDERS = get_args(Order)
SCOPES = get_args(Scope)


class DamagedRunError(UserError):
    """Files of a run that cannot be read."""


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
class Page:
    """Some of many rows."""

    rows: list[Any]
    total: int
    page: int
    pages: int

    @classmethod
    def of(cls, found: Any, page: int, size: int) -> Page:
        """One page of a list or of the rows of a table; one beyond the last is the last."""
        pages = max(1, -(-len(found) // size))
        page = min(max(1, page), pages)
        rows = found[(page - 1) * size : page * size]
        return cls(rows.to_dicts() if isinstance(rows, pl.DataFrame) else rows, len(found), page, pages)


@dataclass(frozen=True, slots=True)
class TaskIndex:
    """Scores and failures of a run by task."""

    run: RunFolder
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
    def agent_numbers(self) -> dict[str, int]:
        """The number of each agent, in the order of the run."""
        return {agent.agent: number for number, agent in enumerate(self.agents)}

    # --- evidence of one task ----------------------------------------------------------------------------------------

    def rows(self, table: str, *tasks: str) -> pl.DataFrame:
        """A table's rows of some tasks, with their position in it as ``row`` and without the values of tokens."""
        frame = scanned(self.run, table)
        if frame is None:
            return pl.DataFrame()
        there = frame.collect_schema().names()
        for column in ("task", *NEEDED.get(table, ())):
            if column not in there:
                raise DamagedRunError(
                    f"files of the run {self.run.name} cannot be read: {table} has no column {column}"
                )
        wanted = [name for name in there if name != TOKEN_VALUES]
        mine = pl.col("task") == tasks[0] if len(tasks) == 1 else pl.col("task").is_in(list(tasks))
        places = frame.select("task").with_row_index("row").filter(mine).collect()["row"].to_list()
        return _at(frame.select(wanted), places)

    def token_values(self, rows: Iterable[int]) -> dict[int, list[float]]:
        """Log p of every token of these rows of the logprobs table, by row; rows without them are left out."""
        frame = scanned(self.run, "logprobs")
        if frame is None or TOKEN_VALUES not in frame.collect_schema():
            return {}
        found = _at(frame.select(TOKEN_VALUES), sorted(rows))
        return {row: values for row, values in found.iter_rows() if values is not None}

    def task(self, name: str) -> Task:
        """The task: its prompt, reference and synopses, including those written by a model."""
        found = self.rows("tasks", name)
        row: dict[str, Any] = found.row(0, named=True) if len(found) else {}
        row = {key: value for key, value in row.items() if value is not None and key not in {"row", "task"}}
        prompt, reference = (
            None if (text := row.pop(key, None)) is None else str(text) for key in ("prompt", "reference")
        )
        synopses = {key: row.pop(key) for key in list(row) if key.startswith("synopsis_") and isinstance(row[key], str)}
        synopses = {key.removeprefix("synopsis_"): text for key, text in synopses.items()}
        for written in self.rows("synopses", name).iter_rows(named=True):
            if written.get("text"):
                synopses.setdefault(str(written["synopsis"]), written["text"])
        return Task(name, prompt, reference, synopses, row)

    def responses(self, task: str) -> dict[str, str]:
        """The agents' responses to a task."""
        return {row["agent"]: row["text"] for row in self.rows("responses", task).iter_rows(named=True)}

    def scores_of(self, task: str) -> dict[tuple[str, str], dict[str, Any]]:
        """The scores of a task, by metric and agent."""
        found = self.scores.filter(pl.col("task") == task)
        return {(row["metric"], row["agent"]): row for row in found.iter_rows(named=True)}

    # --- the list of tasks -------------------------------------------------------------------------------------------

    def by_task(self, query: TaskQuery) -> pl.DataFrame:
        """All tasks with what is known of each: score, range over agents, best, worst, missing, failures."""
        metric = query.metric if query.metric in self.metrics else next(iter(self.metrics), None)
        scores = self.scores.filter(pl.col("metric") == metric) if metric is not None else self.scores.clear()
        score = pl.col("score")
        found = scores.group_by("task").agg(
            mean_in_order(score),
            score.min().alias("low"),
            score.max().alias("high"),
            pl.col("agent").sort_by("score", descending=True, nulls_last=True).first().alias("best"),
            pl.col("agent").sort_by("score", nulls_last=True).first().alias("worst"),
            (pl.col("asked") - pl.col("used")).sum().alias("missing"),
            pl.col("asked").sum(),
        )
        found = found.with_columns((pl.col("high") - pl.col("low")).alias("spread"))
        if query.agent is not None:
            own = scores.filter(pl.col("agent") == query.agent)
            own = own.select("task", score, (pl.col("asked") - pl.col("used")).alias("missing"), "asked")
            found = own.join(found.drop("score", "missing", "asked"), on="task", how="left")
        split = self.splits.filter(pl.col("metric") == (metric or "")).select("task", "disagreement")
        counted = self._failures_of(query.agent).group_by("task").agg(pl.col("count").sum().cast(pl.Int64))
        how: Literal["left", "inner"] = "left" if query.agent is None or metric is None else "inner"
        return (
            self.prompts.join(found, on="task", how=how, maintain_order="left")
            .join(split, on="task", how="left", maintain_order="left")
            .join(counted.rename({"count": "failures"}), on="task", how="left", maintain_order="left")
        )

    def page(self, query: TaskQuery) -> Page:
        """The tasks that match the query, one page of them."""
        frame = self._filtered(self.by_task(query), query)
        if query.search:
            frame = frame.join(self.matching(query.search, query.scope, query.agent), on="task", maintain_order="left")
        by = "number" if query.order == "task" else query.order
        frame = frame.sort(by, "number", descending=[query.descending, False], nulls_last=True)
        found = Page.of(frame, query.page, query.size)
        for row in found.rows if query.search else ():
            row["passage"] = _passage(row.pop("text"), query.search)
        return found

    def _filtered(self, frame: pl.DataFrame, query: TaskQuery) -> pl.DataFrame:
        wanted, failures = pl.lit(True), pl.col("failures").fill_null(0)
        if query.failure in {"any", "none"}:
            wanted &= failures > 0 if query.failure == "any" else failures == 0
        elif query.failure is not None:
            some = self._failures_of(query.agent).filter(pl.col("kind") == query.failure)
            wanted &= pl.col("task").is_in(some["task"].unique().to_list())
        if query.missing:
            wanted &= pl.col("missing").fill_null(0) > 0
        if query.low is not None:
            wanted &= pl.col("score") >= query.low
        if query.high is not None:
            wanted &= pl.col("score") <= query.high
        return frame.filter(wanted)

    def _failures_of(self, agent: str | None) -> pl.DataFrame:
        return self.failures.filter(agent is None or pl.col("agent") == agent)

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
            frame = scanned(self.run, table)
            if frame is None or column not in frame.collect_schema():
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
    """Text before the first match, the match, and what follows; None for scripts without simple case folding."""
    found = re.search(re.escape(search), text, re.IGNORECASE)
    if found is None:
        return None
    begin, end = max(0, found.start() - PASSAGE), found.end() + PASSAGE
    before, after = text[begin : found.start()], text[found.end() : end]
    return "…" * (begin > 0) + before, found[0], after + "…" * (end < len(text))


# --- making it -----------------------------------------------------------------------------------------------------


def scanned(run: RunFolder, table: str) -> pl.LazyFrame | None:
    """A table of the run; None if there is none, or its columns cannot be read."""
    try:
        frame = run.scan(table)
        return frame if frame is not None and frame.collect_schema() else None
    except (OSError, *POLARS_FAILED):
        return None


def _at(frame: pl.LazyFrame, rows: Sequence[int]) -> pl.DataFrame:
    """These rows of a table, in ascending order, with their position as ``row``: what is close is read together."""
    near: list[list[int]] = []
    for row in rows:
        if near and row - near[-1][-1] < NEAR:
            near[-1].append(row)
        else:
            near.append([row])
    if not 0 < len(near) <= MOST_READS:
        return frame.with_row_index("row").filter(pl.col("row").is_in(list(rows))).collect()
    # numbered afterwards: a row index before the slice would have the whole table read
    parts = [(some, frame.slice(some[0], some[-1] - some[0] + 1).collect()) for some in near]
    found = pl.concat([part[[row - some[0] for row in some]] for some, part in parts])
    return found.insert_column(0, pl.Series("row", list(rows), pl.UInt32))


def kept_index(run: RunFolder) -> TaskIndex:
    """The index of a run folder as it is now; it is rebuilt when a file of the run was written."""
    files = (run.path / SCORES, run.path / "agents.jsonl", *(path for name in TABLES for path in run.files(name)))
    with _MAKING:
        return _index(run.path, run.name, stamp(files))


_MAKING = threading.Lock()


@functools.lru_cache(maxsize=KEPT)
def _index(path: Path, name: str, _: Stamp) -> TaskIndex:
    return make_index(RunFolder(path, name))


def make_index(run: RunFolder) -> TaskIndex:
    """Read what an index needs: scores, the beginnings of prompts, and counts of failures."""
    scores = pl.DataFrame(schema=SCORED) if run.scores is None else run.scores.select(*SCORED)
    scores = pl.concat([scores, run.judged_scores])
    failures = _failures(run)
    known = scanned(run, "tasks")
    if known is not None and "task" in known.collect_schema():
        prompt = pl.col("prompt") if "prompt" in known.collect_schema() else pl.lit(None)
        start = prompt.cast(pl.String).str.slice(0, EXCERPT).alias("prompt")
        prompts = known.select(pl.col("task").cast(pl.String), start).collect()
    else:  # in order of first appearance
        named = [*_unique(run, "responses", "task"), *scores["task"].drop_nulls(), *failures["task"].drop_nulls()]
        tasks = pl.Series("task", list(dict.fromkeys(named)), pl.String)
        prompts = pl.DataFrame(tasks).with_columns(pl.lit(None, pl.String).alias("prompt"))
    prompts = prompts.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    agents = {agent.agent: agent for agent in run.agent_notes}
    for name in [*_unique(run, "responses", "agent"), *scores["agent"].drop_nulls().unique(maintain_order=True)]:
        agents.setdefault(name, Agent(agent=name))
    numbers = {task: number for number, task in enumerate(prompts["task"])}
    return TaskIndex(run, tuple(numbers), tuple(agents.values()), prompts, scores, _splits(run), failures, numbers)


def _unique(run: RunFolder, table: str, column: str) -> list[str]:
    frame = scanned(run, table)
    if frame is None or column not in frame.collect_schema():
        return []
    return [str(x) for x in frame.select(column).drop_nulls().unique(maintain_order=True).collect()[column]]


def _splits(run: RunFolder) -> pl.DataFrame:
    """By task, the mean over pairs of 1 - |2p - 1|, where p is the share of a pair's comparisons that one side won.

    0: all comparisons of every pair agree; 1: each pair's are divided equally.
    """
    frame = scanned(run, "judgements")
    if frame is None or not {"format", "task", "value", "first", "second"} <= set(frame.collect_schema()):
        return pl.DataFrame(schema=SPLIT)
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
    return by_task.select(pl.col(name).cast(kind) for name, kind in SPLIT.items()).collect()


def _failures(run: RunFolder) -> pl.DataFrame:
    found = []
    for table in EVIDENCE:
        frame = scanned(run, table)
        rows = None if frame is None else failed_rows(frame, table)
        if rows is not None:
            counts = rows.group_by("task", "agent", "kind", maintain_order=True).agg(pl.len().alias("count"))
            found.append(counts.select(pl.lit(table).alias("table"), "task", "agent", "kind", "count"))
    if not found:
        return pl.DataFrame(schema=FAILED)
    return pl.concat(found).collect().select(pl.col(name).cast(kind) for name, kind in FAILED.items())


TEXTS = dict.fromkeys(("task", "agent", "text", "prompt", "reference", "metric", "peer"), pl.String)


def damaged_files(run: RunFolder) -> list[str]:
    """What is wrong with the files of a run, one line each."""
    found = [*run.unreadable]
    for name in TABLES:
        files = run.files(name)
        if files:
            whole = files[0].parent if files[0].parent.name == name else files[0]
            try:
                schema = SCHEMAS.get(name, {**TEXTS, "score": pl.Float64})
                check_inside({name: whole}, run.name, schemas={name: schema})
            except StudyError as error:
                found += map(str, error.problems)
    return found
