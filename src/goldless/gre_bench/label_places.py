"""Where the labels of a scatter plot stand: beside their points, on no other label or point, off the lines if may be.

Every label has many places: around its point, nearer and farther. Labels move in turn to the place that costs least,
given where the others stand, until none moves; of several orders in which they do so, the one that ends best counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goldless.reports.html.labels import text_width

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Segment = tuple[float, float, float, float]
"""From x, y to x, y."""
SIZE = 13.5
"""Of letters."""
NARROWER = 0.93
"""Letters of names take so much of what broad ones are reckoned at."""
REACHES = (9.0, 13.0, 18.0, 26.0, 36.0, 48.0)
"""Distances from the point."""
LED_FROM = 20.0
"""From this distance on a thin line leads to the point."""
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
COVERS = 1000.0
"""Cost of lying on another label or point, or beyond the edges."""
CROSSES = 24.0
"""Cost of lying on a line."""
MISLEADS = 12.0
"""Cost of standing nearer to another point than to its own."""
ROUNDS = 20
ORDERS = 8
MANY = 30
"""Of more points than this fewer orders are tried."""
PLACES = 20
"""Of each label, those that cost least by themselves."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A point with a name."""

    x: float
    y: float
    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a label stands."""

    name: str
    box: Box
    lead: Segment | None
    """The line that leads to its point; None: it is beside it."""

    @property
    def middle(self) -> float:
        """Where its middle stands from the left."""
        return (self.box[0] + self.box[2]) / 2

    @property
    def base(self) -> float:
        """The line its letters stand on."""
        return self.box[3] - SIZE * 0.28


def label_places(
    points: Sequence[Labelled], *, lines: Sequence[Segment], within: Box, mark: float = 6.0
) -> list[Place | None]:
    """A place for each label; None: there is no room for it.

    ``lines``: what is better not covered. ``mark``: half the size of a point.
    """
    marks = [(p.x - mark, p.y - mark, p.x + mark, p.y + mark) for p in points]
    offered = [_offered(point, marks, lines, within) for point in points]
    orders = [list(range(len(points)))]
    random = np.random.default_rng(0)
    orders += [random.permutation(len(points)).tolist() for _ in range(ORDERS - 1 if len(points) <= MANY else 1)]
    settled = [_settled(offered, order) for order in orders]
    return _kept(min(settled, key=lambda found: found[0])[1], marks, within)


def _settled(offered: Sequence[Sequence[tuple[float, Place]]], order: Sequence[int]) -> tuple[float, list[Place]]:
    """Where labels come to rest that are put down, and then moved, in this order; and what all places cost."""
    chosen: dict[int, tuple[float, Place]] = {}
    for _ in range(ROUNDS):
        before = dict(chosen)
        for at in order:
            others = [place for other, (_, place) in chosen.items() if other != at]
            costs = ((alone + _against(place, others), alone, place) for alone, place in offered[at])
            _, alone, place = min(costs, key=lambda one: one[0])
            chosen[at] = (alone, place)
        if chosen == before:
            break
    places = [chosen[at][1] for at in range(len(offered))]
    between = sum(_against(place, places[:at]) for at, place in enumerate(places))
    return sum(alone for alone, _ in chosen.values()) + between, places


def _kept(chosen: Sequence[Place], marks: Sequence[Box], within: Box) -> list[Place | None]:
    """Those that cover nothing; of two labels on each other, the first."""
    kept: list[Place | None] = []
    for place in chosen:
        taken = [other.box for other in kept if other is not None]
        free = not any(_overlap(place.box, box) for box in (*marks, *taken)) and _inside(place.box, within)
        kept.append(place if free else None)
    return kept


def _offered(point: Labelled, marks: Sequence[Box], lines: Sequence[Segment], within: Box) -> list[tuple[float, Place]]:
    """All places of a label, with what each costs whatever the other labels do."""
    found = []
    wide = text_width(point.name, SIZE) * NARROWER
    for reach in REACHES:
        for turn, (right, down) in enumerate(DIRECTIONS):
            box = _box(point, wide, right, down, reach)
            lead = _lead(point, box) if reach >= LED_FROM else None
            cost = reach * 0.6 + turn * 0.4
            cost += COVERS * (sum(_overlap(box, mark) for mark in marks) + (not _inside(box, within)))
            cost += CROSSES * sum(_crosses(line, box) for line in lines)
            own = _distance(point.x, point.y, box)
            cost += MISLEADS * sum(_distance(*_centre(mark), box) < own - 0.5 for mark in marks)
            if lead is not None:
                cost += CROSSES * sum(_crosses(lead, mark) for mark in marks if not _holds(mark, point))
            found.append((cost, Place(point.name, box, lead)))
    return sorted(found, key=lambda place: place[0])[:PLACES]


def _against(place: Place, others: Sequence[Place]) -> float:
    cost = 0.0
    for other in others:
        cost += COVERS * _overlap(place.box, other.box)
        cost += CROSSES * (other.lead is not None and _crosses(other.lead, place.box))
        cost += CROSSES * (place.lead is not None and _crosses(place.lead, other.box))
    return cost


def _box(point: Labelled, wide: float, right: int, down: int, reach: float) -> Box:
    """The box of the letters, in that direction of the point."""
    tall = SIZE * 1.12
    aside = reach * (0.75 if right and down else 1.0)
    left = point.x - wide / 2 if right == 0 else point.x + aside if right > 0 else point.x - aside - wide
    top = point.y - tall / 2 if down == 0 else point.y + aside if down > 0 else point.y - aside - tall
    return left, top, left + wide, top + tall


def _lead(point: Labelled, box: Box) -> Segment:
    x, y = min(max(point.x, box[0]), box[2]), min(max(point.y, box[1]), box[3])
    return point.x, point.y, x, y


def _distance(x: float, y: float, box: Box) -> float:
    """From a point to the nearest part of a box."""
    return math.hypot(x - min(max(x, box[0]), box[2]), y - min(max(y, box[1]), box[3]))


def _centre(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _inside(box: Box, within: Box) -> bool:
    return box[0] >= within[0] and box[1] >= within[1] and box[2] <= within[2] and box[3] <= within[3]


def _holds(box: Box, point: Labelled) -> bool:
    return box[0] <= point.x <= box[2] and box[1] <= point.y <= box[3]


def _crosses(line: Segment, box: Box) -> bool:
    """Whether a part of the line lies in the box (Liang and Barsky)."""
    x, y, across, down = line[0], line[1], line[2] - line[0], line[3] - line[1]
    begin, end = 0.0, 1.0
    for step, room in ((-across, x - box[0]), (across, box[2] - x), (-down, y - box[1]), (down, box[3] - y)):
        if step == 0:
            if room <= 0:
                return False
        elif step < 0:
            begin = max(begin, room / step)
        else:
            end = min(end, room / step)
    return begin < end
