"""The responses table: checked in chunks, kept as three numbers per response with the texts in the spool."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from goldless.studies.checking import Checking, Names, Problems, Row
from goldless.studies.spool import Spool
from goldless.studies.tables import Chunk, Source
from goldless.studies.task_table import is_task_column, task_record

REQUIRED = ("task", "agent", "text")
SAMPLE = "sample"
"""The column that numbers the responses of one agent to one task."""
Cells = tuple[list[str], ...]
"""Tasks, agents and texts of some rows."""


def pair_keys(tasks: npt.ArrayLike, agents: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """One number per (task, agent), ordered by task, then agent."""
    return (np.asarray(tasks, np.int64) << 32) | np.asarray(agents, np.int64)


@dataclass(frozen=True, slots=True)
class ResponseColumns:
    """All responses, ordered by task, then agent."""

    spool: Spool
    key: npt.NDArray[np.int64]
    """Number of the task in the high half, number of the agent in the low half; ascending."""
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]

    def agents_at(self, places: range) -> list[int]:
        """Agent numbers at a range of positions."""
        numbers: list[int] = (self.key[places.start : places.stop] & 0xFFFFFFFF).tolist()
        return numbers

    def of_task(self, number: int) -> range:
        """The positions of the responses to one task."""
        first, last = np.searchsorted(self.key, (number << 32, (number + 1) << 32))
        return range(int(first), int(last))

    def places(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The position of each (task, agent), or -1 if there is no such response."""
        if not len(self.key):
            return np.full(len(keys), -1)
        place = np.searchsorted(self.key, keys).clip(max=len(self.key) - 1)
        return np.where(self.key[place] == keys, place, -1)

    def data(self, place: int) -> bytes:
        """The text at a position, in UTF-8."""
        return self.spool.read(int(self.offset[place]), int(self.length[place]))

    def texts(self, places: range) -> list[str]:
        """The texts at a range of positions; one read if they are contiguous in the spool."""
        offsets, lengths = self.offset[places.start : places.stop], self.length[places.start : places.stop]
        total = int(lengths.sum())
        if not total or int((offsets + lengths).max() - offsets.min()) != total:
            return [self.data(place).decode() for place in places]
        data = self.spool.read(int(offsets.min()), total)
        starts = (offsets - offsets.min()).tolist()
        return [data[start : start + n].decode() for start, n in zip(starts, lengths.tolist(), strict=True)]

    def take(self, keep: npt.NDArray[np.bool_], key: npt.NDArray[np.int64]) -> ResponseColumns:
        """The responses to keep, under new keys."""
        return ResponseColumns(self.spool, key, self.offset[keep], self.length[keep])


