"""Crash tests: effects, ratings, and what is counted, on metrics whose behaviour is known beforehand."""

from __future__ import annotations

import math
import re

import anyio
import numpy as np
import polars as pl
import pytest
from scipy import stats

import goldless
from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.crash_test import crash_test, p_of_passing, rate
from goldless.meta_evaluation.perturbations.catalogue import (
    BOILERPLATE,
    MASTER_KEYS,
    MODEL_FREE,
    default_perturbations,
)
from goldless.metrics.catalogue import find_metric
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.options import Options
from goldless.statistics.bootstrap import Estimate
from goldless.studies import study_from_frame
from tests.support.tickets import TICKETS, study

FAST = {"resamples": 200}


def answers(words=(3, 5, 4, 8, 6, 7)):
    """Responses of different lengths, in two sentences but the first one of ann's."""
    rows = []
    for i, n in enumerate(words):
        for agent in ("ann", "bob", "cy"):
            said = " ".join(f"{agent}{i}w{k}" for k in range(n))
            rows.append((f"t{i}", agent, f"{said}." if (i, agent) == (0, "ann") else f"{said}. And {i} more."))
    return study_of(rows)


def study_of(rows):
    return study_from_frame(pl.DataFrame(rows, schema=["task", "agent", "text"], orient="row"), name="answers")


def run(metrics, perturbations, *, study=None, options=None, **crash):
    chosen = Options.of(metrics=metrics, **{**FAST, **(options or {})})
    return anyio.run(lambda: crash_test(study or answers(), chosen, perturbations=perturbations, **crash))


def one(metric, perturbation, **options):
    return run([metric], [perturbation], **options).results[0]


# --- rating --------------------------------------------------------------------------------------------------------


def effect(value, low, high):
    return Estimate(value, low, high, 30, 0.95)


@pytest.mark.parametrize(
    ("must", "interval", "rating"),
    [
        ("fall", (-0.5, -0.1), "pass"),
        ("fall", (-0.3, 0.1), "not shown"),
        ("fall", (-0.1, 0.1), "fail"),
        ("fall", (0.1, 0.9), "fail"),
        ("not rise", (0.01, 0.05), "pass"),
        ("not rise", (0.01, 0.4), "fail"),
        ("not rise", (-0.1, 0.1), "pass"),
        ("not rise", (-0.9, -0.1), "pass"),
        ("not rise", (-0.1, 0.4), "not shown"),
    ],
)
def test_an_interval_decides_the_rating(must, interval, rating):
    low, high = interval
    assert rate(must, effect((low + high) / 2, low, high), margin=0.2)[0] == rating


# --- effects -------------------------------------------------------------------------------------------------------


def test_the_effect_is_the_papers_pooled_difference_over_what_was_changed():
    found = one("length", "deletion", agents=["ann"])
    before = np.array([n + 3 for n in (5, 4, 8, 6, 7)], float)  # "And i more" has three words
    after = np.array([5, 4, 8, 6, 7], float)
    pooled = math.sqrt((before.var(ddof=1) + after.var(ddof=1)) / 2)
    assert found.smd.value == pytest.approx((after.mean() - before.mean()) / pooled)
    assert (found.samples, found.responses, found.unchanged, found.missing) == (5, 6, 1, 0)
    assert (found.mean_before, found.mean_after) == (before.mean(), after.mean())
    assert found.rating == "pass"


def test_a_pair_metric_has_a_sample_for_every_pair_as_in_the_paper():
    assert one("rouge-l", "null", references=2).samples == 18 * 2
    assert one("rouge-l", "null", references=1).samples == 18


def test_a_perturbation_that_changes_nothing_is_counted_and_not_rated_as_no_effect():
    rows = [(f"t{i}", agent, f"{agent} {i}.") for i in range(4) for agent in ("ann", "bob")]
    study = study_of(rows)
    found = one("length", "deletion", study=study)
    assert (found.rating, found.reason) == ("not shown", "no response was changed")
    assert (found.unchanged, found.samples, found.smd.value) == (8, 0, None)


def flagged(tmp_path, monkeypatch, body):
    (tmp_path / "flag.py").write_text(f"def flag(response):\n    return {body}\n")
    monkeypatch.chdir(tmp_path)
    return "python:flag.py:flag"


def test_a_metric_that_jumps_from_one_value_to_another_is_rated_by_its_direction(tmp_path, monkeypatch):
    metric = flagged(tmp_path, monkeypatch, "1.0 if '[[A]]' in response else 0.0")
    found = one(metric, "verdict-injection", study=answers(range(5, 25)))
    assert (found.rating, found.reason, found.smd.value) == ("fail", "rises", None)
    assert "unbounded" in found.smd.note
    metric = flagged(tmp_path, monkeypatch, "float('w1' in response)")
    assert one(metric, "null", study=answers(range(5, 25))).rating == "pass"


