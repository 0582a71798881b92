"""Judgements as arrays: what each reviewer said of every pair in either order, or of every response.

A missing value is NaN, and ``asked`` says whether it was requested: absent is neither 0 nor 0.5.

Recorded replies, read as the papers read them, reproduce the published numbers: whichever of "one" and "two" is first
decides, even inside a word ("None of them" counts as one, as does "being concise in tone"), and a number counts even
if it is outside the scale (8 of 5, 170 of 100). Otherwise a scale reads its own replies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError, check_known

Convention = Literal["default", "paper", "pre", "auto-pre"]
"""Rules for counting judgements. ``default``: a missing one is left out and reported as missing. ``pre``, ``auto-pre``:
a missing comparison counts as no preference, 0.5, and a missing rating as 0; they differ in how a panel adds up
ratings and weighs votes. ``paper``: the same as ``auto-pre``."""
Names = tuple[str, ...]
NEITHER = 0.5
"""The value of a comparison that finds neither better."""


@dataclass(frozen=True, eq=False)
class JudgementTable:
    """Reviewers' judgements on one scale."""

    reviewers: tuple[str, ...]
    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    value: FloatArray
    """By reviewer in the first dimension; NaN: missing."""
    asked: BoolArray
    """As ``value``: whether the judgement was requested."""
    missing: ClassVar[float]
    """The value of a missing judgement in the papers."""

    def of(self, reviewers: Sequence[str]) -> Self:
        """The judgements of these reviewers, in this order."""
        rows = reviewer_numbers(self.reviewers, reviewers)
        return replace(self, reviewers=tuple(reviewers), value=self.value[rows], asked=self.asked[rows])

    def filled(self, convention: Convention) -> FloatArray:
        """The values, with missing ones filled by the convention."""
        if convention == "default":
            return self.value
        result: FloatArray = np.where(self.asked & np.isnan(self.value), self.missing, self.value)
        return result


@dataclass(frozen=True, eq=False)
class ResponsePairs:
    """Pairs of responses to one task, sorted by task, low and high; ``low`` is the agent with the lower number."""

    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    task: IntArray
    low: IntArray
    high: IntArray

    def places(self, pairs: ResponsePairs) -> IntArray:
        """The index here of each pair of a table of the same tasks and agents; -1: it is not here."""
        key, own = ((one.task * len(self.agents) + one.low) * len(self.agents) + one.high for one in (pairs, self))
        if not len(own):
            return np.full(len(key), -1)
        place = np.searchsorted(own, key).clip(max=len(own) - 1)
        found: IntArray = np.where(own[place] == key, place, -1)
        return found


@dataclass(frozen=True, eq=False)
class PairJudgements(ResponsePairs, JudgementTable):
    """All comparisons.

    Values [reviewers, pairs, 2]: how far low is better, from 0 to 1, with low shown first and with low shown second.
    """

    missing = NEITHER

    def leans(self, convention: Convention) -> FloatArray:
        """The values from -1, high is better, to 1, low is; with missing ones filled by the convention."""
        return 2 * self.filled(convention) - 1

    def votes(self, leans: FloatArray) -> FloatArray:
        """[reviewers, pairs]: the mean over the orders asked; NaN where one of them is missing, or none was asked.

        Reviewers prefer one position to the other, so only both orders together are fair.
        """
        orders = self.asked.sum(axis=2)
        whole = (orders > 0) & ~(self.asked & np.isnan(leans)).any(axis=2)
        mean = np.where(self.asked, leans, 0.0).sum(axis=2) / np.maximum(orders, 1)
        found: FloatArray = np.where(whole, mean, np.nan)
        return found

    def in_order(self, order: Literal[0, 1]) -> PairJudgements:
        """The judgements of one order alone: 0 with low shown first, 1 with low shown second."""
        asked = self.asked & (np.arange(2) == order)
        return replace(self, asked=asked, value=np.where(asked, self.value, np.nan))


@dataclass(frozen=True, eq=False)
class ResponseRatings(JudgementTable):
    """All ratings: values [reviewers, tasks, agents]."""

    missing = 0.0


