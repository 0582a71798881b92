"""The scatter plot: points with intervals, lines such as a frontier or the members of a family, and a band."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from markupsafe import Markup

from goldless.reports.html.charts.axis import Scale, bottom_axis, left_axis, scale_over
from goldless.reports.html.charts.row_plots import Band
from goldless.reports.html.charts.svg import SMALL, WIDTH, Shape, element, hint, legend, line, mark, picture, words
from goldless.reports.html.labels import fitted, text_width

HEIGHT = 420
LEFT, RIGHT, TOP, BOTTOM = 58, 28, 40, 52
Lines = Sequence[tuple[str, Sequence[tuple[float, float]]]]
"""Each a class and its points."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point."""

    label: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    series: str = ""
    """Its series, shown in the legend."""
    shape: Shape = "dot"
    tone: str = "blue"
    hint: str = ""
    named: bool = True
    """Whether to label it if there is room."""
    size: float = 4.5


def family_lines(points: Iterable[Point]) -> Lines:
    """Lines through the points of each series, in its colour."""
    families: dict[str, list[Point]] = {}
    for point in points:
        families.setdefault(point.series, []).append(point)
    return [(f"family {of[0].tone}", sorted((point.x, point.y) for point in of)) for of in families.values()]


def scatter_plot(
    points: Sequence[Point],
    *,
    title: str,
    x_axis: str,
    y_axis: str,
    logarithmic: bool = False,
    lines: Lines = (),
    band: Band | None = None,
    width: float = WIDTH,
    legend_below: bool = True,
) -> Markup:
    """The plot; a label without room is left out."""
    right, bottom = width - RIGHT, HEIGHT - BOTTOM
    across = scale_over([point.x for point in points], LEFT, right, logarithmic=logarithmic)
    ends = [end for point in points for end in (point.y, point.low, point.high)]
    up = scale_over([*ends, *(() if band is None else band.ends)], bottom, TOP)
    paths = [(class_, [(across(x), up(y)) for x, y in path]) for class_, path in lines if len(path) > 1]
    whiskers = {
        at: (across(point.x), up(point.low), across(point.x), up(point.high))
        for at, point in enumerate(points)
        if point.low is not None and point.high is not None
    }
    names = [fitted(point.label, min(190, width * 0.4), SMALL) if point.named else "" for point in points]
    places = label_places(
        [(across(point.x), up(point.y)) for point in points],
        names,
        lines=[*((*one, *other) for _, path in paths for one, other in pairwise(path)), *whiskers.values()],
        within=(LEFT + 2, TOP - 8, width - 2, bottom - 1),
    )
    parts = [] if band is None else [_band(band, up, right)]
    parts += [bottom_axis(across, bottom, TOP, x_axis), left_axis(up, LEFT, right, y_axis)]
    parts += [element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in p), class_=class_) for class_, p in paths]
    for point, box in zip(points, places, strict=True):
        if box is not None:
            x, y = across(point.x), up(point.y)
            nearest = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
            if math.dist((x, y), nearest) >= LED_FROM:
                parts.append(line(x, y, *nearest, "lead"))
    for at, point in enumerate(points):
        whisker = [line(*whiskers[at], f"whisker thin {point.tone}")] if at in whiskers else []
        drawn = mark(point.shape, across(point.x), up(point.y), point.tone, size=point.size)
        parts.append(element("g", hint(point.hint), *whisker, drawn))
    for point, name, box in zip(points, names, places, strict=True):
        if box is not None:
            x, y = (box[0] + box[2]) / 2, box[3] - SMALL * 0.28
            parts.append(words(name, x, y, class_=f"point-label {point.tone}", anchor="middle"))
    below, tall = series_legend(points, width - LEFT) if legend_below else (Markup(""), 0.0)
    if tall:
        parts.append(element("g", below, transform=f"translate({LEFT} {HEIGHT + 4})"))
    return picture(*parts, width=width, height=HEIGHT + tall, title=title)


