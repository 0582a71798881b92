"""Rankings from panel verdicts, against hand counts, evalica and a bootstrap written out."""

from __future__ import annotations

import evalica
import numpy as np
import pytest

from goldless.metrics.chair import panel_verdicts
from goldless.metrics.ranking import (
    rank_by_bradley_terry,
    rank_by_win_rate,
)
from tests.support.evidence_frames import pair_judgements_from_columns


def verdicts(rows, **options):
    """(task, first, second, value) by one reviewer, in one order."""
    task, first, second, value = zip(*rows, strict=True)
    return panel_verdicts(pair_judgements_from_columns(["r"] * len(rows), task, first, second, value, **options))


ROWS = [
    ("t1", "ann", "bob", 1),
    ("t1", "ann", "cy", 1),
    ("t1", "bob", "cy", 0.5),
    ("t2", "ann", "bob", 0),
    ("t2", "ann", "cy", 1),
    ("t2", "bob", "cy", None),
]


def test_a_win_rate_is_the_mean_over_peers_then_tasks_with_ties_half():
    """ann (1 + 1/2) / 2, bob (1/4 + 1) / 2, cy (1/4 + 0) / 2."""
    found = rank_by_win_rate(verdicts(ROWS))
    assert [(row.agent, row.rank, row.score) for row in found.agents] == [
        ("ann", 1, 0.75),
        ("bob", 2, 0.625),
        ("cy", 3, 0.125),
    ]
    assert [(row.asked, row.used, row.n_tasks) for row in found.agents] == [(4, 4, 2), (4, 3, 2), (4, 3, 2)]


def random_wins(seed, agents=6, tasks=40):
    random = np.random.default_rng(seed)
    strength = random.normal(size=agents)
    rows = []
    for t in range(tasks):
        for i in range(agents):
            for j in range(i):
                chance = 1 / (1 + np.exp(strength[j] - strength[i]))
                rows.append((f"t{t}", f"a{i}", f"a{j}", random.choice([float(random.uniform() < chance), 0.5])))
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_strengths_are_those_of_evalica_on_the_single_verdicts(seed):
    rows = random_wins(seed)
    winners = [{1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}[row[3]] for row in rows]
    other = evalica.bradley_terry(
        [row[1] for row in rows], [row[2] for row in rows], winners, tolerance=1e-12, limit=10_000
    )
    expected = np.log(other.scores)
    expected -= expected.mean()
    found = rank_by_bradley_terry(verdicts(rows), resamples=20)
    assert {row.agent: row.score for row in found.agents} == pytest.approx(dict(expected), abs=1e-6)


def test_intervals_are_the_percentiles_of_refits_by_evalica():
    """The same draws of tasks, refitted one by one."""
    rows = random_wins(3, agents=4, tasks=25)
    found = rank_by_bradley_terry(verdicts(rows), resamples=60, seed=7)
    drawn = np.random.default_rng(7).integers(25, size=(60, 25))
    by_task = [rows[6 * t : 6 * t + 6] for t in range(25)]
    outcome = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    fits = []
    for draw in drawn:
        some = [row for t in draw for row in by_task[t]]
        fit = evalica.bradley_terry(
            [row[1] for row in some], [row[2] for row in some], [outcome[row[3]] for row in some], tolerance=1e-12
        )
        fits.append(np.log(fit.scores.sort_index()) - np.log(fit.scores).mean())
    ends = np.quantile(np.array(fits), [0.025, 0.975], axis=0)
    for i in range(4):
        (one,) = (row.estimate for row in found.agents if row.agent == f"a{i}")
        assert (one.low, one.high) == pytest.approx(tuple(ends[:, i]), abs=1e-5)


def test_resamples_without_a_finite_solution_are_counted():
    """bob wins on one task of eight: about a third of the resamples miss it."""
    rows = [(f"t{i}", "ann", "bob", float(i > 0)) for i in range(8)]
    found = rank_by_bradley_terry(verdicts(rows), resamples=200)
    count = int(found.notes[0].split()[0])
    missed = (np.random.default_rng(0).integers(8, size=(200, 8)) != 0).all(axis=1).sum()
    assert count == missed
    (ann,) = (row for row in found.agents if row.agent == "ann")
    assert ann.estimate.low <= ann.score <= ann.estimate.high
