"""Questions: how they are read, what they correct for, and that their rules never leave an agent between."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import UserError
from goldless.statistics.answering import parse_question

AGENTS = ["a", "b", "c", "d>e"]


def beats(*pairs, agents=4):
    made = np.zeros((agents, agents), dtype=bool)
    for better, worse in pairs:
        made[better, worse] = True
    return made


@pytest.mark.parametrize(
    ("text", "tests", "pairs"),
    [
        ("a>b", 1, [(0, 1)]),
        (" a > d>e ", 1, [(0, 3)]),
        ("d>e>c", 1, [(3, 2)]),
        ("best", 3, list(itertools.combinations(range(4), 2))),
        ("top=2", 4, list(itertools.combinations(range(4), 2))),
        ("baseline=d>e", 3, [(0, 3), (1, 3), (2, 3)]),
    ],
)
def test_a_question_knows_its_comparisons_and_their_correction(text, tests, pairs):
    """Union bound: 1, k - 1, m (k - m), k - 1."""
    question = parse_question(text, AGENTS)
    assert (question.tests(4), question.pairs(4)) == (tests, pairs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a>x", "--until must name agents of the study, got 'x'. Agents: a, b, c, d>e"),
        ("a>a", "two different agents, got 'a>a'"),
        ("baseline=d", "got 'd'. Did you mean 'd>e'?"),
        ("top=4", r"from 1 to 3 \(4 agents\), got 4"),
        ("top=0", "got 0"),
        ("top=-1", "got -1"),
        ("top=two", "got two"),
        ("bset", "Did you mean 'best'?"),
        ("a<b", "must be 'A>B', best, top=N or baseline=AGENT, got 'a<b'"),
        ("", "got ''"),
        (">", "must"),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(text, message):
    with pytest.raises(UserError, match=message):
        parse_question(text, AGENTS)


def test_the_best_is_who_is_left_when_all_others_are_beaten():
    question = parse_question("best", AGENTS)
    # nobody compared a with c and d>e: b beat c, c beat d>e, a beat b
    assert question.open(beats((1, 2), (2, 3))) == [0, 1]
    assert question.answer(beats((1, 2), (2, 3)), AGENTS) == "the best is one of a, b"
    assert question.open(beats((1, 2), (2, 3), (0, 1))) == []
    assert question.answer(beats((1, 2), (2, 3), (0, 1)), AGENTS) == "a is the best"


@given(
    order=st.permutations(range(6)),
    m=st.integers(1, 5),
    seen=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15),
)
def test_true_decisions_never_put_an_agent_on_the_wrong_side(order, m, seen):
    names = [str(agent) for agent in range(6)]
    question = parse_question(f"top={m}", names)
    place = {agent: rank for rank, agent in enumerate(order)}
    known = beats(*((i, j) for i, j in seen if place[i] < place[j]), agents=6)
    inside, outside = question.places(known)
    assert all(place[agent] < m for agent in np.flatnonzero(inside))
    assert all(place[agent] >= m for agent in np.flatnonzero(outside))
    everything = beats(*((i, j) for i, j in itertools.permutations(range(6), 2) if place[i] < place[j]), agents=6)
    assert question.open(everything) == []
