"""Objects in custom code, named as MODULE:OBJECT or FILE.py:OBJECT, and the name forms that make metrics of them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from goldless.child_process import file_hash
from goldless.errors import MetricError, PrerequisiteError, nearest
from goldless.records import ItemMetric
from goldless.user_metrics.scores import traceback_lines


@dataclass(frozen=True, slots=True)
class SourceObject:
    """An object from custom code."""

    object: Any
    settings: Mapping[str, str]
    """The object, and the version of its source."""


@dataclass(frozen=True, slots=True)
class Form:
    """A name form of custom metrics."""

    pattern: str
    """How such a name is written; the part before its first colon identifies the form."""
    description: str
    source: Callable[[str, str], SourceObject]
    """Looks up the source from the part after the colon and the whole name; cheap the second time."""
    metric: Callable[[SourceObject, str, float | None], ItemMetric]
    """Makes and checks the metric from source, whole name and time limit in seconds; may be slow."""


def load_object(place: str, *, metric: str) -> SourceObject:
    """The object at ``MODULE:OBJECT`` or ``FILE.py:OBJECT``; ``metric`` is the name the user gave, for messages.

    Modules can be imported from the current folder, as with ``python -m``; for a file, from its own folder too.
    """
    source, _, path = place.rpartition(":")
    if not source.strip() or not path.strip():
        raise MetricError(f"{metric!r}: name a module or file and an object in it: MODULE:OBJECT or FILE.py:OBJECT")
    if source.endswith(".py") or "/" in source:
        module = _load_file(source, metric)
    else:
        with _loading(source, metric, Path.cwd()):
            module = importlib.import_module(source)
    try:
        found = functools.reduce(getattr, path.split("."), module)
    except AttributeError as error:
        public = sorted(name for name in vars(module) if not name.startswith("_"))
        known = f". It has {', '.join(public[:20])}{' …' * (len(public) > 20)}" if public else ""
        raise MetricError(f"{metric!r}: {source} has no {path!r}{nearest(path, public)}{known}") from error
    return SourceObject(found, {"object": place, **_version(found, module)})


def _load_file(source: str, metric: str) -> ModuleType:
    path = Path(source).expanduser()
    if not path.is_file():
        near = nearest(path.name, [p.name for p in path.parent.glob("*.py")]) if path.parent.is_dir() else ""
        raise MetricError(f"{metric!r}: no such file: {source!r}{near}")
    if path.suffix != ".py":
        raise MetricError(f"{metric!r}: {source!r} is not a Python file. Its name must end in .py")
    path = path.resolve()
    # A name of its own, so that it hides no other module; with its hash, so that an edited file is loaded anew.
    name = f"goldless_user_metric_{file_hash(path)}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _loading(source, metric, path.parent, Path.cwd()):
            # not the bytecode kept beside it: that of a file edited within the same second is the old one's
            exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))  # noqa: S102
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def _loading(source: str, metric: str, *folders: Path) -> Iterator[None]:
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
                f"{metric!r}: no module {missing!r} in {Path.cwd()} or among the installed packages. For a file, "
                "write its path: FILE.py:OBJECT"
            ) from error
        raise missing_package(missing, metric) from error
    except (Exception, SystemExit) as error:
        raise MetricError(f"{metric!r}: {source} cannot be loaded:\n{traceback_lines(error)}") from error
    finally:
        for folder in added:
            with contextlib.suppress(ValueError):  # the module may have changed the path itself
                sys.path.remove(folder)
            sys.path.append(folder)


def missing_package(package: str, metric: str) -> PrerequisiteError:
    """The error of a package that is not installed."""
    top = package.partition(".")[0].replace("_", "-")
    return PrerequisiteError(
        f"{metric!r} needs the package {package!r}, which is not installed. Run: pip install {top}"
    )


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
