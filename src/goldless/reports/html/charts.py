"""Charts as SVG: interval plots and heat maps, all on the same marks, scales and colours.

``element`` is the only place that writes angle brackets, and it escapes everything. The hues of series are those of
Okabe and Ito (blue, vermilion, green, purple, ochre), adjusted in lightness for a contrast of 3:1 in either theme; text
has at least 4.5:1 (WCAG 2.1, AA).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from goldless.reports.html.labels import excerpt, fitted, numeral, text_width, visible
from goldless.reports.report_table import large_text
from goldless.statistics.bootstrap import ABSENT, Estimate

COLOURS: dict[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#15181b"),
    "raised": ("#f6f7f8", "#1d2125"),
    "ink": ("#1b1e22", "#e6e8ea"),
    "muted": ("#565d66", "#a6adb5"),
    "rule": ("#d5d9de", "#383e45"),
    "grid": ("#e6e9ec", "#2a2f35"),
    "link": ("#0a559c", "#8cc4f5"),
    "blue": ("#0b65ad", "#63b0ee"),
    "vermilion": ("#c04f00", "#f08c4a"),
    "green": ("#00785c", "#45bd99"),
    "purple": ("#93488f", "#d396cf"),
    "ochre": ("#8a6a00", "#d9b33c"),
}
"""Name: (light, dark)."""
WIDTH = 760
"""Width in pixels of all charts except heat maps."""
NARROW = 370
"""Width of the same charts on a small screen."""
SMALL = 11.5
"""Size of the letters of ticks, legends and points."""
Shape = Literal["dot", "ring", "cross", "stroke"]
PATHS = {"cross": "M-4.5-4.5l9 9m0-9l-9 9", "stroke": "M0-10.8v21.6"}
"""Shapes around the origin; dots and rings are circles."""
LONGEST_HINT = 300
LONGEST_FINDING = 1000
EMPTY = frozenset({"circle", "line", "path", "rect"})
"""Elements that are written short where they have no children: there are thousands of them."""


def element(tag: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """One element. Children that are not markup are escaped; attributes that are None are left out.

    An underscore at the end of an attribute's name is dropped, others become hyphens: ``class_``, ``text_anchor``.
    Numbers are rounded to a tenth of a pixel.
    """
    written = ""
    for key, value in attributes.items():
        if value is not None:
            text = value if isinstance(value, str) else f"{value:z.1f}".removesuffix(".0")
            written += f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"'
    inside = "".join(str(escape(child)) for child in children)
    ended = "/>" if not inside and tag in EMPTY else f">{inside}</{tag}>"
    return Markup(f"<{tag}{written}{ended}")  # noqa: S704 - every part was escaped above


def words(text: str, x: float, y: float, *, class_: str = "", anchor: str | None = None) -> Markup:
    """A line of text, isolated from the writing direction around it."""
    return element("text", visible(text), x=x, y=y, class_=class_ or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def hint(text: str) -> Markup:
    """A tooltip; nothing if the text is empty."""
    return element("title", excerpt(text, LONGEST_HINT)) if text else Markup("")


def mark(shape: Shape, x: float, y: float, class_: str) -> Markup:
    """A mark around a point."""
    class_ = f"{shape} {class_}"
    if shape in PATHS:
        return element("path", d=PATHS[shape], transform=f"translate({x:.1f} {y:.1f})", class_=class_)
    return element("circle", cx=x, cy=y, r=4.5, class_=class_)


def legend(keys: Sequence[tuple[Markup, str]], width: float, top: float) -> tuple[Markup, float]:
    """Keys with their texts, in as many lines as they need, and the height of all; a key is 16 by 12 pixels."""
    parts: list[Markup] = []
    x, y = 0.0, top
    for key, said in keys:
        text = fitted(said, 240, SMALL)
        needed = 39 + text_width(text, SMALL)
        if x and x + needed - 18 > width:
            x, y = 0.0, y + 20
        drawn = (key, words(text, 21, 10.5, class_="tick"))
        parts.append(element("g", *drawn, class_="key", transform=f"translate({x:.1f} {y:.1f})"))
        x += needed
    return Markup("").join(parts), y + 20 - top if keys else 0.0


def picture(*parts: Markup, width: float, height: float, title: str) -> Markup:
    """The whole chart."""
    size, box = {"width": width, "height": height}, f"0 0 {width:g} {height:g}"
    about = {"role": "img", "class_": "chart"}
    return element("svg", hint(title), *parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, **size, **about)


def pictures(plot: Callable[..., Markup], *given: object, **options: object) -> tuple[Markup, Markup]:
    """A plot in both widths: normal and for small screens."""
    return plot(*given, **options), plot(*given, width=NARROW, **options)


def described(drawn: Markup, finding: str) -> Markup:
    """The chart with a description for those who cannot see it."""
    if not finding:
        return drawn
    told = element("desc", excerpt(finding, LONGEST_FINDING))
    return Markup(str(drawn).replace("</title>", f"</title>{told}", 1))  # noqa: S704 - both parts are escaped


def theme_css() -> tuple[str, str]:
    """The colours of the light theme, also used for downloaded pictures; and the rules for the dark one.

    Dark is the system's setting or the reader's choice; print is always light.
    """
    light, dark = ("".join(f"--{name}:{pair[theme]};" for name, pair in COLOURS.items()) for theme in (0, 1))
    return f":root{{color-scheme:light;{light}}}", (
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{color-scheme:light;{light}}}}}\n"
    )


# --- scales and axes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AxisScale:
    """From values to pixels, in proportion to the values."""

    least: float
    most: float
    begin: float
    """Pixel of the smallest value."""
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the scale are clamped."""
        share = (value - self.least) / ((self.most - self.least) or 1.0)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def ticks(self, wanted: int = 6) -> list[tuple[float, str]]:
        """Pixels and texts of round numbers."""
        rough = (self.most - self.least) / wanted
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * min((1, 2, 5, 10), key=lambda step: abs(math.log(step * size / rough)))
        first, last = math.ceil(self.least / step - 1e-9), math.floor(self.most / step + 1e-9)
        found = [place * step for place in range(first, last + 1)]
        if max(map(abs, found), default=0.0) >= 100_000:
            return [(self(tick), large_text(tick)) for tick in found]
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(self(tick), numeral(tick, decimals)) for tick in found]


