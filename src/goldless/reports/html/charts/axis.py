"""Scales and axes: from values to pixels, with round numbers as ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from goldless.reports.html.charts.svg import line, words
from goldless.reports.html.labels import numeral
from goldless.reports.report_table import large_text


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels."""

    least: float
    most: float
    begin: float
    """Pixel of the smallest value."""
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the scale are clamped."""
        share = (value - self.least) / (self.most - self.least)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def ticks(self, wanted: int = 6) -> list[float]:
        """Round numbers within the scale."""
        step = _round_step((self.most - self.least) / max(1, wanted))
        first, last = math.ceil(self.least / step - 1e-9), math.floor(self.most / step + 1e-9)
        return [place * step for place in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class LogScale:
    """From positive values to pixels by their logarithm; 0 has a separate place before them."""

    least: float
    most: float
    begin: float
    end: float
    zero: float | None = None
    """Pixel of 0; None if 0 is not among the values."""

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        if value <= 0:
            return self.begin if self.zero is None else self.zero
        span = math.log(self.most / self.least)
        share = math.log(value / self.least) / span if span else 0.5
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def ticks(self, wanted: int = 6) -> list[float]:
        """Powers of ten, with 2 and 5 between if there is room; and 0."""
        decades = math.log10(self.most / self.least)
        steps = (1, 2, 5) if decades * 3 <= wanted * 1.5 else (1,)
        powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
        found = [
            step * 10.0**power
            for power in powers
            for step in steps
            if self.least * 0.999 <= step * 10.0**power <= self.most * 1.001
        ]
        while len(found) > wanted + 2:
            found = found[::2]
        return ([0.0] if self.zero is not None else []) + found


def linear_scale(
    values: Iterable[float | None], begin: float, end: float, *, include: Iterable[float | None] = ()
) -> Scale:
    """A scale over all values with a small margin; around the value if they are all equal."""
    found = [value for value in (*values, *include) if value is not None]
    least, most = (min(found), max(found)) if found else (0.0, 1.0)
    if most - least <= 1e-12 * max(1.0, abs(most)):
        around = abs(most) * 0.1 or 0.5
        least, most = least - around, most + around
    room = (most - least) * 0.04
    return Scale(least - room, most + room, begin, end)


def log_scale(values: Iterable[float], begin: float, end: float) -> LogScale:
    """A scale over positive values, and 0 if it is among them."""
    found = list(values)
    above = [value for value in found if value > 0]
    has_zero = len(above) < len(found)
    least, most = (min(above) / 1.35, max(above) * 1.35) if above else (0.1, 10.0)
    first = begin + 46 if has_zero else begin
    return LogScale(least, most, first, end, begin + 10 if has_zero else None)


def _round_step(rough: float) -> float:
    size = 10.0 ** math.floor(math.log10(rough))
    return size * min((1, 2, 5, 10), key=lambda step: abs(math.log(step * size / rough)))


def tick_texts(ticks: list[float]) -> list[str]:
    """Ticks as text, all with the same number of decimals; large numbers with k, M or G."""
    if ticks and max(map(abs, ticks)) >= 100_000:
        return [large_text(tick) for tick in ticks]
    decimals = 0
    while decimals < 6 and any(abs(tick - round(tick, decimals)) > 1e-9 * max(1.0, abs(tick)) for tick in ticks):
        decimals += 1
    return [numeral(tick, decimals) for tick in ticks]


def log_tick_texts(ticks: list[float]) -> list[str]:
    """Each tick as text, with as many digits as it needs."""
    return [large_text(tick) if tick >= 1000 else f"{tick:g}" for tick in ticks]


def bottom_axis(scale: Scale | LogScale, y: float, top: float, title: str) -> Markup:
    """Grid lines up to the top, numbers and axis title below."""
    wanted = max(3, int((scale.end - scale.begin) / 80))
    ticks = scale.ticks(wanted)
    texts = log_tick_texts(ticks) if isinstance(scale, LogScale) else tick_texts(ticks)
    parts = [line(scale(tick), top, scale(tick), y, "grid") for tick in ticks]
    parts += [
        words(text, scale(tick), y + 16, class_="tick", anchor="middle")
        for tick, text in zip(ticks, texts, strict=True)
    ]
    middle = (scale.begin + scale.end) / 2
    parts.append(words(title, middle, y + 35, class_="axis-title", anchor="middle"))
    return Markup("").join(parts)


def left_axis(scale: Scale, x: float, right: float, title: str) -> Markup:
    """Grid lines to the right, numbers on the left, axis title above."""
    ticks = scale.ticks(6)
    parts = [line(x, scale(tick), right, scale(tick), "grid") for tick in ticks]
    parts += [
        words(text, x - 8, scale(tick) + 4, class_="tick", anchor="end")
        for tick, text in zip(ticks, tick_texts(ticks), strict=True)
    ]
    parts.append(words(title, x, min(scale.begin, scale.end) - 12, class_="axis-title"))
    return Markup("").join(parts)
