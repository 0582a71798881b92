"""Plots with one line per row: values with their intervals (a forest plot)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from goldless.reports.html.charts.axis import Scale, bottom_axis, scale_over
from goldless.reports.html.charts.svg import SMALL, WIDTH, Shape, element, hint, line, mark, picture, words
from goldless.reports.html.labels import fitted, numeral, text_width

HEADING_HEIGHT = 30
MINI_HEIGHT = 12.0


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
    inner: tuple[float, float] | None = None
    """A part of the interval that is drawn thick."""

    @classmethod
    def of(cls, label: str, value: float | None, bounds: Any = None, *, decimals: int = 3, **more: Any) -> IntervalRow:
        """A value with its interval; the text at the right is the value unless given. ``bounds``: has low and high."""
        low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
        return cls(label, value, low, high, **{"aside": numeral(value, decimals, absent=""), **more})

    @property
    def ends(self) -> list[float | None]:
        """All values in it."""
        return [self.value, self.low, self.high, self.limit]


@dataclass(frozen=True, slots=True)
class Band:
    """A shaded range of values; only a line at the middle if an end is unknown."""

    low: float | None
    high: float | None
    label: str = ""
    middle: float | None = None

    @property
    def ends(self) -> tuple[float | None, ...]:
        """All values in it."""
        return self.low, self.high, self.middle


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
    room = min(240.0, width * 0.36)
    left = min(room, max((text_width(fitted(row.label, room)) for row in rows), default=0) + 16)
    aside = max((text_width(row.aside) for row in rows), default=0)
    ends = [end for row in rows for end in row.ends]
    scale = scale_over([*ends, reference, *(() if band is None else band.ends)], left + 6, width - aside - 20)
    height = 25 if len(rows) <= 20 else 21
    top = 14 + (18 if band is not None and band.label else 0)
    drawn: list[Markup] = []
    y, group = float(top), ""
    for row in rows:
        if row.group and row.group != group:
            group = row.group
            y += HEADING_HEIGHT if drawn else HEADING_HEIGHT - 8
            drawn.append(words(fitted(group, width), 0, y - 9, class_="group"))
        drawn.append(_row(row, scale, y + height / 2, left, width))
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
        near_end = at > scale.end - text_width(band.label, SMALL) / 2
        where, anchor = (scale.end, "end") if near_end else (at, "middle")
        parts.append(words(band.label, where, top - 6, class_="tick", anchor=anchor))
    return Markup("").join(parts)


def _row(row: IntervalRow, scale: Scale, y: float, left: float, width: float) -> Markup:
    parts = [words(fitted(row.label, left - 8), left - 8, y + 4, class_="label", anchor="end")]
    if row.low is not None and row.high is not None:
        parts.append(line(scale(row.low), y, scale(row.high), y, f"whisker {row.tone}"))
    if row.inner is not None:
        parts.append(line(scale(row.inner[0]), y, scale(row.inner[1]), y, f"inner {row.tone}"))
    if row.value is None:
        parts.append(words("missing", scale.begin + 4, y + 4, class_="tick missing"))
    else:
        parts.append(mark(row.shape, scale(row.value), y, row.tone))
    if row.limit is not None:
        parts.append(line(scale(row.limit), y - 8, scale(row.limit), y + 8, "limit"))
    if row.aside:
        parts.append(words(row.aside, width - 2, y + 4, class_="aside", anchor="end"))
    return element("g", hint(row.hint), *parts)


def mini_interval(value: float | None, low: float | None, high: float | None, scale: Scale) -> Markup:
    """One value on its interval for a cell of a table, whose numbers say the same; zero is marked."""
    y, parts = MINI_HEIGHT / 2, []
    if scale.least < 0 < scale.most:
        parts.append(line(scale(0.0), 0, scale(0.0), MINI_HEIGHT, "reference"))
    if low is not None and high is not None:
        parts.append(line(scale(low), y, scale(high), y, "whisker blue"))
    if value is not None:
        parts.append(mark("dot", scale(value), y, "blue", size=3.2))
    size = {"width": scale.end + 5, "height": MINI_HEIGHT}
    return element("svg", *parts, class_="mini chart", aria_hidden="true", focusable="false", **size)
