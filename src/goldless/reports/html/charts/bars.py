"""Bars: how many of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from goldless.reports.html.charts.svg import WIDTH, element, label_room, picture, words
from goldless.reports.html.labels import fitted, text_width

HEIGHT = 26
TOP = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar."""

    label: str
    value: float
    aside: str
    """What stands behind it."""


def bar_chart(bars: Sequence[Bar], *, title: str, width: float = WIDTH) -> Markup:
    """The bars, from zero, with their numbers; there is no axis to read them from."""
    room = 1.4 * label_room(width)
    left = min(room, max((text_width(fitted(bar.label, room)) for bar in bars), default=0) + 16)
    aside = max((text_width(bar.aside) for bar in bars), default=0)
    most = max((bar.value for bar in bars), default=0) or 1
    parts = []
    for place, bar in enumerate(bars):
        y = TOP + place * HEIGHT
        length = max(1.0, bar.value / most * (width - left - aside - 20))
        parts += [
            words(fitted(bar.label, left - 8), left - 8, y + HEIGHT / 2 + 4, class_="label", anchor="end"),
            element("rect", x=left, y=y + 5, width=length, height=HEIGHT - 10, class_="bar"),
            words(bar.aside, left + length + 8, y + HEIGHT / 2 + 4, class_="aside"),
        ]
    return picture(*parts, width=width, height=TOP * 2 + len(bars) * HEIGHT, title=title)
