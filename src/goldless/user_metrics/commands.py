"""``command:WORDS``: a program that reads responses as JSON lines and writes one score a line, as a metric."""

from __future__ import annotations

import shlex
import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel

from goldless.errors import MetricError
from goldless.text_items import ItemScore, TextItem
from goldless.user_metrics.child_process import Finished, run_child
from goldless.user_metrics.failures import last_lines, refuse_if_all_failed
from goldless.user_metrics.item_rows import row_lines
from goldless.user_metrics.score_lines import ScoreLines, read_score_lines
from goldless.user_metrics.source_objects import SourceObject, file_hash

TIMEOUT_SECONDS = 600.0
"""Time for the whole batch, where nothing else is said."""
SHOWN_PROBLEMS = 20
OUTPUT_PER_ITEM = 65_536
"""Bytes of standard output that a command may write for each response, on average; above this it is stopped."""
MOST_OUTPUT = 64 * 2**20
"""Bytes of standard output that are kept in memory, however many responses there are."""


class CommandMetric:
    """A command as a metric: one process for all responses."""

    unit = "score"
    """Whatever the command's numbers are in."""

    @staticmethod
    def source(command: str, *, name: str) -> SourceObject:
        """Split the command into words, as a shell would, and find its program; no shell is run."""
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise MetricError(f"{name!r}: the command cannot be split into words ({error})") from error
        if not words:
            raise MetricError("command: names no program; write 'command:PROGRAM ARGUMENTS'")
        if any("\0" in word for word in words):
            raise MetricError(f"{name!r}: a word of a command cannot hold NUL")
        if shutil.which(words[0]) is None:
            raise MetricError(f"{name!r}: there is no program {words[0]!r}, or it may not be executed")
        return SourceObject(words, _settings(words))

    def __init__(self, source: SourceObject, *, name: str, timeout_seconds: float | None = None) -> None:
        """Keep the words for when there are responses."""
        self._words: list[str] = source.object
        self.name = name
        """As it was asked for."""
        self.settings: Mapping[str, str] = source.settings
        """The command, and hashes of the files that its words name."""
        self._timeout_seconds = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order; an output that is not one score a response is an error."""
        if not items:
            return []
        finished = await self._run(items)
        read = read_score_lines(finished.output, len(items))
        if finished.ending != "exited" or finished.status != 0 or read.problems:
            raise MetricError(self._message(finished, read, len(items)))
        scores = [score for score in read.scores if score is not None]
        refuse_if_all_failed(self.name, items, scores, None)
        return scores

    async def _run(self, items: Sequence[TextItem]) -> Finished:
        stop = threading.Event()
        run = partial(
            run_child,
            self._words,
            row_lines(items),
            timeout_seconds=self._timeout_seconds,
            most_output=most_output(len(items)),
            stop=stop,
        )
        # A thread cannot be cancelled, so it is told to stop, and has killed the child before the cancelling goes on.
        finished: Finished | OSError
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_set_when_cancelled, stop)
            try:
                finished = await anyio.to_thread.run_sync(run)
            except OSError as error:
                finished = error
            finally:
                tasks.cancel_scope.cancel()
        if isinstance(finished, OSError):
            raise MetricError(f"{self.name}: it cannot be started ({finished})") from finished
        if finished.ending == "stopped":
            await anyio.lowlevel.checkpoint()  # the cancelling waited for the thread and goes on here
        return finished

    def _message(self, finished: Finished, read: ScoreLines, count: int) -> str:
        endings = {
            "exited": f"it ended with status {finished.status}",
            "timed out": f"it was killed after {self._timeout_seconds:g} s, the time limit",
            "too much output": f"it was killed after {len(finished.output):,} bytes of output, of which at most "
            f"{most_output(count):,} are read for {count} response{'s' * (count != 1)}",
            "stopped": "it was stopped",
        }
        ended = endings[finished.ending]
        if finished.ending == "exited" and finished.status < 0:
            ended = f"it was ended by signal {-finished.status}"
        lines = [f"{self.name}: {ended}; {read.n_good} of {count} scores were good"]
        lines += [f"  {problem}" for problem in read.problems[:SHOWN_PROBLEMS]]
        if len(read.problems) > SHOWN_PROBLEMS:
            lines.append(f"  … and {len(read.problems) - SHOWN_PROBLEMS} more")
        for title, said in (("output", finished.output), ("error", finished.error_tail)):
            ending = last_lines(said.decode("utf-8", errors="replace"))
            lines += [f"  standard {title} ends with:", ending] if ending else [f"  standard {title} is empty"]
        return "\n".join(lines)


def most_output(count: int) -> int:
    """Bytes of standard output that are read for so many responses."""
    return min(OUTPUT_PER_ITEM * max(count, 16), MOST_OUTPUT)


async def _set_when_cancelled(event: threading.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        event.set()


def _settings(words: Sequence[str]) -> dict[str, str]:
    # a signature is one line
    settings = {"command": shlex.join(words).replace("\n", "\\n")}
    found = [Path(word) for word in words if len(word) < 4096 and "\n" not in word and Path(word).is_file()]
    if found:
        settings["files"] = ",".join(f"{path.name}={file_hash(path)}" for path in dict.fromkeys(found))
    return settings
