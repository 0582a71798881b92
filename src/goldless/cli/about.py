"""``goldless list``: what there is; ``goldless config``: the settings that hold in this folder, and completion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pkgutil import resolve_name
from typing import Any, Literal

import typer

from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.cli.settings_file import NO_FILE, Keys, Set, Settings, settings
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import Option, argument

CATALOGUES = (
    *("goldless.metrics.catalogue:CATALOGUE", "goldless.models.catalogue:PROVIDERS"),
    *("goldless.meta_evaluation.perturbations.catalogue:CATALOGUE", "goldless.studies.importers:IMPORTERS"),
    *("goldless.exporting.catalogue:EXPORTERS", "goldless.reports.html.page:CATALOGUE", "goldless.cli.main:ADDED"),
)
"""Where plugins come in, by entry point or as apps of ours."""


@verb()
def metrics(*, output: Output) -> None:
    """List the metrics with what each measures, ours, those of installed packages, and the forms of custom ones.

    Example:
      goldless list metrics
    """
    from goldless.metrics.catalogue import CATALOGUE, METRICS
    from goldless.user_metrics import USER_METRICS

    theirs = {plugin.name: f"from {plugin.package}" for plugin in CATALOGUE.plugins() if plugin.failure is None}
    rows = [{"metric": name, "measures": text} for name, text in {**METRICS, **theirs, **USER_METRICS}.items()]
    output.print_rows("Metrics", rows, {"metrics": rows}, metric="metric", measures="what it measures")


@verb()
def models(*, output: Output) -> None:
    """List the ways to name a model.

    Example:
      goldless list models
    """
    from goldless.models.catalogue import forms
    from goldless.models.embedded import find_embedded

    rows, path = [asdict(form) for form in forms()], find_embedded()
    data = {"models": rows, "embedded": None if path is None else str(path)}
    output.print_rows("Models", rows, data, form="written as", purpose="what it is")
    say(f"embedded: {'not fetched yet (goldless doctor embedded does it)' if path is None else path}")


@verb()
def importers(*, output: Output) -> None:
    """List the formats that a study is read from; most are recognised by themselves, --from names one.

    Example:
      goldless list importers
    """
    from goldless.studies.importers import IMPORTERS

    rows = [{"format": name, "reads": one.description} for name, one in IMPORTERS.all().items()]
    output.print_rows("Importers", rows, {"importers": rows}, format="--from", reads="what it reads")


@verb()
def plugins(*, output: Output) -> None:
    """List what installed packages add, such as metrics, models or sections of the report; which failed, and why.

    A package adds a metric by an entry point in the group goldless.metrics. A broken plugin never stops goldless.

    Example:
      goldless list plugins
    """
    from goldless.plugins import GROUPS

    names = ("group", "name", "package", "version", "failure")
    found = [one for place in CATALOGUES for one in resolve_name(place).plugins()]
    rows = [{name: getattr(one, name) for name in names} | {"usable": one.failure is None} for one in found]
    headings = {name: name for name in names} | {"failure": "cannot be used because"}
    output.print_rows("Plugins", rows, {"groups": list(GROUPS), "plugins": rows}, **headings)
    if not rows:
        say(f"no installed package adds anything. Entry-point groups: {', '.join(GROUPS)}")
    if failed := sum(not row["usable"] for row in rows):
        say(f"cannot be used: {failed} of {len(rows)}", style="yellow")


list_verbs = verbs_app("List metrics, models, importers or plugins.", metrics, models, importers, plugins)


@dataclass(frozen=True, kw_only=True)
class Shell:
    shell: Literal["bash", "zsh", "fish"] = argument("SHELL", "bash, zsh or fish.")


@verb()
def completion(own: Shell) -> None:
    """Print a script that makes the Tab key complete verbs, options, metrics, models and run folders.

    bash: add the line eval "$(goldless config completion bash)" to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after
    compinit. fish: write it to ~/.config/fish/completions/goldless.fish.

    Examples:
      goldless config completion bash
      goldless config completion fish
    """
    from typer._completion_shared import get_completion_script

    made = get_completion_script(prog_name="goldless", complete_var="_GOLDLESS_COMPLETE", shell=own.shell)
    typer.echo(made)


@dataclass(frozen=True, kw_only=True)
class ConfigShowing:
    of: list[str] | None = argument("[VERB]", "Show every option of this verb, such as score.", None)


@verb()
def show(own: ConfigShowing, output: Output) -> None:
    """Show what goldless.toml, or [tool.goldless] in pyproject.toml, sets, with file and line; all of it is checked.

    With a verb: every option of it, its value, and whether that is a setting or the default. The command line always
    wins. GOLDLESS_CONFIG names another file, or none.

    Examples:
      goldless config show
      goldless config show score
    """
    found, rows = settings(), []
    if own.of:
        options, set_here = _checked(tuple(own.of), found)
        for name, one in ((name, one) for name, one in options.items() if not one.argument):
            value, keys = set_here.get(name, (one.plain_default, ()))
            place = found.place(keys) if keys else "default"
            rows.append((" ".join(own.of), one.flags[0].partition("/")[0].removeprefix("--"), value, place))
    else:
        for path in dict.fromkeys(keys[:-1] or ("score",) for keys in found.entries if keys[0] != "models"):
            _checked(path, found)
        for keys, value in found.entries.items():
            rows.append((" ".join(keys[:-1]) or "every verb that has it", keys[-1], value, found.place(keys)))
    title = f"Options of goldless {' '.join(own.of)}" if own.of else f"Settings in {found.path or 'no file'}"
    listed = [dict(zip(("verb", "setting", "value", "from"), map(_text, row), strict=True)) for row in rows]
    headings = {"setting": "setting", "value": "value", "from": "from", "verb": "for"}
    output.print_rows(title, listed, {"file": _text(found.path), "settings": listed}, **headings)
    if not listed:
        say(NO_FILE)


@verb()
def trust() -> None:
    """Trust the settings file of this folder, as it is now, with settings that run code, name servers or send keys.

    Settings of that kind are not used from a file you have not trusted. They are listed; read the file first. A change
    of the settings asks again.

    Example:
      goldless config trust
    """
    found = settings()
    if found.path is None:
        raise UserError(NO_FILE)
    found.trust()
    for line in found.dangers():
        say(line)
    say(f"trusted: {found.path}")


config_verbs = verbs_app("Show or trust the project's settings, or print shell completion.", completion, show, trust)


def _checked(path: Keys, file: Settings) -> tuple[Mapping[str, Option], Set]:
    """The options of a verb, and what the file sets for it."""
    from goldless.cli.main import QUESTIONS
    from goldless.cli.main import app as goldless

    command: Any = typer.main.get_command(goldless)
    file.check(command.list_commands(None))
    question = " --".join(path)
    for i, word in enumerate([question] if question in QUESTIONS else path):
        names = [] if isinstance(command, Command) else [*command.list_commands(None), *QUESTIONS]
        if word not in names:
            before = " ".join(("goldless", *path[:i]))
            raise UserError(f"VERB must be a verb of {before}, got {word!r}{nearest(word, names)}")
        command = command.get_command(None, word)
    if not isinstance(command, Command):
        raise UserError(f"VERB must be one verb, got {' '.join(path)!r}. Try one of {', '.join(command.commands)}")
    return command.verb.options, file.for_verb(path, command.verb.options)


def _text(value: Any) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
