"""The index of one run: small tables of its scores and failures by task, kept until its files change.

Texts and evidence are read when a page shows them, one task's rows at a time.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from goldless.errors import UserError, check_known
from goldless.evidence import TOKENS
from goldless.files import POLARS_FAILED
from goldless.grouped import mean_in_order
from goldless.records import Task
from goldless.reports.report_table import decimals_for
from goldless.reports.run_folder import RunFolder

NEEDED = {
    "responses": ("agent", "text"),
    "pair_scores": ("metric", "agent", "peer", "score"),
    "logprobs": ("target", "given"),
    "verdicts": ("first", "second", "second_task"),
    "judgements": ("reviewer", "format"),
    "rewrites": ("agent", "rewriter"),
}
"""Columns without which the rows of a table say nothing."""
TYPES: dict[str, Any] = {
    "responses": {"agent": pl.String, "text": pl.String},
    "labels": {
        **dict.fromkeys(("rater", "criterion", "agent"), pl.String),
        "score": pl.Float64,
        "preference": pl.Float64,
    },
    **RunFolder.TABLE_COLUMNS,
}
"""Types of the columns that pages compute with; a table that cannot be read as these is damaged."""
SCORED = {**RunFolder.SCORE_COLUMNS, "asked": pl.Int64, "used": pl.Int64}
SPLIT = {"metric": pl.String, "task": pl.String, "disagreement": pl.Float64}
FAILED = dict.fromkeys(("table", "task", "agent", "other", "model", "kind", "message", "reply"), pl.String)
EXCERPT = 160
REPLY = 300
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

    def __init__(self, run: RunFolder, table: str, why: object) -> None:
        said = (str(why).splitlines() or [""])[0]
        super().__init__(
            f"files of the run {run.name} cannot be read: {table} ({said}). Run the command that wrote it again"
        )


@contextmanager
def _naming(run: RunFolder, table: str) -> Iterator[None]:
    """Raise DamagedRunError, with the table, if reading it fails."""
    try:
        yield
    except (OSError, *POLARS_FAILED) as error:
        raise DamagedRunError(run, table, error) from error


@dataclass(frozen=True)
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
    """Every piece of evidence that is missing: its table and task, whom it is about, by which model, and why."""

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
        check_known([given] if given else [], self.agents, "this run has no agent", "Agents")
        return given or None

    # --- evidence ----------------------------------------------------------------------------------------------------

    def rows(self, table: str, *tasks: str, about: pl.Expr | None = None, tokens: bool = False) -> pl.DataFrame:
        """A table's rows of some tasks or of all; ``about``: only those; ``tokens``: with the values of tokens."""
        with _naming(self.run, table):
            frame = self.run.scan(table)
            if frame is None:
                return pl.DataFrame()
            frame = frame if tokens else frame.drop(TOKENS, strict=False)
            there = frame.collect_schema().names()
            for column in ("task", *NEEDED.get(table, ())):
                if column not in there:
                    raise DamagedRunError(self.run, table, f"it has no column {column}")
            wanted = pl.lit(True) if about is None else about
            if tasks:
                wanted &= pl.col("task").is_in(list(tasks)) if len(tasks) > 1 else pl.col("task") == tasks[0]
            typed = [pl.col(name).cast(kind) for name, kind in TYPES.get(table, {}).items() if name in there]
            rows = frame.filter(wanted).with_columns(typed)
            if "verb" in there:  # two verbs may hold the same reply
                rows = rows.drop("verb").unique(maintain_order=True)
            return rows.collect()

    def task(self, name: str) -> Task:
        """The task: its prompt, reference and synopses, including those written by a model."""
        row = next(self.rows("tasks", name).iter_rows(named=True), {})
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

    def page(
        self,
        *,
        metric: str | None = None,
        agent: str | None = None,
        failure: str | None = None,
        missing: bool = False,
        low: float | None = None,
        high: float | None = None,
        search: str = "",
        scope: Scope = "texts",
        order: Order = "task",
        descending: bool = False,
        page: int = 1,
        size: int = 50,
    ) -> Page:
        """Tasks, one page of them, each with its score, range over agents, best and worst agent, and what is missing.

        ``agent``: the score is this agent's; None: the mean. ``failure``: a cause, ``any`` or ``none``. ``missing``:
        only tasks with a missing score. ``scope``: search prompts and responses, or the replies of judges.
        """
        metric, score = metric or next(iter(self.metrics), ""), pl.col("score")
        scores, lacking = self.scores.filter(pl.col("metric") == metric), pl.col("asked") - pl.col("used")
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
        failures, whose = self.failures, "left"
        if agent is not None:
            own = scores.filter(pl.col("agent") == agent).select("task", score, lacking.alias("missing"), "asked")
            found = own.join(found.drop("score", "missing", "asked"), on="task", how="left")
            failures, whose = failures.filter(pl.col("agent") == agent), "inner" if metric else "left"
        frame = (
            self.prompts.join(found, on="task", how=whose, maintain_order="left")  # type: ignore[arg-type]
            .join(self.splits.filter(pl.col("metric") == metric).drop("metric"), on="task", how="left")
            .join(failures.group_by("task").agg(pl.len().cast(pl.Int64).alias("failures")), on="task", how="left")
        )
        if failure in {"any", "none"}:
            frame = frame.filter(pl.col("failures").is_not_null() == (failure == "any"))
        elif failure is not None:
            frame = frame.join(failures.filter(pl.col("kind") == failure), on="task", how="semi")
        if missing:
            frame = frame.filter(pl.col("missing") > 0)
        if low is not None:
            frame = frame.filter(score >= low)
        if high is not None:
            frame = frame.filter(score <= high)
        if search:
            frame = frame.join(self.matching(search, scope, agent), on="task")
        by = "number" if order == "task" else order
        frame = frame.sort(by, "number", descending=[descending, False], nulls_last=True)
        found_page = Page.of(frame, page, size)
        for row in found_page.rows if search else ():
            row["passage"] = _passage(row.pop("text"), search)
        return found_page

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
            frame = scanned(self.run, table, column)
            if frame is None:
                continue
            wanted = pl.col(column).str.contains(pattern)
            if table == "responses" and agent is not None:
                wanted &= pl.col("agent") == agent
            found.append(frame.filter(wanted).select("task", source.alias("source"), pl.col(column).alias("text")))
        named = self.prompts.lazy().filter(pl.col("task").str.contains(pattern))
        named = named.select("task", pl.lit("name").alias("source"), pl.col("task").alias("text"))
        with _naming(self.run, "texts"):
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


