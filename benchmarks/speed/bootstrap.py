"""Intervals of agents from a million pair scores: by counts and one matrix product, by a plain loop, and by scipy.

    python benchmarks/speed/bootstrap.py

A table of 1,150 tasks x 30 agents x 29 peers = 1,000,500 rows (task, agent, peer, score) comes in random order; out
come 30 means with 95 % intervals from 10,000 resamples of the tasks.

The loop draws the same tasks and averages the pair scores of the drawn tasks again in every resample, with numpy on a
ready array [tasks, agents, peers]. It runs fewer resamples, and its time is scaled up; its intervals are compared with
those of as many resamples, end by end.

scipy.stats.bootstrap, as one would call it on the means of each task, makes percentile intervals: other numbers, from
other draws, that cover less with few tasks or skewed scores. BCa, its default, also leaves out each task in turn.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.stats
from scipy.special import stdtrit

from goldless.statistics.bootstrap import FARTHEST, Estimate, task_intervals
from goldless.statistics.standings import score_table

FloatArray = npt.NDArray[np.float64]
Result = TypeVar("Result")
TASKS, AGENTS = 1150, 30
RESAMPLES, LOOPED = 10_000, 100
LEVEL, SEED = 0.95, 0


def pair_table() -> pl.DataFrame:
    """Skewed scores with effects of tasks, agents, both, and pairs."""
    random = np.random.default_rng(1)
    task, agent, peer = (x.ravel() for x in np.indices((TASKS, AGENTS, AGENTS)))
    kept = agent != peer
    task, agent, peer = task[kept], agent[kept], peer[kept]
    score = random.gamma(2.0, 9.0, TASKS)[task] + np.linspace(-5, 40, AGENTS)[agent]
    score = score + random.gamma(2.0, 5.0, (TASKS, AGENTS))[task, agent] + random.normal(0, 17, len(task))
    names = [f"agent-{i:02}" for i in range(AGENTS)]
    frame = pl.DataFrame({"task": [f"task-{t:04}" for t in task], "score": score})
    frame = frame.with_columns(
        pl.Series("agent", [names[a] for a in agent]), pl.Series("peer", [names[p] for p in peer])
    )
    return frame.with_columns(pl.col("task", "agent", "peer").cast(pl.Categorical)).sample(
        fraction=1, shuffle=True, seed=2
    )


def numbered(column: pl.Series) -> tuple[npt.NDArray[np.int64], list[str]]:
    """A column of names as numbers from 0, with the names in order."""
    names = column.unique().cast(pl.String).sort()
    numbers = column.cast(pl.Enum(names)).to_physical().to_numpy()
    return numbers.astype(np.int64), names.to_list()


def by_counts(pairs: pl.DataFrame, resamples: int) -> list[Estimate]:
    """The library's way, from the table to the intervals."""
    task, tasks = numbered(pairs["task"])
    agent, agents = numbered(pairs["agent"])
    values = score_table(task, agent, pairs["score"].to_numpy(), tasks=len(tasks), agents=len(agents))
    return task_intervals(values, seed=SEED, resamples=resamples, level=LEVEL)


def by_loop(scores: FloatArray, resamples: int) -> FloatArray:
    """Ends [2, agents] from scores [tasks, agents, peers], resample after resample."""
    means = scores.mean(axis=2)
    centre, error = means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(TASKS)
    random = np.random.default_rng(SEED)
    found = []
    for _ in range(resamples):
        drawn = scores[random.integers(TASKS, size=TASKS)].mean(axis=2)
        found.append((drawn.mean(axis=0) - centre) / (drawn.std(axis=0, ddof=1) / np.sqrt(TASKS)))
    farthest = FARTHEST * stdtrit(TASKS - 1, (1 + LEVEL) / 2)
    quantiles = np.quantile(np.clip(found, -farthest, farthest), [(1 + LEVEL) / 2, (1 - LEVEL) / 2], axis=0)
    ends: FloatArray = centre - quantiles * error
    return ends


def by_scipy(means: FloatArray, method: str) -> FloatArray:
    """Ends [2, agents] by scipy from means [tasks, agents], in batches that fit the memory."""
    found = scipy.stats.bootstrap(
        (means,), np.mean, axis=0, n_resamples=RESAMPLES, batch=100, method=method, rng=SEED, confidence_level=LEVEL
    ).confidence_interval
    return np.stack([found.low, found.high])


def ends(intervals: list[Estimate]) -> FloatArray:
    """Low and high ends as an array [2, agents]."""
    return np.array([[i.low for i in intervals], [i.high for i in intervals]], dtype=float)


def timed(function: Callable[[], Result], repeats: int = 1) -> tuple[Result, float]:
    """The result and the seconds of the fastest call."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3, help="calls of which the fastest counts")
    options = parser.parse_args()
    pairs = pair_table()
    print(f"{pairs.height:,} pair scores, {TASKS:,} tasks, {AGENTS} agents, {RESAMPLES:,} resamples")
    print(f"{os.cpu_count()} cores, of which other programs may take their part\n")
    ours, seconds = timed(lambda: by_counts(pairs, RESAMPLES), options.repeats)
    print(f"goldless, table to intervals     {seconds:8.2f} s")

    ordered = pairs.sort(pl.col("task", "agent", "peer").cast(pl.String))["score"].to_numpy()
    scores = ordered.reshape(TASKS, AGENTS, AGENTS - 1)
    slow, loop_seconds = timed(lambda: by_loop(scores, LOOPED))
    scaled = loop_seconds * RESAMPLES / LOOPED
    difference = np.abs(slow - ends(by_counts(pairs, LOOPED))).max()
    print(f"plain loop                       {scaled:8.2f} s  ({LOOPED} resamples in {loop_seconds:.2f} s, scaled)")
    print(f"  ratio {scaled / seconds:.0f}; largest difference of an end at {LOOPED} resamples: {difference:.1e}")

    means = scores.mean(axis=2)
    width = np.diff(ends(ours), axis=0)
    for method in ("percentile", "BCa"):
        other, scipy_seconds = timed(lambda method=method: by_scipy(means, method))  # type: ignore[misc]
        apart = np.abs(other - ends(ours)).max(axis=0) / width[0]
        print(f"scipy.stats.bootstrap {method:<10} {scipy_seconds:8.2f} s  (from the means of each task)")
        print(f"  ratio {scipy_seconds / seconds:.1f}; ends differ by up to {100 * apart.max():.1f} % of the width")

    many = np.random.default_rng(3).gamma(2.0, size=(20_000, AGENTS))
    _, seconds = timed(lambda: task_intervals(many, seed=SEED, resamples=RESAMPLES))
    print(f"goldless, 20,000 tasks x {AGENTS} agents {seconds:8.2f} s")


if __name__ == "__main__":
    main()
