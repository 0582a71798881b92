"""TVD-MI between raters: how much one rater's labels reveal about another's, from the labels alone.

For two raters with label categories i and j on their common items, TVD-MI is ½ Σ_ij |P_ij - P_i P_j| (the TVD-MI
paper, equation 1, on discrete labels as in section 4.3). It needs no agreement: a rater who says the opposite every
time is as informative as one who says the same.

The value of a finite table is biased upward: raters who label at random score above 0, at 100 items and 3 categories
by .04 to .07. So each value comes with its permutation null, the mean value after every rater's labels were shuffled
over that rater's items, with the excess over it, and with p, the share of shuffles that reach the value. Resampling
items would add the same bias once more; intervals of groups of raters come from leaving out each task in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from goldless.arrays import FloatArray, IntArray
from goldless.errors import MetricError, check_known
from goldless.metrics.metric import RESPONSES, MetricInput, Needs, Scores
from goldless.signature import table_hash
from goldless.statistics.bootstrap import Draws, Estimate, groups_left_out, left_out_intervals
from goldless.studies import Study

MOST_CATEGORIES = 12
ELEMENTS_AT_ONCE = 1 << 22
_ROUNDING = 1e-12

Items = Literal["pairwise", "complete"]
"""``pairwise``: each pair of raters on all items both labelled. ``complete``: all on the items that every rater
labelled."""


@dataclass(frozen=True)
class Information:
    """A value of TVD-MI, and the value expected by chance."""

    value: float
    """Between 0 and 1, biased upward."""
    null: float
    """Its mean over the permutations: what raters with the same label frequencies would reach by chance."""
    p: float
    """(1 + permutations that reach the value) / (1 + permutations)."""

    @property
    def excess(self) -> float:
        """The value minus its null."""
        return self.value - self.null


@dataclass(frozen=True)
class PairInformation:
    """TVD-MI of two raters."""

    first: str
    second: str
    items: int
    """Items that both labelled."""
    information: Information | None
    """None: they have no item in common."""


@dataclass(frozen=True)
class RaterInformation:
    """Mean TVD-MI of one rater with the others."""

    rater: str
    partners: int
    """Raters with items in common."""
    information: Information | None
    """None: no other rater labelled the same items."""


@dataclass(frozen=True)
class GroupInformation:
    """Mean over the raters of a group of their mean TVD-MI with all others (the TVD-MI paper, table 3)."""

    group: str | None
    """None: all raters."""
    raters: int
    estimate: Estimate
    """The value, whose interval includes its bias."""
    information: Information


@dataclass(frozen=True)
class LabelInformation:
    """TVD-MI between raters, and how it was computed."""

    overall: Information
    """Mean over the pairs of raters that have items in common."""
    raters: tuple[RaterInformation, ...]
    pairs: tuple[PairInformation, ...] = ()
    permutations: int = 0
    groups: tuple[GroupInformation, ...] = ()
    """All raters, then each group; empty if no groups are given."""


@dataclass(frozen=True)
class RaterMetric:
    """Information of raters' labels about each other's: preferences by their sign, else ratings by their value."""

    name: str
    unit: str = "total variation"

    @property
    def needs(self) -> Needs:
        return Needs(labels=True)

    def scores(self, data: MetricInput) -> Scores:
        """The results by criterion; agents get no scores."""
        study = data.study
        check_labels(study)
        labels = category_labels(study.label_table)
        parts = labels.partition_by("criterion", as_dict=True, maintain_order=True, include_key=False)
        items = {criterion: _items(rows) for (criterion,), rows in parts.items()}
        found = {
            criterion: label_information(
                rows,
                items=items[criterion],
                permutations=data.resamples,
                seed=data.seed,
                groups=data.rater_groups,
                level=data.level,
            )
            for (criterion,), rows in parts.items()
        }
        groups = ",".join(f"{rater}={group}" for rater, group in sorted(data.rater_groups.items()))
        settings = {
            "categories": "sign" if study.n_preferences else "values",
            "items": "+".join(sorted(set(items.values()))),
            "labels": table_hash(labels.select("criterion", "rater", "item", "category")),
            "null": "permutation",
            "permutations": str(data.resamples),
            **({"groups": groups} if groups else {}),
        }
        return Scores(pl.DataFrame(schema=RESPONSES), settings=settings, raters=found)


def check_labels(study: Study) -> None:
    """Refuse a study without labels."""
    if not study.n_preferences and not study.n_ratings:
        raise MetricError(f"{study.name} has no labels table, which tvd-mi[labels] needs")


def category_labels(table: pl.DataFrame) -> pl.DataFrame:
    """A study's labels as criterion, rater, task, item and category: a preference's sign, else a rating as it is.

    The item is the response, or the pair of responses: two raters who saw a pair in different orders labelled the same.
    """
    item, category = ["task", "agent"], pl.col("score")
    if table["second"].count():
        table = table.drop_nulls("second").with_columns(
            low=pl.min_horizontal("first", "second"), high=pl.max_horizontal("first", "second")
        )
        turned = pl.when(pl.col("first") == pl.col("low")).then("preference").otherwise(-pl.col("preference"))
        item, category = ["task", "low", "high"], turned.sign() + 0.0  # no minus zero
    return table.select("criterion", "rater", "task", item=pl.concat_str(item, separator="\n"), category=category)


def _items(labels: pl.DataFrame) -> Items:
    """On which items raters are compared: those all of them labelled, where that is most; else pair by pair."""
    raters = labels.group_by("item").agg(pl.col("rater").n_unique())["rater"]
    shared, by_all = (raters > 1).sum(), (raters == max(2, labels["rater"].n_unique())).sum()
    return "complete" if 2 * by_all >= shared > 0 else "pairwise"


def label_information(
    labels: pl.DataFrame,
    *,
    items: Items = "pairwise",
    permutations: int = 10_000,
    seed: int = 0,
    groups: Mapping[str, str] | None = None,
    level: float = 0.95,
) -> LabelInformation:
    """TVD-MI of every pair of raters, of every rater with the others, and overall, for the labels of one criterion.

    ``labels``: rater, task, item and category, as ``category_labels`` has them. ``groups``: the group of each rater by
    name; raters without one count among all raters only.
    """
    raters, categories, table, task = _table(labels, items)
    check_known(groups or (), raters, "no label by rater", "Raters", MetricError)
    pairs = list(itertools.combinations(range(len(raters)), 2))
    common = [int(((table[a] >= 0) & (table[b] >= 0)).sum()) for a, b in pairs]
    if not any(common):
        raise MetricError(
            "no item was labelled by two raters" if items == "pairwise" else "no item was labelled by every rater"
        )
    used = [pair for pair, n in zip(pairs, common, strict=True) if n]
    observed = _pair_values(table[:, None], used, len(categories))[0]
    null = _null(table, used, len(categories), permutations, seed)

    def intervals(weights: FloatArray) -> list[Estimate]:
        """Of weighted means of the pairs, by leaving out tasks."""
        out, n_tasks = groups_left_out(task)
        rest = [table[:, None, out != group] for group in range(int(out.max()) + 1)]
        without = np.stack([weights @ _pair_values(some, used, len(categories))[0] for some in rest])
        draws: Draws = {"level": level, "seed": seed, "resamples": permutations}
        return left_out_intervals(weights @ observed, without, n_tasks=n_tasks, lowest=0.0, **draws)

    def of(places: list[int]) -> Information | None:
        """Of these pairs; None: there are none."""
        return _information(observed[places], null[:, places]) if places else None

    place = {pair: k for k, pair in enumerate(used)}
    by_rater = [[k for k, pair in enumerate(used) if number in pair] for number in range(len(raters))]
    return LabelInformation(
        overall=_information(observed, null),
        raters=tuple(RaterInformation(name, len(own), of(own)) for name, own in zip(raters, by_rater, strict=True)),
        pairs=tuple(
            PairInformation(raters[a], raters[b], n, of([place[a, b]] if n else []))
            for (a, b), n in zip(pairs, common, strict=True)
        ),
        permutations=permutations,
        groups=_groups(groups, raters, by_rater, observed, null, intervals=intervals) if groups else (),
    )


def _groups(
    groups: Mapping[str, str],
    raters: Sequence[str],
    pairs: Sequence[Sequence[int]],
    observed: FloatArray,
    null: FloatArray,
    *,
    intervals: Callable[[FloatArray], list[Estimate]],
) -> tuple[GroupInformation, ...]:
    """All raters and each group: the mean over raters of the mean over their partners. ``pairs``: those of each."""
    means, members = np.zeros((len(raters), len(observed))), dict[str | None, list[int]]({None: []})
    for number, (name, own) in enumerate(zip(raters, pairs, strict=True)):
        means[number, own] = 1 / max(1, len(own))
        for group in dict.fromkeys((None, groups.get(name))) if own else ():
            members.setdefault(group, []).append(number)
    weights = np.stack([means[rows].mean(axis=0) for rows in members.values()])
    values, drawn, found = weights @ observed, null @ weights.T, intervals(weights)
    return tuple(
        GroupInformation(group, len(rows), found[k], _information(values[[k]], drawn[:, [k]]))
        for k, (group, rows) in enumerate(members.items())
    )


def _table(labels: pl.DataFrame, items: Items) -> tuple[list[str], tuple[float, ...], IntArray, IntArray]:
    """Raters, categories, the category number of each rater's label [raters, items] (-1: none), each item's task."""
    shown = pl.col("item").str.replace_all("\n", ", ", literal=True)
    known = labels.unique(["rater", "item", "category"], maintain_order=True)
    again = known.filter(pl.struct("rater", "item").is_duplicated())
    for rater, item, (one, other, *_) in (
        again.group_by("rater", shown, maintain_order=True).agg("category").head(1).iter_rows()
    ):
        raise MetricError(f"{rater} labelled {item} as {one:g} and as {other:g}. Keep one label per rater and item")
    raters = known["rater"].unique(maintain_order=True).to_list()
    if len(raters) < 2:
        found_raters = f"only {raters[0]}" if raters else "no labels"
        raise MetricError(f"tvd-mi[labels] needs at least two raters, got {found_raters}")
    categories = tuple(known["category"].unique().sort().to_list())
    if len(categories) > MOST_CATEGORIES:
        named = ", ".join(f"{category:g}" for category in categories)
        raise MetricError(
            f"labels must have at most {MOST_CATEGORIES} different values, got {len(categories)} ({named}). "
            "Bin them first, for example into low, middle and high"
        )
    column = known.unique("item", maintain_order=True)
    row, place, task = (
        frame[name].cast(pl.Enum(frame[name].unique(maintain_order=True))).to_physical().to_numpy().astype(np.int64)
        for frame, name in ((known, "rater"), (known, "item"), (column, "task"))
    )
    table = np.full((len(raters), len(column)), -1, dtype=np.int64)
    table[row, place] = np.searchsorted(categories, known["category"].to_numpy())
    kept = (table >= 0).all(axis=0) if items == "complete" else np.ones(len(task), dtype=np.bool_)
    return raters, categories, table[:, kept], task[kept]


def _pair_values(tables: IntArray, pairs: Sequence[tuple[int, int]], k: int) -> FloatArray:
    """TVD-MI [draws, pairs] of labels [raters, draws, items] in k categories."""
    draws = tables.shape[1]
    values = np.empty((draws, len(pairs)))
    labels = np.where(tables < 0, k, tables)  # one more category takes what is not labelled, and is cut off again
    offsets = np.arange(draws)[:, None] * (k + 1) ** 2
    for place, (a, b) in enumerate(pairs):
        cells = offsets + labels[a] * (k + 1) + labels[b]
        counts = np.bincount(cells.ravel(), minlength=draws * (k + 1) ** 2)
        joint = counts.reshape(draws, k + 1, k + 1)[:, :k, :k]
        n = joint.sum(axis=(1, 2))
        apart = joint.sum(axis=2)[:, :, None] * joint.sum(axis=1)[:, None, :]
        values[:, place] = np.abs(joint * n[:, None, None] - apart).sum(axis=(1, 2)) / (2 * n**2)
    return values


def _null(table: IntArray, pairs: Sequence[tuple[int, int]], k: int, permutations: int, seed: int) -> FloatArray:
    """TVD-MI [permutations, pairs] with each rater's labels shuffled over the items that rater labelled."""
    random = np.random.default_rng(seed)
    labelled = [np.flatnonzero(row >= 0) for row in table]
    chunks = []
    step = max(1, ELEMENTS_AT_ONCE // table.size)
    for begin in range(0, permutations, step):
        draws = min(step, permutations - begin)
        shuffled = np.repeat(table[:, None, :], draws, axis=1)
        for i, places in enumerate(labelled):
            shuffled[i][:, places] = random.permuted(np.tile(table[i, places], (draws, 1)), axis=1)
        chunks.append(_pair_values(shuffled, pairs, k))
    return np.concatenate(chunks)


def _information(observed: FloatArray, null: FloatArray) -> Information:
    """The mean over pairs, beside the mean over the same pairs in each permutation."""
    value, drawn = float(observed.mean()), null.mean(axis=1)
    reached = int((drawn >= value - _ROUNDING).sum())
    return Information(value, float(drawn.mean()), (1 + reached) / (1 + len(drawn)))
