"""What a study is made of: everything by the numbers of tasks and agents, texts in the spool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from goldless.records import Agent, Preference, Rating, Response, Task
from goldless.studies.label_table import LabelColumns
from goldless.studies.response_table import ResponseColumns
from goldless.studies.task_table import TaskColumns

Recorded = Path | pl.LazyFrame
"""A recorded table: its file, the folder that holds it in parts, or the frame that an importer gave."""


@dataclass(frozen=True, slots=True)
class StudyContent:
    """Tasks, agents, responses and labels, and where the recorded tables are."""

    tasks: tuple[str, ...]
    task_columns: TaskColumns
    agents: tuple[Agent, ...]
    response_columns: ResponseColumns
    label_columns: LabelColumns | None
    recorded: Mapping[str, Recorded]
    """Recorded evidence and tables goldless does not know, by table."""

    def task(self, number: int) -> Task:
        """The task with this number."""
        return self.task_columns.task(self.tasks[number], number)

    def responses(self, number: int) -> tuple[Response, ...]:
        """The responses to the task with this number, in the order of the agents."""
        task, agents, columns = self.tasks[number], self.agents, self.response_columns
        places = columns.of_task(number)
        texts = columns.texts(places)
        numbers = columns.agents_at(places)
        return tuple(Response(task, agents[agent].agent, text) for agent, text in zip(numbers, texts, strict=True))

    @property
    def n_labels(self) -> int:
        """Number of labels, ratings and preferences together."""
        return 0 if self.label_columns is None else len(self.label_columns.task)

    @property
    def n_ratings(self) -> int:
        """Number of ratings among the labels."""
        return 0 if self.label_columns is None else int(self.label_columns.is_rating.sum())

    def labels(self) -> Iterator[Rating | Preference]:
        """All human labels, in the order they were recorded."""
        labels = self.label_columns
        if labels is None:
            return
        columns = (labels.task, labels.first, labels.second, labels.value, labels.rater, labels.criterion)
        for task, first, second, value, rater, number in zip(*(column.tolist() for column in columns), strict=True):
            criterion = None if number < 0 else labels.criteria[number]
            who = labels.raters[rater]
            agent = self.agents[first].agent
            if second < 0:
                yield Rating(self.tasks[task], agent, who, value, criterion)
            else:
                yield Preference(self.tasks[task], agent, self.agents[second].agent, who, value, criterion)
