"""Label placement for scatter plots: beside the point, clear of other labels and points and, where possible, of lines.

Every label has many candidate places around its point, nearer and farther. Labels move in turn to the cheapest place,
given the others, until none moves; the best of several orders is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.reports.html.labels import text_width

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Segment = tuple[float, float, float, float]
"""From x, y to x, y."""
NARROWER = 0.93
"""Width of the letters of names, relative to the widths that ``text_width`` assumes."""
REACHES = (9.0, 13.0, 18.0, 26.0, 36.0, 48.0)
"""Candidate distances from the point."""
NEAR = 3
"""The first of these need no leader line."""
LED_FROM = 20.0
"""From this distance on, a leader line connects label and point."""
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
COVERS = 1000.0
"""Cost of covering another label or point, or crossing the edges."""
CROSSES = 24.0
"""Cost of covering a line."""
MISLEADS = 12.0
"""Cost of being nearer to another point than to its own."""
ROUNDS = 20
MANY = 30
"""With more points than this, only near places and one order are tried."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A point with a label; one with an empty label is only kept clear."""

    x: float
    y: float
    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a label."""

    name: str
    box: Box
    lead: Segment | None
    """The leader line to its point; None: it is right beside it."""

    @property
    def middle(self) -> float:
        """Horizontal position of its middle."""
        return (self.box[0] + self.box[2]) / 2


def label_places(
    points: Sequence[Labelled], *, lines: Sequence[Segment], within: Box, letters: float = 13.5, mark: float = 6.0
) -> list[Place | None]:
    """A place for each label; None: no room, or no label.

    ``lines``: what is better not covered. ``letters``: their size. ``mark``: half the size of a point.
    """
    named = [at for at, point in enumerate(points) if point.name]
    if not named:
        return [None] * len(points)
    centres = np.array([(point.x, point.y) for point in points])
    marks = np.hstack([centres - mark, centres + mark])
    few = len(named) <= MANY
    kept_free = np.array(lines).reshape(-1, 4)
    reaches = REACHES if few else REACHES[:NEAR]
    offered = [_offered(points[at], marks, kept_free, within, letters, reaches=reaches) for at in named]
    boxes, leads, alone = (np.stack(part)[:, : 20 if few else 4] for part in zip(*offered, strict=True))
    between = _between(boxes, leads)
    random = np.random.default_rng(0)
    orders = [np.arange(len(named)), *(random.permutation(len(named)) for _ in range(7 if few else 0))]
    _, chosen = min((_settled(alone, between, order) for order in orders), key=lambda found: found[0])
    found: list[Place | None] = [None] * len(points)
    taken = marks
    for place, at in enumerate(named):
        box, lead = boxes[place, chosen[place]], leads[place, chosen[place]]
        if not _overlap(box, taken).any() and _inside(box, within):
            taken = np.vstack([taken, box])
            led = None if np.isnan(lead).any() else _four(lead)
            found[at] = Place(points[at].name, _four(box), led)
    return found


def _four(values: FloatArray) -> tuple[float, float, float, float]:
    a, b, c, d = values.tolist()
    return a, b, c, d


def _settled(alone: FloatArray, between: FloatArray, order: npt.NDArray[np.intp]) -> tuple[float, list[int]]:
    """The total cost, and the chosen place of each label, when labels move in this order."""
    chosen: dict[int, int] = {}
    for _ in range(ROUNDS):
        before = dict(chosen)
        for at in order.tolist():
            chosen.pop(at, None)
            against = between[at][:, list(chosen), list(chosen.values())].sum(axis=1)
            chosen[at] = int(np.argmin(alone[at] + against))
        if chosen == before:
            break
    rest = [chosen[at] for at in range(len(alone))]
    every = np.arange(len(rest))
    pairs = between[every, rest][:, every, rest]
    return float(alone[every, rest].sum() + np.tril(pairs, -1).sum()), rest


def _offered(
    point: Labelled, marks: FloatArray, lines: FloatArray, within: Box, letters: float, *, reaches: Sequence[float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Boxes and leader lines of all places of a label with their fixed costs, cheapest first."""
    size = np.array([text_width(point.name, letters) * NARROWER, letters * 1.12])
    here = np.array([point.x, point.y])
    found = [(reach, turn, *turned) for reach in reaches for turn, turned in enumerate(DIRECTIONS)]
    reach, turn, right, down = np.array(found).T
    towards = np.stack([right, down], axis=1)
    aside = (reach * np.where((right != 0) & (down != 0), 0.75, 1.0))[:, None]
    corner = here + np.where(towards == 0, -size / 2, np.where(towards > 0, aside, -aside - size))
    boxes = np.hstack([corner, corner + size])
    leads = np.hstack([np.broadcast_to(here, corner.shape), np.clip(here, boxes[:, :2], boxes[:, 2:])])
    leads[reach < LED_FROM] = np.nan
    centres = (marks[:, :2] + marks[:, 2:]) / 2
    own = _distance(here, boxes)
    others = ~np.all((marks[:, :2] <= here) & (here <= marks[:, 2:]), axis=1)
    cost = reach * 0.6 + turn * 0.4
    cost += COVERS * (_overlap(boxes[:, None], marks[None]).sum(axis=1) + ~_inside(boxes, within))
    cost += CROSSES * _crosses(lines[None], boxes[:, None]).sum(axis=1)
    cost += MISLEADS * (_distance(centres[None], boxes[:, None]) < own[:, None] - 0.5).sum(axis=1)
    cost += CROSSES * _crosses(leads[:, None], marks[None, others]).sum(axis=1)
    order = np.argsort(cost, kind="stable")
    return boxes[order], leads[order], cost[order]


def _between(boxes: FloatArray, leads: FloatArray) -> FloatArray:
    """Cost of each place of a label given each place of another: [label, place, other, other's place]."""
    mine, theirs = boxes[:, :, None, None], boxes[None, None]
    covered: FloatArray = np.where(_overlap(mine, theirs), COVERS, 0.0)
    if np.isnan(leads).all():
        return covered
    crossed = _crosses(leads[:, :, None, None], theirs)
    return covered + CROSSES * (crossed + crossed.transpose(2, 3, 0, 1))


def _distance(point: FloatArray, box: FloatArray) -> FloatArray:
    """Distances from points to boxes."""
    nearest = np.clip(point, box[..., :2], box[..., 2:])
    return np.asarray(np.hypot(*np.moveaxis(point - nearest, -1, 0)))


def _overlap(one: FloatArray, other: FloatArray) -> BoolArray:
    return np.asarray(np.all((one[..., :2] < other[..., 2:]) & (other[..., :2] < one[..., 2:]), axis=-1))


def _inside(box: FloatArray, within: Box) -> BoolArray:
    return np.asarray(np.all((box[..., :2] >= within[:2]) & (box[..., 2:] <= within[2:]), axis=-1))


def _crosses(line: FloatArray, box: FloatArray) -> BoolArray:
    """Whether a line crosses a box (Liang and Barsky); a line of NaN never does."""
    start, step = line[..., :2], line[..., 2:] - line[..., :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(box[..., :2] - start) / step, (box[..., 2:] - start) / step])
    begin = np.maximum(0.0, ends.min(axis=0).max(axis=-1))
    end = np.minimum(1.0, ends.max(axis=0).min(axis=-1))
    return np.asarray(begin < end)
