"""All panels of a set of reviewers at once: what each earns on every task with an equal vote.

A panel's verdict on a pair is the sign of the sum of its reviewers' votes, both orders averaged, an exact tie one half:
what ``metrics.chair`` and ``metrics.label_agreement`` say of one panel, for thousands in a few matrix products. A panel
of one is that reviewer: each order is scored on its own and averaged, as single judges are in the papers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.metrics.chair import TIED
from goldless.metrics.judgement_table import Convention, PairJudgements
from goldless.metrics.label_agreement import reviewer_credits
from goldless.metrics.pair_labels import PairLabels

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

EVERY_PANEL_UP_TO = 12
"""Reviewers of whom all 2^n - 1 panels are tried."""
PANELS_AT_ONCE = 256
SAME = 1e-12
"""Accuracies within this are equal: sums of the same numbers in another order."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchedPanels:
    """Panels, and what each earned on each task."""

    reviewers: tuple[str, ...]
    members: BoolArray
    """[panels, reviewers]"""
    earned: FloatArray
    """[panels, tasks]: sum of credits over the pairs that were judged."""
    judged: FloatArray
    """[panels, tasks]: how many pairs these are."""
    search: str
    """Which panels were tried, in words."""

    @property
    def accuracy(self) -> FloatArray:
        """[panels]: mean credit over judged pairs; NaN: none was judged."""
        return shares(self.earned.sum(axis=1), self.judged.sum(axis=1))

    def names(self, panel: int) -> tuple[str, ...]:
        """Who is on a panel."""
        return tuple(name for name, inside in zip(self.reviewers, self.members[panel], strict=True) if inside)


def shares(earned: FloatArray, judged: FloatArray) -> FloatArray:
    """What was earned of what was judged; NaN: nothing was."""
    found = np.full(np.broadcast(earned, judged).shape, np.nan)
    np.divide(earned, judged, out=found, where=judged > 0)
    return found


def search_panels(
    judgements: PairJudgements, labels: PairLabels, *, convention: Convention = "default"
) -> SearchedPanels:
    """Every panel of up to twelve reviewers; of more, every small panel and the best ones grown from these."""
    votes = _Votes(judgements, labels.decided(), convention)
    n = len(judgements.reviewers)
    if n <= EVERY_PANEL_UP_TO:
        members = _all_members(n, n)
        return SearchedPanels(judgements.reviewers, members, *votes.credits(members), f"all {len(members)} panels")
    size = _whole_size(n)
    members = _all_members(n, size)
    earned, judged = votes.credits(members)
    grown = [_best(members, earned, judged, size)]
    while int(grown[-1].sum()) < n:
        nexts = np.repeat(grown[-1][None], n, axis=0) | np.eye(n, dtype=np.bool_)
        nexts = nexts[~grown[-1]]
        some_earned, some_judged = votes.credits(nexts)
        members = np.concatenate([members, nexts])
        earned, judged = np.concatenate([earned, some_earned]), np.concatenate([judged, some_judged])
        grown.append(_best(nexts, some_earned, some_judged, int(nexts[0].sum())))
    search = (
        f"all panels of up to {size} of the {n} reviewers; larger ones grown from the best of these, one reviewer at a "
        f"time, so the best large panel may be missed ({len(members)} panels tried)"
    )
    return SearchedPanels(judgements.reviewers, members, earned, judged, search)


def _all_members(n: int, largest: int) -> BoolArray:
    """Panels of up to so many of n reviewers, small ones first."""
    chosen = [panel for size in range(1, largest + 1) for panel in itertools.combinations(range(n), size)]
    members = np.zeros((len(chosen), n), dtype=np.bool_)
    for row, panel in enumerate(chosen):
        members[row, list(panel)] = True
    return members


def _whole_size(n: int) -> int:
    """The largest size up to which all panels are no more than those of twelve reviewers; at least two."""
    most, size, total = 2**EVERY_PANEL_UP_TO, 0, 0
    while total + math.comb(n, size + 1) <= most:
        size += 1
        total += math.comb(n, size)
    return max(2, size)


