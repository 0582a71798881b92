"""Plots with one line per row: values with intervals (a forest plot), scores of tasks as strips, counts as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from goldless.reports.html.charts.axis import Scale, bottom_axis, linear_scale
from goldless.reports.html.charts.svg import WIDTH, Shape, element, hint, label_room, line, mark, picture, words
from goldless.reports.html.labels import fitted, numeral, text_width

HEADING_HEIGHT = 30
BAR_HEIGHT = 26
GOLDEN = 0.618034
"""Neighbouring scores are shifted up and down by multiples of it, so that they do not overlap."""


def _label_width(labels: Sequence[str], room: float) -> float:
    return min(room, max((text_width(fitted(label, room)) for label in labels), default=0) + 16)


def _label(text: str, width: float, y: float) -> Markup:
    return words(fitted(text, width - 8), width - 8, y + 4, class_="label", anchor="end")


def _missing(scale: Scale, y: float) -> Markup:
    return words("missing", scale.begin + 4, y + 4, class_="tick missing")


# --- values on their intervals ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One line of the plot."""

    label: str
    value: float | None
    """None: shown as missing."""
    low: float | None = None
    high: float | None = None
    aside: str = ""
    """Text at the right."""
    shape: Shape = "dot"
    tone: str = "blue"
    """A colour of the palette."""
    group: str = ""
    """Its heading; rows of a group must be adjacent."""
    hint: str = ""
    limit: float | None = None
    """A value of this row alone to compare it with."""

    @classmethod
    def of(cls, label: str, value: float | None, bounds: Any = None, *, decimals: int = 3, **more: Any) -> IntervalRow:
        """A value with its interval; the text at the right is the value unless given. ``bounds``: has low and high."""
        low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
        return cls(label, value, low, high, **{"aside": numeral(value, decimals, absent=""), **more})


@dataclass(frozen=True, slots=True)
class Band:
    """A shaded range of values; only a line at the middle if an end is unknown."""

    low: float | None
    high: float | None
    label: str = ""
    middle: float | None = None


def interval_plot(
    rows: Sequence[IntervalRow],
    *,
    title: str,
    axis: str,
    reference: float | None = None,
    band: Band | None = None,
    width: float = WIDTH,
) -> Markup:
    """The plot. ``reference``: a value marked by a line, such as 0."""
    label_width = _label_width([row.label for row in rows], label_room(width))
    aside = max((text_width(row.aside) for row in rows), default=0)
    height = 25 if len(rows) <= 20 else 21
    ends = [end for row in rows for end in (row.value, row.low, row.high, row.limit)]
    include = [reference, *(() if band is None else (band.low, band.high, band.middle))]
    scale = linear_scale(ends, label_width + 6, width - aside - 20, include=include)
    top = 14 + (18 if band is not None and band.label else 0)
    drawn: list[Markup] = []
    y, group = float(top), ""
    for row in rows:
        if row.group and row.group != group:
            group = row.group
            y += HEADING_HEIGHT if drawn else HEADING_HEIGHT - 8
            drawn.append(words(fitted(group, width), 0, y - 9, class_="group"))
        drawn.append(_row(row, scale, y + height / 2, label_width, width))
        y += height
    bottom = y + 4
    under = [bottom_axis(scale, bottom, top, axis)]
    if band is not None:
        under.insert(0, _band(band, scale, top, bottom))
    if reference is not None:
        under.append(line(scale(reference), top, scale(reference), bottom, "reference"))
    return picture(*under, *drawn, width=width, height=bottom + 44, title=title)


def _band(band: Band, scale: Scale, top: float, bottom: float) -> Markup:
    parts, at = [], scale.end
    if band.low is not None and band.high is not None:
        left, right = scale(band.low), scale(band.high)
        parts.append(element("rect", x=left, y=top, width=max(1.0, right - left), height=bottom - top, class_="band"))
        at = (left + right) / 2
    elif band.middle is not None:
        at = scale(band.middle)
    if band.middle is not None:
        parts.append(line(scale(band.middle), top, scale(band.middle), bottom, "band-line"))
    if band.label:
        near_end = at > scale.end - text_width(band.label, 11.5) / 2
        where, anchor = (scale.end, "end") if near_end else (at, "middle")
        parts.append(words(band.label, where, top - 6, class_="tick", anchor=anchor))
    return Markup("").join(parts)


