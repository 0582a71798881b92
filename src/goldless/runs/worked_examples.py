"""Worked examples: the other tasks that a juror is shown before it predicts a response, and who informs about whom."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from goldless.metrics.peer_prediction import Roles, example_order
from goldless.records import CallFailure
from goldless.scoring import Question, WorkedExample
from goldless.studies import Study

Shown = Mapping[str, Sequence[WorkedExample]]
"""Worked examples by the agent that is predicted."""


@dataclass(frozen=True)
class WorkedExamples:
    """The worked examples of a study."""

    study: Study
    number: int
    """How many are shown; fewer where the agent answered fewer other tasks."""
    seed: int
    same: str | None = None
    """The column of the tasks table in which they have the same value."""
    left_out: Collection[str] = ()
    """Agents that are not predicted."""

    @cached_property
    def roles(self) -> Roles:
        """Which samples inform, and which are predicted."""
        return Roles.of(self.study.agents)

    @cached_property
    def _others(self) -> Callable[[str], Iterator[str]]:
        return example_order((task for task, _ in self.study), self.same, self.seed)

    def questions(self, asked: Sequence[Question]) -> list[Question]:
        """The questions in which one agent's first sample informs about another's second, or about no one's."""
        predicted = self.roles.examples.keys() - set(self.left_out)
        informed = {q.target for q in asked if q.target in predicted and q.given in self.roles.informants}
        return [q for q in asked if q.target in informed and (q.given is None or q.given in self.roles.informants)]

    def shown(self, task: str, asked: Sequence[Question]) -> Shown:
        """The examples for each agent that is predicted: the first other tasks in order that it answered."""
        found = {}
        for target in dict.fromkeys(question.target for question in asked):
            first = self.roles.examples[target]
            there = (other for other in self._others(task) if self.study.response(other, first) is not None)
            found[target] = [WorkedExample(self.study.task(t), first) for t in itertools.islice(there, self.number)]
        return found

    def texts(self, shown: Shown, every: Mapping[tuple[str, str], str | CallFailure]) -> dict[Any, str | CallFailure]:
        """Of all texts by task and agent, those that the examples show."""
        tasks = {example.task.task for mine in shown.values() for example in mine}
        names = self.roles.informants
        return {key: every[key] for task in tasks for name in names if (key := (task, name)) in every}
