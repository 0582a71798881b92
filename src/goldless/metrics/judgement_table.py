"""Judgements as arrays: what each reviewer said of every pair in either order, or of every response.

A value that is not there is NaN, and ``asked`` tells whether anybody wanted it: absent is neither 0 nor 0.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from goldless.errors import MetricError, nearest
from goldless.evidence import JudgementEvidence

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Convention = Literal["default", "paper"]
"""What a missing judgement counts. ``default``: it is left out and counted as missing. ``paper``: as no preference,
which scores 0.5, the convention of PRE and Auto-PRE."""
NEITHER = 0.5
"""The value of a comparison without a better one."""


@dataclass(frozen=True, slots=True, eq=False)
class PairJudgements:
    """All comparisons on one scale; ``low`` is the agent of a pair with the lower number."""

    reviewers: tuple[str, ...]
    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    task: IntArray
    """[pairs]"""
    low: IntArray
    high: IntArray
    value: FloatArray
    """[reviewers, pairs, 2]: how far low is better, between 0 and 1, with low shown first and with low shown second;
    NaN: missing."""
    asked: BoolArray
    """[reviewers, pairs, 2]: whether it was asked at all."""

    def of(self, reviewers: Sequence[str]) -> PairJudgements:
        """The judgements of these reviewers, in this order."""
        rows = reviewer_numbers(self.reviewers, reviewers)
        return replace(self, reviewers=tuple(reviewers), value=self.value[rows], asked=self.asked[rows])

    def filled(self, convention: Convention) -> FloatArray:
        """The values, with missing ones as the convention has it."""
        check_convention(convention)
        if convention == "default":
            return self.value
        result: FloatArray = np.where(self.asked & np.isnan(self.value), NEITHER, self.value)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class ResponseRatings:
    """All ratings on one scale."""

    reviewers: tuple[str, ...]
    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    value: FloatArray
    """[reviewers, tasks, agents], NaN: missing."""
    asked: BoolArray
    """[reviewers, tasks, agents]: whether it was asked at all."""

    def of(self, reviewers: Sequence[str]) -> ResponseRatings:
        """The ratings of these reviewers, in this order."""
        rows = reviewer_numbers(self.reviewers, reviewers)
        return replace(self, reviewers=tuple(reviewers), value=self.value[rows], asked=self.asked[rows])


def pair_judgements(
    evidence: Iterable[JudgementEvidence],
    *,
    reviewers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> PairJudgements:
    """Comparisons as arrays. Names that are given order the arrays and leave out all others."""
    rows = [row for row in evidence if row.second is not None]
    _check_one_scale(rows)
    return pair_judgements_from_columns(
        [row.reviewer for row in rows],
        [row.task for row in rows],
        [row.first for row in rows],
        [row.second or "" for row in rows],
        [row.value for row in rows],
        reviewers=reviewers,
        tasks=tasks,
        agents=agents,
    )


def pair_judgements_from_columns(
    reviewer: Sequence[str],
    task: Sequence[str],
    first: Sequence[str],
    second: Sequence[str],
    value: Sequence[float | None] | FloatArray,
    *,
    reviewers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> PairJudgements:
    """Comparisons as arrays, from columns of equal length; ``value``: how far the first is better, None: missing."""
    values = _values(value, [reviewer, task, first, second])
    _check_range(values)
    reviewers, tasks = _names(reviewers, reviewer), _names(tasks, task)
    agents = _names(agents, [name for pair in zip(first, second, strict=True) for name in pair])
    who, at = _numbered(reviewers, reviewer), _numbered(tasks, task)
    left, right = _numbered(agents, first), _numbered(agents, second)
    if np.any((left == right) & (left >= 0)):
        place = int(np.flatnonzero((left == right) & (left >= 0))[0])
        raise MetricError(f"task {task[place]}: {first[place]} is compared with itself")
    kept = (who >= 0) & (at >= 0) & (left >= 0) & (right >= 0)
    who, at, left, right, values = who[kept], at[kept], left[kept], right[kept], values[kept]
    low, high, turned = np.minimum(left, right), np.maximum(left, right), (left > right).astype(np.int64)
    key = (at * len(agents) + low) * len(agents) + high
    keys, pair = np.unique(key, return_inverse=True)
    cell = (who * len(keys) + pair) * 2 + turned
    _check_unique(cell)
    shape = len(reviewers), len(keys), 2
    table, asked = _scattered(cell, np.where(turned == 1, 1 - values, values), int(np.prod(shape)))
    _check_heard(reviewers, who)
    return PairJudgements(
        tuple(reviewers),
        tuple(tasks),
        tuple(agents),
        task=keys // len(agents) ** 2,
        low=keys // len(agents) % len(agents),
        high=keys % len(agents),
        value=table.reshape(shape),
        asked=asked.reshape(shape),
    )


def response_ratings(
    evidence: Iterable[JudgementEvidence],
    *,
    reviewers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> ResponseRatings:
    """Ratings as arrays. Names that are given order the arrays and leave out all others."""
    rows = [row for row in evidence if row.second is None]
    _check_one_scale(rows)
    return response_ratings_from_columns(
        [row.reviewer for row in rows],
        [row.task for row in rows],
        [row.first for row in rows],
        [row.value for row in rows],
        reviewers=reviewers,
        tasks=tasks,
        agents=agents,
    )


def response_ratings_from_columns(
    reviewer: Sequence[str],
    task: Sequence[str],
    agent: Sequence[str],
    value: Sequence[float | None] | FloatArray,
    *,
    reviewers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> ResponseRatings:
    """Ratings as arrays, from columns of equal length; a value of None is missing."""
    values = _values(value, [reviewer, task, agent])
    reviewers, tasks, agents = _names(reviewers, reviewer), _names(tasks, task), _names(agents, agent)
    who, at, whom = _numbered(reviewers, reviewer), _numbered(tasks, task), _numbered(agents, agent)
    kept = (who >= 0) & (at >= 0) & (whom >= 0)
    cell = (who[kept] * len(tasks) + at[kept]) * len(agents) + whom[kept]
    _check_unique(cell)
    shape = len(reviewers), len(tasks), len(agents)
    table, asked = _scattered(cell, values[kept], int(np.prod(shape)))
    _check_heard(reviewers, who[kept])
    return ResponseRatings(
        tuple(reviewers), tuple(tasks), tuple(agents), value=table.reshape(shape), asked=asked.reshape(shape)
    )


def reviewer_numbers(known: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Places of the wanted reviewers among the known ones."""
    for name in wanted:
        if name not in known:
            raise MetricError(f"no judgement of reviewer {name!r}{nearest(name, known)}. Found: {', '.join(known)}")
    return [known.index(name) for name in wanted]


