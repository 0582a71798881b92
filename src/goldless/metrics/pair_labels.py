"""Labels of which of two responses people found better: one per pair of agents on a task.

By default a pair's label is the sign of the difference of the medians of its ratings. Where the medians tie, people's
preferences are votes: those beyond ``LEAST_PREFERENCE`` count, and a net margin of ``least_margin`` votes decides.
Otherwise the pair is a tie (PRE and Auto-PRE label their data this way, with a margin of two). Where pairs have too few
votes for a margin of two, ``usual_margin`` is one. A rater who labelled the same response or pair several times counts
once, with the mean of these labels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError, check_known
from goldless.metrics.judgement_table import Convention, ResponsePairs

LEAST_PREFERENCE = 0.5
"""A preference beyond this is one vote."""
PAPERS_MARGIN = 2.0
"""The margin of votes by which preferences decide, in the papers."""
MANY_VOTES = 3
"""A majority of one decides where pairs have fewer votes than this, since a margin of two is hardly possible."""
ROUNDING = 1e-9
"""Differences up to this count as zero: means of the same numbers in another order differ in the last digit."""


@dataclass(frozen=True, eq=False)
class PairLabels(ResponsePairs):
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
        check_known(agents, self.agents, "no pair is labelled with the agent", "Agents", MetricError)
        inside = np.array([agent in set(agents) for agent in self.agents], dtype=np.bool_)
        result: BoolArray = inside[self.low] & inside[self.high]
        return result


def rater_voices(labels: pl.DataFrame, *, tasks: Sequence[str], agents: Sequence[str]) -> pl.DataFrame:
    """The voice of each rater: task, low, high, rater and value, with tasks and agents as numbers.

    ``labels``: those of a study, on one criterion. Of a response, low and high are the same; of a pair the value is the
    preference for low. A rater who said several things of one has one voice: their mean.
    """
    for number in ("score", "preference"):
        criteria = labels.drop_nulls(number)["criterion"].unique()
        if len(criteria) > 1:
            names = ", ".join(sorted(map(str, criteria)))
            raise MetricError(f"labels have {len(criteria)} criteria ({names}). Choose one with criterion")
    task, agent = pl.Enum(tasks), pl.Enum(agents)
    rows = labels.select(
        pl.col("task").cast(task, strict=False).to_physical().cast(pl.Int64),
        pl.coalesce("first", "agent").cast(agent, strict=False).to_physical().cast(pl.Int64).alias("first"),
        pl.coalesce("second", "agent").cast(agent, strict=False).to_physical().cast(pl.Int64).alias("second"),
        "rater",
        value=pl.coalesce("score", "preference"),
    ).drop_nulls()
    first, second, value = pl.col("first"), pl.col("second"), pl.col("value")
    rows = rows.select(
        "task",
        "rater",
        low=pl.min_horizontal(first, second),
        high=pl.max_horizontal(first, second),
        value=pl.when(first <= second).then(value).otherwise(-value),
    )
    return rows.group_by("task", "low", "high", "rater", maintain_order=True).agg(value.mean())


def side(value: pl.Expr, beyond: float = 0.0) -> pl.Expr:
    """The sign of a value, 0 where it is not ``beyond`` that far from zero."""
    return pl.when(value.abs() > beyond + ROUNDING).then(value.sign()).otherwise(0.0)


def median_ratings(labels: pl.DataFrame, *, tasks: Sequence[str], agents: Sequence[str]) -> FloatArray:
    """The median rating of each response over its raters [tasks, agents]; NaN without raters."""
    medians = _medians(rater_voices(labels, tasks=tasks, agents=agents))
    value = np.full((len(tasks), len(agents)), np.nan)
    value[medians["task"].to_numpy(), medians["agent"].to_numpy()] = medians["value"].to_numpy()
    return value


def usual_margin(labels: pl.DataFrame, *, convention: Convention = "default") -> float:
    """Two votes, as in the papers, or one where most pairs have too few votes for a margin of two.

    With the papers' convention it is always two.
    """
    rows = labels.drop_nulls("preference")
    if convention != "default" or rows.is_empty():
        return PAPERS_MARGIN
    pair = "task", pl.min_horizontal("first", "second"), pl.max_horizontal("first", "second").alias("other")
    votes = rows.group_by(*pair).agg(pl.col("rater").n_unique())["rater"].median()
    return 1.0 if float(str(votes)) < MANY_VOTES else PAPERS_MARGIN


def pair_labels(
    labels: pl.DataFrame, *, tasks: Sequence[str], agents: Sequence[str], least_margin: float = PAPERS_MARGIN
) -> PairLabels:
    """The label of every pair of responses to one task that people rated or compared, including ties.

    ``labels``: those of a study, on one criterion. Ratings decide; where they tie, the votes for one side minus those
    for the other must reach ``least_margin``.
    """
    said, pair = rater_voices(labels, tasks=tasks, agents=agents), ["task", "low", "high"]
    medians = _medians(said)
    value, net = pl.col("value"), pl.col("net")
    by_rating = (
        medians.rename({"agent": "low"})
        .join(medians.rename({"agent": "high"}), on="task")
        .filter(pl.col("low") < pl.col("high"))
        .select(*pair, rated=side(value - pl.col("value_right")))
    )
    by_vote = (
        said.filter(pl.col("low") < pl.col("high"))
        .group_by(pair)
        .agg(net=side(value, LEAST_PREFERENCE).sum())
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


def _medians(said: pl.DataFrame) -> pl.DataFrame:
    """The median voice on each response: task, agent and value."""
    rated = said.filter(pl.col("low") == pl.col("high"))
    return rated.group_by("task", agent="low").agg(pl.col("value").median())
