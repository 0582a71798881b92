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
from goldless.meta_evaluation.judges import numbers
from goldless.metrics.pair_labels import LEAST_PREFERENCE, ROUNDING
from goldless.records import Preference, Rating
from goldless.statistics.bootstrap import (
    Draws,
    Estimate,
    Method,
    groups_left_out,
    left_out_intervals,
    task_intervals,
    task_shares,
)
from goldless.statistics.rank_correlation import rank_correlations
from goldless.statistics.standings import score_table

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


@dataclass(frozen=True, slots=True)
class Reliability:
    """Krippendorff's alpha with its interval: 1 all agree, 0 as by chance, below 0 worse than chance."""

    alpha: float | None
    """None: not defined, ``note`` says why."""
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    measurement: Measurement
    n_units: int
    """Units with values from two or more raters."""
    n_values: int
    """Values of these units."""
    unpaired: int
    """Values left out because no other rater gave the same unit a value."""
    n_tasks: int
    level: float
    method: Method | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """One rater compared with all others."""

    rater: str
    accuracy: Estimate
    spearman: Estimate | None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How far raters agree with each other."""

    source: Literal["ratings", "preferences"] | None
    n_raters: int
    alpha: Reliability | None
    accuracy: Estimate | None
    """Of one rater compared with the others, averaged over all raters."""
    tied: int
    """Comparisons that the others left undecided, so that a rater could not be compared with them."""
    spearman: Estimate | None
    """Mean over tasks of the mean over raters; None: there are no ratings."""
    undefined: int
    """Tasks of a rater on which Spearman's coefficient is not defined."""
    raters: tuple[RaterAgreement, ...]
    """Empty if there are more than 50 raters, or if names are not those of people."""
    named: bool
    """Whether the raters' names are those of people; if not, ratings were assigned to names at random."""
    note: str | None = None
    within: Mapping[str, Estimate] = field(default_factory=dict)
    """Of ratings and of preferences: mean over tasks of alpha within each, without the largest and smallest label."""


@dataclass(frozen=True, slots=True, eq=False)
class _Voices:
    """One value per rater and unit; a unit is a response or a pair of responses."""

    value: FloatArray
    unit: IntArray
    task: IntArray
    rater: IntArray
    raters: tuple[str, ...]


def human_ceiling(
    ratings: Sequence[Rating],
    preferences: Sequence[Preference],
    *,
    tasks: Sequence[str],
    agents: Sequence[str],
    measurement: Measured = "auto",
    draws: Draws,
) -> Ceiling:
    """The ceiling by ratings, or by preferences where no response was rated twice."""
    rated, preferred = _voices(ratings, tasks, agents, 1), _voices(preferences, tasks, agents, 2)
    votes = np.where(np.abs(preferred.value) > LEAST_PREFERENCE + ROUNDING, np.sign(preferred.value), 0.0)
    compared = replace(preferred, value=votes)
    shared = [len(np.unique(voices.unit)) < len(voices.unit) for voices in (rated, compared)]
    by_ratings = shared[0] or not shared[1]
    voices = rated if by_ratings else compared
    n_raters = len(set(rated.raters) | set(compared.raters))
    if not any(shared):
        why = "one rater" if n_raters == 1 else "no response was labelled by two raters"
        return Ceiling(None, n_raters, None, None, 0, None, 0, (), named=True, note=f"none: {why}")
    alpha = _reliability(voices, _measurement(voices, measurement, by_ratings=by_ratings), draws)
    found = _by_ratings(voices, alpha, len(agents), draws) if by_ratings else _by_preferences(voices, alpha, draws)
    return replace(found, within=_within(rated, preferred, measurement, draws))


def _within(rated: _Voices, preferred: _Voices, wanted: Measured, draws: Draws) -> dict[str, Estimate]:
    """Alpha within tasks, where most labelled units have at least four labels."""
    found = {}
    for name, voices in (("ratings", rated), ("preferences", preferred)):
        if len(voices.unit) and np.median(np.unique(voices.unit, return_counts=True)[1]) >= MANY_LABELS:
            measurement = _measurement(voices, wanted, by_ratings=name == "ratings")
            found[name] = _alpha_within_tasks(voices, measurement, draws)
    return found


def _measurement(voices: _Voices, wanted: Measured, *, by_ratings: bool) -> Measurement:
    if wanted != "auto":
        return wanted
    return "ordinal" if not by_ratings or len(np.unique(voices.value)) <= FEW_VALUES else "interval"


# --- each rater and the others ---------------------------------------------------------------------------------------