class ResponseTable:
    """The responses while they are being read."""

    def __init__(self, spool: Spool, tasks: Names, agents: Names) -> None:
        self.tasks = tasks
        self.agents = agents
        self._spool = spool
        self._task = array("i")
        self._agent = array("i")
        self._offset = array("q")
        self._length = array("q")
        self._line = array("q")
        self._given: dict[int, dict[str, _Given]] = {}
        self.samples: dict[str, str] = {}
        """The agent of each sample, by the sample's name."""
        self._single: set[str] = set()

    def read(self, source: Source, problems: Problems) -> bool:
        """Read the rows; whether every row was read, so that labels can be checked against the responses.

        Without a tasks table the tasks are taken from here, without an agents table the agents.
        """
        check = Checking(source.file, problems)
        for chunk in source.chunks(problems, choose=self._choose):
            check.rows += len(chunk.rows)
            self._add(chunk, check)
        check.finish()
        self.tasks.report_strangers("task", source.file, problems)
        self.agents.report_strangers("agent", source.file, problems)
        if not check.rows and not check.broken:
            check.add("no rows. Leave out the responses table if there are none yet")
        for name in sorted(self._single & self.samples.keys()):
            check.add(f"a sample of {self.samples[name]!r} must not have the name of another agent, {name!r}")
        self._report_duplicates(check)
        if not check.broken:
            here = source.file or "the responses"
            self.tasks.listed_in = self.tasks.listed_in or here
            self.agents.listed_in = self.agents.listed_in or here
        return not check.broken

    def finish(self) -> ResponseColumns:
        """All responses, sorted."""
        key, order = self._sorted()
        offset, length = np.array(self._offset, np.int64), np.array(self._length, np.int64)
        return ResponseColumns(self._spool, key, offset[order], length[order])

    def task_records(self) -> Iterator[dict[str, Any] | None]:
        """What the rows say about each task."""
        for number in range(len(self.tasks)):
            given = self._given.get(number, {})
            texts = {column: self._spool.read(cell.offset, cell.length).decode() for column, cell in given.items()}
            yield task_record(texts, {})

    def _choose(self, names: Sequence[str]) -> list[str]:
        if not set(REQUIRED) <= set(names):
            return list(names)  # the message that one is missing names them all
        kept = (*REQUIRED, SAMPLE)
        return [name for name in names if name in kept or (is_task_column(name) and not self.tasks.listed_in)]

    def _add(self, chunk: Chunk, check: Checking) -> None:
        if any(SAMPLE in row for row in chunk.rows):
            chunk = self._apart(chunk, check)
        cells = _regular(chunk.rows)
        if cells is None or not self._known(cells):
            chunk = self._sifted(chunk, check)
            cells = _regular(chunk.rows)
        if cells is None:
            return
        tasks, agents, texts = cells
        numbers = list(map(self.tasks.__getitem__, tasks))
        data = [text.encode() for text in texts]
        length = np.fromiter(map(len, data), np.int64, len(data))
        offset = self._spool.append(b"".join(data)) + length.cumsum() - length
        self._task.extend(numbers)
        self._agent.extend(map(self.agents.__getitem__, agents))
        self._offset.frombytes(offset.tobytes())
        self._length.frombytes(length.tobytes())
        self._line.extend(chunk.lines)
        if not self.tasks.listed_in and max(map(len, chunk.rows)) > len(REQUIRED):
            self._note_tasks(chunk, numbers, check)

    def _apart(self, chunk: Chunk, check: Checking) -> Chunk:
        """The rows with each sample as an agent of its own, ``AGENT#SAMPLE``."""
        rows = []
        for line, row in zip(chunk.lines, chunk.rows, strict=True):
            sample, agent = check.optional_name(row, SAMPLE, line), row.get("agent")
            if sample is not None and isinstance(agent, str | int):
                name = f"{agent}#{sample}"
                if not self.agents.listed_in or str(agent) in self.agents:
                    self.samples[name] = str(agent)
                    self.agents.setdefault(name, len(self.agents))
                    agent = name
            elif isinstance(agent, str) and agent.strip():
                self._single.add(agent)
                if not self.agents.listed_in:
                    self.agents.setdefault(agent, len(self.agents))  # in the order of the rows
            rows.append(row if agent is None else {**row, "agent": agent})
        return Chunk(chunk.lines, rows)

    def _known(self, cells: Cells) -> bool:
        """Whether every task and agent in the rows is listed in its table."""
        pairs = ((self.tasks, cells[0]), (self.agents, cells[1]))
        return all(not names.listed_in or all(map(names.__contains__, used)) for names, used in pairs)

    def _sifted(self, chunk: Chunk, check: Checking) -> Chunk:
        """The valid rows, names as text; the others are reported."""
        lines: list[int] = []
        rows: list[Row] = []
        for line, row in zip(chunk.lines, chunk.rows, strict=True):
            task = check.name(row, "task", line)
            agent = check.name(row, "agent", line)
            text = check.text(row, "text", line)
            known = task is not None and self.tasks.number(task, line) >= 0
            known &= agent is not None and self.agents.number(agent, line) >= 0
            if known and text is not None:
                lines.append(line)
                rows.append({**row, "task": task, "agent": agent})
        return Chunk(lines, rows)

    def _note_tasks(self, chunk: Chunk, numbers: list[int], check: Checking) -> None:
        """Keep the task columns of the rows; contradicting rows are a problem."""
        for column in sorted(filter(is_task_column, set().union(*chunk.rows))):
            for line, number, row in zip(chunk.lines, numbers, chunk.rows, strict=True):
                text = check.optional_text(row, column, line)
                if text is None:
                    continue
                given = self._given.setdefault(number, {})
                if column not in given:
                    data = text.encode()
                    given[column] = _Given(line, hash(text), self._spool.append(data), len(data))
                elif given[column].digest != hash(text):
                    message = f"{column} of task {row['task']!r} differs from line {given[column].line}"
                    check.add(f"{message}. A task has one {column}", line)

    def _sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The keys in ascending order, with the position each was read at."""
        key = pair_keys(self._task, self._agent)
        order = np.argsort(key, kind="stable")
        return key[order], order

    def _report_duplicates(self, check: Checking) -> None:
        key, order = self._sorted()
        again = np.flatnonzero(key[1:] == key[:-1]) + 1
        if not len(again):
            return
        tasks, agents = list(self.tasks), list(self.agents)
        start = 0
        for place in map(int, again):
            if key[place] != key[start]:
                start = place - 1
            row, first = int(order[place]), int(order[start])
            who = f"agent {agents[self._agent[row]]!r} to task {tasks[self._task[row]]!r}"
            message = f"a second response of {who}; the first is on line {self._line[first]}. {SAMPLES}"
            check.duplicate(message, self._line[row])


SAMPLES = "Number the samples in a column sample, or choose with --repeats: samples, first, agents or tasks"


class _Given(NamedTuple):
    """What a row says about its task in one column."""

    line: int
    digest: int
    offset: int
    length: int


def _regular(rows: list[Row]) -> Cells | None:
    """The tasks, agents and texts of the rows; None if one of their cells is missing, blank or not text."""
    try:
        columns = tuple([row[column] for row in rows] for column in REQUIRED)
    except KeyError:
        return None
    if any(set(map(type, column)) != {str} or not all(map(str.strip, column)) for column in columns):
        return None
    return columns
