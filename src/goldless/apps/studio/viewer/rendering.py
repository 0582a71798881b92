"""How pages are rendered: all text escaped, hidden and control characters made visible, numbers formatted alike."""

from __future__ import annotations

import functools
from bisect import bisect
from datetime import UTC, datetime
from typing import Any

import jinja2
from markupsafe import Markup

from goldless._version import __version__
from goldless.apps.studio.viewer.links import Links
from goldless.reports.html.charts.axis import Scale
from goldless.reports.html.charts.row_plots import mini_interval
from goldless.reports.html.charts.svg import element
from goldless.reports.html.labels import is_number, label, numeral, visible
from goldless.reports.report_table import MINUS, Column, seconds_text, usd_text

MISSING = "missing"
LONGEST = 20_000
"""Characters of a text shown at first."""
BAR_WIDTH = 160
PLOT = Column("plot", Markup('<span class="hidden">interval plot</span>'))
SHADES = {
    "surprise": ("s", (3.0, 5.0, 8.0)),
    "token": ("g", (-4.0, -2.0, -1.0, 1.0, 2.0, 4.0)),
    "sentence": ("g", (-20.0, -5.0, -1.0, 1.0, 5.0, 20.0)),
}
"""Letter of the CSS classes and the nats at which the shade changes: of surprise, -log p, and of gains, where the
middle is no colour."""


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return visible(value, lines=True)
    return "" if value is None else value


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, with everything escaped."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("goldless.apps.studio.viewer", "templates"),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,  # results of an older version lack some fields: shown as missing
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": numeral,
        "count": count,
        "moment": moment,
        "instant": instant,
        "share": share,
        "bar": bar,
        "nats": nats,
        "end": lambda value: f"{value:+g}".replace("-", MINUS),
        "given": given,
        "seconds": seconds_text,
        "usd": usd_text,
    }
    limits = {kind: limits for kind, (_, limits) in SHADES.items()}
    found.globals |= {"version": __version__, "longest": LONGEST, "limits": limits, "shade": shade}
    return found


def render(template: str, links: Links, **values: Any) -> str:
    """A page."""
    return environment().get_template(template).render(links=links, **values)


def linked(name: str, address: str | None) -> Markup | str:
    """A name from the data, as a link if there is an address."""
    return name if address is None else element("a", element("bdi", label(name)), href=address)


def page_number(given: str | None) -> int:
    """A page number; 1 if it cannot be read."""
    return int(given) if given and given.isascii() and given.isdigit() and len(given) < 9 and int(given) > 0 else 1


def shade(kind: str, nats: float | None) -> str:
    """The CSS class of a token or sentence with that many nats; none where they are unknown."""
    letter, limits = SHADES[kind]
    return "" if nats is None else f"{letter}{bisect(limits, -nats if kind == 'surprise' else nats)}"


# --- numbers ---------------------------------------------------------------------------------------------------------


def given(value: object) -> str:
    """A number as given, with its own decimals."""
    return f"{value:g}".replace("-", MINUS) if is_number(value) else MISSING


def nats(value: object) -> str:
    """A signed number of nats."""
    return f"{value:+z,.2f}".replace("-", MINUS) if is_number(value) else MISSING


def count(value: object) -> str:
    """A whole number."""
    return f"{value:,}" if isinstance(value, int) else MISSING


def share(value: object) -> str:
    """A fraction in per cent."""
    return f"{100 * value:.0f} %" if is_number(value) else MISSING


def moment(value: datetime | None) -> str:
    """A time in UTC."""
    return "unknown" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


def instant(seconds: float | None) -> str:
    """A time in UTC, from seconds since 1970."""
    try:
        return moment(None if seconds is None else datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):  # a year that no calendar has
        return moment(None)


def bar(value: float | None, low: float | None, high: float | None, lowest: float, highest: float) -> Markup:
    """An interval as a line with the value as a dot, on a scale shared by all rows; zero is marked."""
    return mini_interval(value, low, high, Scale(lowest, highest, 5, BAR_WIDTH - 5))
