"""The forms in which a metric that is not ours is named."""

from __future__ import annotations

import hashlib
import inspect
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from goldless.errors import MetricError
from goldless.text_items import ItemMetric
from goldless.user_metrics.commands import CommandMetric
from goldless.user_metrics.deepeval_metrics import DeepEvalMetric
from goldless.user_metrics.functions import FunctionMetric
from goldless.user_metrics.inspect_scorers import InspectScorer
from goldless.user_metrics.promptfoo_assertions import PromptfooAssertion
from goldless.user_metrics.source_objects import SourceObject

USER_METRICS: Mapping[str, str] = {
    "python:MODULE:FUNCTION": "your function of a response, or python:FILE.py:FUNCTION",
    "command:WORDS": "your program: reads responses as JSON lines, writes one score a line",
    "promptfoo:FILE.py[:FUNCTION]": "a Python assertion of promptfoo; get_assert where no function is named",
    "deepeval:MODULE:OBJECT": "a DeepEval metric, or a class or function that makes one",
    "inspect:MODULE:SCORER": "an Inspect scorer, or a function that makes one",
}
"""Forms of the name of a metric that is not ours, with what it is."""


class _Form(Protocol):
    """A form of names: what is named is loaded, which is cheap the second time, and made a metric, which may not be."""

    @staticmethod
    def source(place: str, /, *, name: str) -> SourceObject:
        """What stands at the place, with all that tells its versions apart."""

    def __call__(self, source: SourceObject, /, *, name: str, timeout_seconds: float | None) -> ItemMetric:
        """The metric, checked."""


_FORMS: Mapping[str, _Form] = {
    "python": FunctionMetric,
    "command": CommandMetric,
    "promptfoo": PromptfooAssertion,
    "deepeval": DeepEvalMetric,
    "inspect": InspectScorer,
}
_kept: dict[tuple[str, float | None], tuple[SourceObject, ItemMetric]] = {}
_keeping = threading.RLock()


def find_user_metric(name: str, *, timeout_seconds: float | None = None) -> ItemMetric | None:
    """The metric of this name, loaded and checked; None where the name has none of these forms.

    ``timeout_seconds`` is the time for a whole batch: by default 600 for a command, and no limit for Python code. While
    its source is unchanged the same name and time give the same object, so that what it holds, such as a model, is
    loaded once.
    """
    form, colon, rest = name.partition(":")
    if not colon or form not in _FORMS:
        return None
    if timeout_seconds is not None and not (0 < timeout_seconds < math.inf):
        raise MetricError(f"a time limit is a number of seconds above 0, not {timeout_seconds}")
    if not rest.strip():
        forms = [known for known in USER_METRICS if known.startswith(f"{form}:")]
        raise MetricError(f"{name!r} names nothing; the form is {forms[0]}")
    with _keeping:
        source = _FORMS[form].source(rest.strip(), name=name)
        kept = _kept.get((name, timeout_seconds))
        if kept is None or not kept[0].is_same(source):
            kept = source, _FORMS[form](source, name=name, timeout_seconds=timeout_seconds)
            _kept[name, timeout_seconds] = kept
        return kept[1]


def function_metric(function: Callable[..., Any], *, timeout_seconds: float | None = None) -> ItemMetric:
    """A function that is at hand as a metric, named by its module and name."""
    place = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    try:
        source = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        source = "unknown"
    found = SourceObject(function, {"object": place, "source": source})
    return FunctionMetric(found, name=f"python:{place}", timeout_seconds=timeout_seconds)
