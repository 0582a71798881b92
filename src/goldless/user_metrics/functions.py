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
from functools import partial
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
    """A metric that calls custom code once per response."""

    name: str
    """The name as requested."""
    settings: Mapping[str, str]
    """The code that is called, and the version of its source."""
    call: Callable[[TextItem], Any]
    read: Callable[[Any], ItemScore] = number_score
    """Reads the score from what a call returned."""
    asynchronous: bool = False
    """Whether the calls return awaitables that may run concurrently."""
    timeout_seconds: float | None = None
    unit: str = "score"
    """The unit is unknown."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; one that the code cannot score is missing, with the reason."""
        calls = [(named(item), partial(self.call, item)) for item in items]
        found = await _outcomes(self.name, calls, self.timeout_seconds, asynchronous=self.asynchronous)
        return _read(self.name, items, found, self.read)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetric:
    """A function of all responses at once, as a metric."""

    name: str
    """The name as requested."""
    settings: Mapping[str, str]
    """The function, and the version of its source."""
    call: Callable[[Mapping[str, Any]], Any]
    timeout_seconds: float | None
    unit: str = "score"
    """The unit is unknown."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; missing if the function returns no number for it."""
        if not items:
            return []
        rows = [{"id": number, **fields(item)} for number, item in enumerate(items)]
        calls = [(f"all {len(items)} responses at once", partial(self.call, {"items": rows}))]
        (returned,) = await _outcomes(self.name, calls, self.timeout_seconds, asynchronous=False)
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
        return _read(self.name, items, values, number_score)


def _read(
    name: str, items: Sequence[TextItem], found: Sequence[Any], read: Callable[[Any], ItemScore]
) -> list[ItemScore]:
    """The scores read from what calls returned or raised. Raises if all failed."""
    scores = [ItemScore(None, described(one)) if isinstance(one, BaseException) else read(one) for one in found]
    refuse_if_all_failed(name, items, scores, next((one for one in found if isinstance(one, BaseException)), None))
    return scores


async def _outcomes(
    name: str, calls: Sequence[tuple[str, Callable[[], Any]]], timeout_seconds: float | None, *, asynchronous: bool
) -> list[Any]:
    """What each call returned or raised, in order. The text beside a call says what it is for."""
    found: dict[int, Any] = {}
    late = threading.Event()

    async def make(number: int) -> None:
        if late.is_set():
            return
        try:
            found[number] = await _awaited(calls[number][1]())
        except BaseException as error:  # noqa: BLE001 - nothing that a metric raises ends the program
            found[number] = error

    def make_all() -> None:
        if asynchronous:
            anyio.run(side_by_side, make, range(len(calls)), AT_ONCE)
            return
        for number, (_, call) in enumerate(calls):
            if late.is_set():
                return
            try:
                found[number] = finished(call())
            except BaseException as error:  # noqa: BLE001 - as above
                found[number] = error

    with prints_to_standard_error():
        try:
            in_time = await _in_thread(make_all, f"metric {name}", timeout_seconds)
        finally:  # also where this task is cancelled
            late.set()
    if not in_time:
        done = dict(found)
        busy = next((what for number, (what, _) in enumerate(calls) if number not in done), "the last one")
        raise MetricError(
            f"{name}: timed out after {timeout_seconds:g} s with {len(done)} of {len(calls)} calls done; busy with "
            f"{busy}. Raise --metric-timeout, or make it a command:, which can be stopped"
        )
    return [found[number] for number in range(len(calls))]


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

    if "items" in (*position, *keyword):
        return BatchMetric(name=name, settings=source.settings, call=call, timeout_seconds=timeout_seconds)
    return CallMetric(
        name=name,
        settings=source.settings,
        call=lambda item: call(fields(item)),
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
