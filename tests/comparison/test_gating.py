"""A gate's verdict as scipy's one-sided tests give it, and what it refuses to decide."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from scipy import stats

import goldless
from goldless.comparison.gating import as_junit, as_markdown
from goldless.errors import UserError
from tests.comparison.comparison_runs import judge, noisy, reviewed, worths, written_run

VERDICTS = {(True, False): "SHIP", (False, True): "BLOCK", (False, False): "INCONCLUSIVE"}


def gate(run, **options):
    return goldless.gate(run, **{"baseline": "old", "candidate": "new", "margin": 0.5, **options})


@pytest.mark.parametrize("shift", [0.6, 0.0, -0.3, -0.5, -0.9, -1.6])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_verdict_is_that_of_two_one_sided_t_tests(tmp_path, shift, alpha):
    """Without skew the interval is about Student's; the seeds are far from a tie."""
    scores = noisy(40, shift, seed=3)
    around = np.array(scores["new"]) - np.array(scores["old"]) - shift
    scores = {"old": [0.0] * 80, "new": [shift + x for gap in around for x in (gap, 2 * around.mean() - gap)]}
    found = gate(written_run(tmp_path / "run", scores, metric="gem-raw"), alpha=alpha)
    gaps = np.array(scores["new"]) - np.array(scores["old"])
    ship = stats.ttest_1samp(gaps, -0.5, alternative="greater").pvalue < alpha
    block = stats.ttest_1samp(gaps, -0.5, alternative="less").pvalue < alpha
    assert found.verdict == VERDICTS[bool(ship), bool(block)]
    low, high = stats.ttest_1samp(gaps, 0).confidence_interval(1 - 2 * alpha)
    assert (found.bounds.low, found.bounds.high) == pytest.approx((low, high), abs=0.04)


def test_rare_large_losses_keep_a_gate_shut(tmp_path):
    gains = [0.1, 0.2, 0.0, 0.1, 0.3, 0.2, 0.1, 0.0, 0.2, 0.1, 0.2, -1.5]
    shut, open_ = (
        gate(written_run(tmp_path / name, {"old": [0.0] * 12, "new": new}), margin=0.4)
        for name, new in (("loss", gains), ("gain", [2 * np.mean(gains) - gain for gain in gains]))
    )
    assert (shut.verdict, open_.verdict) == ("INCONCLUSIVE", "SHIP")


@pytest.mark.nightly
def test_at_the_margin_a_candidate_ships_or_blocks_wrongly_as_rarely_as_alpha_says(tmp_path):
    """A true loss of exactly the margin: SHIP is wrong, and so is BLOCK; alpha each, here 0.1 within 3 sigma."""
    verdicts = []
    for seed in range(80):
        run = written_run(tmp_path / f"run{seed}", noisy(15, -0.5, seed=seed))
        verdicts.append(gate(run, alpha=0.1, resamples=500).verdict)
    limit = stats.binom.ppf(0.9985, 80, 0.1)
    assert verdicts.count("SHIP") <= limit
    assert verdicts.count("BLOCK") <= limit


def test_fewer_than_ten_tasks_decide_nothing_however_clear_they_are(tmp_path):
    run = written_run(tmp_path / "run", {"old": [1.0] * 9, "new": [9.0] * 9})
    found = gate(run)
    assert (found.verdict, found.more_tasks) == ("INCONCLUSIVE", 1)
    assert "9 common tasks with both scores are too few: a gate needs 10" in found.reason


def test_equal_differences_of_limited_scores_leave_room_for_tasks_not_seen(tmp_path):
    """20 ties of win rates: with p = 1 - 0.05^(1/20) = 0.139 of all tasks lost, 20 ties have a chance of 0.05."""
    run = reviewed(tmp_path / "run", judge(), worths(20, old=3, new=3))
    found = gate(run, margin=0.1, uncertified=True)
    assert found.difference.difference.value == 0
    assert (found.bounds.low, found.bounds.high) == pytest.approx((-(1 - 0.05 ** (1 / 20)), 1 - 0.05 ** (1 / 20)))
    assert found.verdict == "INCONCLUSIVE"
    assert gate(run, margin=0.2, uncertified=True).verdict == "SHIP"


