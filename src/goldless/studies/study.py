"""The study: tasks, responses and labels as frames, and recorded tables read when needed; immutable."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl

from goldless.errors import UserError, suggested
from goldless.records import Agent, Preference, Rating, Response, Task
from goldless.studies import recorded
from goldless.studies.checking import SHOWN, Row, as_json, as_text
from goldless.studies.frames import EXTRA, NO_EMPTY_RESPONSES, SYNOPSIS

MADE = ("tasks", "responses", "agents", "labels")
"""The study's own tables; all others are recorded."""
BLOCK = 1000
"""Tasks whose texts are made Python's at a time."""


@dataclass(frozen=True)
class Origin:
    """The way a study was read from files."""

    importer: str
    """The format; ``study`` is goldless's own."""
    files: int
    notes: tuple[str, ...] = ()
    """Notes for the user about the reading."""


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """Tasks, responses, labels and recorded evidence, read and checked; made by ``read_study`` and similar functions.

    Iterating yields each task with its responses.
    """

    name: str
    """Name of its folder or file."""
    path: Path | None
    """The path it was read from; None for a frame."""
    _: KW_ONLY
    task_table: pl.DataFrame
    """task, prompt, reference, synopsis_…, and other columns as one object in JSON."""
    agents: tuple[Agent, ...]
    """The agents, in the order of the agents table, or of first appearance."""
    response_table: pl.DataFrame
    """task, agent and text, in the order of the tasks and agents."""
    label_table: pl.DataFrame
    """Ratings (task, agent, rater, score), preferences (task, first, second, rater, preference), and criterion."""
    recorded_tables: Mapping[str, recorded.Recorded] = field(default_factory=dict)
    """Recorded evidence and unknown tables, by name."""
    empty_responses: pl.DataFrame = field(default_factory=NO_EMPTY_RESPONSES.clone)
    """Task, agent and line of rows without a text in the table of responses: these responses are missing."""
    part_of_whole: bool = False
    """True if recorded tables may have other tasks and agents."""
    origin: Origin | None = None
    """The way it was read; None if it is not from files."""

    def __repr__(self) -> str:
        return (
            f"<Study {self.name!r}: {len(self.tasks)} tasks, {len(self.agents)} agents, {self.n_responses} responses>"
        )

    def __len__(self) -> int:
        return self.task_table.height

    def __iter__(self) -> Iterator[tuple[Task, tuple[Response, ...]]]:
        """Each task with its responses, in order."""
        for start in range(0, len(self), BLOCK):
            tasks = map(_task, self.task_table.slice(start, BLOCK).iter_rows(named=True))
            yield from zip(tasks, self._responses(start, min(start + BLOCK, len(self))), strict=True)

    def with_peers(self) -> Iterator[tuple[Task, tuple[Response, ...]]]:
        """The tasks that at least two agents answered, with their responses."""
        return ((task, responses) for task, responses in self if len(responses) > 1)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of the tasks table, or of first appearance."""
        return tuple(self.task_table["task"])

    @cached_property
    def task_names(self) -> pl.Enum:
        """The names of the tasks as a column's type, which joins fast; slow to make where there are millions."""
        return pl.Enum(self.task_table["task"])

    @cached_property
    def agent_list(self) -> tuple[str, ...]:
        """Names of the agents, in the order of ``agents``."""
        return tuple(agent.agent for agent in self.agents)

    @cached_property
    def agent_names(self) -> pl.Enum:
        """The names of the agents as a column's type."""
        return pl.Enum(self.agent_list)

    @property
    def n_responses(self) -> int:
        """Number of responses: ``len(tasks) * len(agents)`` minus the missing ones."""
        return self.response_table.height

    @property
    def empty_responses_note(self) -> str | None:
        """A sentence that counts the rows without a text and names the first; None if there are none."""
        count = self.empty_responses.height
        if not count:
            return None
        rows = [f"row {line} ({agent} on {task})" for task, agent, line in self.empty_responses.head(SHOWN).iter_rows()]
        more = f" and {count - SHOWN:,} more" if count > SHOWN else ""
        are_empty = "1 response is empty, so it is" if count == 1 else f"{count:,} responses are empty, so they are"
        return f"{are_empty} missing: {', '.join(rows)}{more}"

    @property
    def n_tasks_with_peers(self) -> int:
        return int((np.diff(self._starts) > 1).sum())

    @property
    def n_ratings(self) -> int:
        return self.label_table.height - self.n_preferences

    @property
    def n_preferences(self) -> int:
        return int(self.label_table["second"].count())

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the recorded tables, apart from tasks, responses, agents and labels."""
        return tuple(self.recorded_tables)

    @cached_property
    def synopses(self) -> tuple[str, ...]:
        """Names of the synopses that at least one task has, sorted."""
        used = (c.name for c in self.task_table if c.name.startswith(SYNOPSIS) and c.null_count() < len(c))
        return tuple(sorted(name.removeprefix(SYNOPSIS) for name in used))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of tasks and responses: the same for the same content in any format.

        The order of tasks matters, that of agents does not. Other columns of a task are hashed as the text of a CSV
        cell.
        """
        digest = hashlib.sha256(b"goldless study 1")
        for task, responses in self:
            extra = {column: as_text(value) for column, value in task.extra.items()}
            about = as_json([task.task, task.prompt, task.reference, task.synopses, extra])
            said = sorted((response.agent.encode(), response.text.encode()) for response in responses)
            # Each length first: no two studies may give the same bytes in a row.
            digest.update(len(about).to_bytes(8, "big") + about + len(said).to_bytes(8, "big"))
            for data in chain.from_iterable(said):
                digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()

    def task(self, task: str) -> Task:
        return _task(self.task_table.row(self._task_number(task), named=True))

    def responses(self, task: str) -> tuple[Response, ...]:
        """The responses to the task, in the order of the agents."""
        number = self._task_number(task)
        return next(self._responses(number, number + 1))

    def response(self, task: str, agent: str) -> Response | None:
        """The agent's response to the task, or None if it is missing."""
        if agent not in self._agents_by_name:
            raise _unknown("agent", agent, self._agents_by_name)
        return next((response for response in self.responses(task) if response.agent == agent), None)

    def labels(self) -> Iterator[Rating | Preference]:
        """All human labels, in the order they were recorded."""
        return (Rating(**row) if "agent" in row else Preference(**row) for row in self.rows("labels"))

    def ratings(self) -> Iterator[Rating]:
        return (label for label in self.labels() if isinstance(label, Rating))

    def preferences(self) -> Iterator[Preference]:
        return (label for label in self.labels() if isinstance(label, Preference))

    def rows(self, name: str) -> Iterator[Row]:
        """The rows of tasks, responses, agents or labels, without empty cells."""
        if name == "tasks":
            rows: Iterable[Row] = map(task_row, map(_task, self.task_table.iter_rows(named=True)))
        elif name == "agents":
            rows = map(asdict, self.agents)
        else:
            rows = (self.label_table if name == "labels" else self.response_table).iter_rows(named=True)
        return ({column: value for column, value in row.items() if value is not None} for row in rows)

    def table(self, name: str) -> pl.DataFrame | None:
        """A table of the study, read again at each call, or None if there is no such table.

        Columns that name tasks, agents, reviewers and the like are text.
        """
        if name in MADE:
            return self._made(name)
        lazy = self.scan(name)
        if lazy is None:
            return None
        with self.reading(name):
            return lazy.collect()

    def scan(self, name: str) -> pl.LazyFrame | None:
        """The table as a lazy frame, or None if there is no such table; recorded Parquet is not read yet.

        Collect it inside ``reading(name)``, so that a damaged file raises an error that names it.
        """
        if name in MADE:
            made = self._made(name)
            return None if made is None else made.lazy()
        if name not in self.recorded_tables:
            return None
        lazy = recorded.scan(self.recorded_tables[name])
        if not self.part_of_whole:
            return lazy
        return recorded.restricted(lazy, name, task=self.tasks, agent=self.agent_list)

    def reading(self, name: str) -> AbstractContextManager[object]:
        """A ``with`` block for collecting a recorded table: errors of a damaged file become a ``StudyError``."""
        return recorded.reading(self.recorded_tables[name])

    def subset(self, *, tasks: Iterable[str] | None = None, agents: Iterable[str] | None = None) -> Study:
        """The study of some tasks and agents, in the same order, with their labels and evidence."""
        of_task = pl.col("task").is_in(_chosen("task", self._task_numbers, tasks))
        names = _chosen("agent", self._agents_by_name, agents)
        of_agents = [pl.col(c).is_null() | pl.col(c).is_in(names) for c in ("agent", "first", "second")]
        return replace(
            self,
            task_table=self.task_table.filter(of_task),
            agents=tuple(agent for agent in self.agents if agent.agent in names),
            response_table=self.response_table.filter(of_task, pl.col("agent").is_in(names)),
            label_table=self.label_table.filter(of_task, *of_agents),
            part_of_whole=True,
        )

    @cached_property
    def samples(self) -> Mapping[str, str]:
        """The agent of each sample, by the sample's name; empty where every agent has one response to a task."""
        return {agent.agent: agent.sample_of for agent in self.agents if agent.sample_of is not None}

    def family(self, family: str | None) -> frozenset[str]:
        """The agents of a model family; an agent of no known family is one of its own. None: no agent."""
        return frozenset(a.agent for a in self.agents if family == (a.family or a.sample_of or a.agent))

    def one_sample_each(self) -> Study:
        """The study with the first sample of each agent, under the agent's name; without evidence and labels."""
        if not self.samples:
            return self
        named: dict[str, Agent] = {}
        for agent in self.agents:
            named.setdefault(agent.sample_of or agent.agent, agent)
        named_after = pl.col("agent").replace(dict(self.samples))
        first = self.response_table.with_columns(named_after).unique(
            ["task", "agent"], keep="first", maintain_order=True
        )
        return replace(
            self,
            agents=tuple(replace(agent, agent=name, sample_of=None) for name, agent in named.items()),
            response_table=in_order(first, self.task_table["task"], pl.Series(list(named))),
            label_table=self.label_table.clear(),
            recorded_tables={},
            part_of_whole=False,
        )

    def with_agents(self, known: Mapping[str, Agent]) -> Study:
        """The same study with these records of the agents they name; other agents are unchanged.

        Names that are not agents of the study are ignored.
        """
        return replace(self, agents=tuple(replace(known.get(a.agent, a), agent=a.agent) for a in self.agents))

    def without_recorded(self, *, except_: Collection[str] = ()) -> Study:
        """The same study without recorded evidence, apart from some tables."""
        kept = {name: data for name, data in self.recorded_tables.items() if name in except_}
        return replace(self, recorded_tables=kept)

    def with_labels(self, labels: pl.DataFrame) -> Study:
        return replace(self, label_table=labels)

    @cached_property
    def _task_numbers(self) -> dict[str, int]:
        return {task: number for number, task in enumerate(self.tasks)}

    @cached_property
    def _agents_by_name(self) -> dict[str, Agent]:
        return {agent.agent: agent for agent in self.agents}

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        counts = self.response_table.group_by("task").len()
        each = self.task_table.select("task").join(counts, on="task", how="left", maintain_order="left")["len"]
        return np.concatenate([[0], each.fill_null(0).cum_sum().to_numpy()]).astype(np.int64)

    def _task_number(self, task: str) -> int:
        if task not in self._task_numbers:
            raise _unknown("task", task, self._task_numbers)
        return self._task_numbers[task]

    def _responses(self, start: int, stop: int) -> Iterator[tuple[Response, ...]]:
        """The responses to each of the tasks with these numbers."""
        places = (self._starts[start : stop + 1] - self._starts[start]).tolist()
        rows = self.response_table.slice(int(self._starts[start]), places[-1]).rows()
        for first, last in pairwise(places):
            yield tuple(Response(*row) for row in rows[first:last])

    def _made(self, name: str) -> pl.DataFrame | None:
        """A table of the study's own, without empty columns; None if it has no rows."""
        frame = self.label_table if name == "labels" else self.response_table
        if name == "agents":
            frame = pl.DataFrame(self.agents, infer_schema_length=None, orient="row")
        elif name == "tasks":
            frame = pl.DataFrame([*self.task_table.drop(EXTRA), *_extra_columns(self.task_table[EXTRA])])
        return frame.select(c for c in frame if c.null_count() < len(c)) if frame.height else None


