"""TVD-MI: how much better than chance a critic tells that two agents' responses belong together.

For agents i and j on tasks t = 1..n, with the critic's verdict f in [0, 1] on a pair of responses,

    S(i, j) = 1/n Σ_t f(Y_i^t, Y_j^t) - 1/(n(n-1)) Σ_{t≠s} f(Y_i^t, Y_j^s)

is a lower bound of the total variation distance between the joint distribution of their responses and the product of
its marginals (the TVD-MI paper, equations 1-3). Equation 3 takes the second mean over all n² pairs, the matched ones
among them, which makes it (1 - 1/n) times this; here shuffled pairs are of different tasks only. The second mean is
estimated from a few shuffles of each task, drawn as derangements, so that S is the mean over tasks of

    contrast(t) = f(Y_i^t, Y_j^t) - mean over the shuffles s of t of f(Y_i^t, Y_j^s).

A response's score is the mean over its partners (the paper sums, which grows with their number). By default it is the
mean of both directions, what the response tells about the partners' and what theirs tell about it: a critic's verdict
depends on the order of the two, and both orders are asked anyway. One direction alone is there by name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, Literal, get_args

import narwhals.stable.v2 as nw

from goldless.errors import MetricError, nearest
from goldless.evidence import VerdictEvidence
from goldless.metrics.scores import PairScore, ResponseScore

Direction = Literal["both", "given", "about"]
"""``given``: what a response tells about the partners'. ``about``: what theirs tell about it. ``both``: the mean."""
COLUMNS = ("task", "first", "second", "contrast")
"""Columns of a table of recorded contrasts."""


def contrasts(verdicts: Iterable[VerdictEvidence]) -> list[PairScore]:
    """The contrast of every ordered pair on every task: the agent is the first of the pair, the peer the second.

    Shuffled verdicts that are missing are left out. A contrast is missing where the matched verdict is, or every
    shuffled one; the cause is the failure's.
    """
    asked: dict[tuple[str, ...], list[VerdictEvidence]] = {}
    for verdict in verdicts:
        key = (verdict.critic, verdict.prompt, verdict.task, verdict.first, verdict.second)
        asked.setdefault(key, []).append(verdict)
    return [_contrast(group) for group in asked.values()]


def _contrast(group: Sequence[VerdictEvidence]) -> PairScore:
    """The contrast from all verdicts on one pair of agents with the first response's task."""
    task, agent, peer = group[0].task, group[0].first, group[0].second
    matched = min(group, key=lambda verdict: not verdict.matched)
    known = matched.value if matched.matched else None
    values = [verdict.value for verdict in group if not verdict.matched and verdict.value is not None]
    if known is None or not values:
        lost = [verdict.failure for verdict in (matched, *group) if verdict.failure is not None]
        return PairScore(task, agent, peer, None, lost[0].kind if lost else None)
    # the mean of the differences, not the difference of means: exactly 0 where all verdicts are equal
    return PairScore(task, agent, peer, math.fsum(known - value for value in values) / len(values))


def contrasts_from_table(table: Any) -> list[PairScore]:
    """The contrasts that a study carries: a frame, or rows, with columns task, first, second and contrast.

    An empty or NaN contrast is missing as ``not_recorded``. Rows that pair an agent with itself, which some tables
    carry as zeros, are left out.
    """
    found: dict[tuple[str, str, str], PairScore] = {}
    rows = 0
    for task, first, second, value in zip(*_columns(table), strict=True):
        if first != second:
            rows += 1
            score = _number(value, task, first, second)
            found[task, first, second] = PairScore(
                task, first, second, score, "not_recorded" if score is None else None
            )
    if rows > len(found):
        raise MetricError(
            f"{rows - len(found)} of {rows} recorded contrasts repeat the task, first and second of another: "
            "a table holds the contrasts of one critic on one set of responses"
        )
    return list(found.values())


def _columns(table: Any) -> list[list[Any]]:
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        names = list(dict.fromkeys(name for row in table for name in row))
        _check_columns(names)
        return _named([[row.get(column) for row in table] for column in COLUMNS])
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError as error:
        raise MetricError(
            f"contrasts are a frame or a list of rows with columns {', '.join(COLUMNS)}; this is a "
            f"{type(table).__module__}.{type(table).__qualname__}"
        ) from error
    _check_columns(frame.columns)
    return _named([frame[column].to_list() for column in COLUMNS])


def _named(columns: list[list[Any]]) -> list[list[Any]]:
    for name, column in zip(COLUMNS[:3], columns[:3], strict=True):
        if None in column:
            raise MetricError(f"row {column.index(None) + 1} of the recorded contrasts has no {name}")
    return columns


def _check_columns(names: Sequence[str]) -> None:
    for column in COLUMNS:
        if names and column not in names:
            raise MetricError(
                f"recorded contrasts have no column {column!r}{nearest(column, names) or '.'} "
                f"Needed: {', '.join(COLUMNS)}. Found: {', '.join(names)}."
            )


def _number(value: Any, task: str, first: str, second: str) -> float | None:
    if value is None or value != value:  # noqa: PLR0124 - NaN, of whatever type
        return None
    if isinstance(value, str):  # one cell of text makes a whole column text: only that one is wrong
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not -1 <= float(value) <= 1:
        raise MetricError(
            f"task {task}, {first} and {second}: a contrast is a matched verdict less a shuffled one, a number from "
            f"-1 to 1 or empty where missing, not {value!r}"
        )
    return float(value)


def response_scores(
    pairs: Iterable[PairScore], *, direction: Direction = "both", peers: Collection[str] | None = None
) -> list[ResponseScore]:
    """The score of each response: the mean contrast over its partners, higher is better.

    ``given`` averages the contrasts with the response as first, ``about`` those with it as second, ``both`` takes the
    mean of these two averages. Missing where an average that is needed has no contrast left: the two directions differ
    in level, so one does not stand in for the other. ``peers``: the agents that count as partners, such as a panel
    common to all; None: every other agent. Asked and used count contrasts.
    """
    if direction not in get_args(Direction):
        raise MetricError(f"the direction is one of {', '.join(get_args(Direction))}, not {direction!r}")
    given: dict[tuple[str, str], list[float | None]] = {}
    about: dict[tuple[str, str], list[float | None]] = {}
    order: dict[tuple[str, str], None] = {}
    for pair in pairs:
        if direction != "about" and (peers is None or pair.peer in peers):
            order[pair.task, pair.agent] = None
            given.setdefault((pair.task, pair.agent), []).append(pair.score)
        if direction != "given" and (peers is None or pair.agent in peers):
            order[pair.task, pair.peer] = None
            about.setdefault((pair.task, pair.peer), []).append(pair.score)
    sides = {"both": (given, about), "given": (given,), "about": (about,)}[direction]
    return [_response(*key, [side.get(key, []) for side in sides]) for key in order]


def _response(task: str, agent: str, sides: Sequence[Sequence[float | None]]) -> ResponseScore:
    used = [[score for score in side if score is not None] for side in sides]
    score = sum(sum(side) / len(side) for side in used) / len(used) if all(used) else None
    return ResponseScore(task, agent, score, asked=sum(map(len, sides)), used=sum(map(len, used)))
