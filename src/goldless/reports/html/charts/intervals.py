"""The interval plot: one line a row, its value as a mark on its interval (a forest plot)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from goldless.reports.html.charts.axis import Scale, bottom_axis, linear_scale
from goldless.reports.html.charts.svg import WIDTH, element, hint, label_room, line, mark, picture, words
from goldless.reports.html.labels import fitted, text_width

Shape = Literal["dot", "ring", "cross", "square", "diamond", "triangle"]
TOP = 14
HEADING_HEIGHT = 30


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One line of the plot."""

    label: str
    value: float | None
    """None: shown as missing."""
    low: float | None = None
    high: float | None = None
    aside: str = ""
    """What stands at the right."""
    shape: Shape = "dot"
    tone: str = "blue"
    """A colour of the palette."""
    group: str = ""
    """The heading it stands under; rows of a group stand together."""
    hint: str = ""
    limit: float | None = None
    """A value of its own that it is held against."""


@dataclass(frozen=True, slots=True)
class Band:
    """A range of values that is shaded; where an end is unknown, a line at the middle alone."""

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
    """The plot. ``reference``: a value that is marked by a line, such as 0."""
    room = label_room(width)
    label_width = min(room, max((text_width(fitted(r.label, room)) for r in rows), default=0) + 16)
    aside = max((text_width(row.aside) for row in rows), default=0)
    height = 25 if len(rows) <= 20 else 21
    ends = [end for row in rows for end in (row.value, row.low, row.high, row.limit)]
    include = [reference, *(() if band is None else (band.low, band.high, band.middle))]
    scale = linear_scale(ends, label_width + 6, width - aside - 20, include=include)
    top = TOP + (18 if band is not None and band.label else 0)
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
    parts = [words(fitted(row.label, label_width - 8), label_width - 8, y + 4, class_="label", anchor="end")]
    if row.value is None:
        parts.append(words("missing", scale.begin + 4, y + 4, class_="tick missing"))
    else:
        if row.low is not None and row.high is not None:
            parts.append(line(scale(row.low), y, scale(row.high), y, f"whisker {row.tone}"))
        parts.append(mark(row.shape, scale(row.value), y, row.tone))
    if row.limit is not None:
        parts.append(line(scale(row.limit), y - 8, scale(row.limit), y + 8, "limit"))
    if row.aside:
        parts.append(words(row.aside, width - 2, y + 4, class_="aside", anchor="end"))
    inside = [hint(row.hint)] if row.hint else []
    return element("g", *inside, *parts)
