"""Tasks, agents, responses and labels as frames: each column of one type, each check an expression over rows and lines.

A row with a cell that does not fit is reported and left out, so that later checks do not report it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, NamedTuple

import polars as pl

from goldless.errors import nearest
from goldless.records import Agent, Task
from goldless.studies.chats import last_response, turns
from goldless.studies.checking import HINT_AMONG, Cells, Row, as_json, is_empty, possible_days
from goldless.studies.tables import Line, Table

REQUIRED: Mapping[str, Cells] = {"task": "name", "agent": "name", "text": "text"}
"""Columns of responses."""
SAMPLE = "sample"
"""The column that numbers the responses of one agent to one task."""
SYNOPSIS = "synopsis_"
EXTRA = "extra"
"""The column of a task's other columns, as JSON."""
TASKS = {"task": pl.String, "prompt": pl.String, "reference": pl.String, EXTRA: pl.String}
RATING = ("agent", "score")
PREFERENCE = ("first", "second", "preference")
LABELS: Mapping[str, Cells] = {
    "task": "name",
    "agent": "optional_name",
    "first": "optional_name",
    "second": "optional_name",
    "rater": "name",
    "score": "optional_number",
    "preference": "optional_number",
    "criterion": "optional_name",
}
WORDS: Mapping[Cells, str] = {"optional_name": "a name", "optional_number": "a finite number"}
Repeats = Literal["samples", "first", "agents", "tasks"]
REPEATS: tuple[Repeats, ...] = ("samples", "first", "agents", "tasks")
ONE_AGENT = "sample"
"""The agent of all samples of a table that names none."""
SAMPLES = "Number the samples in a column sample, or choose with --repeats: samples, first, agents or tasks"


# --- names ---------------------------------------------------------------------------------------------------------


@dataclass
class Listed:
    """The names of all tasks or agents."""

    what: Literal["task", "agent"]
    names: pl.Series
    file: str = ""
    """The file that lists all of them; empty while new names are accepted."""

    def check(self, frame: pl.DataFrame, columns: Sequence[str], table: Table) -> pl.Expr:
        """The rows with known names; others are reported once per name, or added while the list is open."""
        if not self.file:
            by_row = pl.concat_list(columns).explode() if len(columns) > 1 else pl.col(columns[0])
            used = frame.select(by_row.alias(self.what)).to_series().drop_nulls().unique(maintain_order=True)
            self.names = pl.concat([self.names, used]).unique(maintain_order=True)
            return pl.lit(value=True)
        every = [pl.col(column).is_in(self.names.implode()) | pl.col(column).is_null() for column in columns]
        for column, known in zip(columns, every, strict=True):
            strange = frame.filter(~known).group_by(column, maintain_order=True).agg(pl.col("line").first(), n=pl.len())
            for name, line, count in strange.iter_rows():
                hint = nearest(name, self.names) if len(self.names) <= HINT_AMONG else ""
                more = f" ({count:,} rows from here on)" if count > 1 else ""
                table.add(f"{self.what} {name!r} is not in {self.file}{more}{hint}", line)
        return pl.all_horizontal(every)


def is_task_column(column: str) -> bool:
    """True if the column describes the task rather than the response, in a table that has both."""
    return column in {"prompt", "reference"} or (column.startswith(SYNOPSIS) and column != SYNOPSIS)


# --- tasks -----------------------------------------------------------------------------------------------------------


def read_tasks(table: Table) -> tuple[pl.DataFrame, Listed]:
    """Each task with its columns, and the list of them, which stays open if some rows could not be read."""
    known = [name for name in table.frame.columns if is_task_column(name)]
    others = table.frame.drop("task", *known, strict=False)
    extra = list(map(_extra, others.iter_rows(named=True))) if others.width else [None] * table.rows
    rows = table.read({"task": "name", **dict.fromkeys(known, "optional_text")}, pl.Series(EXTRA, extra, pl.String))
    return _listed(rows, TASKS, "task", table)


