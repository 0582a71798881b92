"""Labels of which of two responses people found better: one per pair of agents on a task.

By default a pair's label is the sign of the difference of the medians of its ratings. Where the medians tie, people's
preferences are votes: those beyond ``LEAST_PREFERENCE`` count, and a net margin of ``least_margin`` votes decides.
Otherwise the pair is a tie (PRE and Auto-PRE label their data this way, with a margin of two). Where pairs have too few
votes for a margin of two, ``usual_margin`` is one. A rater who labelled the same response or pair several times counts
once, with the mean of these labels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError, nearest
from goldless.metrics.judgement_table import Convention, Pairs
from goldless.records import Preference, Rating

LEAST_PREFERENCE = 0.5
"""A preference beyond this is one vote."""
PAPERS_MARGIN = 2.0
"""The margin of votes by which preferences decide, in the papers."""
MANY_VOTES = 3
"""A majority of one decides where pairs have fewer votes than this, since a margin of two is hardly possible."""
ROUNDING = 1e-9
"""Differences up to this count as zero: means of the same numbers in another order differ in the last digit."""


@dataclass(frozen=True, slots=True, eq=False)
class RatingTable:
    """The median rating of each response."""

    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    value: FloatArray
    """[tasks, agents]: median over raters; NaN without raters."""


@dataclass(frozen=True, eq=False)
class PairLabels(Pairs):
    """One label per pair."""

    sign: IntArray
    """1: low is better; -1: high is; 0: a tie."""
    by_preference: BoolArray
    """True if preferences decided."""
    contradicted: BoolArray
    """True if ratings and preferences contradict each other."""
    margin: float
    """The margin of votes by which preferences decide."""

    @property
    def rule(self) -> str:
        """The rule of the labels, for signatures."""
        return f"sign-of-medians,then-votes-beyond-{LEAST_PREFERENCE:g}-ahead-by-{self.margin:g}"

    @property
    def n_pairs(self) -> int:
        """Number of labelled pairs, including ties."""
        return len(self.sign)

    @property
    def n_decided(self) -> int:
        return int(np.count_nonzero(self.sign))

    @property
    def n_ties(self) -> int:
        return self.n_pairs - self.n_decided

    @property
    def n_contradicted(self) -> int:
        return int(self.contradicted.sum())

    def decided(self) -> PairLabels:
        """The labels without ties."""
        return self.kept(self.sign != 0)

    def among(self, agents: Collection[str]) -> PairLabels:
        """The labels of pairs of these agents, such as those of an exam."""
        return self.kept(self._within(agents))

    def outside(self, agents: Collection[str]) -> PairLabels:
        """The labels of pairs that are not between two of these agents, to test on pairs outside the exam."""
        return self.kept(~self._within(agents))

    def kept(self, kept: BoolArray) -> PairLabels:
        """The labels where ``kept`` is true."""
        columns = (one.name for one in fields(self) if isinstance(getattr(self, one.name), np.ndarray))
        return replace(self, **{name: getattr(self, name)[kept] for name in columns})

    def _within(self, agents: Collection[str]) -> BoolArray:
        for agent in agents:
            if agent not in self.agents:
                raise MetricError(f"no pair with agent {agent!r} is labelled{nearest(agent, self.agents)}")
        inside = np.array([agent in set(agents) for agent in self.agents], dtype=np.bool_)
        result: BoolArray = inside[self.low] & inside[self.high]
        return result


def rating_table(
    ratings: Iterable[Rating],
    *,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    criterion: str | None = None,
) -> RatingTable:
    """Median rating of each response over its raters.

    If ``tasks`` and ``agents`` are given, they order the table and all others are left out (None: by appearance).
    """
    rows = _frame(ratings, Rating, criterion)
    tasks = list(dict.fromkeys(rows["task"] if tasks is None else tasks))
    agents = list(dict.fromkeys(rows["agent"] if agents is None else agents))
    medians = _medians(_numbered(rows, tasks, agents, "agent"))
    value = np.full((len(tasks), len(agents)), np.nan)
    value[medians["task"].to_numpy(), medians["agent"].to_numpy()] = medians["score"].to_numpy()
    return RatingTable(tuple(tasks), tuple(agents), value)


def check_margin(margin: float | None) -> None:
    """Refuse a margin that decides everything or nothing."""
    if margin is not None and not (math.isfinite(margin) and margin > 0):
        raise MetricError(f"margin must be above 0, got {margin:g}. Try 2, as in the papers")


def usual_margin(
    preferences: Iterable[Preference], *, criterion: str | None = None, convention: Convention = "default"
) -> float:
    """Two votes, as in the papers, or one where most pairs have too few votes for a margin of two.

    With the papers' convention it is always two.
    """
    rows = _frame(preferences, Preference, criterion)
    if convention != "default" or rows.is_empty():
        return PAPERS_MARGIN
    pair = "task", pl.min_horizontal("first", "second"), pl.max_horizontal("first", "second").alias("other")
    votes = rows.group_by(*pair).agg(pl.col("rater").n_unique())["rater"].median()
    return 1.0 if float(str(votes)) < MANY_VOTES else PAPERS_MARGIN


def pair_labels(
    ratings: Iterable[Rating] = (),
    preferences: Iterable[Preference] = (),
    *,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    criterion: str | None = None,
    least_margin: float = PAPERS_MARGIN,
) -> PairLabels:
    """The label of every pair of responses to one task that people rated or compared, including ties.

    Ratings decide; where they tie, the votes for one side minus those for the other must reach ``least_margin``.
    """
    if not least_margin > 0:
        raise MetricError(f"least_margin must be above 0, got {least_margin}. Try 2, as in the papers")
    rated, compared = _frame(ratings, Rating, criterion), _frame(preferences, Preference, criterion)
    if rated.is_empty() and compared.is_empty():
        raise MetricError("there are no labels. Add a labels table with ratings or preferences to the study")
    sides = compared.select(pl.concat_list("first", "second").explode()).to_series()
    tasks = list(dict.fromkeys([*rated["task"], *compared["task"]] if tasks is None else tasks))
    agents = list(dict.fromkeys([*rated["agent"], *sides] if agents is None else agents))
    pair = ["task", "low", "high"]
    medians = _medians(_numbered(rated, tasks, agents, "agent"))
    gap = pl.col("score") - pl.col("score_right")
    by_rating = (
        medians.rename({"agent": "low"})
        .join(medians.rename({"agent": "high"}), on="task")
        .filter(pl.col("low") < pl.col("high"))
        .select(*pair, pl.when(gap.abs() > ROUNDING).then(gap.sign()).otherwise(0.0).alias("rated"))
    )
    first, second, said = pl.col("first"), pl.col("second"), pl.col("preference")
    turned = pl.when(first < second).then(said).otherwise(-said)
    vote = pl.when(said.abs() > LEAST_PREFERENCE + ROUNDING).then(said.sign()).otherwise(0.0)
    net = pl.col("net")
    by_vote = (
        _numbered(compared, tasks, agents, "first", "second")
        .select("task", "rater", turned, low=pl.min_horizontal(first, second), high=pl.max_horizontal(first, second))
        .group_by(*pair, "rater")
        .agg(said.mean())
        .group_by(*pair)
        .agg(vote.sum().alias("net"))
        .select(*pair, pl.when(net.abs() >= least_margin - ROUNDING).then(net.sign()).otherwise(0.0).alias("voted"))
    )
    found = by_rating.join(by_vote, on=pair, how="full", coalesce=True).fill_null(0.0).sort(pair)
    task, low, high, rating, voted = (column.cast(pl.Int64).to_numpy() for column in found.iter_columns())
    sign = np.where(rating != 0, rating, voted)
    return PairLabels(
        tuple(tasks),
        tuple(agents),
        task=task,
        low=low,
        high=high,
        sign=sign,
        by_preference=(sign != 0) & (rating == 0),
        contradicted=rating * voted < 0,
        margin=least_margin,
    )


def _frame(
    labels: Iterable[Rating | Preference], kind: type[Rating | Preference], criterion: str | None
) -> pl.DataFrame:
    """The labels on one criterion as a table."""
    number = "score" if kind is Rating else "preference"
    schema = {one.name: pl.Float64 if one.name == number else pl.String for one in fields(kind)}
    rows = pl.DataFrame([[getattr(label, name) for name in schema] for label in labels], schema=schema, orient="row")
    if criterion is not None:
        return rows.filter(pl.col("criterion") == criterion)
    if rows["criterion"].n_unique() > 1:
        names = ", ".join(sorted(map(str, rows["criterion"].unique())))
        raise MetricError(f"labels have {rows['criterion'].n_unique()} criteria ({names}). Choose one with criterion")
    return rows


def _numbered(rows: pl.DataFrame, tasks: Sequence[str], agents: Sequence[str], *columns: str) -> pl.DataFrame:
    """The rows whose tasks and agents are known, by number."""
    kinds = {"task": pl.Enum(tasks), **dict.fromkeys(columns, pl.Enum(agents))}
    known = rows.with_columns(pl.col(name).cast(kind, strict=False) for name, kind in kinds.items())
    return known.drop_nulls(list(kinds)).with_columns(pl.col(*kinds).to_physical().cast(pl.Int64))


def _medians(rows: pl.DataFrame) -> pl.DataFrame:
    """Median score by task and agent; several scores by one rater count as their mean."""
    by_rater = rows.group_by("task", "agent", "rater").agg(pl.col("score").mean())
    return by_rater.group_by("task", "agent").agg(pl.col("score").median())
