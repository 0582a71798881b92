"""Qualification: which reviewers' traits pass the thresholds, and the weight of each vote.

A reviewer passes a trait if its value is above the threshold: a fixed number (PRE: 0.6 of the human exam, or 0.55
consistency), or the mean over the candidates (Auto-PRE). Weights are equal, the exam's value itself, the mean of the
traits (Auto-PRE), or log(p / (1 - p)) of a trait (PRE).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from goldless.errors import MetricError, check_known
from goldless.metrics.exam_traits import Trait

Threshold = float | Literal["mean"] | None
"""A number the trait must exceed, ``mean`` over the candidates, or None: the trait is only shown."""
Combination = Literal["all", "any"]
Weighting = Literal["equal", "mean of traits", "trait", "logit"]
NO_MEAN = 0.55
"""The threshold (PRE's for consistency) where the mean cannot decide: one candidate, or all with equal values."""
ALIKE = 1e-9
ONLY_AN_EXAM = frozenset({"peers"})
"""Traits that decide who votes, but no vote's weight."""
CLIPPED = 0.01
"""Shares are clipped this far from 0 and 1 before the logit, so that no vote has infinite weight."""


@dataclass(frozen=True)
class Candidate:
    """A reviewer after the exams."""

    reviewer: str
    traits: Mapping[str, Trait]
    passed: bool
    why: str
    """The reason, in words."""
    weight: float | None
    """The weight of its vote; None: it has no vote."""
    shortfall: float
    """The sum of its distances from the thresholds it failed; 0 if it passed."""


@dataclass(frozen=True)
class Qualification:
    """All candidates, and how the panel was chosen."""

    candidates: tuple[Candidate, ...]
    thresholds: Mapping[str, float | None]
    """Thresholds as numbers; None: the trait did not count."""
    combination: Combination
    weighting: Weighting
    note: str | None = None
    """If no reviewer passed: that, and which one was closest."""

    @property
    def passed(self) -> tuple[str, ...]:
        """The reviewers who passed."""
        return tuple(candidate.reviewer for candidate in self.candidates if candidate.passed)

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the reviewers who passed."""
        return {c.reviewer: c.weight for c in self.candidates if c.passed and c.weight is not None}


def qualify(
    traits: Mapping[str, Mapping[str, Trait]],
    *,
    thresholds: Mapping[str, Threshold],
    combination: Combination = "all",
    weighting: Weighting = "equal",
    weight_from: str | None = None,
) -> Qualification:
    """Compare each reviewer's traits with the thresholds.

    ``traits``: reviewer → name of the trait → its value. ``thresholds`` chooses the traits that count; if empty, every
    reviewer passes. ``combination``: a reviewer must pass all of them, or any. ``weight_from``: the trait whose value
    or logit is the weight. The mean of traits is over those of ``thresholds``. A trait that was not measured is failed.
    """
    measured = {name for own in traits.values() for name in own}
    check_known(thresholds, measured, "no candidate was measured for", "Measured", MetricError)
    limits = {name: _limit(traits, name, threshold) for name, threshold in thresholds.items()}
    counting = {name: limit for name, limit in limits.items() if limit is not None}
    weighing = [name for name in thresholds if name not in ONLY_AN_EXAM]
    source = weight_from or next(iter(weighing), None)
    candidates = []
    for reviewer, own in traits.items():
        lacking = {name: _lacking(own.get(name), limit) for name, limit in counting.items()}
        failed = [name for name, lack in lacking.items() if lack is not None]
        passed = not failed if combination == "all" else not counting or len(failed) < len(counting)
        weight = _weight(own, weighting, weighing, source) if passed else None
        unweighed = passed and weight is None
        passed = passed and not unweighed
        shortfall = 0.0 if passed else sum(lack for lack in lacking.values() if lack is not None)
        # what decided: the failed traits of one that failed, the passed ones of one that passed
        decisive = [name for name in counting if (name in failed) != passed]
        why = "; ".join(_words(name, own.get(name), counting[name]) for name in decisive) or "no exam"
        if unweighed:
            why = "no weight: its trait was not measured"
        candidates.append(Candidate(reviewer, own, passed, why, weight, shortfall))
    note = None
    if not any(c.passed for c in candidates):
        best = min(candidates, key=lambda candidate: candidate.shortfall)
        advice = "Lower a threshold, or choose other candidates"
        note = f"no reviewer passed. Closest: {best.reviewer} ({best.why}). {advice}"
    return Qualification(tuple(candidates), limits, combination, weighting, note)


def logit_weight(share: float) -> float:
    """log(p / (1 - p)) with p clipped to 0.01 and 0.99; negative below one half, which reverses votes."""
    held = min(1 - CLIPPED, max(CLIPPED, share))
    return math.log(held / (1 - held))


def _limit(traits: Mapping[str, Mapping[str, Trait]], name: str, threshold: Threshold) -> float | None:
    if threshold != "mean":
        return threshold
    values = [own[name].value for own in traits.values() if name in own]
    known = [value for value in values if value is not None]
    if not known or max(known) - min(known) < ALIKE:
        return NO_MEAN
    return math.fsum(known) / len(known)


def _lacking(trait: Trait | None, limit: float) -> float | None:
    """The shortfall; None: the trait is passed."""
    if trait is None or trait.value is None:
        return max(limit, 0.0)
    return None if trait.value > limit else limit - trait.value


def _weight(own: Mapping[str, Trait], weighting: Weighting, names: Sequence[str], source: str | None) -> float | None:
    """The weight of a vote; None: what it comes from was not measured."""
    if weighting == "equal":
        return 1.0
    wanted = names if weighting == "mean of traits" else [source or ""]
    known = [own[name].value if name in own else None for name in wanted]
    values = [value for value in known if value is not None]
    if len(values) < len(known) or not values:
        return None
    mean = sum(values) / len(values)
    return logit_weight(mean) if weighting == "logit" else mean


def _words(name: str, trait: Trait | None, limit: float) -> str:
    if trait is None or trait.value is None:
        return f"{name} not measured"
    relation = "above" if trait.value > limit else "not above"
    return f"{name} {trait.value:.4f} {relation} {limit:.4f}"
