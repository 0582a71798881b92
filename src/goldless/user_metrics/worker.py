"""Somebody's code, called once a response in a thread of its own.

One thread makes all calls of a metric, in order: functions are seldom safe to call from several threads at once, and
scores must not depend on how many cores there are. Calls that give an awaitable share an event loop in that thread, a
few at a time. The thread is a daemon: a call that never returns can be left behind, which nothing else can do with
Python code.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from goldless.errors import MetricError
from goldless.user_metrics.failures import last_lines
from goldless.user_metrics.standard_output import other_threads_to_standard_error

AT_ONCE = 8
"""Awaitable calls that run side by side."""

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call ended."""

    value: Any = None
    error: BaseException | None = None


async def outcomes(
    calls: Sequence[Call], *, name: str, asynchronous: bool, timeout_seconds: float | None = None
) -> list[Outcome]:
    """How each call ended, in their order. ``asynchronous``: the calls give awaitables that may run side by side."""
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
        where = "" if frame is None else f"; it stands at\n{last_lines(''.join(traceback.format_stack(frame)))}"
        done = sum(outcome is not None for outcome in batch.found)
        raise MetricError(f"{name}: {done} of {len(calls)} calls done after {timeout_seconds:g} s, the limit{where}")
    if batch.broken is not None:
        raise batch.broken
    return [outcome or Outcome(error=RuntimeError("the call was cancelled")) for outcome in batch.found]


class _Batch:
    """The calls, and what came of each."""

    def __init__(self, calls: Sequence[Call], *, asynchronous: bool) -> None:
        self._calls = calls
        self._asynchronous = asynchronous
        self.found: list[Outcome | None] = [None] * len(calls)
        self.broken: BaseException | None = None
        """What ended the thread, where that was not a call."""
        self.stop = threading.Event()

    def run(self) -> None:
        """Make the calls until all are made or it is told to stop."""
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
            except (Exception, SystemExit) as error:  # noqa: BLE001 - sys.exit in a metric must not end the program
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
    """What a call gave, awaited where that is an awaitable; for a thread that runs no event loop."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
