"""The scatter plot: points with intervals, a frontier, lines within a family, and a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from goldless.reports.html.charts.axis import LogScale, Scale, bottom_axis, left_axis, linear_scale, log_scale
from goldless.reports.html.charts.label_places import Labelled, label_places
from goldless.reports.html.charts.row_plots import Band
from goldless.reports.html.charts.svg import WIDTH, Shape, element, hint, line, mark, picture, words
from goldless.reports.html.labels import fitted, text_width

HEIGHT = 420
LEFT, RIGHT, TOP, BOTTOM = 58, 28, 40, 52
LETTERS = 11.5


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


@dataclass(frozen=True, slots=True)
class Area:
    """The plotting area."""

    left: float
    top: float
    right: float
    bottom: float
    edge: float
    """Right limit for labels."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A finished panel of points."""

    drawn: Markup
    unnamed: int
    """Labels without room."""


Lines = Sequence[tuple[str, Sequence[tuple[float, float]]]]
"""Each a class and its points."""


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
) -> Markup:
    """The plot."""
    area = Area(LEFT, TOP, width - RIGHT, HEIGHT - BOTTOM, width)
    scale = log_scale if logarithmic else linear_scale
    across: Scale | LogScale = scale([point.x for point in points], area.left, area.right)
    axis = bottom_axis(across, area.bottom, area.top, x_axis)
    shown = [replace(point, label=fitted(point.label, min(190, width * 0.4), LETTERS)) for point in points]
    panel = scatter_panel(shown, area, across=across, axis=axis, y_axis=y_axis, lines=lines, band=band)
    legend = _legend(points, width)
    return picture(panel.drawn, *legend, width=width, height=HEIGHT + (22 if legend else 0), title=title)


def scatter_panel(
    points: Sequence[Point],
    area: Area,
    *,
    across: Scale | LogScale,
    axis: Markup,
    y_axis: str,
    lines: Lines = (),
    band: Band | None = None,
    letters: float = LETTERS,
    coloured: bool = False,
) -> Panel:
    """Points, lines and band with axes and labels. ``coloured``: labels have the colour of their points."""
    ends = [end for point in points for end in (point.y, point.low, point.high)]
    up = linear_scale(ends, area.bottom, area.top, include=() if band is None else (band.low, band.high, band.middle))
    paths = [(class_, [(across(x), up(y)) for x, y in path]) for class_, path in lines if len(path) > 1]
    kept_free = [(*one, *other) for _, path in paths for one, other in pairwise(path)]
    kept_free += [
        (across(p.x), up(high), across(p.x), up(low))
        for p in points
        if (low := p.low) is not None and (high := p.high) is not None
    ]
    if band is not None and band.middle is not None:
        kept_free.append((area.left, up(band.middle), area.right, up(band.middle)))
    places = label_places(
        [Labelled(across(point.x), up(point.y), point.label if point.named else "") for point in points],
        lines=kept_free,
        within=(area.left + 2, area.top - 8, area.edge - 2, area.bottom - 1),
        letters=letters,
    )
    parts = [] if band is None else [_band(band, up, area)]
    parts += [axis, left_axis(up, area.left, area.right, y_axis)]
    parts += [element("path", d=_steps(path), class_=class_) for class_, path in paths]
    parts += [line(*place.lead, "lead") for place in places if place is not None and place.lead is not None]
    parts += [_point(point, across(point.x), up) for point in points]
    for point, place in zip(points, places, strict=True):
        if place is not None:
            class_ = f"point-label {point.tone}" if coloured else "point-label"
            base = place.box[3] - letters * 0.28
            parts.append(words(place.name, place.middle, base, class_=class_, anchor="middle"))
    unnamed = sum(place is None for point, place in zip(points, places, strict=True) if point.named)
    return Panel(Markup("").join(parts), unnamed)


def _steps(path: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(path))


def _band(band: Band, up: Scale, area: Area) -> Markup:
    parts, top = [], area.top
    if band.low is not None and band.high is not None:
        top = up(band.high)
        height = max(1.0, up(band.low) - top)
        parts.append(element("rect", x=area.left, y=top, width=area.right - area.left, height=height, class_="band"))
    elif band.middle is not None:
        top = up(band.middle)
    if band.middle is not None:
        parts.append(line(area.left, up(band.middle), area.right, up(band.middle), "band-line"))
    if band.label:
        parts.append(words(band.label, area.right - 4, top - 5, class_="tick", anchor="end"))
    return Markup("").join(parts)


def _point(point: Point, x: float, up: Scale) -> Markup:
    parts = [hint(point.hint)]
    if point.low is not None and point.high is not None:
        parts.append(line(x, up(point.low), x, up(point.high), f"whisker thin {point.tone}"))
    parts.append(mark(point.shape, x, up(point.y), point.tone, size=point.size))
    return element("g", *parts)


def _legend(points: Sequence[Point], width: float) -> list[Markup]:
    kinds = dict.fromkeys((p.series, p.shape, p.tone) for p in points if p.series)
    parts, x = [], float(LEFT)
    for series, shape, tone in kinds:
        text = fitted(series, 200, 11.5)
        if x + text_width(text, 11.5) > width - 20:
            parts.append(words("…", x, HEIGHT + 14, class_="tick"))
            break
        parts += [mark(shape, x + 5, HEIGHT + 10, tone), words(text, x + 15, HEIGHT + 14, class_="tick")]
        x += 15 + text_width(text, 11.5) + 22
    return parts
