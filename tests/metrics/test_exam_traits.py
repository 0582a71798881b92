"""Traits of reviewers, counted by hand; who passes, why, and with what weight."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from goldless.metrics.exam_traits import (
    Trait,
    confidence_level,
    consistency,
    pertinence,
    self_confidence,
)
from goldless.metrics.qualification import qualify
from goldless.statistics.bootstrap import Estimate
from tests.support.evidence_frames import pair_judgements_from_columns


def both_orders(values, first="ann", second="bob", **names):
    """One pair on each task in both orders, (how far ``first`` is better shown first, how far ``second`` is)."""
    rows = []
    for t, (forward, backward) in enumerate(values):
        rows += [(f"t{t}", first, second, forward), (f"t{t}", second, first, backward)]
    task, one, other, value = zip(*rows, strict=True)
    return pair_judgements_from_columns(["r"] * len(rows), task, one, other, value, **names)


SWAPPED = [(1, 0), (0, 1), (1, 1), (0.5, 0.5), (0.5, 1), (1, None)]
"""Same, same, not, both tied, tied once, missing once."""


def test_levels_of_easy_and_hard_items_are_summarised_as_in_auto_pre():
    """Its table 11, null_GPT-3.5-turbo on 200 items each: 4.0500 ± 0.2179 and 3.9600 ± 0.2417.

    The only counts of levels around 4 with these figures: 10 of 5 on easy items; 10 of 3 and 2 of 5 on hard ones.
    """
    easy = [(f"e{i}", confidence_level("expert" if i < 10 else "high")) for i in range(200)]
    hard = [(f"h{i}", confidence_level("medium" if i < 10 else "expert" if i < 12 else "high")) for i in range(200)]
    found = self_confidence(easy, hard, higher_is="surer", resamples=200)
    shown = [f"{one.mean:.4f} ± {one.sd:.4f}" for one in (found.easy, found.hard)]
    assert shown == ["4.0500 ± 0.2179", "3.9600 ± 0.2417"]
    assert [(one.unit, one.n, one.median) for one in (found.easy, found.hard)] == [("levels", 200, 4)] * 2


def test_consistency_is_the_share_of_pairs_judged_the_same_way_in_both_orders():
    found = consistency(both_orders(SWAPPED))["r"]
    assert found.value == pytest.approx(3 / 5)
    assert (found.asked, found.estimate.n, found.estimate.n_tasks) == (6, 5, 5)
    assert found.estimate.low < found.value < found.estimate.high


def test_ties_and_missing_orders_count_half_in_the_papers_consistency():
    found = consistency(both_orders(SWAPPED), convention="paper")["r"]
    assert found.value == pytest.approx((1 + 1 + 0 + 0.5 + 0.5 + 0.5) / 6)
    assert (found.asked, found.estimate.n) == (6, 6)


@pytest.mark.parametrize("names", [("relevant", "irrelevant"), ("irrelevant", "relevant")])
def test_pertinence_is_the_share_of_comparisons_that_prefer_the_relevant_answer(names):
    """3 of 4 with an answer; whichever side comes first in the table."""
    if names[0] == "relevant":
        exam = both_orders([(1, 0), (1, 1), (None, None)], *names)
    else:
        exam = both_orders([(0, 1), (1, 1), (None, None)], *names)
    found = pertinence(exam)["r"]
    assert (found.value, found.asked, found.estimate.n) == (0.75, 6, 4)
    paper = pertinence(exam, convention="paper")["r"]
    assert (paper.value, paper.estimate.n) == (pytest.approx((3 + 0.5 * 2) / 6), 6)


def test_a_reviewer_surer_of_easy_pairs_is_self_confident():
    easy = [("t", -math.log(0.9)), ("u", -math.log(0.8)), ("v", None)]
    hard = [("t", -math.log(0.6)), ("u", -math.log(0.55))]
    found = self_confidence(easy, hard, higher_is="less sure")
    gap = -(math.log(0.6) + math.log(0.55)) / 2 + (math.log(0.9) + math.log(0.8)) / 2
    assert (found.value, found.difference) == (1, pytest.approx(gap))
    assert (found.asked, found.estimate.n, found.estimate.n_tasks) == (5, 4, 2)
    assert self_confidence(hard, easy, higher_is="less sure").value == 0
    assert self_confidence(easy, easy, higher_is="less sure").value == 0


def test_both_sets_of_confidence_labels_run_from_one_to_five():
    said = ["null", "low", "medium", "high", "Expert.", "doubtful", "uncertain", "moderate", "confident", "absolute"]
    assert [confidence_level(label) for label in said] == [1, 2, 3, 4, 5] * 2
    assert confidence_level("quite") is None


def test_published_levels_pass_and_fail_as_published():
    """Auto-PRE, table 11: ChatGLM-Pro 3.9738 > 3.8883 passes, ChatGLM3-6B 3.9206 < 4.0964 does not."""
    assert self_confidence([("a", 3.9738)], [("b", 3.8883)], higher_is="surer").value == 1
    assert self_confidence([("a", 3.9206)], [("b", 4.0964)], higher_is="surer").value == 0


def test_the_interval_of_separate_items_is_near_welchs():
    random = np.random.default_rng(0)
    easy, hard = random.normal(1.0, 0.4, 80), random.normal(1.3, 0.7, 90)
    found = self_confidence(
        [(f"e{i}", value) for i, value in enumerate(easy)],
        [(f"h{i}", value) for i, value in enumerate(hard)],
        higher_is="less sure",
    )
    welch = ttest_ind(hard, easy, equal_var=False).confidence_interval(0.95)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((welch.low, welch.high), abs=0.02)


# --- who passes, and with what weight --------------------------------------------------------------------------------


def traits(**values):
    """Reviewer → (consistency, pertinence)."""
    return {
        name: {"consistency": Trait(Estimate(pc)), "pertinence": Trait(Estimate(pp))}
        for name, (pc, pp) in values.items()
    }


THREE = traits(ann=(0.9, 0.8), bob=(0.6, 0.9), cy=(0.3, 0.4))
"""Mean consistency 0.6, mean pertinence 0.7."""


def test_the_mean_over_candidates_must_be_exceeded_in_every_trait():
    found = qualify(THREE, thresholds={"consistency": "mean", "pertinence": "mean"})
    assert found.passed == ("ann",)
    assert found.weights == {"ann": 1.0}
    assert found.thresholds == pytest.approx({"consistency": 0.6, "pertinence": 0.7})
    assert [one.why for one in found.candidates] == [  # a passed trait is no reason to fail
        "consistency 0.9000 above 0.6000; pertinence 0.8000 above 0.7000",
        "consistency 0.6000 not above 0.6000",
        "consistency 0.3000 not above 0.6000; pertinence 0.4000 not above 0.7000",
    ]
    assert found.note is None


def test_weights_come_from_traits_as_asked():
    both = {"consistency": 0.5, "pertinence": 0.5}
    found = qualify(THREE, thresholds=both, weighting="mean of traits")
    assert found.weights == pytest.approx({"ann": 0.85, "bob": 0.75})
    found = qualify(THREE, thresholds=both, weighting="trait", weight_from="pertinence")
    assert found.weights == {"ann": 0.8, "bob": 0.9}
    found = qualify(THREE, thresholds={"consistency": 0.5}, weighting="logit")
    assert found.weights == pytest.approx({"ann": math.log(9), "bob": math.log(1.5)})


def test_a_trait_that_was_not_measured_is_not_passed():
    found = qualify(traits(ann=(0.9, None), bob=(0.8, 0.9)), thresholds={"pertinence": "mean", "consistency": 0.5})
    assert found.passed == ("bob",)  # alone it has no mean to be above: its limit is 0.55
    assert found.thresholds["pertinence"] == 0.55
    assert found.candidates[0].why.startswith("pertinence not measured")
    found = qualify(traits(ann=(0.9, None), bob=(0.8, 0.9)), thresholds={"pertinence": 0.5})
    assert found.passed == ("bob",)


def test_candidates_that_are_all_alike_are_held_against_a_fixed_limit():
    good = qualify(traits(ann=(1.0, 0.9), bob=(1.0, 0.9)), thresholds={"consistency": "mean"})
    assert good.passed == ("ann", "bob")
    bad = qualify(traits(ann=(0.0, 0.9), bob=(0.0, 0.9)), thresholds={"consistency": "mean"})
    assert bad.passed == ()
