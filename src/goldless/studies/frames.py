"""Tasks, agents, responses and labels as frames: each column of one type, each check an expression over rows and lines.

A row with a cell that does not fit is reported and left out, so that later checks do not report it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

import polars as pl

from goldless.dates import last_day
from goldless.errors import nearest
from goldless.records import Agent, Task
from goldless.studies.chats import last_response, turns
from goldless.studies.checking import HINT_AMONG, Checking, Problems, Row, as_json, is_empty
from goldless.studies.checking import Cells as Cells  # noqa: PLC0414 - who reads columns takes it from here
from goldless.studies.tables import Line, NumberedRows, Source

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
SAMPLES = "Number the samples in a column sample, or choose with --repeats: samples, first, agents or tasks"


# --- columns and checks ----------------------------------------------------------------------------------------------


def read_columns(table: NumberedRows, columns: Mapping[str, Cells], check: Checking) -> pl.DataFrame:
    """The columns with ``line`` and ``sound``: whether all cells of a row fit."""
    bad: set[int] = set()
    made = [pl.Series("line", table.lines, pl.Int64)]
    for name, cells in columns.items():
        there = name in table.columns
        given = table.frame[name] if there else pl.Series(name, [None] * len(table.lines), pl.Null)
        column = _regular(given, cells)
        if column is None:
            if not there and len(table.lines):
                check.absent.setdefault(name, table.columns)
            values = []
            for line, value in zip(table.lines, given.to_list(), strict=True):
                values.append(check.cell(cells, {name: value} if there else {}, name, line))
                if values[-1] is None and not (cells.startswith("optional") and is_empty(value)):
                    bad.add(line)
            column = pl.Series(name, values, pl.Float64 if cells.endswith("number") else pl.String)
        made.append(column)
    return pl.DataFrame(made).with_columns(sound=~pl.col("line").is_in(list(bad)) if bad else pl.lit(value=True))


def _regular(column: pl.Series, cells: Cells) -> pl.Series | None:
    """The column, if all of its cells plainly fit."""
    required, kind = not cells.startswith("optional"), column.dtype
    if kind == pl.Null and not required:
        return column.cast(pl.Float64 if cells.endswith("number") else pl.String)
    if cells.endswith("number"):
        fits = kind.is_numeric() and column.is_finite().all() and not (required and column.null_count())
        return column.cast(pl.Float64) if fits else None
    if isinstance(kind, pl.Categorical | pl.Enum) or (kind.is_integer() and cells.endswith("name")):
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        return None
    if not required:
        column = column.replace("", None)
    blank = column.str.strip_chars() == ""
    return column if cells == "optional_text" or not (blank.any() or (required and column.null_count())) else None


def report(frame: pl.DataFrame, wrong: pl.Expr, message: str, check: Checking) -> pl.DataFrame:
    """The rows that are not wrong; those that are are reported. ``message``: a format of the row's cells."""
    for row in frame.filter(wrong).iter_rows(named=True):
        check.add(message.format_map(row), row["line"])
    return frame.filter(~wrong)


@dataclass(slots=True)
class Listed:
    """The names of all tasks or agents."""

    what: Literal["task", "agent"]
    names: pl.Series
    file: str = ""
    """The file that lists all of them; empty while new names are accepted."""

    def check(self, frame: pl.DataFrame, columns: Sequence[str], check: Checking) -> pl.Expr:
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
                check.add(f"{self.what} {name!r} is not in {self.file}{more}{hint}", line)
        return pl.all_horizontal(every)


def is_task_column(column: str) -> bool:
    """True if the column describes the task rather than the response, in a table that has both."""
    return column in {"prompt", "reference"} or (column.startswith(SYNOPSIS) and column != SYNOPSIS)


# --- tasks -----------------------------------------------------------------------------------------------------------


def read_tasks(source: Source, problems: Problems) -> tuple[pl.DataFrame, Listed]:
    """Each task with its columns, and the list of them, which stays open if some rows could not be read."""
    check, table = Checking(source.file, problems), source.table(problems)
    check.rows = len(table.lines)
    known = [name for name in table.columns if is_task_column(name)]
    rows = read_columns(table, {"task": "name", **dict.fromkeys(known, "optional_text")}, check)
    others = table.frame.drop("task", *known, strict=False)
    extra = list(map(_extra, others.iter_rows(named=True))) if others.width else [None] * rows.height
    frame = rows.with_columns(pl.Series(EXTRA, extra, pl.String)).filter("sound").drop("sound")
    return _listed(frame, TASKS, "task", check)


