"""Custom metrics: a Python function, a command, and forms that apps and packages add, such as another tool's metrics.

A package adds a form of names, a ``MetricForm``, by an entry point whose name is the prefix:

    [project.entry-points."goldless.metric_forms"]
    toy = "my_package:toy_form"

A Python function is called in this process, with the fields that its parameters name. One that takes ``items`` is
called once with all responses and returns a list. One thread makes all calls of a metric, in order: functions are
seldom safe to call from several threads at once, and scores must not depend on the number of cores. Then it awaits what
is awaitable among the returned values, a few at a time. A thread cannot be stopped: one that is still busy at the time
limit is left behind.

A command reads responses as JSON lines and writes one line per score: a number, ``null``, or an object with ``score``
and optionally ``id`` and ``problem``. All problems of the lines are reported at once; a score is never guessed from a
bad line.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import json
import math
import numbers
import shlex
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import Repr
from types import ModuleType
from typing import Any, cast

import anyio

from goldless.child_process import file_hash, program_files, program_words, run_program
from goldless.concurrency import side_by_side
from goldless.errors import MetricError, PrerequisiteError, nearest
from goldless.plugins import Catalogue, must_be
from goldless.records import ItemMetric, ItemScore, TextItem

COMMAND_SECONDS, FUNCTION_SECONDS = 600.0, 3600.0
"""Default time limits for the whole batch."""
AT_ONCE, POLL_SECONDS = 8, 0.005
"""Awaitable calls that run concurrently, and the time between two looks at whether all are done."""
FIELDS = ("response", "prompt", "task", "agent", "references", "reference", "synopses")
"""Fields that a metric may take by name, besides the ``id`` of a row."""
SHOWN, SHOWN_LINES = 5, 20
"""Problems of responses and of lines spelled out in a message; the rest are counted."""
LAST_LINES = 12
"""Lines of a traceback or of a command's output at the end of a message."""
OUTPUT_PER_ITEM, MOST_OUTPUT = 65_536, 64 * 2**20
"""Bytes of a command's output, on average per response and for any number; beyond this it is killed."""

_short = Repr()
_short.maxstring = _short.maxother = 60
shown = _short.repr
"""Any value for a message: short, on one line."""


def find_user_metric(name: str, *, timeout_seconds: float | None = None) -> ItemMetric | None:
    """The custom metric of this name, loaded and checked; None if the name has none of these forms.

    ``timeout_seconds`` is the limit for a whole batch: by default 600 for a command, 3600 for a Python function, and
    none for other code. A file is loaded, and an object of it made, once while it is unchanged.
    """
    prefix, colon, rest = name.partition(":")
    if not colon:
        return None
    form = FORMS.get(prefix)
    if form is None:
        return None
    if not rest.strip():
        raise MetricError(f"{name!r} is incomplete. Write {form.pattern}")
    return _limited(form.make(rest.strip(), name), timeout_seconds)


def metric_forms() -> dict[str, str]:
    """Return the forms of names of custom metrics with their descriptions."""
    return {form.pattern: form.description for form in FORMS.all().values()}


def function_metric(function: Callable[..., Any], *, timeout_seconds: float | None = None) -> ItemMetric:
    """A function object as a metric, named by its module and name."""
    place = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    try:
        source = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        source = "unknown"
    metric = _python_metric(function, {"object": place, "source": source}, f"python:{place}")
    return _limited(metric, timeout_seconds)


def _limited(metric: ItemMetric, seconds: float | None) -> ItemMetric:
    if seconds is None or not isinstance(metric, CallMetric | CommandMetric):
        return metric
    return replace(metric, timeout_seconds=seconds)


# --- scores and messages --------------------------------------------------------------------------------------------


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


def value_score(value: Any, words: Mapping[str, float]) -> ItemScore:
    """The score in a number, a truth value, either of them as text, or a word with a known value."""
    if isinstance(value, str):
        number = words.get(value, words.get(value.lower(), _parsed_number(value)))
        return ItemScore(None, f"returned the text {shown(value)}") if number is None else number_score(number)
    return ItemScore(float(value)) if isinstance(value, bool) else number_score(value)


