"""An agent that lacks more values than the others is named, with how its rank would change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from goldless.statistics.bootstrap import Estimate
from goldless.statistics.standings import LeaderboardRow
from goldless.statistics.uneven_missing import share_at_least, uneven_missing_notes


def board(**scores: tuple[float, int, int]) -> list[LeaderboardRow]:
    """Agents with score, values requested and values used, best first."""
    return [
        LeaderboardRow(rank, agent, estimate=Estimate(value), asked=asked, used=used)
        for rank, (agent, (value, asked, used)) in enumerate(scores.items(), 1)
    ]


def test_the_agent_whose_bad_verdicts_are_missing_is_named_with_its_rank():
    """On a scale from 1: (6 * 5 + 18 * 1) / 24 = 2, below both others."""
    rows = board(cheat=(5.0, 24, 6), good=(4.0, 24, 24), fair=(3.0, 24, 23))
    (note,) = uneven_missing_notes(rows, 1.0)
    assert note.startswith("cheat misses 18 of 24 values, the others 1 of 48: if its missing ones were the lowest, ")
    assert note.endswith("its rank would be 3, not 1.")


def test_a_rank_that_would_not_change_is_said_to_stay():
    rows = board(cheat=(5.0, 24, 6), good=(1.5, 24, 24))
    assert next(iter(uneven_missing_notes(rows, 1.0))).endswith("its rank would stay 1.")


@pytest.mark.parametrize("used", [(24, 24, 24), (20, 21, 19), (0, 0, 0), (23, 24, 24)])
def test_values_that_are_missing_as_chance_would_have_it_name_no_agent(used):
    rows = board(**{f"a{i}": (3.0 - i, 24, n) for i, n in enumerate(used)})
    assert list(uneven_missing_notes(rows, 1.0)) == []


@given(st.integers(1, 30), st.integers(0, 60), st.data())
def test_the_chance_is_scipys(drawn, others, data):
    total = drawn + others
    marked = data.draw(st.integers(0, total))
    count = data.draw(st.integers(0, min(drawn, marked)))
    expected = hypergeom.sf(count - 1, total, marked, drawn)
    assert share_at_least(count, drawn=drawn, marked=marked, total=total) == pytest.approx(expected, abs=1e-9)
