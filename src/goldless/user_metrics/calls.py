"""Custom Python code as a metric: called once per response, in a separate thread.

One thread makes all calls of a metric, in order: functions are seldom safe to call from several threads at once, and
scores must not depend on the number of cores. Calls that return an awaitable share an event loop in that thread, a
few at a time. The thread is a daemon, so that a call that never returns can be abandoned. Standard output is for
results: what the code prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import anyio

from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics.scores import described, last_lines, number_score, refuse_if_all_failed

AT_ONCE = 8
"""Awaitable calls that run concurrently."""

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one call."""

    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMetric:
    """A metric that calls custom code once per response."""

    name: str
    """The name as requested."""
    settings: Mapping[str, str]
    """What is called, and the version of its source."""
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
        ended = await outcomes(
            [partial(self.call, item) for item in items],
            name=self.name,
            asynchronous=self.asynchronous,
            timeout_seconds=self.timeout_seconds,
        )
        return scores_of(self.name, items, ended, self.read)


def scores_of(
    name: str, items: Sequence[TextItem], ended: Sequence[Outcome], read: Callable[[Any], ItemScore]
) -> list[ItemScore]:
    """The scores read from what calls returned; a failed call is missing. Raises if all failed."""
    scores = [read(end.value) if end.error is None else ItemScore(None, described(end.error)) for end in ended]
    refuse_if_all_failed(name, items, scores, next((end.error for end in ended if end.error is not None), None))
    return scores


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Whether calling it returns an awaitable: an async function, or an object with an async ``__call__``."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the call itself is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def outcomes(
    calls: Sequence[Call], *, name: str, asynchronous: bool, timeout_seconds: float | None = None
) -> list[Outcome]:
    """The outcome of each call, in order. ``asynchronous``: the calls return awaitables that may run concurrently."""
    batch = _Batch(calls, asynchronous=asynchronous)
    finished = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        batch.run()
        with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(finished.set)

    thread = threading.Thread(target=work, name=f"metric {name}", daemon=True)
    with other_threads_to_standard_error():
        thread.start()
        try:
            with anyio.move_on_after(timeout_seconds):
                await finished.wait()
        finally:
            batch.stop.set()
    if not finished.is_set():
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the only way to see where it hangs
        where = "" if frame is None else f". It was at\n{last_lines(''.join(traceback.format_stack(frame)))}"
        done = sum(outcome is not None for outcome in batch.found)
        raise MetricError(
            f"{name}: timed out after {timeout_seconds:g} s with {done} of {len(calls)} calls done{where}"
        )
    if batch.broken is not None:
        raise batch.broken
    return [outcome or Outcome(error=RuntimeError("the call was cancelled")) for outcome in batch.found]


class _Batch:
    """The calls and the outcome of each."""

    def __init__(self, calls: Sequence[Call], *, asynchronous: bool) -> None:
        self._calls = calls
        self._asynchronous = asynchronous
        self.found: list[Outcome | None] = [None] * len(calls)
        self.broken: BaseException | None = None
        """The exception that ended the thread, if it was not raised by a call."""
        self.stop = threading.Event()

    def run(self) -> None:
        """Make the calls until all are made or ``stop`` is set."""
        try:
            if self._asynchronous:
                asyncio.run(self._run_side_by_side())
            else:
                self._run_in_turn()
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits
            self.broken = error

    def _run_in_turn(self) -> None:
        for number, call in enumerate(self._calls):
            if self.stop.is_set():
                return
            try:
                self.found[number] = Outcome(finished(call()))
            except BaseException as error:  # noqa: BLE001 - nothing that a metric raises ends the program
                self.found[number] = Outcome(error=error)

    async def _run_side_by_side(self) -> None:
        free = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with free:
                try:
                    self.found[number] = Outcome(await _awaited(self._calls[number]()))
                except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
                    self.found[number] = Outcome(error=error)

        left = {asyncio.ensure_future(one(number)) for number in range(len(self._calls))}
        while left and not self.stop.is_set():
            _, left = await asyncio.wait(left, timeout=0.1)
        for task in left:
            task.cancel()


def finished(value: Any) -> Any:
    """The result of a call, awaited if it is an awaitable; for a thread without an event loop."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class _Divided:
    """Standard output for the thread that owns it, standard error for all others while active.

    Other code may wrap it and restore it later (a progress bar does), so it may stay installed after its time; then it
    is standard output for all.
    """

    def __init__(self, output: IO[str]) -> None:
        self._output = output
        self._owner = threading.get_ident()
        self.in_force = True

    def write(self, text: str) -> int:
        """Write to this thread's output."""
        elsewhere = self.in_force and threading.get_ident() != self._owner
        return (sys.stderr if elsewhere else self._output).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


@contextlib.contextmanager
def other_threads_to_standard_error() -> Iterator[None]:
    """Redirect what other threads print to standard error during the block."""
    kept = sys.stdout
    divided = _Divided(kept)
    sys.stdout = divided
    try:
        yield
    finally:
        divided.in_force = False
        if sys.stdout is divided:
            sys.stdout = kept
