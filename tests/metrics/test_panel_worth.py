"""What a panel is worth: on recorded XSum the numbers of an independent computation, and by hand on small panels."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

import goldless
from goldless.metrics.pair_labels import pair_labels
from goldless.metrics.panel_worth import panel_worth
from goldless.statistics.shared_errors import effective_votes
from goldless.statistics.vote_models import dawid_skene, judge_aware_bradley_terry
from tests.support.evidence_frames import pair_judgements_from_columns

FAST = {"resamples": 200}

# --- recorded XSum -------------------------------------------------------------------------------------------------


def substring(output: str | None) -> float | None:
    """1: the reply holds "one" but not "two", 0: the other way round, None: both or neither."""
    one, two = ("one" in (output or "").lower()), ("two" in (output or "").lower())
    return None if one == two else float(one)


@pytest.fixture(scope="module")
def xsum(recorded):
    """Votes [pairs, reviewers] on the pairs judged by all, sorted by agents' names, ties one half; people's sign.

    The conventions of the computation that the expected values come from: replies that hold "one" or "two" but not
    both; a vote is the mean of the orders that can be read.
    """
    study = goldless.read_study(recorded / "xsum_peer_review")
    agents = sorted(agent.agent for agent in study.agents)
    rows = study.table("judgements").filter(pl.col("format") == "pairwise")
    read = [substring(output) for output in rows["output"]]
    columns = (rows[column].to_list() for column in ("reviewer", "task", "first", "second"))
    table = pair_judgements_from_columns(*columns, read, tasks=study.tasks, agents=agents)
    present = ~np.isnan(table.value)
    with np.errstate(invalid="ignore"):
        vote = (np.where(present, table.value, 0.0).sum(axis=2) / present.sum(axis=2)).T
    labels = pair_labels(study.label_table, tasks=study.tasks, agents=agents).decided()
    place = labels.places(table)
    all_of_them = ~np.isnan(vote).any(axis=1)
    kept = (place >= 0) & all_of_them
    truth = (labels.sign[place[kept]] > 0).astype(float)
    return table, vote, kept, all_of_them, truth


def right(lean, truth):
    return float(np.where(np.abs(lean) < 1e-9, 0.5, (lean > 0) == (truth > 0.5)).mean())


def test_ten_recorded_reviewers_are_worth_fewer_than_three_votes(xsum):
    """r .285 and n_eff 2.81 of 10 by errors, r .350 and 2.41 by votes; to the digits given."""
    table, vote, kept, _, truth = xsum
    assert kept.sum() == 1602
    said, task = vote[kept], table.task[kept]
    wrong = np.abs(said - truth[:, None])
    found = effective_votes(wrong.T, task, table.reviewers, **FAST)
    assert found.correlation == pytest.approx(0.285, abs=0.0005)
    assert found.votes.value == pytest.approx(2.81, abs=0.005)
    by_votes = effective_votes(said.T, task, table.reviewers, **FAST)
    assert by_votes.correlation == pytest.approx(0.350, abs=0.0005)
    assert by_votes.votes.value == pytest.approx(2.41, abs=0.005)


def test_the_equal_vote_is_no_worse_than_models_of_votes(xsum):
    """Equal .7363, Dawid-Skene .7341 while claiming .967; judge-aware Bradley-Terry .7391, to two pairs."""
    table, vote, kept, _, truth = xsum
    said, two_pairs = vote[kept], 2 / 1602
    assert right(said.mean(axis=1) - 0.5, truth) == pytest.approx(0.7363, abs=0.0001)
    model = dawid_skene(said)
    assert right(model.chance - 0.5, truth) == pytest.approx(0.7341, abs=0.0001)
    assert np.maximum(model.chance, 1 - model.chance).mean() == pytest.approx(0.967, abs=0.0005)
    gpt4 = table.reviewers.index("gpt4")
    assert model.accuracy[gpt4] == pytest.approx(0.909, abs=0.0005)
    number = len(table.agents)
    first, second = (table.task[kept] * number + side[kept] for side in (table.low, table.high))
    strength = judge_aware_bradley_terry(said, first, second).strength
    assert right(strength[first] - strength[second], truth) == pytest.approx(0.7391, abs=two_pairs)


def test_the_order_of_reviewers_without_labels_is_nearly_that_of_their_accuracies(xsum):
    """Spearman .976 of Dawid-Skene and of judge-aware d, over all pairs of the 100 tasks."""
    table, vote, kept, everywhere, truth = xsum
    said = vote[kept]
    known = [right(own - 0.5, truth) for own in said.T]
    number = len(table.agents)
    first, second = (table.task[everywhere] * number + side[everywhere] for side in (table.low, table.high))
    found = dawid_skene(vote[everywhere]).accuracy, judge_aware_bradley_terry(vote[everywhere], first, second)
    assert spearmanr(found[0], known)[0] == pytest.approx(0.976, abs=0.0005)
    assert spearmanr(found[1].discrimination, known)[0] == pytest.approx(0.976, abs=0.0005)


# --- small panels --------------------------------------------------------------------------------------------------

TASKS = [f"t{i}" for i in range(12)]


def judgements(says, agents=("ann", "bob", "cy")):
    """Comparisons by reviewers in both orders; ``says``: by reviewer, a function of task, first and second."""
    rows = [
        (name, task, a, b, say(int(task[1:]), a, b))
        for name, say in says.items()
        for task in TASKS
        for a in agents
        for b in agents
        if a != b
    ]
    return pair_judgements_from_columns(*map(list, zip(*rows, strict=True)), tasks=TASKS, agents=list(agents))


def honest(_, a, b):
    return float(a < b)


def odd(task, a, b):
    return float(a < b) if task % 3 else float(a > b)


def first(*_):
    return 1.0


def test_the_odd_one_out_is_last_and_a_reviewer_of_positions_is_named():
    table = judgements({"x": honest, "y": honest, "z": odd, "p": first})
    worth = panel_worth(table, ["x", "y", "z", "p"], **FAST)
    assert [row.reviewer for row in worth.peers][-2:] == ["z", "p"]
    assert "every pair: p" in worth.votes.votes.note
    assert any("every pair: p" in note for note in worth.notes)


def test_more_than_two_levels_are_warned_of():
    table = judgements({"x": honest, "y": honest, "z": odd})
    assert not panel_worth(table, ["x", "y", "z"], levels=2, **FAST).notes
    (note,) = panel_worth(table, ["x", "y", "z"], levels=5, **FAST).notes
    assert "three or more levels" in note
