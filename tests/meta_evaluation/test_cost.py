"""What metrics and reviewers cost: as spent, as planned, scaled to more tasks; a price nobody knows is not 0."""

from __future__ import annotations

import json

import pytest

import goldless
from goldless.errors import UserError
from goldless.judging.scales import SCALES
from goldless.meta_evaluation.cost import find_costs
from goldless.models.interface import Usage
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Price
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.store import save_result

pytestmark = pytest.mark.anyio
SERVER = "http://127.0.0.1:1/v1#model"
"""Nobody answers there: a plan asks no server."""


@pytest.fixture
def study(study_file):
    return goldless.read_study(study_file())


# --- planned -------------------------------------------------------------------------------------------------------


async def test_calls_are_those_of_every_ordered_pair_and_marginal_and_grow_with_the_tasks(study, toy_scorer):
    """Three tasks of three agents: 18 conditionals and 9 marginals, of which cy's "quex" is asked for once."""
    report = await find_costs(study, Options(metrics=("gem-raw",), scorer=toy_scorer()), tasks=3000)
    (row,) = report.rows
    assert (row.metrics, row.part, row.source) == (("gem-raw",), "scorer", "planned")
    assert row.calls == 18 + 9 - 1
    assert row.scaled.calls == pytest.approx(26 * 1000)
    assert row.scaled.tokens.value == pytest.approx(row.tokens * 1000)
    assert row.usd == 0.0
    assert "agents²" in row.growth


async def test_a_price_that_is_unknown_is_said_to_be_and_makes_the_sum_unknown(study, toy_scorer):
    report = await find_costs(study, Options(metrics=("gem-raw", "tvd-mi"), scorer=toy_scorer(), critic=SERVER))
    scorer, critic = report.rows
    assert (scorer.usd, critic.usd) == (0.0, None)
    assert (critic.scaled.usd.value, report.total.usd.value) == (None, None)
    assert "unknown" in report.tables()[0].to_markdown()


async def test_a_budget_of_critic_calls_does_not_grow_with_the_tasks(study):
    report = await find_costs(study, Options(metrics=("tvd-mi",), critic=SERVER, budget_calls=12), tasks=10_000)
    (row,) = report.rows
    assert row.calls == 12
    assert row.scaled.calls == 12
    assert row.growth.startswith("nothing")


async def test_what_a_metric_of_your_own_asks_is_not_known_rather_than_nothing(study, toy_scorer, tmp_path):
    (tmp_path / "mine.py").write_text("def words(response):\n    return float(len(response.split()))\n")
    metrics = ("gem-raw", f"python:{tmp_path / 'mine.py'}:words", "length")
    report = await find_costs(study, Options(metrics=metrics, scorer=toy_scorer()))
    assert [(row.source, row.usd) for row in report.rows] == [
        ("planned", 0.0),
        ("not known", None),
        ("no model", 0.0),
    ]
    assert report.total.usd.value is None


async def test_texts_of_equal_length_on_every_task_leave_no_spread_and_unequal_ones_do(study_file):
    def texts(lengths):
        return {
            f"t{i}": {agent: f"{agent}{i:02d}" + "x" * length for agent in ("ann", "bob", "cyd")}
            for i, length in enumerate(lengths)
        }

    even = goldless.read_study(study_file(texts([400] * 12), "even.jsonl"))
    (row,) = (await find_costs(even, Options(metrics=("gem-raw",), scorer=SERVER, price=Price(1.0, 1.0)))).rows
    tokens = row.scaled.tokens
    assert (tokens.low, tokens.high) == pytest.approx((tokens.value, tokens.value))
    uneven = goldless.read_study(study_file(texts([100, 4000] * 3 + [700] * 6), "uneven.jsonl"))
    (row,) = (await find_costs(uneven, Options(metrics=("gem-raw",), scorer=SERVER, price=Price(1.0, 1.0)))).rows
    tokens, usd = row.scaled.tokens, row.scaled.usd
    assert tokens.low < 0.9 * tokens.value < 1.1 * tokens.value < tokens.high
    assert usd.high / usd.value == pytest.approx(tokens.high / tokens.value)


# --- spent ---------------------------------------------------------------------------------------------------------


