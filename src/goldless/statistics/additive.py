"""Scores that can be compared although agents met other peers or other tasks: the additive model.

Some peers are easy to say something about and some tasks give high scores, whoever is scored. With one number for each
agent and one for each peer (or task), their sums fitted to the scores, what an agent lacks can be filled in: all are
scored over the same peers and tasks. The difference of two agents is then the difference of their scores: differences
are transitive and have the signs of the order.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import connected_components

from goldless.arrays import BoolArray, FloatArray, IntArray

SWEEPS = 200
"""At most; with n agents and nothing missing, one sweep leaves 1 / (n - 1)² of the error."""
PRIOR = 0.5
"""Scores of zero that are added to those with a drawn peer: where few peers are drawn, their effects are noisy."""
DIGITS = 12
"""Significant digits that are kept: scores that are equal must not differ by how a sum was rounded."""


def adjusted_for_peers(
    task: IntArray,
    agent: IntArray,
    peer: IntArray,
    score: FloatArray,
    side: IntArray | None = None,
    *,
    drawn: bool = False,
) -> FloatArray:
    """The score of each row's agent on its task, over all peers of the task.

    Rows are scores of an agent with a peer on a task, agents and peers numbered alike, none missing. On each task the
    agents' numbers a and the peers' b are fitted to score = a + b, b being zero on average. A score that an agent lacks
    is taken to be a + b. An agent is no peer of its own: in its own place stands what the others score with it. So its
    score with nothing missing is (its scores added up + the mean of the others' with it) / peers; where scores are the
    same in both directions, that is the mean over its peers.

    Where a peer met only some of the agents, its b is taken towards zero in proportion: fitted freely, a chain of
    agents that have few peers in common would add up the noise of its links. Two agents are only scored with each
    other: each keeps its own score. ``side``, 0 or 1: a peer gives two kinds of scores, each with a b of its own.

    ``drawn``: a draw, and no failure, decided which peers an agent met. Then b is the mean over those it met but for
    ``PRIOR``: taken towards zero in proportion it would leave most of the luck of the draw in the scores.
    """
    size = int(max(agent.max(initial=0), peer.max(initial=0))) + 1
    rated, row = _distinct(task * size + agent)
    given, column = _distinct(2 * (task * size + peer) + (0 if side is None else side))
    given //= 2
    tasks, task_of_row, agents = np.unique(rated // size, return_inverse=True, return_counts=True)
    task_of_column = np.searchsorted(tasks, given // size)
    peers = np.bincount(task_of_column)
    alone = np.setdiff1d(rated, (task * size + agent)[agent == peer])  # others have samples of their own as peers
    possible = agents[task_of_column] - np.isin(given, alone)
    weights = np.bincount(column) + PRIOR if drawn else possible
    counts = np.bincount(row)
    fitted = np.bincount(row, score) / counts
    effects = np.zeros(len(given))
    largest = np.zeros(len(tasks))
    np.maximum.at(largest, np.searchsorted(tasks, task), np.abs(score))
    for _ in range(SWEEPS):
        effects = np.bincount(column, score - fitted[row]) / weights
        before, fitted = fitted, np.bincount(row, score - effects[column]) / counts
        if np.abs(fitted - before).max(initial=0.0) <= 1e-15 * largest.max(initial=0.0):
            break
    others = (np.bincount(task_of_row, fitted)[task_of_row] - fitted) / np.maximum(agents[task_of_row] - 1, 1)
    places = np.searchsorted(given, rated, "right") - np.searchsorted(given, rated, "left")
    own = np.where(np.isin(rated, alone) & (agents[task_of_row] > 2), places, 0)
    found = fitted + own / peers[task_of_row] * (others - fitted)
    found += (np.bincount(task_of_column, effects) / peers)[task_of_row]
    return _rounded(found, largest[task_of_row])[row]


def _distinct(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct numbers in order, and the place of each number among them; counted where sorting takes longer."""
    if numbers.max(initial=0) > 4 * len(numbers):
        found, places = np.unique(numbers, return_inverse=True)
        return found, places
    there = np.bincount(numbers) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def _rounded(values: FloatArray, largest: FloatArray) -> FloatArray:
    parts = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.where(largest > 0, largest, 1.0))))
    return np.asarray(np.round(values * parts) / parts + 0.0)  # no minus zero


