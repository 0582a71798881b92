"""Addresses and rendering of pages: all text escaped, hidden characters made visible, numbers formatted alike."""

from __future__ import annotations

import functools
import re
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from goldless import __version__
from goldless.reports.html.charts import element, interval_bar
from goldless.reports.html.labels import formatted, label, numeral, visible
from goldless.reports.report_table import Column, decimals_for, seconds_text, usd_text

HERE = Path(__file__).parent
STATIC = HERE / "static"
RUN, TASK = "/runs/{run}", "/runs/{run}/tasks/{number}"
PAGES = {
    "home": "/",
    "progress of all": "/progress",
    "compare": "/compare",
    "static": "/static/{file}",
    "run": RUN,
    "progress": f"{RUN}/progress",
    "report": f"{RUN}/report",
    "failures": f"{RUN}/failures",
    "side by side": f"{RUN}/side-by-side",
    "tasks": f"{RUN}/tasks",
    "task": TASK,
    "response": f"{TASK}/agents/{{agent}}",
    "pair": f"{TASK}/pairs/{{agent}}/{{peer}}",
}
"""Addresses of the viewer's pages; a task, an agent and its peer are numbers."""


@dataclass(frozen=True)
class Links:
    """Addresses on a server, valid from any page."""

    more: Mapping[str, str] | None = None
    """Pages besides the viewer's."""
    navigation: tuple[tuple[str, str], ...] = (("/", "Runs"), ("/compare", "Compare"))
    """Address and title of the pages that every page links to."""

    def to(self, page: str, /, *where: str | int, **query: object) -> str | None:
        """The address of a page; None: there is no such page."""
        pattern = PAGES.get(page) or (self.more or {}).get(page)
        if pattern is None:
            return None
        parts = (quote(str(part), safe="", errors="surrogatepass") for part in where)
        address = re.sub(r"{\w+}", lambda _: next(parts), pattern)
        given = _given(query)
        return f"{address}?{urlencode(given, errors='surrogatepass')}" if given else address


def _given(query: Mapping[str, object]) -> dict[str, object]:
    # 0 is asked for like any other number, and equals False: each kind of nothing is named
    return {name: v for name, v in query.items() if not (v is None or v is False or v == "")}


# --- templates -------------------------------------------------------------------------------------------------------

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


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, with everything escaped."""

    def shown(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Markup):
            return visible(value, lines=True)
        return "" if value is None else value

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,  # a field that a result lacks is shown as missing
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": numeral,
        "decimals": decimals_for,
        "count": _formatted("{:,}"),
        "given": _formatted("{:g}"),
        "nats": _formatted("{:+z,.2f}"),
        "end": _formatted("{:+g}"),
        "share": _formatted("{:.0%}"),
        "moment": moment,
        "bar": bar,
        "seconds": seconds_text,
        "usd": usd_text,
    }
    limits = {kind: limits for kind, (_, limits) in SHADES.items()}
    found.globals |= {"version": __version__, "longest": LONGEST, "limits": limits, "shade": shade}
    return found


def _formatted(pattern: str) -> Any:
    return functools.partial(formatted, pattern=pattern)


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


def moment(value: datetime | float | None) -> str:
    """A time in UTC; a number is of seconds since 1970."""
    try:
        when = datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) else value
    except (ValueError, OverflowError, OSError):  # a year that no calendar has
        when = None
    return "unknown" if when is None else f"{when:%Y-%m-%d %H:%M} UTC"


def bar(value: float | None, low: float | None, high: float | None, lowest: float, highest: float) -> Markup:
    """An interval as a line with the value as a dot, on a scale shared by all rows; zero is marked."""
    return interval_bar(value, low, high, ends=(lowest, highest), width=BAR_WIDTH)
