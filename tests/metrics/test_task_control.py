"""Task control on evidence and studies made by hand: what two agents share on other tasks is taken off.

The toy scorer knows a word or does not: a word of the target that the context has is worth ln 4 nats. So pointwise
mutual information is ln 4 for every shared word, and expected values are counts of shared words, done by hand.
"""

from __future__ import annotations

import math

import polars as pl
import pytest

import goldless
from goldless.errors import MetricError
from goldless.evidence import CONTROL
from goldless.metrics.likelihood import GEM, GEM_BOTH, RELATIVES, pair_scores
from goldless.models.local_engine import build_tree, computed_tokens
from goldless.records import CallFailure
from tests.support.evidence_frames import Logprob, PairScore, logprobs_frame, pair_rows
from tests.support.study_files import ByteScorer, response_rows

WORD = math.log(4)
WORDS = ("zarn", "bluk", "vond", "rask")
TOY = {
    "t1": {"ann": "zarn bluk motto", "bob": "zarn motto", "cy": "quex"},
    "t2": {"ann": "vond rask motto", "bob": "rask vond motto", "cy": "quex"},
    "t3": {"ann": "lirp motto", "bob": "hoft motto", "cy": "quex zarn"},
}
# Shared words with the peer's response to the task, less the mean over its responses to the two other tasks.
# ann: bob 2 - 1, 3 - 1, 1 - 1; cy 0 - 1/2, 0 - 0, 0 - 0. bob: the same. cy: ann and bob 0 - 0, 0 - 0, 0 - 1/2.
EXPECTED = {
    "ann": {"t1": 0.25, "t2": 1.0, "t3": 0.0},
    "bob": {"t1": 0.25, "t2": 1.0, "t3": 0.0},
    "cy": {"t1": 0.0, "t2": 0.0, "t3": -0.5},
}


def frame(texts, prompts=None):
    return pl.DataFrame([row | ({"prompt": prompts[row["task"]]} if prompts else {}) for row in response_rows(texts)])


def in_words(result, metric="gem-raw+control"):
    """Response scores by agent and task, in words of ln 4 nats."""
    found: dict[str, dict[str, float]] = {}
    for row in result.outcomes[metric].responses.iter_rows(named=True):
        found.setdefault(row["agent"], {})[row["task"]] = row["score"] / WORD
    return found


def close(expected):
    return {agent: pytest.approx(by, abs=1e-12) for agent, by in expected.items()}


def evaluate(texts, scorer, metrics="gem-raw+control", prompts=None, **options):
    options = {"over_peers": "own", "resamples": 200, **options}
    return goldless.evaluate(frame(texts, prompts), metrics=metrics, scorer=scorer, **options)


# --- values ----------------------------------------------------------------------------------------------------------


def test_the_controlled_score_is_shared_words_less_those_shared_on_other_tasks(toy_scorer):
    result = evaluate(TOY, toy_scorer())
    assert in_words(result) == close(EXPECTED)
    assert "|control:other-tasks-2|" in result.leaderboard().signature


def test_one_text_on_every_task_scores_zero_and_so_does_every_peer_against_it(toy_scorer):
    same = {
        t: {"good": f"{w} {w}ta", "fine": f"{w}ta", "null": "quex lume"} for t, w in zip("abcd", WORDS, strict=True)
    }
    found = in_words(evaluate(same, toy_scorer()))
    assert found["null"] == pytest.approx(dict.fromkeys("abcd", 0.0))
    # half of: "wta" is shared with fine on the task and nowhere else; null gives nothing
    assert found["good"] == pytest.approx(dict.fromkeys("abcd", 0.5))


def test_dressing_every_response_alike_changes_nothing(toy_scorer):
    dressed = {t: {a: f"gruss {text} servus" for a, text in by.items()} for t, by in TOY.items()}
    assert in_words(evaluate(dressed, toy_scorer())) == close(EXPECTED)


def test_given_the_prompt_what_copies_it_is_worth_nothing(toy_scorer):
    """Marginals and other tasks' responses are under this task's prompt: its words are known without the response.

    good and fine share "wta", which no prompt has; copycat adds no word to the prompt.
    """
    prompts = {t: f"{w} hoft" for t, w in zip("abcd", WORDS, strict=True)}
    texts = {
        t: {"good": f"{w} hoft {w}ta", "fine": f"{w} {w}ta", "copycat": prompts[t]}
        for t, w in zip("abcd", WORDS, strict=True)
    }
    beyond = ["gem-s[prompt]+control", "gem-s[prompt]+control+both"]
    result = evaluate(texts, toy_scorer(), ["gem-raw+control", *beyond], prompts)
    for metric in beyond:
        found = in_words(result, metric)
        assert found["copycat"] == pytest.approx(dict.fromkeys("abcd", 0.0))
        assert found["good"] == pytest.approx(dict.fromkeys("abcd", 0.5))
    # without the prompt: "w" with both, "hoft" is in good's and copycat's on every task, and cancels
    assert in_words(result)["copycat"] == pytest.approx(dict.fromkeys("abcd", 1.0))


