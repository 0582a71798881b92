"""A badge: two words on a coloured ground, drawn by hand so that it needs no server."""

from __future__ import annotations

import html
from typing import Literal

Colour = Literal["green", "red", "grey"]
GROUNDS: dict[Colour, str] = {"green": "#1a7f37", "red": "#b42318", "grey": "#57606a"}
CHARACTER_WIDTH = 6.6
"""Of the 11-pixel face, on average; the text is stretched to fit."""


def badge_svg(label: str, message: str, colour: Colour) -> str:
    """The badge as an SVG picture."""
    widths = [round(len(text) * CHARACTER_WIDTH) + 12 for text in (label, message)]
    left, right = (html.escape(text) for text in (label, message))
    total = sum(widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" '
        f'aria-label="{left}: {right}"><title>{left}: {right}</title>'
        f'<rect width="{widths[0]}" height="20" fill="#24292f"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="{GROUNDS[colour]}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{widths[0] / 2}" y="14" textLength="{widths[0] - 12}">{left}</text>'
        f'<text x="{widths[0] + widths[1] / 2}" y="14" textLength="{widths[1] - 12}">{right}</text>'
        "</g></svg>\n"
    )
