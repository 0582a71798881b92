"""Plugins: what installed packages add to goldless, and the catalogues that list it with the built-ins.

A package adds a metric, a model provider, a perturbation, an importer, an exporter, a form of names of custom
metrics, a review stage, a section of the report or a verb by an entry point:

    [project.entry-points."goldless.metrics"]
    novelty = "my_package:novelty"

goldless's own apps, the packages in ``goldless/apps``, come in by the same groups: each lists in ``ADDS`` what it adds.

The loaded object must have the shape that the group's catalogue requires. A plugin that cannot be loaded, has another
shape or takes a name in use is recorded with the reason, and everything else works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules, resolve_name
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from goldless.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = (
    *("goldless.metrics", "goldless.models", "goldless.perturbations", "goldless.importers", "goldless.exporters"),
    *("goldless.metric_forms", "goldless.review_stages", "goldless.sections", "goldless.verbs"),
)
"""Entry-point groups, one per kind of extension."""

T = TypeVar("T")


@dataclass(frozen=True)
class Plugin:
    """One entry point of an installed package."""

    group: str
    name: str
    package: str
    version: str
    value: Any = None
    """The object it adds; None if it could not be loaded."""
    failure: str | None = None
    """The reason why it cannot be used; None: it can."""


@cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """The entry points of a group, each loaded once; one that fails carries the reason instead of raising."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and few commands need it

    found = sorted(entry_points(group=group), key=lambda entry: (entry.name, _package(entry)))
    return tuple(_loaded(entry) for entry in found)


@cache
def added_by_apps(group: str) -> dict[str, Any]:
    """Additions of goldless's own apps to a group, by name; nothing where their folder is not installed."""
    try:
        folder = import_module("goldless.apps").__path__
    except ModuleNotFoundError:
        return {}
    apps = [import_module(f"goldless.apps.{app.name}") for app in iter_modules(folder)]
    return {name: value for app in apps for name, value in app.ADDS.get(group, {}).items()}


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"


def _loaded(entry: EntryPoint) -> Plugin:
    version = entry.dist.version if entry.dist is not None else "unknown"
    try:
        value, failure = entry.load(), None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody else's code may raise anything while imported
        value, failure = None, f"{type(error).__name__}: {error}"
    return Plugin(entry.group, entry.name, _package(entry), version, value, failure)


def must_be(what: str, kind: type) -> Callable[[Any], str | None]:
    """Make a catalogue's check that an object is of a class."""

    def check(value: Any) -> str | None:
        got = type(value).__name__
        return None if isinstance(value, kind) else f"{what} must be a {kind.__module__}.{kind.__name__}, got {got}"

    return check


def must_have(what: str, *, methods: Sequence[str], texts: Sequence[str]) -> Callable[[Any], str | None]:
    """Make a catalogue's check that an object has methods and texts of these names."""

    def check(value: Any) -> str | None:
        if isinstance(value, type):
            return f"{what} must be an object, got a class. Try an instance of it"
        lacking = [name for name in methods if not callable(getattr(value, name, None))]
        lacking += [name for name in texts if not isinstance(getattr(value, name, None), str)]
        return f"{what} must have {', '.join((*methods, *texts))}; this one lacks {lacking[0]}" if lacking else None

    return check


class Catalogue(Generic[T]):
    """Objects of one kind by name: built-ins, those of apps, and those that plugins add under the same rules.

    An app's object is imported when it is first needed. ``check`` returns what is wrong with a plugin's object, or None
    if it has the right shape.
    """

    def __init__(self, group: str, ours: Mapping[str, T], check: Callable[[Any], str | None]) -> None:
        self.group = group
        self._ours = dict(ours)
        self._check = check

    def plugins(self) -> Iterator[Plugin]:
        """Additions of packages, each with the reason if it cannot be used."""
        taken = dict.fromkeys([*self._ours, *self._paths_in_apps()], "goldless itself")
        for plugin in plugins(self.group):
            failure = plugin.failure or self._check(plugin.value)
            if failure is None and plugin.name in taken:
                failure = f"the name is already used by {taken[plugin.name]}"
            if failure is None:
                taken[plugin.name] = plugin.package
            yield replace(plugin, value=plugin.value if failure is None else None, failure=failure)

    def of_packages(self) -> dict[str, Plugin]:
        """Additions of packages that can be used, by name."""
        return {plugin.name: plugin for plugin in self.plugins() if plugin.failure is None}

    def all(self) -> dict[str, T]:
        """Everything usable: built-ins, then what apps add, then what plugins add."""
        of_apps = {name: resolve_name(path) for name, path in self._paths_in_apps().items()}
        return self._ours | of_apps | {name: plugin.value for name, plugin in self.of_packages().items()}

    def get(self, name: str) -> T | None:
        """The object of that name; None: nothing has it. Raises with the reason if what a package adds is broken.

        Plugins are loaded only if neither goldless nor an app of it has the name.
        """
        if name in self._ours:
            return self._ours[name]
        paths = self._paths_in_apps()
        added: T | None = resolve_name(paths[name]) if name in paths else self.all().get(name)
        if added is None:
            for plugin in self.plugins():
                if plugin.name == name:
                    raise UserError(f"{name!r} from the package {plugin.package} cannot be used: {plugin.failure}")
        return added

    def _paths_in_apps(self) -> dict[str, str]:
        """Where each object of an app is, as ``MODULE:NAME``."""
        return {name: path for name, path in added_by_apps(self.group).items() if name not in self._ours}