def test_gem_falls_where_shared_words_are_lost(toy_scorer):
    rows = [
        (f"t{i}", agent, " ".join(f"fact{i}x{k}" for k in range(6 + i)) + ". " + f"point{i}a point{i}b.")
        for i in range(6)
        for agent in ("ann", "bob", "cy")
    ]
    study = study_of(rows)
    test = run(["gem-raw"], ["shuffled-task", "null", "deletion"], study=study, options={"scorer": toy_scorer()})
    by_name = {r.perturbation: r for r in test.results}
    for name in ("shuffled-task", "null"):
        # of 6 + i words and the two of the point, none is known any more: ln 4 nats each
        assert by_name[name].mean_before == pytest.approx(math.log(4) * (np.mean([6 + k for k in range(6)]) + 2))
        assert by_name[name].mean_after == pytest.approx(0)
    # deletion leaves the facts and takes the two words of the point
    assert by_name["deletion"].mean_before - by_name["deletion"].mean_after == pytest.approx(2 * math.log(4))
    assert {r.rating for r in test.results} == {"pass"}


def test_tvd_mi_is_crash_tested_against_the_same_partners():
    """A critic that finds two texts from the same source where they share a fact: 1 for a pair, 0 for a null."""

    def answer(request):
        said = re.findall(r"fact\d", request.messages[-1].content)
        return "Yes" if len(said) > len(set(said)) else "No"

    rows = [(f"t{i}", agent, f"fact{i} here") for i in range(5) for agent in ("ann", "bob", "cy")]
    study = study_of(rows)
    critic = ScriptedModel(name="critic", answers=answer)
    test = run(["tvd-mi"], ["null"], study=study, options={"critic": critic, "verdicts": "labels"})
    (found,) = test.results
    assert (found.mean_before, found.mean_after) == (1.0, 0.0)
    assert (found.samples, found.missing) == (15, 0)


