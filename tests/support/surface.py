"""What users and successors carry: commands, options, and what the apps import from the core."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from goldless.cli.main import app

APPS = "goldless.apps"


@dataclass(frozen=True)
class Surface:
    """The sizes that have a ceiling."""

    commands: int
    option_slots: int
    """Visible options, counted once for each command that has them; positional arguments are no options."""
    modules_apps_import: int
    names_apps_import: int


@functools.cache
def measure_surface(source: Path) -> Surface:
    """Measure the commands of the installed package, and the imports of the apps below a source folder."""
    commands = dict(leaf_commands(typer.main.get_command(app)))
    parameters = [parameter for command in commands.values() for parameter in command.params]
    imported = set(names_apps_import(source))
    return Surface(
        commands=len(commands),
        option_slots=sum(map(is_visible_option, parameters)),
        modules_apps_import=len({module for module, _ in imported}),
        names_apps_import=len(imported),
    )


def leaf_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each visible command that does something itself, by the words that call it."""
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        child = command.get_command(None, name)
        if child is not None and not child.hidden:
            yield from leaf_commands(child, (*path, name))


def is_visible_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and parameter.name != "help" and not parameter.hidden


def names_apps_import(source: Path) -> Iterator[tuple[str, str]]:
    """Each module of the core and name in it that an app imports."""
    for path in (source / "goldless" / "apps").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and is_core(node.module or ""):
                for alias in node.names:
                    yield str(node.module), alias.name


def is_core(module: str) -> bool:
    return module.partition(".")[0] == "goldless" and not module.startswith(APPS)
