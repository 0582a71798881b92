"""Agents' means while a run goes on: the metrics of the evidence that has arrived, computed now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from goldless.metrics.metric import Metric, Scores
from goldless.metrics.ranking import Ranking
from goldless.reports.run_record import AgentSoFar, BoardSoFar
from goldless.runs.outcomes import score_table
from goldless.runs.progress import Tell
from goldless.runs.samples import averaged
from goldless.statistics.additive import scores_over_tasks
from goldless.studies import Study

LEAST_SECONDS = 2.0
"""Between two looks."""
SHARE_OF_TIME = 0.02
"""The most of a run's time that looks take: each waits until the one before is this share of the time since."""
Boards = Callable[[dict[str, pl.DataFrame]], Sequence[BoardSoFar]]
"""The boards of the tables that have arrived."""


def metric_board(metric: Metric, scores: Scores, study: Study) -> BoardSoFar:
    """The means under a metric, as its leaderboard has them."""
    agents = study.one_sample_each()
    values = score_table(averaged(scores, study.samples).responses, agents)
    means, tasks = scores_over_tasks(values), (~np.isnan(values)).sum(axis=0)
    rows = [
        AgentSoFar(agent.agent, float(mean) if n else None, int(n))
        for agent, mean, n in zip(agents.agents, means, tasks, strict=True)
    ]
    return BoardSoFar(metric.name, metric.unit, _ordered(rows))


def ranking_board(name: str, ranking: Ranking) -> BoardSoFar:
    """The scores of a review's ranking."""
    rows = [AgentSoFar(row.agent, row.score, row.n_tasks) for row in ranking.agents]
    return BoardSoFar(name, ranking.unit, _ordered(rows))


def _ordered(rows: Sequence[AgentSoFar]) -> tuple[AgentSoFar, ...]:
    return tuple(sorted(rows, key=lambda row: (row.score is None, -(row.score or 0.0))))


class Arriving:
    """Evidence as it arrives, and now and then the boards it makes: never more than a small share of a run's time."""

    def __init__(self, boards: Boards, tell: Tell | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._boards, self._tell, self._clock = boards, tell, clock
        self._parts: dict[str, dict[str, Callable[[], pl.DataFrame]]] = {}
        self._next = clock() + LEAST_SECONDS

    def __call__(self, table: str, part: str, rows: Callable[[], pl.DataFrame]) -> None:
        """Rows of a part of a table have arrived; ``rows`` makes all of them."""
        if self._tell is None:
            return
        self._parts.setdefault(table, {})[part] = rows
        began = self._clock()
        if began < self._next:
            return
        try:
            tables = {name: pl.concat([make() for make in parts.values()]) for name, parts in self._parts.items()}
            found = self._boards(tables)
        except Exception:  # noqa: BLE001 - what only shows a run must never end it; at the end its own error is told
            found = ()
        if found:
            self._tell(found)
        ended = self._clock()
        self._next = ended + max(LEAST_SECONDS, (ended - began) / SHARE_OF_TIME)
