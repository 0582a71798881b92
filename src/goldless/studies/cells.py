"""What one cell of a table holds: nothing, text, or something else, and how that reads as text."""

from __future__ import annotations

import math
from typing import Any

import orjson


def is_empty(value: Any) -> bool:
    """Whether the cell says nothing: null, NaN or the empty text.

    CSV cannot tell null from the empty text, so neither do the other formats.
    """
    return value is None or value == "" or (type(value) is float and math.isnan(value))


def as_json(value: Any) -> bytes:
    """The value as compact JSON with sorted keys; dates in ISO form, what JSON does not know as text."""
    return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def as_text(value: Any) -> str:
    """The value as it stands in a CSV cell: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value).decode()


def describe(value: Any) -> str:
    """The value for a message, with its type and shortened."""
    if value is None:
        return "null"
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:39] + '…'}"
