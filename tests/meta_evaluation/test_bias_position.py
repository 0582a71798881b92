"""Position bias on judgements small enough to count by hand."""

from __future__ import annotations

import pytest

from goldless.meta_evaluation.bias.preferences import position_rows
from judgement_columns import pair_judgements_from_columns

DRAWS = {"seed": 0, "resamples": 200, "level": 0.95}
TASKS = [f"t{i}" for i in range(12)]


def judged(said):
    """From (reviewer, task, verdict with a first, verdict with b first); a verdict says how far the first wins."""
    rows = []
    for reviewer, task, a_first, b_first in said:
        rows += [(reviewer, task, "a", "b", a_first), (reviewer, task, "b", "a", b_first)]
    return pair_judgements_from_columns(*map(list, zip(*rows, strict=True)), agents=["a", "b"])


def rows_of(table, convention="default"):
    rows, unavailable = position_rows(table, convention=convention, draws=DRAWS)
    return {(row.judge, row.measure): row for row in rows}, unavailable


FLIPS, FIRST = "flips when the order is swapped", "decided for the one shown first"


def test_one_who_always_takes_the_first_flips_every_pair_and_decides_for_the_first_always():
    found, _ = rows_of(judged([("lazy", task, 1.0, 1.0) for task in TASKS]))
    assert found["lazy", FLIPS].value == 1
    first = found["lazy", FIRST]
    assert (first.value, first.used, first.asked, first.n_tasks) == (1, 24, 24, 12)
    assert first.shown is True


def test_one_who_keeps_to_a_response_never_flips_and_decides_for_the_first_half_the_time():
    found, _ = rows_of(judged([("fair", task, float(i % 2), 1 - float(i % 2)) for i, task in enumerate(TASKS)]))
    assert found["fair", FLIPS].value == 0
    assert found["fair", FIRST].value == 0.5
    assert not found["fair", FIRST].shown


def test_missing_and_tied_verdicts_are_counted_and_not_decided():
    # task 0: an order is missing, so the pair is left out; task 1: a tie in one order; task 2: flips to the second;
    # the others keep to a. First-position rate: 1 of 2 on each of 9 tasks, task 1 one win as first, task 2 none of two.
    said = [("r", TASKS[0], 1.0, None), ("r", TASKS[1], 1.0, 0.5), ("r", TASKS[2], 0.0, 0.0)]
    said += [("r", task, 1.0, 0.0) for task in TASKS[3:]]
    found, _ = rows_of(judged(said))
    flips, first = found["r", FLIPS], found["r", FIRST]
    assert (flips.asked, flips.used, flips.missing, flips.ties) == (12, 11, 1, 1)
    assert flips.value == pytest.approx(2 / 11)  # a tie and a preference are not the same verdict
    assert (first.asked, first.used, first.missing, first.ties) == (23, 21, 2, 1)
    assert first.value == pytest.approx((9 + 1) / 21)
    assert "ties left out: 1" in first.note


def test_with_the_papers_convention_a_missing_order_is_half_a_flip():
    said = [("r", TASKS[0], 1.0, None), *(("r", task, 1.0, 0.0) for task in TASKS[1:])]
    found, _ = rows_of(judged(said), "paper")
    assert found["r", FLIPS].value == pytest.approx(0.5 / 12)


def test_a_reviewer_asked_in_one_order_only_is_listed_with_the_reason():
    rows = [("both", task, "a", "b", 1.0) for task in TASKS] + [("both", task, "b", "a", 0.0) for task in TASKS]
    rows += [("once", task, "a", "b", 1.0) for task in TASKS]
    table = pair_judgements_from_columns(*map(list, zip(*rows, strict=True)), agents=["a", "b"])
    found, (unavailable,) = rows_of(table)
    assert {judge for judge, _ in found} == {"both"}
    assert unavailable.judges == ("once",)
    assert "one order only" in unavailable.reason
