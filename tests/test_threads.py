"""Scores are the same to the last bit on any number of threads: this file, run as a program, prints their hashes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from goldless.audit.peer_graph import peer_graph
from goldless.metrics.likelihood import GEM, pair_scores
from goldless.metrics.metric import mean_over_variants, over_peers, pair_means
from goldless.metrics.tvd_mi import contrasts, objective_critic, response_scores
from goldless.statistics.bootstrap import task_intervals
from tests.support.paths import ROOT

AGENTS = [f"agent {number}" for number in range(8)]
SIZES = {"small": 20, "large": 400}
"""Numbers of tasks."""
OTHER_TASKS = 5


def pairs(tasks: int, seed: int = 0) -> pl.DataFrame:
    """A score for every ordered pair of agents, in random order; the first two agents share most.

    Scores differ so much in size that the order of a sum shows.
    """
    names = pl.DataFrame({"task": [f"task {number}" for number in range(tasks)]})
    agents = pl.DataFrame({"agent": AGENTS})
    rows = names.join(agents, how="cross").join(agents.rename({"agent": "peer"}), how="cross")
    rows = rows.filter(pl.col("agent") != pl.col("peer"))
    random = np.random.default_rng(seed)
    score = random.normal(size=len(rows)) * 10 ** random.uniform(-3, 3, len(rows))
    linked = pl.col("agent").is_in(AGENTS[:2]) & pl.col("peer").is_in(AGENTS[:2])
    rows = rows.with_columns(score=pl.Series(score) + 2000 * linked, missing=pl.lit(None, pl.String))
    return rows[random.permutation(len(rows))]


def on_other_tasks(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Each row for several other tasks, far apart in the table; the value differs from task to task."""
    tasks, number = rows["task"].n_unique(), pl.col("task").str.strip_prefix("task ").cast(pl.Int64)
    return pl.concat(
        rows.with_columns(pl.format("task {}", (number + step) % tasks).alias(column), pl.col("score") / (step + 1))
        for step in range(1, OTHER_TASKS + 1)
    )


def computed(tasks: int) -> dict[str, object]:
    """What is computed from evidence of so many tasks."""
    scores = pairs(tasks)
    failure = {"failure": pl.lit(None, pl.String)}
    same = scores.with_columns(second_task="task")
    verdicts = pl.concat([same, on_other_tasks(scores, "second_task")])
    verdicts = verdicts.rename({"agent": "first", "peer": "second", "score": "value"})
    given = scores.select("task", target="peer", given="agent", score="score")
    alone = given.unique(("task", "target"), maintain_order=True).with_columns(given=pl.lit(None, pl.String))
    known = pl.concat([given, alone]).rename({"score": "sum_logprob_nats"})
    control = on_other_tasks(given, "target_task").rename({"score": "sum_logprob_nats"})
    return {
        "mean over peers": over_peers(scores, "own"),
        "over common peers": over_peers(scores, "common"),
        "mean over query variants": mean_over_variants([pairs(tasks, seed) for seed in range(5)]),
        "mean over tasks": pair_means(scores),
        "TVD-MI's contrasts": contrasts(verdicts.with_columns(**failure, critic=pl.lit("c"), prompt=pl.lit("p"))),
        "TVD-MI's scores": response_scores(scores, over="common", direction="both", compared=lambda pairs: pairs),
        "TVD-MI's summary": objective_critic(scores),
        "GEM with task control": pair_scores(
            known.with_columns(**failure), GEM, control.with_columns(**failure, synopsis=pl.lit(None, pl.String))
        ),
        "peer graph": peer_graph(scores, AGENTS),
        # a shape for which matrix products with one thread and with two differ
        "intervals": task_intervals(np.random.default_rng(tasks).normal(size=(2 * tasks + 5, 20)), resamples=1000),
    }


def digest(found: object) -> str:
    text = found.write_csv() if isinstance(found, pl.DataFrame) else repr(found)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def by_threads() -> dict[str, dict[str, str]]:
    """Hashes by number of threads, each from a process of its own."""
    found = {}
    for threads in ("1", "8"):
        limits = dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        environment = {**os.environ, **limits}
        said = subprocess.run(
            [sys.executable, "-m", "tests.test_threads"], env=environment, cwd=ROOT, check=True, capture_output=True
        ).stdout
        found[threads] = json.loads(said)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_scores_are_the_same_to_the_last_bit_with_one_thread_and_with_eight(by_threads, size):
    assert by_threads["1"][size] == by_threads["8"][size]


if __name__ == "__main__":
    hashes = {name: {what: digest(value) for what, value in computed(n).items()} for name, n in SIZES.items()}
    sys.stdout.write(json.dumps(hashes))
