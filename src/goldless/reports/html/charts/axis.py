"""Scales and axes: from values to pixels, with round numbers as ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from goldless.reports.html.charts.svg import line, words
from goldless.reports.html.labels import numeral
from goldless.reports.report_table import large_text

ROOM_FOR_ZERO = 46
"""Pixels before the positive values of a logarithmic scale, if 0 is among its values."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels, in proportion to the values or to their logarithms."""

    least: float
    most: float
    begin: float
    """Pixel of the smallest value."""
    end: float
    logarithmic: bool = False
    zero: float | None = None
    """Pixel of 0 on a logarithmic scale; None if 0 is not among the values."""

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the scale are clamped."""
        least, most = self.least, self.most
        if self.logarithmic:
            if value <= 0:
                return self.begin if self.zero is None else self.zero
            least, most, value = math.log(least), math.log(most), math.log(value)
        share = (value - least) / ((most - least) or 1.0)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def ticks(self, wanted: int = 6) -> list[float]:
        """Round numbers within the scale; on a logarithmic one powers of ten, with 2 and 5 between if there is room."""
        if not self.logarithmic:
            rough = (self.most - self.least) / wanted
            size = 10.0 ** math.floor(math.log10(rough))
            step = size * min((1, 2, 5, 10), key=lambda step: abs(math.log(step * size / rough)))
            first, last = math.ceil(self.least / step - 1e-9), math.floor(self.most / step + 1e-9)
            return [place * step for place in range(first, last + 1)]
        low, high = math.log10(self.least), math.log10(self.most)
        steps = (1, 2, 5) if high - low <= wanted / 2 else (1,)
        found = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
        found = [tick for tick in found if self.least <= tick <= self.most]
        while len(found) > wanted + 2:
            found = found[::2]
        return [0.0] * (self.zero is not None) + found


def scale_over(values: Iterable[float | None], begin: float, end: float, *, logarithmic: bool = False) -> Scale:
    """A scale over all values with a small margin; around the value if they are all equal."""
    found = [value for value in values if value is not None]
    if logarithmic:
        above = [value for value in found if value > 0]
        least, most = (min(above) / 1.35, max(above) * 1.35) if above else (0.1, 10.0)
        if len(above) == len(found):
            return Scale(least, most, begin, end, logarithmic=True)
        return Scale(least, most, begin + ROOM_FOR_ZERO, end, logarithmic=True, zero=begin + 10)
    least, most = (min(found), max(found)) if found else (0.0, 1.0)
    if most - least <= 1e-12 * max(1.0, abs(most)):
        around = abs(most) * 0.1 or 0.5
        least, most = least - around, most + around
    room = (most - least) * 0.04
    return Scale(least - room, most + room, begin, end)


def tick_texts(ticks: Sequence[float], *, logarithmic: bool = False) -> list[str]:
    """Ticks as text: on a linear scale all with the same number of decimals; large numbers with k, M, B or T."""
    if logarithmic:
        return [large_text(tick) if tick >= 1000 else f"{tick:g}" for tick in ticks]
    if max(map(abs, ticks), default=0.0) >= 100_000:
        return [large_text(tick) for tick in ticks]
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [numeral(tick, decimals) for tick in ticks]


def bottom_axis(scale: Scale, y: float, top: float, title: str) -> Markup:
    """Grid lines up to the top, numbers and axis title below."""
    ticks = scale.ticks(max(3, int((scale.end - scale.begin) / 80)))
    parts = []
    for tick, text in zip(ticks, tick_texts(ticks, logarithmic=scale.logarithmic), strict=True):
        x = scale(tick)
        parts += [line(x, top, x, y, "grid"), words(text, x, y + 16, class_="tick", anchor="middle")]
    parts.append(words(title, (scale.begin + scale.end) / 2, y + 35, class_="axis-title", anchor="middle"))
    return Markup("").join(parts)


def left_axis(scale: Scale, x: float, right: float, title: str) -> Markup:
    """Grid lines to the right, numbers on the left, axis title above."""
    ticks = scale.ticks()
    parts = []
    for tick, text in zip(ticks, tick_texts(ticks), strict=True):
        y = scale(tick)
        parts += [line(x, y, right, y, "grid"), words(text, x - 8, y + 4, class_="tick", anchor="end")]
    parts.append(words(title, x, min(scale.begin, scale.end) - 12, class_="axis-title"))
    return Markup("").join(parts)