async def test_a_run_folder_tells_what_was_spent_on_its_metrics_and_the_rest_is_planned(study, toy_scorer, tmp_path):
    result = goldless.evaluate(study, metrics=["gem-raw", "mi"], scorer=toy_scorer(), resamples=200)
    folder = goldless.save_run(result, tmp_path / "run")
    spent = json.loads((folder / "made_by.json").read_text())["spending"][0]
    options = Options(metrics=("gem-raw", "mi", "bartscore"), scorer=toy_scorer())
    joint, planned = (await find_costs(study, options, runs=[folder], tasks=300)).rows
    assert (joint.metrics, joint.source, joint.part) == (("gem-raw", "mi"), "spent", "scorer")
    assert (joint.calls, joint.reused) == (spent["calls"], spent["reused"])
    assert joint.tokens == spent["usage"]["input_tokens"] + spent["usage"]["output_tokens"]
    assert (planned.metrics, planned.source) == (("bartscore",), "planned")


async def test_replies_from_the_journal_are_reckoned_anew_for_more_tasks(study, toy_scorer, tmp_path):
    """The second run pays for nothing; on more tasks the same calls would be paid for."""
    folders = []
    for name in ("first", "second"):
        result = goldless.evaluate(study, metrics="gem-raw", scorer=toy_scorer(), resamples=200)
        folders.append(goldless.save_run(result, tmp_path / name))
    first, second = [
        (await find_costs(study, Options(metrics=("gem-raw",)), runs=[folder], tasks=300)).rows[0] for folder in folders
    ]
    assert (second.calls, second.tokens) == (0, 0)
    assert second.reused == first.calls + first.reused
    assert second.scaled.calls == pytest.approx(first.scaled.calls)
    assert second.scaled.tokens.value == pytest.approx(first.scaled.tokens.value)


async def test_a_folder_with_a_run_and_a_review_is_charged_for_each_apart_and_for_no_other_verb(
    study, toy_scorer, tmp_path
):
    folder = tmp_path / "both"
    goldless.save_run(goldless.evaluate(study, metrics="gem-raw", scorer=toy_scorer(), resamples=200), folder)
    reviewer = ScriptedModel(answers=lambda _: "one", name="lazy")
    goldless.save_review(goldless.review(study, reviewers={"lazy": reviewer}, resamples=200), folder)
    stranger = Spending("http:stranger", 99, 0, Usage(9999, 99), 7.0)
    save_result(study, folder, verb="agree", name="agreement", data={}, markdown="", spending=[stranger])
    scored, reviewed = (await find_costs(study, Options(metrics=("gem-raw",)), runs=[folder])).rows
    # 18 conditionals and 9 marginals; three pairs in both orders on three tasks
    assert (scored.metrics, scored.part, scored.calls + scored.reused) == (("gem-raw",), "scorer", 18 + 8)
    assert (reviewed.metrics, reviewed.part, reviewed.calls) == (("review[pairwise]",), "lazy", 18)


async def test_folders_of_other_studies_and_folders_without_a_run_are_refused(study, study_file, toy_scorer, tmp_path):
    other = study_file({"t1": {"ann": "x", "bob": "y"}}, "other.jsonl")
    folder = goldless.save_run(
        goldless.evaluate(other, metrics="gem-raw", scorer=toy_scorer(), resamples=200), tmp_path / "other"
    )
    with pytest.raises(UserError, match="another study"):
        await find_costs(study, Options(metrics=("gem-raw",)), runs=[folder])
    with pytest.raises(UserError, match="is not a run folder"):
        await find_costs(study, Options(metrics=("gem-raw",)), runs=[tmp_path / "nothing"])
    (folder / "made_by.json").write_text("{}")
    with pytest.raises(UserError, match="is not a run folder"):
        await find_costs(study, Options(metrics=("gem-raw",)), runs=[folder])


# --- reviewers -----------------------------------------------------------------------------------------------------


async def test_planned_judgements_are_both_orders_of_every_pair_at_four_characters_a_token(study):
    options = Options(metrics=(), reviewers=(f"far={SERVER}",))
    report = await find_costs(study, options, prices={"far": Price(1.0, 10.0)})
    (row,) = report.rows
    asked = [
        sum(len(message.content) for message in SCALES["pairwise"].messages(one.text, other.text, prompt=None)) // 4 + 1
        for _, responses in study
        for one in responses
        for other in responses
        if one.agent != other.agent
    ]
    assert (row.calls, row.tokens) == (18, sum(asked) + 18)
    assert row.usd == pytest.approx((sum(asked) * 1.0 + 18 * 10.0) / 1e6)
    assert report.notes[0].endswith("tokens per judgement, 1 USD/M in, 10 out")
