"""The strip plot: an agent's score on every task in one strip; of many tasks the quantiles and what lies beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from goldless.reports.html.charts.axis import Scale, bottom_axis, linear_scale
from goldless.reports.html.charts.svg import WIDTH, element, hint, label_room, line, picture, words
from goldless.reports.html.labels import fitted, text_width

TOP = 12
GOLDEN = 0.618034
"""Neighbours in the order of scores are moved up and down by multiples of it, so that they do not lie on each other."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A point that is named in the table below by its number."""

    number: int | None
    """None: it has none."""
    value: float
    hint: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One agent."""

    label: str
    quantiles: tuple[float, float, float, float, float] | None
    """5, 25, 50, 75 and 95 per cent; None: no score."""
    points: tuple[float, ...] | None = None
    """All scores but the outliers, where they are few enough to be drawn; None: quantiles stand for them."""
    outliers: tuple[Numbered, ...] = ()


def strip_plot(strips: Sequence[Strip], *, title: str, axis: str, width: float = WIDTH) -> Markup:
    """The plot."""
    room = label_room(width)
    left = min(room, max((text_width(fitted(s.label, room)) for s in strips), default=0) + 16)
    height = 34 if len(strips) <= 12 else 26
    ends = [
        value
        for strip in strips
        for value in (*(strip.points or ()), *(strip.quantiles or ()), *(outlier.value for outlier in strip.outliers))
    ]
    scale = linear_scale(ends, left + 6, width - 18)
    bottom = TOP + len(strips) * height + 4
    parts = [bottom_axis(scale, bottom, TOP, axis)]
    for place, strip in enumerate(strips):
        parts.append(_strip(strip, scale, TOP + (place + 0.5) * height, left, height))
    return picture(*parts, width=width, height=bottom + 44, title=title)


def _strip(strip: Strip, scale: Scale, y: float, left: float, height: float) -> Markup:
    parts = [words(fitted(strip.label, left - 8), left - 8, y + 4, class_="label", anchor="end")]
    if strip.quantiles is None:
        parts.append(words("missing", scale.begin + 4, y + 4, class_="tick missing"))
        return element("g", *parts)
    low, lower, median, upper, high = (scale(value) for value in strip.quantiles)
    half = height * 0.3
    if strip.points is not None:
        parts.append(_cloud(strip.points, scale, y, half))
    else:
        parts.append(element("rect", x=low, y=y - half * 0.5, width=max(0.5, high - low), height=half, class_="outer"))
        box = {"x": lower, "y": y - half, "width": max(0.5, upper - lower), "height": 2 * half}
        parts.append(element("rect", class_="inner", **box))
    parts.append(line(median, y - half - 2, median, y + half + 2, "median"))
    for outlier in strip.outliers:
        x = scale(outlier.value)
        parts.append(element("circle", hint(outlier.hint), cx=x, cy=y, r=4.2, class_="ring vermilion"))
        if outlier.number is not None:
            parts.append(words(str(outlier.number), x, y - 7, class_="number", anchor="middle"))
    return element("g", *parts)


def _cloud(points: Sequence[float], scale: Scale, y: float, half: float) -> Markup:
    """All points as one path of dots: a line of no length with round ends."""
    dots = "".join(
        f"M{scale(value):.1f} {y + half * (2 * ((place * GOLDEN) % 1) - 1):.1f}h0"
        for place, value in enumerate(sorted(points))
    )
    return element("path", d=dots, class_="cloud")
