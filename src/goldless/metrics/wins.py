"""Win rates from recorded comparisons by a judge.

A judge that sees two responses prefers one place to the other by several points, so both orders are averaged: an
agent's score against a peer is the mean of its wins as first and of the peer's losses as first.
"""

from __future__ import annotations

from collections.abc import Iterable

from goldless.metrics.scores import PairScore


def win_scores(rows: Iterable[tuple[str, str, str, float | None]], *, both_orders: bool = True) -> list[PairScore]:
    """Share of wins of each agent against each peer on each task, from (task, first, second, first wins).

    With both orders a pair is missing where either order is.
    """
    won = {(task, first, second): value for task, first, second, value in rows}
    scores = []
    for (task, agent, peer), value in won.items():
        other = won.get((task, peer, agent))
        score = value
        if both_orders:
            score = None if value is None or other is None else (value + 1 - other) / 2
        scores.append(PairScore(task, agent, peer, score, "not_recorded" if score is None else None))
    return scores