def test_any_text_column_of_the_tasks_is_a_synopsis(toy_scorer, tmp_path):
    (tmp_path / "study").mkdir()
    frame(TOY).write_ndjson(tmp_path / "study" / "responses.jsonl")
    pl.DataFrame([{"task": t, "hint": "zarn bluk"} for t in TOY]).write_ndjson(tmp_path / "study" / "tasks.jsonl")
    with pytest.warns(UserWarning, match="no rewriter"):
        result = goldless.evaluate(tmp_path / "study", metrics="gem-s[hint]", scorer=toy_scorer(), resamples=200)
    # ann and bob on t1: "zarn" is known from the hint, "motto" is left; nothing is shared with cy
    assert in_words(result, "gem-s[hint]")["ann"]["t1"] == pytest.approx(0.5)


# --- arithmetic on rows ------------------------------------------------------------------------------------------


def control_frame(rows):
    """Rows (task, target, given, target_task, sum or failure), ten tokens each."""
    cells = []
    for task, target, given, other, value in rows:
        failed = isinstance(value, CallFailure)
        total = None if failed else value
        named = {"scorer": "s", "template": "general", "task": task, "target": target, "given": given}
        numbers = {"sum_logprob_nats": total, "mean_token_logprob_nats": None if failed else total / 10, "tokens": 10}
        cells.append({**named, **numbers, "target_task": other, "failure": value.kind if failed else None})
    return pl.DataFrame(cells, schema=CONTROL)


MATCHED = [
    *(Logprob("a", None, None, t, s, s / 10) for t, s in (("t", -40.0), ("u", -30.0), ("v", -20.0))),
    *(Logprob("b", None, None, t, s, s / 10) for t, s in (("t", -50.0), ("u", -60.0), ("v", -70.0))),
    Logprob("b", "a", None, "t", -35.0, -3.5),
    Logprob("a", "b", None, "t", -31.0, -3.1),
]
ELSEWHERE = [
    ("t", "b", "a", "u", -58.0),
    ("t", "b", "a", "v", -64.0),
    ("t", "a", "b", "u", -29.0),
    ("t", "a", "b", "v", -21.0),
]


def rows(metric=GEM, elsewhere=ELSEWHERE):
    return pair_rows(pair_scores(logprobs_frame(MATCHED), metric, control_frame(elsewhere)))


def test_gem_with_control_by_hand():
    """b given a: 15, less the mean of 2 and 6. a given b: 9, less the mean of 1 and -1."""
    assert rows() == [PairScore("t", "a", "b", 11.0), PairScore("t", "b", "a", 9.0)]


def test_mi_with_control_takes_off_both_directions():
    """Per token: the mean of 1.1 and .9."""
    assert [row.score for row in rows(RELATIVES["mi"])] == pytest.approx([1.0, 1.0])


def test_both_directions_are_the_mean_of_each_with_its_control():
    """The mean of 11 and 9, for either of the two."""
    assert [row.score for row in rows(GEM_BOTH)] == [10.0, 10.0]
    lost = [("t", "b", "a", "u", CallFailure("timeout", "late")), *ELSEWHERE[2:]]
    assert [row.missing for row in rows(GEM_BOTH, lost)] == ["timeout", "timeout"]


def test_where_no_other_task_is_left_the_pair_is_missing_with_its_cause():
    late = CallFailure("timeout", "late")
    lost = [("t", "b", "a", "u", late), ("t", "b", "a", "v", late), *ELSEWHERE[2:]]
    assert rows(elsewhere=lost)[0] == PairScore("t", "a", "b", None, "timeout")
    assert rows(elsewhere=ELSEWHERE[2:])[0] == PairScore("t", "a", "b", None, "no_control")


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_folder_gives_the_same_scores_again_without_a_model(toy_scorer, tmp_path):
    prompts = {t: f"what of {t}" for t in TOY}
    metrics = ["gem-raw+control", "gem-s[prompt]+control", "gem-s[prompt]+control+both", "mi+control"]
    first = evaluate(TOY, toy_scorer(), metrics, prompts)
    goldless.save_run(first, tmp_path / "run")
    again = goldless.evaluate(tmp_path / "run", metrics=metrics, recorded=True, over_peers="own", resamples=200)
    for metric in metrics:
        assert in_words(again, metric) == close(in_words(first, metric))
    assert "|control-evidence:recorded-" in again.leaderboard(metrics[0]).signature


