"""Features of texts that a judge may favour: length and markup, and their correlation with scores."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.statistics.bootstrap import Draws, Estimate, task_intervals
from goldless.studies import Study

NO_SPREAD = "no interval: all tasks give the same value"
ROUNDING = 1e-12
"""A sum of squares below this share of the squares themselves is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """A feature that can be counted in a response."""

    bias: Literal["length", "format"]
    more: str
    """The word for a response with more of it."""
    scale: str
    """The meaning of the values, for the correlation."""
    values: pl.DataFrame
    """task and agent as numbers, and the value x of every response."""


def text_features(study: Study) -> tuple[Feature, Feature]:
    """Length and markup of every response."""
    texts = study.response_table["text"].to_list()
    names = {"task": study.task_names, "agent": study.agent_names}
    counted = study.response_table.select(pl.col(c).cast(n).to_physical().cast(pl.Int64) for c, n in names.items())
    words = pl.Series("x", [math.log2(1 + count_words(text)) for text in texts], pl.Float64)
    marks = pl.Series("x", [count_format_marks(text) for text in texts], pl.Float64)
    return (
        Feature("length", "longer", "log words", counted.with_columns(words)),
        Feature("format", "more marked-up", "format marks", counted.with_columns(marks)),
    )


def within_correlation(
    scores: FloatArray, feature: pl.DataFrame, ratings: FloatArray | None, *, draws: Draws
) -> tuple[Estimate, int]:
    """Correlation of scores [tasks, agents] and feature within groups of one task and one rating, None: one task.

    Also how many responses it is about. Groups are within tasks, so sums of squares and products are sums over tasks,
    S_t, and whole tasks are resampled. The interval is that of Fisher's z = artanh r as the mean over the T tasks of
    z + T (Sxy_t / sqrt(Sxx Syy) - r / 2 (Sxx_t / Sxx + Syy_t / Syy)) / (1 - r²), which has the same value, and the same
    spread to first order. Groups in which the feature is the same for all carry no information and are left out.
    """
    place = feature["task"].to_numpy(), feature["agent"].to_numpy()
    label = np.zeros(len(feature)) if ratings is None else ratings[place]
    more = pl.DataFrame({"label": label, "y": scores[place]}, nan_to_null=True)
    rows = feature.select("task", "x").hstack(more).drop_nulls("label")
    group = ("task", "label")
    varies = pl.col("x").max().over(group) > pl.col("x").min().over(group)
    about = rows.filter(varies)
    used = about.drop_nulls("y").filter(varies)
    asked, n, level = len(about), len(used), draws["level"]
    if not n:
        note = "no two responses to a task with the same label differ in this feature"
        return Estimate(None, None, None, 0, level, note), asked
    x, y = (pl.col(name) - pl.col(name).mean().over(group) for name in ("x", "y"))
    products = used.select("task", xx=x * x, yy=y * y, xy=x * y)
    sums = products.group_by("task", maintain_order=True).sum().drop("task").to_numpy()
    xx, yy, xy = sums.sum(axis=0)
    if yy <= ROUNDING * np.sum(used["y"].to_numpy() ** 2):
        note = "the score does not vary at equal label"
        return Estimate(None, None, None, n, level, note, n_tasks=len(sums)), asked
    r = float(xy / np.sqrt(xx * yy))
    if 1 - abs(r) <= ROUNDING:
        note = "no interval: the score is an exact function of the feature"
        return Estimate(r, None, None, n, level, note, n_tasks=len(sums)), asked
    influence = sums[:, 2] / np.sqrt(xx * yy) - r / 2 * (sums[:, 0] / xx + sums[:, 1] / yy)
    linear = np.arctanh(r) + len(sums) * influence / (1 - r**2)
    (found,) = task_intervals(linear[:, None], **draws)
    if found.low is None or found.high is None or found.low == found.high:
        return Estimate(r, None, None, n, level, found.note or NO_SPREAD, n_tasks=found.n), asked
    low, high = (float(np.tanh(end)) for end in (found.low, found.high))
    return Estimate(r, low, high, n, level, None, found.method, found.n), asked


# --- what is counted -----------------------------------------------------------------------------------------------

# Chinese and Japanese are written without spaces: each sign stands for a word
_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_SIGN}]|[^\W{_SIGN}]+(?:['\u2019-][^\W{_SIGN}]+)*")

FORMAT_MARKS: Mapping[str, re.Pattern[str]] = {
    "headings": re.compile(r"^[ ]{0,3}#{1,6}[ \t]+\S|<h[1-6]\b", re.MULTILINE | re.IGNORECASE),
    "list items": re.compile(
        r"^[ \t]*(?:[-*+\u2022\u2023\u25e6\u25aa]|\d{1,3}[.)])[ \t]+\S|<li\b", re.MULTILINE | re.IGNORECASE
    ),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|(?<!\w)__[^_\n]+__(?!\w)|<(?:b|strong)>", re.IGNORECASE),
    "table rows": re.compile(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE),
}
"""Marks that are counted: Markdown, plain bullets and their HTML equivalents."""


def count_words(text: str) -> int:
    """Number of words; "don't" and "well-known" are one word each, as is each Chinese or Japanese character."""
    return sum(1 for _ in _WORD.finditer(text))


def count_format_marks(text: str) -> int:
    """Number of headings, list items, bold passages and table rows."""
    return sum(1 for pattern in FORMAT_MARKS.values() for _ in pattern.finditer(text))
