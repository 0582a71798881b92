"""The ceiling: how far people agree with each other, which no metric can be expected to exceed by much.

Each rater is compared with the others as a metric is compared with all of them: pairwise accuracy by the sign of the
others' medians (for preferences: the others' majority), and Spearman's coefficient with the others' medians over the
responses to a task. And Krippendorff's alpha over all raters, 1 - D_o / D_e: D_o is the mean squared distance of two
values of the same unit, D_e that of any two values; units with one value say nothing and are left out
(K. Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011). Squared distances: nominal 0 or 1; interval
(a - b)²; ordinal the square of the difference of their ranks, ties shared, among all values used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import polars as pl

from goldless.arrays import FloatArray, IntArray
from goldless.metrics.pair_labels import LEAST_PREFERENCE, ROUNDING, rater_voices, side
from goldless.statistics.bootstrap import (
    Draws,
    Estimate,
    groups_left_out,
    left_out_intervals,
    task_intervals,
    task_shares,
)

Measurement = Literal["nominal", "ordinal", "interval"]
Measured = Literal["auto", "nominal", "ordinal", "interval"]

FEW_VALUES = 20
"""Ratings with at most this many different values are ordinal levels; with more, they are numbers."""
SURELY_SORTED = 20
"""With this many responses whose ratings all follow the order of the raters' names, the names are not real people."""
SHUFFLES = 20
LISTED_RATERS = 50
"""Up to this many raters are reported one by one."""
MANY_LABELS = 4
"""Labels per unit from which two remain without the largest and the smallest."""


@dataclass(frozen=True)
class Reliability:
    """Krippendorff's alpha: 1 all agree, 0 as by chance, below 0 worse than chance."""

    estimate: Estimate
    measurement: Measurement
    n_units: int
    """Units with values from two or more raters."""
    n_values: int
    """Values of these units."""
    unpaired: int
    """Values left out because no other rater gave the same unit a value."""


@dataclass(frozen=True)
class RaterAgreement:
    """One rater compared with all others."""

    rater: str
    accuracy: Estimate
    spearman: Estimate | None


@dataclass(frozen=True)
class Ceiling:
    """Agreement of raters with each other."""

    source: Literal["ratings", "preferences"] | None
    n_raters: int
    alpha: Reliability | None = None
    accuracy: Estimate | None = None
    """Of one rater compared with the others, averaged over all raters."""
    tied: int = 0
    """Comparisons that the others left undecided, so that a rater could not be compared with them."""
    spearman: Estimate | None = None
    """Mean over tasks of the mean over raters; None: there are no ratings."""
    undefined: int = 0
    """Tasks of a rater on which Spearman's coefficient is not defined."""
    raters: tuple[RaterAgreement, ...] = ()
    """Empty if there are more than 50 raters, or if names are not those of people."""
    named: bool = True
    """True if the raters' names are those of people; if not, ratings were assigned to names at random."""
    note: str | None = None
    within: Mapping[str, Estimate] = field(default_factory=dict)
    """Of ratings and of preferences: mean over tasks of alpha within each, without the largest and smallest label."""


def human_ceiling(
    labels: pl.DataFrame,
    *,
    tasks: Sequence[str],
    agents: Sequence[str],
    measurement: Measured = "auto",
    draws: Draws,
) -> Ceiling:
    """The ceiling by ratings, or by preferences where no response was rated twice; ``labels``: those of a study."""
    low, high = pl.col("low"), pl.col("high")
    unit = (pl.col("task") * len(agents) + low) * len(agents) + high
    said = rater_voices(labels, tasks=tasks, agents=agents).with_columns(unit=unit).rename({"low": "agent"})
    compared = pl.col("agent") < high
    rated, preferred = said.filter(~compared), said.filter(compared)
    n_raters = pl.concat([rated["rater"], preferred["rater"]]).n_unique()
    votes = preferred.with_columns(value=side(pl.col("value"), LEAST_PREFERENCE))
    shared = [bool(voices["unit"].is_duplicated().any()) for voices in (rated, votes)]
    if not any(shared):
        why = "one rater" if n_raters == 1 else "no response was labelled by two raters"
        return Ceiling(None, n_raters, note=f"none: {why}")
    voices = rated if shared[0] else votes
    alpha = _reliability(voices, _measurement(voices, measurement, by_ratings=shared[0]), draws)
    found = _each_rater(voices, alpha, draws, rated=shared[0])
    within = {}
    for name, own in (("ratings", rated), ("preferences", preferred)):
        sizes = own.group_by("unit").len()["len"]
        if len(sizes) and float(np.median(sizes)) >= MANY_LABELS:
            level = _measurement(own, measurement, by_ratings=name == "ratings")
            within[name] = _alpha_within_tasks(own, level, draws)
    return replace(found, within=within)