def scale_over(values: Iterable[float | None], begin: float, end: float) -> AxisScale:
    """A scale over all values with a small margin; around the value if they are all equal."""
    found = [value for value in values if value is not None]
    least, most = (min(found), max(found)) if found else (0.0, 1.0)
    if most - least <= 1e-12 * max(1.0, abs(most)):
        around = abs(most) * 0.1 or 0.5
        least, most = least - around, most + around
    room = (most - least) * 0.04
    return AxisScale(least - room, most + room, begin, end)


def _bottom_axis(scale: AxisScale, y: float, top: float, title: str) -> Markup:
    """Grid lines up to the top, numbers and axis title below."""
    parts = []
    for x, text in scale.ticks(max(3, int((scale.end - scale.begin) / 80))):
        parts += [line(x, top, x, y, "grid"), words(text, x, y + 16, class_="tick", anchor="middle")]
    parts.append(words(title, (scale.begin + scale.end) / 2, y + 35, class_="axis-title", anchor="middle"))
    return Markup("").join(parts)


# --- the interval plot -----------------------------------------------------------------------------------------------

HEADING_HEIGHT = 30
MINI_HEIGHT = 12.0


@dataclass(frozen=True)
class IntervalRow:
    """One line of the plot."""

    label: str
    estimate: Estimate
    """Without a value: shown as missing."""
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


@dataclass(frozen=True)
class Band:
    """A shaded range of values; only a line at the middle if an end is unknown."""

    range: Estimate
    label: str = ""


def interval_plot(
    rows: Sequence[IntervalRow],
    *,
    title: str,
    axis: str,
    reference: float | None = None,
    band: Band | None = None,
    width: float = WIDTH,
) -> Markup:
    """Values with their intervals, one line per row (a forest plot). ``reference``: a value marked by a line."""
    room = min(240.0, width * 0.36)
    left = min(room, max((text_width(fitted(row.label, room)) for row in rows), default=0) + 16)
    aside = max((text_width(row.aside) for row in rows), default=0)
    ends = [end for row in rows for end in (*row.estimate.numbers, row.limit)]
    scale = scale_over([*ends, reference, *(band.range if band else ABSENT).numbers], left + 6, width - aside - 20)
    height = 25 if len(rows) <= 20 else 21
    top = 14 + (18 if band is not None and band.label else 0)
    drawn: list[Markup] = []
    y, group = float(top), ""
    for row in rows:
        if row.group and row.group != group:
            group = row.group
            y += HEADING_HEIGHT if drawn else HEADING_HEIGHT - 8
            drawn.append(words(fitted(group, width), 0, y - 9, class_="group"))
        drawn.append(_interval(row, scale, y + height / 2, left, width))
        y += height
    bottom = y + 4
    under = [_bottom_axis(scale, bottom, top, axis)]
    if band is not None:
        under.insert(0, _band(band, scale, top, bottom))
    if reference is not None:
        under.append(line(scale(reference), top, scale(reference), bottom, "reference"))
    return picture(*under, *drawn, width=width, height=bottom + 44, title=title)


