"""Judgements as arrays: what each reviewer said of every pair in either order, or of every response.

A missing value is NaN, and ``asked`` says whether it was requested: absent is neither 0 nor 0.5.

Recorded replies, read as the papers read them, reproduce the published numbers: whichever of "one" and "two" is first
decides, even inside a word ("None of them" counts as one, as does "being concise in tone"), and a number counts even
if it is outside the scale (8 of 5, 170 of 100). Otherwise a scale reads its own replies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError, nearest

Convention = Literal["default", "paper", "pre", "auto-pre"]
"""Rules for counting judgements. ``default``: a missing one is left out and reported as missing. ``pre``, ``auto-pre``:
a missing comparison counts as no preference, 0.5, and a missing rating as 0; they differ in how a panel adds up
ratings and weighs votes. ``paper``: the same as ``auto-pre``."""
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
        check_convention(convention)
        if convention == "default":
            return self.value
        result: FloatArray = np.where(self.asked & np.isnan(self.value), self.missing, self.value)
        return result


@dataclass(frozen=True, eq=False)
class PairJudgements(JudgementTable):
    """All comparisons; ``low`` is the agent of a pair with the lower number.

    Values [reviewers, pairs, 2]: how far low is better, from 0 to 1, with low shown first and with low shown second.
    """

    task: IntArray
    """[pairs]"""
    low: IntArray
    high: IntArray
    missing = NEITHER


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
    rows = judgements.drop_nulls("second")
    _check_rows(rows)
    _check_range(rows["value"])
    rows, names = _numbered(rows, {"reviewer": reviewers, "task": tasks, "first": agents, "second": agents})
    left, right, values = (rows[column].to_numpy() for column in ("first", "second", "value"))
    if np.any(left == right):
        row = rows.row(int(np.flatnonzero(left == right)[0]), named=True)
        raise MetricError(f"task {names['task'][row['task']]}: {names['first'][row['first']]} is compared with itself")
    low, high, turned = np.minimum(left, right), np.maximum(left, right), (left > right).astype(np.int64)
    count = len(names["first"])
    keys, pair = np.unique((rows["task"].to_numpy() * count + low) * count + high, return_inverse=True)
    shape = len(names["reviewer"]), len(keys), 2
    cell = (rows["reviewer"].to_numpy() * len(keys) + pair) * 2 + turned
    table, asked = _scattered(cell, np.where(turned == 1, 1 - values, values), int(np.prod(shape)))
    return PairJudgements(
        tuple(names["reviewer"]),
        tuple(names["task"]),
        tuple(names["first"]),
        task=keys // count**2,
        low=keys // count % count,
        high=keys % count,
        value=table.reshape(shape),
        asked=asked.reshape(shape),
    )


def response_ratings(
    judgements: pl.DataFrame,
    *,
    reviewers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> ResponseRatings:
    """Ratings as arrays. If names are given, they order the arrays and all others are left out."""
    rows = judgements.drop_nulls("agent")
    _check_rows(rows)
    rows, names = _numbered(rows, {"reviewer": reviewers, "task": tasks, "agent": agents})
    shape = len(names["reviewer"]), len(names["task"]), len(names["agent"])
    who, at, whom = (rows[column].to_numpy() for column in ("reviewer", "task", "agent"))
    table, asked = _scattered((who * shape[1] + at) * shape[2] + whom, rows["value"].to_numpy(), int(np.prod(shape)))
    return ResponseRatings(
        tuple(names["reviewer"]),
        tuple(names["task"]),
        tuple(names["agent"]),
        value=table.reshape(shape),
        asked=asked.reshape(shape),
    )


def reviewer_numbers(known: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Indices of the wanted reviewers among the known ones."""
    for name in wanted:
        if name not in known:
            raise MetricError(f"no judgement by reviewer {name!r}{nearest(name, known)}. Found: {', '.join(known)}")
    return [known.index(name) for name in wanted]


def check_convention(convention: str) -> None:
    """Refuse an unknown convention."""
    if convention not in get_args(Convention):
        raise MetricError(f"convention must be one of {', '.join(get_args(Convention))}, got {convention!r}")


def _scattered(cell: IntArray, values: FloatArray, cells: int) -> tuple[FloatArray, BoolArray]:
    """Values and whether one was requested, by cell. Raises where two judgements have one cell."""
    table, asked = np.full(cells, np.nan), np.zeros(cells, dtype=np.bool_)
    table[cell] = values
    asked[cell] = True
    repeated = len(cell) - int(asked.sum())
    if repeated:
        raise MetricError(
            f"{repeated} of {len(cell)} judgements repeat the reviewer, task and agents of another. "
            "Keep one of them, or give repeated reviews different reviewer names"
        )
    return table, asked


def _check_rows(rows: pl.DataFrame) -> None:
    scales = sorted(rows["format"].unique().to_list())
    if len(scales) > 1:
        raise MetricError(f"judgements must be on one scale, got {len(scales)} ({', '.join(scales)}). Choose one")
    if rows["value"].is_infinite().any():
        raise MetricError("a judgement's value must be a finite number or missing, got infinity")


def _check_range(values: pl.Series) -> None:
    outside = values.drop_nulls().filter((values.drop_nulls() < 0) | (values.drop_nulls() > 1))
    if len(outside):
        raise MetricError(
            f"the value of a comparison must be between 0 and 1, got {outside[0]:g}. "
            "1 means the first is better, 0 the second, 0.5 neither"
        )


def _numbered(
    rows: pl.DataFrame, given: Mapping[str, Sequence[str] | None]
) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Rows whose names are all known, as numbers, missing values as NaN; and the names by column."""
    agents = [name for name in ("first", "second") if name in given]
    names: dict[str, list[str]] = {}
    for column, known in given.items():
        both = [pl.col(agents).cast(pl.String)] if column in agents else [pl.col(column).cast(pl.String)]
        found = _appearing(rows.select(both)) if known is None else known
        names[column] = list(dict.fromkeys(found))
    numbers = [pl.col(column).cast(pl.Enum(known), strict=False) for column, known in names.items()]
    kept = rows.select(*numbers, pl.col("value").fill_null(np.nan)).drop_nulls(list(names))
    kept = kept.with_columns(pl.col(column).to_physical().cast(pl.Int64) for column in names)
    heard = set(kept["reviewer"].unique().to_list())
    silent = [name for number, name in enumerate(names["reviewer"]) if number not in heard]
    if silent:
        raise MetricError(f"no judgement by {', '.join(map(repr, silent))} on these tasks and agents")
    return kept, names


def _appearing(columns: pl.DataFrame) -> list[str]:
    """The names in some columns in the order they appear, row by row."""
    if columns.width == 1:
        return columns.to_series().unique(maintain_order=True).to_list()
    return columns.select(pl.concat_list(pl.all()).explode()).to_series().unique(maintain_order=True).to_list()


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
