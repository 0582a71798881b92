"""Names, texts and numbers for display: no invisible characters, limited length, real minus signs."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from typing import TypeGuard

from goldless.reports.report_table import MINUS, typeset
from goldless.reports.report_table import decimals_for as decimals_for  # noqa: PLC0414 - pages take it from here

LONGEST_LABEL = 48
"""Longer names are cut in the middle and made unique with a hash."""
LONGEST_TEXT = 600
"""Longer examples are cut."""
EMS = {**dict.fromkeys("iljtf.,:;'|! ()[]", 0.38), **dict.fromkeys("mwMW@%<>=+~", 0.95)}
"""Widths of narrow and of wide letters."""
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
    others = [ch for ch in text if ch not in EMS]
    wide = sum(0.7 if ch.isupper() else 1.05 if unicodedata.east_asian_width(ch) in "WF" else 0.62 for ch in others)
    return size * (wide + sum(EMS.get(ch, 0.0) for ch in text))


def fitted(name: object, width: float, size: float = 12.5) -> str:
    """The label cut to fit a width in pixels; the chart's table has the full name."""
    whole = shown = label(name)
    kept = len(whole)
    while kept > 6 and text_width(shown, size) > width:
        kept -= 1
        shown = f"{whole[: kept - kept // 3]}…{whole[len(whole) - kept // 3 :]}"
    return shown


# --- numbers ---------------------------------------------------------------------------------------------------------


def is_number(value: object) -> TypeGuard[float]:
    """True if it is a finite number that fits a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < sys.float_info.max


def numeral(value: float | None, decimals: int = 3, *, absent: str = "missing", signed: bool = False) -> str:
    """A number with a real minus sign and thousands separators; ``absent`` if there is none."""
    if value is None or not is_number(value):
        return absent
    return typeset(f"{value:+,.{decimals}f}" if signed else f"{value:,.{decimals}f}")


def formatted(value: object, pattern: str, *, absent: str = "missing") -> str:
    """A number in a format such as ``{:,}``, with a real minus sign; ``absent`` if there is none."""
    return pattern.format(value).replace("-", MINUS) if is_number(value) else absent


def plural(amount: int, word: str, several: str | None = None) -> str:
    """An amount with its noun: 1 task, 14 tasks."""
    return f"{amount:,} {word if amount == 1 else several or word + 's'}"


def percent(level: float) -> str:
    """A level such as 0.95 as a percentage."""
    return f"{level * 100:g}%"