def _measurement(voices: pl.DataFrame, wanted: Measured, *, by_ratings: bool) -> Measurement:
    if wanted != "auto":
        return wanted
    return "ordinal" if not by_ratings or voices["value"].n_unique() <= FEW_VALUES else "interval"


# --- each rater and the others ---------------------------------------------------------------------------------------


def _each_rater(voices: pl.DataFrame, alpha: Reliability, draws: Draws, *, rated: bool) -> Ceiling:
    """Each rater's ratings and the medians of the others', or preferences and the majority of the others'."""
    named = not rated or not _sorted_by_name(voices)
    dealt = [voices] if named else _dealt(voices, draws["seed"])
    pairs, rows = (pl.concat(frames) for frames in zip(*map(_medians if rated else _majorities, dealt), strict=True))
    decided = pairs.drop_nulls()
    share = task_shares(decided["credit"].to_numpy()[None], decided["task"].to_numpy(), **draws)[0]
    note = (
        "the ratings of every response are sorted by the raters' names, so the names are not those of people; "
        f"ratings were assigned to names at random, {SHUFFLES} times"
    )
    return Ceiling(
        "ratings" if rated else "preferences",
        voices["rater"].n_unique(),
        alpha,
        replace(share, n=share.n // len(dealt)),
        tied=pairs["credit"].null_count() // len(dealt),
        spearman=_mean_over_tasks(rows, draws) if rated else None,
        undefined=rows["spearman"].null_count() // len(dealt),
        raters=_one_by_one(voices, decided, rows if rated else None, draws) if named else (),
        named=named,
        note=None if named else note,
    )


def _one_by_one(
    voices: pl.DataFrame, decided: pl.DataFrame, rows: pl.DataFrame | None, draws: Draws
) -> tuple[RaterAgreement, ...]:
    """The credits of the decided pairs, and Spearman's of each rater and task, rater by rater."""
    names = voices["rater"].unique(maintain_order=True).to_list()
    if len(names) > LISTED_RATERS:
        return ()
    own = np.where(decided["rater"].to_numpy()[None] == np.array(names)[:, None], decided["credit"].to_numpy(), np.nan)
    shares = task_shares(own, decided["task"].to_numpy(), **draws)
    ranked = [None if rows is None else _mean_over_tasks(rows.filter(rater=name), draws) for name in names]
    return tuple(map(RaterAgreement, names, shares, ranked))


def _majorities(voices: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """As ``_medians``, of preferences, and without coefficients; preferences up to 0.5 are not votes."""
    other = side(pl.col("value").sum().over("unit") - pl.col("value"))
    credit = pl.when(other != 0).then((1 + pl.col("value") * other) / 2)
    shared = voices.with_columns(credit=credit).filter(pl.len().over("unit") > 1)
    return shared.select("rater", "task", "credit"), pl.DataFrame(schema={"spearman": pl.Float64})


def _medians(voices: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rater, task and credit of each pair, null where the others are tied; rater, task and Spearman's coefficient."""
    every = voices.join(voices.select("unit", other="rater", theirs="value"), on="unit", maintain_order="left")
    others = every.filter(pl.col("rater") != pl.col("other"))
    both = others.group_by("rater", "task", "agent", "value", maintain_order=True).agg(pl.col("theirs").median())
    pairs = both.join(both, on=["rater", "task"], suffix="_high").filter(pl.col("agent") < pl.col("agent_high"))
    own, other = (side(pl.col(name) - pl.col(f"{name}_high")) for name in ("value", "theirs"))
    pairs = pairs.select("rater", "task", credit=pl.when(other != 0).then((1 + own * other) / 2))
    ranked = pl.corr(pl.col("value").rank(), pl.col("theirs").rank()).fill_nan(None)
    rows = both.group_by("rater", "task", maintain_order=True).agg(spearman=ranked)
    return pairs, rows


def _sorted_by_name(voices: pl.DataFrame) -> bool:
    """True if every response's ratings ascend, or every one's descend, with the raters' names."""
    step = pl.col("value").diff().over("unit", order_by="rater")
    unlike = voices.select(step.alias("step")).filter(pl.col("step").abs() > ROUNDING)["step"]
    return len(unlike) >= SURELY_SORTED and bool((unlike > 0).all() or (unlike < 0).all())


def _dealt(voices: pl.DataFrame, seed: int) -> list[pl.DataFrame]:
    """The raters of each response in random order, several times."""
    random = np.random.default_rng(seed)
    unit, rater = voices["unit"].to_numpy(), voices["rater"].to_numpy()
    by_unit = np.argsort(unit, kind="stable")
    found = []
    for _ in range(SHUFFLES):
        dealt = np.empty_like(rater)
        dealt[by_unit] = rater[np.lexsort((random.random(len(unit)), unit))]
        found.append(voices.with_columns(rater=pl.Series(dealt, dtype=pl.String)))
    return found


def _mean_over_tasks(rows: pl.DataFrame, draws: Draws) -> Estimate:
    means = rows.group_by("task").agg(pl.col("spearman").mean()).sort("task")["spearman"]
    return task_intervals(means.cast(pl.Float64).to_numpy()[:, None], **draws)[0].within(-1.0, 1.0)


# --- alpha -----------------------------------------------------------------------------------------------------------


def _reliability(voices: pl.DataFrame, measurement: Measurement, draws: Draws) -> Reliability:
    """Krippendorff's alpha. Raters are interchangeable, so their names are not needed."""
    paired = voices.filter(pl.col("unit").is_duplicated())
    values, unit = paired["value"].to_numpy(), np.unique(paired["unit"].to_numpy(), return_inverse=True)[1]
    group, n_tasks = groups_left_out(paired["task"].to_numpy())
    counted = measurement, paired["unit"].n_unique(), len(paired), len(voices) - len(paired)
    whole = _alpha(values, unit, measurement)
    if np.isnan(whole):
        note = "not defined: all values are equal"
        return Reliability(Estimate(None, None, None, n_tasks, draws["level"], note), *counted)
    without = [_alpha(values[group != g], unit[group != g], measurement) for g in range(int(group.max()) + 1)]
    left_out = np.array(without)[:, None]
    found = left_out_intervals([whole], left_out, n_tasks=n_tasks, lowest=-np.inf, **draws)[0]
    return Reliability(found, *counted)


def _alpha_within_tasks(voices: pl.DataFrame, measurement: Measurement, draws: Draws) -> Estimate:
    """Mean over tasks of alpha within each, with the largest and the smallest value of every unit left out (PRE, 4.5).

    Units with fewer than four values are left out, and so are tasks on which alpha is not defined.
    """
    place = pl.col("value").rank("ordinal").over("unit")
    inner = voices.filter((place > 1) & (place < pl.len().over("unit")) & (pl.len().over("unit") >= MANY_LABELS))
    found = []
    for _, own in inner.sort("task", "unit").group_by("task", maintain_order=True):
        unit = np.unique(own["unit"].to_numpy(), return_inverse=True)[1]
        found.append(_alpha(own["value"].to_numpy(), unit, measurement))
    return task_intervals(np.array(found, dtype=np.float64)[:, None], **draws)[0].within(-np.inf, 1.0)


def _alpha(values: FloatArray, unit: IntArray, measurement: Measurement) -> float:
    """Alpha of values whose units all have two or more; NaN: not defined."""
    if len(values) == 0 or values.min() == values.max():
        return np.nan
    _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
    size = np.bincount(unit).astype(np.float64)
    share = np.divide(1.0, size - 1, out=np.zeros_like(size), where=size > 1)
    n = len(values)
    if measurement == "nominal":
        alike = np.unique(unit * len(counts) + level, return_counts=True)
        same = np.bincount(alike[0] // len(counts), weights=alike[1].astype(np.float64) ** 2, minlength=len(size))
        observed = float((share * (size**2 - same)).sum())
        expected = (n**2 - float((counts.astype(np.float64) ** 2).sum())) / (n - 1)
        return 1 - observed / expected
    placed = values if measurement == "interval" else (np.cumsum(counts) - counts / 2)[level]
    placed = placed - placed.mean()  # sums of squares then lose no digits
    sums, squares = np.bincount(unit, weights=placed), np.bincount(unit, weights=placed**2)
    observed = float((share * 2 * (size * squares - sums**2)).sum())
    expected = 2 * (n * float(squares.sum()) - float(placed.sum()) ** 2) / (n - 1)
    return 1 - observed / expected
