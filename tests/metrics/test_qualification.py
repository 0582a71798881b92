"""Who passes, why, and with what weight."""

from __future__ import annotations

import math

import pytest

from goldless.metrics.exam_traits import Trait
from goldless.metrics.qualification import qualify
from goldless.statistics.bootstrap import Estimate


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


def test_nobody_passing_is_said_with_who_came_nearest():
    """Lacking: ann 0.05 + 0.15, bob 0.35 + 0.05, cy more."""
    found = qualify(THREE, thresholds={"consistency": 0.95, "pertinence": 0.95})
    assert found.passed == ()
    assert found.weights == {}
    assert found.note.startswith("no reviewer passed. Closest: ann (consistency 0.9000 not above 0.9500;")
    assert found.candidates[0].shortfall == pytest.approx(0.2)
    assert found.candidates[0].weight is None


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
