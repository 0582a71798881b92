"""``python:MODULE:FUNCTION``: a custom function as a metric, called in this process.

The function is called with the fields that its parameters name. One that takes ``items`` is called once with all
responses and returns a list.

One thread makes all calls of a metric, in order: functions are seldom safe to call from several threads at once, and
scores must not depend on the number of cores. Calls that return an awaitable share an event loop in that thread, a
few at a time. A thread cannot be stopped: one that is still busy at the time limit is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import anyio

from goldless.concurrency import side_by_side
from goldless.errors import MetricError, nearest
from goldless.records import ItemMetric, ItemScore, TextItem
from goldless.user_metrics.scores import (
    FIELDS,
    described,
    fields,
    named,
    number_score,
    refuse_if_all_failed,
    shown,
    traceback_lines,
)
from goldless.user_metrics.source_objects import Form, SourceObject, load_object, prints_to_standard_error

TIMEOUT_SECONDS = 3600.0
"""Default time limit for the whole batch."""
AT_ONCE = 8
"""Awaitable calls that run concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMetric:
    """A metric that calls custom code once per response, or once with all responses."""

    name: str
    """The name as requested."""
    settings: Mapping[str, str]
    """The code that is called, and the version of its source."""
    call: Callable[[Any], Any]
    """Takes a response, a TextItem, or a list of all."""
    takes_all: bool = False
    """Whether it is called once with all responses and returns a list."""
    read: Callable[[Any], ItemScore] = number_score
    """Reads the score from what was returned for a response."""
    asynchronous: bool = False
    """Whether the calls return awaitables that may run concurrently."""
    timeout_seconds: float | None = None
    unit: str = "score"
    """The unit is unknown."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; one that the code cannot score is missing, with the reason."""
        if self.takes_all:
            found = self._of_all(await self._outcomes([items]), items) if items else []
        else:
            found = await self._outcomes(items)
        failed = [one for one in found if isinstance(one, BaseException)]
        scores = [
            ItemScore(None, described(one)) if isinstance(one, BaseException) else self.read(one) for one in found
        ]
        refuse_if_all_failed(self.name, items, scores, failed[0] if failed else None)
        return scores

    def _of_all(self, outcomes: Sequence[Any], items: Sequence[TextItem]) -> Sequence[Any]:
        """The list that the one call returned."""
        (returned,) = outcomes
        if isinstance(returned, BaseException):
            raise MetricError(
                f"{self.name}: failed on the batch of {len(items)} responses:\n{traceback_lines(returned)}"
            ) from returned
        values = returned.tolist() if hasattr(returned, "tolist") else returned  # an array
        if not isinstance(values, list | tuple) or len(values) != len(items):
            got = f"a list of {len(values)}" if isinstance(values, list | tuple) else shown(returned)
            raise MetricError(
                f"{self.name}: must return a list with one number, or None, per item, got {got} for {len(items)} items"
            )
        return values

    async def _outcomes(self, given: Sequence[Any]) -> list[Any]:
        """What each call returned or raised, in order."""
        found: dict[int, Any] = {}
        late = threading.Event()

        async def make(number: int) -> None:
            if late.is_set():
                return
            try:
                found[number] = await _awaited(self.call(given[number]))
            except BaseException as error:  # noqa: BLE001 - nothing that a metric raises ends the program
                found[number] = error

        def make_all() -> None:
            if self.asynchronous:
                anyio.run(side_by_side, make, range(len(given)), AT_ONCE)
                return
            for number, one in enumerate(given):
                if late.is_set():
                    return
                try:
                    found[number] = finished(self.call(one))
                except BaseException as error:  # noqa: BLE001 - as above
                    found[number] = error

        with prints_to_standard_error():
            try:
                in_time = await _in_thread(make_all, f"metric {self.name}", self.timeout_seconds)
            finally:  # also where this task is cancelled
                late.set()
        if not in_time:
            busy = given[next((number for number in range(len(given)) if number not in found), -1)]
            raise MetricError(
                f"{self.name}: timed out after {self.timeout_seconds:g} s with {len(found)} of {len(given)} calls "
                f"done; busy with {named(busy) if isinstance(busy, TextItem) else f'all {len(busy)} responses'}. "
                "Raise --metric-timeout, or make it a command:, which can be stopped"
            )
        return [found[number] for number in range(len(given))]


async def _in_thread(work: Callable[[], None], name: str, timeout_seconds: float | None) -> bool:
    """Do the work in a daemon thread; False: it is not done in time and left behind, and ends with this process."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def run() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name=name, daemon=True).start()
    with anyio.move_on_after(timeout_seconds):
        await done.wait()
    return done.is_set()


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def finished(value: Any) -> Any:
    """The result of a call, awaited if it is an awaitable; for a thread without an event loop."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Whether calling it returns an awaitable: an async function, or an object with an async ``__call__``."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the call itself is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def function_metric(source: SourceObject, name: str, timeout_seconds: float | None) -> ItemMetric:
    """The function as a metric; its parameter names decide what it is given.

    An object with ``needs`` is already a metric, and is given that evidence instead of texts.
    """
    found = source.object
    if hasattr(found, "needs") and hasattr(found, "scores"):
        return cast("ItemMetric", found() if inspect.isclass(found) else found)
    if not callable(found) or inspect.isclass(found):
        raise MetricError(f"{name!r} must be a function, got {shown(found)} ({type(found).__name__})")
    timeout_seconds = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
    position, keyword = _parameters(found, name)

    def call(given: Mapping[str, Any]) -> Any:
        return found(*(given[one] for one in position), **{one: given[one] for one in keyword})

    def call_with_all(items: Sequence[TextItem]) -> Any:
        return call({"items": [{"id": number, **fields(item)} for number, item in enumerate(items)]})

    takes_all = "items" in (*position, *keyword)
    return CallMetric(
        name=name,
        settings=source.settings,
        call=call_with_all if takes_all else lambda item: call(fields(item)),
        takes_all=takes_all,
        asynchronous=is_asynchronous(found),
        timeout_seconds=timeout_seconds,
    )


def _parameters(function: Callable[..., Any], name: str) -> tuple[list[str], list[str]]:
    """The fields that the function takes by position only, and by keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name!r} does not show its parameters. Wrap it in a function") from error
    known = ("items",) if any(parameter.name == "items" for parameter in parameters) else FIELDS
    position: list[str] = []
    keyword: list[str] = []
    strange: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            keyword += [field for field in known if field not in (*position, *keyword)]
        elif parameter.name in known and parameter.kind is not parameter.VAR_POSITIONAL:
            (position if parameter.kind is parameter.POSITIONAL_ONLY else keyword).append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            strange.append(f"{parameter.name!r}{nearest(parameter.name, FIELDS)}")
    if strange or known[0] not in (*position, *keyword):
        several = "s" * (len(strange) > 1)
        what = f"the parameter{several} {', '.join(strange)}" if strange else f"no parameter {known[0]!r}"
        raise MetricError(
            f"{name!r} has {what}. A metric takes 'response' and any of {', '.join(FIELDS[1:])} by these names, or "
            "only 'items' for all at once; other parameters need a default"
        )
    return position, keyword


FORM = Form(
    "python:MODULE:FUNCTION",
    "a Python function of a response, or python:FILE.py:FUNCTION",
    lambda place, name: load_object(place, metric=name),
    function_metric,
)
