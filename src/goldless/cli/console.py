"""Where the command line prints: results on standard output, all else on standard error; how it ends; signals."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import typer

from goldless.errors import UserError, listed
from goldless.processes import ENDING

if TYPE_CHECKING:
    # a verb that prints nothing of ours, such as --version, needs none of it
    import asyncio

    from rich.console import Console

    from goldless.reports.run_record import BoardSoFar
    from goldless.runs.progress import Progress

NOTHING, WRONG_INPUT, INCOMPLETE, NOBODY_PASSED, METRIC_FAILED, BLOCKED, INCONCLUSIVE, CHANGED, DIFFERENT = range(1, 10)
"""Exit codes; the module ``main`` says what each means."""
NOTHING_SCORED = "nothing could be scored"
INTERRUPTED = 130
PREPARING = "preparing"
MOST_SO_FAR = 6
"""Agents whose means so far are shown."""

FIRST_LINE_SECONDS, LINE_SECONDS, UNCHANGED_SECONDS = 2.0, 10.0, 60.0
"""Before the first progress line, between two, and between two that say the same, where there is no terminal."""


@cache
def out() -> Console:
    """Standard output."""
    return _terminal(stderr=False)


@cache
def err() -> Console:
    """Standard error."""
    return _terminal(stderr=True)


def _terminal(*, stderr: bool) -> Console:
    """A console whose texts hold no control sequences: names in them come from data. Tables see to theirs."""
    from rich.console import Console

    from goldless.reports.formats import printable

    class Terminal(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(printable(o) if isinstance(o, str) else o for o in objects), **options)

    return Terminal(emoji=False, highlight=False, stderr=stderr)


def echo(text: str) -> None:
    """Print a text on standard output as it is; on a terminal without control sequences and bidirectional marks."""
    if sys.stdout.isatty():
        from goldless.reports.formats import printable

        text = printable(text)
    typer.echo(text, nl=False)


def say(message: str, *, style: str = "") -> None:
    """Print a message on standard error, without markup."""
    with suppress(OSError):  # a closed terminal, or a full disk: what is said there must not end what is done
        err().print(message, style=style, soft_wrap=True, markup=False)


def confirmed(what: str) -> bool:
    """Ask before something is deleted; where nobody can answer, say how to do without."""
    if not sys.stdin.isatty():
        raise UserError(f"{what} needs a confirmation. Add --yes")
    return typer.confirm("Delete?", default=False, err=True)


def end(code: int, message: str, *, style: str = "red") -> NoReturn:
    """Report why the command ends with a code other than 0, and end it."""
    say(message, style=style)
    raise typer.Exit(code)


def incomplete(how_far: str) -> NoReturn:
    """End a command that can be resumed by running it again."""
    end(INCOMPLETE, f"incomplete: {how_far}. Run the same command again to resume", style="yellow")


@contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Show Python warnings as one line each, and the same one once."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            say(f"note: {message}", style="yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", ResourceWarning)  # of what Python cleared up by itself
        warnings.showwarning = show
        yield


class ProgressBars:
    """A bar per stage, with rate, cost so far and time left; a plain line now and then where there is no terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from rich import progress
        from rich.text import Text

        from goldless.runs.progress import Pace

        so_far = self._so_far = list[str]()

        class Bars(progress.Progress):
            def get_renderables(self) -> Iterator[Any]:
                yield from super().get_renderables()
                yield from (Text(line, "dim", no_wrap=True, overflow="ellipsis") for line in so_far)

        self._bars = Bars(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[more]}", markup=False),
            progress.TimeElapsedColumn(),
            console=err(),
            transient=True,
            disable=not err().is_terminal,  # in a file it would leave empty lines
        )
        self._clock, self._start, self._pace = clock, clock(), Pace(clock)
        self._last: Progress | None = None
        self._stages: dict[str, Any] = {}
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if err().is_terminal:
            self._stages[PREPARING] = self._bars.add_task(PREPARING, total=None, more="")
            self._bars.start()
        else:
            threading.Thread(target=self._say_lines, name="progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        """Show the progress of a stage."""
        self._pace.note(progress)
        self._last = progress
        if not err().is_terminal:
            return
        if PREPARING in self._stages:
            self._bars.remove_task(self._stages.pop(PREPARING))
        more = ", ".join(self._more(progress))
        if progress.stage not in self._stages:
            self._stages[progress.stage] = self._bars.add_task(progress.stage, more=more)
        self._bars.update(self._stages[progress.stage], completed=progress.done, total=progress.total, more=more)

    def so_far(self, boards: Sequence[BoardSoFar]) -> None:
        """Show what the means of agents are so far, a line per metric."""
        from goldless.reports.formats import printable

        self._so_far[:] = []
        for board in boards:
            scored = [row for row in board.rows if row.score is not None]
            means = listed((f"{printable(row.agent)} {row.score:.2f}" for row in scored), MOST_SO_FAR)
            tasks = max((row.tasks for row in scored), default=0)
            self._so_far.append(f"{board.metric} so far, {tasks} task{'s' * (tasks != 1)}: {means}")

    def line(self) -> str:
        """The progress so far in one line."""
        progress = self._last
        if progress is None:
            return f"{PREPARING}, {self._clock() - self._start:.0f} seconds so far"
        done = f"{progress.stage}: {progress.done:,} of {progress.total:,}"
        failed, *more = self._more(progress) if progress.failed else ("", *self._more(progress))
        return ", ".join((f"{done} ({failed})" if failed else done, *more))

    def _say_lines(self) -> None:
        # a batch on this machine may take minutes, so lines do not wait for the next one
        wait, told, at, said = FIRST_LINE_SECONDS, None, 0.0, list[str]()
        while not self._ended.wait(wait):
            wait = LINE_SECONDS
            if self._last is not None and self._last == told and time.monotonic() - at < UNCHANGED_SECONDS:
                continue
            told, at, so_far = self._last, time.monotonic(), [*self._so_far]
            for line in (self.line(), *(line for line in so_far if line not in said)):
                say(line)
            said = so_far

    def _more(self, progress: Progress) -> Iterator[str]:
        """Remarks beside the counts, failed calls first."""
        from goldless.reports.report_table import seconds_text

        if progress.failed:
            yield f"{progress.failed:,} failed"
        workers = "" if progress.workers is None else f"{progress.workers} worker{'s' * (progress.workers != 1)}"
        speed = self._pace.speed()
        rate = "" if speed is None else f"{speed.per_second:.1f}/s"
        if speed is not None and speed.tokens_per_second:
            rate += f" {speed.tokens_per_second:,.0f} tok/s"
        if workers or rate:
            yield f"{workers} {rate}".strip()
        if progress.cost_usd != 0:
            yield "price unknown" if progress.cost_usd is None else f"{progress.cost_usd:.4f} USD"
        if speed is not None:
            yield f"{seconds_text(speed.seconds_left)} left"


# --- signals ---------------------------------------------------------------------------------------------------------
#
# The first Ctrl-C, SIGTERM or SIGHUP ends a command in good order, every further one at once. Python hands a signal to
# the main thread, which may be busy elsewhere or in the middle of ending. So another thread reads from a pipe which
# signals came, and ends the process on the second one, whatever the main thread does.

KEPT = "finished work is kept, and the same command resumes from there"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING_SECONDS = 1.0
BUSY_SECONDS = 5.0
"""A main thread that has not noticed a signal after this time is busy for long, such as in reading a file."""
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
        self._noticed = threading.Event()
        """Set once the command has been told to end where it can act on it."""
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
        ENDING.clear()
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
        self._noticed.set()
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
        ENDING.set()
        if self.task is None:
            self._noticed.set()
            raise KeyboardInterrupt
        loop = self.task.get_loop()
        loop.call_soon_threadsafe(self._noticed.set)
        loop.call_soon_threadsafe(self.task.cancel)

    def _end_if_busy(self, number: signal.Signals) -> None:
        """End the process unless the main thread notices the signal soon."""
        ours = signal.getsignal(number) == self._stop
        if ours and not self._noticed.wait(BUSY_SECONDS):
            self._end(number)

    def _lost(self, found: sys.UnraisableHookArgs) -> None:
        """End at once where the KeyboardInterrupt came in a callback that cannot raise, such as one of an import."""
        if self.first is not None and issubclass(found.exc_type, KeyboardInterrupt):
            self._end(self.first)
        self._unraisable(found)

    def _watch(self, pipe: int) -> None:
        came = 0
        while number := os.read(pipe, 1):
            if number[0] in SIGNALS:
                came += 1
                ending = signal.Signals(number[0])
                if came > 1:
                    self._end(ending)
                threading.Thread(target=self._end_if_busy, args=(ending,), name="busy", daemon=True).start()
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
