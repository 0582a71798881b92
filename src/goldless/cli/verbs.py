"""The verbs by name, each imported when it is asked for: together they take seconds to import."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import typer
import typer.main
from typer.core import TyperGroup

VERBS = {
    "demo": "demo",
    "score": "score",
    "plan": "plan",
    "explain": "explain",
    "review": "review",
    "crashtest": "crashtest",
    "agree": "agree",
    "bias": "bias",
    "cost": "cost",
    "consistency": "consistency",
    "perturb": "perturb",
    "finetune": "finetune",
    "gre": "gre",
    "view": "view",
    "serve-jury": "serve_jury",
    "doctor": "doctor",
    "study": "study",
    "models": "models",
}
"""Names on the command line, in the order of the help, and the modules they are in."""


class Verbs(TyperGroup):
    """All verbs; of a command line only the one it names is imported."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("dict[str, Any]", _ByName())


class _ByName(Mapping[str, Any]):
    """The verbs as commands, each made when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        return _verb(name)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)

    def __contains__(self, name: object) -> bool:
        return name in VERBS


def _verb(name: str) -> Any:
    module = importlib.import_module(f"goldless.cli.{VERBS[name]}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
        app.command(name=name)(getattr(module, VERBS[name]))
    found = typer.main.get_command(app)
    found.name = name
    return found
