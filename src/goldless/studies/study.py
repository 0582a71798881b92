"""The study: tasks, responses, labels and recorded evidence; immutable."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.errors import UserError, nearest
from goldless.records import Agent, Preference, Rating, Response, Task
from goldless.studies import recorded
from goldless.studies.checking import Row, as_json, as_text
from goldless.studies.content import MADE, StudyContent
from goldless.studies.label_table import LabelColumns
from goldless.studies.response_table import pair_keys


@dataclass(frozen=True, slots=True)
class Origin:
    """How a study was read from files."""

    importer: str
    """The format; ``study`` is goldless's own."""
    files: int
    notes: tuple[str, ...] = ()
    """What the user should know about the reading."""


class Study:
    """Tasks, responses, labels and recorded evidence, read and checked; made by ``read_study`` and similar functions.

    Texts are kept in memory while they are few, then in a temporary file that is deleted with the study.
    Iterating yields each task with its responses.
    """

    def __init__(
        self,
        name: str,
        path: Path | None,
        content: StudyContent,
        *,
        part_of_whole: bool = False,
        origin: Origin | None = None,
    ) -> None:
        self.name = name
        """Name of its folder or file."""
        self.path = path
        """Where it was read from; None for a frame."""
        self.content = content
        """Its content."""
        self.origin = origin
        """How it was read; None if it is not from files."""
        self._part_of_whole = part_of_whole
        self._number = {task: number for number, task in enumerate(content.tasks)}
        self._agent_number = {agent.agent: number for number, agent in enumerate(content.agents)}

    def __repr__(self) -> str:
        """Name and size."""
        return (
            f"<Study {self.name!r}: {len(self.tasks)} tasks, {len(self.agents)} agents, {self.n_responses} responses>"
        )

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.content.tasks)

    def __iter__(self) -> Iterator[tuple[Task, tuple[Response, ...]]]:
        """Each task with its responses, in order."""
        for number in range(len(self)):
            yield self.content.task(number), self.content.responses(number)

    @property
    def tasks(self) -> Sequence[str]:
        """Names of the tasks, in the order of the tasks table, or of first appearance."""
        return self.content.tasks

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents, in the order of the agents table, or of first appearance."""
        return self.content.agents

    @cached_property
    def task_names(self) -> pl.Enum:
        """The names of the tasks as a column's type, which joins fast; slow to make where there are millions."""
        return pl.Enum(self.tasks)

    @cached_property
    def agent_names(self) -> pl.Enum:
        """The names of the agents as a column's type."""
        return pl.Enum([agent.agent for agent in self.agents])

    @property
    def n_responses(self) -> int:
        """Number of responses: ``len(tasks) * len(agents)`` minus the missing ones."""
        return len(self.content.response_columns.key)

    @property
    def n_tasks_with_peers(self) -> int:
        """Number of tasks that at least two agents answered."""
        return int(np.sum(np.bincount(self.content.response_columns.key >> 32, minlength=1) > 1))

    @property
    def n_ratings(self) -> int:
        """Number of human ratings."""
        return self.content.n_ratings

    @property
    def n_preferences(self) -> int:
        """Number of human preferences."""
        return self.content.n_labels - self.content.n_ratings

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the recorded tables, apart from tasks, responses, agents and labels."""
        return tuple(self.content.recorded)

    @cached_property
    def synopses(self) -> tuple[str, ...]:
        """Names of the synopses that at least one task has, sorted."""
        return tuple(sorted({name for task in self.tasks for name in self.task(task).synopses}))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of tasks and responses: the same for the same content in any format.

        The order of tasks matters, that of agents does not. Other columns of a task are hashed as the text of a CSV
        cell.
        """
        digest = hashlib.sha256(b"goldless study 1")
        for task, responses in self:
            extra = {column: as_text(value) for column, value in task.extra.items()}
            _update(digest, as_json([task.task, task.prompt, task.reference, task.synopses, extra]))
            digest.update(len(responses).to_bytes(8, "big"))
            for response in sorted(responses, key=lambda response: response.agent):
                _update(digest, response.agent.encode())
                _update(digest, response.text.encode())
        return digest.hexdigest()

    def task(self, task: str) -> Task:
        """The task of this name."""
        return self.content.task(self._task_number(task))

    def responses(self, task: str) -> tuple[Response, ...]:
        """The responses to the task, in the order of the agents."""
        return self.content.responses(self._task_number(task))

    def response(self, task: str, agent: str) -> Response | None:
        """The agent's response to the task, or None if it is missing."""
        if agent not in self._agent_number:
            raise _unknown("agent", agent, self._agent_number)
        key = pair_keys([self._task_number(task)], [self._agent_number[agent]])
        columns = self.content.response_columns
        place = int(columns.places(key)[0])
        return None if place < 0 else Response(task, agent, columns.data(place).decode())

    def labels(self) -> Iterator[Rating | Preference]:
        """All human labels, in the order they were recorded."""
        return self.content.labels()

    def ratings(self) -> Iterator[Rating]:
        """The human ratings, in the order they were recorded."""
        return (label for label in self.labels() if isinstance(label, Rating))

    def preferences(self) -> Iterator[Preference]:
        """The human preferences, in the order they were recorded."""
        return (label for label in self.labels() if isinstance(label, Preference))

    def rows(self, name: str) -> Iterator[Row]:
        """The rows of tasks, responses, agents or labels, without empty cells."""
        return self.content.rows(name)

    def table(self, name: str) -> pl.DataFrame | None:
        """A table of the study, read again at each call, or None if there is no such table.

        Columns that name tasks, agents, reviewers and the like are text.
        """
        if name in MADE:
            return self.content.frame(name)
        if name not in self.content.recorded:
            return None
        with self.reading(name):
            lazy = self.scan(name)
            return None if lazy is None else lazy.collect()

    def scan(self, name: str) -> pl.LazyFrame | None:
        """The table as a lazy frame, or None if there is no such table; recorded Parquet is not read yet.

        Collect it inside ``reading(name)``, so that a damaged file raises an error that names it.
        """
        if name in MADE:
            made = self.content.frame(name)
            return None if made is None else made.lazy()
        data = self.content.recorded.get(name)
        if data is None:
            return None
        lazy = recorded.scan(data)
        if not self._part_of_whole:
            return lazy
        return recorded.restricted(lazy, name, self.tasks, [agent.agent for agent in self.agents])

    def reading(self, name: str) -> AbstractContextManager[None]:
        """A ``with`` block for collecting a recorded table: errors of a damaged file become a ``StudyError``."""
        return recorded.reading(self.content.recorded[name])

    def recorded_file(self, name: str) -> Path | None:
        """The file, or folder of parts, with exactly what ``table(name)`` returns; None if there is none."""
        data = None if self._part_of_whole else self.content.recorded.get(name)
        return data if isinstance(data, Path) else None

    def subset(self, *, tasks: Iterable[str] | None = None, agents: Iterable[str] | None = None) -> Study:
        """The study of some tasks and agents, in the same order, with their labels and evidence."""
        content = self.content
        task_keep, new_task = _chosen("task", self._number, tasks)
        agent_keep, new_agent = _chosen("agent", self._agent_number, agents)
        key = content.response_columns.key
        task, agent = new_task[key >> 32], new_agent[key & 0xFFFFFFFF]
        keep = (task >= 0) & (agent >= 0)
        labels = content.label_columns
        chosen = StudyContent(
            tasks=tuple(content.tasks[number] for number in task_keep),
            task_columns=content.task_columns.take(task_keep),
            agents=tuple(content.agents[number] for number in agent_keep),
            response_columns=content.response_columns.take(keep, pair_keys(task[keep], agent[keep])),
            label_columns=None if labels is None else labels.take(new_task, new_agent),
            recorded=content.recorded,
        )
        return Study(self.name, self.path, chosen, part_of_whole=True)

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
        numbers = {agent: number for number, agent in enumerate(named)}
        content = self.content
        key = content.response_columns.key
        new = np.array([numbers[agent.sample_of or agent.agent] for agent in self.agents])[key & 0xFFFFFFFF]
        moved = pair_keys(key >> 32, new)
        order = np.argsort(moved, kind="stable")
        moved, first = np.unique(moved[order], return_index=True)
        columns = content.response_columns
        offset, length = (column[order][first] for column in (columns.offset, columns.length))
        chosen = StudyContent(
            tasks=content.tasks,
            task_columns=content.task_columns,
            agents=tuple(replace(agent, agent=name, sample_of=None) for name, agent in named.items()),
            response_columns=replace(columns, key=moved, offset=offset, length=length),
            label_columns=None,
            recorded={},
        )
        return Study(self.name, self.path, chosen)

    def with_agents(self, known: Mapping[str, Agent]) -> Study:
        """The same study with these records of the agents they name; other agents are unchanged.

        Names that are not agents of the study are ignored.
        """
        agents = tuple(replace(known.get(a.agent, a), agent=a.agent) for a in self.agents)
        content = replace(self.content, agents=agents)
        return Study(self.name, self.path, content, part_of_whole=self._part_of_whole)

    def without_recorded(self, *, except_: Collection[str] = ()) -> Study:
        """The same study without recorded evidence, apart from some tables."""
        kept = {name: data for name, data in self.content.recorded.items() if name in except_}
        return Study(self.name, self.path, replace(self.content, recorded=kept), part_of_whole=self._part_of_whole)

    def with_labels(self, labels: LabelColumns | None) -> Study:
        """The same study with these labels in place of its own."""
        content = replace(self.content, label_columns=labels)
        return Study(self.name, self.path, content, part_of_whole=self._part_of_whole)

    def _task_number(self, task: str) -> int:
        if task not in self._number:
            raise _unknown("task", task, self._number)
        return self._number[task]


def _update(digest: hashlib._Hash, data: bytes) -> None:
    # The length first: no two studies may give the same bytes in a row.
    digest.update(len(data).to_bytes(8, "big"))
    digest.update(data)


def _chosen(
    what: str, numbers: Mapping[str, int], names: Iterable[str] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Numbers of the chosen names in ascending order, and the new number for each old one, or -1."""
    chosen = set(numbers) if names is None else set(names)
    for name in chosen:
        if name not in numbers:
            raise _unknown(what, name, numbers)
    if not chosen:
        raise UserError(f"a subset must have at least one {what}, got none")
    keep = np.array(sorted(numbers[name] for name in chosen), np.int64)
    new = np.full(len(numbers), -1, np.int32)
    new[keep] = np.arange(len(keep))
    return keep, new


def _unknown(what: str, name: str, known: Mapping[str, int]) -> UserError:
    return UserError(f"no {what} {name!r} in the study{nearest(name, known)}")
