"""``goldless.evaluate``: from a study to a leaderboard, with figures worked out by hand.

The toy scorer gives ln 4 nats for every word of a peer's response that the agent's response has.
"""

from __future__ import annotations

import asyncio
import math
import re

import anyio
import polars as pl
import pytest

import goldless
from goldless.errors import CapabilityError, MetricError, TextTooLongError, UserError
from goldless.models.interface import ModelIdentity
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.templates import TEMPLATES
from tests.support.evidence_frames import scores
from tests.support.study_files import response_rows, study_folder

LN4 = math.log(4)
# words shared, mean over two peers, for ann, bob and cy: t1 1.5 1.5 0, t2 1 1 0, t3 .5 1 .5
EXPECTED = {"bob": 3.5 / 3 * LN4, "ann": 1.0 * LN4, "cy": 0.5 / 3 * LN4}


def worked_out(texts) -> dict[str, float]:
    """An agent's score by counting words: mean over tasks of the mean over peers."""
    means: dict[str, list[float]] = {}
    for by_agent in texts.values():
        for agent, text in by_agent.items():
            shared = [
                sum(word in text.split() for word in other.split()) for peer, other in by_agent.items() if peer != agent
            ]
            if shared:
                means.setdefault(agent, []).append(LN4 * sum(shared) / len(shared))
    return {agent: sum(found) / len(found) for agent, found in means.items()}


# --- the whole way -----------------------------------------------------------------------------------------------


def test_a_file_gives_the_worked_figures_in_order(study_file, toy_scorer):
    result = goldless.evaluate(study_file(), metrics="gem-raw", scorer=toy_scorer())
    assert scores(result) == pytest.approx(EXPECTED)
    assert [(row.rank, row.agent, row.estimate.n, row.asked, row.missing) for row in result.leaderboard().rows] == [
        (1, "bob", 3, 6, 0),
        (2, "ann", 3, 6, 0),
        (3, "cy", 3, 6, 0),
    ]
    assert result.complete
    assert (result.asked, result.open, dict(result.failures)) == (27, 0, {})


def test_responses_come_as_a_frame_with_null_for_what_is_missing(study_file, toy_scorer):
    broken = lambda _c, target: CallFailure("refused", "no") if target == "lirp" else None  # noqa: E731 - one use
    frame = goldless.evaluate(study_file(), metrics="gem-raw", scorer=toy_scorer(broken), over_peers="own").to_polars()
    assert frame.columns == ["metric", "task", "agent", "score", "asked", "used", "signature"]
    # without ann's response as a peer: bob tells 1 word of cy's, cy 1 of bob's; ann is still scored on both peers
    t3 = {row["agent"]: (row["score"], row["used"]) for row in frame.filter(task="t3").to_dicts()}
    assert t3 == {"ann": (pytest.approx(LN4 / 2), 2), "bob": (pytest.approx(LN4), 1), "cy": (pytest.approx(LN4), 1)}


# --- gem, with rewriting -----------------------------------------------------------------------------------------

FILLED = {
    "t1": {"ann": "well zarn bluk", "bob": "well zarn", "cy": "null"},
    "t2": {"ann": "well vond", "bob": "well vond rask", "cy": "null"},
}
PLAIN = {
    "t1": {"ann": "zarn bluk", "bob": "zarn", "cy": "null"},
    "t2": {"ann": "vond", "bob": "vond rask", "cy": "null"},
}


def rewriter(**options) -> ScriptedModel:
    """Takes the word that says nothing out."""
    return ScriptedModel(answers=lambda r: r.messages[-1].content.replace("well ", ""), **{"name": "w", **options})


def test_gem_scores_the_rewrites_and_gem_raw_the_responses(toy_scorer, study_file):
    result = goldless.evaluate(
        study_file(FILLED), metrics=["gem", "gem-raw"], scorer=toy_scorer(), rewriter=rewriter(), resamples=200
    )
    assert scores(result, "gem") == pytest.approx(worked_out(PLAIN))
    assert scores(result, "gem-raw") == pytest.approx(worked_out(FILLED))
    assert worked_out(PLAIN) != worked_out(FILLED)
    assert set(result.rewrites["text"]) == {t for by in PLAIN.values() for t in by.values()}
    assert "|rewriter:scripted:w|" in result.outcomes["gem"].signature
    assert "rewriter" not in result.outcomes["gem-raw"].signature
    assert set(result.logprobs["rewriter"]) == {"scripted:w", None}


