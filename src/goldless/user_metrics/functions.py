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
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import math
import numbers
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import Repr
from types import ModuleType
from typing import Any, cast

import anyio

from goldless.child_process import file_hash
from goldless.concurrency import side_by_side
from goldless.errors import MetricError, PrerequisiteError, nearest
from goldless.records import ItemMetric, ItemScore, TextItem

TIMEOUT_SECONDS = 3600.0
"""Default time limit for the whole batch."""
AT_ONCE = 8
"""Awaitable calls that run concurrently."""
FIELDS = ("response", "prompt", "task", "agent", "references", "reference", "synopses")
"""Fields that a metric may take by name, besides the ``id`` of a row."""
SHOWN = 5
"""Problems spelled out in a message; the rest are counted."""
LAST_LINES = 12
"""Lines of a traceback or of a command's output at the end of a message."""

_short = Repr()
_short.maxstring = _short.maxother = 60
shown = _short.repr
"""Any value for a message: short, on one line."""


def fields(item: TextItem) -> dict[str, Any]:
    """All fields of a response, by name."""
    return {
        "response": item.text,
        "prompt": item.task.prompt,
        "task": item.task.task,
        "agent": item.agent,
        "references": list(item.peers.values()),
        "reference": item.task.reference,
        "synopses": dict(item.task.synopses),
    }


def number_score(value: Any, *, verb: str = "returned", absent: str = "None") -> ItemScore:
    """A finite number is the score and None is missing; anything else is a problem, never a score."""
    if value is None:
        return ItemScore(None)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return ItemScore(None, f"{verb} {shown(value)} ({type(value).__name__}), which is not a number")
    try:
        score = float(value)
    except OverflowError:
        return ItemScore(None, f"{verb} a number too large to compute with")
    if not math.isfinite(score):
        return ItemScore(None, f"{verb} {score}; a score must be a finite number, or {absent} if there is none")
    return ItemScore(score)


def parsed_number(text: str) -> float | None:
    """The number that the whole text is, or None; NaN is one."""
    try:
        return float(text)
    except ValueError:
        return None


def last_lines(text: str) -> str:
    """The last non-blank lines, indented."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line[:500]}" for line in lines[-LAST_LINES:])


def traceback_lines(error: BaseException) -> str:
    """The last lines of the error's traceback."""
    return last_lines("".join(traceback.format_exception(error)))


def refuse_if_all_failed(
    name: str, items: Sequence[TextItem], scores: Sequence[ItemScore], error: BaseException | None = None
) -> None:
    """Raise if no response could be scored: the metric is broken, and its table would be empty."""
    if not scores or any(score.problem is None for score in scores):
        return
    message = [f"{name}: none of the {len(scores)} responses could be scored"]
    for item, score in zip(items[:SHOWN], scores[:SHOWN], strict=True):
        message.append(f"  task {item.task.task!r}, agent {item.agent!r}: {score.problem}")
    if len(scores) > SHOWN:
        message.append(f"  … and {len(scores) - SHOWN} more")
    if error is not None:
        message += ["  the first error ends with:", traceback_lines(error)]
    raise MetricError("\n".join(message))