def _listed(
    rows: pl.DataFrame, schema: Mapping[str, Any], what: Literal["task", "agent"], table: Table
) -> tuple[pl.DataFrame, Listed]:
    """Each name once, and the list of them."""
    if not table.rows and not table.broken:
        article = "An" if what == "agent" else "A"
        table.add(f"no rows. {article} {what}s table must list every {what}; leave it out if there is none")
    frame = pl.concat([pl.DataFrame(schema={**schema, "line": pl.Int64}), rows], how="diagonal")
    found = _firsts(frame, [what], f"{what} {{{what}!r}} is already on line {{first}}", table).drop("line")
    return found, Listed(what, found[what], "" if table.broken else table.file)


def _firsts(frame: pl.DataFrame, key: Sequence[str], message: str, table: Table) -> pl.DataFrame:
    """The first row of each key; further ones are reported as duplicates of it."""
    kept = frame.unique(key, keep="first", maintain_order=True)
    if kept.height < frame.height:
        again = frame.filter(~pl.struct(key).is_first_distinct())
        firsts = kept.select(*key, first="line")
        for row in again.join(firsts, on=key, maintain_order="left").iter_rows(named=True):
            table.duplicate(message.format_map(row), row["line"])
    return kept


def _extra(row: Row) -> str | None:
    """The other columns of a task as JSON, which keeps each value; null if there are none."""
    extra = {column: value for column, value in row.items() if not is_empty(value)}
    # JSON has no infinity; as text it is not lost.
    extra |= {c: str(v) for c, v in extra.items() if type(v) is float and math.isinf(v)}
    return as_json(extra).decode() if extra else None


def task_frame(tasks: Sequence[Task]) -> pl.DataFrame:
    """Tasks as a frame."""
    synopses = list(dict.fromkeys(f"{SYNOPSIS}{name}" for task in tasks for name in task.synopses))
    rows = [
        (
            *(task.task, task.prompt, task.reference, as_json(task.extra).decode() if task.extra else None),
            *(task.synopses.get(name.removeprefix(SYNOPSIS)) for name in synopses),
        )
        for task in tasks
    ]
    return pl.DataFrame(rows, schema={**TASKS, **dict.fromkeys(synopses, pl.String)}, orient="row")


# --- agents ----------------------------------------------------------------------------------------------------------


def read_agents(table: Table) -> tuple[dict[str, Agent], Listed]:
    """The agents by name, in the order of the table, and the list of them."""
    found: dict[str, Agent] = {}
    names = []
    for line, row in table.numbered_rows():
        name, agent = checked_agent(row, line, table)
        if name is not None:
            names.append((name, line))
            found.setdefault(name, agent)
    frame = pl.DataFrame(names, {"agent": pl.String, "line": pl.Int64}, orient="row")
    return found, _listed(frame, {"agent": pl.String}, "agent", table)[1]


def checked_agent(row: Mapping[str, Any], line: int, check: Table) -> tuple[str | None, Agent]:
    """The name of a row's agent (None, with a problem, if it has none) and the agent."""
    name = check.name(row, "agent", line)
    group = check.optional_name(row, "group", line)
    parameters = check.optional_number(row, "parameters", line)
    family = check.optional_name(row, "family", line)
    cutoff = _cutoff_date(row, line, check)
    if parameters is not None and parameters <= 0:
        check.add(f"parameters must be a positive number such as 7e9, got {parameters:g}", line)
    return name, Agent(name or "", group, parameters, family, cutoff, check.optional_name(row, "sample_of", line))


def _cutoff_date(row: Mapping[str, Any], line: int, check: Table) -> str | None:
    value = row.get("cutoff_date")
    if isinstance(value, date):
        # A datetime is a date too, and its time says nothing here.
        return date(value.year, value.month, value.day).isoformat()
    text: str | None = check.optional_text(row, "cutoff_date", line)
    if text is None:
        return None
    if possible_days(text) is None:
        check.add(f"cutoff_date must be a date such as 2023-09-30, 2023-09 or 2023, got {text!r}", line)
        return None
    return text.strip()


# --- responses -------------------------------------------------------------------------------------------------------


NO_RESPONSES = pl.DataFrame(schema=dict.fromkeys(REQUIRED, pl.String))


