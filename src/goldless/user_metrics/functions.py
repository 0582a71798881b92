"""``python:MODULE:FUNCTION``: a custom function as a metric.

The function is called with the fields that its parameters name. One that takes ``items`` is called once with all
responses and returns a list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from goldless.errors import MetricError, nearest
from goldless.records import ItemMetric, ItemScore, TextItem
from goldless.user_metrics.calls import CallMetric, Outcome, is_asynchronous, outcomes, scores_of
from goldless.user_metrics.scores import FIELDS, fields, number_score, rows, shown, traceback_lines
from goldless.user_metrics.source_objects import Form, SourceObject, load_object


@dataclass(frozen=True, slots=True)
class _Function:
    """A function, and how its parameters are passed."""

    function: Callable[..., Any]
    keyword: tuple[str, ...]
    position: tuple[str, ...]

    def __call__(self, given: Mapping[str, Any]) -> Any:
        position = [given[name] for name in self.position]
        return self.function(*position, **{name: given[name] for name in self.keyword})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetric:
    """A function of all responses at once, as a metric."""

    name: str
    """The name as requested."""
    settings: Mapping[str, str]
    """The function, and the version of its source."""
    call: _Function
    timeout_seconds: float | None
    unit: str = "score"
    """The unit is unknown."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; missing if the function returns no number for it."""
        if not items:
            return []
        (ended,) = await outcomes(
            [partial(self.call, {"items": rows(items)})],
            name=self.name,
            asynchronous=is_asynchronous(self.call.function),
            timeout_seconds=self.timeout_seconds,
        )
        if ended.error is not None:
            raise MetricError(
                f"{self.name}: failed on the batch of {len(items)} responses:\n{traceback_lines(ended.error)}"
            ) from ended.error
        values = _as_list(ended.value)
        if values is None or len(values) != len(items):
            got = shown(ended.value) if values is None else f"a list of {len(values)}"
            raise MetricError(
                f"{self.name}: must return a list with one number, or None, per item, got {got} for {len(items)} items"
            )
        return scores_of(self.name, items, [Outcome(value) for value in values], number_score)


def function_metric(source: SourceObject, name: str, timeout_seconds: float | None) -> ItemMetric:
    """The function as a metric; its parameter names decide what it is given.

    An object with ``needs`` is already a metric, and is given that evidence instead of texts.
    """
    found = source.object
    if hasattr(found, "needs") and hasattr(found, "scores"):
        return cast("ItemMetric", found() if inspect.isclass(found) else found)
    if not callable(found) or inspect.isclass(found):
        raise MetricError(f"{name!r} must be a function, got {shown(found)} ({type(found).__name__})")
    function = _with_parameters(found, name)
    if "items" in (*function.keyword, *function.position):
        return BatchMetric(name=name, settings=source.settings, call=function, timeout_seconds=timeout_seconds)
    return CallMetric(
        name=name,
        settings=source.settings,
        call=lambda item: function(fields(item)),
        asynchronous=is_asynchronous(found),
        timeout_seconds=timeout_seconds,
    )


def is_function(metric: ItemMetric) -> bool:
    """Whether it is made of a function, and not an object that is a metric itself."""
    return isinstance(metric, BatchMetric | CallMetric)


def _with_parameters(function: Callable[..., Any], name: str) -> _Function:
    """The function with its keyword and positional parameter names."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name!r} does not show its parameters. Wrap it in a function") from error
    known = ("items",) if any(parameter.name == "items" for parameter in parameters) else FIELDS
    keyword: list[str] = []
    position: list[str] = []
    strange: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            keyword += [field for field in known if field not in (*keyword, *position)]
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif parameter.name in known:
            (position if parameter.kind is parameter.POSITIONAL_ONLY else keyword).append(parameter.name)
        elif parameter.default is parameter.empty:
            strange.append(f"{parameter.name!r}{nearest(parameter.name, FIELDS)}")
    if strange or known[0] not in (*keyword, *position):
        raise _wrong_parameters(name, strange, known[0])
    return _Function(function, tuple(keyword), tuple(position))


def _wrong_parameters(name: str, strange: Sequence[str], needed: str) -> MetricError:
    what = f"the parameter{'s' * (len(strange) > 1)} {', '.join(strange)}" if strange else f"no parameter {needed!r}"
    return MetricError(
        f"{name!r} has {what}. A metric takes 'response' and any of {', '.join(FIELDS[1:])} by these names, or "
        "only 'items' for all at once; other parameters need a default"
    )


def _as_list(value: Any) -> list[Any] | None:
    """A list, tuple or array as a list; None for anything else."""
    if isinstance(value, list | tuple):
        return list(value)
    listed = value.tolist() if hasattr(value, "tolist") else None
    return listed if isinstance(listed, list) else None


FORM = Form(
    "python:MODULE:FUNCTION",
    "a Python function of a response, or python:FILE.py:FUNCTION",
    lambda place, name: load_object(place, metric=name),
    function_metric,
)
