"""Effect sizes of a critic's contrasts between good-faith and problematic agents, on recorded data.

The expected values were computed independently of goldless from the same files. An agent's score on a task is the
mean of its row and column averages, itself left out; the agent named Reference is a partner but in neither group.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from goldless.statistics.effects import compare_groups
from goldless.statistics.standings import score_table

pytestmark = pytest.mark.recorded

STATED = {
    "samsum_peer_prediction": {"d_task": 6.137, "auc": 0.846},
    "reddit_peer_prediction": {"d_task": 7.235, "d_response": 1.65, "auc": 0.866},
}
ATTACKED = {"case_flip": 4.975, "format": 5.899, "padding": 6.796, "pattern": 5.335}


def comparison(path: Path):
    agents = pl.read_ndjson(path / "agents.jsonl")
    column = {name: i for i, name in enumerate(agents["agent"])}
    rows = pl.read_parquet(path / "critic_contrasts.parquet").with_columns(pl.col("task", "first", "second").cast(str))
    rows = rows.filter(pl.col("first") != pl.col("second"))
    names = sorted(set(rows["task"]))
    number = {name: i for i, name in enumerate(names)}
    task = np.array([number[name] for name in rows["task"]])
    contrast = rows["contrast"].to_numpy().astype(float)
    shape = {"tasks": len(names), "agents": len(column)}
    by_row, by_column = (
        score_table(task, np.array([column[name] for name in rows[side]]), contrast, **shape)
        for side in ("first", "second")
    )
    good, bad = (
        np.flatnonzero(agents["group"].to_numpy() == group).tolist() for group in ("good faith", "problematic")
    )
    return compare_groups((by_row + by_column) / 2, good, bad, resamples=1000)


@pytest.mark.parametrize("name", STATED)
def test_good_faith_agents_stand_above_problematic_ones_by_the_stated_effect(recorded, name):
    found = comparison(recorded / name)
    for effect, value in STATED[name].items():
        assert getattr(found, effect) == pytest.approx(value, abs=0.5 * 10 ** -len(str(value).partition(".")[2]))
    assert (found.difference.n, found.n_first, found.n_second) == (200, 2800, 3000)


@pytest.mark.parametrize("attack", ATTACKED)
def test_attacks_on_the_responses_lower_the_effect_as_stated(recorded, attack):
    found = comparison(recorded / "reddit_peer_prediction" / "attacks" / attack)
    assert found.d_task == pytest.approx(ATTACKED[attack], abs=0.0005)
