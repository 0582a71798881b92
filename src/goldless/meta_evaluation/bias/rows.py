"""One measured bias with its interval, and how shares over tasks become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.judges import Kind
from goldless.meta_evaluation.resampling import Draws
from goldless.metrics.judgement_table import NEITHER
from goldless.statistics.bootstrap import FEW_TASKS, Share, ShareMethod, task_intervals, task_shares

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Bias = Literal["position", "length", "format", "self-preference", "family preference", "favour rate"]
JudgeKind = Kind | Literal["people", "reviewers"]
NO_SPREAD = "no interval: all tasks say the same"


@dataclass(frozen=True, slots=True)
class BiasRow:
    """One number about one judge."""

    bias: Bias
    judge: str
    kind: JudgeKind
    measure: str
    """What the value is, in words."""
    value: float | None
    """None: not defined, ``note`` says why."""
    low: float | None
    """Interval from resampling tasks; None: ``note`` says why."""
    high: float | None
    neutral: float | None
    """The value of a judge without this bias; None: none is known, as where the better response may be the longer."""
    asked: int
    """Pairs, verdicts or responses that the measure is about."""
    used: int
    n_tasks: int
    level: float
    ties: int = 0
    """Of those used, verdicts that found neither better."""
    about: str | None = None
    """The agents it is about, where they are named."""
    method: ShareMethod | None = None
    note: str | None = None
    pair: tuple[str, str] | None = None
    """Of a preference gap, the two reviewers."""

    @property
    def missing(self) -> int:
        """Asked less used: unparsable, refused, or without a score."""
        return self.asked - self.used

    @property
    def shown(self) -> bool | None:
        """Whether the interval lies beside the neutral value.

        None: there is no interval or no neutral value, or there are fewer than ten tasks, too few to trust it.
        """
        if self.neutral is None or self.low is None or self.high is None or self.n_tasks < FEW_TASKS:
            return None
        return not self.low <= self.neutral <= self.high


@dataclass(frozen=True, slots=True)
class Unavailable:
    """What could not be measured, and why."""

    bias: Bias
    reason: str
    judges: tuple[str, ...] = ()
    """Whom it is about; none: everybody."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of what a judge was asked for is there."""

    judge: str
    kind: JudgeKind
    of: str
    """What is counted: judgements, or responses scored."""
    asked: int
    used: int

    @property
    def missing(self) -> int:
        """Unparsable, refused, failed or without a score."""
        return self.asked - self.used


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The single values that a share is made of, all of one judge."""

    judge: str
    kind: JudgeKind
    values: FloatArray
    """[items], NaN: missing or not asked."""
    task: IntArray
    """[items]"""
    asked: int
    """Of these, items that it was asked about."""
    ties: int = 0
    about: str | None = None
    note: str | None = None
    pair: tuple[str, str] | None = None


def measured(judge: str, kind: JudgeKind, values: FloatArray, asked: BoolArray, **said: Any) -> Measured:
    """Values [tasks, items] as single values, as far as they were asked for."""
    task = np.repeat(np.arange(len(values)), values.shape[1])
    return Measured(judge, kind, np.where(asked, values, np.nan).ravel(), task, int(asked.sum()), **said)


def measured_votes(judge: str, kind: JudgeKind, votes: FloatArray, asked: BoolArray, **said: Any) -> Measured:
    """Votes [tasks, pairs] between 0 and 1 as single values; those of 0.5 are ties."""
    ties = int(np.sum(asked & (votes == NEITHER)))
    return measured(judge, kind, votes, asked, ties=ties, **said)


def share_rows(
    bias: Bias,
    measure: str,
    measured: Sequence[Measured],
    *,
    neutral: float | None,
    draws: Draws,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> list[BiasRow]:
    """The mean over items of each judge's values, with an interval by tasks."""
    rows = []
    for one in measured:
        used = ~np.isnan(one.values)
        (share,) = task_shares(one.values[None, used], one.task[used], lowest=lowest, highest=highest, **draws)
        if share.low is not None and share.low == share.high:
            share = replace(share, low=None, high=None, method=None, note=share.note or NO_SPREAD)
        rows.append(row_of(share, bias, measure, one, neutral=neutral))
    return rows


def row_of(share: Share, bias: Bias, measure: str, one: Measured, *, neutral: float | None) -> BiasRow:
    """A share as a row."""
    return BiasRow(
        bias=bias,
        judge=one.judge,
        kind=one.kind,
        measure=measure,
        value=share.value,
        low=share.low,
        high=share.high,
        neutral=neutral,
        asked=one.asked,
        used=share.n,
        n_tasks=share.n_tasks,
        level=share.level,
        ties=one.ties,
        about=one.about,
        method=share.method,
        note="; ".join(note for note in (share.note, one.note) if note) or None,
        pair=one.pair,
    )


def mean_of_shares(shares: Sequence[FloatArray], *, draws: Draws, lowest: float = 0.0, highest: float = 1.0) -> Share:
    """The mean of shares, each the mean of its own values [tasks, items] but for NaN, with an interval by tasks.

    All count alike, however many values each has. A share's task values are share + (S_t - share N_t) T / Σ N, as in
    ``task_shares``: the same mean, and the same spread to first order. Their mean is taken task by task, so that all
    are resampled together.
    """
    counts = [np.sum(~np.isnan(values), axis=1) for values in shares]
    n, level = int(sum(count.sum() for count in counts)), draws["level"]
    if not counts or not all(count.any() for count in counts):
        return Share(None, None, None, n, 0, level, note="one of the sides has no judgement")
    on: BoolArray = np.sum(counts, axis=0) > 0
    tasks = int(on.sum())
    linear = np.zeros(tasks)
    for values, count in zip(shares, counts, strict=True):
        share = float(np.nansum(values) / count.sum())
        sums = np.nansum(values, axis=1)
        linear += (share + (sums - share * count)[on] * tasks / count.sum()) / len(shares)
    (found,) = task_intervals(linear[:, None], **draws)
    if found.low is None or found.high is None or found.low == found.high:
        note = found.note or NO_SPREAD
        return Share(found.mean, None, None, n, tasks, level, note=note)
    return Share(found.mean, max(lowest, found.low), min(highest, found.high), n, tasks, level, found.method)
