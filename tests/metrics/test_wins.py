"""Recorded comparisons: both orders are averaged, since a judge prefers one place to the other."""

from __future__ import annotations

import polars as pl

from evidence_frames import PairScore, pair_rows
from goldless.metrics import judged_metrics

# a judge that always says the first is better, except that b beats a from either place
ROWS = [("t", "a", "b", 0.0), ("t", "b", "a", 1.0), ("t", "a", "c", 1.0), ("t", "c", "a", 1.0)]


def win_scores(rows, **options) -> list[PairScore]:
    names = {"task": pl.String, "first": pl.String, "second": pl.String, "first_wins": pl.Float64}
    return pair_rows(judged_metrics.win_scores(pl.DataFrame(rows, schema=names, orient="row"), **options))


def test_both_orders_take_a_preference_for_the_first_place_out():
    found = {(p.agent, p.peer): p.score for p in win_scores(ROWS)}
    assert found == {("a", "b"): 0.0, ("b", "a"): 1.0, ("a", "c"): 0.5, ("c", "a"): 0.5}


def test_the_first_position_alone_keeps_it():
    found = {(p.agent, p.peer): p.score for p in win_scores(ROWS, both_orders=False)}
    assert found == {("a", "b"): 0.0, ("b", "a"): 1.0, ("a", "c"): 1.0, ("c", "a"): 1.0}


def test_a_pair_asked_in_one_order_only_is_missing_and_not_half():
    assert win_scores(ROWS[:1]) == [PairScore("t", "a", "b", None, "not_recorded")]
    assert win_scores([("t", "a", "b", None), ("t", "b", "a", 1.0)])[0].score is None
