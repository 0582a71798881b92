"""Several samples of an agent for a task: averaged by task, never each other's peers unless asked for.

The toy scorer gives ln 4 nats for every word of a peer's response that the context has.
"""

from __future__ import annotations

import math

import polars as pl
import pytest

import goldless
from goldless.errors import StudyError
from goldless.runs.store import save_run
from tests.support.evidence_frames import scores

LN4 = math.log(4)
ROWS = [
    ("t1", "ann", "1", "zarn bluk"),
    ("t1", "ann", "2", "zarn"),
    ("t1", "bob", None, "zarn bluk mipo"),
    ("t1", "cy", "1", "quex"),
    ("t2", "ann", "1", "vond rask"),
    ("t2", "ann", "2", "nuln"),
    ("t2", "bob", None, "vond rask"),
    ("t2", "cy", "1", "quex"),
    ("t2", "cy", "2", "quex vond"),
]


def study(rows=ROWS, **tables):
    frame = pl.DataFrame(rows, schema=["task", "agent", "sample", "text"], orient="row")
    return goldless.study_from_frame(frame, **tables)


def evaluate(scorer, *, given=None, metric="gem-raw", **options):
    return goldless.evaluate(given or study(), metrics=metric, scorer=scorer, resamples=200, **options)


def test_each_sample_is_scored_against_other_agents_and_samples_are_averaged_by_task(toy_scorer):
    """By hand, in words that a peer's response shares with the candidate's, a mean over the peers there.

    ann, t1: sample 1 tells bob 2 and cy 0, sample 2 tells bob 1 and cy 0: (1 + .5) / 2. t2: sample 1 tells bob 2, cy#1
    0 and cy#2 1, sample 2 nobody anything: (1 + 0) / 2. bob, t1: ann#1 2, ann#2 1, cy 0: 1; t2: ann#1 2, ann#2 0, cy#1
    0, cy#2 1: 3/4. cy, t1: nothing; t2: sample 1 nothing, sample 2 tells ann#1 1, ann#2 0, bob 1: (0 + 2/3) / 2.
    """
    result = evaluate(toy_scorer(), over_peers="own")
    expected = {"ann": (0.75 + 0.5) / 2, "bob": (1 + 0.75) / 2, "cy": (0 + 1 / 3) / 2}
    assert scores(result) == pytest.approx({agent: LN4 * score for agent, score in expected.items()})
    assert [row.estimate.n for row in result.leaderboard("gem-raw").rows] == [2, 2, 2]
    signature = result.leaderboard("gem-raw").signature
    assert "|peers:all|" in signature
    assert "|samples:averaged|" in signature
    pairs = set(result.evidence.logprobs.filter(pl.col("given").is_not_null()).select("given", "target").iter_rows())
    assert not {("ann#1", "ann#2"), ("ann#2", "ann#1"), ("cy#1", "cy#2")} & pairs


def test_own_samples_are_peers_where_one_asks_for_it(toy_scorer):
    """ann, t1: sample 1 tells sample 2 its 1 word, and the reverse: (2 + 0 + 1) / 3 and (1 + 0 + 1) / 3."""
    result = evaluate(toy_scorer(), own_samples=True, over_peers="own")
    outcome = result.outcomes["gem-raw"].responses.filter(task="t1", agent="ann")
    assert outcome["score"].item() == pytest.approx(LN4 * (1 + 2 / 3) / 2)
    assert "samples:averaged,own-as-peers" in result.leaderboard("gem-raw").signature


def test_a_run_folder_keeps_samples_and_is_scored_again_alike(toy_scorer, tmp_path):
    first = evaluate(toy_scorer())
    again = goldless.evaluate(save_run(first, tmp_path / "run"), metrics="gem-raw", recorded=True, resamples=200)
    assert scores(again) == pytest.approx(scores(first))


def test_a_sample_twice_or_with_the_name_of_an_agent_is_refused():
    with pytest.raises(StudyError, match="a second response of agent 'ann#1' to task 't1'"):
        study([*ROWS, ("t1", "ann", "1", "again")])
    with pytest.raises(StudyError, match="a sample of 'ann' must not have the name of another agent, 'ann#1'"):
        study([("t1", "ann#1", None, "x"), ("t1", "ann", "1", "y")])
