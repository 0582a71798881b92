"""The index of one run: a small table of scores and failures by task, kept until its files change.

Texts and evidence are read when a page shows them, one task's rows at a time.
"""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from goldless.errors import StudyError, UserError
from goldless.evidence import TABLES as SCHEMAS
from goldless.evidence import TOKENS
from goldless.files import POLARS_FAILED
from goldless.grouped import mean_in_order
from goldless.records import Task
from goldless.reports.report_table import decimals_for
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

    status = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """The tasks to list, and their order."""

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


@dataclass(frozen=True)
class TaskIndex:
    """Scores and failures of a run by task."""

    run: RunFolder
    agents: tuple[str, ...]
    prompts: pl.DataFrame
    """task, number, prompt (its beginning)"""
    scores: pl.DataFrame
    splits: pl.DataFrame
    """Disagreement of the comparisons of a pairwise review, by metric and task."""
    failures: pl.DataFrame

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.prompts["task"])

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {task: number for number, task in enumerate(self.tasks)}

    @cached_property
    def agent_numbers(self) -> dict[str, int]:
        return {agent: number for number, agent in enumerate(self.agents)}

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.scores["metric"].unique(maintain_order=True))

    @cached_property
    def decimals(self) -> dict[str, int]:
        """The number of decimals for the scores of each metric."""
        found = self.scores.group_by("metric").agg("score")
        return {metric: decimals_for(scores) for metric, scores in found.iter_rows()}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted(self.failures["kind"].unique()))

    def pairwise(self, metric: str | None) -> bool:
        """True if a metric is a review by comparisons: its mean over agents is one half on every task."""
        return metric in set(self.splits["metric"])

    def metric(self, given: str | None) -> str | None:
        """The metric asked for, or the first one; None: the run has none."""
        if given and given not in self.metrics:
            raise UserError(f"no scores of {given!r} in this run. It has: {', '.join(self.metrics) or 'none'}")
        return given or next(iter(self.metrics), None)

    def agent(self, given: str | None) -> str | None:
        if given and given not in self.agents:
            raise UserError(f"no agent {given!r} in this run")
        return given or None

    # --- evidence of one task ----------------------------------------------------------------------------------------

    def rows(self, table: str, *tasks: str, about: pl.Expr | None = None, tokens: bool = False) -> pl.DataFrame:
        """A table's rows of some tasks; ``about``: only those; ``tokens``: with the values of tokens."""
        frame = scanned(self.run, table)
        if frame is None:
            return pl.DataFrame()
        there = frame.collect_schema().names()
        for column in ("task", *NEEDED.get(table, ())):
            if column not in there:
                raise DamagedRunError(
                    f"files of the run {self.run.name} cannot be read: {table} has no column {column}"
                )
        wanted = pl.col("task").is_in(list(tasks)) if len(tasks) != 1 else pl.col("task") == tasks[0]
        found = frame if tokens else frame.drop(TOKENS, strict=False)
        return found.filter(wanted if about is None else wanted & about).collect()

    def task(self, name: str) -> Task:
        """The task: its prompt, reference and synopses, including those written by a model."""
        found = self.rows("tasks", name)
        row: dict[str, Any] = found.row(0, named=True) if len(found) else {}
        row = {key: value for key, value in row.items() if value is not None and key != "task"}
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
        return {row["agent"]: row["text"] for row in self.rows("responses", task).iter_rows(named=True)}

    def scores_of(self, task: str) -> dict[tuple[str, str], dict[str, Any]]:
        found = self.scores.filter(pl.col("task") == task)
        return {(row["metric"], row["agent"]): row for row in found.iter_rows(named=True)}

    # --- the list of tasks -------------------------------------------------------------------------------------------

    def page(self, query: TaskQuery) -> Page:
        """The tasks that match the query, one page of them, with what is known of each.

        That is the score, the range over agents, the best and worst agent, missing scores and failures.
        """
        metric = query.metric if query.metric in self.metrics else next(iter(self.metrics), "")
        scores, score = self.scores.filter(pl.col("metric") == metric), pl.col("score")
        lacking = pl.col("asked") - pl.col("used")
        found = scores.group_by("task").agg(
            mean_in_order(score),
            score.min().alias("low"),
            score.max().alias("high"),
            (score.max() - score.min()).alias("spread"),
            pl.col("agent").sort_by("score", descending=True, nulls_last=True).first().alias("best"),
            pl.col("agent").sort_by("score", nulls_last=True).first().alias("worst"),
            lacking.sum().alias("missing"),
            pl.col("asked").sum(),
        )
        failures = self.failures
        if query.agent is not None:
            own = scores.filter(pl.col("agent") == query.agent).select("task", score, lacking.alias("missing"), "asked")
            found = own.join(found.drop("score", "missing", "asked"), on="task", how="left")
            failures = failures.filter(pl.col("agent") == query.agent)
        split = self.splits.filter(pl.col("metric") == metric).select("task", "disagreement")
        counted = failures.group_by("task").agg(pl.col("count").sum().cast(pl.Int64).alias("failures"))
        frame = self.prompts
        for more in (found, split, counted):
            alone = more is found and query.agent is not None and bool(metric)
            frame = frame.join(more, on="task", how="inner" if alone else "left", maintain_order="left")
        frame = frame.filter(_wanted(query, failures))
        if query.search:
            frame = frame.join(self.matching(query.search, query.scope, query.agent), on="task", maintain_order="left")
        by = "number" if query.order == "task" else query.order
        frame = frame.sort(by, "number", descending=[query.descending, False], nulls_last=True)
        page = Page.of(frame, query.page, query.size)
        for row in page.rows if query.search else ():
            row["passage"] = _passage(row.pop("text"), query.search)
        return page

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