def _parsed_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _last_lines(said: str | BaseException) -> str:
    """The last non-blank lines of a text or of an error's traceback, indented."""
    text = said if isinstance(said, str) else "".join(traceback.format_exception(said))
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line[:500]}" for line in lines[-LAST_LINES:])


def _refuse_if_all_failed(
    name: str, items: Sequence[TextItem], scores: Sequence[ItemScore], error: BaseException | None = None
) -> None:
    if not scores or any(score.problem is None for score in scores):
        return
    message = [f"{name}: none of the {len(scores)} responses could be scored"]
    for item, score in zip(items[:SHOWN], scores[:SHOWN], strict=True):
        message.append(f"  task {item.task.task!r}, agent {item.agent!r}: {score.problem}")
    if len(scores) > SHOWN:
        message.append(f"  … and {len(scores) - SHOWN} more")
    if error is not None:
        message += ["  the first error ends with:", _last_lines(error)]
    raise MetricError("\n".join(message))


# --- calls ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CallMetric:
    """A metric that calls custom code once per response, or once with all responses."""

    name: str
    """The name as requested."""
    settings: Mapping[str, str]
    """The code that is called, and the version of its source."""
    call: Callable[[Any], Any]
    """Takes a response, a TextItem, or a list of all."""
    takes_all: bool = False
    """True if it is called once with all responses and returns a list."""
    read: Callable[[Any], ItemScore] = number_score
    """Reads the score from what was returned for a response."""
    timeout_seconds: float | None = None
    unit: str = "score"

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; one that the code cannot score is missing, with the reason."""
        if not items:
            return []
        found: Sequence[Any] = await self._outcomes([items] if self.takes_all else items)
        if self.takes_all:
            found = self._listed(found[0], len(items))
        scores, failed = [], None
        for one in found:
            if isinstance(one, BaseException):
                failed = failed or one
                said = " ".join(str(one).split())[:300]
                scores.append(ItemScore(None, f"{type(one).__name__}{': ' * bool(said)}{said}"))
            else:
                scores.append(self.read(one))
        _refuse_if_all_failed(self.name, items, scores, failed)
        return scores

    def _listed(self, returned: Any, count: int) -> Sequence[Any]:
        if isinstance(returned, BaseException):
            raise MetricError(
                f"{self.name}: failed on the batch of {count} responses:\n{_last_lines(returned)}"
            ) from returned
        values = returned.tolist() if hasattr(returned, "tolist") else returned  # an array
        if isinstance(values, list | tuple) and len(values) == count:
            return values
        got = f"a list of {len(values)}" if isinstance(values, list | tuple) else shown(returned)
        raise MetricError(
            f"{self.name}: must return a list with one number, or None, per item, got {got} for {count} items"
        )

    async def _outcomes(self, given: Sequence[Any]) -> list[Any]:
        """The value that each call returned or the error it raised, in order."""
        found: dict[int, Any] = {}
        waiting: dict[int, Any] = {}
        late = threading.Event()

        async def awaited(number: int) -> None:
            try:
                found[number] = None if late.is_set() else await waiting[number]
            except BaseException as error:  # noqa: BLE001 - nothing that a metric raises ends the program
                found[number] = error

        def in_thread() -> None:
            for number, one in enumerate(given):
                if late.is_set():
                    return
                try:
                    value = self.call(one)
                    (waiting if inspect.isawaitable(value) else found)[number] = value
                except BaseException as error:  # noqa: BLE001 - as above
                    found[number] = error
            if waiting:
                anyio.run(side_by_side, awaited, list(waiting), AT_ONCE)

        thread = threading.Thread(target=in_thread, name=f"metric {self.name}", daemon=True)
        with _prints_to_standard_error():
            thread.start()
            try:
                with anyio.move_on_after(self.timeout_seconds) as limit:
                    while thread.is_alive():  # noqa: ASYNC110 - another thread ends
                        await anyio.sleep(POLL_SECONDS)
            finally:  # also where this task is cancelled
                late.set()
        if limit.cancelled_caught:
            busy = given[next((number for number in range(len(given)) if number not in found), -1)]
            which = f"task {busy.task.task!r}, agent {busy.agent!r}" if isinstance(busy, TextItem) else "all responses"
            raise MetricError(
                f"{self.name}: timed out after {self.timeout_seconds:g} s with {len(found)} of {len(given)} calls "
                f"done; busy with {which}. Allow more as in {self.name}?timeout=SECONDS, or make it a "
                "command:, which can be stopped"
            )
        return [found[number] for number in range(len(given))]


_printing = threading.Lock()
_redirected: list[Any] = []


@contextlib.contextmanager
def _prints_to_standard_error() -> Iterator[None]:
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


# --- objects in other people's code ---------------------------------------------------------------------------------


@functools.cache
def call_without_arguments(found: Callable[[], Any], name: str) -> Any:
    """The result of calling the class or function without arguments; once, for it may load a model."""
    try:
        return found()
    except Exception as error:
        raise MetricError(
            f"{name!r} cannot be called without arguments. Name an object, or write a function that returns one:\n"
            f"{_last_lines(error)}"
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
        with importing(source, name, file.parent, Path.cwd()):
            module = _file_module(file, file_hash(file))
    else:
        with importing(source, name, Path.cwd()):
            module = importlib.import_module(source)
    try:
        found = functools.reduce(getattr, path.split("."), module)
    except AttributeError as error:
        public = sorted(one for one in vars(module) if not one.startswith("_"))
        known = f". It has {', '.join(public[:20])}{' …' * (len(public) > 20)}" if public else ""
        raise MetricError(f"{name!r}: {source} has no {path!r}{nearest(path, public)}{known}") from error
    return found, {"object": place, **_version(found, module)}


@functools.cache
def _file_module(path: Path, version: str) -> ModuleType:
    """The module in a file, under a name of this version: it hides no other, and an edited file is loaded anew."""
    place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    module = ModuleType(f"goldless_user_metric_{version}_{place}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    # not the bytecode kept beside it: that of a file edited within the same second is the old one's
    exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))  # noqa: S102
    return module


@contextlib.contextmanager
def importing(source: str, name: str, *folders: Path) -> Iterator[None]:
    """Put the folders first on the import path while a module is loaded, and last afterwards.

    Last: a metric may import when it is called, but no file in its folder may hide a module that goldless imports.
    """
    added = [str(folder) for folder in folders if str(folder) not in sys.path]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        with _prints_to_standard_error():
            yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if source == missing or source.startswith(f"{missing}."):
            raise MetricError(
                f"{name!r}: no module {missing!r} in {Path.cwd()} or among the installed packages. For a file, "
                "write its path: FILE.py:OBJECT"
            ) from error
        top = missing.partition(".")[0].replace("_", "-")
        raise PrerequisiteError(
            f"{name!r} needs the package {missing!r}, which is not installed. Run: pip install {top}"
        ) from error
    except (Exception, SystemExit) as error:
        raise MetricError(f"{name!r}: {source} cannot be loaded:\n{_last_lines(error)}") from error
    finally:
        sys.path[:] = [*(folder for folder in sys.path if folder not in added), *added]


def _version(found: object, module: ModuleType) -> dict[str, str]:
    """Hashes of the files that define and name the object, and the version of its package if installed."""
    bare: Any = inspect.unwrap(found) if callable(found) else found
    hashes: dict[str, None] = {}
    # An object made by a class of a package is configured in the module that names it, so that file counts always.
    for home in (bare, module):
        with contextlib.suppress(TypeError, OSError):
            hashes[file_hash(Path(inspect.getfile(home)))] = None
    known = {"source": "+".join(hashes)} if hashes else {}
    package = (getattr(bare, "__module__", None) or module.__name__).partition(".")[0]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        known["version"] = importlib.metadata.version(package)
    return known


# --- Python functions -----------------------------------------------------------------------------------------------


def import_tool(package: str, name: str, *modules: str) -> tuple[str, *tuple[Any, ...]]:
    """Import modules of a tool's package; return its name with its version, and the modules."""
    with importing("", name):
        found = [importlib.import_module(f"{package}.{module}") for module in modules]
    return f"{package} {getattr(sys.modules[package], '__version__', 'unknown')}", *found