def test_a_candidate_does_not_ship_by_leaving_hard_tasks_unanswered(tmp_path):
    scores = noisy(40, 0.5)
    worst = np.argsort(scores["new"])[:8]
    kept = [None if i in worst else score for i, score in enumerate(scores["new"])]
    found = gate(written_run(tmp_path / "run", {"old": scores["old"], "new": kept}))
    assert found.verdict == "INCONCLUSIVE"
    assert "the candidate has no score on 8 of 40 tasks" in found.reason
    without = {"old": [score for i, score in enumerate(scores["old"]) if i not in worst]}
    without["new"] = [score for score in kept if score is not None]
    assert gate(written_run(tmp_path / "other", without)).verdict == "SHIP"


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"baseline": None}, "--baseline is missing: name the agent that the candidate is to replace"),
        ({"candidate": None}, "--candidate is missing: name one of new, third"),
        ({"baseline": "olt"}, "run has no agent 'olt'. Did you mean 'old'? Agents: old, new, third"),
        ({"candidate": "newt"}, "run has no agent 'newt'. Did you mean 'new'?"),
        ({"candidate": "old"}, "--candidate must differ from --baseline, got 'old' for both"),
        ({"margin": None}, "--margin is missing: how much worse may the candidate be?"),
        ({"margin": -1}, "margin must be a number of at least 0 in the metric's unit"),
        ({"margin": "-0.2sd"}, "margin must be a number of at least 0"),
        ({"margin": "much"}, "got 'much'"),
        ({"margin": "1.2.3"}, "got '1.2.3'"),
        ({"margin": float("inf")}, "got inf"),
        ({"alpha": 0}, "alpha must be between 0 and 0.5, got 0"),
        ({"alpha": 1}, "alpha must be between 0 and 0.5, got 1"),
        ({"metric": "gem"}, "run has no metric 'gem'"),
        ({"aa": 10}, "--aa asks a judge again, but rouge-l is not computed from verdicts"),
        ({"aa": 10, "second_runs": "run"}, "--aa and --second-run exclude each other"),
        ({"second_runs": ("a", "b")}, "--second-run must be given once per run folder, got 2 for 1"),
    ],
)
def test_a_gate_that_cannot_be_is_refused_in_one_clear_message(tmp_path, options, said):
    run = written_run(tmp_path / "run", noisy(12, 0) | {"third": [1.0] * 12})
    with pytest.raises(UserError, match=re.escape(said)):
        gate(run, **options)


def test_a_gate_decides_by_one_metric_and_length_is_none_beside_another(tmp_path):
    rows = [{"task": f"t{i}", "agent": a, "text": f"{a} {i}"} for i in range(3) for a in ("old", "new")]
    result = goldless.evaluate(pl.DataFrame(rows), metrics=["length", "rouge-l", "rouge-1"], resamples=200)
    run = goldless.save_run(result, tmp_path / "run")
    with pytest.raises(UserError, match=re.escape("one metric. Name it with --metric: rouge-l, rouge-1")):
        gate(run)
    result = goldless.evaluate(pl.DataFrame(rows), metrics=["length", "rouge-l"], resamples=200)
    assert gate(goldless.save_run(result, tmp_path / "two")).metric == "rouge-l"


# --- for people and servers ------------------------------------------------------------------------------------------


def test_markdown_says_verdict_numbers_and_certificate_and_escapes_what_agents_say(tmp_path):
    hostile = "<img src=x> | @maintainer [click](http://x) `"
    run = written_run(tmp_path / "run", noisy(40, -3), texts={"new": hostile})
    text = as_markdown(gate(run))
    assert text.startswith("### ⛔ BLOCK: new in place of old\n")
    for words in (
        "A/A certificate: **not needed**; ",
        "no loss of more than 0.5 (points); 40 common tasks",
        "t",
        "rouge-l",
    ):
        assert words in text
    assert "<img" not in text
    assert "@maintainer" not in text  # nobody is notified by a response
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows[:3]}) == 1


@pytest.mark.parametrize(("shift", "kinds"), [(3, []), (-3, ["failure"]), (-0.5, ["error"])])
def test_junit_has_a_failure_for_block_and_an_error_for_inconclusive(tmp_path, shift, kinds):
    run = written_run(tmp_path / "run", noisy(40, shift), texts={"new": "nul \x00 and \x1b"})
    suite = ET.fromstring(as_junit(gate(run))).find("testsuite")
    candidate, judge = suite.findall("testcase")
    assert [child.tag for child in candidate] == kinds
    assert candidate.get("name") == "new is not worse than old by rouge-l"
    assert [child.tag for child in judge] == ["skipped"]
    counted = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": 2, "failures": kinds.count("failure"), "errors": kinds.count("error"), "skipped": 1}
