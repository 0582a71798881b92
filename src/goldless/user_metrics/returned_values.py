"""What a metric returned, as a score: a number, or missing, or a problem that says what came instead."""

from __future__ import annotations

import math
import numbers
import re
from reprlib import Repr
from typing import Any

from goldless.text_items import ItemScore

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A number as programs print it; Python's own ``float`` would take 1_000 and other alphabets' digits too."""

_short = Repr()
_short.maxstring = _short.maxother = 60


def shown(value: object) -> str:
    """A value for a message: short, on one line, whatever it is."""
    return _short.repr(value)


def number_score(value: Any) -> ItemScore:
    """A finite number is the score and None is missing; anything else is a problem, never a score."""
    if value is None:
        return ItemScore(None)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return ItemScore(None, f"returned {shown(value)} ({type(value).__name__}), which is no number")
    try:
        score = float(value)
    except OverflowError:
        return ItemScore(None, "returned a number too large to compute with")
    if not math.isfinite(score):
        return ItemScore(None, f"returned {score}; a score is a finite number, or None where there is none")
    return ItemScore(score)


def parsed_number(text: str) -> float | None:
    """The number a text is as a whole, or None. Too large a one is infinite."""
    return float(text) if NUMBER.fullmatch(text.strip()) else None
