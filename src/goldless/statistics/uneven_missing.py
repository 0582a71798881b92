"""Agents that lack more values than the others, and their ranks if those values were the lowest.

Missing values are left out, so an agent whose bad values are missing is ranked by its good ones. An agent is named if
chance would give it so many of the missing values less than once in a hundred boards: one-sided hypergeometric test
(Fisher's), corrected by the number of agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from goldless.arrays import FloatArray, IntArray
from goldless.statistics.bootstrap import Estimate

LEVEL = 0.01


class CountedRow(Protocol):
    """An agent with its score, and how many of its values were requested and used."""

    @property
    def agent(self) -> str: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def estimate(self) -> Estimate: ...
    @property
    def asked(self) -> int: ...
    @property
    def used(self) -> int: ...


def uneven_missing_notes(rows: Sequence[CountedRow], lowest: float) -> Iterator[str]:
    """One sentence for each agent that lacks more values than the others. ``lowest``: the lowest score there can be."""
    requested = sum(row.asked for row in rows)
    missing = requested - sum(row.used for row in rows)
    for row in rows:
        lost = row.asked - row.used
        chance = share_at_least(lost, drawn=row.asked, marked=missing, total=requested)
        if lost == 0 or row.estimate.value is None or chance * len(rows) >= LEVEL:
            continue
        score_if_lowest = (row.used * row.estimate.value + lost * lowest) / row.asked
        others = [other.estimate.value for other in rows if other is not row]
        rank_if_lowest = 1 + sum(value is not None and value > score_if_lowest for value in others)
        change = "would stay" if rank_if_lowest == row.rank else f"would be {rank_if_lowest}, not"
        yield (
            f"{row.agent} misses {lost:,} of {row.asked:,} values, the others {missing - lost:,} of "
            f"{requested - row.asked:,}: if its missing ones were the lowest, its rank {change} {row.rank}."
        )


def share_at_least(count: int, *, drawn: int, marked: int, total: int) -> float:
    """Return the probability that ``drawn`` of ``total`` values hold at least ``count`` of the ``marked`` ones."""
    fewest = max(count, drawn + marked - total, 0)
    counts = np.arange(fewest, min(drawn, marked) + 1)
    log_ways = log_choices(marked, counts) + log_choices(total - marked, drawn - counts)
    return float(np.exp(log_ways - log_choices(total, drawn)).sum())


def log_choices(total: int, chosen: IntArray | int) -> FloatArray:
    """Return the logarithm of the number of ways to choose so many of a total."""
    return np.asarray(gammaln(total + 1) - gammaln(chosen + np.int64(1)) - gammaln(total - chosen + np.int64(1)))