def _row(row: IntervalRow, scale: Scale, y: float, label_width: float, width: float) -> Markup:
    parts = [_label(row.label, label_width, y)]
    if row.value is None:
        parts.append(_missing(scale, y))
    else:
        if row.low is not None and row.high is not None:
            parts.append(line(scale(row.low), y, scale(row.high), y, f"whisker {row.tone}"))
        parts.append(mark(row.shape, scale(row.value), y, row.tone))
    if row.limit is not None:
        parts.append(line(scale(row.limit), y - 8, scale(row.limit), y + 8, "limit"))
    if row.aside:
        parts.append(words(row.aside, width - 2, y + 4, class_="aside", anchor="end"))
    return element("g", hint(row.hint), *parts)


# --- scores of tasks as strips ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbered:
    """A point that the table below lists under its number."""

    number: int | None
    """None: no number."""
    value: float
    hint: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One agent."""

    label: str
    quantiles: tuple[float, float, float, float, float] | None
    """Quantiles at 5, 25, 50, 75 and 95 per cent; None: no score."""
    points: tuple[float, ...] | None = None
    """All scores except the outliers; None: too many to draw, so quantiles are drawn."""
    outliers: tuple[Numbered, ...] = ()


def strip_plot(strips: Sequence[Strip], *, title: str, axis: str, width: float = WIDTH) -> Markup:
    """The plot."""
    left = _label_width([strip.label for strip in strips], label_room(width))
    height = 34 if len(strips) <= 12 else 26
    ends = [
        value
        for strip in strips
        for value in (*(strip.points or ()), *(strip.quantiles or ()), *(outlier.value for outlier in strip.outliers))
    ]
    scale = linear_scale(ends, left + 6, width - 18)
    bottom = 12 + len(strips) * height + 4
    parts = [bottom_axis(scale, bottom, 12, axis)]
    for place, strip in enumerate(strips):
        parts.append(_strip(strip, scale, 12 + (place + 0.5) * height, left, height))
    return picture(*parts, width=width, height=bottom + 44, title=title)


def _strip(strip: Strip, scale: Scale, y: float, left: float, height: float) -> Markup:
    parts = [_label(strip.label, left, y)]
    if strip.quantiles is None:
        return element("g", *parts, _missing(scale, y))
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
    """All points as one path of dots: zero-length lines with round ends."""
    dots = "".join(
        f"M{scale(value):.1f} {y + half * (2 * ((place * GOLDEN) % 1) - 1):.1f}h0"
        for place, value in enumerate(sorted(points))
    )
    return element("path", d=dots, class_="cloud")


# --- counts as bars --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar."""

    label: str
    value: float
    aside: str
    """Text after the bar."""


def bar_chart(bars: Sequence[Bar], *, title: str, width: float = WIDTH) -> Markup:
    """Bars from zero with their numbers, without an axis."""
    left = _label_width([bar.label for bar in bars], 1.4 * label_room(width))
    aside = max((text_width(bar.aside) for bar in bars), default=0)
    most = max((bar.value for bar in bars), default=0) or 1
    parts = []
    for place, bar in enumerate(bars):
        y = 6 + place * BAR_HEIGHT
        length = max(1.0, bar.value / most * (width - left - aside - 20))
        parts += [
            _label(bar.label, left, y + BAR_HEIGHT / 2),
            element("rect", x=left, y=y + 5, width=length, height=BAR_HEIGHT - 10, class_="bar"),
            words(bar.aside, left + length + 8, y + BAR_HEIGHT / 2 + 4, class_="aside"),
        ]
    return picture(*parts, width=width, height=12 + len(bars) * BAR_HEIGHT, title=title)