def _interval(row: IntervalRow, scale: AxisScale, y: float, left: float, width: float) -> Markup:
    parts = [words(fitted(row.label, left - 8), left - 8, y + 4, class_="label", anchor="end")]
    value, low, high = row.estimate.numbers
    if low is not None and high is not None:
        parts.append(line(scale(low), y, scale(high), y, f"whisker {row.tone}"))
    if row.inner is not None:
        parts.append(line(scale(row.inner[0]), y, scale(row.inner[1]), y, f"inner {row.tone}"))
    if value is None:
        parts.append(words("missing", scale.begin + 4, y + 4, class_="tick missing"))
    else:
        parts.append(mark(row.shape, scale(value), y, row.tone))
    if row.limit is not None:
        parts.append(line(scale(row.limit), y - 8, scale(row.limit), y + 8, "limit"))
    if row.aside:
        parts.append(words(row.aside, width - 2, y + 4, class_="aside", anchor="end"))
    return element("g", hint(row.hint), *parts)


def _band(band: Band, scale: AxisScale, top: float, bottom: float) -> Markup:
    """A shaded range of a scale with its label above it."""
    parts, x = [], scale.end
    middle, low, high = band.range.numbers
    if low is not None and high is not None:
        first, last = sorted((scale(low), scale(high)))
        x = (first + last) / 2
        width = max(1.0, last - first)
        parts.append(element("rect", x=first, y=top, width=width, height=bottom - top, class_="band"))
    if middle is not None:
        parts.append(line(scale(middle), top, scale(middle), bottom, "band-line"))
        if low is None or high is None:
            x = scale(middle)
    if band.label:
        near_end = x > scale.end - text_width(band.label, SMALL) / 2
        label_x, anchor = (scale.end, "end") if near_end else (x, "middle")
        parts.append(words(band.label, label_x, top - 6, class_="tick", anchor=anchor))
    return Markup().join(parts)


def interval_bar(
    value: float | None, low: float | None, high: float | None, *, ends: tuple[float, float], width: float
) -> Markup:
    """One value on its interval, on a scale with these ends, for a cell of a table; zero is marked."""
    return mini_interval(value, low, high, AxisScale(*ends, 5, width - 5))


def mini_interval(value: float | None, low: float | None, high: float | None, scale: AxisScale) -> Markup:
    """One value on its interval for a cell of a table, whose numbers say the same; zero is marked."""
    y, parts = MINI_HEIGHT / 2, []
    if scale.least < 0 < scale.most:
        parts.append(line(scale(0.0), 0, scale(0.0), MINI_HEIGHT, "reference"))
    if low is not None and high is not None:
        parts.append(line(scale(low), y, scale(high), y, "whisker blue"))
    if value is not None:
        # a line without length: its round ends stay round where a small screen makes the plot narrower
        parts.append(line(scale(value), y, scale(value), y, "point blue"))
    width = scale.end + 5
    size, box = {"width": width, "height": MINI_HEIGHT}, f"0 0 {width:g} {MINI_HEIGHT:g}"
    about = {"class_": "mini chart", "aria_hidden": "true", "focusable": "false", "preserveAspectRatio": "none"}
    return element("svg", *parts, viewBox=box, **size, **about)


# --- the heat map ----------------------------------------------------------------------------------------------------

HEAT_OPACITY = 0.5
"""Opacity of the strongest cell, low enough for readable text."""
LABEL_WIDTH = 220
COLUMN_ROOM = 120
"""Width of a column's name, which is written at a slant."""
SLANT = 0.72
"""Height of a name at a slant, as a share of its width."""
WRITTEN_UP_TO = 12
"""With more names than this, cells are too small for numbers."""


@dataclass(frozen=True)
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
    """True if the text is emphasised."""
    behind: str | None = None
    """The texts behind it, as the page's script reads them."""


def heat_map(
    names: Sequence[str],
    cells: Sequence[Sequence[HeatCell | None]],
    *,
    title: str,
    corner: str,
    steps: Sequence[tuple[float, str]],
) -> Markup:
    """A square of cells, with the same names for rows and columns; None: no such cell.

    ``corner`` says what rows and columns are, ``steps`` what the colours mean: strengths with their texts.
    """
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
    below, whole = top + n * height + 18, max(left + n * width + 8 + slant, NARROW - 50)
    # on a small screen the cells scroll sideways, and the legend is read without
    told, tall = legend([(_patch(step, 0, 0, 16, 12), text) for step, text in steps], NARROW - 50, below)
    return picture(*parts, *patches, told, width=whole, height=below + tall + 4, title=title)


def _patch(strength: float, x: float, y: float, width: float, height: float) -> Markup:
    class_, opacity = f"cell {'vermilion' if strength < 0 else 'blue'}", f"{abs(strength) * HEAT_OPACITY:.2f}"
    return element("rect", x=x, y=y, width=width, height=height, class_=class_, fill_opacity=opacity)
