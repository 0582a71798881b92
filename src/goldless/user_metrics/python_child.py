"""A ``python:`` metric in a process of its own, in the protocol of ``command:`` metrics.

Whatever the function does, it ends or fills that process only: ``os._exit``, a crash of a library, endless memory. The
module is loaded in both processes, since its parameters and version are read in the first one. What it prints
goes to standard error.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import anyio

from goldless.errors import MetricError
from goldless.records import ItemScore, Task, TextItem
from goldless.user_metrics.commands import CommandMetric
from goldless.user_metrics.source_objects import SourceObject, load_object

TIMEOUT_SECONDS = 3600.0
"""Default time limit for the whole batch."""
STARTING_SECONDS = 60.0
"""For the process to start and load the function; a function that cannot be interrupted is killed after both."""
REFUSED = 3
"""Exit status of a metric that says itself why it has no scores; the words are on standard output."""
START = (
    "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given.pop('path'); "
    "from goldless.user_metrics.python_child import main; main(**given)"
)


class ChildMetric(CommandMetric):
    """A function as a metric, called in a child process."""

    what = "its process"

    def __init__(self, source: SourceObject, name: str, timeout_seconds: float | None) -> None:
        """``source``: the function, found and checked."""
        # -P: no file in this folder may hide a module that goldless imports
        limit = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
        given = {"name": name, "settings": dict(source.settings), "timeout_seconds": limit, "path": sys.path}
        words = [sys.executable, "-P", "-c", START, json.dumps(given)]
        super().__init__(SourceObject(words, source.settings), name, limit + STARTING_SECONDS)

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; missing if the function returns no number for it."""
        if not items:
            return []
        finished = await self._run(items)
        if finished.ending == "exited" and finished.status == REFUSED:
            raise MetricError(finished.output.decode("utf-8", errors="replace"))
        scores = self._scores(finished, items)
        sys.stderr.write(finished.error_tail.decode("utf-8", errors="replace"))
        return scores


def main(*, name: str, settings: dict[str, str], timeout_seconds: float) -> None:
    """Score the rows on standard input with the function that the settings describe."""
    from goldless.user_metrics.functions import function_metric  # noqa: PLC0415 - it is no part of the parent's work

    results = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)
    _limit_memory()
    items = [_item(json.loads(line)) for line in sys.stdin.buffer]
    try:
        scores = anyio.run(function_metric(_same(name, settings), name, timeout_seconds).scores, items)
    except MetricError as error:
        results.write(str(error))
        results.flush()
        os._exit(REFUSED)
    for number, score in enumerate(scores):
        problem = {} if score.problem is None else {"problem": score.problem}
        results.write(json.dumps({"id": number, "score": score.score, **problem}) + "\n")
    results.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread that the function left must not keep the process


def _same(name: str, settings: dict[str, str]) -> SourceObject:
    """The function that the first process found, in the same version."""
    with contextlib.redirect_stderr(io.StringIO()):  # what it prints while it is loaded was printed before
        source = load_object(settings["object"], metric=name)
    if dict(source.settings) != settings:
        raise MetricError(f"{name}: the file was changed after it was read. Run the same command again")
    return source


def _item(row: dict[str, Any]) -> TextItem:
    task = Task(row["task"], row["prompt"], row["reference"], row["synopses"])
    peers = {str(number): text for number, text in enumerate(row["references"])}
    return TextItem(task=task, agent=row["agent"], text=row["response"], peers=peers)


def _limit_memory() -> None:
    """At most the memory of the machine: beyond it a MemoryError in the function, not a frozen computer."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # macOS takes no such limit
        import resource  # noqa: PLC0415 - not on every system

        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (whole, resource.getrlimit(resource.RLIMIT_DATA)[1]))
