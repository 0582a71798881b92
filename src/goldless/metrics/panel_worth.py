"""The worth of a panel: its effective number of votes, and the order of its reviewers without labels.

The order is Dawid and Skene's, on every pair as named and the other way round, so that names of agents do not matter;
judge-aware Bradley-Terry is a second opinion. It can be an exam (``exam_traits.peers``); it is never a vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

import numpy as np

from goldless.arrays import BoolArray, FloatArray
from goldless.metrics.chair import TIED
from goldless.metrics.judgement_table import Convention, PairJudgements, ResponsePairs, ResponseRatings
from goldless.metrics.label_agreement import reviewer_judges
from goldless.metrics.pair_labels import PairLabels
from goldless.statistics.bootstrap import Draws, Estimate, groups_left_out, left_out_intervals
from goldless.statistics.shared_errors import EffectiveVotes, effective_votes
from goldless.statistics.vote_models import both_sides, dawid_skene, judge_aware_bradley_terry

FEWEST_PEERS = 3
"""Two reviewers that differ do not show which of them is right."""
MOST_PAIRS = 2_500
"""Pairs used to order reviewers; with more, tasks are drawn: the order is settled long before."""
LEAST_SHARE = 0.1
"""To be ordered, a reviewer must have judged more than this share of the pairs of the reviewer that judged most."""
NOT_IDENTIFIED = (
    "on a scale of three or more levels votes alone do not identify how accurate reviewers are (arXiv 2505.21972): "
    "another order can explain the same votes"
)


@dataclass(frozen=True)
class PeerEstimate:
    """One reviewer as its peers' votes show it."""

    reviewer: str
    accuracy: Estimate
    """As estimated by Dawid and Skene's model: too high, and comparable only within a panel.

    ``n``: votes on pairs that another reviewer judged too.
    """
    discrimination: float
    """By judge-aware Bradley-Terry, geometric mean 1; without an interval."""


@dataclass(frozen=True)
class PanelWorth:
    """The worth of a panel."""

    reviewers: tuple[str, ...]
    errors: EffectiveVotes | None
    """By the correlation of errors; None: no labels."""
    votes: EffectiveVotes
    """By the correlation of votes: too low as a rule."""
    peers: tuple[PeerEstimate, ...] = ()
    """Best first; empty: fewer than three reviewers with votes that differ."""
    claimed: float | None = None
    """Mean confidence of Dawid and Skene's model, on labelled pairs where there are labels."""
    right: float | None = None
    """The share of these on which its verdict is right; None: no labels."""
    n_claimed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> EffectiveVotes:
        """By errors where that is known, else by votes."""
        return self.errors if self.errors is not None and self.errors.votes.value is not None else self.votes

    @property
    def effective_votes(self) -> float | None:
        """The number of independent votes the panel is worth."""
        return self.best.votes.value

    @property
    def source(self) -> Literal["errors", "votes"]:
        """The correlation that this follows from."""
        return "errors" if self.best is self.errors else "votes"


@dataclass(frozen=True, eq=False)
class PanelVotes(ResponsePairs):
    """One vote per reviewer and pair, orders averaged."""

    reviewers: tuple[str, ...]
    vote: FloatArray
    """[reviewers, pairs]: 1 low is better, 0 high is, NaN: none."""

    def kept(self, kept: BoolArray) -> PanelVotes:
        """The votes on these pairs."""
        return replace(self, task=self.task[kept], low=self.low[kept], high=self.high[kept], vote=self.vote[:, kept])


def panel_votes(
    table: PairJudgements | ResponseRatings, reviewers: Sequence[str], *, convention: Convention = "default"
) -> PanelVotes:
    """The reviewers' votes on every pair; of ratings, for the higher of two, equal ones one half."""
    table = table.of(list(reviewers))
    names = table.tasks, table.agents
    if isinstance(table, PairJudgements):
        votes = table.votes(table.leans(convention))
        votes[np.abs(votes) <= TIED] = 0.0
        return PanelVotes(*names, table.task, table.low, table.high, table.reviewers, (1 + votes) / 2)
    low, high = np.triu_indices(len(table.agents), k=1)
    value, tasks = table.filled(convention), len(table.tasks)
    vote = ((1 + np.sign(value[:, :, low] - value[:, :, high])) / 2).reshape(len(table.reviewers), -1)
    task = np.repeat(np.arange(tasks), len(low))
    found = PanelVotes(*names, task, np.tile(low, tasks), np.tile(high, tasks), table.reviewers, vote)
    return found.kept(np.any(~np.isnan(vote), axis=0))


def peer_estimates(votes: PanelVotes, **draws: Unpack[Draws]) -> tuple[dict[str, Estimate], FloatArray]:
    """Each reviewer's accuracy as estimated from the others' votes, and the posterior that low is better.

    ``n`` of an estimate: its votes.
    """
    task, vote = votes.task, votes.vote.T
    fitted = dawid_skene(both_sides(vote))
    group, n_tasks = groups_left_out(task)
    without = []
    for number in range(int(group.max()) + 1):
        rest = group != number
        if not rest.any():
            continue
        begin = np.tile(rest, 2)
        without.append(dawid_skene(both_sides(vote[rest]), start=fitted.chance[begin]).accuracy)
    accuracy = fitted.accuracy
    intervals = (
        left_out_intervals(accuracy, np.stack(without), n_tasks=n_tasks, lowest=0.0, **draws)
        if n_tasks > 1
        else [Estimate(float(one), None, None, n_tasks, draws.get("level", 0.95)) for one in accuracy]
    )
    counted = zip(votes.reviewers, intervals, (~np.isnan(vote)).sum(axis=0).tolist(), strict=True)
    return {name: replace(one, n=n, n_tasks=one.n) for name, one, n in counted}, fitted.chance[: len(task)]