def load_instance(place: str, name: str, what: str, is_one: Callable[[Any], bool]) -> tuple[Any, dict[str, str]]:
    """The tool's object at a place, or what the class or function there returns, and its settings."""
    (found, settings), said = load_object(place, name), "is"
    if callable(found) and (inspect.isclass(found) or not is_one(found)):
        found, said = call_without_arguments(found, name), "returns"
    if not is_one(found):
        raise MetricError(
            f"{name!r} {said} {shown(found)}, which is not {what}. Name one, or a class or function that returns one"
        )
    return found, settings


def _python_metric(found: Any, settings: Mapping[str, str], name: str) -> ItemMetric:
    """The function as a metric; its parameter names decide what it is given.

    An object with ``needs`` is already a metric, and is given that evidence instead of texts.
    """
    if hasattr(found, "needs") and hasattr(found, "scores"):
        factory: Any = found
        return cast("ItemMetric", call_without_arguments(factory, name) if inspect.isclass(found) else found)
    if not callable(found) or inspect.isclass(found):
        raise MetricError(f"{name!r} must be a function, got {shown(found)} ({type(found).__name__})")
    try:
        signature = inspect.signature(found)
        takes_all = "items" in signature.parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
        known = ("items",) if takes_all else FIELDS
        taken = [field for field in known if takes_any or field in signature.parameters]
        signature.bind(**dict.fromkeys(taken))
        wrong = "" if known[0] in taken else f"no parameter {known[0]!r}"
    except (TypeError, ValueError) as error:
        wrong = str(error)
    if wrong:
        raise MetricError(
            f"{name!r} cannot be called as a metric: {wrong}. A metric takes 'response' and any of "
            f"{', '.join(FIELDS[1:])} by these names, or only 'items' for all at once; other parameters need a default"
        )

    def call(given: Any) -> Any:
        if takes_all:
            return found(items=[{"id": i, **item.fields} for i, item in enumerate(given)])
        fields = given.fields
        return found(**{field: fields[field] for field in taken})

    return CallMetric(name=name, settings=settings, call=call, takes_all=takes_all, timeout_seconds=FUNCTION_SECONDS)