def test_a_lost_rewrite_is_missing_everywhere_and_the_rest_is_scored(toy_scorer, study_file):
    lossy = ScriptedModel(answers=lambda r: "" if "bluk" in r.messages[-1].content else r.messages[-1].content)
    result = goldless.evaluate(study_file(PLAIN), metrics="gem", scorer=toy_scorer(), rewriter=lossy, resamples=200)
    lost = result.rewrites.filter(pl.col("text").is_null())
    assert lost.select("task", "agent", "failure").rows() == [("t1", "ann", "bad_reply")]
    # t1: ann 2 pairs missing, bob and cy 1 each
    assert {row.agent: row.missing for row in result.leaderboard().rows} == {"ann": 2, "bob": 1, "cy": 1}
    # 1 rewrite, and of the 9 questions of t1 all but the 2 marginals and 2 pairs without ann
    assert dict(result.failures) == {"bad_reply": 1 + 5}
    assert result.complete, "an empty rewrite would come back empty: asking again does not help"


ALL_RECORDED = [{"rewriter": "gpt-4o", **row} for row in response_rows(PLAIN)]


def test_recorded_rewrites_are_used_and_no_rewriter_is_needed_where_all_are_there(tmp_path, toy_scorer):
    study = study_folder(tmp_path / "study", responses=response_rows(FILLED), rewrites=ALL_RECORDED)
    result = goldless.evaluate(study, metrics="gem", scorer=toy_scorer(), resamples=200)
    assert scores(result) == pytest.approx(worked_out(PLAIN))
    assert set(result.rewrites["rewriter"]) == {"gpt-4o"}
    assert "|rewriter:gpt-4o|" in result.outcomes["gem"].signature


def test_a_rewriter_is_asked_only_for_rewrites_that_are_not_recorded(tmp_path, toy_scorer):
    study = study_folder(tmp_path / "study", responses=response_rows(FILLED), rewrites=ALL_RECORDED[1:])
    model = rewriter()
    result = goldless.evaluate(study, metrics="gem", scorer=toy_scorer(), rewriter=model, resamples=200)
    assert [call.messages[-1].content for call in model.calls] == ["well zarn bluk"]
    assert scores(result) == pytest.approx(worked_out(PLAIN))
    assert "|rewriter:gpt-4o+scripted:w|" in result.outcomes["gem"].signature


# --- going on ----------------------------------------------------------------------------------------------------


def test_calls_that_failed_for_a_passing_cause_are_asked_again_and_no_others(study_file, toy_scorer):
    """Every question about bob's response to t1 fails the first time: its marginal, and given ann's and cy's."""
    down = CallFailure("server_error", "down")
    first = goldless.evaluate(
        study_file(), metrics="gem-raw", scorer=toy_scorer(lambda _c, t: down if t == "zarn bluk mipo" else None)
    )
    assert not first.complete
    assert (first.open, first.asked, dict(first.failures)) == (3, 27, {"server_error": 3})
    assert {row.agent: row.missing for row in first.leaderboard().rows} == {"ann": 1, "bob": 0, "cy": 1}

    model = toy_scorer()
    second = goldless.evaluate(study_file(), metrics="gem-raw", scorer=model)
    assert second.complete
    assert [call.target for call in model.calls] == ["zarn bluk mipo"] * 3
    assert scores(second) == pytest.approx(EXPECTED)
    # 27 questions; the marginal of "quex" is asked in t1 and t2 but is one call
    assert [(s.calls, s.reused) for s in second.spending] == [(3, 23)]


PASSING, LASTING = ("rate_limited", "server_error", "timeout", "connection"), ("rejected", "refused", "truncated")


@pytest.mark.parametrize("kind", [*PASSING, *LASTING])
def test_passing_causes_leave_the_run_incomplete_and_lasting_ones_do_not(study_file, toy_scorer, kind):
    failing = toy_scorer(lambda _c, t: CallFailure(kind, "") if t == "lirp" else None)
    result = goldless.evaluate(study_file(), metrics="gem-raw", scorer=failing)
    assert (result.complete, dict(result.failures)) == (kind in LASTING, {kind: 3})


def test_all_calls_failing_gives_a_leaderboard_without_scores(study_file, toy_scorer):
    failing = toy_scorer(lambda c, _t: None if "second reader" in c else CallFailure("timeout", ""))
    result = goldless.evaluate(study_file(), metrics="gem-raw", scorer=failing)
    rows_ = result.leaderboard().rows
    assert [(row.agent, row.rank, row.score, row.missing) for row in rows_] == [
        ("ann", None, None, 6),
        ("bob", None, None, 6),
        ("cy", None, None, 6),
    ]


