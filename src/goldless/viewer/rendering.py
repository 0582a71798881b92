"""How pages are written: every text escaped, signs that a screen hides or obeys made visible, numbers alike."""

from __future__ import annotations

import functools
import math
import re
from datetime import datetime
from typing import Any

import jinja2
from markupsafe import Markup

from goldless._version import __version__
from goldless.viewer.links import Links

MISSING = "missing"
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
HIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff{BIDI}]")
"""Signs that a screen hides, or that turn the text around them: everything but tabs and line ends."""
LONGEST = 20_000
"""Characters of a text that are shown at first."""
BAR_WIDTH, BAR_HEIGHT = 160, 14


def visible(text: str) -> str:
    """The text with hidden signs as pictures of themselves: NUL as ␀, a right-to-left override as ⟦U+202E⟧."""
    return HIDDEN.sub(_picture, text.replace("\r\n", "\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"⟦U+{code:04X}⟧"


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return visible(value)
    return "" if value is None else value


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, with everything they write escaped."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("goldless.viewer", "templates"),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,  # results of an older version lack some fields: shown as missing
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": number,
        "count": count,
        "moment": moment,
        "share": share,
        "bar": bar,
        "nats": nats,
        "end": end,
    }
    found.globals |= {"version": __version__, "longest": LONGEST}
    return found


def render(template: str, links: Links, **values: Any) -> str:
    """A page."""
    return environment().get_template(template).render(links=links, **values)


# --- numbers ---------------------------------------------------------------------------------------------------------


def number(value: object, decimals: int = 3) -> str:
    """A number with a true minus sign; what is missing is called so."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return MISSING
    return f"{value:,.{decimals}f}".replace("-", "\u2212")


def nats(value: object) -> str:
    """A signed number of nats."""
    return f"{value:+,.2f}".replace("-", "\u2212") if isinstance(value, int | float) else MISSING


def end(value: float) -> str:
    """An end of a range in a legend."""
    return f"{value:+g}".replace("-", "\u2212")


def count(value: object) -> str:
    """A whole number."""
    return f"{value:,}" if isinstance(value, int) else MISSING


def share(value: object) -> str:
    """A part of a whole in per cent."""
    return f"{100 * value:.0f} %" if isinstance(value, int | float) else MISSING


def moment(value: datetime | None) -> str:
    """A time in UTC."""
    return "not known" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


def decimals_for(values: list[float | None]) -> int:
    """Two decimals, three where all numbers are small."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    return 3 if largest < 2 else 2


def bar(value: float | None, low: float | None, high: float | None, lowest: float, highest: float) -> Markup:
    """An interval as a line with the value as a dot, on a scale that all rows share; zero is marked."""
    span = (highest - lowest) or 1.0

    def place(x: float) -> str:
        return f"{4 + (BAR_WIDTH - 8) * min(1.0, max(0.0, (x - lowest) / span)):.1f}"

    middle = BAR_HEIGHT / 2
    parts = []
    if lowest < 0 < highest:
        parts.append(f'<line class="zero" x1="{place(0)}" x2="{place(0)}" y1="0" y2="{BAR_HEIGHT}"/>')
    if low is not None and high is not None:
        parts.append(f'<line class="span" x1="{place(low)}" x2="{place(high)}" y1="{middle}" y2="{middle}"/>')
    if value is not None:
        parts.append(f'<circle class="dot" cx="{place(value)}" cy="{middle}" r="3.5"/>')
    head = f'<svg class="bar" width="{BAR_WIDTH}" height="{BAR_HEIGHT}" aria-hidden="true" focusable="false">'
    return Markup(head + "".join(parts) + "</svg>")  # noqa: S704 - numbers only