def test_recorded_evidence_without_other_tasks_is_an_error_that_says_so(toy_scorer, tmp_path):
    goldless.save_run(evaluate(TOY, toy_scorer(), "gem-raw"), tmp_path / "run")
    with pytest.raises(MetricError, match=r"control_logprobs.*Leave --recorded out.*use gem-raw"):
        goldless.evaluate(tmp_path / "run", metrics="gem-raw+control", recorded=True)


def test_two_tasks_allow_one_other_task_and_one_task_none(toy_scorer):
    two = {task: TOY[task] for task in ("t1", "t2")}
    with pytest.warns(UserWarning, match="no response has more than 1 other task, so 1 is used"):
        result = evaluate(two, toy_scorer())
    assert "|control:other-tasks-1|" in result.leaderboard().signature
    # 2 - 1 and 3 - 1 words shared with bob, none with cy
    assert in_words(result)["ann"] == pytest.approx({"t1": 0.5, "t2": 1.0})
    with pytest.raises(MetricError, match=r"needs at least 2 tasks.*got 1.*Try gem-raw"):
        evaluate({"t1": TOY["t1"]}, toy_scorer())


def test_the_draw_is_the_seeds_and_each_other_task_is_met_equally_often(toy_scorer):
    texts = {f"t{i}": {"ann": f"w{i} x{i}", "bob": f"w{i}"} for i in range(6)}

    def drawn(seed):
        rows = evaluate(texts, toy_scorer(), seed=seed).evidence.control
        return sorted(rows.select("task", "target", "target_task").iter_rows())

    assert drawn(1) == drawn(1) != drawn(2)
    met = [(target, other) for _, target, other in drawn(1)]
    assert {met.count(pair) for pair in met} == {2}
    assert all(task != other for task, _, other in drawn(1))


def test_each_agent_has_a_draw_of_other_tasks_of_its_own(toy_scorer):
    texts = {f"t{i}": {"ann": f"w{i} x{i}", "bob": f"w{i}"} for i in range(6)}
    rows = evaluate(texts, toy_scorer()).evidence.control
    drawn = {agent: set(rows.filter(target=agent)["task", "target_task"].iter_rows()) for agent in ("ann", "bob")}
    assert len(drawn["ann"]) == len(drawn["bob"]) == 12
    assert drawn["ann"] != drawn["bob"]


def test_both_directions_ask_nothing_more_and_say_how_they_are_written(toy_scorer):
    alone = evaluate(TOY, toy_scorer())
    again = toy_scorer()
    both = evaluate(TOY, again, "gem-raw+control+both")
    assert not again.calls  # all replies are in the journal
    # ann and bob share 3 words, and 1 with each other's other responses, in either direction
    assert in_words(both, "gem-raw+control+both")["ann"]["t2"] == in_words(alone)["ann"]["t2"] == pytest.approx(1.0)
    for wrong in ("gem-raw+both+control", "gem-raw+control+both+control", "gem-raw+control+control"):
        with pytest.raises(MetricError, match=r"must come once, before \+both.*Try gem-raw\+control"):
            evaluate(TOY, toy_scorer(), wrong)
    for wrong in ("mi+both", "tvd-mi+both", "gem-raw+both+both"):
        with pytest.raises(MetricError, match=r"is for gem-raw, gem and gem-s"):
            evaluate(TOY, toy_scorer(), wrong)


LONG = {
    f"t{i}": {a: f"{a} says of {i} " + " ".join(f"{a}{i}word{j}" for j in range(20)) for a in ("ann", "bob")}
    for i in range(4)
}


def test_a_plan_prices_control_and_its_targets_stand_under_the_same_beginning():
    """Beside gem-raw: for each of 2 pairs on 4 tasks two targets more, and not one context more."""
    plans = {
        m: goldless.plan(frame(LONG), metrics=m, scorer=ByteScorer()).together[0]
        for m in ("gem-raw", "gem-raw+control")
    }
    scorer = ByteScorer()
    evaluate(LONG, scorer)
    batches = [[r for r in batch if b"word1" in bytes(r.target)] for batch in scorer.batches]
    asked = [request for batch in batches for request in batch]
    targets = {a: sum(len(by[a]) for by in LONG.values()) for a in ("ann", "bob")}
    assert plans["gem-raw+control"].calls == len(asked) == plans["gem-raw"].calls + 16
    computed = sum(computed_tokens(build_tree([r.context + r.target for r in batch])) for batch in batches if batch)
    assert plans["gem-raw+control"].computed_tokens == computed
    more = computed - (plans["gem-raw"].computed_tokens or 0)
    assert 0 < more <= 2 * sum(targets.values())