def _wanted(query: TaskQuery, failures: pl.DataFrame) -> pl.Expr:
    wanted = pl.lit(True)
    if query.failure in {"any", "none"}:
        wanted &= (pl.col("failures").fill_null(0) > 0) == (query.failure == "any")
    elif query.failure is not None:
        some = failures.filter(pl.col("kind") == query.failure)
        wanted &= pl.col("task").is_in(some["task"].unique().to_list())
    if query.missing:
        wanted &= pl.col("missing").fill_null(0) > 0
    if query.low is not None:
        wanted &= pl.col("score") >= query.low
    if query.high is not None:
        wanted &= pl.col("score") <= query.high
    return wanted


def _passage(text: str, search: str) -> tuple[str, str, str] | None:
    """Text before the first match, the match, and what follows; None for scripts without simple case folding."""
    found = re.search(re.escape(search), text, re.IGNORECASE)
    if found is None:
        return None
    begin, end = max(0, found.start() - PASSAGE), found.end() + PASSAGE
    before, after = text[begin : found.start()], text[found.end() : end]
    return "…" * (begin > 0) + before, found[0], after + "…" * (end < len(text))


# --- making it -----------------------------------------------------------------------------------------------------


def is_run(path: Path) -> bool:
    """True if a folder has results, or a run in progress."""
    try:
        return RunFolder(path).has_results or (path / "progress.json").is_file()
    except OSError:  # a folder that may not be looked into
        return False


def scanned(run: RunFolder, table: str, *columns: str) -> pl.LazyFrame | None:
    """A table of the run; None if there is none, its columns cannot be read, or it lacks one of these."""
    try:
        frame = run.scan(table)
        there = set() if frame is None else set(frame.collect_schema())
    except (OSError, *POLARS_FAILED):
        return None
    return frame if there and set(columns) <= there else None


def kept_index(run: RunFolder) -> TaskIndex:
    """The index of a run folder as it is now; it is rebuilt when a file of the run was written."""
    files = (run.path / SCORES, run.path / "agents.jsonl", *(path for name in TABLES for path in run.files(name)))
    with _MAKING:
        return _index(run.path, run.name, stamp(files))


_MAKING = threading.Lock()


@functools.lru_cache(maxsize=KEPT)
def _index(path: Path, name: str, _: Stamp) -> TaskIndex:
    """Read what an index needs: scores, the beginnings of prompts, and counts of failures."""
    run = RunFolder(path, name)
    scores = pl.DataFrame(schema=SCORED) if run.scores is None else run.scores.select(*SCORED)
    scores = pl.concat([scores, run.judged_scores])
    failures = _failures(run)
    known = scanned(run, "tasks", "task")
    if known is not None:
        prompt = pl.col("prompt") if "prompt" in known.collect_schema() else pl.lit(None)
        start = prompt.cast(pl.String).str.slice(0, EXCERPT).alias("prompt")
        prompts = known.select(pl.col("task").cast(pl.String), start).collect()
    else:  # in order of first appearance
        named = [*_unique(run, "task"), *scores["task"].drop_nulls(), *failures["task"].drop_nulls()]
        tasks = pl.Series("task", list(dict.fromkeys(named)), pl.String)
        prompts = pl.DataFrame(tasks).with_columns(pl.lit(None, pl.String).alias("prompt"))
    prompts = prompts.unique("task", keep="first", maintain_order=True)
    prompts = prompts.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    agents = [note.agent for note in run.agent_notes] + _unique(run, "agent") + scores["agent"].drop_nulls().to_list()
    return TaskIndex(run, tuple(dict.fromkeys(agents)), prompts, scores, _splits(run), failures)


def _unique(run: RunFolder, column: str) -> list[str]:
    frame = scanned(run, "responses", column)
    if frame is None:
        return []
    return [str(x) for x in frame.select(column).drop_nulls().unique(maintain_order=True).collect()[column]]


def _splits(run: RunFolder) -> pl.DataFrame:
    """By task, the mean over pairs of 1 - |2p - 1|, where p is the share of a pair's comparisons that one side won.

    0: all comparisons of every pair agree; 1: each pair's are divided equally.
    """
    frame = scanned(run, "judgements", "format", "task", "value", "first", "second")
    if frame is None:
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
    """Damage to the files of a run, one line each."""
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
