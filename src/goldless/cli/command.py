"""How verbs are declared: their own arguments, the run options they take by name, and their output."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from goldless.cli.console import say
from goldless.cli.output import Format, Output
from goldless.cli.settings_file import Keys, Settings, settings
from goldless.cli.usage_errors import UsageError, must_be
from goldless.errors import UserError
from goldless.runs.option_forms import declared, defaults, flag_names, split, taken
from goldless.runs.options import Options

OUTPUT = "Output"
RUN_FOLDER = "Write results and evidence to this folder."
RESULT_FOLDER = "Write the result to this folder, beside other results of the study."

StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A file with columns task, agent and text, a study folder, a run folder, results of another tool, - for "
        "standard input, or sample.",
    ),
]
FORMATS = (
    "study, table, inspect, lm_eval, promptfoo, alpaca_eval, every_eval_ever, mt_bench, arena_hard, arena_votes, "
    "helm, lighteval, traces"
)
"""Formats as the help lists them; plugins may add others."""
FilesArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILES",
        help="Files, folders or - for standard input. The first word may be their format, which is recognised "
        f"otherwise: {FORMATS}.",
    ),
]
READING = "Reading the study"
EXAMPLE_COLUMNS = "--columns task=id,agent=model,text=output"
METAVARS = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH", bool: ""}
"""What the help shows for a type, where the option itself does not say it."""
READING_PARAMETERS = ("importer", "columns", "wide", "repeats")
Repeats = Literal["samples", "first", "agents", "tasks"]
SETTINGS = "goldless.settings"
"""Where a command's context keeps the settings that were made for it."""
OUTPUT_PARAMETERS = ("out_folder", "table", "json_only", "verbose", "signature")


