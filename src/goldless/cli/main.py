"""``goldless``: the verbs together, and how errors end.

Exit codes: 0 done; 1 a model misbehaves, or nothing could be scored; 2 the input or command is wrong; 3 incomplete,
run it again; 4 no reviewer passed the exam; 5 a metric failed its crash test; 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, cast

import typer
import typer.main
from typer.core import TyperGroup

from goldless._version import __version__
from goldless.cli.console import INTERRUPTED, NOTHING, WRONG_INPUT, say, warnings_as_messages
from goldless.errors import GoldlessError, UserError

VERBS = (
    *("demo", "score", "plan", "explain", "audit", "review", "crashtest", "agree", "bias", "cost", "consistency"),
    *("perturb", "finetune", "gre", "view", "serve-jury", "doctor", "study", "models", "plugins"),
)
"""Names on the command line, in the order of the help; each is a module of that name."""
LOOK: dict[str, Any] = {"rich_markup_mode": "rich", "pretty_exceptions_enable": False, "add_completion": False}


class _ByName(Mapping[str, Any]):
    """The verbs as commands, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        word = name.replace("-", "_")
        module = importlib.import_module(f"goldless.cli.{word}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(**LOOK)
            app.command(name=name)(getattr(module, word))
        found = typer.main.get_command(app)
        found.name = name
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)

    def __contains__(self, name: object) -> bool:
        return name in VERBS


class Verbs(TyperGroup):
    """All verbs; of a command line only the one it names is imported."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("dict[str, Any]", _ByName())


app = typer.Typer(
    name="goldless",
    cls=Verbs,
    help=(
        "Evaluate language-model outputs where no gold standard exists.\n\n"
        "Start with [bold]goldless demo[/]. Then put your models' answers into one file with columns task, agent, text "
        "and run [bold]goldless score FILE[/]. Everything a model says is kept in a journal, so nothing is computed or "
        "paid twice, and an interrupted command goes on where it stopped."
    ),
    no_args_is_help=True,
    **LOOK,
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"goldless {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=lambda v: _version(wanted=v), is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors end in one clear message, never in a traceback."""
    try:
        with warnings_as_messages():
            app(prog_name="goldless")
    except BaseExceptionGroup as group:
        sys.exit(_end(_first(group)))
    except (GoldlessError, KeyboardInterrupt) as error:
        sys.exit(_end(error))
    except SystemExit as end:
        # typer catches Ctrl-C itself and ends without a word
        if end.code == INTERRUPTED:
            _end(KeyboardInterrupt())
        raise


def _first(group: BaseExceptionGroup) -> BaseException:
    """The one error a person should see: tasks that ran side by side may all have failed for the same cause."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = next((e for e in error.exceptions if isinstance(e, GoldlessError)), error.exceptions[0])
    return error


def _end(error: BaseException) -> int:
    """Say what happened; the exit code."""
    if isinstance(error, KeyboardInterrupt):
        say("interrupted; what was finished is kept, and the same command goes on from there")
        return INTERRUPTED
    if not isinstance(error, GoldlessError):
        raise error
    say(f"error: {error}", style="red")
    return WRONG_INPUT if isinstance(error, UserError) else NOTHING
