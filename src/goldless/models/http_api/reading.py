"""What is believed of a reply: whatever else it says, or does to its reader, is a failure of that one call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from goldless.errors import GoldlessError, kind_and_place
from goldless.models.http_api.client import AttemptError, bad_reply, part_of
from goldless.models.interface import Usage

ROUNDING_NATS = 1e-3
"""In half precision log-probabilities can exceed zero by at most about this much."""
_MOST_MASS = 1.01
"""The probabilities of different tokens at one position sum to at most 1, but for rounding."""


@contextmanager
def reading() -> Iterator[None]:
    """Anything that is raised while a reply is read becomes the AttemptError of a bad reply."""
    try:
        yield
    except (AttemptError, GoldlessError):
        raise
    except Exception as error:  # noqa: BLE001 - that is what it is for
        raise bad_reply(f"the reply cannot be read ({kind_and_place(error)})") from None


def usage_in(counts: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Usage:
    """Tokens charged, by the names of their counts; none at all if any is not a number of tokens."""
    found = [[_count(part_of(counts, kind)) for kind in kinds] for kinds in (inputs, outputs)]
    if any(count is None for side in found for count in side):
        return Usage()
    return Usage(*(sum(filter(None, side)) for side in found))


def usage_of(counts: Any) -> Usage:
    """Tokens charged, from an OpenAI ``usage`` object or SGLang's ``meta_info``."""
    return usage_in(counts, ("prompt_tokens",), ("completion_tokens",))


def _count(value: Any) -> int | None:
    """A number of tokens, 0 if it is left out; None if it cannot be one."""
    if value is None:
        return 0
    whole = type(value) is int or (type(value) is float and value.is_integer())
    return int(value) if whole and value >= 0 else None


def check_logprobs(values: Iterable[Any]) -> None:
    """Raise AttemptError unless each value can be a log-probability; how small one may be is up to the caller."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise bad_reply(f"got {value!r} instead of a log-probability")
        if value > ROUNDING_NATS:
            raise bad_reply(f"got {value!r}, which is not a log-probability")


def check_alternatives(values: Sequence[Any]) -> None:
    """Raise AttemptError unless the values can be log-probabilities of different tokens at one position."""
    check_logprobs(values)
    mass = sum(map(math.exp, values))
    if mass > _MOST_MASS:
        raise bad_reply(f"the probabilities of the tokens at one position sum to {mass:.3g}")
