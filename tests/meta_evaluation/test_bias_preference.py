"""Preference gaps, family preference and the favour rate, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.errors import UserError
from goldless.meta_evaluation.bias.preferences import family_rows, favour_rows, gap_rows, read_favours
from goldless.meta_evaluation.bias.votes import PairGrid, Verdicts, Votes, peoples_verdicts, votes_of
from goldless.meta_evaluation.judges import reviewer_judges, scoring_judge
from goldless.metrics.pair_labels import pair_labels
from goldless.records import Rating
from goldless.statistics.bootstrap import task_intervals
from judgement_columns import pair_judgements_from_columns, response_ratings_from_columns

DRAWS = {"seed": 0, "resamples": 200, "level": 0.95}
TASKS = tuple(f"t{i}" for i in range(12))
GRID = PairGrid(TASKS, ("a", "b", "c"))  # pairs: ab, ac, bc


def judge(name, vote):
    """The same vote on every task, or one row a task."""
    value = np.broadcast_to(np.array(vote, dtype=float), GRID.shape).copy()
    asked = ~np.isnan(value)
    return Votes(name, "reviewer", value, asked, (Verdicts(value, asked),))


def test_pairs_are_numbered_as_in_the_upper_triangle():
    grid = PairGrid(("t",), tuple("abcde"))
    for number, (low, high) in enumerate(zip(grid.low, grid.high, strict=True)):
        assert grid.pair(grid.agents[low], grid.agents[high]) == (number, False)
        assert grid.pair(grid.agents[high], grid.agents[low]) == (number, True)


# --- preference gap ----------------------------------------------------------------------------------------------


def test_the_gap_is_what_one_sees_of_itself_less_what_the_other_sees_of_it():
    # on 9 of 12 tasks a finds its own response better than b's; b finds so on 3
    a = judge("a", [[1.0 if i < 9 else 0.0, 0.5, 0.5] for i in range(12)])
    b = judge("b", [[1.0 if i < 3 else 0.0, 0.5, 0.5] for i in range(12)])
    for reviewers in ([a, b], [b, a]):
        (row,), _ = gap_rows(GRID, reviewers, draws=DRAWS)
        assert row.value == pytest.approx(9 / 12 - 3 / 12)
        assert set(row.pair) == {"a", "b"}
        assert (row.asked, row.used, row.neutral) == (12, 12, 0)


def test_a_gap_is_over_the_pairs_that_both_judged_and_in_the_mean_every_gap_counts_once():
    a = judge("a", [[1.0, 1.0, 0.5]] * 12)
    b = judge("b", [[np.nan if i < 2 else 0.0, 0.5, 0.5] for i in range(12)])
    b.asked[:] = True
    c = judge("c", [[0.5, 1.0, 0.5]] * 12)
    rows, _ = gap_rows(GRID, [a, b, c], draws=DRAWS)
    by_pair = {row.pair: row for row in rows}
    assert (by_pair["a", "b"].value, by_pair["a", "b"].used, by_pair["a", "b"].missing) == (1.0, 10, 2)
    assert by_pair["a", "c"].value == 0.0  # both find a better than c on every task
    assert by_pair["b", "c"].value == 0.0
    mean = by_pair[None]
    # gaps of 1, 0 and 0; over their 34 pairs together it would be 10 / 34
    assert (mean.value, mean.used, mean.missing) == (pytest.approx(1 / 3), 34, 2)
    assert "1 of 3 gaps above 0" in mean.note


def test_the_mean_of_gaps_is_resampled_by_task_for_all_gaps_together():
    """With nothing missing a task's value is the mean of its three gaps, and the interval is that of their mean."""
    random = np.random.default_rng(4)
    votes = random.choice([0.0, 0.5, 1.0], size=(3, 12, 3))
    rows, _ = gap_rows(GRID, [judge(name, vote) for name, vote in zip("abc", votes, strict=True)], draws=DRAWS)
    a, b, c = votes
    by_task = np.mean([a[:, 0] - b[:, 0], a[:, 1] - c[:, 1], b[:, 2] - c[:, 2]], axis=0)
    (expected,) = task_intervals(by_task[:, None], **DRAWS)
    assert (rows[-1].value, rows[-1].low, rows[-1].high) == pytest.approx((by_task.mean(), expected.low, expected.high))