def _listed(
    rows: pl.DataFrame, schema: Mapping[str, Any], what: Literal["task", "agent"], check: Checking
) -> tuple[pl.DataFrame, Listed]:
    """Each name once, and the list of them."""
    check.finish()
    if not check.rows and not check.broken:
        article = "An" if what == "agent" else "A"
        check.add(f"no rows. {article} {what}s table must list every {what}; leave it out if there is none")
    frame = pl.concat([pl.DataFrame(schema={**schema, "line": pl.Int64}), rows], how="diagonal")
    found = _firsts(frame, [what], f"{what} {{{what}!r}} is already on line {{first}}", check).drop("line")
    return found, Listed(what, found[what], "" if check.broken else check.file)


def _firsts(frame: pl.DataFrame, key: Sequence[str], message: str, check: Checking) -> pl.DataFrame:
    """The first row of each key; further ones are reported as duplicates of it."""
    placed = frame.with_row_index("place")
    kept = placed.unique(key, keep="first", maintain_order=True)
    if kept.height == frame.height:
        return frame
    again = placed.join(kept.select(*key, first="line", kept="place"), on=key, maintain_order="left")
    for row in again.filter(pl.col("place") != pl.col("kept")).iter_rows(named=True):
        check.duplicate(message.format_map(row), row["line"])
    return kept.drop("place")


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


def read_agents(source: Source, problems: Problems) -> tuple[dict[str, Agent], Listed]:
    """The agents by name, in the order of the table, and the list of them."""
    check, table = Checking(source.file, problems), source.table(problems)
    check.rows = len(table.lines)
    found: dict[str, Agent] = {}
    names = []
    for line, row in zip(table.lines, table.rows, strict=True):
        name, agent = checked_agent(row, line, check)
        if name is not None:
            names.append((name, line))
            found.setdefault(name, agent)
    frame = pl.DataFrame(names, {"agent": pl.String, "line": pl.Int64}, orient="row")
    return found, _listed(frame, {"agent": pl.String}, "agent", check)[1]


def checked_agent(row: Row, line: int, check: Checking) -> tuple[str | None, Agent]:
    """The name of a row's agent (None, with a problem, if it has none) and the agent."""
    name = check.name(row, "agent", line)
    group = check.optional_name(row, "group", line)
    parameters = check.optional_number(row, "parameters", line)
    family = check.optional_name(row, "family", line)
    cutoff = _cutoff_date(row, line, check)
    if parameters is not None and parameters <= 0:
        check.add(f"parameters must be a positive number such as 7e9, got {parameters:g}", line)
    return name, Agent(name or "", group, parameters, family, cutoff, check.optional_name(row, "sample_of", line))


def _cutoff_date(row: Row, line: int, check: Checking) -> str | None:
    value = row.get("cutoff_date")
    if isinstance(value, date):
        # A datetime is a date too, and its time says nothing here.
        return date(value.year, value.month, value.day).isoformat()
    text: str | None = check.optional_text(row, "cutoff_date", line)
    if text is None:
        return None
    if last_day(text) is None:
        check.add(f"cutoff_date must be a date such as 2023-09-30, 2023-09 or 2023, got {text!r}", line)
        return None
    return text.strip()


# --- responses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Responses:
    """The responses of a table, each once."""

    frame: pl.DataFrame
    """task, agent, text, and the columns about tasks."""
    samples: Mapping[str, str]
    """The agent of each sample, by the sample's name."""
    whole: bool
    """True if every row was read, so that labels can be checked against them."""
    chats: bool = False
    """True if texts were given as chats."""


NO_RESPONSES = Responses(pl.DataFrame(schema=dict.fromkeys(REQUIRED, pl.String)), {}, whole=False)


def read_responses(source: Source, tasks: Listed, agents: Listed, problems: Problems) -> Responses:
    """The responses; without a tasks table the tasks are taken from here, without an agents table the agents."""
    check = Checking(source.file, problems)

    def choose(names: Sequence[str]) -> list[str]:
        if not set(REQUIRED) <= set(names):
            return list(names)  # the message that one is missing names them all
        return [name for name in names if name in {*REQUIRED, SAMPLE} or (is_task_column(name) and not tasks.file)]

    given = source.table(problems, choose=choose)
    table = _without_chats(given, check)
    more: dict[str, Cells] = {
        name: "optional_name" if name == SAMPLE else "optional_text"
        for name in choose(table.frame.columns)
        if name == SAMPLE or is_task_column(name)
    }
    check.rows = len(table.lines)
    rows = read_columns(table, {**REQUIRED, **more}, check)
    check.finish()
    frame = pl.concat([NO_RESPONSES.frame.clear(), rows], how="diagonal_relaxed")
    frame, samples = _with_samples(frame, agents, check)
    known = tasks.check(frame, ["task"], check), agents.check(frame, ["agent"], check)
    frame = frame.filter(pl.col("sound"), *known).drop("sound")
    if not check.rows and not check.broken:
        check.add("no rows. A row needs task, agent and text; leave the table out if there are no responses yet")
    for column in filter(is_task_column, frame.columns):
        _check_same(frame, column, check)
    second = "a second response of agent {agent!r} to task {task!r}; the first is on line {first}"
    frame = _firsts(frame, ["task", "agent"], f"{second}. {SAMPLES}", check)
    if not check.broken:
        for names in (tasks, agents):
            names.file = names.file or source.file or "the responses"
    return Responses(frame.drop("line"), samples, whole=not check.broken, chats=table is not given)


