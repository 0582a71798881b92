"""All panels of a set of reviewers at once: the credit of each on every task, and the value of choosing the best.

A panel's verdict on a pair is the sign of the sum of its reviewers' votes, both orders averaged, an exact tie one half,
as in ``metrics.chair`` and ``metrics.label_agreement``, but for thousands of panels in a few matrix products. A panel
of one is that reviewer: each order is scored on its own and averaged, as for single judges in the papers.

Panels are compared on the pairs that every compared reviewer judged, since some pairs are harder than others. A
reviewer that judged less than half as many as the one that judged most would leave too few in common: it is left out
and named.

The best of many panels on some labels is partly the luckiest. So tasks are split into halves: the panel is chosen on
one half and measured on the other, and vice versa, many times over. Every task is held out equally often, and its
credits while held out are averaged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import MetricError
from goldless.metrics.chair import TIED, panel_verdicts
from goldless.metrics.judgement_table import Convention, PairJudgements
from goldless.metrics.label_agreement import PairCredits, reviewer_credits
from goldless.metrics.pair_labels import PairLabels
from goldless.statistics.bootstrap import Draws, task_intervals

Places = npt.NDArray[np.intp]

LEAST_COVERAGE = 0.5
"""To be compared, a reviewer must have judged this share of the pairs of the reviewer that judged most."""
EVERY_PANEL_UP_TO = 12
"""Up to this many reviewers, all 2^n - 1 panels are tried."""
PANELS_AT_ONCE = 256
SAME = 1e-12
"""Accuracies within this are equal: sums of the same numbers in another order."""
FEWEST_TASKS = 4
"""Two to choose on and two to measure on."""


# --- what is compared ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgedPairs:
    """How many of the decided pairs a reviewer judged."""

    reviewer: str
    judged: int
    """Decided pairs with a judgement; with the papers' convention also those with an unparsable one."""
    compared: bool
    """Whether these are enough to be compared."""


def common_pairs(
    judgements: PairJudgements, labels: PairLabels, *, convention: Convention
) -> tuple[tuple[JudgedPairs, ...], PairLabels]:
    """The reviewers that judged enough to be compared, and the labels of the pairs that all of them judged."""
    earned = reviewer_credits(judgements, labels, convention=convention)
    there = {name: ~np.isnan(one.credit) for name, one in earned.items()}
    most = max(int(judged.sum()) for judged in there.values())
    if not most:
        raise MetricError("no reviewer judged a pair that people decided, so there is no accuracy to compare")
    coverage = tuple(
        JudgedPairs(name, int(judged.sum()), compared=bool(judged.sum() >= LEAST_COVERAGE * most))
        for name, judged in there.items()
    )
    common: BoolArray = np.all([there[one.reviewer] for one in coverage if one.compared], axis=0)
    if not common.any():
        listed = ", ".join(f"{one.reviewer} {one.judged}" for one in coverage if one.compared)
        raise MetricError(
            f"no decided pair was judged by all reviewers (of {labels.n_pairs} they judged: {listed}), so panels "
            "cannot be compared on the same pairs. Name fewer reviewers, or, if they judged all but agents of their "
            "own family, add --own-family to count those judgements"
        )
    return coverage, labels.kept(common)


