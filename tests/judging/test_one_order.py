"""One question per pair, in an order that is drawn and balanced."""

from __future__ import annotations

from collections import Counter

import pytest

from goldless.judging.exams import all_pairs, both_orders, one_order

ANSWERED = {f"t{i:02}": ["cy", "ann", "bob", "dee"] for i in range(13)}
PAIRS = all_pairs(ANSWERED)


def shown(questions):
    return {(q.task, frozenset((q.first, q.second))): q.first for q in questions}


def test_every_pair_is_asked_about_once():
    asked = one_order(PAIRS, seed=0, reviewer="r")
    assert len(asked) == len(PAIRS) == len(shown(asked)) == 13 * 6
    assert len(both_orders(PAIRS)) == 2 * len(asked)


@pytest.mark.parametrize("seed", range(5))
def test_of_any_two_agents_each_is_first_on_half_of_the_tasks(seed):
    """13 tasks: 6 or 7."""
    counts = Counter((q.first, q.second) for q in one_order(PAIRS, seed=seed, reviewer="r"))
    assert set(counts.values()) == {6, 7}
    assert len(counts) == 12


def test_seed_and_reviewer_draw_other_orders_and_the_order_of_rows_does_not():
    base = shown(one_order(PAIRS, seed=0, reviewer="r"))
    assert base == shown(one_order(PAIRS[::-1], seed=0, reviewer="r"))
    assert base != shown(one_order(PAIRS, seed=1, reviewer="r"))
    assert base != shown(one_order(PAIRS, seed=0, reviewer="s"))


def test_tasks_that_come_later_change_no_order_before_them():
    more = all_pairs(ANSWERED | {"t99": ["ann", "bob", "cy", "dee"]})
    base, grown = (shown(one_order(pairs, seed=0, reviewer="r")) for pairs in (PAIRS, more))
    assert base.items() <= grown.items()