def series_legend(points: Iterable[Point], width: float) -> tuple[Markup, float]:
    """The series with their marks, in as many lines as they need, and the height of all."""
    series = {point.series: point for point in points if point.series}
    keys = [(mark(point.shape, 8, 6, point.tone), name) for name, point in series.items()]
    return legend(keys, width, 0)


def _band(band: Band, up: Scale, right: float) -> Markup:
    parts, top = [], float(TOP)
    if band.low is not None and band.high is not None:
        top = up(band.high)
        height = max(1.0, up(band.low) - top)
        parts.append(element("rect", x=LEFT, y=top, width=right - LEFT, height=height, class_="band"))
    elif band.middle is not None:
        top = up(band.middle)
    if band.middle is not None:
        parts.append(line(LEFT, up(band.middle), right, up(band.middle), "band-line"))
    if band.label:
        parts.append(words(band.label, right - 4, top - 5, class_="tick", anchor="end"))
    return Markup("").join(parts)


# --- labels of points ------------------------------------------------------------------------------------------------

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Segment = tuple[float, float, float, float]
"""From x, y to x, y."""
NARROWER = 0.93
"""Width of the letters of names, relative to the widths that ``text_width`` assumes."""
MARK = 6.0
"""Half the size of a point."""
REACHES = (9.0, 13.0, 18.0, 26.0, 36.0, 48.0, 62.0)
"""Distances of a label from its point."""
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
LED_FROM = 16.0
"""From this distance on, a leader line connects label and point."""
PIECE = 5.0
"""Lines are kept clear in pieces of this length."""


def label_places(
    points: Sequence[tuple[float, float]], names: Sequence[str], *, lines: Sequence[Segment], within: Box
) -> list[Box | None]:
    """A place for each name beside its point: on no other label or point and, where possible, on no line.

    Those with the least room come first, each at the cheapest place that is left. None: no room, or an empty name.
    """
    marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in points]
    dots = [dot for one in lines for dot in _pieces(one)]
    offered: dict[int, list[tuple[float, Box]]] = {}
    for at, (point, name) in enumerate(zip(points, names, strict=True)):
        places = _places(point, name) if name else []
        free = [
            (cost, box) for cost, box in places if _inside(box, within) and not any(_overlap(box, m) for m in marks)
        ]
        offered[at] = sorted((cost + 4 * _crossed(box, dots), box) for cost, box in free)
    found: list[Box | None] = [None] * len(points)
    for at in sorted(offered, key=lambda at: len(offered[at])):
        taken = [box for box in found if box is not None]
        found[at] = next((box for _, box in offered[at] if not any(_overlap(box, one) for one in taken)), None)
    return found


def _places(point: tuple[float, float], name: str) -> list[tuple[float, Box]]:
    """Every place around a point with its cost: near ones are cheap, and so is the right-hand side."""
    width, height = text_width(name, SMALL) * NARROWER, SMALL * 1.12
    found = []
    for reach, (turn, (right, down)) in product(REACHES, enumerate(DIRECTIONS)):
        aside = reach * (0.75 if right and down else 1.0)
        left = point[0] + (aside if right > 0 else -aside - width if right < 0 else -width / 2)
        top = point[1] + (aside if down > 0 else -aside - height if down < 0 else -height / 2)
        found.append((reach * 0.6 + turn * 0.4, (left, top, left + width, top + height)))
    return found


def _pieces(one: Segment) -> list[tuple[float, float]]:
    x1, y1, x2, y2 = one
    count = 1 + int(max(abs(x2 - x1), abs(y2 - y1)) / PIECE)
    return [(x1 + (x2 - x1) * at / count, y1 + (y2 - y1) * at / count) for at in range(count + 1)]


def _crossed(box: Box, dots: Iterable[tuple[float, float]]) -> int:
    return sum(box[0] < x < box[2] and box[1] < y < box[3] for x, y in dots)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _inside(box: Box, within: Box) -> bool:
    return box[0] >= within[0] and box[1] >= within[1] and box[2] <= within[2] and box[3] <= within[3]