# --- commands -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommandMetric:
    """A command as a metric: one process for all responses."""

    words: Sequence[str]
    name: str
    settings: Mapping[str, str]
    timeout_seconds: float = COMMAND_SECONDS
    unit: str = "score"

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; raises if the output is not one score per response."""
        if not items:
            return []
        # Escaped to ASCII: a text may hold half a surrogate pair or what somebody's reader takes for the end of a line.
        lines = (json.dumps({"id": i, **item.fields}).encode("ascii") + b"\n" for i, item in enumerate(items))
        most = min(OUTPUT_PER_ITEM * max(len(items), 16), MOST_OUTPUT)
        try:
            ended = await run_program(self.words, lines, timeout_seconds=self.timeout_seconds, most_output=most)
        except OSError as error:
            raise MetricError(f"{self.name}: cannot start the command ({error})") from error
        found, problems = read_score_lines(ended.output, len(items))
        if ended.ending != "well" or problems:
            message = [f"{self.name}: the command {ended.how}; {len(found)} of {len(items)} scores are valid"]
            message += [f"  {problem}" for problem in problems[:SHOWN_LINES]]
            if len(problems) > SHOWN_LINES:
                message.append(f"  … and {len(problems) - SHOWN_LINES} more")
            for title, said in (("output", ended.output.decode("utf-8", "replace")), ("error", ended.errors)):
                ending = _last_lines(said)
                message += [f"  standard {title} ends with:", ending] if ending else [f"  standard {title} is empty"]
            raise MetricError("\n".join(message))
        scores = [found[number] for number in range(len(items))]
        _refuse_if_all_failed(self.name, items, scores)
        return scores


def _command_metric(command: str, name: str) -> CommandMetric:
    words = program_words(command, MetricError)
    settings = {"command": shlex.join(words).replace("\n", "\\n")}  # a signature is one line
    if files := dict.fromkeys(program_files(words)):
        settings["files"] = ",".join(f"{path.name}={file_hash(path)}" for path in files)
    return CommandMetric(words, name, settings)


def read_score_lines(output: bytes, count: int) -> tuple[dict[int, ItemScore], list[str]]:
    """The valid scores by item, and every problem of the lines.

    A line without an id is of the item in its place. Lines beyond one per item are counted and not read.
    """
    text = output.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n")
    written = text.count(b"\n") + 1 if text else 0
    problems = []
    if written != count:
        problems.append(f"got {written} line{'s' * (written != 1)} for {count} items. Write one per item")
    scores: dict[int, ItemScore] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(text.split(b"\n", count)[: min(written, count)], 1):
        try:
            identity, score = _read_line(line.decode("utf-8", "replace").strip(), number - 1, count)
        except ValueError as problem:
            problems.append(f"line {number}: {problem}")
            continue
        if lines.setdefault(identity, number) == number:
            scores[identity] = score
        else:
            problems.append(f"line {number}: id {identity} is already in line {lines[identity]}")
    return scores, problems


def _read_line(text: str, place: int, count: int) -> tuple[int, ItemScore]:
    """The id, by default that of its place, and the score of a line; ValueError: they are not valid."""
    number = _parsed_number(text)
    row: Any = {"score": number} if number is not None or text == "null" else None
    if row is None:
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(text)
    if type(row) is not dict:
        form = "a number, null, or an object with 'score' (and 'id')"
        raise ValueError(f"{shown(text)} is not {form}" if text else "empty line")
    if "score" not in row:
        raise ValueError(f"{shown(text)} has no 'score'")
    identity, value = row.get("id", place), row["score"]
    if isinstance(identity, str) and identity.isdecimal():
        identity = int(identity)
    if not isinstance(identity, int) or isinstance(identity, bool) or not 0 <= identity < count:
        raise ValueError(f"unknown id {shown(identity)}; the items have ids 0 to {count - 1}")
    if value is None and isinstance(row.get("problem"), str):
        return identity, ItemScore(None, row["problem"][:300])
    score = number_score(value, verb="wrote", absent="null")
    if score.problem is not None:
        raise ValueError(score.problem)
    return identity, score


# --- forms of names -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricForm:
    """A form of names of custom metrics: a prefix and, after a colon, what the metric is made from."""

    pattern: str
    """The form as users write it: ``command:WORDS``."""
    description: str
    make: Callable[[str, str], ItemMetric]
    """Makes the metric from what follows the prefix and from the whole name."""


def _function_at(place: str, name: str) -> ItemMetric:
    function, settings = load_object(place, name)
    return _python_metric(function, settings, name)


FORMS: Catalogue[MetricForm] = Catalogue(
    "goldless.metric_forms",
    {
        "python": MetricForm(
            "python:MODULE:FUNCTION",
            "a Python function of a response, or python:FILE.py:FUNCTION",
            _function_at,
        ),
        "command": MetricForm(
            "command:WORDS",
            "a program that reads responses as JSON lines and writes one score per line",
            _command_metric,
        ),
    },
    must_be("a form of metric names", MetricForm),
)
"""Forms by prefix."""
