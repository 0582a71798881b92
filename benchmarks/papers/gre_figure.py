"""The figure of a board: score by model size, one panel per metric, families connected (GEM, figure 5).

    python benchmarks/papers/gre_figure.py published:70b figure.svg

The board is the folder of an edition or a run, a CSV file with agent, parameters and metrics, or a table of the paper.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from textwrap import wrap

import numpy as np
from markupsafe import Markup

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import UserError
from goldless.files import write_text
from goldless.records import Agent
from goldless.reports.html.charts import (
    COLOURS,
    SMALL,
    AxisScale,
    Band,
    element,
    hint,
    legend,
    line,
    picture,
    scale_over,
    words,
)
from goldless.reports.html.labels import fitted, label, numeral, text_width
from goldless.reports.report_table import decimals_for, large_text
from goldless.statistics.bootstrap import ABSENT, Estimate
from gre_boards import PUBLISHED, Board, read_board

TITLES = {"gem": "GEM", "gem-s[abstract]": "GEM-S (abstract)", "gem-s[assw]": "GEM-S (ASSW)"}
"""Metrics as the paper calls them, in its order."""
MOST_PANELS = 3
TONES = ("blue", "vermilion", "green", "purple", "ochre")
"""Colours of families."""
SHAPES = ("dot", "square", "diamond", "triangle", "ring", "cross")
"""Shapes of families, in order."""
PATHS = {
    "square": "M-4.5-4.5h9v9h-9z",
    "diamond": "M0-5.9l5.9 5.9l-5.9 5.9l-5.9-5.9z",
    "triangle": "M0-5.4l5.2 9.4h-10.4z",
    "cross": "M-4.5-4.5l9 9m0-9l-9 9",
}
"""Shapes around the origin; dots and rings are circles."""
OTHER = "no family"
PANEL, PANEL_HEIGHT, EDGE, LINE = 400.0, 420.0, 16.0, 18.0
LETTER = 7.0
"""Width of a letter of the caption."""
STYLE = (
    ".chart .ground{fill:var(--ground);stroke:var(--rule)}.chart .heading{font-size:19px;font-weight:650}"
    ".chart .panel-title{font-size:15px;font-weight:650}.chart .caption{font-size:13px;fill:var(--muted)}"
    ".chart .point-label{fill:currentColor}"
)


def size_figure(board: Board) -> str:
    """The figure as one SVG file: text as text, system fonts, a ground of its own, no script, nothing from elsewhere.

    It shows GEM, GEM-S (abstract) and GEM-S (ASSW) where the board has them, else its first three metrics. It is
    dark where the reader's screen is.
    """
    chosen = [metric for metric in TITLES if metric in board.metrics] or [*board.metrics][:MOST_PANELS]
    scored = {agent for metric in chosen for agent in board.models(metric)}
    agents = [agent for agent in board.agents if agent.agent in scored]
    sized = [agent for agent in agents if agent.parameters is not None]
    if not sized:
        raise UserError(
            f"{board.name}: no agent has both a number of parameters and a score. In an edition, set parameters = 8e9 "
            "under [models.NAME] in edition.toml and score it again; in a table, fill the column parameters"
        )
    wide, top = 2 * EDGE + len(chosen) * PANEL, 56.0
    name = "" if board.name in PUBLISHED else f" {board.name}"
    title = label(f"GRE-bench{name}: score by model size", 60)
    parts = [words(title, EDGE, 34, class_="heading")]
    points: list[Point] = []
    for place, metric in enumerate(chosen):
        mine, human, heading = list(_points(board, metric, sized)), board.human(metric), TITLES.get(metric, metric)
        drawn = scatter_plot(
            mine,
            title=heading,
            x_axis="parameters (log scale)",
            y_axis="nats" if metric in TITLES else "score",
            band=None if human is None else Band(human.estimate, "human baseline"),
            width=PANEL,
        )
        above = words(label(heading, 40), 58, 12, class_="panel-title")
        parts.append(element("g", above, drawn, transform=f"translate({EDGE + place * PANEL:g} {top:g})"))
        points += mine
    top += PANEL_HEIGHT + 30
    legend, tall = series_legend(points, wide - 4 * EDGE)
    parts.append(element("g", legend, transform=f"translate({2 * EDGE:g} {top:g})"))
    top += tall + 20
    unsized = [agent.agent for agent in agents if agent.parameters is None]
    for text in wrap(" ".join(_caption(board, chosen, unsized)), int(wide / LETTER)):
        parts.append(words(text, EDGE, top, class_="caption"))
        top += LINE
    ground = element("rect", x=0.5, y=0.5, width=wide - 1, height=top - 1, rx=6.0, class_="ground")
    return f"{picture(element('style', _css()), ground, *parts, width=wide, height=top, title=title)}\n"


def _css() -> str:
    """The report's chart styles with colours put in: programs that know no variables show them, too."""
    css = files("goldless.reports.html").joinpath("chart.css").read_text(encoding="utf-8") + STYLE
    light, night = css, css
    for name, colours in COLOURS.items():
        light, night = light.replace(f"var(--{name})", colours[0]), night.replace(f"var(--{name})", colours[1])
    return f"{light}@media (prefers-color-scheme:dark){{{night}}}"


