"""What a metric did under one perturbation: the effect, with its interval and test, and how that is rated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.crash_design import Copy
from goldless.meta_evaluation.metric_results import Scores, pair_scores, response_scores
from goldless.meta_evaluation.perturbations.perturbation import Kind, Must, Perturbation, PerturbedText
from goldless.runs.options import Options
from goldless.runs.outcomes import MetricScores
from goldless.statistics.effects import EffectSize, paired_d, pooled_smd
from goldless.statistics.standings import holm, sign_flip_p

FloatArray = npt.NDArray[np.float64]
Rating = Literal["pass", "fail", "not shown"]
RATINGS: tuple[Rating, ...] = ("pass", "fail", "not shown")
DEFAULT_MARGIN = 0.2
"""The effect that counts as none: Cohen's "small"."""
_Sample = tuple[str, float | None, float | None]
"""Task, score before and score after; None: missing."""
UNBOUNDED = "every score moves from one value to another: the effect has no bound"


@dataclass(frozen=True, slots=True)
class CrashResult:
    """One metric under one perturbation."""

    metric: str
    perturbation: str
    kind: Kind
    must: Must
    rating: Rating
    reason: str
    """Why it is rated so."""
    mean_before: float | None
    mean_after: float | None
    smd: EffectSize
    """Pooled, as the paper defines it."""
    paired: EffectSize
    """Mean difference / standard deviation of the differences."""
    p: float | None
    """Two-sided sign-flip test over tasks of the mean difference."""
    p_holm: float | None
    """Corrected for all perturbations of the metric."""
    samples: int
    """Pairs, or responses where the metric scores no pairs, with both scores."""
    responses: int
    """Responses that were to be perturbed."""
    unchanged: int
    """Of these, left as they were by the perturbation; they are in no effect."""
    not_made: int
    """Of these, that could not be perturbed."""
    missing: int
    """Samples without one of the two scores."""


def crash_results(
    scores: MetricScores,
    perturbed: Iterable[tuple[Perturbation, Sequence[PerturbedText]]],
    copies: Sequence[Copy],
    *,
    options: Options,
    margin: float,
) -> list[CrashResult]:
    """The effect of every perturbation on a metric's scores, with p corrected for all of them.

    ``perturbed``: each perturbation with what became of the responses that were to be perturbed.
    """
    pairs = pair_scores(scores) if scores.metric.needs.verdicts is None else {}
    responses = response_scores(scores)
    rows = []
    for perturbation, texts in perturbed:
        own = [copy for copy in copies if copy.perturbation == perturbation.name]
        samples = _pair_samples(own, pairs) if pairs else _response_samples(own, responses)
        rows.append(_crash_result(scores.metric.name, perturbation, texts, samples, options=options, margin=margin))
    return [replace(row, p_holm=p) for row, p in zip(rows, holm([row.p for row in rows]), strict=True)]


def _crash_result(
    metric: str,
    perturbation: Perturbation,
    texts: Sequence[PerturbedText],
    samples: Sequence[_Sample],
    *,
    options: Options,
    margin: float,
) -> CrashResult:
    """The effect of a perturbation; responses that it left as they were are counted, and are in no effect."""
    tasks = [task for task, _, _ in samples]
    before, after = np.array([scores for _, *scores in samples], dtype=np.float64).reshape(-1, 2).T
    both = ~(np.isnan(before) | np.isnan(after))
    p = sign_flip_p(_task_means(after - before, tasks), seed=options.seed, permutations=options.resamples)
    smd = _effect(before[both], after[both], [task for task, used in zip(tasks, both, strict=True) if used], options)
    rating, reason = rate(perturbation.must, smd, margin=margin)
    if smd.note == UNBOUNDED and p is not None and p < 1 - options.level:
        rises = bool(after[both][0] > before[both][0])
        rating, reason = ("fail", "rises") if rises else ("pass", "falls")
    return CrashResult(
        metric=metric,
        perturbation=perturbation.name,
        kind=perturbation.kind,
        must=perturbation.must,
        rating=rating,
        reason=reason if samples else "it changed no response",
        mean_before=float(before[both].mean()) if both.any() else None,
        mean_after=float(after[both].mean()) if both.any() else None,
        smd=smd,
        paired=paired_d(after - before, clusters=tasks, level=options.level),
        p=p,
        p_holm=None,
        samples=int(both.sum()),
        responses=len(texts),
        unchanged=sum(text.unchanged for text in texts),
        not_made=sum(text.text is None for text in texts),
        missing=int((~both).sum()),
    )


def _effect(before: FloatArray, after: FloatArray, tasks: Sequence[str], options: Options) -> EffectSize:
    """The pooled SMD; 0 where no score moved, and unbounded where all of one value moved to another."""
    n = len(set(tasks))
    if n < 2:
        return EffectSize(None, None, None, n, options.level, f"no effect size: n = {n}, at least 2 tasks are needed")
    if (before == after).all():
        return EffectSize(0.0, 0.0, 0.0, n, options.level, "every score is the same before and after")
    if len({*before.tolist()}) == len({*after.tolist()}) == 1:
        return EffectSize(None, None, None, n, options.level, UNBOUNDED)
    return pooled_smd(before, after, clusters=tasks, level=options.level)


def _pair_samples(copies: Sequence[Copy], known: Mapping[tuple[str, str, str], float | None]) -> list[_Sample]:
    """A sample for every pair, as in the paper."""
    return [
        (copy.task, known.get((copy.task, copy.agent, peer)), known.get((copy.task, copy.name, held or "")))
        for copy in copies
        for peer, held in copy.peers.items()
    ]


def _response_samples(copies: Sequence[Copy], known: Scores) -> list[_Sample]:
    """A sample for every response, of metrics that score no pairs."""
    return [(copy.task, known.get((copy.task, copy.agent)), known.get((copy.task, copy.name))) for copy in copies]


def _task_means(differences: FloatArray, tasks: Sequence[str]) -> FloatArray:
    """The mean difference of each task that has one."""
    by_task: dict[str, list[float]] = {}
    for task, difference in zip(tasks, differences.tolist(), strict=True):
        if difference == difference:  # noqa: PLR0124 - not NaN
            by_task.setdefault(task, []).append(difference)
    return np.array([sum(values) / len(values) for values in by_task.values()])


def rate(must: Must, smd: EffectSize, *, margin: float = DEFAULT_MARGIN) -> tuple[Rating, str]:
    """Whether an effect is what a sound metric shows, and why.

    A degradation passes where the whole interval lies below 0, and fails where the metric is shown not to fall by
    more than the margin. A manipulation fails where the whole interval lies above 0, and passes where the metric is
    shown not to rise by more than the margin. Otherwise the interval is too wide to tell.
    """
    if smd.value is None or smd.low is None or smd.high is None:
        return "not shown", smd.note or "no interval"
    if must == "fall":
        falls, stays = smd.high < 0, smd.low > -margin
        if falls or not stays:
            return ("pass", "falls") if falls else ("not shown", "interval too wide")
        return "fail", "rises" if smd.low > 0 else f"does not fall by {margin:g}"
    rises, stays = smd.low > 0, smd.high <= max(margin, 0)
    if rises or not stays:
        return ("fail", "rises") if rises else ("not shown", "interval too wide")
    return "pass", "falls" if smd.high < 0 else f"does not rise by {margin:g}"