def test_a_gap_that_is_not_defined_is_left_out_of_the_mean_and_counted():
    a, b, c = (judge(name, [[0.5, 1.0 if name == "a" else 0.0, 0.5]] * 12) for name in "abc")
    for one in (a, b):
        one.vote[:, 0] = np.nan
    rows, _ = gap_rows(GRID, [a, b, c], draws=DRAWS)
    # a sees itself better than c, c does not: 1; b and c are tied by both: 0; of a and b nothing can be read
    assert [row.value for row in rows] == [None, 1.0, 0.0, pytest.approx(1 / 2)]
    assert "1 of 2 gaps above 0; 1 not defined" in rows[-1].note


def test_reviewers_that_are_no_agents_have_no_gap_and_are_listed():
    rows, unavailable = gap_rows(GRID, [judge("a", [1, 1, 1]), judge("x", [1, 1, 1])], draws=DRAWS)
    assert not rows
    assert [(one.judges, one.reason) for one in unavailable] == [
        (("x",), "no agent with the same name"),
        ((), "a preference gap needs two reviewers that are also agents"),
    ]


# --- family ------------------------------------------------------------------------------------------------------


def test_own_family_wins_stand_beside_reviewers_of_neither_family_and_people():
    # r is of a's family, s of b's, o of none. Pairs with one of a's family: ab, ac.
    families = {"a": "red", "b": "blue", "c": "green"}
    r, s, o = judge("r", [1, 1, 0]), judge("s", [0, 0.5, 1]), judge("o", [0.5, 0, 0])
    people = np.broadcast_to(np.array([0.5, np.nan, 1.0]), GRID.shape)
    rows, unavailable = family_rows(
        GRID,
        [r, s, o],
        people,
        agent_families=families,
        reviewer_families={"r": "red", "s": "blue", "o": "grey"},
        draws=DRAWS,
    )
    found = {(row.judge, row.measure): row for row in rows}
    assert found["r", "own family wins"].value == 1
    # ab: o alone is of neither family, 0.5; ac: s and o, mean of 0.5 and 0
    assert found["r", "own family wins, less other reviewers"].value == pytest.approx((0.5 + 0.75) / 2)
    assert (found["r", "own family wins, less people"].value, found["r", "own family wins, less people"].used) == (
        0.5,
        12,
    )
    # s: its own is b; ab 1, bc 1; o says 0.5 and 0, r says 0 of bc
    assert found["s", "own family wins"].value == 1
    assert found["s", "own family wins, less other reviewers"].value == pytest.approx((0.5 + 1) / 2)
    assert found["s", "own family wins"].about == "blue"
    assert [one.judges for one in unavailable] == [("o",)]


# --- favour rate -------------------------------------------------------------------------------------------------

HUMAN = [1, 1, 1, 1, 0, 0, 0, 0, -1, -1, -1, -1]
"""For a against b: better on four tasks, tied on four, worse on four."""


def labels():
    ratings = [Rating(t, a, "r", 3 + sign * (a == "a")) for t, sign in zip(TASKS, HUMAN, strict=True) for a in "ab"]
    return peoples_verdicts(GRID, pair_labels(ratings, tasks=TASKS, agents=GRID.agents))


def said(verdicts):
    """Reviewers' (a first, b first) verdicts on a against b, as judgements; 1: a is better."""
    rows = []
    for reviewer, by_task in verdicts.items():
        for task, (a_first, b_first) in zip(TASKS, by_task, strict=True):
            rows.append((reviewer, task, "a", "b", a_first))
            rows.append((reviewer, task, "b", "a", None if b_first is None else 1 - b_first))
    return pair_judgements_from_columns(*map(list, zip(*rows, strict=True)), tasks=TASKS, agents=GRID.agents)


VERDICTS = {
    "r": [(1, 1)] * 4 + [(1, 1), (1, 0), (0, 0), (None, 1)] + [(1, 1), (1, 1), (0, 1), (0, 0)],
    "s": [(1, 0)] * 4 + [(0, 0), (0, 1), (1, 1), (1, 1)] + [(1, 1), (0, 1), (0, 0), (0, 0)],
}


def favoured(orders, convention="default", pair=("a", "b"), weights=None):
    judges = [
        votes_of(judge, GRID, orders=orders)
        for judge in reviewer_judges(said(VERDICTS), weights=weights, convention=convention)
    ]
    rows, _ = favour_rows(GRID, judges, labels(), pair, draws=DRAWS)
    return {(row.judge, row.measure.split()[0]): row for row in rows}