# --- what cannot be tested -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", MASTER_KEYS)
def test_a_judge_that_a_master_key_deceives_fails_without_being_asked_for_it(key):
    """It gives 5 of 5 to one empty text, and else rates by the number of words that say something."""
    text = key.removeprefix("null[").removesuffix("]")

    def rating(request) -> str:
        instruction, question = (message.content for message in request.messages)
        fence = re.search(r"between two lines of (#+[a-z]*)\.", instruction)[1]
        response = question.split(f"\n{fence}\n")[-2]
        return "5" if response == text else str(min(4, 1 + len(re.findall(r"w\d", response)) // 2))

    judge = {"reviewers": {"judge": ScriptedModel(answers=rating, name="judge")}, "verdicts": "labels"}
    names = ("null", *default_perturbations([find_metric("review[5-level]")])[-len(MASTER_KEYS) :])
    test = run(["review[5-level]"], names, study=answers((3, 5, 4, 8, 6, 7) * 4), options=judge)
    failed = [result.perturbation for result in test.results if result.rating == "fail"]
    assert failed == [key]


def test_master_keys_are_for_judges_only():
    test = run(["length"], None)
    assert [result.perturbation for result in test.results] == list(MODEL_FREE)


@pytest.mark.parametrize(
    ("metric", "crash", "message"),
    [
        ("tvd-mi[labels]", {}, "cannot be crash-tested"),
        ("judge[x]", {}, "cannot be crash-tested"),
        ("length", {"margin": -1}, "margin"),
    ],
)
def test_what_cannot_be_tested_is_refused_before_anything_is_scored(metric, crash, message):
    with pytest.raises((UserError, MetricError), match=message):
        run([metric], ["null"], **crash)


def test_texts_that_no_writer_made_are_missing_and_said():
    writer = ScriptedModel(name="mute", answers=lambda _: "")
    test = run(["length"], ["rephrase"], writer=writer)
    (found,) = test.results
    assert found.not_made == found.responses == 18
    assert found.rating == "not shown"
    assert sum(test.problems.values()) == 18
    assert test.open == 0  # an empty reply is no cause that passes


def test_a_crash_test_that_lacks_answers_for_a_passing_cause_says_so(toy_scorer):
    busy = CallFailure("rate_limited", "come back later")
    scorer = toy_scorer(broken=lambda context, _: busy if "bob" in context else None)
    test = run(["gem-raw"], ["null"], options={"scorer": scorer})
    assert test.open > 0
    assert test.asked > test.open
    assert any("rate_limited" in problem for problem in test.problems)


def test_a_metric_that_scores_nothing_is_named(tmp_path, monkeypatch):
    metric = flagged(tmp_path, monkeypatch, "None")
    assert run([metric, "length"], ["null"]).unscored == (metric,)


# --- recorded ------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.recorded
def test_deletion_lowers_rouge_l_and_bleu_of_recorded_reviews_as_stated(recorded):
    """Pooled SMD on 300 papers, candidate human2, references human1 and human3: the description of the data."""
    test = run(
        ["rouge-l", "bleu"],
        ["deletion[paper]"],
        study=goldless.read_study(recorded / "iclr23_reviews"),
        agents=["human2"],
        references=["human1", "human3"],
    )
    rouge, bleu = test.results
    assert rouge.samples == bleu.samples == 600
    assert round(rouge.smd.value, 3) == -0.087
    assert (rouge.smd.low, rouge.smd.high) == pytest.approx((-0.144, -0.030), abs=0.01)
    assert bleu.smd.value == pytest.approx(-0.320, abs=0.03)
    assert (rouge.rating, bleu.rating) == ("pass", "pass")


# --- the p of a rating ------------------------------------------------------------------------------------------------


def test_the_p_is_that_of_a_one_sided_t_test():
    differences = np.array([-0.4, 0.1, -0.9, -0.3, -0.2, -0.6, 0.2, -0.5])
    error = differences.std(ddof=1) / math.sqrt(8)
    half = stats.t.ppf(0.975, 7) * error
    found = Estimate(differences.mean(), differences.mean() - half, differences.mean() + half, 8, 0.95)
    assert p_of_passing("fall", found) == pytest.approx(stats.ttest_1samp(differences, 0, alternative="less").pvalue)
    expected = stats.ttest_1samp(differences, 0.2, alternative="less").pvalue
    assert p_of_passing("not rise", found, margin=0.2) == pytest.approx(expected)


# --- agents that collude or copy --------------------------------------------------------------------------------------


def tickets():
    return study(good="good", other="german", third="copy")


def test_collusion_gives_one_text_to_all_on_every_task():
    test = run(["rouge-l"], ["collusion"], study=tickets())
    assert set(test.perturbed["text"]) == {BOILERPLATE}
    # rouge-l compares one copy with another: all are equal, so it rises to its largest value
    assert (test.results[0].rating, test.results[0].mean_after) == ("fail", 1.0)


def test_a_copied_prompt_is_the_prompt_and_missing_without_one():
    test = run(["length"], ["prompt-copy"], study=tickets())
    assert set(test.perturbed.select("task", "text").rows()) == {(f"t{i}", TICKETS[i][0]) for i in range(6)}
    assert one("length", "prompt-copy").not_made == 18


def test_a_near_copy_has_a_peers_words_in_another_order():
    test = run(["length"], ["near-copy"], study=tickets(), agents=["other"], references=["good"])
    for task, text in test.perturbed.select("task", "text").rows():
        assert sorted(text.split()) == sorted(TICKETS[int(task[1:])][1].split())
        assert text != TICKETS[int(task[1:])][1]


def test_translations_and_deceptions_are_asked_of_the_writer_in_our_words():
    writer = ScriptedModel(name="translator", answers=lambda _: "Etwas ganz anderes.")
    run(["length"], ["translation[French]", "translation", "deceptive"], study=tickets(), writer=writer)
    asked = [call.messages[0].content for call in writer.calls]
    assert sum("into French" in said for said in asked) == 18
    assert sum("into German" in said for said in asked) == 18
    assert sum("misleads its reader" in said for said in asked) == 18


# --- who is tested, against whom -----------------------------------------------------------------------------------

AGENTS = ("ann", "bob", "cy", "dan")


FOUR = study_of([(f"t{i}", agent, f"{agent} says {i}.") for i in range(5) for agent in AGENTS])


def crashed(study, seed=0, **options):
    return run(["length"], ["null"], study=study, options={"seed": seed}, **options)


def test_a_draw_depends_on_the_seed_alone():
    tests = [crashed(FOUR, responses=8, seed=seed) for seed in (3, 3, 4)]
    first, again, other = (set(test.perturbed.select("task", "agent").rows()) for test in tests)
    assert len(first) == 8
    assert first == again != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": ["anne"]}, "unknown agent 'anne'. Did you mean 'ann'?"),
        ({"references": ["zed"]}, "unknown agent 'zed'"),
        ({"references": 0}, "references must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        crashed(FOUR, **options)


def test_tasks_with_one_answer_and_agents_called_like_copies_are_refused():
    with pytest.raises(MetricError, match="no response has a peer"):
        crashed(study_of([("t1", "ann", "one"), ("t2", "bob", "two")]))
    with pytest.raises(UserError, match="an agent 'ann~null'"):
        crashed(study_of([(f"t{i}", agent, "text") for i in range(2) for agent in ("ann", "ann~null")]))
