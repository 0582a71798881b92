"""A plan says what a run would ask, and a run then asks just that."""

from __future__ import annotations

import polars as pl
import pytest

import goldless
from goldless.models.interface import ModelIdentity
from goldless.models.scripted import ScriptedModel
from tests.support.study_files import ByteScorer

WORDS = ["zarn bluk mipo", "vond rask ebbo", "lirp hoft quex"]
ROWS = [{"task": f"t{i}", "agent": a, "text": f"{w} {a}"} for i, w in enumerate(WORDS) for a in ("ann", "bob", "cy")]
FRAME = pl.DataFrame(ROWS)


def of_the_study(scorer):
    return [c for c in scorer.calls if any(word in bytes(c.target).decode() for word in " ".join(WORDS).split())]


def test_the_planned_calls_and_tokens_are_those_a_run_then_asks():
    planned = goldless.plan(FRAME, metrics=["gem-raw", "bartscore"], scorer=ByteScorer())
    (together,) = planned.together
    scorer = ByteScorer()
    goldless.evaluate(FRAME, metrics=["gem-raw", "bartscore"], scorer=scorer, resamples=200)
    asked = of_the_study(scorer)
    assert (together.calls, together.tokens) == (len(asked), sum(call.tokens for call in asked))


def test_nothing_of_the_study_is_asked_and_the_journal_is_only_read():
    scorer = ByteScorer()
    before = goldless.plan(FRAME, metrics="gem-raw", scorer=scorer)
    assert of_the_study(scorer) == []
    goldless.evaluate(FRAME, metrics="gem-raw", scorer=scorer, resamples=200)
    after = goldless.plan(FRAME, metrics="gem-raw", scorer=scorer, detect=0.3)
    assert (before.rows[0].known, after.rows[0].known) == (0, after.rows[0].calls)
    assert after.rows[0].cost_usd == 0.0
    assert after.power.rows[0].usd == 0.0, "new tasks cost what these cost before they were known"


class Remote(ScriptedModel):
    """Behind a server: must not be touched by planning."""

    known = "gpt-4o-mini"

    @property
    def identity(self):
        return ModelIdentity("openai", self.known)

    async def prepare(self):
        pytest.fail("the server was contacted")


def test_a_server_is_not_contacted_and_its_cost_is_estimated():
    critic = Remote(answers={})
    planned = goldless.plan(FRAME, metrics="tvd-mi", critic=critic, shuffles=1, price_usd_per_million=(10.0, 0.0))
    (row,) = planned.together
    # 6 ordered pairs of agents on 3 tasks, one matched and one shuffled question each
    assert row.calls == 36
    assert row.known is None
    assert row.cost_usd > 0
    assert row.seconds > 0
    assert any("4 characters" in note for note in planned.notes)
    critic.known = "of-nobody"
    assert goldless.plan(FRAME, metrics="tvd-mi", critic=critic).together[0].cost_usd is None, "unknown is not zero"


def test_a_large_study_is_counted_on_part_of_its_tasks():
    rows = [{"task": f"t{i}", "agent": a, "text": f"w{i:04} {a}"} for i in range(100) for a in ("ann", "bob")]
    planned = goldless.plan(pl.DataFrame(rows), metrics="gem-raw", scorer=ByteScorer())
    assert planned.together[0].calls == 400
    assert any("counted on 40 tasks" in note for note in planned.notes)
