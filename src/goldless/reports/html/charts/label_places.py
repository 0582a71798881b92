"""Label placement for scatter plots: beside the point, clear of other labels and points and, where possible, of lines.

Every label has places around its point, nearer and farther. Each moves to the cheapest place given the others, a few
times over, those with the least room first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.reports.html.charts.svg import SMALL
from goldless.reports.html.labels import text_width

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Segment = tuple[float, float, float, float]
"""From x, y to x, y."""
NARROWER = 0.93
"""Width of the letters of names, relative to the widths that ``text_width`` assumes."""
MARK = 6.0
"""Half the size of a point."""
REACHES = (9.0, 13.0, 18.0, 26.0, 36.0, 48.0, 62.0)
"""Distances from the point."""
LED_FROM = 16.0
"""From this distance on, a leader line connects label and point."""
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
PIECE = 5.0
"""Lines are kept clear in pieces of this length."""
COVERS = 1000.0
"""Cost of covering another label or point, or crossing the edges."""
CROSSES = 4.0
"""Cost of covering a piece of a line."""
MISLEADS = 20.0
"""Cost of being nearer to another point than to its own."""
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a label."""

    box: Box
    lead: Segment | None
    """The leader line to its point; None: it is right beside it."""


def label_places(
    points: Sequence[tuple[float, float]], names: Sequence[str], *, lines: Sequence[Segment], within: Box
) -> list[Place | None]:
    """A place for each name beside its point; None: no room, or an empty name. ``lines`` are better not covered."""
    centres = np.array(points, dtype=np.float64).reshape(-1, 2)
    marks = np.hstack([centres - MARK, centres + MARK])
    pieces = np.array([at for one in lines for at in _pieces(one)]).reshape(-1, 2)
    offered = {
        at: _offered(at, name, centres, marks=marks, pieces=pieces, within=within)
        for at, name in enumerate(names)
        if name
    }
    order = sorted(offered, key=lambda at: int((offered[at][1] < COVERS).sum()))
    chosen: dict[int, FloatArray] = {}
    for at in order * ROUNDS:
        chosen.pop(at, None)
        boxes, costs = offered[at]
        chosen[at] = boxes[np.argmin(costs + COVERS * _overlap(boxes, chosen.values()).sum(axis=1))]
    found: list[Place | None] = [None] * len(points)
    kept: list[FloatArray] = [*marks]
    for at, box in chosen.items():
        left, top, right, bottom = box.tolist()
        if not _overlap(box[None], kept).any() and _inside(box[None], within).all():
            kept.append(box)
            x, y = points[at]
            nearest = min(max(x, left), right), min(max(y, top), bottom)
            lead = (x, y, *nearest) if math.dist((x, y), nearest) >= LED_FROM else None
            found[at] = Place((left, top, right, bottom), lead)
    return found


def _pieces(one: Segment) -> list[tuple[float, float]]:
    x1, y1, x2, y2 = one
    count = 1 + int(max(abs(x2 - x1), abs(y2 - y1)) / PIECE)
    return [(x1 + (x2 - x1) * at / count, y1 + (y2 - y1) * at / count) for at in range(count + 1)]


def _offered(
    at: int, name: str, centres: FloatArray, *, marks: FloatArray, pieces: FloatArray, within: Box
) -> tuple[FloatArray, FloatArray]:
    """The boxes of all places of a label, and their costs."""
    size = np.array([text_width(name, SMALL) * NARROWER, SMALL * 1.12])
    reach = np.repeat(REACHES, len(DIRECTIONS))
    towards = np.tile(np.array(DIRECTIONS), (len(REACHES), 1))
    aside = (reach * np.where((towards != 0).all(axis=1), 0.75, 1.0))[:, None]
    corner = centres[at] + np.where(towards == 0, -size / 2, np.where(towards > 0, aside, -aside - size))
    boxes = np.hstack([corner, corner + size])
    costs = reach * 0.6 + np.tile(np.arange(len(DIRECTIONS)) * 0.4, len(REACHES))
    costs += COVERS * (_overlap(boxes, marks).sum(axis=1) + ~_inside(boxes, within))
    costs += CROSSES * ((boxes[:, None, :2] < pieces) & (pieces < boxes[:, None, 2:])).all(axis=2).sum(axis=1)
    nearest = np.clip(centres, boxes[:, None, :2], boxes[:, None, 2:])
    distances = np.hypot(*np.moveaxis(centres - nearest, -1, 0))
    return boxes, costs + MISLEADS * (distances < distances[:, at, None] - 0.5).sum(axis=1)


def _overlap(boxes: FloatArray, others: Iterable[FloatArray]) -> BoolArray:
    """For each box and each of the others, whether they overlap."""
    mine, theirs = boxes[:, None], np.array([*others]).reshape(1, -1, 4)
    return np.asarray(((mine[..., :2] < theirs[..., 2:]) & (theirs[..., :2] < mine[..., 2:])).all(axis=-1))


def _inside(boxes: FloatArray, within: Box) -> BoolArray:
    return np.asarray((boxes[:, :2] >= within[:2]).all(axis=1) & (boxes[:, 2:] <= within[2:]).all(axis=1))
