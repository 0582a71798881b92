"""What the panel's agreement with people would be at other limits and weights, from the same judgements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from goldless.errors import MetricError, UserError
from goldless.metrics.qualification import Threshold, Weighting
from goldless.reports.review import SweepCell
from goldless.runs.options import Options
from goldless.runs.review_evidence import People, ReviewEvidence
from goldless.runs.review_outcome import panel_agreement, qualified
from goldless.studies import Study

PASSED_OR_NOT = "self-confidence"
"""A trait that is 0 or 1, whose limit is not varied."""


@dataclass(frozen=True, slots=True)
class _Setting:
    limit: Threshold
    weighting: Weighting


def sweep(study: Study, options: Options, evidence: ReviewEvidence, people: People) -> tuple[SweepCell, ...]:
    """One cell for each limit of ``options.sweep`` and each way to weigh votes."""
    if not options.sweep:
        return ()
    if not set(options.traits) - {PASSED_OR_NOT}:
        raise UserError("--sweep needs an exam whose limit can vary. Try --exam human or --exam consistency")
    if people.tested is None:
        raise MetricError(f"{study.name} has no labels, so there is no accuracy to sweep. Leave out --sweep")
    return tuple(_cell(study, options, evidence, people, setting) for setting in _settings(options))


def _settings(options: Options) -> Iterator[_Setting]:
    one = len(options.weighing_traits) == 1 or options.weight_from is not None
    weightings: tuple[Weighting, ...] = ("equal", "trait", "logit") if one else ("equal", "mean of traits")
    weightings = weightings if options.weighing_traits else ("equal",)
    for limit in map(_limit, options.sweep):
        yield from (_Setting(limit, weighting) for weighting in weightings)


def _limit(told: object) -> Threshold:
    if told == "mean":
        return "mean"
    try:
        return float(str(told))
    except ValueError:
        raise UserError(f"--sweep must be comma-separated numbers or mean, got {told!r}. Try 0,0.55,0.6") from None


def _cell(study: Study, options: Options, evidence: ReviewEvidence, people: People, setting: _Setting) -> SweepCell:
    limits = {trait: setting.limit for trait in options.traits if trait != PASSED_OR_NOT}
    how = replace(options, thresholds={**options.thresholds, **limits}, weighting=setting.weighting)
    found, _ = qualified(study, how, evidence, people)
    agreement = panel_agreement(study, how, evidence, people, found.weights) if found.weights else None
    return SweepCell("mean" if setting.limit == "mean" else setting.limit, setting.weighting, found.passed, agreement)
