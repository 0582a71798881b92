"""The heat map: a square of cells, with the same names for rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from goldless.reports.html.charts.svg import HEAT_OPACITY, element, hint, picture, words
from goldless.reports.html.labels import fitted, text_width

LABEL_WIDTH = 220
COLUMN_ROOM = 120
"""Width of a column's name, which is written at a slant."""
SLANT = 0.72
"""Height of a name at a slant, as a share of its width."""
WRITTEN_UP_TO = 12
"""With more names than this, cells are too small for numbers."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell."""

    strength: float
    """From -1 to 1: sign gives the colour, size its intensity."""
    text: str = ""
    """Shown if there is room."""
    sign: str = ""
    """Shown if there is not."""
    hint: str = ""
    sure: bool = True
    """Whether the text is emphasised."""
    behind: str | None = None
    """The texts behind it, as the page's script reads them."""


@dataclass(frozen=True, slots=True)
class Legend:
    """What the colours mean: strength and label."""

    steps: tuple[tuple[float, str], ...]


def strength(value: float, largest: float) -> float:
    """Colour strength of a significant value: never too faint to see."""
    return (0.3 + 0.7 * abs(value) / largest) * (1 if value > 0 else -1)


def heat_map(
    names: Sequence[str],
    cells: Sequence[Sequence[HeatCell | None]],
    *,
    title: str,
    corner: str,
    legend: Legend,
) -> Markup:
    """The heat map; None: no such cell. ``corner`` says what rows and columns are."""
    n = len(names)
    labels = [fitted(name, LABEL_WIDTH - 30) for name in names]
    left = min(LABEL_WIDTH, max((text_width(text) for text in labels), default=0)) + 14
    longest = max((text_width(cell.text, 11.5) for row in cells for cell in row if cell is not None), default=0.0)
    width, height = (22.0, 20.0) if n > WRITTEN_UP_TO else (max(46.0, longest + 16.0), 28.0)
    written = n <= WRITTEN_UP_TO
    heads = [fitted(name, COLUMN_ROOM, 11.5) for name in names]
    slant = max((text_width(text, 11.5) for text in heads), default=0.0) * SLANT
    top = 30 + slant
    parts = [words(corner, 0, 14, class_="tick")]
    for place, (text, head) in enumerate(zip(labels, heads, strict=True)):
        parts.append(words(text, left - 10, top + (place + 0.5) * height + 4, class_="label", anchor="end"))
        x, y = left + (place + 0.5) * width, top - 8
        parts.append(
            element("g", words(head, 0, 0, class_="tick"), transform=f"translate({x:.1f} {y:.1f}) rotate(-45)")
        )
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if cell is not None:
                box = (left + j * width, top + i * height, width, height)
                parts.append(_cell(cell, box, written=written))
    told = sum(39 + text_width(text, 11.5) for _, text in legend.steps)
    whole = max(left + n * width + 8 + slant, told)
    below = top + n * height + 18
    parts.append(_legend(legend, 0, below))
    return picture(*parts, width=whole, height=below + 24, title=title)


def _cell(cell: HeatCell, box: tuple[float, float, float, float], *, written: bool) -> Markup:
    x, y, width, height = box
    parts = [hint(cell.hint), _patch(cell.strength, x + 1, y + 1, width - 2, height - 2)]
    text = cell.text if written else cell.sign
    if text:
        middle = (x + width / 2, y + height / 2 + 4)
        parts.append(words(text, *middle, class_="cell-text" if cell.sure else "cell-text faint", anchor="middle"))
    return element("g", *parts, data_of=cell.behind)


def _patch(strength: float, x: float, y: float, width: float, height: float) -> Markup:
    class_, opacity = f"cell {'vermilion' if strength < 0 else 'blue'}", f"{abs(strength) * HEAT_OPACITY:.2f}"
    return element("rect", x=x, y=y, width=width, height=height, class_=class_, fill_opacity=opacity)


def _legend(legend: Legend, x: float, y: float) -> Markup:
    parts = []
    for strength, text in legend.steps:
        parts += [_patch(strength, x, y, 16, 12), words(text, x + 21, y + 10.5, class_="tick")]
        x += 21 + text_width(text, 11.5) + 18
    return Markup("").join(parts)