def is_run(path: Path) -> bool:
    """True if a folder has results, or a run in progress."""
    run = RunFolder(path)
    try:
        return run.has_results or run.in_progress
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
    with _MAKING:
        return _index(run.path, run.name, run.stamp)


_MAKING = threading.Lock()


@functools.lru_cache(maxsize=KEPT)
def _index(path: Path, name: str, _: object) -> TaskIndex:
    """Read what an index needs: scores, the beginnings of prompts, and failures."""
    run = RunFolder(path, name)
    scores = pl.DataFrame(schema=SCORED) if run.scores is None else run.scores.select(*SCORED)
    with _naming(run, "judgements"):
        scores, splits = pl.concat([scores, run.judged_scores]), _splits(run)
    failures = pl.concat([pl.DataFrame(schema=FAILED), *(_failures(run, table) for table in run.EVIDENCE)])
    named, answered = scanned(run, "tasks", "task"), scanned(run, "responses", "task", "agent")
    with _naming(run, "responses"):
        answers = (pl.LazyFrame(schema=SCORED) if answered is None else answered).select("task", "agent").collect()
    if named is None:  # in order of first appearance
        tasks = pl.concat([frame.select("task") for frame in (answers, scores, failures)]).drop_nulls()
        named = tasks.lazy().with_columns(pl.lit(None, pl.String).alias("prompt"))
    prompt = pl.col("prompt") if "prompt" in named.collect_schema() else pl.lit(None, pl.String)
    with _naming(run, "tasks"):
        prompts = named.select("task", prompt.str.slice(0, EXCERPT).alias("prompt")).collect()
    prompts = prompts.unique("task", keep="first", maintain_order=True).with_row_index("number")
    agents = [note.agent for note in run.agent_notes]
    agents.extend(pl.concat([answers["agent"], scores["agent"]]).drop_nulls().unique(maintain_order=True))
    return TaskIndex(run, tuple(dict.fromkeys(agents)), prompts, scores, splits, failures)


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
    return by_pair.agg(mean_in_order(pl.col("value"))).group_by("metric", "task").agg(split).collect()


def _failures(run: RunFolder, table: str) -> pl.DataFrame:
    readable = scanned(run, table, "task", "failure") is not None
    with _naming(run, table):
        failed = run.failed_rows(table) if readable else None
        if failed is None:
            return pl.DataFrame(schema=FAILED)
        reply = pl.col("reply").str.slice(0, REPLY + 1)
        return failed.with_columns(reply, pl.lit(table).alias("table")).select(*FAILED).collect()
