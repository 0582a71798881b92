"""A badge: two words on a strip, as a small SVG that loads nothing."""

from __future__ import annotations

from markupsafe import Markup

HEIGHT = 20
COLOURS = {"equal": "#1a7f37", "different": "#b3261e", "not replayed": "#6e5494"}
CHARACTER = 6.6
"""Width of a character in pixels; the text is fitted to its place."""


def badge(left: str, right: str, colour: str) -> str:
    """The badge as SVG text."""
    widths = [round(len(text) * CHARACTER) + 12 for text in (left, right)]
    whole = sum(widths)
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{height}" role="img" aria-label="{said}">'
            "<title>{said}</title>"
            '<rect width="{first}" height="{height}" fill="#444"/>'
            '<rect x="{first}" width="{second}" height="{height}" fill="{colour}"/>'
            '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
            '<text x="6" y="14" textLength="{first_text}">{left}</text>'
            '<text x="{second_at}" y="14" textLength="{second_text}">{right}</text></g></svg>\n'
        ).format(
            whole=whole,
            height=HEIGHT,
            said=f"{left}: {right}",
            first=widths[0],
            second=widths[1],
            colour=colour,
            first_text=widths[0] - 12,
            second_at=widths[0] + 6,
            second_text=widths[1] - 12,
            left=left,
            right=right,
        )
    )
