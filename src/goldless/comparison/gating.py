"""``goldless gate``: may the candidate replace the baseline? Non-inferiority with a margin, and a certified judge.

With the difference candidate - baseline and one-sided bounds at alpha over tasks: SHIP where the lower bound is above
-margin, BLOCK where the upper bound is below -margin, else INCONCLUSIVE. Each of the two claims is wrong with a
probability of at most alpha. Skewed differences move the bounds out (``statistics.skewness``); losses so rare that
these tasks have none of them stay unseen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from goldless.arrays import FloatArray
from goldless.comparison.certificate import Certificate, certify
from goldless.comparison.comparing import MetricDifference, PairedComparison, difference, open_sides
from goldless.comparison.judged import find_judged
from goldless.comparison.pairing import Paired, Sides, common_metrics, paired_scores
from goldless.comparison.pulls import Pieces, task_pulls
from goldless.comparison.run_scores import check_agent, open_run
from goldless.errors import UserError
from goldless.models.embedded import TokenTexts
from goldless.reports.document import HERE_ONLY, write
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.statistics.bootstrap import Draws, Limits, task_intervals
from goldless.statistics.deciding import AT_LEAST, FIXED_SAMPLE, least_tasks, more_tasks, outlook
from goldless.statistics.skewness import further, skewness

Verdict = Literal["SHIP", "BLOCK", "INCONCLUSIVE"]
TAIL, TAIL_OF_FEW = 3.0, 80.0
"""Skewness counts TAIL + TAIL_OF_FEW / n times: a false SHIP is then as rare as promised where losses are lognormal."""


@dataclass(frozen=True, slots=True)
class Margin:
    """How much worse a candidate may be."""

    value: float
    in_sd: bool = False
    """Whether it is in standard deviations of the baseline's scores over tasks; else in the metric's unit."""

    def __str__(self) -> str:
        return f"{self.value:g}{'sd' * self.in_sd}"

    def of(self, baseline: FloatArray, unit: str) -> float:
        """The margin in the metric's unit."""
        if not self.in_sd:
            return self.value
        spread = float(baseline.std(ddof=1)) if len(baseline) > 1 else 0.0
        if spread == 0 and self.value > 0:
            raise UserError(f"margin {self}: the baseline's scores do not vary. Give the margin in {unit}")
        return self.value * spread


def parse_margin(given: str | float | Margin) -> Margin:
    """The margin in words such as ``0.5`` or ``0.2sd``."""
    if isinstance(given, Margin):
        return given
    found = re.fullmatch(r"\s*(-?[\d.]+(?:e-?\d+)?)\s*(sd)?\s*", str(given), re.IGNORECASE)
    try:
        value = float(found[1]) if found else math.nan
    except ValueError:
        value = math.nan
    if not value >= 0 or not math.isfinite(value):
        raise UserError(
            f"margin must be a number of at least 0 in the metric's unit, or in standard deviations such as 0.2sd, "
            f"got {given!r}"
        )
    return Margin(value, in_sd=bool(found and found[2]))


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdict on a candidate, and everything it rests on."""

    verdict: Verdict
    reason: str
    """Why, in a sentence."""
    baseline: str
    candidate: str
    metric: str
    unit: str
    margin: float
    """In the metric's unit."""
    margin_given: str
    alpha: float
    low: float | None
    high: float | None
    """One-sided bounds of candidate - baseline, each at alpha."""
    more_tasks: int | None
    """The fewest more tasks that are likely to decide; 0: decided; None: too far to say, or tasks do not help."""
    more_tasks_high: int | None
    """The most; None: no end can be given."""
    certificate: Certificate
    comparison: PairedComparison
    """The difference with its two-sided interval, and the tasks that pull most."""
    warnings: tuple[str, ...] = ()
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)
    KEYS = (
        *(
            "verdict",
            "reason",
            "baseline",
            "candidate",
            "metric",
            "unit",
            "margin",
            "margin_given",
            "alpha",
            "low",
            "high",
        ),
        *("more_tasks", "more_tasks_high", "certificate", "warnings", "comparison"),
    )

    @property
    def difference(self) -> MetricDifference:
        return self.comparison.metrics[0]

    def table(self) -> ReportTable:
        columns = (
            Column("metric", "metric"),
            Column("first", self.baseline, "number", decimals=2),
            Column("second", self.candidate, "number", decimals=2),
            Column("difference", "difference", "signed", decimals=2),
            Column("low high", f"bounds at {self.alpha:g}", "signed interval", decimals=2),
            Column("limit", "limit", "signed", decimals=2),
            Column("n", "tasks", "count"),
            Column("unit", "unit", wide=True),
            Column("verdict", "verdict", wide=True),
        )
        found = self.difference
        row = {**write(found), "low": self.low, "high": self.high, "limit": -self.margin, "verdict": self.verdict}
        notes = (self.reason, f"A/A certificate {self.certificate.state}: {self.certificate.words}")
        return ReportTable(
            f"{self.verdict}: {self.candidate} in place of {self.baseline}", columns, (row,), found.signature, notes
        )


