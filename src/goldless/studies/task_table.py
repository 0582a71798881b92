"""The tasks and agents tables: each task once, with its columns kept in the spool; each agent once."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from goldless.dates import last_day
from goldless.records import Agent, Task
from goldless.studies.checking import Checking, Names, Problems, Row, as_json, is_empty
from goldless.studies.spool import Spool
from goldless.studies.tables import Source

SYNOPSIS = "synopsis_"
Record = TypeVar("Record")


def is_task_column(column: str) -> bool:
    """Whether the column describes the task rather than the response, in a table that has both."""
    return column in {"prompt", "reference"} or (column.startswith(SYNOPSIS) and column != SYNOPSIS)


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """Where each task's columns are in the spool."""

    spool: Spool
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    """Zero if only the task's name is known."""

    def task(self, name: str, number: int) -> Task:
        """The task with this number."""
        if not self.length[number]:
            return Task(name)
        record = orjson.loads(self.spool.read(int(self.offset[number]), int(self.length[number])))
        return Task(name, record["prompt"], record["reference"], record["synopses"], record["extra"])

    def take(self, numbers: npt.NDArray[np.int64]) -> TaskColumns:
        """The tasks with these numbers, renumbered."""
        return TaskColumns(self.spool, self.offset[numbers], self.length[numbers])


class TaskTable:
    """The tasks while they are being read."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._offset = array("q")
        self._length = array("q")

    def read(self, source: Source, problems: Problems) -> Names:
        """Read the names of all tasks.

        The list stays open if some rows could not be read, so that other tables are not blamed for it.
        """
        names = Names()

        def keep(name: str, record: dict[str, Any] | None) -> None:
            names[name] = len(names)
            self.keep(record)

        names.listed_in = read_listed(source, problems, "task", self._record, keep)
        return names

    def keep(self, record: dict[str, Any] | None) -> None:
        """Keep the record of the next task; None if only its name is known."""
        data = as_json(record) if record else b""
        self._offset.append(self._spool.append(data))
        self._length.append(len(data))

    def finish(self) -> TaskColumns:
        """All tasks."""
        return TaskColumns(self._spool, np.array(self._offset, np.int64), np.array(self._length, np.int64))

    @staticmethod
    def _record(row: Row, line: int, check: Checking) -> tuple[str | None, dict[str, Any] | None]:
        known = {c: check.optional_text(row, c, line) for c in row if is_task_column(c)}
        extra = {c: v for c, v in row.items() if c != "task" and c not in known and not is_empty(v)}
        # JSON has no infinity; as text it is not lost.
        extra |= {c: str(v) for c, v in extra.items() if type(v) is float and math.isinf(v)}
        record = task_record({c: v for c, v in known.items() if v is not None}, extra)
        return check.name(row, "task", line), record


def read_listed(
    source: Source,
    problems: Problems,
    what: str,
    read: Callable[[Row, int, Checking], tuple[str | None, Record]],
    keep: Callable[[str, Record], None],
) -> str:
    """Keep the record of each row, one per name; returns the file, or "" if some rows could not be read."""
    check = Checking(source.file, problems)
    first: dict[str, int] = {}
    for chunk in source.chunks(problems):
        check.rows += len(chunk.rows)
        for line, row in zip(chunk.lines, chunk.rows, strict=True):
            name, record = read(row, line, check)
            if name is None:
                continue
            if name in first:
                check.duplicate(f"{what} {name!r} is already on line {first[name]}", line)
                continue
            first[name] = line
            keep(name, record)
    check.finish()
    if not check.rows and not check.broken:
        article = "An" if what == "agent" else "A"
        check.add(f"no rows. {article} {what}s table must list every {what}; leave it out if there is none")
    return "" if check.broken else source.file


def record_of(task: Task) -> dict[str, Any] | None:
    """A task as stored in the spool."""
    columns = {"prompt": task.prompt, "reference": task.reference}
    columns |= {f"{SYNOPSIS}{key}": text for key, text in task.synopses.items()}
    return task_record({key: text for key, text in columns.items() if text is not None}, dict(task.extra))


def task_record(columns: dict[str, str], extra: dict[str, Any]) -> dict[str, Any] | None:
    """A task as stored in the spool; None if only its name is known."""
    if not columns and not extra:
        return None
    synopses = {c.removeprefix(SYNOPSIS): v for c, v in columns.items() if c.startswith(SYNOPSIS)}
    return {
        "prompt": columns.get("prompt"),
        "reference": columns.get("reference"),
        "synopses": synopses,
        "extra": extra,
    }


class AgentTable:
    """The agents: those the table lists, or else those that other tables name."""

    def __init__(self, listed: dict[str, Agent] | None = None, listed_in: str = "") -> None:
        self._listed = listed or {}
        self.names = Names(listed_in)
        self.names.update({agent: number for number, agent in enumerate(self._listed)})

    def records(self, samples: Mapping[str, str] | None = None) -> tuple[Agent, ...]:
        """All agents, in order; ``samples``: which of them is a sample of which agent."""
        return tuple(self._listed.get(name) or self._sample(name, (samples or {}).get(name)) for name in self.names)

    def _sample(self, name: str, of: str | None) -> Agent:
        return replace(self._listed.get(of or "", Agent(name)), agent=name, sample_of=of)


def read_agents(source: Source, problems: Problems) -> AgentTable:
    """The agents in the order of the table."""
    agents: dict[str, Agent] = {}

    listed_in = read_listed(source, problems, "agent", checked_agent, agents.__setitem__)
    return AgentTable(agents, listed_in)


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
    text = check.optional_text(row, "cutoff_date", line)
    if text is None:
        return None
    if last_day(text) is None:
        check.add(f"cutoff_date must be a date such as 2023-09-30, 2023-09 or 2023, got {text!r}", line)
        return None
    return text.strip()
