"""Where the command line prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    # every command prints, and these take a second to import
    from goldless.runs.opening import Spending
    from goldless.runs.options import Progress

out = Console(emoji=False, highlight=False)
err = Console(emoji=False, highlight=False, stderr=True)
LINE_SECONDS = 30.0
"""Between two lines on how far a run is, where standard error is no terminal."""


def say(message: str, *, style: str = "") -> None:
    """Print a message of ours on standard error, its text taken literally."""
    printable = "".join(ch for ch in message if ch.isprintable() or ch in "\n\t")
    err.print(escape(printable), style=style, soft_wrap=True)


def tell_spending(rows: Iterable[Spending]) -> None:
    """Say what each model was asked, and what that cost."""
    for row in rows:
        cost = "price unknown" if row.cost_usd is None else f"{row.cost_usd:.4f} USD"
        tokens = row.usage.input_tokens + row.usage.output_tokens
        say(f"{row.model}: {row.calls} calls now ({tokens:,} tokens, {cost}), {row.reused} from the journal")


def tell_folder(folder: Path | None, holds: str = "results and evidence") -> None:
    """Say where results were written, and where their report is; nothing where they were not."""
    if folder is not None:
        from goldless.runs.store import report_of  # noqa: PLC0415 - as above

        say(f"{holds}: {folder}")
        say(f"report: {report_of(folder)}")


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
        warnings.showwarning = show
        yield


class ProgressBars:
    """One bar a stage, with rate, cost so far and time left; where nobody watches, a line now and then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[cost]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=err,
            transient=True,
            disable=not err.is_terminal,  # in a file it would leave empty lines
        )
        self._tasks: dict[str, int] = {}
        self._clock = clock
        self._began: dict[str, float] = {}
        self._told = clock()

    def __enter__(self) -> Self:
        """Nothing is drawn before there is something to show."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing."""
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far a stage is."""
        now = self._clock()
        seconds = now - self._began.setdefault(progress.stage, now)
        rate = f"{progress.done / seconds:.1f}/s" if seconds > 0.5 else ""
        if rate and progress.tokens:
            rate += f" {progress.tokens / seconds:,.0f} tok/s"
        cost = "price unknown" if progress.cost_usd is None else f"{progress.cost_usd:.4f} USD" * bool(progress.tokens)
        if err.is_terminal:
            self._draw(progress, rate, cost)
        elif rate and now - self._told >= LINE_SECONDS:
            self._told = now
            say(", ".join(filter(None, (f"{progress.stage}: {progress.done} of {progress.total}", rate, cost))))

    def _draw(self, progress: Progress, rate: str, cost: str) -> None:
        self._bars.start()
        if progress.stage not in self._tasks:
            self._tasks[progress.stage] = self._bars.add_task(progress.stage, total=progress.total, rate="", cost="")
        task = self._bars.tasks[self._tasks[progress.stage]]
        self._bars.update(task.id, completed=progress.done, total=progress.total, rate=rate, cost=cost)
