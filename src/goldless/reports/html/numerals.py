"""Numbers as words and figures of a page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeGuard

from goldless.reports.report_table import typeset


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be written: not NaN, nor larger than a float takes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def decimals_for(values: Iterable[float | None]) -> int:
    """How many decimals tell values of this size apart: two from 2 on, three below, more for very small ones."""
    largest = max((abs(value) for value in values if value is not None and is_number(value)), default=0.0)
    if largest == 0.0 or largest >= 2:
        return 0 if largest >= 10_000 else 1 if largest >= 1000 else 2
    return min(8, max(3, 2 - math.floor(math.log10(largest))))


def numeral(value: float | None, decimals: int = 3, *, absent: str = "missing", signed: bool = False) -> str:
    """A number with a real minus sign and thousands apart; a word where there is none."""
    if value is None or not is_number(value):
        return absent
    return typeset(f"{value:+,.{decimals}f}" if signed else f"{value:,.{decimals}f}")


def plural(amount: int, word: str, several: str | None = None) -> str:
    """An amount with its noun: 1 task, 14 tasks."""
    return f"{amount:,} {word if amount == 1 else several or word + 's'}"


def percent(level: float) -> str:
    """A level such as 0.95 as per cent."""
    return f"{level * 100:g}\u202f%"