def _without_chats(table: NumberedRows, check: Checking) -> NumberedRows:
    """The rows with the last turn of the assistant in place of a chat, and the turns before it as the prompt."""
    texts = table.frame.get_column("text", default=pl.Series("text", [], pl.String))
    plain = texts.dtype == pl.String
    chats = [turns(text) for text in texts.to_list()] if not plain or texts.str.starts_with("[{").any() else []
    if not any(chats):
        return table
    rows = []
    for line, row, chat in zip(table.lines, table.rows, chats, strict=True):
        text, prompt = (row["text"], None) if chat is None else last_response(chat)
        if chat is not None and text is None:
            check.add("text must be a response, got a chat without a turn of the assistant", line)
        else:
            rows.append(Line(line, {**row, "text": text, "prompt": row.get("prompt") or prompt}))
    return NumberedRows.of(rows)


def _with_samples(frame: pl.DataFrame, agents: Listed, check: Checking) -> tuple[pl.DataFrame, dict[str, str]]:
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
        check.add(f"a sample of {samples[name]!r} must not have the name of another agent, {name!r}")
    if agents.file:
        agents.names = pl.concat([agents.names, pl.Series(list(samples), dtype=pl.String)]).unique(maintain_order=True)
    return named.drop(SAMPLE, "of"), samples


def _check_same(frame: pl.DataFrame, column: str, check: Checking) -> None:
    """Report rows that contradict what an earlier one says about the task."""
    given = frame.select("line", "task", value=column).drop_nulls("value")
    several = given.filter(pl.col("value").n_unique().over("task") > 1)
    first = several.with_columns(
        pl.col("line").first().over("task").alias("first"), was=pl.col("value").first().over("task")
    )
    message = f"{column} of task {{task!r}} differs from line {{first}}. A task has one {column}"
    report(first, pl.col("value") != pl.col("was"), message, check)


# --- labels ----------------------------------------------------------------------------------------------------------


NO_LABELS = pl.DataFrame(
    schema={name: pl.Float64 if cells.endswith("number") else pl.String for name, cells in LABELS.items()}
)


def read_labels(
    source: Source, tasks: Listed, agents: Listed, problems: Problems, responses: pl.DataFrame | None
) -> pl.DataFrame:
    """Ratings and preferences in one frame; each must be of an existing response if ``responses`` is given."""
    check, table = Checking(source.file, problems), source.table(problems)
    check.rows = len(table.lines)
    rows = read_columns(table, LABELS, check).filter("sound").drop("sound")
    check.finish()
    frame = rows.cast(dict(NO_LABELS.schema))  # type: ignore[arg-type]
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
        frame = report(frame, wrong, message, check)
    frame = frame.filter(tasks.check(frame, ["task"], check), agents.check(frame, ["agent", "first", "second"], check))
    if responses is not None:
        for column in ("agent", "first", "second"):
            _check_answered(frame, column, responses, check)
    return frame.drop("line")


def _check_answered(frame: pl.DataFrame, column: str, responses: pl.DataFrame, check: Checking) -> None:
    given = frame.select("line", "task", agent=column).drop_nulls("agent")
    absent = given.join(responses, on=["task", "agent"], how="anti", maintain_order="left")
    for task, agent, line, count in (
        absent.group_by("task", "agent", maintain_order=True).agg(pl.col("line").first(), n=pl.len()).iter_rows()
    ):
        more = f" ({count:,} labels from here on)" if count > 1 else ""
        check.add(f"no such response: agent {agent!r} to task {task!r}{more}", line)


def with_samples(agents: Mapping[str, Agent], names: Sequence[str], samples: Mapping[str, str]) -> tuple[Agent, ...]:
    """The record of each name: as its table has it, or that of the agent that it is a sample of."""
    return tuple(
        agents.get(name)
        or replace(agents.get(samples.get(name, ""), Agent(name)), agent=name, sample_of=samples.get(name))
        for name in names
    )
