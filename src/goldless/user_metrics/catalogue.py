"""The forms of names of custom metrics."""

from __future__ import annotations

import hashlib
import inspect
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

from goldless.errors import MetricError
from goldless.records import ItemMetric
from goldless.user_metrics import commands, functions, other_tools
from goldless.user_metrics.source_objects import SourceObject

_FORMS = {
    form.pattern.partition(":")[0]: form
    for form in (functions.FORM, commands.FORM, other_tools.PROMPTFOO, other_tools.DEEPEVAL, other_tools.INSPECT)
}
USER_METRICS: Mapping[str, str] = {form.pattern: form.description for form in _FORMS.values()}
"""Name forms of custom metrics, with descriptions."""

_kept: dict[tuple[str, float | None], tuple[SourceObject, ItemMetric]] = {}
_keeping = threading.RLock()


def find_user_metric(name: str, *, timeout_seconds: float | None = None) -> ItemMetric | None:
    """The custom metric of this name, loaded and checked; None if the name has none of these forms.

    ``timeout_seconds`` is the limit for a whole batch: by default 600 for a command, 3600 for a Python function, and
    none for other code. While its source is unchanged the same name and limit return the same object, so that a model
    it loads is loaded once.
    """
    prefix, colon, rest = name.partition(":")
    form = _FORMS.get(prefix)
    if not colon or form is None:
        return None
    if timeout_seconds is not None and not (0 < timeout_seconds < math.inf):
        raise MetricError(f"the timeout must be a number of seconds above 0, got {timeout_seconds}")
    if not rest.strip():
        raise MetricError(f"{name!r} is incomplete. Write {form.pattern}")
    with _keeping:
        source = form.source(rest.strip(), name)
        kept = _kept.get((name, timeout_seconds))
        if kept is None or kept[0].object is not source.object or kept[0].settings != source.settings:
            kept = _kept[name, timeout_seconds] = source, form.metric(source, name, timeout_seconds)
        return kept[1]


def function_metric(function: Callable[..., Any], *, timeout_seconds: float | None = None) -> ItemMetric:
    """A function object as a metric, named by its module and name."""
    place = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    try:
        source = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        source = "unknown"
    found = SourceObject(function, {"object": place, "source": source})
    return functions.function_metric(found, f"python:{place}", timeout_seconds)
