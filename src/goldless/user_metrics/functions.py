"""``python:MODULE:FUNCTION``: somebody's function as a metric.

The function is called with what its parameters ask for by name. One that takes ``items`` is called once with all
responses and returns a list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from goldless.errors import MetricError, nearest
from goldless.text_items import ItemScore, TextItem
from goldless.user_metrics.failures import described, refuse_if_all_failed, traceback_lines
from goldless.user_metrics.item_rows import FIELDS, fields, rows
from goldless.user_metrics.returned_values import number_score, shown
from goldless.user_metrics.source_objects import SourceObject, load_object
from goldless.user_metrics.worker import Outcome, outcomes

Takes = Literal["item", "batch"]


class FunctionMetric:
    """A function of one response, or of a batch of them, as a metric."""

    unit = "score"
    """Whatever the function's numbers are in."""

    @staticmethod
    def source(place: str, *, name: str) -> SourceObject:
        """Load the function; ``place`` is MODULE:FUNCTION or FILE.py:FUNCTION."""
        return load_object(place, metric=name)

    def __init__(self, source: SourceObject, *, name: str, timeout_seconds: float | None = None) -> None:
        """Check the function's parameters."""
        self.name = name
        """As it was asked for."""
        self.settings: Mapping[str, str] = source.settings
        """Which function, and which version of its source."""
        self._function = _checked_callable(source.object, name)
        self._takes, self._asked, self._by_position = _parameters(self._function, name)
        self._timeout_seconds = timeout_seconds

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order; what the function cannot score is missing, with the reason."""
        if not items:
            return []
        if self._takes == "batch":
            return await self._batch_scores(items)
        calls = [partial(self._call, fields(item)) for item in items]
        ended = await outcomes(
            calls,
            name=self.name,
            asynchronous=is_asynchronous(self._function),
            timeout_seconds=self._timeout_seconds,
        )
        return scores_of(self.name, items, ended, number_score)

    async def _batch_scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        (ended,) = await outcomes(
            [partial(self._call, {"items": rows(items)})],
            name=self.name,
            asynchronous=is_asynchronous(self._function),
            timeout_seconds=self._timeout_seconds,
        )
        if ended.error is not None:
            raise MetricError(
                f"{self.name}: it failed on the batch of {len(items)} responses:\n{traceback_lines(ended.error)}"
            ) from ended.error
        values = _as_list(ended.value)
        if values is None or len(values) != len(items):
            came = shown(ended.value) if values is None else f"a list of {len(values)}"
            raise MetricError(
                f"{self.name}: it returned {came} for {len(items)} items; "
                "return a list with one number, or None, for each"
            )
        return scores_of(self.name, items, [Outcome(value) for value in values], number_score)

    def _call(self, given: Mapping[str, Any]) -> Any:
        position = [given[name] for name in self._by_position]
        return self._function(*position, **{name: given[name] for name in self._asked})


def scores_of(
    name: str, items: Sequence[TextItem], ended: Sequence[Outcome], read: Callable[[Any], ItemScore]
) -> list[ItemScore]:
    """The scores read from what calls returned; a call that failed is missing. Where all failed it is an error."""
    scores = [read(end.value) if end.error is None else ItemScore(None, described(end.error)) for end in ended]
    refuse_if_all_failed(name, items, scores, next((end.error for end in ended if end.error is not None), None))
    return scores


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable: an async function, or an object whose call is one."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the call itself is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _checked_callable(found: object, name: str) -> Callable[..., Any]:
    if not callable(found) or inspect.isclass(found):
        raise MetricError(f"{name!r} is {shown(found)} ({type(found).__name__}), not a function")
    return found


def _parameters(function: Callable[..., Any], name: str) -> tuple[Takes, tuple[str, ...], tuple[str, ...]]:
    """What the function takes, the names it is given by keyword, and those it is given by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name!r} does not say what its parameters are; wrap it in a function of yours") from error
    takes: Takes = "batch" if any(p.name == "items" for p in parameters) else "item"
    known = ("items",) if takes == "batch" else FIELDS
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
    needed = "items" if takes == "batch" else "response"
    if strange or needed not in (*keyword, *position):
        what = (
            f"the parameter{'s' * (len(strange) > 1)} {', '.join(strange)}" if strange else f"no parameter {needed!r}"
        )
        raise MetricError(
            f"{name!r} has {what}. A metric takes 'response' and any of {', '.join(FIELDS[1:])} by these names, "
            "or 'items' alone for all at once; others need a default"
        )
    return takes, tuple(keyword), tuple(position)


def _as_list(value: Any) -> list[Any] | None:
    """A list, tuple or array as a list; None for anything else."""
    if isinstance(value, list | tuple):
        return list(value)
    listed = value.tolist() if hasattr(value, "tolist") else None
    return listed if isinstance(listed, list) else None