NO_EMPTY_RESPONSES = pl.DataFrame(schema={"task": pl.String, "agent": pl.String, "line": pl.Int64})


class ResponseRows(NamedTuple):
    """A table of responses as read."""

    responses: pl.DataFrame
    """Each response once, with the columns about tasks."""
    samples: dict[str, str]
    """The agent of each sample."""
    chats: bool
    """True if texts were chats."""
    empty: pl.DataFrame
    """Task, agent and line of the rows without a text: these responses are missing."""


def read_responses(table: Table, tasks: Listed, agents: Listed, repeats: Repeats | None) -> ResponseRows:
    """Return the responses of a table.

    Without a tasks table the tasks are taken from here, without an agents table the agents. Without ``repeats``, a
    second response of an agent to a task is a problem.
    """
    chats = _end_chats(table)
    if repeats == "samples" and "agent" not in table.frame.columns:
        table.frame = table.frame.with_columns(agent=pl.lit(ONE_AGENT))
    more: dict[str, Cells] = {
        name: "optional_name" if name == SAMPLE else "optional_text"
        for name in table.frame.columns
        if name == SAMPLE or (is_task_column(name) and not tasks.file)
    }
    text_cells: Cells = "optional_text" if "text" in table.frame.columns else "text"
    rows = table.read({**REQUIRED, "text": text_cells, **more})
    rows = rows if repeats is None else without_repeats(rows, repeats)
    frame = pl.concat([NO_RESPONSES, rows], how="diagonal_relaxed")
    frame, samples = _with_samples(frame, agents, table)
    frame = frame.filter(tasks.check(frame, ["task"], table), agents.check(frame, ["agent"], table))
    if not table.rows and not table.problems.total:
        empty = table.path is not None and not table.path.stat().st_size
        said = "the file is empty" if empty else "no rows"
        table.add(f"{said}. A row needs task, agent and text; leave the table out if there are no responses yet")
    for column in filter(is_task_column, frame.columns):
        _check_same(frame, column, table)
    is_blank = pl.col("text").is_null() | (pl.col("text").str.strip_chars() == "")
    without_text = frame.filter(is_blank).select(NO_EMPTY_RESPONSES.columns)
    frame = frame.filter(~is_blank)
    second = "a second response of agent {agent!r} to task {task!r}; the first is on line {first}"
    frame = _firsts(frame, ["task", "agent"], f"{second}. {SAMPLES}", table)
    if not table.broken:
        for names in (tasks, agents):
            names.file = names.file or table.file or "the responses"
    return ResponseRows(frame.drop("line"), samples, chats, without_text)


def without_repeats(samples: pl.DataFrame, repeats: Repeats) -> pl.DataFrame:
    """One response per task and agent, or the samples of an agent numbered in a column ``sample``."""
    samples = samples.drop(SAMPLE, strict=False)
    again = pl.struct("task", "agent").is_duplicated()
    if not samples.select(again.any()).item():
        return samples
    numbered = samples.with_columns(pl.int_range(1, pl.len() + 1).over("task", "agent").alias("sample"))
    if repeats == "samples":
        # All responses of an agent are numbered, or none.
        return numbered.with_columns(pl.when(again.any().over("agent")).then(pl.col("sample").cast(pl.String)))
    if repeats == "first":
        return numbered.filter(pl.col("sample") == 1).drop("sample")
    column = "agent" if repeats == "agents" else "task"
    name = pl.when(pl.col("sample") > 1).then(pl.format("{}#{}", column, "sample")).otherwise(column)
    return numbered.with_columns(name.alias(column)).drop("sample")


def _end_chats(table: Table) -> bool:
    """Put the last turn of the assistant in place of a chat, and the turns before it as the prompt."""
    texts = table.frame.get_column("text", default=pl.Series("text", [], pl.String))
    plain = texts.dtype == pl.String
    chats = [turns(text) for text in texts.to_list()] if not plain or texts.str.starts_with("[{").any() else []
    if not any(chats):
        return False
    rows = []
    for (line, row), chat in zip(table.numbered_rows(), chats, strict=True):
        text, prompt = (row["text"], None) if chat is None else last_response(chat)
        if chat is not None and text is None:
            table.add("text must be a response, got a chat without a turn of the assistant", line)
        else:
            rows.append(Line(line, {**row, "text": text, "prompt": row.get("prompt") or prompt}))
    table.fill(rows)
    return True


