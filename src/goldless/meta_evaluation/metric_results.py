"""What a metric says of responses and of pairs, by name and as tables: the one place here that reads its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.statistics.standings import score_table

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Scores = Mapping[tuple[str, str], float | None]
"""The score of each task and agent; None: missing."""


class MetricResults(Protocol):
    """What is read of a metric's results, ranked or not."""

    @property
    def pairs(self) -> pl.DataFrame:
        """Scores of pairs; none of a metric that scores responses alone."""

    @property
    def responses(self) -> pl.DataFrame:
        """Scores of responses."""


def response_scores(results: MetricResults, *, only_asked: bool = False) -> dict[tuple[str, str], float | None]:
    """The score of each response; ``only_asked``: of those of which a pair was to be scored."""
    rows = results.responses.filter(pl.col("asked") > 0) if only_asked else results.responses
    return {(task, agent): score for task, agent, score in rows.select("task", "agent", "score").iter_rows()}


def pair_scores(results: MetricResults) -> dict[tuple[str, str, str], float | None]:
    """The score of each task, agent and peer."""
    rows = results.pairs.select("task", "agent", "peer", "score")
    return {(task, agent, peer): score for task, agent, peer, score in rows.iter_rows()}


def score_arrays(scores: Scores, *, tasks: Sequence[str], agents: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Scores as [tasks, agents], NaN where there is none, and which of them were asked for."""
    task_number, agent_number = numbers(tasks), numbers(agents)
    task = np.array([task_number[name] for name, _ in scores], dtype=np.int64)
    agent = np.array([agent_number[name] for _, name in scores], dtype=np.int64)
    # None becomes NaN
    score = np.array(list(scores.values()), dtype=np.float64)
    asked = np.zeros((len(tasks), len(agents)), dtype=np.bool_)
    asked[task, agent] = True
    return score_table(task, agent, score, tasks=len(tasks), agents=len(agents)), asked


def numbers(names: Sequence[str]) -> dict[str, int]:
    """The place of each name."""
    return {name: number for number, name in enumerate(names)}