def shared_votes(votes: PanelVotes, *, most: int = MOST_PAIRS, **draws: Unpack[Draws]) -> PanelVotes:
    """The votes on pairs that two or more judged, without reviewers that judged too few of these to be compared.

    Of as many tasks, drawn by the seed, as have no more than this many pairs; at least of one.
    """
    shared = (~np.isnan(votes.vote)).sum(axis=0) >= 2
    votes = _some_tasks(votes.kept(shared), most=most, seed=draws.get("seed", 0))
    for least in (LEAST_SHARE, 0.0):
        votes = votes.kept((~np.isnan(votes.vote)).sum(axis=0) >= 2)
        heard = (~np.isnan(votes.vote)).sum(axis=1)
        enough = heard > least * heard.max(initial=0)
        names = tuple(name for name, has in zip(votes.reviewers, enough, strict=True) if has)
        votes = replace(votes, reviewers=names, vote=votes.vote[enough])
    return votes


def _some_tasks(votes: PanelVotes, *, most: int, seed: int) -> PanelVotes:
    if len(votes.task) <= most:
        return votes
    order = np.random.default_rng(seed).permutation(len(votes.tasks))
    sizes = np.bincount(votes.task, minlength=len(votes.tasks))[order]
    chosen = np.zeros(len(votes.tasks), dtype=np.bool_)
    chosen[order[: max(1, int(np.searchsorted(np.cumsum(sizes), most, side="right")))]] = True
    return votes.kept(chosen[votes.task])


def panel_worth(
    table: PairJudgements | ResponseRatings,
    reviewers: Sequence[str],
    labels: PairLabels | None = None,
    *,
    levels: float = 2,
    convention: Convention = "default",
    **draws: Unpack[Draws],
) -> PanelWorth:
    """The worth of these reviewers together. ``levels``: of the scale, for the warning that belongs to three or more.

    With labels, n_eff is computed from errors too, one minus the credit on each labelled pair.
    """
    votes = panel_votes(table, reviewers, convention=convention)
    by_votes = effective_votes(votes.vote, votes.task, reviewers, centre=0.5, **draws)
    by_errors, notes = None, []
    if labels is not None:
        judges = reviewer_judges(table.of(list(reviewers)), convention=convention)
        wrong = 1 - np.stack([judge.credits(labels, convention).credit for judge in judges])
        by_errors = effective_votes(wrong, labels.decided().task, reviewers, **draws)
        if len(reviewers) > 1 and by_errors.votes.value is None:
            notes.append(f"labels do not show which errors are shared ({by_errors.votes.note}); votes are used instead")
    worth = PanelWorth(tuple(reviewers), by_errors, by_votes)
    if worth.best.votes.note and len(reviewers) > 1:
        notes.append(worth.best.votes.note)
    some = shared_votes(votes, **draws)
    varied = [bool(np.nanmax(np.abs(own - 0.5), initial=0.0) > 0) for own in some.vote]
    if sum(varied) < FEWEST_PEERS:
        return replace(worth, notes=tuple(notes))
    used, of = len(np.unique(some.task)), len(np.unique(votes.task))
    if used < of:
        notes.append(f"reviewers are ordered by {used} of {of} tasks")
    unheard = [name for name in reviewers if name not in some.reviewers]
    if unheard:
        notes.append(f"not ordered, with too few pairs that another reviewer judged: {', '.join(unheard)}")
    if levels > 2:
        notes.append(NOT_IDENTIFIED)
    peers, claimed, right, n = _ordered(some, labels, **draws)
    return replace(worth, peers=peers, claimed=claimed, right=right, n_claimed=n, notes=tuple(notes))


def _ordered(
    votes: PanelVotes, labels: PairLabels | None, **draws: Unpack[Draws]
) -> tuple[tuple[PeerEstimate, ...], float | None, float | None, int]:
    """The reviewers, best first; how sure the model claims to be, how often it is right, and on how many pairs."""
    found, chance = peer_estimates(votes, **draws)
    agents = len(votes.agents)
    number = np.unique(np.concatenate([votes.task * agents + side for side in (votes.low, votes.high)]))
    first, second = (np.searchsorted(number, votes.task * agents + side) for side in (votes.low, votes.high))
    strength = judge_aware_bradley_terry(votes.vote.T, first, second)
    d = dict(zip(votes.reviewers, strength.discrimination.tolist(), strict=True))
    rows = [PeerEstimate(name, one, d[name]) for name, one in found.items()]
    rows.sort(key=lambda row: (-(row.accuracy.value or 0.0), row.reviewer))
    kept, right = np.ones(len(chance), dtype=np.bool_), None
    if labels is not None:
        decided = labels.decided()
        place = decided.places(votes)
        if (place >= 0).any():
            kept = place >= 0
            sign = decided.sign[place[kept]]
            lean = np.sign(chance[kept] - 0.5)
            right = float(np.where(lean == 0, 0.5, lean == sign).mean())
    sure = np.maximum(chance, 1 - chance)[kept]
    return tuple(rows), float(sure.mean()), right, int(kept.sum())
