"""How tasks are resampled for intervals and tests: the same for everything that is measured in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from goldless.runs.options import Options, check_options


class Draws(TypedDict):
    """Given to the statistics as it is."""

    seed: int
    resamples: int
    level: float


def draws_of(options: Options) -> Draws:
    """What the options say of it; they are checked, and may name no metric."""
    check_options(options if options.metrics else replace(options, metrics=Options().metrics))
    return {"seed": options.seed, "resamples": options.resamples, "level": options.level}
