"""A metric of a user's own file asks for evidence, not only for texts."""

from __future__ import annotations

import math

import pytest

import goldless

SOURCE = '''
import polars as pl
from goldless.metrics.metric import LogprobNeed, Needs, Scores, response_table

class Surprise:
    """How unlikely a response is by itself."""

    name = "surprise"
    unit = "nats"
    needs = Needs(logprobs=LogprobNeed())

    def scores(self, data):
        alone = data.evidence.logprobs.filter(pl.col("given").is_null())
        one = pl.col("sum_logprob_nats")
        rows = alone.select("task", agent="target", score=-one, asked=1, used=one.is_not_null().cast(int))
        return Scores(response_table(rows))
'''


@pytest.mark.parametrize("named", ["Surprise", "surprise"], ids=["a class", "an object"])
def test_a_file_of_ones_own_asks_for_log_probabilities(named, tmp_path, study_file, toy_scorer):
    """The toy scorer gives ln 8 nats of surprise for each word; ann wrote 4, 2 and 1 words, a mean of 7/3."""
    path = tmp_path / "own.py"
    path.write_text(SOURCE + "\nsurprise = Surprise()\n")
    found = goldless.evaluate(
        study_file(), metrics=f"python:{path}:{named}", scorer=toy_scorer(), journal=tmp_path / "j.db"
    )
    scores = {row.agent: row.score for row in found.leaderboard("surprise").rows}
    assert scores["ann"] == pytest.approx(7 / 3 * math.log(8))
    assert found.leaderboard("surprise").unit == "nats"


def test_an_object_is_given_to_evaluate_as_it_is(tmp_path, study_file, toy_scorer):
    space: dict = {}
    exec(SOURCE, space)
    found = goldless.evaluate(
        study_file(), metrics=[space["Surprise"](), "length"], scorer=toy_scorer(), journal=tmp_path / "j.db"
    )
    assert list(found.outcomes) == ["surprise", "length"]
