"""``goldless``: the verbs together, and how errors end.

Exit codes: 0 done; 1 a model misbehaves, or nothing could be scored; 2 the input or command is wrong; 3 incomplete,
run it again; 4 no reviewer passed the exam; 5 a metric failed its crash test; 6 a gate says BLOCK; 7 a gate is
INCONCLUSIVE; 8 a watch found a change; 9 a replay differs; 129, 130 and 143 ended by SIGHUP, Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from goldless._version import __version__
from goldless.cli.command import Command, UsageError, Verb, VerbGroup, verbs_app
from goldless.cli.console import (
    INCOMPLETE,
    INTERRUPTED,
    NOTHING,
    WRONG_INPUT,
    Signals,
    say,
    warnings_as_messages,
)
from goldless.errors import GoldlessError, UserError, WaitingError, nearest
from goldless.plugins import Catalogue, added_by_apps
from goldless.runs.option_forms import new_way

OURS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "demo": "Score a sample study on this machine: no account, key or GPU.",
        "doctor": "Test what a model can do, how exactly and how fast.",
    },
    "Which is better?": {
        "score": "Score a study and print the leaderboard.",
        "review": "Have models judge the responses after an exam, and rank the agents.",
        "compare": "Compare two agents of one run or of two on their common tasks.",
        "select": "Choose the best of several responses to each task.",
        "explain": "Show which sentences make two responses informative about each other.",
    },
    "Can I trust it?": {
        "audit": "Look for shared texts, copied prompts and colluding agents.",
        "crashtest": "Stress-test metrics with degraded and superficially altered responses.",
        "agree": "Compare metrics and reviewers with human labels.",
        "bias": "Measure what reviewers and metrics favour besides quality.",
        "calibrate": "Estimate agents' scores on the people's scale from few labels.",
    },
    "In production": {
        "plan": "Estimate calls, tokens, cost and time before scoring.",
        "gate": "Decide whether a candidate may replace the baseline: SHIP, BLOCK or INCONCLUSIVE.",
        "replay": "Recompute a published run from its evidence, and compare.",
        "export": "Write scores in another tool's format: Inspect, Every Eval Ever, Hub, Markdown, DPO pairs.",
    },
    "Studies and settings": {
        "study": "Check a study, show what is in it, import one from another tool, or fetch a public one.",
        "list": "List metrics, models, importers or plugins.",
        "journal": "Inspect and clean up the model replies kept on this machine.",
        "config": "Show the project's settings, or print shell completion.",
    },
    "Apps": {},
}
"""Commands by the user's question, in help order."""
QUESTIONS: Mapping[str, str] = {
    "demo --study": "quickstart",
    "compare --rankings": "consistency",
    "crashtest --write": "perturb",
    "plan --cost": "cost",
}
"""Options of verbs that ask another question, and the verb that answers it, with options of its own."""
HOMES = {
    "score": "score review select explain",
    "trust": "agree bias calibrate crashtest perturb",
    "start": "demo quickstart doctor",
    "production": "compare consistency gate plan cost replay export",
    "study": "study audit",
    "about": "list config",
    "journal": "journal",
}
"""Modules and their verbs."""
MODULES = {verb: f"goldless.cli.{module}" for module, verbs in HOMES.items() for verb in verbs.split()}
OF_APPS: Mapping[str, tuple[str, str, str]] = added_by_apps("goldless.verbs")
"""Verbs of apps, each with its panel, its line of help and its module."""
PANELS: Mapping[str, Mapping[str, str]] = {
    panel: {**verbs, **{name: line for name, (where, line, _) in OF_APPS.items() if where == panel}}
    for panel, verbs in OURS.items()
}
VERBS = tuple(name for verbs in PANELS.values() for name in verbs)
ADDED = Catalogue[Any](
    "goldless.verbs",
    dict.fromkeys(VERBS),
    lambda value: None if isinstance(value, Verb) else f"must be made by goldless.cli.command.verb, got {value!r}",
)
"""Verbs that plugins add."""


def find_verb(name: str) -> Any:
    """A verb, another question of one, or the application of those under one name; only its module is imported."""
    name = QUESTIONS.get(name, name)
    if name in (*VERBS, *QUESTIONS.values()):
        module = importlib.import_module(OF_APPS[name][2] if name in OF_APPS else MODULES[name])
        names = (name, f"{name}_", f"{name}_verbs", "app")
        return next(getattr(module, attribute) for attribute in names if hasattr(module, attribute))
    if (found := ADDED.get(name)) is None:
        raise KeyError(name)
    return found


@functools.cache
def find_command(name: str) -> Any:
    """The command of a verb, or of another question of it: ``plan``, ``plan --cost``."""
    verb = find_verb(name)
    if not isinstance(verb, Verb):
        return typer.main.get_command(verb)
    application = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    application.command(name=name, cls=Command)(verb.signed())
    return typer.main.get_command(application)


def panels() -> Mapping[str, Mapping[str, str]]:
    """Commands and summaries by panel. Imports plugins."""
    added = {name: (one.__doc__ or "").partition("\n")[0] for name, one in ADDED.all().items() if one}
    return {panel: verbs for panel, verbs in {**PANELS, "Added by plugins": added}.items() if verbs}


