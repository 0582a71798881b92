"""Choosing: from the scores of responses with each other to the best one, and whether that is decided.

The unit is the peer. Two candidates are compared by the differences of their scores with the same peers, which are
further samples of the same source: the question is which of the two says more about one more sample. A wrong choice
needs a false claim against the best candidate, of which there is one per rival, so alpha is divided by their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from goldless.arrays import FloatArray
from goldless.statistics.additive import adjusted_for_peers
from goldless.statistics.deciding import AT_LEAST, FIXED_SAMPLE, Bound, Tolerance, least_tasks, radius


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which a choice is decided."""

    alpha: float = 0.05
    """Probability of a wrong choice on a task that is called decided."""
    at_least: int = AT_LEAST
    """Common peers before anything is decided."""
    tolerance: Tolerance = field(default_factory=lambda: Tolerance(1.0, in_sd=True))
    """A rival that is better by no more than this does not matter."""
    bound: Bound = FIXED_SAMPLE
    """The kind of interval: for a number of samples that was fixed beforehand, or valid whenever one stops."""
    most: int | None = None
    """The number of samples that there can be; None: those that are there."""
    widest: float = math.inf
    """The largest difference that two scores of the metric can have."""

    def for_each(self, candidates: int) -> float:
        """Alpha of one comparison."""
        return self.alpha / max(1, (self.most or candidates) - 1)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen response to a task."""

    task: str
    chosen: str | None
    """Whose response it is; None: no response has a score."""
    text: str | None
    score: float | None
    runner_up: str | None
    """The best rival with another text; None: there is none."""
    margin: float | None
    """By how much the chosen one is better than the runner-up, with the same peers."""
    low: float | None
    """The interval of the margin, corrected for all rivals; None: too few common peers."""
    high: float | None
    peers: int
    """Peers that both were compared with."""
    decided: bool
    samples: int
    """Responses that there are."""
    missing: int = 0
    """Of these, the ones without a score, and samples that a model failed to give."""


def choose(
    task: str, texts: Mapping[str, str | None], scores: Mapping[tuple[str, str], float], rule: Rule, *, failed: int = 0
) -> Choice:
    """The best of these responses; ``scores``: of a response with a peer, where there is one.

    Of equal ones the first. Responses with the same text are not rivals; None: the text is not known.
    """
    names = list(texts)
    table = np.full((len(names), len(names)), np.nan)
    place = {name: i for i, name in enumerate(names)}
    for (agent, peer), score in scores.items():
        if agent in place and peer in place and agent != peer:
            table[place[agent], place[peer]] = score
    scored = ~np.isnan(table).all(axis=1) if len(names) > 1 else np.zeros(len(names), np.bool_)
    missing = int((~scored).sum()) + failed
    if not scored.any():
        same = len(set(texts.values())) == 1 and None not in texts.values()
        chosen = names[0] if same else None
        text = None if chosen is None else texts[chosen]
        return Choice(task, chosen, text, None, None, None, None, None, 0, same, len(names), missing)
    means = np.full(len(names), -np.inf)
    rows, columns = np.nonzero(~np.isnan(table))
    means[rows] = adjusted_for_peers(np.zeros_like(rows), rows, columns, table[rows, columns])
    best = int(means.argmax())
    mine = texts[names[best]]
    rivals = [i for i, name in enumerate(names) if i != best and (mine is None or texts[name] != mine)]
    found = {i: _compared(table, means, best, i, rule) for i in rivals}
    tolerance = rule.tolerance.of(means[scored])
    decided = all(low is not None and low > -tolerance for _, low, _, _ in found.values())
    margin, low, high, peers = None, None, None, 0
    second = max((i for i in rivals if scored[i]), key=lambda i: means[i], default=None)
    if second is not None:
        margin, low, high, peers = found[second]
    enough = peers >= least_tasks(rule.for_each(len(names)), rule.at_least) or not rivals
    return Choice(
        task=task,
        chosen=names[best],
        text=mine,
        score=float(means[best]),
        runner_up=None if second is None else names[second],
        margin=margin,
        low=low,
        high=high,
        peers=peers,
        decided=decided and enough,
        samples=len(names),
        missing=missing,
    )


def _compared(
    table: FloatArray, means: FloatArray, first: int, second: int, rule: Rule
) -> tuple[float | None, float | None, float | None, int]:
    """The difference of two scores, its interval by the differences with common peers, and their number."""
    differences = table[first] - table[second]
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if not n:
        return None, None, None, 0
    mean = float(means[first] - means[second])
    if n < 2:
        return mean, None, None, n
    alpha = rule.for_each(len(table))
    around = float(radius(float(n), float(differences.std(ddof=1)), alpha=alpha, bound=rule.bound))
    return mean, max(mean - around, -rule.widest), min(mean + around, rule.widest), n
