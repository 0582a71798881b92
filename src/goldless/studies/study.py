"""The study: tasks, the responses to them, labels and recorded evidence, all at hand and none of it changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from goldless.errors import UserError, nearest
from goldless.records import Agent, Preference, Rating, Response, Task
from goldless.studies import frames
from goldless.studies.cells import as_json, as_text
from goldless.studies.response_table import ResponseColumns, pair_keys

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from goldless.studies.label_table import LabelColumns
    from goldless.studies.task_table import TaskColumns


@dataclass(frozen=True, slots=True)
class StudyParts:
    """What a study is made of; everything goes by the numbers of tasks and agents."""

    tasks: tuple[str, ...]
    task_columns: TaskColumns
    agents: tuple[Agent, ...]
    responses: ResponseColumns
    labels: LabelColumns | None
    recorded: Mapping[str, Path]
    """Files of recorded evidence and of tables goldless does not know, by table."""


class Study:
    """Tasks, responses, labels and recorded evidence, read and checked; made by ``read_study`` and its kin.

    Texts are kept in memory while they are few, then in a temporary file that goes with the study.
    Iterating gives each task with its responses.
    """

    def __init__(self, name: str, path: Path | None, parts: StudyParts, *, part_of_whole: bool = False) -> None:
        self.name = name
        """Name of its folder or file."""
        self.path = path
        """Where it was read from; none for a frame."""
        self._parts = parts
        self._part_of_whole = part_of_whole
        self._number = {task: number for number, task in enumerate(parts.tasks)}
        self._agent_number = {agent.agent: number for number, agent in enumerate(parts.agents)}

    def __repr__(self) -> str:
        """Name and size."""
        return (
            f"<Study {self.name!r}: {len(self.tasks)} tasks, {len(self.agents)} agents, {self.n_responses} responses>"
        )

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self._parts.tasks)

    def __iter__(self) -> Iterator[tuple[Task, tuple[Response, ...]]]:
        """Each task with its responses, in order."""
        for task in self.tasks:
            yield self.task(task), self.responses(task)

    @property
    def tasks(self) -> Sequence[str]:
        """Names of the tasks, in the order of the tasks table, or else of first appearance."""
        return self._parts.tasks

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents, in the order of the agents table, or else of first appearance."""
        return self._parts.agents

    @property
    def n_responses(self) -> int:
        """Number of responses; ``len(tasks) * len(agents)`` less the missing ones."""
        return len(self._parts.responses.key)

    @property
    def n_ratings(self) -> int:
        """Number of human ratings."""
        labels = self._parts.labels
        return 0 if labels is None else int(labels.is_rating.sum())

    @property
    def n_preferences(self) -> int:
        """Number of human preferences."""
        labels = self._parts.labels
        return 0 if labels is None else len(labels.task) - self.n_ratings

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the recorded tables beside tasks, responses, agents and labels."""
        return tuple(self._parts.recorded)

    @cached_property
    def synopses(self) -> tuple[str, ...]:
        """Names of the synopses that at least one task has, sorted."""
        return tuple(sorted({name for task in self.tasks for name in self.task(task).synopses}))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of tasks and responses: the same for the same content, whatever the format it came in.

        The order of the tasks counts, that of the agents does not. Other columns of a task count as the text
        that a CSV cell would hold.
        """
        digest = hashlib.sha256(b"goldless study 1")
        names = [agent.agent for agent in self.agents]
        responses = self._parts.responses
        for number, name in enumerate(self.tasks):
            task = self.task(name)
            extra = {column: as_text(value) for column, value in task.extra.items()}
            _update(digest, as_json([name, task.prompt, task.reference, task.synopses, extra]))
            texts = {names[responses.agent_at(place)]: place for place in responses.of_task(number)}
            digest.update(len(texts).to_bytes(8, "big"))
            for agent in sorted(texts):
                _update(digest, agent.encode())
                _update(digest, responses.data(texts[agent]))
        return digest.hexdigest()

    def task(self, task: str) -> Task:
        """The task of this name."""
        return self._parts.task_columns.task(task, self._task_number(task))

    def responses(self, task: str) -> tuple[Response, ...]:
        """The responses to the task, in the order of the agents."""
        responses = self._parts.responses
        return tuple(
            Response(task, self.agents[responses.agent_at(place)].agent, responses.data(place).decode())
            for place in responses.of_task(self._task_number(task))
        )

    def response(self, task: str, agent: str) -> Response | None:
        """The agent's response to the task, or none where it is missing."""
        if agent not in self._agent_number:
            raise _unknown("agent", agent, self._agent_number)
        key = pair_keys([self._task_number(task)], [self._agent_number[agent]])
        place = int(self._parts.responses.places(key)[0])
        return None if place < 0 else Response(task, agent, self._parts.responses.data(place).decode())

    def labels(self) -> Iterator[Rating | Preference]:
        """All human labels, in the order they were recorded."""
        labels = self._parts.labels
        if labels is None:
            return
        agents = [agent.agent for agent in self.agents]
        columns = (labels.task, labels.first, labels.second, labels.value, labels.rater, labels.criterion)
        for task, first, second, value, rater, number in zip(*(column.tolist() for column in columns), strict=True):
            criterion = None if number < 0 else labels.criteria[number]
            who = labels.raters[rater]
            if second < 0:
                yield Rating(self.tasks[task], agents[first], who, value, criterion)
            else:
                yield Preference(self.tasks[task], agents[first], agents[second], who, value, criterion)

    def ratings(self) -> Iterator[Rating]:
        """The human ratings, in the order they were recorded."""
        return (label for label in self.labels() if isinstance(label, Rating))

    def preferences(self) -> Iterator[Preference]:
        """The human preferences, in the order they were recorded."""
        return (label for label in self.labels() if isinstance(label, Preference))

    def table(self, name: str) -> pl.DataFrame | None:
        """A table of the study, read anew at each call, or none where there is no such table.

        Columns that name tasks, agents, reviewers and the like hold text.
        """
        if name in frames.MADE:
            return frames.made_frame(self, name)
        path = self._parts.recorded.get(name)
        if path is None:
            return None
        frame = frames.read_frame(path)
        return frames.restricted(frame, name, self) if self._part_of_whole else frame

    def recorded_file(self, name: str) -> Path | None:
        """The file that holds exactly what ``table(name)`` gives; none for a part of a larger study."""
        return None if self._part_of_whole else self._parts.recorded.get(name)

    def subset(self, *, tasks: Iterable[str] | None = None, agents: Iterable[str] | None = None) -> Study:
        """The study of some tasks and agents, in the order they have here, with the labels and evidence on them."""
        parts = self._parts
        task_keep, new_task = _chosen("task", self._number, tasks)
        agent_keep, new_agent = _chosen("agent", self._agent_number, agents)
        key = parts.responses.key
        task, agent = new_task[key >> 32], new_agent[key & 0xFFFFFFFF]
        keep = (task >= 0) & (agent >= 0)
        chosen = StudyParts(
            tasks=tuple(parts.tasks[number] for number in task_keep),
            task_columns=parts.task_columns.take(task_keep),
            agents=tuple(parts.agents[number] for number in agent_keep),
            responses=parts.responses.take(keep, pair_keys(task[keep], agent[keep])),
            labels=None if parts.labels is None else parts.labels.take(new_task, new_agent),
            recorded=parts.recorded,
        )
        return Study(self.name, self.path, chosen, part_of_whole=True)

    def with_agents(self, known: Mapping[str, Agent]) -> Study:
        """The same study with this known of the agents that are named, in place of what was; others stay as they are.

        A name that is none of its agents counts for nothing.
        """
        agents = tuple(replace(known.get(a.agent, a), agent=a.agent) for a in self.agents)
        parts = replace(self._parts, agents=agents)
        return Study(self.name, self.path, parts, part_of_whole=self._part_of_whole)

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
    """Numbers of the chosen names in ascending order, and for each old number the new one or -1."""
    chosen = set(numbers) if names is None else set(names)
    for name in chosen:
        if name not in numbers:
            raise _unknown(what, name, numbers)
    if not chosen:
        raise UserError(f"a part of a study needs at least one {what}; none was named")
    keep = np.array(sorted(numbers[name] for name in chosen), np.int64)
    new = np.full(len(numbers), -1, np.int32)
    new[keep] = np.arange(len(keep))
    return keep, new


def _unknown(what: str, name: str, known: Mapping[str, int]) -> UserError:
    return UserError(f"no {what} {name!r} in the study{nearest(name, known)}")