async def gate_runs(
    folders: Sequence[Path | str],
    options: Options,
    *,
    baseline: str | None,
    candidate: str | None = None,
    metric: str | None = None,
    margin: str | float | Margin | None,
    alpha: float = 0.05,
    aa: int | None = None,
    repeats: Sequence[Path | str] = (),
    uncertified: bool = False,
    pieces: Pieces | None = None,
) -> Gate:
    """Gate a candidate of a run, or of the second of two, against a baseline.

    ``aa``: ask this many verdicts of the judge a second time first. ``repeats``: folders with the second asking, one
    per run. ``uncertified``: decide although the judge was never asked twice.
    """
    allowed = _checked(margin, alpha, aa, repeats, folders)
    sides = _sides(folders, baseline, candidate)
    name = _one_metric(sides, metric)
    paired = paired_scores(sides, name)
    judged = find_judged(sides, name)
    spending: tuple[Spending, ...] = ()
    if aa is not None:
        if judged is None:
            raise UserError(f"--aa asks a judge again, but {name} is not computed from verdicts. Leave it out")
        # a gate that asks nothing needs no model
        from goldless.comparison.asking_again import ask_again  # noqa: PLC0415

        spending = await ask_again(judged, aa, options)
    certificate = certify(sides, name, alpha=alpha, repeats=[Path(folder) for folder in repeats])
    draws: Draws = {"seed": options.seed, "resamples": options.resamples, "level": 1 - 2 * alpha}
    limit = allowed.of(paired.first, paired.unit)
    split = TokenTexts().pieces if pieces is None else pieces
    shown = difference(paired, task_pulls(sides, paired, split), {**draws, "level": options.level})
    first, second = sides.names
    runs = tuple(dict.fromkeys((str(sides.first.run.path), str(sides.second.run.path))))
    found = _decide(paired, limit, alpha, certificate, draws, uncertified=uncertified)
    return Gate(
        **found._asdict(),
        baseline=first,
        candidate=second,
        metric=name,
        unit=paired.unit,
        margin=limit,
        margin_given=str(allowed),
        alpha=alpha,
        certificate=certificate,
        comparison=PairedComparison(first, second, runs, (shown,), paired.warnings),
        warnings=paired.warnings,
        spending=spending,
    )


# --- what is given ---------------------------------------------------------------------------------------------------


def _checked(
    margin: str | float | Margin | None,
    alpha: float,
    aa: int | None,
    repeats: Sequence[Path | str],
    folders: Sequence[Path | str],
) -> Margin:
    if margin is None:
        raise UserError(
            "--margin is missing: how much worse may the candidate be? Give it in the metric's unit, or in standard "
            "deviations of the baseline's scores. Try --margin 0.2sd"
        )
    if not 0 < alpha < 0.5:
        raise UserError(f"alpha must be between 0 and 0.5, got {alpha:g}. Try 0.05")
    if aa is not None and repeats:
        raise UserError("--aa and --repeats exclude each other: ask again, or name the second answers")
    if repeats and len(repeats) != len(folders):
        raise UserError(f"--repeats must be given once per run folder, got {len(repeats)} for {len(folders)}")
    return parse_margin(margin)