def scores_over_tasks(values: FloatArray) -> FloatArray:
    """Each agent's score over all tasks of a table [tasks, agents], NaN where one is missing.

    Without missing scores it is the mean. With some it is what the mean would be if the missing ones were those of the
    additive fit, so that nobody gains by missing a hard task. NaN for an agent without a score. Agents that share no
    task with the others, not even through third ones, keep the mean of their own.
    """
    return _OverTasks(values).scores


def moved_to_scores(values: FloatArray) -> FloatArray:
    """The table with each agent's scores moved so that their mean is its score over all tasks."""
    there = ~np.isnan(values).all(axis=0)
    if not np.isnan(values).any() or not there.any():
        return values
    scores = scores_over_tasks(values)
    moved = values.copy()
    moved[:, there] += scores[there] - np.nanmean(values[:, there], axis=0)
    return moved


def contrast_by_task(values: FloatArray, contrast: FloatArray) -> FloatArray:
    """Return what each task says about a contrast of the agents' scores; the mean over tasks is the contrast.

    ``values`` [tasks, agents]: scores, NaN where one is missing. ``contrast`` [agents]: weights that add up to 0; no
    agent with a weight lacks all scores. Without missing scores it is the weighted sum on each task. With some, a task
    counts by how far leaving it out would move the contrast, so that the values' spread is that of the contrast. As
    for ``PairDifferences``, how far it is from what pairs of agents show on the tasks that both have counts as error.
    """
    members = contrast != 0
    used = (~np.isnan(values[:, members])).any(axis=1)
    if not np.isnan(values[used][:, members]).any():
        return np.asarray(values[used][:, members] @ contrast[members])
    fit = _OverTasks(values)
    difference = float(fit.scores[members] @ contrast[members])
    contributions = fit.contributions @ contrast
    n = int(used.sum())
    further = _alternating(np.ones(n, dtype=bool)) * np.sqrt(n) * _apart(values, fit.scores, contrast)
    return np.asarray(difference + n * contributions[used] + further)


def _apart(values: FloatArray, scores: FloatArray, contrast: FloatArray) -> float:
    """Return how far a contrast of scores is from the same contrast on the tasks that each two agents both have.

    The contrast is taken as a mean of differences between agents of positive and of negative weight. Two agents without
    a common task differ by their scores.
    """
    apart = 0.0
    below = np.flatnonzero(contrast < 0)
    weights = contrast[below] / contrast[below].sum()
    for agent in np.flatnonzero(contrast > 0):
        gaps = values[:, [agent]] - values[:, below]
        counts = (~np.isnan(gaps)).sum(axis=0)
        means = np.nansum(gaps, axis=0) / np.maximum(counts, 1)
        fitted = scores[agent] - scores[below]
        apart += contrast[agent] * float(weights @ np.where(counts > 0, fitted - means, 0.0))
    return abs(apart)


def _alternating(present: BoolArray) -> FloatArray:
    """Return 1 and -1 in turn along each column where something is present, less their mean."""
    counts = present.sum(axis=0)
    number = np.cumsum(present, axis=0)
    return np.asarray(np.where(number % 2, 1.0, -1.0) - (counts % 2) / np.maximum(counts, 1))


