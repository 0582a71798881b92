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
    *("goldless.metrics.catalogue:CATALOGUE", "goldless.user_metrics:FORMS", "goldless.models.catalogue:PROVIDERS"),
    *("goldless.meta_evaluation.perturbations.catalogue:CATALOGUE", "goldless.studies.importers:IMPORTERS"),
    *("goldless.exporting.catalogue:EXPORTERS", "goldless.reports.html.page:CATALOGUE", "goldless.cli.main:ADDED"),
    "goldless.judging.review_stages:CATALOGUE",
)
"""Where plugins come in, by entry point or as apps of ours."""
PLUGIN_COLUMNS = ("group", "name", "package", "version", "failure")


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    kind: Literal["metrics", "models", "importers", "plugins"] | None = argument(
        "[KIND]", "metrics, models, importers or plugins (default: an overview).", None
    )


@verb()
def list_(verb_options: ListOptions, output: Output) -> None:
    """List metrics, ways to name a model, formats that studies are read from, or what installed packages add.

    A package adds a metric by an entry point in the group goldless.metrics. A broken plugin never stops goldless.

    Examples:
      goldless list
      goldless list metrics
    """
    listings = {
        "metrics": _list_metrics,
        "models": _list_models,
        "importers": _list_importers,
        "plugins": _list_plugins,
    }
    if verb_options.kind is not None:
        listings[verb_options.kind](output)
        return
    rows = [
        {"kind": "metrics", "number": len(_metric_rows()), "what": "what a score can measure"},
        {"kind": "models", "number": len(_model_rows()), "what": "ways to name a model"},
        {"kind": "importers", "number": len(_importer_rows()), "what": "formats that a study is read from"},
        {"kind": "plugins", "number": len(_plugin_rows()), "what": "additions of installed packages"},
    ]
    output.print_rows("What there is", rows, {"kinds": rows}, kind="goldless list", number="number", what="what")


def _metric_rows() -> list[dict[str, Any]]:
    """The metrics with what each measures: ours, those of installed packages, and the forms of custom ones."""
    from goldless.metrics.catalogue import CATALOGUE, METRICS
    from goldless.user_metrics import metric_forms

    of_packages = {name: f"from {plugin.package}" for name, plugin in CATALOGUE.of_packages().items()}
    return [{"metric": name, "measures": text} for name, text in {**METRICS, **of_packages, **metric_forms()}.items()]


def _list_metrics(output: Output) -> None:
    rows = _metric_rows()
    output.print_rows("Metrics", rows, {"metrics": rows}, metric="metric", measures="what it measures")


def _model_rows() -> list[dict[str, Any]]:
    from goldless.models.catalogue import forms

    return [asdict(form) for form in forms()]


def _list_models(output: Output) -> None:
    from goldless.models.embedded import find_embedded

    rows, path = _model_rows(), find_embedded()
    data = {"models": rows, "embedded": None if path is None else str(path)}
    output.print_rows("Models", rows, data, form="written as", purpose="what it is")
    say(f"embedded: {'not fetched yet (goldless doctor embedded does it)' if path is None else path}")


def _importer_rows() -> list[dict[str, Any]]:
    from goldless.studies.importers import IMPORTERS

    return [{"format": name, "reads": importer.description} for name, importer in IMPORTERS.all().items()]


def _list_importers(output: Output) -> None:
    rows = _importer_rows()
    output.print_rows("Importers", rows, {"importers": rows}, format="--from", reads="what it reads")


def _plugin_rows() -> list[dict[str, Any]]:
    plugins = [plugin for place in CATALOGUES for plugin in resolve_name(place).plugins()]
    return [
        {name: getattr(plugin, name) for name in PLUGIN_COLUMNS} | {"usable": plugin.failure is None}
        for plugin in plugins
    ]


def _list_plugins(output: Output) -> None:
    from goldless.plugins import GROUPS

    rows = _plugin_rows()
    headings = {name: name for name in PLUGIN_COLUMNS} | {"failure": "cannot be used because"}
    output.print_rows("Plugins", rows, {"groups": list(GROUPS), "plugins": rows}, **headings)
    if not rows:
        say(f"no installed package adds anything. Entry-point groups: {', '.join(GROUPS)}")
    if failed := sum(not row["usable"] for row in rows):
        say(f"cannot be used: {failed} of {len(rows)}", style="yellow")


@dataclass(frozen=True, kw_only=True)
class Shell:
    shell: Literal["bash", "zsh", "fish"] = argument("SHELL", "bash, zsh or fish.")


@verb()
def completion(verb_options: Shell) -> None:
    """Print a script that makes the Tab key complete verbs, options, metrics, models and run folders.

    bash: add the line eval "$(goldless config completion bash)" to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after
    compinit. fish: write it to ~/.config/fish/completions/goldless.fish.

    Examples:
      goldless config completion bash
      goldless config completion fish
    """
    from typer._completion_shared import get_completion_script

    made = get_completion_script(prog_name="goldless", complete_var="_GOLDLESS_COMPLETE", shell=verb_options.shell)
    typer.echo(made)


@dataclass(frozen=True, kw_only=True)
class ConfigShowOptions:
    of: list[str] | None = argument("[VERB]", "Show every option of this verb, such as score.", None)


@verb()
def show(verb_options: ConfigShowOptions, output: Output) -> None:
    """Show what goldless.toml, or [tool.goldless] in pyproject.toml, sets, with file and line; all of it is checked.

    With a verb: every option of it, its value, and whether that is a setting or the default. The command line always
    wins. GOLDLESS_CONFIG names another file, or none.

    Examples:
      goldless config show
      goldless config show score
    """
    found, rows = settings(), []
    if verb_options.of:
        options, set_here = _checked(tuple(verb_options.of), found)
        for name, one in ((name, one) for name, one in options.items() if not one.argument):
            value, keys = set_here.get(name, (one.plain_default, ()))
            place = found.place(keys) if keys else "default"
            rows.append((" ".join(verb_options.of), one.flags[0].partition("/")[0].removeprefix("--"), value, place))
    else:
        for path in dict.fromkeys(keys[:-1] or ("score",) for keys in found.entries if keys[0] != "models"):
            _checked(path, found)
        for keys, value in found.entries.items():
            rows.append((" ".join(keys[:-1]) or "every verb that has it", keys[-1], value, found.place(keys)))
    title = (
        f"Options of goldless {' '.join(verb_options.of)}"
        if verb_options.of
        else f"Settings in {found.path or 'no file'}"
    )
    listed = [dict(zip(("verb", "setting", "value", "from"), map(_text, row), strict=True)) for row in rows]
    headings = {"setting": "setting", "value": "value", "from": "from", "verb": "for"}
    output.print_rows(title, listed, {"file": _text(found.path), "settings": listed}, **headings)
    if not listed:
        say(NO_FILE)


config_verbs = verbs_app("Show the project's settings, or print shell completion.", completion, show)


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