def check_convention(convention: str) -> None:
    """Raise where there is no such convention."""
    if convention not in get_args(Convention):
        raise MetricError(f"a convention is 'default' or 'paper', not {convention!r}")


def _scattered(cell: IntArray, values: FloatArray, cells: int) -> tuple[FloatArray, BoolArray]:
    table, asked = np.full(cells, np.nan), np.zeros(cells, dtype=np.bool_)
    table[cell] = values
    asked[cell] = True
    return table, asked


def _values(value: Sequence[float | None] | FloatArray, names: Sequence[Sequence[str]]) -> FloatArray:
    values = np.array(value, dtype=np.float64)  # None becomes NaN
    if any(len(column) != len(values) for column in names):
        lengths = ", ".join(map(str, [*map(len, names), len(values)]))
        raise MetricError(f"columns of {lengths} rows came; all columns of judgements are equally long")
    if np.isinf(values).any():
        raise MetricError("an infinite judgement came; a value is a finite number, or missing")
    return values


def _check_range(values: FloatArray) -> None:
    outside = values[(values < 0) | (values > 1)]
    if len(outside):
        raise MetricError(
            f"a comparison of {outside[0]:g} came; its value says how far the first is better: 1 it is, 0 the second "
            "is, 0.5 neither, or between them"
        )


def _check_one_scale(rows: Sequence[JudgementEvidence]) -> None:
    scales = sorted({row.scale for row in rows})
    if len(scales) > 1:
        raise MetricError(f"judgements on {len(scales)} scales came ({', '.join(scales)}); choose those of one")


def _check_unique(cell: IntArray) -> None:
    if len(np.unique(cell)) < len(cell):
        raise MetricError(
            f"{len(cell) - len(np.unique(cell))} of {len(cell)} judgements repeat the reviewer, task and agents of "
            "another: keep one of them, or name repeated reviews as reviewers of their own"
        )


def _check_heard(reviewers: Sequence[str], who: IntArray) -> None:
    heard = set(who.tolist())
    silent = [name for number, name in enumerate(reviewers) if number not in heard]
    if silent:
        raise MetricError(f"no judgement of {', '.join(map(repr, silent))} is there on these tasks and agents")


def _names(given: Sequence[str] | None, found: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(found if given is None else given))


def _numbered(names: Sequence[str], column: Sequence[str]) -> IntArray:
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(name, -1) for name in column], dtype=np.int64)