def _points(board: Board, metric: str, sized: Sequence[Agent]) -> Iterator[Point]:
    """A point per model: families differ in shape, and in colour as far as there are colours."""
    families = list(dict.fromkeys(agent.family or OTHER for agent in sized))
    scores = board.metrics[metric]
    decimals = decimals_for([end for score in scores.values() for end in score.estimate.numbers])
    for agent in [agent for agent in sized if agent.agent in board.models(metric)]:
        score, family, size = scores[agent.agent], agent.family or OTHER, agent.parameters or 0.0
        about = "about " * (agent.agent in board.estimated_sizes)
        hint = f"{agent.agent} ({family}): {about}{large_text(size)} parameters, {numeral(score.score, decimals)}"
        _, low, high = score.estimate.numbers
        if low is not None and high is not None:
            hint += f" ({numeral(low, decimals)} to {numeral(high, decimals)})"
        place = families.index(family)
        shape, tone = SHAPES[place % len(SHAPES)], TONES[place % len(TONES)]
        name = agent.agent.rsplit("/", 1)[-1]
        yield Point(name, size, score.estimate, family, shape, tone, hint)


def _caption(board: Board, metrics: Sequence[str], unsized: Sequence[str]) -> Iterator[str]:
    yield from (f"{note}." for note in board.notes)
    yield "Lines connect models of one family."
    intervals = any(s.estimate.low is not None for metric in metrics for s in board.metrics[metric].values())
    human = any(board.human(metric) for metric in metrics)
    if intervals and board.level:
        yield f"Bars{' and the grey band' if human else ''} are {board.level * 100:g}% intervals."
    if lacking := [name for name, there in (("intervals", intervals), ("human baseline", human)) if not there]:
        yield f"Not available: {', '.join(lacking)}."
    if board.estimated_sizes:
        yield f"Sizes of {len(board.estimated_sizes)} models are estimates."
    if unsized:
        yield f"Not shown, because the size is unknown: {', '.join(map(label, unsized))}."


# --- the scatter plot ------------------------------------------------------------------------------------------------


