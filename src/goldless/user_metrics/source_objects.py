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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import MethodType, ModuleType
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
    files: tuple[Path, ...] = ()
    """The files whose version that is."""

    def is_same(self, other: SourceObject) -> bool:
        """Whether both are the same object in the same version.

        A method and the words of a command are new objects at each lookup; those are compared by value. Others are
        compared by identity, because custom code may define ``==``.
        """
        one, two = self.object, other.object
        compared = any(type(one) is type(two) is kind for kind in (MethodType, list))
        return self.settings == other.settings and (one is two or (compared and bool(one == two)))

    def with_settings(self, **settings: str) -> SourceObject:
        """The same object with more settings."""
        return replace(self, settings={**self.settings, **settings})


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
    module = _load_file(source, metric) if _is_file(source) else _load_module(source, metric)
    try:
        found = functools.reduce(getattr, path.split("."), module)
    except AttributeError as error:
        public = sorted(name for name in vars(module) if not name.startswith("_"))
        known = f". It has {', '.join(public[:20])}{' …' * (len(public) > 20)}" if public else ""
        raise MetricError(f"{metric!r}: {source} has no {path!r}{nearest(path, public)}{known}") from error
    version, files = _version(found, module)
    return SourceObject(found, {"object": place, **version}, files)


def is_loaded(place: str) -> bool:
    """Whether the module of ``MODULE:OBJECT`` is already in this process."""
    return place.rpartition(":")[0] in sys.modules


def _is_file(source: str) -> bool:
    return source.endswith(".py") or "/" in source


def _load_file(source: str, metric: str) -> ModuleType:
    path = Path(source).expanduser()
    if not path.is_file():
        near = nearest(path.name, [p.name for p in path.parent.glob("*.py")]) if path.parent.is_dir() else ""
        raise MetricError(f"{metric!r}: no such file: {source!r}{near}")
    path = path.resolve()
    # A name of its own, so that it hides no other module; with its hash, so that an edited file is loaded anew.
    name = f"goldless_user_metric_{file_hash(path)}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MetricError(f"{metric!r}: {source!r} is not a Python file. Its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _importable(path.parent, Path.cwd()), _errors_of_import(source, metric):
            if isinstance(spec.loader, SourceFileLoader):
                # not the bytecode kept beside it: that of a file edited within the same second is the old one's
                exec(spec.loader.source_to_code(path.read_bytes(), str(path)), module.__dict__)  # noqa: S102
            else:
                spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _load_module(source: str, metric: str) -> ModuleType:
    with _importable(Path.cwd()), _errors_of_import(source, metric):
        return importlib.import_module(source)


@contextlib.contextmanager
def _importable(*folders: Path) -> Iterator[None]:
    """Put the folders first on the import path while a module is loaded, and last afterwards.

    Last: a metric may import when it is called, but no file in its folder may hide a module that goldless imports.
    """
    added = [str(folder) for folder in folders if str(folder) not in sys.path]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder in added:
            with contextlib.suppress(ValueError):  # the module may have changed the path itself
                sys.path.remove(folder)
            sys.path.append(folder)


@contextlib.contextmanager
def _errors_of_import(source: str, metric: str) -> Iterator[None]:
    try:
        with contextlib.redirect_stdout(sys.stderr):
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


def missing_package(package: str, metric: str) -> PrerequisiteError:
    """The error of a package that is not installed."""
    top = package.partition(".")[0].replace("_", "-")
    return PrerequisiteError(
        f"{metric!r} needs the package {package!r}, which is not installed. Run: pip install {top}"
    )


def _version(found: object, module: ModuleType) -> tuple[dict[str, str], tuple[Path, ...]]:
    """Hashes of the files that define and name the object, the version of its package if installed, and the files."""
    known: dict[str, str] = {}
    bare = inspect.unwrap(found) if callable(found) else type(found)
    # An object made by a class of a package is configured in the module that names it, so that file counts always.
    homes = (bare, module) if inspect.isroutine(bare) or inspect.isclass(bare) else (module,)
    hashes: dict[str, None] = {}
    files: dict[Path, None] = {}
    for home in homes:
        with contextlib.suppress(TypeError, OSError):
            file = Path(inspect.getsourcefile(home) or inspect.getfile(home))
            hashes[file_hash(file)] = None
            files[file] = None
    if hashes:
        known["source"] = "+".join(hashes)
    package = (getattr(bare, "__module__", None) or module.__name__).partition(".")[0]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        known["version"] = importlib.metadata.version(package)
    return known, tuple(files)