# --- calls ----------------------------------------------------------------------------------------------------------


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

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; one that the code cannot score is missing, with the reason."""
        if self.takes_all:
            found = self._listed((await self._outcomes([items]))[0], len(items)) if items else []
        else:
            found = await self._outcomes(items)
        scores, failed = [], None
        for one in found:
            if isinstance(one, BaseException):
                failed = failed or one
                said = " ".join(str(one).split())[:300]
                scores.append(ItemScore(None, f"{type(one).__name__}{': ' * bool(said)}{said}"))
            else:
                scores.append(self.read(one))
        refuse_if_all_failed(self.name, items, scores, failed)
        return scores

    def _listed(self, returned: Any, count: int) -> Sequence[Any]:
        """The list that the one call returned."""
        if isinstance(returned, BaseException):
            raise MetricError(
                f"{self.name}: failed on the batch of {count} responses:\n{traceback_lines(returned)}"
            ) from returned
        values = returned.tolist() if hasattr(returned, "tolist") else returned  # an array
        if isinstance(values, list | tuple) and len(values) == count:
            return values
        got = f"a list of {len(values)}" if isinstance(values, list | tuple) else shown(returned)
        raise MetricError(
            f"{self.name}: must return a list with one number, or None, per item, got {got} for {count} items"
        )

    async def _outcomes(self, given: Sequence[Any]) -> list[Any]:
        """What each call returned or raised, in order."""
        found: dict[int, Any] = {}
        late, done, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

        async def awaited(number: int) -> None:
            if late.is_set():
                return
            try:
                found[number] = await self.call(given[number])
            except BaseException as error:  # noqa: BLE001 - nothing that a metric raises ends the program
                found[number] = error

        def in_thread() -> None:
            if self.asynchronous:
                anyio.run(side_by_side, awaited, range(len(given)), AT_ONCE)
            for number, one in enumerate([] if self.asynchronous else given):
                if late.is_set():
                    return
                try:
                    found[number] = finished(self.call(one))
                except BaseException as error:  # noqa: BLE001 - as above
                    found[number] = error
            with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
                loop.call_soon_threadsafe(done.set)

        with prints_to_standard_error():
            threading.Thread(target=in_thread, name=f"metric {self.name}", daemon=True).start()
            try:
                with anyio.move_on_after(self.timeout_seconds):
                    await done.wait()
            finally:  # also where this task is cancelled
                late.set()
        if not done.is_set():
            busy = given[next((number for number in range(len(given)) if number not in found), -1)]
            one = isinstance(busy, TextItem)
            raise MetricError(
                f"{self.name}: timed out after {self.timeout_seconds:g} s with {len(found)} of {len(given)} calls "
                f"done; busy with {f'task {busy.task.task!r}, agent {busy.agent!r}' if one else 'all responses'}. "
                "Raise --metric-timeout, or make it a command:, which can be stopped"
            )
        return [found[number] for number in range(len(given))]


def finished(value: Any) -> Any:
    """The result of a call, awaited if it is an awaitable; for a thread without an event loop."""

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited()) if inspect.isawaitable(value) else value


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Whether calling it returns an awaitable: an async function, or an object with an async ``__call__``."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the call itself is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


_printing = threading.Lock()
_redirected: list[Any] = []


@contextlib.contextmanager
def prints_to_standard_error() -> Iterator[None]:
    """Send what custom code prints to standard error: standard output is for results.

    Blocks in several threads may overlap; the last one to end restores what the first one found.
    """
    with _printing:
        _redirected.append(_redirected[0] if _redirected else sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _printing:
            before = _redirected.pop()
            if not _redirected:
                sys.stdout = before


# --- functions ------------------------------------------------------------------------------------------------------


def function_metric(found: Any, settings: Mapping[str, str], name: str, timeout_seconds: float | None) -> ItemMetric:
    """The function as a metric; its parameter names decide what it is given.

    An object with ``needs`` is already a metric, and is given that evidence instead of texts.
    """
    if hasattr(found, "needs") and hasattr(found, "scores"):
        factory: Any = found
        return cast("ItemMetric", made(factory, name, "Name an object") if inspect.isclass(found) else found)
    if not callable(found) or inspect.isclass(found):
        raise MetricError(f"{name!r} must be a function, got {shown(found)} ({type(found).__name__})")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name!r} does not show its parameters. Wrap it in a function") from error
    takes_all = "items" in signature.parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    known = ("items",) if takes_all else FIELDS
    taken = [field for field in known if takes_any or field in signature.parameters]
    try:
        signature.bind(**dict.fromkeys(taken))
        wrong = "" if known[0] in taken else f"no parameter {known[0]!r}"
    except TypeError as error:
        wrong = str(error)
    if wrong:
        raise MetricError(
            f"{name!r} cannot be called as a metric: {wrong}. A metric takes 'response' and any of "
            f"{', '.join(FIELDS[1:])} by these names, or only 'items' for all at once; other parameters need a default"
        )

    def call(item: TextItem) -> Any:
        given = fields(item)
        return found(**{field: given[field] for field in taken})

    def call_with_all(items: Sequence[TextItem]) -> Any:
        return found(items=[{"id": number, **fields(item)} for number, item in enumerate(items)])

    return CallMetric(
        name=name,
        settings=settings,
        call=call_with_all if takes_all else call,
        takes_all=takes_all,
        asynchronous=is_asynchronous(found),
        timeout_seconds=timeout_seconds or TIMEOUT_SECONDS,
    )


# --- objects in custom code -----------------------------------------------------------------------------------------


@functools.cache
def made(found: Callable[[], Any], name: str, advice: str) -> Any:
    """What the class or function returns when called without arguments; once, for it may load a model."""
    try:
        return found()
    except Exception as error:
        raise MetricError(
            f"{name!r} cannot be called without arguments. {advice}:\n{traceback_lines(error)}"
        ) from error


def load_object(place: str, name: str) -> tuple[Any, dict[str, str]]:
    """The object at ``MODULE:OBJECT`` or ``FILE.py:OBJECT``, and the settings that tell its version.

    ``name`` is that of the metric, for messages. Modules can be imported from the current folder, as with
    ``python -m``; for a file, from its own folder too.
    """
    source, _, path = place.rpartition(":")
    if not source.strip() or not path.strip():
        raise MetricError(f"{name!r}: name a module or file and an object in it: MODULE:OBJECT or FILE.py:OBJECT")
    if source.endswith(".py") or "/" in source:
        file = Path(source).expanduser().resolve()
        if not file.is_file() or file.suffix != ".py":
            near = nearest(file.name, [other.name for other in file.parent.glob("*.py")])
            raise MetricError(f"{name!r}: no such file, or its name does not end in .py: {source!r}{near}")
        with _loading(source, name, file.parent, Path.cwd()):
            module = _module_of(file)
    else:
        with _loading(source, name, Path.cwd()):
            module = importlib.import_module(source)
    try:
        found = functools.reduce(getattr, path.split("."), module)
    except AttributeError as error:
        public = sorted(one for one in vars(module) if not one.startswith("_"))
        known = f". It has {', '.join(public[:20])}{' …' * (len(public) > 20)}" if public else ""
        raise MetricError(f"{name!r}: {source} has no {path!r}{nearest(path, public)}{known}") from error
    return found, {"object": place, **_version(found, module)}


def _module_of(path: Path) -> ModuleType:
    # A name of its own, so that it hides no other module; with its hash, so that an edited file is loaded anew.
    unique = f"goldless_user_metric_{file_hash(path)}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, path)
        assert spec is not None
        module = sys.modules[unique] = importlib.util.module_from_spec(spec)
        try:
            # not the bytecode kept beside it: that of a file edited within the same second is the old one's
            exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))  # noqa: S102
        except BaseException:
            del sys.modules[unique]
            raise
    return sys.modules[unique]


@contextlib.contextmanager
def _loading(source: str, name: str, *folders: Path) -> Iterator[None]:
    """Put the folders first on the import path while a module is loaded, and last afterwards.

    Last: a metric may import when it is called, but no file in its folder may hide a module that goldless imports.
    """
    added = [str(folder) for folder in folders if str(folder) not in sys.path]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        with prints_to_standard_error():
            yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if source == missing or source.startswith(f"{missing}."):
            raise MetricError(
                f"{name!r}: no module {missing!r} in {Path.cwd()} or among the installed packages. For a file, "
                "write its path: FILE.py:OBJECT"
            ) from error
        raise missing_package(missing, name) from error
    except (Exception, SystemExit) as error:
        raise MetricError(f"{name!r}: {source} cannot be loaded:\n{traceback_lines(error)}") from error
    finally:
        sys.path[:] = [*(folder for folder in sys.path if folder not in added), *added]


def missing_package(package: str, name: str) -> PrerequisiteError:
    """The error of a package that is not installed."""
    top = package.partition(".")[0].replace("_", "-")
    return PrerequisiteError(f"{name!r} needs the package {package!r}, which is not installed. Run: pip install {top}")


def _version(found: object, module: ModuleType) -> dict[str, str]:
    """Hashes of the files that define and name the object, and the version of its package if installed."""
    known: dict[str, str] = {}
    bare = inspect.unwrap(found) if callable(found) else type(found)
    # An object made by a class of a package is configured in the module that names it, so that file counts always.
    homes = (bare, module) if inspect.isroutine(bare) or inspect.isclass(bare) else (module,)
    hashes: dict[str, None] = {}
    for home in homes:
        with contextlib.suppress(TypeError, OSError):
            hashes[file_hash(Path(inspect.getsourcefile(home) or inspect.getfile(home)))] = None
    if hashes:
        known["source"] = "+".join(hashes)
    package = (getattr(bare, "__module__", None) or module.__name__).partition(".")[0]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        known["version"] = importlib.metadata.version(package)
    return known
