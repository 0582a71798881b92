"""TVD-MI's arithmetic by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evidence_frames import PairScore, pair_rows, verdicts
from evidence_frames import verdict as said
from goldless.metrics import tvd_mi
from goldless.metrics.tvd_mi import objective_critic


def contrasts(rows) -> list[PairScore]:
    return pair_rows(tvd_mi.contrasts(verdicts(*rows)))


def test_the_objective_critic_of_the_paper_is_a_mean_with_a_zero_diagonal():
    """The TVD-MI paper, table 1: six strategies' scores, and .191 as the mean of all pairwise scores."""
    scores = {"human": 0.3640, "rewrite": 0.2920, "shift": 0.3055, "standard": 0.2815, "brief": 0.1215, "null": 0.0080}
    rows = [{"task": "t", "agent": a, "peer": b, "score": scores[a]} for a in scores for b in scores if a != b]
    found = objective_critic(pl.DataFrame(rows))
    assert round(found["objective_critic"], 3) == 0.191
    assert found["mean_over_pairs"] == pytest.approx(sum(scores.values()) / 6)


def test_a_contrast_is_the_matched_verdict_less_the_mean_of_the_shuffled_ones():
    """.9 - (.1 + .3 + .2) / 3 = .7."""
    found = contrasts([said(0.9), said(0.1, "u"), said(0.3, "v"), said(0.2, "w")])
    assert found == [PairScore("t", "a", "b", pytest.approx(0.7))]


def test_off_diagonal_shuffles_undo_the_factor_of_equation_3():
    """n = 4 tasks, all 12 shuffles: Eq. 3 takes all 16 pairs and is (1 - 1/4) of the mean contrast."""
    f = np.array([[0.9, 0.1, 0.2, 0.4], [0.3, 0.8, 0.0, 0.1], [0.2, 0.2, 0.7, 0.3], [0.0, 0.5, 0.1, 1.0]])
    verdicts = [said(f[t, s], f"t{s}", task=f"t{t}") for t in range(4) for s in range(4)]
    mean = np.mean([pair.score for pair in contrasts(verdicts)])
    equation_3 = np.trace(f) / 4 - f.sum() / 16
    assert equation_3 == pytest.approx((1 - 1 / 4) * mean)
