"""A study from records that are at hand: no table is read, and nothing is checked that a record does not say."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from goldless.records import Agent, Response, Task
from goldless.studies.content import StudyContent
from goldless.studies.response_table import ResponseColumns, pair_keys
from goldless.studies.spool import Spool
from goldless.studies.study import Study
from goldless.studies.task_table import SYNOPSIS, TaskTable, task_record


def study_from_records(tasks: Iterable[Task], responses: Iterable[Response], *, name: str) -> Study:
    """The study of these responses to these tasks; agents stand in the order in which they first answer.

    Every response is to one of the tasks, and an agent has one response to a task at most.
    """
    spool = Spool()
    table, task_numbers = TaskTable(spool), dict[str, int]()
    for task in tasks:
        task_numbers[task.task] = len(task_numbers)
        table.keep(_record(task))
    given = list(responses)
    agents = dict.fromkeys(response.agent for response in given)
    agent_numbers = {agent: number for number, agent in enumerate(agents)}
    key = pair_keys([task_numbers[r.task] for r in given], [agent_numbers[r.agent] for r in given])
    data = [response.text.encode() for response in given]
    length = np.array([len(text) for text in data], np.int64)
    offset = np.array([spool.append(text) for text in data], np.int64)
    order = np.argsort(key, kind="stable")
    content = StudyContent(
        tasks=tuple(task_numbers),
        task_columns=table.finish(),
        agents=tuple(map(Agent, agents)),
        response_columns=ResponseColumns(spool, key[order], offset[order], length[order]),
        label_columns=None,
        recorded={},
    )
    return Study(name, None, content)


def _record(task: Task) -> dict[str, object] | None:
    columns = {"prompt": task.prompt, "reference": task.reference}
    columns |= {f"{SYNOPSIS}{key}": text for key, text in task.synopses.items()}
    return task_record({key: text for key, text in columns.items() if text is not None}, dict(task.extra))