def pair_judgements(
    judgements: pl.DataFrame,
    *,
    reviewers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> PairJudgements:
    """Comparisons as arrays; ``value``: how far the first is better. If names are given, all others are left out."""
    rows, names = _numbered(judgements.drop_nulls("second"), ("first", "second"), (reviewers, tasks, agents))
    who, at, left, right, values = (rows[column].to_numpy() for column in rows.columns)
    for same in np.flatnonzero(left == right)[:1]:
        raise MetricError(f"task {names[1][at[same]]}: {names[2][left[same]]} is compared with itself")
    low, high, turned = np.minimum(left, right), np.maximum(left, right), (left > right).astype(np.int64)
    count = len(names[2])
    keys, pair = np.unique((at * count + low) * count + high, return_inverse=True)
    values = np.where(turned == 1, 1 - values, values)
    value, asked = _scattered((who, pair, turned), values, (len(names[0]), len(keys), 2))
    return PairJudgements(*names, value, asked, task=keys // count**2, low=keys // count % count, high=keys % count)


def response_ratings(
    judgements: pl.DataFrame,
    *,
    reviewers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> ResponseRatings:
    """Ratings as arrays. If names are given, they order the arrays and all others are left out."""
    rows, names = _numbered(judgements.drop_nulls("agent"), ("agent",), (reviewers, tasks, agents))
    *places, values = (rows[column].to_numpy() for column in rows.columns)
    return ResponseRatings(*names, *_scattered(tuple(places), values, tuple(map(len, names))))


def judgement_arrays(
    judgements: pl.DataFrame, *, reviewers: Sequence[str], tasks: Sequence[str], agents: Sequence[str]
) -> PairJudgements | ResponseRatings:
    """Judgements on one scale as arrays: comparisons, or ratings where none has a second agent."""
    arrays = pair_judgements if judgements["second"].count() else response_ratings
    return arrays(judgements, reviewers=reviewers, tasks=tasks, agents=agents)


def reviewer_numbers(known: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Indices of the wanted reviewers among the known ones."""
    check_known(wanted, known, "no judgement by reviewer", "Found", MetricError)
    return [known.index(name) for name in wanted]


def _scattered(
    places: tuple[IntArray, ...], values: FloatArray, shape: tuple[int, ...]
) -> tuple[FloatArray, BoolArray]:
    """Values and whether one was requested, by place. Raises where two judgements have one place."""
    table, asked = np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_)
    table[places] = values
    asked[places] = True
    repeated = len(values) - int(asked.sum())
    if repeated:
        raise MetricError(
            f"{repeated} of {len(values)} judgements repeat the reviewer, task and agents of another. "
            "Keep one of them, or give repeated reviews different reviewer names"
        )
    return table, asked


def _numbered(
    rows: pl.DataFrame, sides: Sequence[str], given: Sequence[Sequence[str] | None]
) -> tuple[pl.DataFrame, tuple[Names, Names, Names]]:
    """Reviewer, task, agents and value of the rows whose names are all known, as numbers; a missing value is NaN.

    And the names of reviewers, tasks and agents: those given, or as they appear.
    """

    def known(names: Sequence[str] | None, *columns: str) -> Names:
        appearing = rows.select(pl.concat_list(pl.col(*columns).cast(pl.String)).explode()).to_series()
        return tuple(dict.fromkeys(appearing.unique(maintain_order=True) if names is None else names))

    names = known(given[0], "reviewer"), known(given[1], "task"), known(given[2], *sides)
    kinds = {"reviewer": names[0], "task": names[1], **dict.fromkeys(sides, names[2])}
    numbers = [pl.col(column).cast(pl.Enum(kind), strict=False) for column, kind in kinds.items()]
    kept = rows.select(*numbers, pl.col("value").fill_null(np.nan)).drop_nulls(list(kinds))
    kept = kept.with_columns(pl.col(column).to_physical().cast(pl.Int64) for column in kinds)
    return kept, names


_ANYWHERE = re.compile(r"one|two", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_OUT_OF = re.compile(r"(?<=\d)\s*(?:/|out of)\s*\d+(?:\.\d+)?", re.IGNORECASE)


def read_pairwise(output: str) -> float | None:
    """1: the first is better, 0: the second, None: the reply has no verdict, which the papers score 0.5 later on."""
    found = _ANYWHERE.search(output)
    return None if found is None else float(found[0].lower() == "one")


def read_rating(output: str) -> float | None:
    """The first number in a reply, None if there is none."""
    found = _NUMBER.search(_OUT_OF.sub(" ", output))
    return None if found is None else float(found[0])
