"""The forms of names of custom metrics."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from goldless.errors import MetricError
from goldless.records import ItemMetric
from goldless.user_metrics import functions, other_tools
from goldless.user_metrics.commands import CommandMetric

_Find = Callable[[str, str, float | None], ItemMetric]
"""Makes a metric from the part of its name after the colon, the whole name and the time limit in seconds."""

_FORMS: tuple[tuple[str, str, _Find], ...] = (
    (
        "python:MODULE:FUNCTION",
        "a Python function of a response, or python:FILE.py:FUNCTION",
        lambda place, name, seconds: functions.function_metric(*functions.load_object(place, name), name, seconds),
    ),
    (
        "command:WORDS",
        "a program that reads responses as JSON lines and writes one score per line",
        CommandMetric,
    ),
    (
        "promptfoo:FILE.py[:FUNCTION]",
        "a Python assertion for promptfoo (default function: get_assert)",
        other_tools.promptfoo_assertion,
    ),
    (
        "deepeval:MODULE:OBJECT",
        "a DeepEval metric, or a class or function that returns one",
        other_tools.deepeval_metric,
    ),
    ("inspect:MODULE:SCORER", "an Inspect scorer, or a function that returns one", other_tools.inspect_scorer),
)
USER_METRICS: Mapping[str, str] = {pattern: description for pattern, description, _ in _FORMS}
"""Name forms of custom metrics, with descriptions; the part before the first colon identifies the form."""


def find_user_metric(name: str, *, timeout_seconds: float | None = None) -> ItemMetric | None:
    """The custom metric of this name, loaded and checked; None if the name has none of these forms.

    ``timeout_seconds`` is the limit for a whole batch: by default 600 for a command, 3600 for a Python function, and
    none for other code. A file is loaded, and an object of it made, once while it is unchanged.
    """
    prefix, colon, rest = name.partition(":")
    for pattern, _, find in _FORMS:
        if colon and prefix == pattern.partition(":")[0]:
            if timeout_seconds is not None and not 0 < timeout_seconds < math.inf:
                raise MetricError(f"the timeout must be a number of seconds above 0, got {timeout_seconds}")
            if not rest.strip():
                raise MetricError(f"{name!r} is incomplete. Write {pattern}")
            return find(rest.strip(), name, timeout_seconds)
    return None


def function_metric(function: Callable[..., Any], *, timeout_seconds: float | None = None) -> ItemMetric:
    """A function object as a metric, named by its module and name."""
    place = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    try:
        source = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        source = "unknown"
    settings = {"object": place, "source": source}
    return functions.function_metric(function, settings, f"python:{place}", timeout_seconds)