def _with_samples(frame: pl.DataFrame, agents: Listed, table: Table) -> tuple[pl.DataFrame, dict[str, str]]:
    """The rows with each sample as an agent of its own, ``AGENT#SAMPLE``, and the agent of each."""
    if SAMPLE not in frame.columns:
        return frame, {}
    known = pl.col("agent").is_in(agents.names.implode()) if agents.file else pl.lit(value=True)
    is_sample = pl.col(SAMPLE).is_not_null() & known
    full = pl.when(is_sample).then(pl.format("{}#{}", "agent", SAMPLE)).otherwise("agent")
    named = frame.with_columns(agent=full, of=pl.when(is_sample).then("agent"))
    samples = dict(named.drop_nulls("of").select("agent", "of").unique(maintain_order=True).iter_rows())
    single = set(named.filter(pl.col("of").is_null())["agent"])
    for name in sorted(single & samples.keys()):
        table.add(f"a sample of {samples[name]!r} must not have the name of another agent, {name!r}")
    if agents.file:
        agents.names = pl.concat([agents.names, pl.Series(list(samples), dtype=pl.String)]).unique(maintain_order=True)
    return named.drop(SAMPLE, "of"), samples


def _check_same(frame: pl.DataFrame, column: str, table: Table) -> None:
    """Report rows that contradict what an earlier one says about the task."""
    given = frame.select("line", "task", value=column).drop_nulls("value")
    firsts = given.with_columns(first=pl.col("line").first().over("task"), was=pl.col("value").first().over("task"))
    message = f"{column} of task {{task!r}} differs from line {{first}}. A task has one {column}"
    table.report(firsts, pl.col("value") != pl.col("was"), message)


# --- labels ----------------------------------------------------------------------------------------------------------


NO_LABELS = pl.DataFrame(
    schema={name: pl.Float64 if cells.endswith("number") else pl.String for name, cells in LABELS.items()}
)


def read_labels(table: Table, tasks: Listed, agents: Listed, responses: pl.DataFrame | None) -> pl.DataFrame:
    """Ratings and preferences in one frame; each must be of an existing response if ``responses`` is given."""
    frame = table.read(LABELS).cast(dict(NO_LABELS.schema))  # type: ignore[arg-type]
    rated, compared = (pl.any_horizontal(pl.col(c).is_not_null() for c in columns) for columns in (RATING, PREFERENCE))
    form = "A label must have agent and score, or first, second and preference"
    needed = {"agent": rated, "score": rated, "first": compared, "second": compared, "preference": compared}
    for wrong, message in (
        (rated & compared, f"both a rating and a preference. {form}"),
        (~rated & ~compared, f"neither a rating nor a preference. {form}"),
        *(
            (needs & pl.col(c).is_null(), f"{c} must be {WORDS[LABELS[c]]}, got an empty cell")
            for c, needs in needed.items()
        ),
        ((pl.col("first") == pl.col("second")).fill_null(value=False), "agent {first!r} is compared with itself"),
    ):
        frame = table.report(frame, wrong, message)
    frame = frame.filter(tasks.check(frame, ["task"], table), agents.check(frame, ["agent", "first", "second"], table))
    if responses is not None:
        for column in ("agent", "first", "second"):
            _check_answered(frame, column, responses, table)
    return frame.drop("line")


def _check_answered(frame: pl.DataFrame, column: str, responses: pl.DataFrame, table: Table) -> None:
    given = frame.select("line", "task", agent=column).drop_nulls("agent")
    absent = given.join(responses, on=["task", "agent"], how="anti", maintain_order="left")
    for task, agent, line, count in (
        absent.group_by("task", "agent", maintain_order=True).agg(pl.col("line").first(), n=pl.len()).iter_rows()
    ):
        more = f" ({count:,} labels from here on)" if count > 1 else ""
        table.add(f"no such response: agent {agent!r} to task {task!r}{more}", line)