class Command(TyperCommand):
    """A verb: options that are not given are as the project's settings say; its help shows no types for arguments."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The parsed command line."""
        set_for_verb: Mapping[str, tuple[Any, Keys]] = {}
        if parent is not None:
            verbs = list(parent.find_root().command.commands)
            set_for_verb = self.settings((*parent.command_path.split()[1:], str(info_name)), verbs)
        extra["default_map"] = {name: value for name, (value, _) in set_for_verb.items()}
        words = [word.partition("=")[0] for word in args]
        try:
            made = super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            wrong: Any = error
            option = getattr(wrong, "param", None)
            if option is None or option.name not in set_for_verb or set(option.opts) & set(words):
                raise
            value, keys = set_for_verb[option.name]
            said = f"{keys[-1]} must be {must_be(wrong.message)}, got {value!r}"
            raise settings().problem(keys, said) from None
        made.meta[SETTINGS] = set_for_verb
        return made

    def settings(self, verb: Keys, verbs: Sequence[str]) -> Mapping[str, tuple[Any, Keys]]:
        """What the project's file sets for this one of the verbs."""
        if (found := settings()).path is None:
            return {}
        found.check(verbs)
        return found.for_verb(verb, [one for one in self.params if one.param_type_name == "option"])

    def invoke(self, ctx: Any) -> Any:
        """Run the verb with the project's settings, where these may be used, and with models by their full names."""
        if (found := settings()).path is not None:
            self._use(found, ctx)
        return super().invoke(ctx)

    def _use(self, found: Settings, ctx: Any) -> None:
        """Say what settings are used, and require trust where they need it."""
        from goldless.cli.trust import danger, require_trust, said

        assert found.path is not None
        used, dangers = [], []
        for one in self.params:
            if ctx.get_parameter_source(one.name).name == "DEFAULT_MAP":
                value, keys = ctx.meta[SETTINGS][one.name]
                used.append(one.opts[0].lstrip("-"))
                is_path = re.search("FOLDER|FILE|PATH", one.metavar or "") is not None
                reason = danger(value, found.path.parent if is_path else None)
                dangers += [said(found, keys, value, reason)] if reason else []
        for one in self.params:
            if "MODEL" in (one.metavar or ""):
                given = ctx.params[one.name]
                for name in found.short_names(given):
                    model, keys = found.models[name], ("models", name)
                    used.append(f"{name} = {model}")
                    reason = danger(model)
                    dangers += [said(found, keys, model, reason)] if reason else []
                ctx.params[one.name] = found.full_names(given, keep_names=one.name == "reviewers")
        if used:
            say(f"settings from {found.path}: {', '.join(used)}", style="dim")
        require_trust(found, dangers)

    def get_help_option(self, ctx: Any) -> Any:
        """The option that shows the help."""
        return _untyped(super().get_help_option(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda **_: None  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """Verbs under one name; the help shows no type for ``--help``."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option that shows the help."""
        return _untyped(super().get_help_option(ctx))


def _untyped(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


def verbs_app(help: str, **more: Any) -> typer.Typer:  # noqa: A002
    """An application of several verbs."""
    settings: dict[str, Any] = {"cls": Group, "no_args_is_help": True} | more
    return typer.Typer(
        help=help,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        **settings,
    )


def own(help: str, panel: str | None = None, flags: str = "", *, default: str = "", **more: Any) -> Any:  # noqa: A002
    """An option of one verb alone.

    ``flags``: ``--long -s METAVAR``, where that is not as the parameter says; ``default``: the default as the help
    shows it, where that is not the value.
    """
    names, metavar = flag_names(flags)
    said = _markup(help) + (f"  [dim]\\[default: {_markup(default)}][/dim]" if default else "")
    settings = {"help": said, "rich_help_panel": panel, "metavar": metavar} | more
    return typer.Option(*names, **settings | ({"show_default": False} if default else {}))


def like(name: str, help: str = "", *, default: str | None = None) -> Any:  # noqa: A002
    """The run option of that name, for a verb that passes its words on in another way."""
    option = declared(Options)[name]
    flags = " ".join((*option.flags, option.metavar or ""))
    return own(help or option.help, option.group, flags, default=option.default_text if default is None else default)


def _markup(text: str) -> str:
    """Text with rich's markup escaped."""
    return re.sub(r"(\[[a-z#/@])", r"\\\1", text)


def verb(
    *takes: str,
    without: Collection[str] = (),
    first: Sequence[str] = (),
    usual: Mapping[str, Any] | None = None,
    helps: Mapping[str, str] | None = None,
    out: str = "",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command of a verb.

    ``takes``: groups of run options, or single ones, passed as the function's ``options``; ``without``: those it has no
    use for; ``usual``: defaults of its own; ``helps``: help texts of its own. ``first``: the parameters of the options
    that matter, shown before all others. A function with a parameter ``output`` gets ``--format``, ``--json`` and
    ``--verbose``, and ``--out`` where ``out`` says what is written there. The docstring is the help; lines of its last
    paragraph that start with ``goldless`` are examples.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = dict(inspect.signature(command, eval_str=True).parameters)
        names = [
            name
            for name in taken(Options, takes)
            if name not in {*parameters, *without} and declared(Options)[name].flags
        ]
        shared = [_parameter(name, (helps or {}).get(name, ""), usual or {}) for name in names]
        shown = list(_output_parameters(out)) if "output" in parameters else []
        studies = [name for name, one in parameters.items() if one.annotation in (StudyArgument, FilesArgument)]
        for name in studies:
            several = Annotated[list[str], _info(parameters[name])]
            parameters[name] = parameters[name].replace(annotation=several)
            shown = [*_reading_parameters(), *shown]
        given_whole = {"options", "output"}
        arranged = _arranged([p for p in parameters.values() if p.name not in given_whole], shared, shown, first)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            if "options" in parameters:
                given["options"] = _options({name: given.pop(name) for name in names}, usual or {})
            if "output" in parameters:
                folder, shown_as, as_json, verbose, whole = (given.pop(p, None) for p in OUTPUT_PARAMETERS)
                given["output"] = Output(
                    "json" if as_json else shown_as, folder, verbose=bool(verbose), signatures=bool(whole)
                )
            for name in studies:
                given[name] = given_study(given[name], **{option: given.pop(option) for option in READING_PARAMETERS})
            command(**given)

        run.__signature__ = inspect.Signature(arranged)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in arranged}
        run.__doc__ = _help_text(command.__doc__ or "")
        return run

    return decorate


def _help_text(doc: str) -> str:
    """The docstring with paragraphs as one line each and examples as lines of their own."""
    *paragraphs, last = inspect.cleandoc(doc).split("\n\n")
    examples = [line.strip() for line in last.splitlines() if line.strip().startswith("goldless ")]
    if not examples:
        paragraphs.append(last)
    written = [_markup(" ".join(paragraph.split())) for paragraph in paragraphs]
    if examples:
        title = "[bold]Examples:[/]" if len(examples) > 1 else "[bold]Example:[/]"
        written.append("\n".join((title, *(f"[dim]$[/] {_markup(line)}" for line in examples))))
    return "\n\n".join(written)


def _parameter(name: str, said: str, usual: Mapping[str, Any]) -> inspect.Parameter:
    """A run option as a parameter of a command; None where it is not given and its value is not a single word."""
    shown = ", ".join(map(str, usual[name])) if name in usual else None
    default = defaults(Options)[name]
    typed = declared(Options)[name].form.typed
    if not isinstance(default, str | int | float):
        default, typed = None, typed | None
    return _keyword(name, typed, default, like(name, said, default="" if "(default:" in said else shown))


def _keyword(name: str, typed: Any, default: Any, info: Any) -> inspect.Parameter:
    annotation = Annotated[typed, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _options(words: Mapping[str, Any], usual: Mapping[str, Any]) -> Options:
    given = {name: declared(Options)[name].parse(value) for name, value in words.items() if value is not None}
    return Options(**{**usual, **given})


def _reading_parameters() -> Iterable[inspect.Parameter]:
    """How the files of a study are read."""
    said = "Format of the files, as goldless import lists them (default: recognised by content)."
    yield _keyword("importer", str | None, None, own(said, READING, "--from FORMAT"))
    said = f"Columns of a plain table, such as {EXAMPLE_COLUMNS.partition(' ')[2]}."
    yield _keyword("columns", list[str] | None, None, own(said, READING, "--columns NAME=COLUMN"))
    said = "Read a table with one row per task and one column per agent."
    yield _keyword("wide", bool, False, own(said, READING, "--wide"))
    said = (
        "If an agent has several responses to a task: average over samples (default for logs), keep the first, or make "
        "more agents or tasks of them (NAME#2)."
    )
    yield _keyword("repeats", Repeats | None, None, own(said, READING, "--repeats"))


def given_study(paths: Sequence[str], *, columns: Sequence[str] | None = None, **options: Any) -> Any:
    """The study of these files, to be read by ``as_study``; what was read is said on standard error."""
    from goldless.cli.imported import tell_import
    from goldless.studies.reading import StudyFiles

    given = {"columns": _columns(columns), **options}
    return StudyFiles(paths, {name: value for name, value in given.items() if value}, tell_import)


def as_words(study: str) -> str:
    """A study as it is given on a command line, with the options by which it is read."""
    options = getattr(study, "options", {})
    words = list(getattr(study, "paths", (study,)))
    cells = [f"{name}={one}" for name, given in (options.get("columns") or {}).items() for one in given]
    words += ["--columns", ",".join(cells)] if cells else []
    words += ["--wide"] if options.get("wide") else []
    named = {"--from": options.get("importer"), "--repeats": options.get("repeats")}
    words += [word for flag, value in named.items() if value for word in (flag, value)]
    return shlex.join(words)


def _columns(given: Sequence[str] | None) -> dict[str, list[str]] | None:
    found: dict[str, list[str]] = {}
    for word in split(given or ()):
        name, equals, column = word.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise UserError(f"--columns must be NAME=COLUMN, got {word!r}. Try {EXAMPLE_COLUMNS}")
        found.setdefault(name.strip(), []).append(column.strip())
    return found or None


def _output_parameters(out: str) -> Iterable[inspect.Parameter]:
    if out:
        yield _keyword("out_folder", Path | None, None, own(out, OUTPUT, "--out FOLDER"))
    yield _keyword("table", Format, "rich", own("Format of the tables on standard output.", OUTPUT, "--format"))
    said = "Print one JSON object on standard output (same as --format json)."
    yield _keyword("json_only", bool, False, own(said, OUTPUT, "--json"))
    said = "Also print signatures, each on one line, and numeric details."
    yield _keyword("verbose", bool, False, own(said, OUTPUT, "--verbose -v"))
    said = "Print signatures in full: how exactly each number was made."
    yield _keyword("signature", bool, False, own(said, OUTPUT, "--signature"))


def _arranged(
    own_ones: Iterable[inspect.Parameter],
    shared: Iterable[inspect.Parameter],
    shown: Iterable[inspect.Parameter],
    first: Sequence[str],
) -> list[inspect.Parameter]:
    """Arguments, then the options that matter, then the others."""
    found = {parameter.name: _with_metavar(parameter) for parameter in (*own_ones, *shared, *shown)}
    arguments = [p for p in found.values() if isinstance(_info(p), ArgumentInfo)]
    return [
        *arguments,
        *(_before_others(found[name]) for name in first),
        *(p for p in found.values() if p not in arguments and p.name not in first),
    ]


def _info(parameter: inspect.Parameter) -> Any:
    return get_args(parameter.annotation)[1]


def _with_metavar(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with a word for its value, where it is neither named nor one of several words."""
    typed, info = get_args(parameter.annotation)[:2]
    kinds = [kind for kind in get_args(typed) if kind is not type(None)] if isinstance(typed, UnionType) else [typed]
    kind = get_args(kinds[0])[0] if get_origin(kinds[0]) is list else kinds[0]
    if info.metavar is not None or kind not in METAVARS:
        return parameter
    info = copy.copy(info)
    info.metavar = METAVARS[kind]
    return parameter.replace(annotation=Annotated[typed, info])


def _before_others(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter outside of all panels."""
    info = copy.copy(_info(parameter))
    info.rich_help_panel = None
    return _keyword(parameter.name, get_args(parameter.annotation)[0], parameter.default, info)
