"""Handling of Ctrl-C, SIGTERM and SIGHUP: the first ends a command in good order, every further one at once.

Python hands a signal to the main thread, which may be busy elsewhere or in the middle of ending. So another thread
reads from a pipe which signals came, and ends the process on the second one, whatever the main thread does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    import asyncio

KEPT = "finished work is kept, and the same command resumes from there"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING_SECONDS = 1.0
SHOW_CURSOR = "\x1b[?25h"
Result = TypeVar("Result")
_last_words: list[Callable[[], None]] = []
_watching: list[Signals] = []


def before_ending(last_word: Callable[[], None]) -> Callable[[], None]:
    """Call a function before the process is ended at once; returns how to take that back."""
    _last_words.append(last_word)
    return lambda: _last_words.remove(last_word)


def run_async(work: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
    """Run async work to its end as ``anyio.run`` does; a signal cancels it and raises KeyboardInterrupt here."""
    import asyncio  # a command that calls no model needs neither

    import anyio

    watching = _watching[-1] if _watching else None

    async def cancellable() -> Result:
        if watching is not None:
            watching.task = asyncio.current_task()
        try:
            return await work(*arguments)
        finally:
            if watching is not None:
                watching.task = None

    try:
        return anyio.run(cancellable)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


class Signals:
    """Watches the signals that end a command; a context manager, to be entered in the main thread."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        """The signal that ended the command, if one did."""
        self.task: asyncio.Task[object] | None = None
        """The task that a signal cancels; None: it raises KeyboardInterrupt in the main thread."""
        self._pipe: tuple[int, int] | None = None
        self._before = {one: signal.getsignal(one) for one in SIGNALS}
        self._unraisable = sys.unraisablehook
        self._told = False

    @property
    def code(self) -> int:
        """The exit code after a signal."""
        return 128 + (self.first or signal.SIGINT)

    def tell(self, say: Callable[[str], None]) -> None:
        """Say what is kept after a signal; a second signal in the middle of it says it again."""
        say(_said(self.first or signal.SIGINT))
        self._told = True

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for one, before in self._before.items():
            # what is ignored stays so: nohup does that to SIGHUP, and a script to SIGINT of what it starts with "&"
            if before in {signal.SIG_DFL, signal.default_int_handler}:
                signal.signal(one, self._stop)
        threading.Thread(target=self._watch, args=(self._pipe[0],), name="signals", daemon=True).start()
        _watching.append(self)
        sys.unraisablehook = self._lost
        return self

    def __exit__(self, *_: object) -> None:
        """Leave everything as it was; after a signal, further ones are ignored: the process is about to end."""
        if self._pipe is not None:
            _watching.remove(self)
            sys.unraisablehook = self._unraisable
            for one, before in self._before.items():
                signal.signal(one, before if self.first is None else signal.SIG_IGN)
            signal.set_wakeup_fd(-1)
            os.close(self._pipe[1])
        if self.first is not None:  # a thread that does not end must not keep the process
            limit = threading.Timer(ENDING_SECONDS, os._exit, (self.code,))
            limit.daemon = True
            limit.start()

    def _stop(self, number: int, _: FrameType | None) -> None:
        if self.first is not None:
            return  # the other thread ends the process
        self.first = signal.Signals(number)
        if self.task is None:
            raise KeyboardInterrupt
        self.task.get_loop().call_soon_threadsafe(self.task.cancel)

    def _lost(self, found: sys.UnraisableHookArgs) -> None:
        """End at once where the KeyboardInterrupt came in a callback that cannot raise, such as one of an import."""
        if self.first is not None and issubclass(found.exc_type, KeyboardInterrupt):
            self._end(self.first)
        self._unraisable(found)

    def _watch(self, pipe: int) -> None:
        came = 0
        while number := os.read(pipe, 1):
            came += number[0] in SIGNALS
            if came > 1:
                self._end(signal.Signals(number[0]))
            # a signal does not wake the event loop if it comes just before the loop sleeps, or to another thread
            if (task := self.task) is not None:
                with suppress(RuntimeError):  # the loop has just been closed
                    task.get_loop().call_soon_threadsafe(bool)
        os.close(pipe)

    def _end(self, number: signal.Signals) -> None:
        for last_word in tuple(_last_words):
            with suppress(Exception):
                last_word()
        with suppress(OSError):  # not through rich, whose lock the main thread may have
            words = "" if self._told else f"{_said(number)}\n"
            os.write(2, f"{SHOW_CURSOR * os.isatty(2)}{words}".encode())
        os._exit(128 + number)


def _said(number: signal.Signals) -> str:
    how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    return f"{how}; {KEPT}"
