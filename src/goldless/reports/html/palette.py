"""The colours of the report, in light and dark: told apart by people who see fewer of them, and dark enough to read.

The hues of series are those of Okabe and Ito (blue, vermilion, green, purple, ochre), moved in lightness until they
stand 3:1 against the ground in either theme; words stand at least 4.5:1 (WCAG 2.1, AA).
"""

from __future__ import annotations

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
"""Name: in light, in dark."""
SERIES = ("blue", "vermilion", "green", "purple", "ochre", "muted")
HEAT_OPACITY = 0.5
"""Of the strongest cell of a heat map: words on it stay readable."""


def palette_css(theme: int) -> str:
    """The colours of a theme (0: light, 1: dark) as declarations."""
    return "".join(f"--{name}:{pair[theme]};" for name, pair in COLOURS.items())


def theme_css() -> str:
    """What changes colours: the system's wish, the reader's, and print, which is always light."""
    light, dark = palette_css(0), palette_css(1)
    return (
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{color-scheme:light;{light}}}}}\n"
    )


def light_css() -> str:
    """The colours of the light theme, which downloaded pictures have too."""
    return f":root{{color-scheme:light;{palette_css(0)}}}"
