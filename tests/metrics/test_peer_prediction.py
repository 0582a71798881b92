"""peer-prediction, held against the formula of arXiv 2601.20299 written out anew in plain Python."""

from __future__ import annotations

import itertools
import math
import re
from statistics import fmean

import polars as pl
import pytest

import goldless
from goldless.errors import MetricError, UserError
from goldless.models.scripted import ScriptedModel
from goldless.runs.replay import replay
from goldless.runs.store import save_run
from goldless.templates import GENERAL
from tests.support.evidence_frames import scores as agent_scores

TASKS = {"t1": "Name a zarn.", "t2": "Name a bluk.", "t3": "Name a mipo.", "t4": "Name a tolu."}
FIRST = {
    "ann": ["zarn red", "bluk green", "mipo blue", "tolu red blue"],
    "bob": ["a red zarn it is", "green", "a blue mipo", "red"],
    "cy": ["quex", "quex green", "quex", "a quex"],
}
SECOND = {
    "ann": ["red zarn", "green bluk", "blue", "blue red"],
    "bob": ["red", "a green bluk", "mipo blue", "the tolu is red"],
    "cy": ["quex a", "a quex", "quex the", "quex"],
}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def unigram(context: str, target: str, prior: float = 1.0) -> list[float]:
    """A juror that expects the words it has seen, in any order."""
    seen = words(context)
    return [math.log((seen.count(word) + prior) / (len(seen) + 100 * prior)) for word in words(target)]


def firm(context: str, target: str) -> list[float]:
    return unigram(context, target, prior=5.0)


def study(*samples: dict[str, list[str]]) -> list[dict]:
    rows = [
        {"task": task, "prompt": prompt, "agent": agent, "text": texts[place], "sample": number}
        for number, answers in enumerate(samples, 1)
        for agent, texts in answers.items()
        for place, (task, prompt) in enumerate(TASKS.items())
    ]
    return [{k: v for k, v in row.items() if k != "sample"} for row in rows] if len(samples) == 1 else rows


def evaluate(rows, tmp_path, scorers=(unigram,), metric="peer-prediction", **options):
    models = [ScriptedModel(logprobs=script, name=script.__name__) for script in scorers]
    asked = {"scorer": models[0]} if len(models) == 1 else {"juror": models}
    options = {"over_peers": "own", "resamples": 100, "journal": tmp_path / "journal", **options}
    result = goldless.evaluate(rows, metrics=metric, **asked, **options)
    return result, models


def scores(result) -> dict[tuple[str, str], float]:
    return {(row["task"], row["agent"]): row["score"] for row in result.to_polars().iter_rows(named=True)}


# --- the formula, anew -------------------------------------------------------------------------------------------


def turn(prompt: str, informant: str | None) -> str:
    return f"[Synopsis of the task]\n\n{prompt}\n\n[Answer of the first person]\n\n{informant or 'Not available'}"


def value(place: int, informant: list[str] | None, first: list[str], second: list[str], script) -> float:
    """log p of the defendant's second answer after worked examples on all other tasks, with the informant or not."""
    prompts = list(TASKS.values())
    told = [GENERAL.predict]
    for other in range(len(prompts)):
        if other != place:
            told += [turn(prompts[other], informant and informant[other]), first[other]]
    told.append(turn(prompts[place], informant and informant[place]))
    return sum(script("\n\n".join(told), second[place]))


def expected(first, second, script, *, own: bool = False, left_out: tuple[str, ...] = ()) -> dict:
    found = {}
    for (place, task), informant in itertools.product(enumerate(TASKS), first):
        defendants = [d for d in second if d not in left_out and (own or d != informant)]
        found[task, informant] = fmean(
            value(place, first[informant], first[d], second[d], script)
            - value(place, None, first[d], second[d], script)
            for d in defendants
        )
    return found


# --- tests -------------------------------------------------------------------------------------------------------


def test_with_two_samples_the_first_informs_and_the_second_is_predicted(tmp_path):
    result, _ = evaluate(study(FIRST, SECOND), tmp_path)
    assert scores(result) == pytest.approx(expected(FIRST, SECOND, unigram), abs=1e-9)
    board = result.leaderboard()
    assert board.unit == "nats"
    assert "predicted:second-sample" in str(board.signature)


def test_an_agent_is_its_own_defendant_where_own_samples_are_asked_for(tmp_path):
    result, _ = evaluate(study(FIRST, SECOND), tmp_path, own_samples=True)
    assert scores(result) == pytest.approx(expected(FIRST, SECOND, unigram, own=True), abs=1e-9)


def test_with_one_sample_the_same_response_informs_and_is_predicted_and_that_is_said(tmp_path):
    result, _ = evaluate(study(FIRST), tmp_path)
    assert scores(result) == pytest.approx(expected(FIRST, FIRST, unigram), abs=1e-9)
    assert "predicted:only-sample" in str(result.leaderboard().signature)


def test_without_examples_it_is_gem_s_of_the_prompt(tmp_path):
    result, _ = evaluate(study(FIRST), tmp_path, metric="peer-prediction[examples=0]")
    with pytest.warns(UserWarning, match="no rewriter"):
        gem, _ = evaluate(study(FIRST), tmp_path, metric="gem-s[prompt]")
    assert scores(result) == pytest.approx(scores(gem), abs=1e-9)