# --- all panels ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SearchedPanels:
    """Panels, and the credits of each on each task."""

    reviewers: tuple[str, ...]
    members: BoolArray
    """[panels, reviewers]"""
    earned: FloatArray
    """[panels, tasks]: sum of credits over the pairs that were judged."""
    judged: FloatArray
    """[panels, tasks]: how many pairs these are."""
    search: str
    """A description of the panels that were tried."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """[panels]: members."""
        return np.asarray(self.members.sum(axis=1))

    @property
    def accuracy(self) -> FloatArray:
        """[panels]: mean credit over judged pairs; NaN: none was judged."""
        return shares(self.earned.sum(axis=1), self.judged.sum(axis=1))

    def names(self, panel: int) -> tuple[str, ...]:
        """The members of a panel."""
        return tuple(name for name, inside in zip(self.reviewers, self.members[panel], strict=True) if inside)

    def costs(self, usd: Mapping[str, float | None]) -> FloatArray:
        """[panels]: US dollars; NaN where the price of a member is unknown."""
        known = [usd.get(name) for name in self.reviewers]
        price = np.array([math.nan if one is None else one for one in known])
        cost: FloatArray = np.where(self.members, price[None, :], 0.0).sum(axis=1)
        return cost


def shares(earned: FloatArray, judged: FloatArray) -> FloatArray:
    """Credits divided by judged pairs; NaN: none was judged."""
    found = np.full(np.broadcast(earned, judged).shape, np.nan)
    np.divide(earned, judged, out=found, where=judged > 0)
    return found


def first_best(accuracy: FloatArray) -> Places:
    """The index of the highest accuracy of each row, the first of equals."""
    best: Places = np.argmax(accuracy >= accuracy.max(axis=-1, keepdims=True) - SAME, axis=-1)
    return best


def search_panels(
    judgements: PairJudgements, labels: PairLabels, *, convention: Convention = "default"
) -> SearchedPanels:
    """All panels of up to twelve reviewers; of more, all small panels and the best ones grown from these."""
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
        f"all panels of up to {size} of the {n} reviewers; larger ones grown from the best of these by one reviewer at "
        f"a time, so the best large panel can be missed ({len(members)} panels tried)"
    )
    return SearchedPanels(judgements.reviewers, members, earned, judged, search)


def _all_members(n: int, largest: int) -> BoolArray:
    """Panels of up to ``size`` of n reviewers, small ones first."""
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
    found: BoolArray = members[first_best(accuracy)]
    return found


class _Votes:
    """Each reviewer's vote on each labelled pair, ready to be added up."""

    def __init__(self, judgements: PairJudgements, labels: PairLabels, convention: Convention) -> None:
        place, turned = labels.places(
            judgements.tasks, judgements.agents, judgements.task, judgements.low, judgements.high
        )
        kept = place >= 0
        alone = [panel_verdicts(judgements.of([name]), convention=convention) for name in judgements.reviewers]
        margin = np.stack([one.margin[kept] for one in alone])
        self._voting = (~np.isnan(margin)).astype(np.float64)
        # a vote for whom people found better is positive
        self._vote = np.nan_to_num(margin) * np.where(turned[kept], -1, 1) * labels.sign[place[kept]]
        self._of_task = _one_hot(labels, place[kept])
        self._alone = _alone(reviewer_credits(judgements, labels, convention=convention), labels)

    def credits(self, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The credits of panels on each task, and the number of pairs: [panels, tasks]."""
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


def _one_hot(labels: PairLabels, pairs: Places) -> FloatArray:
    """[pairs, tasks]: 1 on the task of each of these labelled pairs."""
    on_task: BoolArray = labels.task[pairs][:, None] == np.arange(len(labels.tasks))[None, :]
    return on_task.astype(np.float64)


def _alone(earned: Mapping[str, PairCredits], labels: PairLabels) -> tuple[FloatArray, FloatArray]:
    """What each reviewer alone earns, and on how many pairs: [reviewers, tasks]."""
    credit = np.stack([one.credit for one in earned.values()])
    of_task, there = _one_hot(labels, np.arange(labels.n_pairs)), ~np.isnan(credit)
    return np.where(there, credit, 0.0) @ of_task, there @ of_task


def cheapest_first(searched: SearchedPanels, cost: FloatArray) -> Places:
    """The panels in order of cost, unknown costs last, then size: the first of several equally good ones is chosen."""
    return np.lexsort((searched.sizes, np.where(np.isnan(cost), np.inf, cost)))


# --- choosing on tasks that have no say in it ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Accuracy of the choice, not of one panel: the one chosen may differ from split to split."""

    accuracy: float | None
    """None: too few tasks, or nothing was judged."""
    low: float | None
    """Interval over tasks, given the choices made."""
    high: float | None
    on_choosing_half: float | None
    """Mean accuracy of the chosen panels on the tasks they were chosen on."""
    same_choice: float | None
    """Share of splits that chose the panel that is best on all tasks."""
    splits: int
    n_tasks: int
    note: str | None = None


def halves(tasks: int, *, splits: int, seed: int) -> FloatArray:
    """[2 splits, tasks]: 1 for the half to choose on; rows 2i and 2i + 1 are the two halves of one split."""
    random = np.random.default_rng(seed)
    chosen = np.zeros((2 * splits, tasks))
    for split in range(splits):
        order = random.permutation(tasks)
        chosen[2 * split, order[: tasks // 2]] = 1.0
        chosen[2 * split + 1, order[tasks // 2 :]] = 1.0
    return chosen


def held_out(searched: SearchedPanels, order: Places, *, splits: int = 200, draws: Draws) -> HeldOut:
    """Accuracy of choosing the best of these panels; ``order``: their numbers, the first of equals is chosen."""
    kept = searched.judged.sum(axis=0) > 0
    earned, judged = searched.earned[order][:, kept], searched.judged[order][:, kept]
    tasks = int(kept.sum())
    if tasks < FEWEST_TASKS or not len(order):
        note = f"{tasks} labelled tasks are too few to split into halves, needs at least {FEWEST_TASKS}"
        return HeldOut(None, None, None, None, None, splits, tasks, note)
    choosing = halves(tasks, splits=splits, seed=draws["seed"])
    accuracy = np.nan_to_num(shares(choosing @ earned.T, choosing @ judged.T), nan=-1.0)
    best = first_best(accuracy)
    measured = 1.0 - choosing
    by_task_earned = (measured * earned[best]).sum(axis=0) / splits
    by_task_judged = (measured * judged[best]).sum(axis=0) / splits
    if not by_task_judged.sum():
        return HeldOut(None, None, None, None, None, splits, tasks, "nothing was judged")
    mean = float(by_task_earned.sum() / by_task_judged.sum())
    linear = mean + (by_task_earned - mean * by_task_judged) / by_task_judged.mean()
    (found,) = task_intervals(linear[:, None], **draws)
    overall = np.nan_to_num(shares(earned.sum(axis=1), judged.sum(axis=1)), nan=-1.0)
    return HeldOut(
        accuracy=mean,
        low=None if found.low is None else max(0.0, found.low),
        high=None if found.high is None else min(1.0, found.high),
        on_choosing_half=float(accuracy[np.arange(len(best)), best].mean()),
        same_choice=float((best == first_best(overall)).mean()),
        splits=splits,
        n_tasks=tasks,
        note=found.note,
    )