def test_a_value_that_is_no_number_is_missing_and_never_becomes_a_score(study_file, toy_scorer):
    odd = toy_scorer(lambda _c, t: [math.nan] if t == "lirp" else None)
    result = goldless.evaluate(study_file(), metrics="gem-raw", scorer=odd)
    assert dict(result.failures) == {"bad_reply": 3}
    assert all(math.isfinite(row.score) for row in result.leaderboard().rows)


# --- budget ------------------------------------------------------------------------------------------------------


class Paid(ScriptedModel):
    """A scorer at a price: every call of these tests is charged its words."""

    @property
    def identity(self):
        return ModelIdentity("openai", "of-nobody")


@pytest.fixture
def paid(toy_scorer):
    return lambda: Paid(logprobs=toy_scorer()._logprobs)


@pytest.fixture
def checked(paid, three_agents):
    """Like ``paid``, once its canaries are in the journal, from a study of one other task."""
    other = {"t0": {agent: f"{text} other" for agent, text in three_agents["t1"].items()}}
    goldless.evaluate(response_rows(other), metrics="gem-raw", scorer=paid(), resamples=200)
    return paid


def test_a_budget_that_does_not_allow_the_canaries_is_an_error_that_says_what_they_could_cost(study_file, paid):
    """12 calls, one dollar a byte and one for what is written: 9 texts given 4 times over, and 3 of them again."""
    model = paid()
    at_a_price = {"metrics": "gem-raw", "scorer": model, "price_usd_per_million": (1e6, 1e6)}
    with pytest.raises(goldless.BudgetError, match="the 12 short calls that check openai:of-nobody") as caught:
        goldless.evaluate(study_file(), budget_usd=1500, **at_a_price)
    assert model.calls == []
    (said,) = re.findall(r"up to (\d+)\.00 USD", str(caught.value))
    with pytest.raises(goldless.BudgetError):
        goldless.evaluate(study_file(), budget_usd=int(said) - 1, **at_a_price)
    assert model.calls == []
    assert goldless.evaluate(study_file(), budget_usd=int(said), **at_a_price).spending[0].cost_usd <= int(said)


def test_a_budget_is_not_exceeded_and_run_after_run_gets_there(study_file, checked):
    """Each call may take as many dollars as it has bytes (about 500) and takes one a word (about 70)."""
    results = [
        goldless.evaluate(
            study_file(), metrics="gem-raw", scorer=checked(), budget_usd=1500, price_usd_per_million=(1e6, 1e6)
        )
        for _ in range(12)
    ]
    assert 0 < results[0].spending[0].cost_usd <= 1500
    assert (results[0].complete, dict(results[0].failures)) == (False, {"budget": results[0].open})
    left = [result.open for result in results]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert scores(results[-1]) == pytest.approx(EXPECTED)


@pytest.mark.parametrize("options", [{"budget_usd": 0, "price_usd_per_million": (1, 1)}, {"budget_usd": 5}])
def test_a_budget_that_allows_no_call_is_an_error_before_the_model_is_prepared(study_file, paid, options):
    model = paid()

    async def prepare():
        pytest.fail("was prepared")

    model.prepare = prepare
    with pytest.raises(goldless.BudgetError):
        goldless.evaluate(study_file(), **{"metrics": "gem-raw", "scorer": model, **options})


def test_a_free_model_needs_no_budget_and_costs_nothing(study_file, toy_scorer):
    result = goldless.evaluate(study_file(), metrics="gem-raw", scorer=toy_scorer(), budget_usd=0)
    assert result.complete
    assert result.spending[0].cost_usd == 0.0


def test_an_unknown_price_without_a_budget_is_unknown_and_not_zero(study_file, paid):
    assert goldless.evaluate(study_file(), metrics="gem-raw", scorer=paid()).spending[0].cost_usd is None


# --- texts that do not fit ---------------------------------------------------------------------------------------


class Small(ScriptedModel):
    """A toy scorer with room for 200 tokens, of four characters each."""

    @property
    def context_length(self):
        return 200


@pytest.fixture
def small(toy_scorer):
    return Small(logprobs=toy_scorer()._logprobs, name="small")


LONG = {"t1": {"ann": "zarn", "bob": "bluk " * 300}, "t2": {"ann": "mipo", "bob": "mipo"}}


def test_a_text_too_long_is_an_error_that_names_task_and_agent_before_anything_is_scored(study_file, small):
    with pytest.raises(TextTooLongError, match=r"task t1: bob: [\s\S]*--on-too-long skip"):
        goldless.evaluate(study_file(LONG), metrics="gem-raw", scorer=small)
    assert all("second reader" in call.context for call in small.calls), "only canaries were asked"