class LogScale(AxisScale):
    """From values to pixels, in proportion to the logarithms of the values."""

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the scale are clamped."""
        least, most = math.log(self.least), math.log(self.most)
        share = (math.log(value) - least) / ((most - least) or 1.0)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def ticks(self, wanted: int = 6) -> list[tuple[float, str]]:
        """Powers of ten, with 2 and 5 if there is room."""
        low, high = math.log10(self.least), math.log10(self.most)
        steps = (1, 2, 5) if high - low <= wanted / 2 else (1,)
        powers = range(math.floor(low), math.ceil(high) + 1)
        ticks = [step * 10.0**power for power in powers for step in steps]
        ticks = [tick for tick in ticks if self.least <= tick <= self.most]
        while len(ticks) > wanted + 2:
            ticks = ticks[::2]
        return [(self(tick), large_text(tick) if tick >= 1000 else f"{tick:g}") for tick in ticks]


def human_band(band: Band, scale: AxisScale, left: float, right: float) -> Markup:
    """The range of the human baseline across the plot, with its label above it."""
    parts, y = [], scale.end
    middle, low, high = band.range.numbers
    if middle is not None:
        y = scale(middle)
        parts.append(line(left, y, right, y, "band-line"))
    if low is not None and high is not None:
        y, bottom = sorted((scale(low), scale(high)))
        height = max(1.0, bottom - y)
        parts.insert(0, element("rect", x=left, y=y, width=right - left, height=height, class_="band"))
    parts.append(words(band.label, right - 4, y - 5, class_="tick", anchor="end"))
    return Markup().join(parts)


HEIGHT = 420
LEFT, RIGHT, TOP, BOTTOM = 58, 28, 40, 52


@dataclass(frozen=True)
class Point:
    """One point."""

    label: str
    x: float
    y: Estimate
    series: str = ""
    """Its series, shown in the legend."""
    shape: str = "dot"
    tone: str = "blue"
    hint: str = ""


def mark(shape: str, x: float, y: float, class_: str) -> Markup:
    """A mark around a point."""
    class_ = f"{shape} {class_}"
    if shape in PATHS:
        return element("path", d=PATHS[shape], transform=f"translate({x:.1f} {y:.1f})", class_=class_)
    return element("circle", cx=x, cy=y, r=4.5, class_=class_)


def _family_lines(points: Iterable[Point]) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """A line through the points of each series, from left to right, with its class."""
    families: dict[str, list[Point]] = {}
    for point in points:
        if point.series != OTHER:
            families.setdefault(point.series, []).append(point)
    for of in families.values():
        if len(of) > 1:
            yield f"family {of[0].tone}", sorted((point.x, point.y.value or 0.0) for point in of)


def series_legend(points: Iterable[Point], width: float) -> tuple[Markup, float]:
    """The series with their marks, in as many lines as they need, and the height of all."""
    series = {point.series: point for point in points if point.series}
    return legend([(mark(point.shape, 8, 6, point.tone), name) for name, point in series.items()], width, 0)


def scatter_plot(
    points: Sequence[Point],
    *,
    title: str,
    x_axis: str,
    y_axis: str,
    band: Band | None,
    width: float,
) -> Markup:
    """Points with intervals, a line through each series but one, and a band; a label without room is left out."""
    right, bottom = width - RIGHT, HEIGHT - BOTTOM
    sizes = [point.x for point in points]
    across = LogScale(min(sizes) / 1.35, max(sizes) * 1.35, LEFT, right)
    ends = [end for point in points for end in point.y.numbers]
    up = scale_over([*ends, *(band.range if band else ABSENT).numbers], bottom, TOP)
    spots = [(across(point.x), up(point.y.value or 0.0)) for point in points]
    paths = [(class_, [(across(x), up(y)) for x, y in path]) for class_, path in _family_lines(points)]
    whiskers = {
        at: (x, up(point.y.low), x, up(point.y.high))
        for at, (point, (x, _)) in enumerate(zip(points, spots, strict=True))
        if point.y.low is not None and point.y.high is not None
    }
    names = [fitted(point.label, min(190, width * 0.4), SMALL) for point in points]
    segments = [*((*one, *other) for _, path in paths for one, other in pairwise(path)), *whiskers.values()]
    places = label_places(spots, names, lines=segments, within=(LEFT + 2, TOP - 8, width - 2, bottom - 1))
    parts = [] if band is None else [human_band(band, up, LEFT, right)]
    for x, text in across.ticks(max(3, int((right - LEFT) / 80))):
        parts += [line(x, TOP, x, bottom, "grid"), words(text, x, bottom + 16, class_="tick", anchor="middle")]
    parts.append(words(x_axis, (LEFT + right) / 2, bottom + 35, class_="axis-title", anchor="middle"))
    for y, text in up.ticks():
        parts += [line(LEFT, y, right, y, "grid"), words(text, LEFT - 8, y + 4, class_="tick", anchor="end")]
    parts.append(words(y_axis, LEFT, TOP - 12, class_="axis-title"))
    parts += [element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in p), class_=class_) for class_, p in paths]
    labels = []
    for point, (x, y), name, box in zip(points, spots, names, places, strict=True):
        if box is not None:
            nearest = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
            if math.dist((x, y), nearest) >= LED_FROM:
                parts.append(line(x, y, *nearest, "lead"))
            middle, class_ = (box[0] + box[2]) / 2, f"point-label {point.tone}"
            labels.append(words(name, middle, box[3] - SMALL * 0.28, class_=class_, anchor="middle"))
    for at, (point, spot) in enumerate(zip(points, spots, strict=True)):
        whisker = [line(*whiskers[at], f"whisker thin {point.tone}")] if at in whiskers else []
        parts.append(element("g", hint(point.hint), *whisker, mark(point.shape, *spot, point.tone)))
    return picture(*parts, *labels, width=width, height=HEIGHT, title=title)


Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
NARROWER = 0.93
"""Width of the letters of names, relative to the widths that ``text_width`` assumes."""
MARK = 6.0
"""Half the size of a point."""
REACHES = (9.0, 13.0, 18.0, 26.0, 36.0, 48.0, 62.0)
"""Distances of a label from its point."""
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
LED_FROM = 16.0
"""From this distance on, a leader line connects label and point."""
PIECE = 5.0
"""Lines are kept clear in pieces of this length."""


def label_places(
    points: Sequence[tuple[float, float]], names: Sequence[str], *, lines: Sequence[Box], within: Box
) -> list[Box | None]:
    """A place for each name beside its point: on no other label or point and, where possible, on no line.

    Those with the least room come first, each at the cheapest place that is left: near its point, at the right-hand
    side, across few lines. None: no room, or an empty name.
    """
    marks = np.array([(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in points]).reshape(-1, 4)
    dots = [np.zeros((0, 2))]
    for x1, y1, x2, y2 in lines:
        count = 1 + int(max(abs(x2 - x1), abs(y2 - y1)) / PIECE)
        dots.append(np.array([x1, y1]) + np.outer(np.arange(count + 1), [x2 - x1, y2 - y1]) / count)
    crossed = np.tile(np.concatenate(dots), 2)
    reach, turn = (places.ravel() for places in np.meshgrid(REACHES, np.arange(len(DIRECTIONS)), indexing="ij"))
    right, down = np.array(DIRECTIONS)[turn].T
    aside = reach * np.where(right * down != 0, 0.75, 1.0)
    offered: list[list[tuple[float, Box]]] = []
    for (x, y), name in zip(points, names, strict=True):
        width, height = text_width(name, SMALL) * NARROWER, SMALL * 1.12
        left, top = x + right * aside - (1 - right) / 2 * width, y + down * aside - (1 - down) / 2 * height
        boxes = np.stack([left, top, left + width, top + height], axis=1)
        inside = (boxes[:, :2] >= within[:2]).all(axis=1) & (boxes[:, 2:] <= within[2:]).all(axis=1)
        free = inside & ~_overlaps(boxes, marks).any(axis=1)
        costs = reach * 0.6 + turn * 0.4 + 4 * _overlaps(boxes, crossed).sum(axis=1)
        offered.append(sorted(zip(costs[free].tolist(), map(tuple, boxes[free].tolist()), strict=True)))
    found: list[Box | None] = [None] * len(points)
    taken = np.zeros((0, 4))
    for at in sorted(range(len(points)), key=lambda at: len(offered[at])):
        boxes = np.array([box for _, box in offered[at]]).reshape(-1, 4)
        for choice in np.flatnonzero(~_overlaps(boxes, taken).any(axis=1))[:1]:
            found[at], taken = offered[at][choice][1], np.vstack([taken, boxes[choice]])
    return found


def _overlaps(boxes: FloatArray, others: FloatArray) -> BoolArray:
    """True where one of the boxes, in rows, overlaps one of the others, in columns."""
    both: BoolArray = (boxes[:, None, :2] < others[:, 2:]) & (others[:, :2] < boxes[:, None, 2:])
    return both[..., 0] & both[..., 1]


def main(board: str, file: str) -> None:
    """Draw a board into an SVG file."""
    write_text(Path(file), size_figure(read_board(board)))


if __name__ == "__main__":
    main(*sys.argv[1:])