def _task(row: Mapping[str, Any]) -> Task:
    synopses = {
        name.removeprefix(SYNOPSIS): text
        for name, text in row.items()
        if text is not None and name.startswith(SYNOPSIS)
    }
    extra = orjson.loads(row[EXTRA]) if row[EXTRA] is not None else {}
    return Task(row["task"], row["prompt"], row["reference"], synopses, extra)


def _extra_columns(extra: pl.Series) -> Iterator[pl.Series]:
    """The other columns of tasks: of one plain type, or text."""
    rows = [{} if row is None else orjson.loads(row) for row in extra]
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        kinds = set(map(type, values)) - {type(None)}
        if kinds in ({str}, {bool}, {float}) or (kinds == {int} and all(-(2**63) <= (v or 0) < 2**63 for v in values)):
            yield pl.Series(name, values)
        else:
            yield pl.Series(name, [None if value is None else as_text(value) for value in values], pl.String)


def task_row(task: Task) -> Row:
    """The task as a row, without empty cells."""
    synopses = {f"{SYNOPSIS}{key}": text for key, text in task.synopses.items()}
    row = {"task": task.task, "prompt": task.prompt, "reference": task.reference, **synopses, **task.extra}
    return {column: value for column, value in row.items() if value is not None}


def in_order(responses: pl.DataFrame, tasks: pl.Series, agents: pl.Series) -> pl.DataFrame:
    """The responses in the order of the tasks and agents."""
    keys = responses.select("task", "agent").with_row_index("row")
    for name, names in (("task", tasks), ("agent", agents)):
        places = pl.DataFrame({name: names}, {name: pl.String}).with_row_index(f"{name} place")
        keys = keys.join(places, on=name, how="left", maintain_order="left").drop(name)
    return responses.select("task", "agent", "text")[keys.sort("task place", "agent place")["row"]]


def _chosen(what: str, known: Collection[str], names: Iterable[str] | None) -> list[str]:
    """The chosen names, all by default. Raises if one is not known, or there is none."""
    chosen = list(known) if names is None else list(dict.fromkeys(names))
    for name in chosen:
        if name not in known:
            raise _unknown(what, name, known)
    if not chosen:
        raise UserError(f"a subset must have at least one {what}, got none")
    return chosen


def _unknown(what: str, name: str, known: Collection[str]) -> UserError:
    return UserError(f"no {what} {name!r} in the study{suggested(name, known, f'{what.capitalize()}s')}")