def test_skipping_counts_it_as_missing_and_scores_the_rest(study_file, small):
    result = goldless.evaluate(study_file(LONG), metrics="gem-raw", scorer=small, on_too_long="skip")
    # ann's own marginal fits: only what bob's text is in does not
    assert dict(result.failures) == {"too_long": 3}
    assert result.complete
    assert scores(result) == pytest.approx({"ann": LN4, "bob": LN4})
    assert [(row.estimate.n, row.missing, row.estimate.note) for row in result.leaderboard().rows] == [
        (1, 1, "no interval: n = 1")
    ] * 2


# --- bad input ---------------------------------------------------------------------------------------------------


def test_a_task_answered_by_one_agent_is_left_out_and_named(study_file, three_agents, toy_scorer):
    result = goldless.evaluate(
        study_file({**three_agents, "t4": {"ann": "solo"}}), metrics="gem-raw", scorer=toy_scorer()
    )
    assert result.tasks_without_peers == ("t4",)
    assert scores(result) == pytest.approx(EXPECTED)
    assert {row.agent: row.estimate.n for row in result.leaderboard().rows} == {"ann": 3, "bob": 3, "cy": 3}


def test_a_study_without_responses_is_an_error(tmp_path, toy_scorer):
    labels = [{"task": "t", "agent": agent, "rater": "r", "score": 1} for agent in "ab"]
    folder = study_folder(tmp_path / "labelled", tasks=[{"task": "t", "prompt": "why?"}], labels=labels)
    with pytest.raises(UserError):
        goldless.evaluate(folder, metrics="gem-raw", scorer=toy_scorer())


def test_a_model_that_writes_nothing_is_refused_as_rewriter(study_file, toy_scorer):
    with pytest.raises(CapabilityError, match="does not write text"):
        goldless.evaluate(study_file(), metrics="gem", scorer=toy_scorer(), rewriter=ScriptedModel(logprobs={}))


def test_an_error_of_ours_inside_a_stage_comes_out_as_itself_and_not_in_a_group(study_file, toy_scorer):
    class Torn(ScriptedModel):
        async def chat(self, request):
            raise CapabilityError("torn")

    with pytest.raises(CapabilityError, match="torn"):
        goldless.evaluate(study_file(), metrics="gem", scorer=toy_scorer(), rewriter=Torn(answers={}))


# --- the result --------------------------------------------------------------------------------------------------


def test_a_metric_that_was_not_computed_is_an_error_that_says_which_were(study_file, toy_scorer):
    result = goldless.evaluate(study_file(), metrics="gem-raw", scorer=toy_scorer())
    with pytest.raises(MetricError, match=r"'gem' was not computed. Did you mean 'gem-raw'"):
        result.leaderboard("gem")


def test_what_changes_the_numbers_changes_the_signature(study_file, toy_scorer):
    changes = ({}, {"seed": 1}, {"resamples": 200}, {"level": 0.9}, {"template": "peer-review"}, {"scorer": "other"})
    lines = set()
    for change in changes:
        scorer = toy_scorer(name=change.get("scorer", "toy"))
        found = goldless.evaluate(study_file(), **{"metrics": "gem-raw", **change, "scorer": scorer})
        lines.add(found.leaderboard().signature)
    assert len(lines) == len(changes)


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_named_template_is_the_one_that_is_put_to_the_scorer(study_file, toy_scorer, template):
    model = toy_scorer()
    goldless.evaluate(study_file(), metrics="gem-raw", scorer=model, template=template, resamples=200)
    asked = [call.context for call in model.calls if "second reader" not in call.context]
    assert asked
    assert all(context.startswith(TEMPLATES[template].predict) for context in asked)


def test_it_works_where_an_event_loop_is_running_as_in_a_notebook(study_file, toy_scorer):
    async def cell():
        return goldless.evaluate(study_file(), metrics="gem-raw", scorer=toy_scorer())

    assert scores(asyncio.run(cell())) == pytest.approx(EXPECTED)


def test_it_works_in_a_thread_that_an_event_loop_started(study_file, toy_scorer):
    async def program():
        return await asyncio.to_thread(goldless.evaluate, study_file(), metrics="gem-raw", scorer=toy_scorer())

    assert scores(anyio.run(program)) == pytest.approx(EXPECTED)


def test_a_model_that_was_given_is_not_closed(study_file, toy_scorer):
    model = toy_scorer()

    async def aclose():
        pytest.fail("was closed")

    model.aclose = aclose
    goldless.evaluate(study_file(), metrics="gem-raw", scorer=model)
