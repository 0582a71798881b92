"""The figure of docs/truth.md: agreement with truth by number of tasks and agents (drawn by truth.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 350
PLOT_TOP, PLOT_BOTTOM = 50, 290
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's, which people with any colour vision tell apart."""
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 }
.axis { stroke: #888; fill: none }
.grid { stroke: #ddd; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #eee }
  .axis { stroke: #999 }
  .grid { stroke: #444 }
}
"""


@dataclass(frozen=True)
class Curve:
    """Agreement with the truth of one set, by the number of tasks or agents."""

    panel: Literal["tasks", "agents"]
    name: str
    sizes: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """A part of the figure with its own axes."""

    title: str
    below: str
    left: int
    right: int
    low: float
    high: float
    step: float
    sizes: Sequence[int]

    def x(self, size: int) -> float:
        """The place of a size; equal ratios are equally far apart."""
        share = log(size / self.sizes[0]) / log(self.sizes[-1] / self.sizes[0])
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """The height of a value."""
        return PLOT_BOTTOM - (value - self.low) / (self.high - self.low) * (PLOT_BOTTOM - PLOT_TOP)


PANELS = {
    "tasks": Panel(
        title="Spearman's correlation of agents with the truth of all tasks",
        below="tasks",
        left=45,
        right=370,
        low=0.0,
        high=1.0,
        step=0.2,
        sizes=(3, 5, 8, 12, 20, 30, 60),
    ),
    "agents": Panel(
        title="Pairs within a task in the right order",
        below="agents",
        left=450,
        right=730,
        low=0.5,
        high=0.8,
        step=0.1,
        sizes=(3, 4, 6, 8, 12, 24),
    ),
}


def draw_figure(curves: Sequence[Curve], path: Path) -> None:
    """Write the figure."""
    names = list(dict.fromkeys(curve.name for curve in curves))
    colours = dict(zip(names, COLOURS, strict=False))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Agreement with truth by number of tasks and of agents</title>",
        f"<style>{STYLE}</style>",
    ]
    for panel in PANELS.values():
        parts += axes(panel)
    for curve in curves:
        parts.append(line(PANELS[curve.panel], curve, colours[curve.name]))
    for number, name in enumerate(names):
        y = PLOT_TOP + 22 * number
        parts.append(f'<path d="M745 {y} h18" stroke="{colours[name]}" stroke-width="2.5"/>')
        parts.append(f'<text x="769" y="{y + 4}">{escape(name)}</text>')
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def axes(panel: Panel) -> Iterator[str]:
    """The title, grid and numbers of a panel."""
    yield f'<text x="{panel.left - 30}" y="24">{escape(panel.title)}</text>'
    for number in range(round((panel.high - panel.low) / panel.step) + 1):
        value = panel.low + number * panel.step
        y = panel.y(value)
        yield f'<path class="grid" d="M{panel.left} {y:.1f} H{panel.right}"/>'
        yield f'<text x="{panel.left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>'
    for size in panel.sizes:
        yield f'<text x="{panel.x(size):.1f}" y="{PLOT_BOTTOM + 20}" text-anchor="middle">{size}</text>'
    yield f'<path class="axis" d="M{panel.left} {PLOT_BOTTOM} H{panel.right}"/>'
    middle = (panel.left + panel.right) / 2
    yield f'<text x="{middle}" y="{PLOT_BOTTOM + 42}" text-anchor="middle">{panel.below}</text>'


def line(panel: Panel, curve: Curve, colour: str) -> str:
    """The line of a set."""
    places = zip(curve.sizes, curve.values, strict=True)
    points = " ".join(f"{panel.x(size):.1f},{panel.y(value):.1f}" for size, value in places)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
