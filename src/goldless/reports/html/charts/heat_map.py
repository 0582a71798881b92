"""The heat map: a square of cells, with the same names for rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from goldless.reports.html.charts.svg import HEAT_OPACITY, NARROW, SMALL, element, hint, picture, words
from goldless.reports.html.charts.svg import legend as drawn_legend
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
    n, written = len(names), len(names) <= WRITTEN_UP_TO
    labels = [fitted(name, LABEL_WIDTH - 30) for name in names]
    heads = [fitted(name, COLUMN_ROOM, SMALL) for name in names]
    left = max((text_width(text) for text in labels), default=0) + 14
    slant = max((text_width(text, SMALL) for text in heads), default=0.0) * SLANT
    longest = max((text_width(cell.text, SMALL) for row in cells for cell in row if cell is not None), default=0.0)
    width, height = (max(46.0, longest + 16.0), 28.0) if written else (22.0, 20.0)
    top = 30 + slant
    parts, patches = [words(corner, 0, 14, class_="tick")], []
    for i, (text, head, row) in enumerate(zip(labels, heads, cells, strict=True)):
        y = top + (i + 0.5) * height
        slanted = f"translate({left + (i + 0.5) * width:.1f} {top - 8:.1f}) rotate(-45)"
        parts.append(words(text, left - 10, y + 4, class_="label", anchor="end"))
        parts.append(element("g", words(head, 0, 0, class_="tick"), transform=slanted))
        for j, cell in enumerate(row):
            if cell is None:
                continue
            x = left + j * width
            inside = [hint(cell.hint), _patch(cell.strength, x + 1, y - height / 2 + 1, width - 2, height - 2)]
            if said := cell.text if written else cell.sign:
                class_ = "cell-text" if cell.sure else "cell-text faint"
                inside.append(words(said, x + width / 2, y + 4, class_=class_, anchor="middle"))
            patches.append(element("g", *inside, data_of=cell.behind))
    below, whole = top + n * height + 18, max(left + n * width + 8 + slant, NARROW - 40)
    keys = [(_patch(step, 0, 0, 16, 12), text) for step, text in legend.steps]
    told, tall = drawn_legend(keys, whole, below)
    return picture(*parts, *patches, told, width=whole, height=below + tall + 4, title=title)


def _patch(strength: float, x: float, y: float, width: float, height: float) -> Markup:
    class_, opacity = f"cell {'vermilion' if strength < 0 else 'blue'}", f"{abs(strength) * HEAT_OPACITY:.2f}"
    return element("rect", x=x, y=y, width=width, height=height, class_=class_, fill_opacity=opacity)
