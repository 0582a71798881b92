"""Dates whose day or month may be unknown."""

from __future__ import annotations

import calendar
import re
from datetime import date

_WRITTEN = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


def last_day(text: str) -> date | None:
    """The last day that a date written as YYYY, YYYY-MM or YYYY-MM-DD can mean; None if it is not a date."""
    found = _WRITTEN.fullmatch(text.strip())
    return None if found is None else _day(found, last=True)


def first_day(text: str) -> date | None:
    """The first day that a date written as YYYY, YYYY-MM or YYYY-MM-DD can mean; None if it is not a date."""
    found = _WRITTEN.fullmatch(text.strip())
    return None if found is None else _day(found, last=False)


def _day(found: re.Match[str], *, last: bool) -> date | None:
    year = int(found[1])
    try:
        month = int(found[2] or (12 if last else 1))
        return date(year, month, int(found[3] or (calendar.monthrange(year, month)[1] if last else 1)))
    except ValueError:  # calendar's error for a month is one, too
        return None
