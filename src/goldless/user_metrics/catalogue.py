"""The forms in which a metric that is not ours is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from goldless.errors import MetricError
from goldless.text_items import ItemScore, TextItem
from goldless.user_metrics.commands import CommandMetric
from goldless.user_metrics.deepeval_metrics import DeepEvalMetric
from goldless.user_metrics.functions import FunctionMetric
from goldless.user_metrics.inspect_scorers import InspectScorer
from goldless.user_metrics.promptfoo_assertions import PromptfooAssertion

USER_METRICS: Mapping[str, str] = {
    "python:MODULE:FUNCTION": "your function of a response, or python:FILE.py:FUNCTION",
    "command:WORDS": "your program: reads responses as JSON lines, writes one score a line",
    "promptfoo:FILE.py[:FUNCTION]": "a Python assertion of promptfoo; get_assert where no function is named",
    "deepeval:MODULE:OBJECT": "a DeepEval metric, or a class or function that makes one",
    "inspect:MODULE:SCORER": "an Inspect scorer, or a function that makes one",
}
"""Forms of the name of a metric that is not ours, with what it is."""


class UserMetric(Protocol):
    """A metric that is not ours: it is given whole responses with everything they may be held against."""

    @property
    def name(self) -> str:
        """As it was asked for."""

    @property
    def unit(self) -> str:
        """What its numbers are in."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What tells its numbers from another version's, for the signature."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order."""


_MAKERS: Mapping[str, Callable[..., UserMetric]] = {
    "python": FunctionMetric,
    "command": CommandMetric,
    "promptfoo": PromptfooAssertion,
    "deepeval": DeepEvalMetric,
    "inspect": InspectScorer,
}


def find_user_metric(name: str, *, timeout_seconds: float | None = None) -> UserMetric | None:
    """The metric of this name, loaded and checked; None where the name has none of these forms.

    ``timeout_seconds`` is the time for a whole batch: by default 600 for a command, and no limit for Python code.
    """
    form, colon, rest = name.partition(":")
    if not colon or form not in _MAKERS:
        return None
    if timeout_seconds is not None and not (0 < timeout_seconds < math.inf):
        raise MetricError(f"a time limit is a number of seconds above 0, not {timeout_seconds}")
    if not rest.strip():
        forms = [known for known in USER_METRICS if known.startswith(f"{form}:")]
        raise MetricError(f"{name!r} names nothing; the form is {forms[0]}")
    return _MAKERS[form](rest.strip(), name=name, timeout_seconds=timeout_seconds)
