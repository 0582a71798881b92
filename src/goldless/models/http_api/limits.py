"""Waits that a server requests: ``Retry-After``, its own rate-limit headers, or an entry in the body of an error."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

_LIMITS = (
    *((f"x-ratelimit-remaining{of}", f"x-ratelimit-reset{of}") for of in ("-requests", "-tokens", "")),
    *(
        (f"anthropic-ratelimit-{of}-remaining", f"anthropic-ratelimit-{of}-reset")
        for of in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
)
"""What is left and when it is full again: OpenAI and gateways like it, OpenRouter and Together; Anthropic."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
"""``6m0s``, ``12ms``, ``36s``."""
_UNITS = (3600.0, 60.0, 1.0, 0.001)
_EPOCH_SECONDS, _EPOCH_MILLISECONDS = 1e8, 1e11
"""A larger number is a moment, not a duration."""


def part_of(reply: Any, *place: str) -> Any:
    """The value at a path in a reply, key by key; None if there is no such path."""
    for key in place:
        reply = reply.get(key) if isinstance(reply, dict) else None
    return reply


def requested_wait(headers: Mapping[str, str], error: Any = None, *, now: datetime | None = None) -> float | None:
    """Seconds to wait after a failed call; None if the server does not say."""
    for header, unit in (("Retry-After-Ms", 0.001), ("Retry-After", 1.0)):
        value = seconds_until(headers.get(header), now=now)
        if value is not None:
            return value * unit
    for detail in part_of(error, "details") or ():
        if wait := seconds_until(part_of(detail, "retryDelay"), now=now):  # Google's RetryInfo
            return wait
    passed_on = part_of(error, "metadata", "headers")  # by OpenRouter
    if isinstance(passed_on, dict):
        headers = {**headers, **{str(name).lower(): str(value) for name, value in passed_on.items()}}
    return exhausted_wait(headers, now=now)


def exhausted_wait(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Seconds until a limit of which nothing is left is full again; None if something is left of each."""
    waits = [
        seconds_until(headers.get(reset), now=now)
        for remaining, reset in _LIMITS
        if (left := headers.get(remaining)) is not None and left.strip() in {"0", "0.0"}
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def seconds_until(value: Any, *, now: datetime | None = None) -> float | None:
    """Seconds from a number, a duration, a time stamp or an HTTP date; None if it is none of them."""
    if not isinstance(value, str) or not value.strip():
        return None
    value, now = value.strip(), now or datetime.now(UTC)
    with suppress(ValueError):
        number = float(value)
        if number > _EPOCH_SECONDS:
            number = number / (1000 if number > _EPOCH_MILLISECONDS else 1) - now.timestamp()
        return max(0.0, number) if math.isfinite(number) else None
    if match := _DURATION.fullmatch(value):
        return sum(float(part or 0) * unit for part, unit in zip(match.groups(), _UNITS, strict=True))
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError):
            then = parse(value)
            return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())
    return None
