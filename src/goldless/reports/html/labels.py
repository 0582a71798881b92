"""Names, texts and numbers for display: no invisible characters, limited length, real minus signs."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from typing import TypeGuard

from goldless.reports.report_table import decimals_for as decimals_for  # noqa: PLC0414 - pages take it from here
from goldless.reports.report_table import typeset

LONGEST_LABEL = 48
"""Longer names are cut in the middle and made unique with a hash."""
LONGEST_TEXT = 600
"""Longer examples are cut."""
_CONTROLS = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"}
_ON_ONE_LINE = _CONTROLS | dict.fromkeys(map(ord, "\n\r\t"), " ")
_KEEPING_LINES = _CONTROLS | {ord("\n"): "\n", ord("\t"): "\t", ord("\r"): ""}
_INVISIBLE = re.compile(
    "[\u0080-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(text: object, *, lines: bool = False) -> str:
    """The text with invisible characters spelled out: control characters, direction marks, lone surrogates.

    ``lines`` keeps line breaks and tabs as they are; else they become spaces.
    """
    shown = str(text).translate(_KEEPING_LINES if lines else _ON_ONE_LINE)
    return _INVISIBLE.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", shown)


def label(name: object, longest: int = LONGEST_LABEL) -> str:
    """A name on one line: unchanged if short, else its two ends and four digits of its hash."""
    shown = visible(name)
    if len(shown) <= longest:
        return shown
    digest = hashlib.sha256(str(name).encode("utf-8", "surrogatepass")).hexdigest()[:4]
    tail = max(2, longest // 6)
    return f"{shown[: max(1, longest - tail - 6)]}…{shown[-tail:]}#{digest}"


def excerpt(text: object, longest: int = LONGEST_TEXT) -> str:
    """The beginning of a text, and how much was left out."""
    shown = visible(text, lines=True)
    if len(shown) <= longest:
        return shown
    return f"{shown[:longest]}… ({len(shown) - longest:,} more characters)"


def text_width(text: str, size: float = 12.5) -> float:
    """Approximate width in pixels of a text in a wide sans-serif font of that size."""
    return sum(_ems(ch) for ch in text) * size


def _ems(ch: str) -> float:
    if ch in "iljtf.,:;'|! ()[]":
        return 0.38
    if ch in "mwMW@%<>=+~" or ch.isupper():
        return 0.95 if ch in "mwMW@%<>=+~" else 0.7
    return 1.05 if unicodedata.east_asian_width(ch) in "WF" else 0.62


def fitted(name: object, width: float, size: float = 12.5) -> str:
    """The label cut to fit a width in pixels; the chart's table has the full name."""
    shown = label(name)
    kept = len(shown)
    while kept > 6 and text_width(shown, size) > width:
        kept -= 1
        whole = label(name)
        shown = f"{whole[: kept - kept // 3]}…{whole[len(whole) - kept // 3 :]}"
    return shown


# --- numbers ---------------------------------------------------------------------------------------------------------


def is_number(value: object) -> TypeGuard[float]:
    """True if it is a finite number that fits a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def numeral(value: float | None, decimals: int = 3, *, absent: str = "missing", signed: bool = False) -> str:
    """A number with a real minus sign and thousands separators; ``absent`` if there is none."""
    if value is None or not is_number(value):
        return absent
    return typeset(f"{value:+,.{decimals}f}" if signed else f"{value:,.{decimals}f}")


def plural(amount: int, word: str, several: str | None = None) -> str:
    """An amount with its noun: 1 task, 14 tasks."""
    return f"{amount:,} {word if amount == 1 else several or word + 's'}"


def percent(level: float) -> str:
    """A level such as 0.95 as per cent."""
    return f"{level * 100:g}\u202f%"
