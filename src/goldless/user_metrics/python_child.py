"""A ``python:`` metric in a process of its own, in the protocol of ``command:`` metrics.

Whatever the function or its module does, it ends or fills that process only: ``os._exit``, a crash of a library,
endless memory. One process reads the function's parameters and version beforehand, so that a mistake is told before
anything is paid for, and another one scores. What the function prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import anyio

from goldless.child_process import how_it_ended, run_child
from goldless.errors import MetricError, PrerequisiteError
from goldless.records import ItemScore, Task, TextItem
from goldless.user_metrics.commands import CommandMetric
from goldless.user_metrics.scores import last_lines
from goldless.user_metrics.source_objects import SourceObject, load_object

TIMEOUT_SECONDS = 3600.0
"""Default time limit for the whole batch."""
STARTING_SECONDS = 60.0
"""For the process to start and load the function; a function that cannot be interrupted is killed after both."""
REFUSED = 3
"""Exit status of a metric that says itself why it has no scores; the words are on standard output."""
MOST_DESCRIBED = 2**20
"""Bytes of a description."""
ERRORS = (MetricError, PrerequisiteError)

_described: dict[tuple[str, ...], tuple[tuple[tuple[str, int, int], ...], SourceObject | None]] = {}
"""Functions by place and where modules are looked for, each with the state of its files when it was read."""


def _words(does: str, **given: Any) -> list[str]:
    """The command of a process that does this with the function, as this Python would."""
    start = (
        "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given.pop('path'); "
        f"from goldless.user_metrics.python_child import {does}; {does}(**given)"
    )
    # -P: no file in this folder may hide a module that goldless imports
    return [sys.executable, "-P", "-c", start, json.dumps({**given, "path": sys.path})]


def described(place: str, name: str, timeout_seconds: float | None) -> SourceObject | None:
    """The function at this place, checked and described by a child process; its object is not in this process.

    None: it cannot be called in another process, being a metric itself or without a file.
    """
    key = (place, str(Path.cwd()), *sys.path)
    stamps, source = _described.get(key, ((), None))
    if not stamps or stamps != _stamps(path for path, *_ in stamps):
        limit = (TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds) + STARTING_SECONDS
        words = _words("describe", place=place, name=name)
        stop = threading.Event()
        finished = run_child(words, (), timeout_seconds=limit, most_output=MOST_DESCRIBED, stop=stop)
        said = finished.error_tail.decode("utf-8", errors="replace")
        if finished.ending != "exited" or finished.status != 0 or not finished.output:
            loader = f"the process that loaded {place.rpartition(':')[0]}"
            ended = how_it_ended(finished, loader, limit, MOST_DESCRIBED)
            raise MetricError(
                f"{name!r}: {ended}. Its standard error " + (f"ends with:\n{last_lines(said)}" if said else "is empty")
            )
        sys.stderr.write(said)
        found = json.loads(finished.output)
        if "error" in found:
            raise ERRORS[found["error"]](found["message"])
        stamps = tuple((path, changed, size) for path, changed, size in found["files"])
        source = SourceObject(None, found["settings"]) if found["function"] and stamps else None
        _described[key] = stamps, source
    return source


def describe(*, place: str, name: str) -> None:
    """Write what the parent needs to know of the function, in the child process."""
    from goldless.user_metrics.functions import function_metric, is_function  # noqa: PLC0415 - as in ``score``

    results = _results()
    _limit_memory()
    said: dict[str, Any]
    try:
        source = load_object(place, metric=name)
        function = is_function(function_metric(source, name, None))
        said = {
            "settings": dict(source.settings),
            "function": function,
            "files": _stamps(str(path.absolute()) for path in source.files),
        }
    except ERRORS as error:
        said = {"error": next(i for i, kind in enumerate(ERRORS) if isinstance(error, kind)), "message": str(error)}
    _end(results, json.dumps(said))


def _stamps(paths: Iterable[str]) -> tuple[tuple[str, int, int], ...]:
    """Files with their time of change and size; one that is gone has none."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            state = Path(path).stat()
            found.append((path, state.st_mtime_ns, state.st_size))
    return tuple(found)


def _results() -> IO[str]:
    """Where results go; what anything prints goes to standard error from now on."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)
    return results


def _end(results: IO[str], written: str, status: int = 0) -> NoReturn:
    """End this process at once: a thread that the function left must not keep it."""
    results.write(written)
    results.flush()
    sys.stderr.flush()
    os._exit(status)


class ChildMetric(CommandMetric):
    """A function as a metric, called in a child process."""

    what = "its process"

    def __init__(self, source: SourceObject, name: str, timeout_seconds: float | None) -> None:
        """``source``: the function, found and checked."""
        limit = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
        words = _words("score", name=name, settings=dict(source.settings), timeout_seconds=limit)
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


def score(*, name: str, settings: dict[str, str], timeout_seconds: float) -> None:
    """Score the rows on standard input with the function that the settings describe."""
    from goldless.user_metrics.functions import function_metric  # noqa: PLC0415 - it is no part of the parent's work

    results = _results()
    _limit_memory()
    items = [_item(json.loads(line)) for line in sys.stdin.buffer]
    try:
        scores = anyio.run(function_metric(_same(name, settings), name, timeout_seconds).scores, items)
    except MetricError as error:
        _end(results, str(error), REFUSED)
    lines = []
    for number, found in enumerate(scores):
        problem = {} if found.problem is None else {"problem": found.problem}
        lines.append(json.dumps({"id": number, "score": found.score, **problem}) + "\n")
    _end(results, "".join(lines))


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