def _by_ratings(voices: _Voices, alpha: Reliability, agents: int, draws: Draws) -> Ceiling:
    """Each rater's ratings and the medians of the others'."""
    named = not _sorted_by_name(voices)
    dealt = [voices.rater] if named else _dealt(voices, draws["seed"])
    held = [_against_others(voices, rater, agents) for rater in dealt]
    pairs, rows = (pl.concat(frames) for frames in zip(*held, strict=True))
    decided = pairs.drop_nulls()
    share = task_shares(decided["credit"].to_numpy()[None], decided["task"].to_numpy(), **draws)[0]
    note = (
        "the ratings of every response are sorted by the raters' names, so the names are not those of people; "
        f"ratings were assigned to names at random, {SHUFFLES} times"
    )
    return Ceiling(
        "ratings",
        len(voices.raters),
        alpha,
        replace(share, n=share.n // len(dealt)),
        tied=pairs["credit"].null_count() // len(dealt),
        spearman=_mean_over_tasks(rows, draws),
        undefined=int(rows["spearman"].is_nan().sum()) // len(dealt),
        raters=_one_by_one(voices.raters, decided, rows, draws) if named else (),
        named=named,
        note=None if named else note,
    )


def _by_preferences(voices: _Voices, alpha: Reliability, draws: Draws) -> Ceiling:
    """Each rater's preference and the majority of the others'; preferences up to 0.5 are not votes."""
    _, unit = np.unique(voices.unit, return_inverse=True)
    net = np.bincount(unit, weights=voices.value)[unit] - voices.value
    shared = np.bincount(unit)[unit] > 1
    found = pl.DataFrame({"rater": voices.rater, "task": voices.task, "credit": (1 + voices.value * np.sign(net)) / 2})
    decided = found.filter(shared & (np.abs(net) > ROUNDING))
    share = task_shares(decided["credit"].to_numpy()[None], decided["task"].to_numpy(), **draws)[0]
    raters, tied = _one_by_one(voices.raters, decided, None, draws), int(shared.sum()) - len(decided)
    return Ceiling("preferences", len(voices.raters), alpha, share, tied, None, 0, raters, named=True)


def _one_by_one(
    names: Sequence[str], decided: pl.DataFrame, rows: pl.DataFrame | None, draws: Draws
) -> tuple[RaterAgreement, ...]:
    """The rater, task and credit of each decided pair, and Spearman's of each rater and task, rater by rater."""
    if len(names) > LISTED_RATERS:
        return ()
    credit, rater = decided["credit"].to_numpy(), decided["rater"].to_numpy()
    own = np.where(rater[None] == np.arange(len(names))[:, None], credit[None], np.nan)
    shares = task_shares(own, decided["task"].to_numpy(), **draws)
    return tuple(
        RaterAgreement(
            name, share, None if rows is None else _mean_over_tasks(rows.filter(pl.col("rater") == number), draws)
        )
        for number, (name, share) in enumerate(zip(names, shares, strict=True))
    )


def _against_others(voices: _Voices, rater: IntArray, agents: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rater, task and credit of each pair, null where the others are tied; rater, task and Spearman's coefficient."""
    n_tasks = int(voices.task.max()) + 1
    keys, row = np.unique(rater * n_tasks + voices.task, return_inverse=True)
    tables = np.full((2, len(keys), agents), np.nan)
    tables[:, row, voices.unit % agents] = voices.value, _medians_of_others(voices.value, voices.unit)
    low, high = np.triu_indices(agents, k=1)
    differences = tables[:, :, low] - tables[:, :, high]
    own, other = np.where(np.abs(differences) <= ROUNDING, 0.0, np.sign(differences))
    place, pair = np.nonzero(~np.isnan(own + other))
    who = pl.DataFrame({"rater": keys // n_tasks, "task": keys % n_tasks})
    credit = np.where(other[place, pair] == 0, np.nan, (1 + own[place, pair] * other[place, pair]) / 2)
    pairs = who[place].with_columns(pl.Series("credit", credit, nan_to_null=True))
    return pairs, who.with_columns(spearman=rank_correlations(tables[0], tables[1]))


def _medians_of_others(value: FloatArray, unit: IntArray) -> FloatArray:
    """For each rating the median of all others of its response; NaN: there are none."""
    order = np.lexsort((value, unit))
    ordered, units = value[order], unit[order]
    _, begin, size = np.unique(units, return_index=True, return_counts=True)
    start, m = np.repeat(begin, size), np.repeat(size, size)
    place = np.arange(len(ordered)) - start
    middle = []
    for rank in ((m - 2) // 2, (m - 1) // 2):
        skipped = np.clip(rank + (rank >= place), 0, m - 1)
        middle.append(ordered[start + skipped])
    found = np.empty(len(value))
    found[order] = np.where(m > 1, (middle[0] + middle[1]) / 2, np.nan)
    return found


def _sorted_by_name(voices: _Voices) -> bool:
    """Whether every response's ratings ascend, or every one's descend, with the raters' names."""
    names = np.argsort(np.argsort(np.array(voices.raters)))
    order = np.lexsort((names[voices.rater], voices.unit))
    steps = np.diff(voices.value[order])
    steps = steps[np.diff(voices.unit[order]) == 0]
    unlike = np.abs(steps) > ROUNDING
    if np.sum(unlike) < SURELY_SORTED:
        return False
    return bool((steps[unlike] > 0).all() or (steps[unlike] < 0).all())


def _dealt(voices: _Voices, seed: int) -> list[IntArray]:
    """The raters of each response in random order, several times."""
    random = np.random.default_rng(seed)
    by_unit = np.argsort(voices.unit, kind="stable")
    found = []
    for _ in range(SHUFFLES):
        shuffled = np.lexsort((random.random(len(voices.unit)), voices.unit))
        rater = np.empty_like(voices.rater)
        rater[by_unit] = voices.rater[shuffled]
        found.append(rater)
    return found


def _mean_over_tasks(rows: pl.DataFrame, draws: Draws) -> Estimate:
    """The mean over tasks of the mean of their rows."""
    task = rows["task"].to_numpy()
    tables = {"tasks": int(task.max()) + 1, "agents": 1}
    return task_intervals(score_table(task, np.zeros_like(task), rows["spearman"].to_numpy(), **tables), **draws)[0]


# --- alpha -----------------------------------------------------------------------------------------------------------


def _reliability(voices: _Voices, measurement: Measurement, draws: Draws) -> Reliability:
    """Krippendorff's alpha. Raters are interchangeable, so their names are not needed."""
    code = np.unique(voices.unit, return_inverse=True)[1]
    paired = np.bincount(code)[code] > 1
    values, code, task = voices.value[paired], code[paired], voices.task[paired]
    group, n_tasks = groups_left_out(task)
    counted = measurement, len(np.unique(code)), len(values), int(np.sum(~paired)), n_tasks
    whole = _alpha(values, code, measurement)
    if np.isnan(whole):
        return Reliability(None, None, None, *counted, draws["level"], note="not defined: all values are equal")
    without = [_alpha(values[group != g], code[group != g], measurement) for g in range(int(group.max()) + 1)]
    left_out = np.array(without)[:, None]
    found = left_out_intervals([whole], left_out, n_tasks=n_tasks, lowest=-np.inf, **draws)[0]
    return Reliability(whole, found.low, found.high, *counted, found.level, found.method, found.note)


def _alpha_within_tasks(voices: _Voices, measurement: Measurement, draws: Draws) -> Estimate:
    """Mean over tasks of alpha within each, with the largest and the smallest value of every unit left out (PRE, 4.5).

    Units with fewer than four values are left out, and so are tasks on which alpha is not defined.
    """
    order = np.lexsort((voices.value, voices.unit))
    values, task = voices.value[order], voices.task[order]
    _, code, size = np.unique(voices.unit[order], return_inverse=True, return_counts=True)
    place = np.arange(len(code)) - (np.cumsum(size) - size)[code]
    inner = (place > 0) & (place < size[code] - 1) & (size[code] >= MANY_LABELS)
    found = []
    for name in np.unique(task[inner]):
        own = inner & (task == name)
        found.append(_alpha(values[own], np.unique(code[own], return_inverse=True)[1], measurement))
    return task_intervals(np.array(found, dtype=np.float64)[:, None], **draws)[0]


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


# --- what was said ---------------------------------------------------------------------------------------------------


def _voices(labels: Sequence[Rating | Preference], tasks: Sequence[str], agents: Sequence[str], size: int) -> _Voices:
    """The labels of units of ``size`` agents. A rater who said several things of one unit has one voice: their mean."""
    task_number, agent_number = numbers(tasks), numbers(agents)
    said: dict[tuple[int, str], list[float]] = {}
    for label in labels:
        if isinstance(label, Rating):
            places, value = [agent_number.get(label.agent, -1)], label.score
        else:
            places, value = [agent_number.get(name, -1) for name in (label.first, label.second)], label.preference
        key = task_number.get(label.task, -1)
        if min(key, *places) < 0:
            continue
        for place in sorted(places):
            key = key * len(agents) + place
        said.setdefault((key, label.rater), []).append(value if places == sorted(places) else -value)
    raters = tuple(dict.fromkeys(rater for _, rater in said))
    number = numbers(raters)
    unit = np.array([unit for unit, _ in said], dtype=np.int64)
    return _Voices(
        value=np.array([sum(values) / len(values) for values in said.values()], dtype=np.float64),
        unit=unit,
        task=unit // len(agents) ** size,
        rater=np.array([number[rater] for _, rater in said], dtype=np.int64),
        raters=raters,
    )
