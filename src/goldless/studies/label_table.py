"""The labels table: human ratings and preferences, kept as numbers in recorded order."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from goldless.studies.checking import Checking, Names, Problems, Row, is_empty
from goldless.studies.response_table import ResponseColumns, pair_keys
from goldless.studies.tables import Source

RATING = ("agent", "score")
PREFERENCE = ("first", "second", "preference")
COLUMNS = {"task": "i", "first": "i", "second": "i", "value": "d", "rater": "i", "criterion": "i"}
"""Columns of ``LabelColumns``, with their types as ``array`` and numpy name them."""


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """All labels; tasks and agents by their numbers in the study."""

    task: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    """The rated agent, or the first of the two compared."""
    second: npt.NDArray[np.int32]
    """The second of the two, or -1 for a rating."""
    value: npt.NDArray[np.float64]
    """The score, or the preference."""
    rater: npt.NDArray[np.int32]
    criterion: npt.NDArray[np.int32]
    """-1: none."""
    raters: tuple[str, ...]
    criteria: tuple[str, ...]

    @property
    def is_rating(self) -> npt.NDArray[np.bool_]:
        """Which labels are ratings; the others are preferences."""
        return self.second < 0

    def take(self, new_task: npt.NDArray[np.int32], new_agent: npt.NDArray[np.int32]) -> LabelColumns:
        """The labels whose task and agents are kept, renumbered; -1 marks a dropped one."""
        task, first = new_task[self.task], new_agent[self.first]
        second = np.where(self.is_rating, -1, new_agent[self.second])
        keep = (task >= 0) & (first >= 0) & (self.is_rating | (second >= 0))
        kept = {name: getattr(self, name)[keep] for name in ("value", "rater", "criterion")}
        return replace(self, task=task[keep], first=first[keep], second=second[keep].astype(np.int32), **kept)


class LabelTable:
    """The labels while they are being read."""

    def __init__(self, tasks: Names, agents: Names) -> None:
        self.tasks = tasks
        self.agents = agents
        self._raters = Names()
        self._criteria = Names()
        self._columns: dict[str, array[Any]] = {name: array(code) for name, code in COLUMNS.items()}
        self._line = array("q")

    def read(self, source: Source, problems: Problems, responses: ResponseColumns | None) -> None:
        """Check and keep all labels; each must be for an existing response if ``responses`` is given."""
        check = Checking(source.file, problems)
        for chunk in source.chunks(problems):
            check.rows += len(chunk.rows)
            for line, row in zip(chunk.lines, chunk.rows, strict=True):
                self._add(row, line, check)
        check.finish()
        self.tasks.report_strangers("task", source.file, problems)
        self.agents.report_strangers("agent", source.file, problems)
        if responses is not None:
            self._report_unanswered(responses, check)

    def finish(self) -> LabelColumns:
        """All labels."""
        columns = {name: np.array(column, column.typecode) for name, column in self._columns.items()}
        return LabelColumns(**columns, raters=tuple(self._raters), criteria=tuple(self._criteria))

    def _add(self, row: Row, line: int, check: Checking) -> None:
        task = check.name(row, "task", line)
        rater = check.name(row, "rater", line)
        criterion = check.optional_name(row, "criterion", line)
        rated, compared = (any(not is_empty(row.get(c)) for c in columns) for columns in (RATING, PREFERENCE))
        if rated == compared:
            which = "both a rating and a preference" if rated else "neither a rating nor a preference"
            check.add(f"{which}. A label must have agent and score, or first, second and preference", line)
            return
        agents = [check.name(row, column, line) for column in (RATING if rated else PREFERENCE)[:-1]]
        value = check.number(row, "score" if rated else "preference", line)
        if compared and agents[0] is not None and agents[0] == agents[1]:
            check.add(f"agent {agents[0]!r} is compared with itself", line)
            return
        known = task is not None and self.tasks.number(task, line) >= 0
        for agent in agents:
            known &= agent is not None and self.agents.number(agent, line) >= 0
        if not known or task is None or rater is None or value is None:
            return
        first, second = [*(self.agents[agent] for agent in agents if agent is not None), -1][:2]
        place = -1 if criterion is None else self._criteria[criterion]
        cells = (self.tasks[task], first, second, value, self._raters[rater], place)
        for column, cell in zip(self._columns.values(), cells, strict=True):
            column.append(cell)
        self._line.append(line)

    def _report_unanswered(self, responses: ResponseColumns, check: Checking) -> None:
        tasks, agents = list(self.tasks), list(self.agents)
        task = np.array(self._columns["task"], np.int64)
        for column in ("first", "second"):
            agent = np.array(self._columns[column], np.int64)
            places = np.where(agent < 0, 0, responses.places(pair_keys(task, agent.clip(min=0))))
            absent = np.flatnonzero(places < 0)
            _, first, counts = np.unique(pair_keys(task, agent)[absent], return_index=True, return_counts=True)
            for i, count in zip(absent[first].tolist(), counts.tolist(), strict=True):
                who = f"agent {agents[agent[i]]!r} to task {tasks[task[i]]!r}"
                more = f" ({count:,} labels from here on)" if count > 1 else ""
                check.add(f"no such response: {who}{more}", self._line[i])
