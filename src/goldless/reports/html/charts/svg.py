"""SVG elements as escaped markup, the only place where charts write angle brackets; and the colours of the report.

The hues of series are those of Okabe and Ito (blue, vermilion, green, purple, ochre), adjusted in lightness for a
contrast of 3:1 in either theme; text has at least 4.5:1 (WCAG 2.1, AA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from markupsafe import Markup, escape

from goldless.reports.html.labels import excerpt, fitted, text_width, visible

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
SERIES = ("blue", "vermilion", "green", "purple", "ochre", "muted")
HEAT_OPACITY = 0.5
"""Opacity of the strongest cell of a heat map, low enough for readable text."""
WIDTH = 760
"""Width in pixels of all charts except heat maps."""
NARROW = 370
"""Width of the same charts on a small screen."""
SMALL = 11.5
"""Size of the letters of ticks, legends and points."""
Shape = Literal["dot", "ring", "cross", "square", "diamond", "triangle", "stroke"]
SHAPES: tuple[Shape, ...] = ("dot", "square", "diamond", "triangle", "ring", "cross")
"""Shapes of series, in order."""
LONGEST_HINT = 300
LONGEST_FINDING = 1000
EMPTY = frozenset({"circle", "line", "path", "rect"})
"""Elements that are written short where they have no children: there are thousands of them."""


def element(tag: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """One element. Children that are not markup are escaped; attributes that are None are left out.

    An underscore at the end of an attribute's name is dropped, others become hyphens: ``class_``, ``text_anchor``.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(str(escape(child)) for child in children)
    ended = "/>" if not inside and tag in EMPTY else f">{inside}</{tag}>"
    return Markup(f"<{tag}{written}{ended}")  # noqa: S704 - every part was escaped above


def _value(value: str | float) -> str:
    """Numbers are rounded to a tenth of a pixel."""
    return value if isinstance(value, str) else f"{value:z.1f}".removesuffix(".0")


def words(text: str, x: float, y: float, *, class_: str = "", anchor: str = "start") -> Markup:
    """A line of text, isolated from the writing direction around it."""
    return element(
        "text", visible(text), x=x, y=y, class_=class_ or None, text_anchor=None if anchor == "start" else anchor
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def hint(text: str) -> Markup:
    """A tooltip; nothing if the text is empty."""
    return element("title", excerpt(text, LONGEST_HINT)) if text else Markup("")


def mark(shape: Shape, x: float, y: float, class_: str, *inside: Markup, size: float = 4.5) -> Markup:
    """A mark."""
    s = size
    paths = {
        "square": f"M{x - s:.1f} {y - s:.1f}h{2 * s:.1f}v{2 * s:.1f}h{-2 * s:.1f}z",
        "diamond": f"M{x:.1f} {y - 1.3 * s:.1f}l{1.3 * s:.1f} {1.3 * s:.1f}l{-1.3 * s:.1f} {1.3 * s:.1f}"
        f"l{-1.3 * s:.1f} {-1.3 * s:.1f}z",
        "triangle": f"M{x:.1f} {y - 1.2 * s:.1f}l{1.15 * s:.1f} {2.1 * s:.1f}h{-2.3 * s:.1f}z",
        "cross": f"M{x - s:.1f} {y - s:.1f}l{2 * s:.1f} {2 * s:.1f}m0 {-2 * s:.1f}l{-2 * s:.1f} {2 * s:.1f}",
        "stroke": f"M{x:.1f} {y - 2.4 * s:.1f}v{4.8 * s:.1f}",
    }
    if shape in paths:
        return element("path", *inside, d=paths[shape], class_=f"{shape} {class_}")
    return element("circle", *inside, cx=x, cy=y, r=size, class_=f"{shape} {class_}")


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
        parts.append(element("g", *drawn, transform=f"translate({x:.1f} {y:.1f})"))
        x += needed
    return Markup("").join(parts), y + 20 - top if keys else 0.0


def picture(*parts: Markup, width: float, height: float, title: str) -> Markup:
    """The whole chart."""
    return element(
        "svg",
        hint(title),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        class_="chart",
    )


def described(drawn: Markup, finding: str) -> Markup:
    """The chart with a description for those who cannot see it."""
    if not finding:
        return drawn
    told = element("desc", excerpt(finding, LONGEST_FINDING))
    return Markup(str(drawn).replace("</title>", f"</title>{told}", 1))  # noqa: S704 - both parts are escaped


def pictures(plot: Callable[..., Markup], *given: object, **options: object) -> tuple[Markup, Markup]:
    """A plot in both widths: normal and for small screens."""
    return plot(*given, **options), plot(*given, width=NARROW, **options)


# --- colours ---------------------------------------------------------------------------------------------------------


def light_css() -> str:
    """The colours of the light theme, also used for downloaded pictures."""
    return f":root{{color-scheme:light;{_palette(0)}}}"


def theme_css() -> str:
    """Rules for the dark theme: the system's setting, the reader's choice, and print, which is always light."""
    light, dark = _palette(0), _palette(1)
    return (
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{color-scheme:light;{light}}}}}\n"
    )


def _palette(theme: int) -> str:
    return "".join(f"--{name}:{pair[theme]};" for name, pair in COLOURS.items())
