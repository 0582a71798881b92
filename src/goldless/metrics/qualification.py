"""Who may review: traits against thresholds, and the weight of each vote.

A reviewer passes a trait where its value is above the threshold: a fixed number (PRE: 0.6 of the human exam, or 0.55
consistency), or the mean over the candidates (Auto-PRE). Weights are equal, the exam's value itself, the mean of the
traits (Auto-PRE), or log(p / (1 - p)) of a trait (PRE).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from goldless.errors import MetricError, nearest
from goldless.metrics.exam_traits import Trait

Threshold = float | Literal["mean"] | None
"""A number the trait must be above, ``mean`` over the candidates, or None: the trait is only shown."""
Combination = Literal["all", "any"]
Weighting = Literal["equal", "mean of traits", "trait", "logit"]
NO_MEAN = 0.55
"""The limit, PRE's of consistency, where candidates have no mean to be above: one alone, or all of them alike."""
ALIKE = 1e-9
CLIPPED = 0.01
"""A share nearer to 0 or 1 than this is taken as this far from it before its logit: no vote weighs infinitely much."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reviewer after the exams."""

    reviewer: str
    traits: Mapping[str, Trait]
    passed: bool
    why: str
    """What decided, in words."""
    weight: float | None
    """Of its vote; None: it has none."""
    shortfall: float
    """How much it lacks in the traits it failed, summed; 0 where it passed."""


@dataclass(frozen=True, slots=True)
class Qualification:
    """All candidates, and how they were chosen."""

    candidates: tuple[Candidate, ...]
    thresholds: Mapping[str, float | None]
    """As numbers; None: the trait did not count."""
    combination: Combination
    weighting: Weighting
    note: str | None = None
    """Where nobody passed: that, and who came nearest."""

    @property
    def passed(self) -> tuple[str, ...]:
        """Who may review."""
        return tuple(candidate.reviewer for candidate in self.candidates if candidate.passed)

    @property
    def weights(self) -> dict[str, float]:
        """The weights of those who may."""
        return {c.reviewer: c.weight for c in self.candidates if c.passed and c.weight is not None}


def qualify(
    traits: Mapping[str, Mapping[str, Trait]],
    *,
    thresholds: Mapping[str, Threshold],
    combination: Combination = "all",
    weighting: Weighting = "equal",
    weight_from: str | None = None,
) -> Qualification:
    """Each reviewer's traits against the thresholds.

    ``traits``: reviewer → name of the trait → its value. ``thresholds`` chooses the traits that count; empty: everybody
    passes. ``combination``: all of them must be passed, or any. ``weight_from``: the trait whose value is the weight,
    or goes into the logit. The mean of traits is taken over those of ``thresholds``. A trait that was not measured is
    not passed.
    """
    _check(traits, thresholds, combination, weighting, weight_from)
    limits = {name: _limit(traits, name, threshold) for name, threshold in thresholds.items()}
    counting = {name: limit for name, limit in limits.items() if limit is not None}
    source = weight_from or next(iter(thresholds), None)
    candidates = []
    for reviewer, own in traits.items():
        lacking = {name: _lacking(own.get(name), limit) for name, limit in counting.items()}
        failed = [name for name, lack in lacking.items() if lack is not None]
        passed = not failed if combination == "all" else not counting or len(failed) < len(counting)
        weight = _weight(own, weighting, list(thresholds), source) if passed else None
        unweighed = passed and weight is None
        passed = passed and not unweighed
        shortfall = 0.0 if passed else sum(lack for lack in lacking.values() if lack is not None)
        why = "; ".join(_words(name, own.get(name), limit) for name, limit in counting.items())
        if unweighed:
            why = f"{why}; its weight comes from what was not measured of it".removeprefix("; ")
        candidates.append(Candidate(reviewer, own, passed, why or "no exam", weight, shortfall))
    note = None if any(c.passed for c in candidates) else _nobody(candidates)
    return Qualification(tuple(candidates), limits, combination, weighting, note)


def logit_weight(share: float) -> float:
    """log(p / (1 - p)) with p held within 0.01 and 0.99; negative below one half, which turns votes round."""
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
    """How much is lacking; None: nothing, the trait is passed."""
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


def _nobody(candidates: Sequence[Candidate]) -> str:
    best = min(candidates, key=lambda candidate: candidate.shortfall)
    return f"no reviewer passed; nearest: {best.reviewer} ({best.why}). Lower a threshold, or name other candidates"


def _check(
    traits: Mapping[str, Mapping[str, Trait]],
    thresholds: Mapping[str, Threshold],
    combination: str,
    weighting: str,
    weight_from: str | None,
) -> None:
    if not traits:
        raise MetricError("no candidate came; name at least one reviewer")
    if combination not in get_args(Combination):
        raise MetricError(f"traits are combined by 'all' or 'any', not {combination!r}")
    if weighting not in get_args(Weighting):
        known = get_args(Weighting)
        raise MetricError(f"a weighting is one of {', '.join(known)}, not {weighting!r}{nearest(weighting, known)}")
    measured = {name for own in traits.values() for name in own}
    for name in (*thresholds, *([weight_from] if weight_from else [])):
        if name not in measured:
            raise MetricError(f"{name} was measured of no candidate{nearest(name, measured)}")
    for name, threshold in thresholds.items():
        if threshold is not None and threshold != "mean" and not isinstance(threshold, (int, float)):
            raise MetricError(f"the threshold of {name} is a number, 'mean' or None, not {threshold!r}")
    if weighting == "mean of traits" and not thresholds:
        raise MetricError("weights are the mean of traits, but no trait is named among the thresholds")
    if weighting in {"trait", "logit"} and weight_from is None and len(thresholds) != 1:
        raise MetricError(f"with {len(thresholds)} traits, say by weight_from which of them weights come from")