def _best(members: BoolArray, earned: FloatArray, judged: FloatArray, size: int) -> BoolArray:
    """The panel of that size with the highest accuracy, the first of equals."""
    accuracy = np.nan_to_num(shares(earned.sum(axis=1), judged.sum(axis=1)), nan=-1.0)
    accuracy[members.sum(axis=1) != size] = -2.0
    found: BoolArray = members[int(np.argmax(accuracy >= accuracy.max() - SAME))]
    return found


class _Votes:
    """Each reviewer's vote on each labelled pair, ready to be added up."""

    def __init__(self, judgements: PairJudgements, labels: PairLabels, convention: Convention) -> None:
        place, turned = labels.places(
            judgements.tasks, judgements.agents, judgements.task, judgements.low, judgements.high
        )
        kept = place >= 0
        asked = judgements.asked[:, kept]
        lean = 2 * judgements.filled(convention)[:, kept] - 1
        voting: BoolArray = np.asarray(asked.any(axis=2) & ~(asked & np.isnan(lean)).any(axis=2))
        mean = np.where(asked & voting[:, :, None], lean, 0.0).sum(axis=2) / np.maximum(asked.sum(axis=2), 1)
        # a vote for whom people found better is positive
        self._vote: FloatArray = mean * np.where(turned[kept], -1, 1) * labels.sign[place[kept]]
        self._voting: FloatArray = voting.astype(np.float64)
        task = labels.task[place[kept]]
        self._of_task: FloatArray = (task[:, None] == np.arange(len(labels.tasks))[None, :]).astype(np.float64)
        self._alone = self._single(judgements, labels, convention)

    @staticmethod
    def _single(
        judgements: PairJudgements, labels: PairLabels, convention: Convention
    ) -> tuple[FloatArray, FloatArray]:
        """What each reviewer alone earns, and on how many pairs: [reviewers, tasks]."""
        credit = np.stack([c.credit for c in reviewer_credits(judgements, labels, convention=convention).values()])
        there = ~np.isnan(credit)
        of_task = (labels.task[:, None] == np.arange(len(labels.tasks))[None, :]).astype(np.float64)
        return np.where(there, credit, 0.0) @ of_task, there @ of_task

    def credits(self, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """What panels earn on each task, and on how many pairs: [panels, tasks]."""
        earned = np.empty((len(members), self._of_task.shape[1]))
        judged = np.empty_like(earned)
        for begin in range(0, len(members), PANELS_AT_ONCE):
            some = slice(begin, begin + PANELS_AT_ONCE)
            inside = members[some].astype(np.float64)
            total = inside @ self._voting
            margin = shares(inside @ self._vote, total)
            margin[np.abs(margin) <= TIED] = 0.0
            voted = total > 0
            earned[some] = np.where(voted, (1 + np.sign(margin)) / 2, 0.0) @ self._of_task
            judged[some] = voted @ self._of_task
        one = members.sum(axis=1) == 1
        alone = members[one].argmax(axis=1)
        earned[one], judged[one] = self._alone[0][alone], self._alone[1][alone]
        return earned, judged


def cheapest_first(searched: SearchedPanels, usd: Sequence[float | None]) -> npt.NDArray[np.intp]:
    """The panels in order of cost, unknown costs last, then size: the first of several equally good ones is chosen."""
    cost = panel_costs(searched, usd)
    return np.lexsort((searched.members.sum(axis=1), np.where(np.isnan(cost), np.inf, cost)))


def panel_costs(searched: SearchedPanels, usd: Sequence[float | None]) -> FloatArray:
    """[panels]: US dollars; NaN where the price of a member is unknown."""
    price = np.array([math.nan if one is None else one for one in usd])
    cost: FloatArray = np.where(searched.members, price[None, :], 0.0).sum(axis=1)
    return cost
