"""The scatter plot: points with intervals, lines such as a frontier or the members of a family, and a band."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from goldless.reports.html.charts.axis import Scale, bottom_axis, left_axis, scale_over
from goldless.reports.html.charts.label_places import label_places
from goldless.reports.html.charts.row_plots import Band
from goldless.reports.html.charts.svg import SMALL, WIDTH, Shape, element, hint, legend, line, mark, picture, words
from goldless.reports.html.labels import fitted

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
    parts += [line(*place.lead, "lead") for place in places if place is not None and place.lead is not None]
    for at, point in enumerate(points):
        whisker = [line(*whiskers[at], f"whisker thin {point.tone}")] if at in whiskers else []
        drawn = mark(point.shape, across(point.x), up(point.y), point.tone, size=point.size)
        parts.append(element("g", hint(point.hint), *whisker, drawn))
    for point, name, place in zip(points, names, places, strict=True):
        if place is not None:
            x, y = (place.box[0] + place.box[2]) / 2, place.box[3] - SMALL * 0.28
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