def test_the_rate_is_over_tasks_where_people_see_a_tie_or_prefer_the_other():
    row = favoured("each")["r", "favours"]
    # orders on the eight tasks: 2 + 1 + 0 + 1 of the one that is there, then 2 + 2 + 1 + 0: 9 of 15
    assert (row.value, row.used, row.asked, row.missing, row.n_tasks) == (pytest.approx(9 / 15), 15, 16, 1, 8)
    assert row.about == "a over b"


def test_with_the_papers_convention_a_missing_verdict_does_not_favour():
    row = favoured("each", "paper")["r", "favours"]
    assert (row.value, row.used, row.ties) == (pytest.approx(9 / 16), 16, 1)


def test_accuracy_is_over_the_pairs_people_decided_each_order_on_its_own():
    row = favoured("each")["r", "accuracy"]
    # 8 of 8 where a is better; where b is: 0 + 0 + 1 + 2 of 8
    assert (row.value, row.used) == (pytest.approx(11 / 16), 16)


def test_a_tied_vote_does_not_favour_and_is_counted_and_orders_can_be_voted_together():
    each = favoured("each")["panel", "favours"]
    # tied tasks, a first: tie, tie, tie, s alone for a; b first: tie, tie, tie, a; then a first: a, tie, b, b and
    # b first: a, a, tie, b: favoured 2 + 1 + 2 of 16
    assert (each.value, each.used, each.ties) == (pytest.approx(5 / 16), 16, 8)
    together = favoured("together")
    # tied tasks: (2-2), (1-1)+(1-1), tie, s alone; then a, 3:1 a, 1:3 b, b: favoured 3 of 8
    assert (together["panel", "favours"].value, together["panel", "favours"].ties) == (pytest.approx(3 / 8), 3)
    # people prefer a: 3 of 4 votes for a on four tasks; b: a, a, b, b: 4 + 2 of 8
    assert together["panel", "accuracy"].value == pytest.approx(6 / 8)


def test_weights_choose_who_votes_and_decide_ties():
    weighted = favoured("each", weights={"r": 3.0, "s": 1.0})
    # with three votes r decides wherever it speaks; where it does not, s favours a
    assert weighted["panel", "favours"].value == pytest.approx(10 / 16)


def test_the_other_direction_is_asked_for_by_turning_the_names():
    row = favoured("each", pair=("b", "a"))["s", "favours"]
    # s favours b: on a's tasks 1 each, on ties 2, 1, 0, 0
    assert row.value == pytest.approx((4 + 3) / 16)


def test_a_metric_and_a_rating_reviewer_favour_by_the_higher_score():
    scores = {(t, a): float(a == "a") for t in TASKS for a in "abc"}
    metric = votes_of(scoring_judge("m", "metric", scores, tasks=TASKS, agents=GRID.agents), GRID)
    rows, _ = favour_rows(GRID, [metric], labels(), ("a", "b"), draws=DRAWS)
    assert [(row.value, row.used) for row in rows] == [(1.0, 8), (0.5, 8)]
    columns = zip(*[("r", t, a, 5 - "abc".index(a)) for t in TASKS for a in "abc"], strict=True)
    ratings = response_ratings_from_columns(*map(list, columns), tasks=TASKS, agents=GRID.agents)
    judges = [votes_of(judge, GRID) for judge in reviewer_judges(ratings)]
    rows, _ = favour_rows(GRID, judges, labels(), ("a", "b"), draws=DRAWS)
    assert [(row.judge, row.value) for row in rows] == [("r", 1.0), ("r", 0.5)]


def test_names_of_agents_may_hold_colons():
    agents = ("openai:gpt-4", "b", "x:y")
    assert read_favours(["openai:gpt-4:b", ("b", "x:y")], agents) == [("openai:gpt-4", "b"), ("b", "x:y")]


@pytest.mark.parametrize(
    ("given", "message"), [("a", "FIRST:SECOND"), ("a:bb", "no agent 'bb'"), ("a:a", "two different")]
)
def test_a_wrong_pair_is_refused_with_what_is_allowed(given, message):
    with pytest.raises(UserError, match=message):
        read_favours([given], ("a", "b"))


def test_all_wrong_pairs_are_named_at_once():
    with pytest.raises(UserError, match=r"(?s)'q'.*'z'"):
        read_favours(["a:q", "z:b"], ("a", "b"))