def test_beside_another_metric_each_has_its_own_evidence(tmp_path):
    with pytest.warns(UserWarning, match="no rewriter"):
        both, _ = evaluate(study(FIRST, SECOND), tmp_path, metric="peer-prediction,gem-s[prompt]")
    with pytest.warns(UserWarning, match="no rewriter"):
        alone, _ = evaluate(study(FIRST, SECOND), tmp_path, metric="gem-s[prompt]")
    assert agent_scores(both, "gem-s[prompt]") == pytest.approx(agent_scores(alone))
    wanted = expected(FIRST, SECOND, unigram)
    assert agent_scores(both, "peer-prediction") == pytest.approx(
        {a: fmean(wanted[t, a] for t in TASKS) for a in FIRST}
    )


def test_several_jurors_are_averaged_and_none_predicts_its_own_family(tmp_path):
    result, models = evaluate(
        study(FIRST, SECOND), tmp_path, scorers=(unigram, firm), juror_families={"scripted:firm": "cy"}
    )
    by_pair = {}
    for script, left_out in ((unigram, ()), (firm, ("cy",))):
        for (place, task), i, d in itertools.product(enumerate(TASKS), FIRST, SECOND):
            if i != d and d not in left_out:
                known = [value(place, given, FIRST[d], SECOND[d], script) for given in (FIRST[i], None)]
                by_pair.setdefault((task, i, d), []).append(known[0] - known[1])
    wanted = {
        (task, i): fmean(fmean(by_pair[task, i, d]) for d in SECOND if d != i)
        for task, i in itertools.product(TASKS, FIRST)
    }
    assert scores(result) == pytest.approx(wanted, abs=1e-9)
    asked = {str(call.target) for call in models[1].calls}
    assert not asked & {*SECOND["cy"]} - {*SECOND["ann"], *SECOND["bob"]}
    assert "scorer:scripted:unigram+scripted:firm" in str(result.leaderboard().signature)


def test_examples_are_of_the_same_kind(tmp_path):
    kinds = {"t1": "colour", "t2": "shape", "t3": "colour", "t4": "shape"}
    pl.DataFrame([{"task": t, "prompt": p, "kind": kinds[t]} for t, p in TASKS.items()]).write_csv(
        tmp_path / "tasks.csv"
    )
    pl.DataFrame(study(FIRST, SECOND)).drop("prompt").write_csv(tmp_path / "responses.csv")
    _, (model,) = evaluate(tmp_path, tmp_path, metric="peer-prediction[kind]")
    about = [str(call.context) for call in model.calls if "Name a" in str(call.context)]
    assert about
    for context in about:
        shown = set(re.findall(r"Name a (\w+)", context))
        assert shown in ({"zarn", "mipo"}, {"bluk", "tolu"})


def test_recorded_evidence_gives_the_same_scores_without_a_model(tmp_path):
    result, _ = evaluate(study(FIRST, SECOND), tmp_path, scorers=(unigram, firm))
    save_run(result, tmp_path / "run")
    again = goldless.evaluate(
        tmp_path / "run", metrics="peer-prediction", recorded=True, over_peers="own", resamples=100
    )
    assert scores(again) == pytest.approx(scores(result))
    one = goldless.evaluate(
        tmp_path / "run",
        metrics="peer-prediction[juror=scripted:firm]",
        recorded=True,
        over_peers="own",
        resamples=100,
    )
    assert scores(one) == pytest.approx(expected(FIRST, SECOND, firm), abs=1e-9)
    with pytest.raises(MetricError, match=r"no log-probabilities of a juror 'nobody'"):
        goldless.evaluate(tmp_path / "run", metrics="peer-prediction[juror=nobody]", recorded=True)
    with pytest.raises(MetricError, match="gem-raw"):
        goldless.evaluate(tmp_path / "run", metrics="gem-raw", recorded=True)


@pytest.mark.anyio
async def test_a_run_with_a_juror_of_a_family_is_replayed_with_that_family(tmp_path):
    families = {"scripted:firm": "cy"}
    result, _ = evaluate(study(FIRST, SECOND), tmp_path, scorers=(unigram, firm), juror_families=families)
    save_run(result, tmp_path / "run")
    assert (await replay(tmp_path / "run")).outcome == "equal"


def test_the_plan_forecasts_the_calls_of_each_juror(tmp_path):
    models = [ScriptedModel(logprobs=script, name=script.__name__) for script in (unigram, firm)]
    rows, options = study(FIRST, SECOND), {"juror_families": {"scripted:firm": "cy"}}
    plan = goldless.plan(rows, metrics="peer-prediction", juror=models, journal=tmp_path / "j", **options)
    calls = {row.part: row.calls for row in plan.together}
    # on each of 4 tasks: a marginal for each defendant, and two informants for each
    assert calls == {"juror 1": 4 * (3 + 6), "juror 2": 4 * (2 + 4)}


def test_what_cannot_be_done_is_said_before_a_call(tmp_path):
    with pytest.raises(UserError, match=r"no juror 'scripted:firn'.*firm"):
        evaluate(study(FIRST), tmp_path, scorers=(unigram, firm), juror_families={"scripted:firn": "cy"})
    with pytest.raises(UserError, match="different models"):
        evaluate(study(FIRST), tmp_path, scorers=(firm, firm))
    with pytest.raises(MetricError, match="t1, t2, t3, t4 have none"):
        evaluate(study(FIRST), tmp_path, metric="peer-prediction[kind]")
    without = [{k: v for k, v in row.items() if k != "prompt"} for row in study(FIRST)]
    with pytest.raises(MetricError, match="no task has a synopsis 'prompt'"):
        evaluate(without, tmp_path)
