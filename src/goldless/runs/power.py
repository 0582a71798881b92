"""Power: how many tasks a difference of some standard deviations needs, and their cost, before anything is asked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from goldless.errors import GoldlessError
from goldless.runs.options import Options
from goldless.runs.outcomes import differences
from goldless.runs.pipeline import score_study
from goldless.runs.samples import averaged
from goldless.statistics.answering import moments
from goldless.statistics.deciding import ANYTIME, FIXED_SAMPLE, tasks_to_detect
from goldless.studies import Study

POWER = 0.8

ROUNDING = 1e-9
"""Differences that vary by less than this share of the largest vary by rounding alone."""


@dataclass(frozen=True, slots=True)
class NeededTasks:
    """What one kind of question needs."""

    question: str
    tests: int
    """Comparisons that alpha is divided by."""
    tasks: int | None
    """Tasks for a number fixed beforehand; None: over ten million."""
    tasks_until: int | None
    """Tasks within which ``--until`` decides, with the same power."""
    usd: float | None
    """Cost of ``tasks``; None: unknown."""
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of differences between two agents, from evidence."""

    metric: str
    unit: str
    sd: float
    """Median over pairs of agents."""
    pairs: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Power:
    """The tasks that a difference of ``detect`` standard deviations needs."""

    detect: float
    alpha: float
    power: float
    rows: tuple[NeededTasks, ...]
    spread: tuple[Spread, ...]
    """By metric; empty: there is no evidence yet."""

    @property
    def notes(self) -> list[str]:
        """What a standard deviation is here."""
        how = (
            f"Tasks to decide a true difference of {self.detect:g} standard deviations of the two agents' differences "
            f"with probability {self.power:g}, alpha {self.alpha:g} divided by the comparisons; within: with --until, "
            "which stops earlier where the difference is larger."
        )
        if not self.spread:
            return [how, "No evidence yet, so what that is in a metric's unit is unknown."]
        return [how, *(_said(self.detect, one) for one in self.spread)]


def _said(detect: float, one: Spread) -> str:
    return (
        f"{one.metric}: {detect:g} standard deviations are {detect * one.sd:.3g} {one.unit} here (median over "
        f"{one.pairs} pairs of agents, up to {one.tasks} tasks)."
    )


async def needed_tasks(
    study: Study, options: Options, *, usd_per_task: float | None, seconds_per_task: float | None
) -> Power | None:
    """The tasks that ``--detect`` needs with the agents of a study; None: it is not asked for."""
    if options.detect is None:
        return None
    k, detect = len(study.one_sample_each().agents), options.detect
    rows = []
    for question, tests in (("A>B", 1), ("best", k - 1), ("baseline=A", k - 1), ("all pairs", k * (k - 1) // 2)):
        alpha = options.alpha / max(1, tests)
        fixed = tasks_to_detect(detect, alpha=alpha, power=POWER, bound=FIXED_SAMPLE)
        until = tasks_to_detect(detect, alpha=alpha, power=POWER, bound=ANYTIME, at_least=options.at_least)
        usd, seconds = (
            None if fixed is None or each is None else each * fixed for each in (usd_per_task, seconds_per_task)
        )
        rows.append(NeededTasks(question, tests, fixed, None if question == "all pairs" else until, usd, seconds))
    return Power(detect, options.alpha, POWER, tuple(rows), await _spread(study, options))


async def _spread(study: Study, options: Options) -> tuple[Spread, ...]:
    """The spread of differences in the evidence of a study; empty where it has none for these metrics."""
    found: list[Spread] = []
    for name in options.metrics:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what it could not use is no matter of a plan
                scored = await score_study(study, replace(options, metrics=(name,), recorded=True, say=lambda _: None))
        except GoldlessError:
            continue  # no evidence for it
        for one in scored.scores.values():
            if one.scores.raters is None:
                mean = replace(one, scores=averaged(one.scores, study.samples))
                apart = differences(mean, study.one_sample_each()).differences
                n, _, sd = moments(apart)
                known = sd[(n > 1) & (sd > ROUNDING * np.nan_to_num(np.abs(apart)).max(initial=0.0))]
                if len(known):
                    middle = float(np.median(known))
                    found.append(Spread(one.metric.name, one.metric.unit, middle, len(known), int(n.max())))
    return tuple(found)
