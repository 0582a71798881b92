"""Numbers as they come in documents, and as they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

MINUS = "\u2212"
Row = Mapping[str, Any]


def number(row: Row, key: str) -> float | None:
    """The number under a key; None where it is absent. Raises ``TypeError`` where it is something else."""
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{key} is {type(value).__name__}, and a number is expected")
    return float(value) if math.isfinite(value) else None


def count(row: Row, key: str) -> int:
    """A count; 0 where the document has none."""
    found = number(row, key)
    return 0 if found is None else int(found)


def decimals_for(values: Iterable[float | None]) -> int:
    """How many decimals tell values of this size apart: two from 2 on, three below, more for very small ones."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if largest == 0.0 or largest >= 2:
        return 0 if largest >= 10_000 else 1 if largest >= 1000 else 2
    return min(8, max(3, 2 - math.floor(math.log10(largest))))


def numeral(value: float | None, decimals: int = 3, *, absent: str = "missing", signed: bool = False) -> str:
    """A number with a real minus sign and thousands apart; a word where there is none."""
    if value is None:
        return absent
    written = f"{value:+,.{decimals}f}" if signed else f"{value:,.{decimals}f}"
    if float(written.replace(",", "")) == 0.0:
        written = written.lstrip("+-")
    return written.replace("-", MINUS)


def plural(amount: int, word: str, several: str | None = None) -> str:
    """An amount with its noun: 1 task, 14 tasks."""
    return f"{amount:,} {word if amount == 1 else several or word + 's'}"


def percent(level: float) -> str:
    """A level such as 0.95 as per cent."""
    return f"{level * 100:g}\u202f%"


def usd(value: float | None) -> str:
    """An amount of US dollars: more digits where it is small."""
    if value is None:
        return "unknown"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value == 0 or value >= 0.1 else f"{value:.2g}"


def large(value: float | None) -> str:
    """A large number to about three digits: 812, 12.3k, 4.2M."""
    if value is None:
        return "unknown"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:,.0f}"