def _sides(folders: Sequence[Path | str], baseline: str | None, candidate: str | None) -> Sides:
    if len(folders) != 1:
        if (baseline is None) != (candidate is None):
            raise UserError("with two run folders, give both --baseline and --candidate, or neither")
        return open_sides(folders, () if baseline is None or candidate is None else (baseline, candidate))
    agents = open_run(folders[0]).agents
    if baseline is None:
        raise UserError(
            "--baseline is missing: name the agent that the candidate is to replace, or give the run of the baseline "
            f"first and that of the candidate second. Agents: {', '.join(agents)}"
        )
    others = [agent for agent in agents if agent != baseline]
    if candidate is None and len(others) == 1:
        candidate = others[0]
    if candidate is None:
        check_agent(open_run(folders[0]), baseline)
        raise UserError(f"--candidate is missing: name one of {', '.join(others)}")
    if candidate == baseline:
        raise UserError(f"--candidate must differ from --baseline, got {candidate!r} for both")
    return open_sides(folders, (baseline, candidate))


def _one_metric(sides: Sides, metric: str | None) -> str:
    known = common_metrics(sides, () if metric is None else (metric,))
    if len(known) > 1:
        raise UserError(f"a gate decides by one metric. Name it with --metric: {', '.join(known)}")
    return known[0]


# --- the verdict -----------------------------------------------------------------------------------------------------


class _Decided(NamedTuple):
    verdict: Verdict
    reason: str
    low: float | None
    high: float | None
    more_tasks: int | None
    more_tasks_high: int | None = None


def _decide(
    paired: Paired, margin: float, alpha: float, certificate: Certificate, draws: Draws, *, uncertified: bool
) -> _Decided:
    values = paired.differences
    n, fewest = len(values), least_tasks(2 * alpha, AT_LEAST)
    low, high = one_sided_bounds(values, paired.difference_limits, draws)
    if low is None or high is None or n < fewest:
        reason = f"{n} common task{'s' * (n != 1)} with both scores are too few: a gate needs {fewest}"
        return _Decided("INCONCLUSIVE", reason, low, high, fewest - n, fewest - n)
    if not certificate.allows and not (uncertified and certificate.state == "missing"):
        return _Decided("INCONCLUSIVE", "no decision, because the judge is not certified", low, high, None)
    loss = f"a loss beyond the margin of {margin:.2f} ({paired.unit})"
    verdict = _verdict(low - certificate.shift, high + certificate.shift, margin)
    if verdict == "INCONCLUSIVE":
        spread = float(values.std(ddof=1))
        more = more_tasks(n, float(values.mean()) + margin, spread, alpha=2 * alpha, bound=FIXED_SAMPLE)
        return _Decided(verdict, f"{loss} is neither shown nor excluded: {outlook(n, *more)}", low, high, *more)
    if verdict == "BLOCK":
        return _Decided(verdict, f"{loss} is shown: at best {high:+.2f}", low, high, 0, 0)
    lost = len(paired.unanswered)
    if lost:
        worst, _ = one_sided_bounds(_with_unanswered(paired), paired.difference_limits, draws)
        if worst is None or worst - certificate.shift <= -margin:
            reason = (
                f"the candidate has no score on {lost} of {n + lost} tasks; with the lowest there, {loss} is possible"
            )
            return _Decided("INCONCLUSIVE", reason, low, high, None)
    return _Decided(verdict, f"{loss} is excluded: at worst {low:+.2f}", low, high, 0, 0)


def one_sided_bounds(values: FloatArray, limits: Limits | None, draws: Draws) -> tuple[float | None, float | None]:
    """The one-sided bounds of the mean difference, each further out where the differences have a tail on its side."""
    (found,) = task_intervals(values[:, None], limits=limits, **draws)
    mean = found.value
    if found.low is None or found.high is None or mean is None or found.method == "exact":
        return found.low, found.high
    n = np.array([float(len(values))])
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    t, skew = stdtrit(n - 1, (1 + draws["level"]) / 2), skewness(values[:, None])
    times = TAIL + TAIL_OF_FEW / len(values)
    below, above = (error * float(further(t, side * skew, n, times)[0]) for side in (1, -1))
    return min(found.low, mean - below), max(found.high, mean + above)


def _verdict(low: float, high: float, margin: float) -> Verdict:
    return "SHIP" if low > -margin else "BLOCK" if high < -margin else "INCONCLUSIVE"


def _with_unanswered(paired: Paired) -> FloatArray:
    """The differences if the candidate had the lowest score seen on each task where it has none."""
    lowest = min(paired.first.min(), paired.second.min(), paired.unanswered.min())
    return np.concatenate([paired.differences, lowest - paired.unanswered])
