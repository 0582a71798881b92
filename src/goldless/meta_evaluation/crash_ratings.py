"""What a metric did under one perturbation: the effect, with its interval and test, and how that is rated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.crash_design import Candidates, Key, copy_name
from goldless.meta_evaluation.perturbations.applying import PerturbedText
from goldless.meta_evaluation.perturbations.catalogue import Kind, Must, Perturbation
from goldless.runs.options import Options
from goldless.runs.outcomes import MetricScores
from goldless.statistics.comparisons import sign_flip_p
from goldless.statistics.effects import EffectSize, paired_d, pooled_smd

Rating = Literal["pass", "fail", "not shown"]
RATINGS: tuple[Rating, ...] = ("pass", "fail", "not shown")
DEFAULT_MARGIN = 0.2
"""The effect that counts as none: Cohen's "small"."""
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


def crash_result(
    scores: MetricScores,
    perturbation: Perturbation,
    candidates: Candidates,
    texts: Sequence[PerturbedText],
    *,
    options: Options,
    margin: float,
) -> CrashResult:
    """The effect of a perturbation on a metric's scores, with ``p_holm`` left open.

    Responses that the perturbation left as they were are counted, and are in no effect.
    """
    mine = [text for text in texts if (text.task, text.agent) in candidates.peers]
    changed = [(t.task, t.agent) for t in mine if t.text is not None and not t.unchanged]
    tasks, before, after = _samples(scores, perturbation, candidates, changed)
    both = ~(np.isnan(before) | np.isnan(after))
    p = sign_flip_p(_task_means(after - before, tasks), seed=options.seed, permutations=options.resamples)
    smd = _effect(before[both], after[both], [task for task, used in zip(tasks, both, strict=True) if used], options)
    rating, reason = rate(perturbation.must, smd, margin=margin)
    if smd.note == UNBOUNDED and p is not None and p < 1 - options.level:
        rises = bool(after[both][0] > before[both][0])
        rating, reason = ("fail", "rises") if rises else ("pass", "falls")
    return CrashResult(
        metric=scores.metric.name,
        perturbation=perturbation.name,
        kind=perturbation.kind,
        must=perturbation.must,
        rating=rating,
        reason=reason if changed else "it changed no response",
        mean_before=float(before[both].mean()) if both.any() else None,
        mean_after=float(after[both].mean()) if both.any() else None,
        smd=smd,
        paired=paired_d(after - before, clusters=tasks, level=options.level),
        p=p,
        p_holm=None,
        samples=int(both.sum()),
        responses=len(mine),
        unchanged=sum(text.unchanged for text in mine),
        not_made=sum(text.text is None for text in mine),
        missing=int((~both).sum()),
    )


def _effect(
    before: npt.NDArray[np.float64], after: npt.NDArray[np.float64], tasks: Sequence[str], options: Options
) -> EffectSize:
    """The pooled SMD; 0 where no score moved, and unbounded where all of one value moved to another."""
    n = len(set(tasks))
    if n < 2:
        return EffectSize(None, None, None, n, options.level, f"no effect size: n = {n}, at least 2 tasks are needed")
    if (before == after).all():
        return EffectSize(0.0, 0.0, 0.0, n, options.level, "every score is the same before and after")
    if len({*before.tolist()}) == len({*after.tolist()}) == 1:
        return EffectSize(None, None, None, n, options.level, UNBOUNDED)
    return pooled_smd(before, after, clusters=tasks, level=options.level)


def _samples(
    scores: MetricScores, perturbation: Perturbation, candidates: Candidates, changed: Sequence[Key]
) -> tuple[list[str], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Task, score before and score after of every sample: a pair as in the paper, or a response where there is none."""
    name = perturbation.name
    if len(scores.pairs) and scores.metric.needs.verdicts is None:
        known = dict(zip(scores.pairs.select("task", "agent", "peer").iter_rows(), scores.pairs["score"], strict=True))
        keys = [(task, agent, peer) for task, agent in changed for peer in candidates.peers[task, agent]]
        everybody = perturbation.scope == "everybody"
        before = [known.get(key) for key in keys]
        after = [
            known.get((task, copy_name(agent, name), copy_name(peer, name) if everybody else peer))
            for task, agent, peer in keys
        ]
        return [task for task, _, _ in keys], _numbers(before), _numbers(after)
    of = dict(zip(scores.responses.select("task", "agent").iter_rows(), scores.responses["score"], strict=True))
    before = [of.get(key) for key in changed]
    after = [of.get((task, copy_name(agent, name))) for task, agent in changed]
    return [task for task, _ in changed], _numbers(before), _numbers(after)


def _numbers(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _task_means(differences: npt.NDArray[np.float64], tasks: Sequence[str]) -> npt.NDArray[np.float64]:
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