class PairDifferences:
    """Differences of pairs of agents on the tasks that both have.

    Their mean is the difference of the scores over all tasks. Where others are missing, they are spread so that the
    standard error of their mean is that of this difference, in which all tasks count that connect the two. How far it
    is from the mean of what both have counts as a further error, alternately up and down: whoever lacks what others
    find hard would else be sure to differ from an agent that is its equal wherever both have a score.
    """

    def __init__(self, values: FloatArray) -> None:
        """``values`` [tasks, agents]: scores, NaN where one is missing."""
        self.values = values
        self._fit = _OverTasks(values) if np.isnan(values).any() else None

    def __call__(self, first: IntArray, second: IntArray) -> FloatArray:
        """[tasks, pairs]: the differences of these pairs, NaN on tasks that one of the two lacks."""
        differences = np.take(self.values, first, axis=1) - np.take(self.values, second, axis=1)
        if self._fit is None or np.isnan(differences).all():
            return differences
        counts = (~np.isnan(differences)).sum(axis=0)
        there = counts > 0
        means = np.zeros(len(first))
        means[there] = np.nanmean(differences[:, there], axis=0)
        around = differences - means
        size = np.sqrt(np.nansum(around**2, axis=0)) / np.maximum(counts, 1)
        contributions = self._fit.contributions[:, first] - self._fit.contributions[:, second]
        error = np.sqrt(np.einsum("tp,tp->p", contributions, contributions))
        wider = np.where(size > 0, error / np.where(size > 0, size, 1.0), 1.0)
        fitted = self._fit.scores[first] - self._fit.scores[second]
        apart = np.abs(fitted - means)
        apart[apart <= 10.0**-DIGITS * np.nanmax(np.abs(self.values))] = 0.0  # only rounding
        unseen = np.hypot(apart, np.where(size > 0, 0.0, error))  # error that the spread of ``around`` does not have
        further = _alternating(~np.isnan(differences)) * np.sqrt(counts) * unseen
        return np.asarray(fitted + wider * around + further)


class _OverTasks:
    """Least squares of scores by agents and tasks."""

    def __init__(self, values: FloatArray) -> None:
        there: BoolArray = ~np.isnan(values)
        self._agents, self._tasks = there.any(axis=0), there.any(axis=1)
        self._values = values[self._tasks][:, self._agents]
        self._present = there[self._tasks][:, self._agents].astype(np.float64)
        self.scores = np.full(values.shape[1], np.nan)
        if not self._present.size:
            return
        if self._present.all():
            found = self._values.mean(axis=0)
            around = self._values - found
            self._residuals = around - around.mean(axis=1, keepdims=True)
        else:
            found, self._residuals = self._fitted()
        self.scores[self._agents] = found

    def _fitted(self) -> tuple[FloatArray, FloatArray]:
        """The scores, and what is left over at each task and agent."""
        present, filled = self._present, np.nan_to_num(self._values)
        by_task = present.sum(axis=1)
        centred = present * (filled - (filled.sum(axis=1) / by_task)[:, None])
        effects = _solved(present, centred.sum(axis=0)[None])[0]
        tasks = ((filled - effects) * present).sum(axis=1) / by_task
        _, of_task, of_agent = _parts(present)
        usual = np.bincount(of_task, tasks) / np.bincount(of_task)
        return effects + usual[of_agent], present * (filled - effects - tasks[:, None])

    @cached_property
    def contributions(self) -> FloatArray:
        """The additions of each task to each agent's score [tasks, agents]; tasks without a score add nothing."""
        added = np.zeros((self._tasks.size, len(self.scores)))
        added[np.ix_(self._tasks, self._agents)] = _solved(self._present, self._residuals)
        return added


def _parts(present: FloatArray) -> tuple[int, IntArray, IntArray]:
    """The number of parts of the table that share no task and no agent, and the part of each task and agent."""
    tasks, agents = present.shape
    if tasks <= agents:
        parts, of_task = connected_components(present @ present.T, directed=False)
        return parts, of_task, of_task[present.argmax(axis=0)]
    parts, of_agent = connected_components(present.T @ present, directed=False)
    return parts, of_agent[present.argmax(axis=1)], of_agent


def _solved(present: FloatArray, right: FloatArray) -> FloatArray:
    """The agents' effects [some, agents] whose normal equations, the tasks eliminated, have these right sides."""
    by_task, by_agent = present.sum(axis=1), present.sum(axis=0)
    _, of_task, of_agent = _parts(present)
    # the smaller of the two systems; that the unknowns of each part add up to nothing makes them unique
    if len(by_agent) <= len(by_task):
        system = np.diag(by_agent) - present.T @ (present / by_task[:, None]) + (of_agent[:, None] == of_agent)
        return np.asarray(np.linalg.solve(system, right.T).T)
    system = np.diag(by_task) - (present / by_agent) @ present.T + (of_task[:, None] == of_task)
    tasks = np.linalg.solve(system, present @ (right / by_agent).T)
    return np.asarray((right + tasks.T @ present) / by_agent)