class Verbs(VerbGroup):
    """All verbs; only the one that a command line names is imported, and for the help none of ours."""

    def list_commands(self, _: Any) -> list[str]:
        return [name for lines in panels().values() for name in lines]

    def get_command(self, _: Any, cmd_name: str) -> Any:
        try:
            return self.commands.get(cmd_name) or find_command(cmd_name)
        except KeyError:
            return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command for the words of a command line: a verb, or another question of it."""
        verb, *words = args
        flag = next((word for word in words if f"{verb} {word.partition('=')[0]}" in QUESTIONS), None)
        if flag is None:
            return super().resolve_command(ctx, args)
        option = flag.partition("=")[0]
        command = find_command(f"{verb} {option}")
        takes_value = any(option in parameter.opts for parameter in command.params)
        if not takes_value or {"-h", "--help", "--help-all"} & {*words}:
            words.remove(flag)
        return f"{verb} {option}", command, words

    def _named(self) -> None:
        """Know the verbs by their names and lines alone, so that none is imported."""
        lines = [(panel, *item) for panel, verbs in panels().items() for item in verbs.items()]
        self.commands = {name: Command(name, help=line, rich_help_panel=panel) for panel, name, line in lines}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._named()
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self._named()
        return super().shell_complete(ctx, incomplete)


app = verbs_app(
    "Evaluate language-model outputs without a gold standard.\n\n"
    "Start with [bold]goldless demo[/]. Then put the responses of your models into one file with the columns task, "
    "agent and text, and run [bold]goldless score FILE[/]. [bold]goldless VERB -h[/] explains a verb.\n\n"
    "Replies of models are kept in a journal: nothing is computed or paid for twice, and an interrupted command "
    "resumes where it stopped.",
    name="goldless",
    cls=Verbs,
    subcommand_metavar="VERB …",
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"goldless {__version__}")
        raise typer.Exit


VERSION: Any = typer.Option("--version", callback=_version, is_eager=True, metavar="", help="Print the version.")


@app.callback()
def _common(*, wanted: Annotated[bool, VERSION] = False) -> None:
    pass


def main() -> None:
    """Run the command line; errors end in one clear message, never in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that its encoding lacks
    if "_GOLDLESS_COMPLETE" in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    with Signals() as signals:
        try:
            with warnings_as_messages():
                code = app(prog_name="goldless", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BaseExceptionGroup as group:
            code = _end(_first(group), signals)
        except SystemExit as end:  # typer and rich end so where nobody reads what is printed
            if not isinstance(end.__context__, BrokenPipeError):
                raise
            code = _end(end.__context__, signals)
        except (GoldlessError, UsageError, OSError, KeyboardInterrupt, typer.Abort) as error:
            code = _end(error, signals)
        if code == INTERRUPTED:  # typer catches Ctrl-C itself and ends without a word
            code = _end(KeyboardInterrupt(), signals)
    sys.exit(code if isinstance(code, int) else 0)


def _first(group: BaseExceptionGroup) -> BaseException:
    """The one error to show: tasks that ran side by side may all have failed for the same cause."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = next((e for e in error.exceptions if isinstance(e, GoldlessError)), error.exceptions[0])
    return error


def _end(error: BaseException, signals: Signals) -> int:
    """Report the error; the exit code."""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        signals.tell(say)
        return signals.code
    if isinstance(error, UsageError):
        if type(error).__name__ != "NoArgsIsHelpError":  # which printed the help
            ctx: Any = getattr(error, "ctx", None)
            path = getattr(error, "command", "goldless") if ctx is None else ctx.command_path
            say(f"error: {_misunderstood(error, path)}\nTry '{path} -h' for help", style="red")
        return WRONG_INPUT
    if isinstance(error, OSError):
        say(f"error: {_unwritten(error)}", style="red")
        return NOTHING
    if not isinstance(error, GoldlessError):
        raise error
    if isinstance(error, WaitingError):
        say(f"incomplete: {error}", style="yellow")
        return INCOMPLETE
    say(f"error: {error}", style="red")
    return WRONG_INPUT if isinstance(error, UserError) else NOTHING


def _misunderstood(error: Any, path: str) -> str:
    """The mistake in a command line, in our words."""
    if hasattr(error, "possibilities"):
        known = [name for one in error.ctx.command.params for name in (*one.opts, *one.secondary_opts)]
        longer = [name for name in known if name.startswith(error.option_name)]
        hint = new_way(error.option_name, longer or [name for name in known if name.startswith("--")])
        return f"unknown option {error.option_name!r}{hint}"
    text = error.format_message().strip().removesuffix(".")
    if unknown := re.match(r"No such command '(.*?)'", text):
        word = unknown[1]
        if path == "goldless" and Path(word).exists():
            return f"{word!r} is not a verb. Did you mean 'goldless score {word}'?"
        return f"unknown verb {word!r}{nearest(word, error.ctx.command.list_commands(error.ctx))}"
    if missing := re.match(r"Missing (?:parameter|argument|option) '(.*?)'", text):
        return f"{missing[1].split(' / ')[0]} is missing"
    return text[0].lower() + text[1:] if text else "this command line is not understood"


def _unwritten(error: OSError) -> str:
    """The message where writing failed; what is not printed yet is dropped, so that it does not fail again."""
    from goldless.files import cannot_write

    if error.filename is not None:
        return str(cannot_write(Path(os.fsdecode(error.filename)).parent, error))
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return "standard output was closed before everything was printed. Run the same command again; replies are kept"
    return str(cannot_write("standard output", error))
