"""The scatter plot: two numbers of each thing, with intervals, a frontier, lines within a family, and a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from goldless.reports.html.charts.axis import LogScale, Scale, bottom_axis, left_axis, linear_scale, log_scale
from goldless.reports.html.charts.row_plots import Band
from goldless.reports.html.charts.svg import WIDTH, Shape, element, hint, line, mark, picture, words
from goldless.reports.html.labels import fitted, text_width

HEIGHT = 420
LEFT, RIGHT, TOP, BOTTOM = 58, 28, 40, 52


@dataclass(frozen=True, slots=True)
class Point:
    """One thing."""

    label: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    series: str = ""
    """What it belongs to; shown in the legend."""
    shape: Shape = "dot"
    tone: str = "blue"
    hint: str = ""
    named: bool = True
    """Whether its label is written beside it where there is room."""
    size: float = 4.5


def scatter_plot(
    points: Sequence[Point],
    *,
    title: str,
    x_axis: str,
    y_axis: str,
    logarithmic: bool = False,
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]] = (),
    band: Band | None = None,
    width: float = WIDTH,
) -> Markup:
    """The plot. ``lines``: each a class and its points."""
    bottom = HEIGHT - BOTTOM
    xs = [point.x for point in points]
    across: Scale | LogScale = (
        log_scale(xs, LEFT, width - RIGHT) if logarithmic else linear_scale(xs, LEFT, width - RIGHT)
    )
    ends = [end for point in points for end in (point.y, point.low, point.high)]
    up = linear_scale(ends, bottom, TOP, include=() if band is None else (band.low, band.high, band.middle))
    parts = [bottom_axis(across, bottom, TOP, x_axis), left_axis(up, LEFT, width - RIGHT, y_axis)]
    if band is not None:
        parts.insert(0, _band(band, up, width))
    for class_, path in lines:
        steps = " ".join(
            f"{'M' if place == 0 else 'L'}{across(x):.1f} {up(y):.1f}" for place, (x, y) in enumerate(path)
        )
        if len(path) > 1:
            parts.append(element("path", d=steps, class_=class_))
    parts += [_point(point, across(point.x), up) for point in points]
    parts += _labels(points, across, up, width)
    legend = _legend(points, width)
    return picture(*parts, *legend, width=width, height=HEIGHT + (22 if legend else 0), title=title)


def _band(band: Band, up: Scale, width: float) -> Markup:
    parts, top = [], float(TOP)
    if band.low is not None and band.high is not None:
        top, across = up(band.high), width - LEFT - RIGHT
        height = max(1.0, up(band.low) - top)
        parts.append(element("rect", x=LEFT, y=top, width=across, height=height, class_="band"))
    elif band.middle is not None:
        top = up(band.middle)
    if band.middle is not None:
        parts.append(line(LEFT, up(band.middle), width - RIGHT, up(band.middle), "band-line"))
    if band.label:
        parts.append(words(band.label, width - RIGHT - 4, top - 5, class_="tick", anchor="end"))
    return Markup("").join(parts)


def _point(point: Point, x: float, up: Scale) -> Markup:
    parts = [hint(point.hint)] if point.hint else []
    if point.low is not None and point.high is not None:
        parts.append(line(x, up(point.low), x, up(point.high), f"whisker thin {point.tone}"))
    parts.append(mark(point.shape, x, up(point.y), point.tone, size=point.size))
    return element("g", *parts)


def _labels(points: Sequence[Point], across: Scale | LogScale, up: Scale, width: float) -> list[Markup]:
    """A label beside each point where it lies on no other label or point; the others are in the table."""
    taken = [(across(p.x) - 5, up(p.y) - 5, across(p.x) + 5, up(p.y) + 5) for p in points]
    drawn = []
    for point in points:
        text = fitted(point.label, min(190, width * 0.4), 11.5)
        wide, x, y = text_width(text, 11.5), across(point.x), up(point.y)
        places = (
            (x + 9, y + 4, "start", x + 9),
            (x - 9, y + 4, "end", x - 9 - wide),
            (x, y - 10, "middle", x - wide / 2),
            (x, y + 18, "middle", x - wide / 2),
            (x + 7, y - 9, "start", x + 7),
            (x + 7, y + 16, "start", x + 7),
        )
        for at, base, anchor, left in places if point.named else ():
            box = (left, base - 11, left + wide, base + 3)
            inside = box[0] >= LEFT and box[2] <= width and box[1] >= TOP - 8 and box[3] <= HEIGHT - BOTTOM
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                drawn.append(words(text, at, base, class_="point-label", anchor=anchor))
                break
    return drawn


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


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
