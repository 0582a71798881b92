"""How a verb is declared: a dataclass of its own options, the run options it takes, and one function."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from goldless.cli.console import say
from goldless.cli.output import Format, Output, tell_result
from goldless.cli.settings_file import Keys, Settings, settings
from goldless.cli.usage_errors import UsageError, must_be
from goldless.errors import UserError
from goldless.runs.option_forms import (
    Form,
    Option,
    check_each,
    declared,
    defaults,
    one_of,
    option,
    split,
    taken,
)
from goldless.runs.options import Options

OUTPUT = "Output"
READING = "Reading the study"
RUN_FOLDER = "Write results and evidence to this folder."
RESULT_FOLDER = "Write the result to this folder, beside other results of the study."
EXAMPLE_COLUMNS = "--columns task=id,agent=model,text=output"
FORMATS = (
    "study, table, inspect, lm_eval, promptfoo, alpaca_eval, every_eval_ever, mt_bench, arena_hard, arena_votes, "
    "helm, lighteval, traces"
)
"""Formats as the help lists them; plugins may add others."""
STUDIES = {
    "study": typer.Argument(
        metavar="STUDY",
        help="A file with columns task, agent and text, a study folder, a run folder, results of another tool, - for "
        "standard input, or sample.",
    ),
    "files": typer.Argument(
        metavar="FILES",
        help="Files, folders or - for standard input. The first word may be their format, which is recognised "
        f"otherwise: {FORMATS}.",
    ),
}
"""Parameters of a verb's function that are a study."""
METAVARS = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH", bool: ""}
"""What the help shows for a type, where the option itself does not say it."""
MOST_OPTIONS = 13
"""How many options a help shows beside --help."""
COMMON = ("out_folder", "json_only", "columns", "peers", "until", "budget_usd", "compare", "verbose")
"""Options that a help shows, if the verb has them, beside those that come first and its own."""
QUESTIONS = "Other questions, each with a help of its own"
SETTINGS = "goldless.settings"
"""Where a command's context keeps the settings that were made for it."""


class Command(TyperCommand):
    """A verb: options that are not given are as the project's settings say; its help shows those that matter most."""

    matter: Sequence[str] = ()
    """Options that the help shows, unless all are asked for; none: those that come first."""
    shows_all = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The parsed command line."""
        set_for_verb: Mapping[str, tuple[Any, Keys]] = {}
        if parent is not None:
            tables = getattr(parent.find_root().command, "tables", ())
            set_for_verb = self.settings((*parent.command_path.split()[1:], str(self.name)), tables)
        extra["default_map"] = {name: value for name, (value, _) in set_for_verb.items()}
        self.shows_all = "--help-all" in args
        args = ["--help"] if self.shows_all else args
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
        """Print the help, with the options that matter most unless all are asked for."""
        options = [one for one in self.params if isinstance(one, TyperOption) and not one.hidden]
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda **_: None  # type: ignore[attr-defined]
        if self.shows_all or len(options) <= MOST_OPTIONS:
            super().format_help(ctx, formatter)
            return
        matter = self.matter or [one.name for one in options[:MOST_OPTIONS]]
        shown = copy(self)
        shown.epilog = f"[bold]{ctx.command_path} --help-all[/] shows all {len(options)} options."
        shown.params = [copy(one) for one in self.params if one not in options or one.name in matter]
        for one in shown.params:
            if isinstance(one, TyperOption) and one.rich_help_panel != QUESTIONS:
                one.rich_help_panel = None
        super(Command, shown).format_help(ctx, formatter)


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


def _columns(given: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in split(given):
        name, equals, column = word.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise UserError(f"--columns must be NAME=COLUMN, got {word!r}. Try {EXAMPLE_COLUMNS}")
        found.setdefault(name.strip(), []).append(column.strip())
    return found


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The own options of a verb that has none."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the files of a study are read."""

    importer: str | None = option(
        None,
        "Format of the files, as goldless study import lists them (default: recognised by content).",
        "--from FORMAT",
        group=READING,
    )
    columns: Mapping[str, str | Sequence[str]] | None = option(
        None,
        f"Columns of a plain table, such as {EXAMPLE_COLUMNS.partition(' ')[2]}.",
        "NAME=COLUMN",
        form=Form(list[str], parse=_columns),
    )
    wide: bool = option(False, "Read a table with one row per task and one column per agent.")
    repeats: str | None = option(
        None,
        "If an agent has several responses to a task: average over samples (default for logs), keep the first, or make "
        "more agents or tasks of them (NAME#2).",
        form=one_of("samples", "first", "agents", "tasks"),
    )


@dataclass(frozen=True, kw_only=True)
class Showing:
    """Where a result goes, and how it is shown."""

    out_folder: Path | None = option(None, RESULT_FOLDER, "--out FOLDER", group=OUTPUT)
    table: Format = option(
        "rich",
        "Format of the tables on standard output.",
        "--format",
        form=one_of("rich", "markdown", "csv", "json", "latex"),
    )
    json_only: bool = option(False, "Print one JSON object on standard output (same as --format json).", "--json")
    verbose: bool = option(False, "Also print signatures, each on one line, and numeric details.", "--verbose -v")
    signature: bool = option(False, "Print signatures in full: how exactly each number was made.")

    def output(self) -> Output:
        """The output of a verb."""
        shown_as: Format = "json" if self.json_only else self.table
        return Output(shown_as, self.out_folder, verbose=self.verbose, signatures=self.signature)


def same(name: str, default: Any, help: str = "", **more: Any) -> Any:  # noqa: A002
    """A field of a verb's own options that is like the run option of that name; ``more``: what is otherwise."""
    found = declared(Options)[name]
    return field(default=default, metadata={"option": replace(found, help=help or found.help, **more)})


def verb(*takes: str, **settings: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function a verb; ``takes``: groups of run options, or single ones; the rest is as ``Verb`` says."""
    return lambda work: Verb(work, takes, **settings)


class Verb:
    """A verb, declared by one function and a dataclass: its command, and what a Python function is made from.

    The function is given ``own``, the verb's own options, ``options``, the run options that it takes, and the
    ``study``, read from files. Either it returns a result, which is shown as ``told`` says, or it takes the ``output``
    and prints by itself. Its docstring is the help; lines of the last paragraph that start with ``goldless`` are
    examples.

    - ``takes``: groups of run options, or single ones; ``without``: those of them that it has no use for.
    - ``usual``: defaults of its own for these; ``helps``: help texts of its own.
    - ``first``: the options that matter, shown before all others.
    - ``out``: what ``--out`` writes; ``keeps_evidence``: that replaces the evidence in the folder.
    - ``averages_samples``: it knows that several samples are of one agent.
    - ``opens``: makes a study of what only Python can give.
    - ``questions``: options that ask something else, with another help, and what that is.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        takes: Sequence[str] = (),
        *,
        without: Collection[str] = (),
        usual: Mapping[str, Any] | None = None,
        helps: Mapping[str, str] | None = None,
        first: Sequence[str] = (),
        out: str = "",
        keeps_evidence: bool = False,
        averages_samples: bool = False,
        opens: Callable[[Any], Any] | None = None,
        questions: Mapping[str, str] | None = None,
    ) -> None:
        self.work, self.own, self.opens = work, _own_options(work), opens
        self.usual, self.keeps_evidence, self.averages_samples = usual or {}, keeps_evidence, averages_samples
        self.given = set(inspect.signature(work).parameters)
        self.study = next((name for name in STUDIES if name in self.given), None)
        self.returns = work.__annotations__["return"] != "None"
        self.takes = [name for name in taken(Options, takes) if name not in {*declared(self.own), *without}]
        self.questions = {flag.removeprefix("--"): line for flag, line in (questions or {}).items()}
        chosen = dict.fromkeys((*first, *declared(self.own), *COMMON))
        self.matter = (*list(chosen)[: MOST_OPTIONS - len(self.questions)], *self.questions)
        self._tell: Callable[..., None] = tell_result
        self.__name__, self.__doc__ = work.__name__, _help_text(work.__doc__ or "")
        arranged = self._arranged(helps or {}, first, out)
        self.__signature__ = inspect.Signature(arranged)
        self.__annotations__ = {one.name: one.annotation for one in arranged}

    def told(self, tell: Callable[..., None]) -> Callable[..., None]:
        """Show results on the command line as this function does: it is given the result and the output.

        By name it is also given ``own``, ``options``, ``source``, the study that was read, and ``study``, its words.
        """
        self._tell = tell
        return tell

    def _arranged(self, helps: Mapping[str, str], first: Sequence[str], out: str) -> list[inspect.Parameter]:
        """What the command takes, for typer: arguments, then the options that matter, then the others."""
        found: dict[str, tuple[Option, Any]] = {}
        for name in self.takes:
            one, said = declared(Options)[name], helps.get(name, "")
            shown = ", ".join(map(str, self.usual[name])) if name in self.usual else one.shown
            one = replace(one, help=said or one.help, shown="" if "(default:" in said else shown)
            found |= {name: (one, defaults(Options)[name])} if one.flags else {}
        prints = self.returns or "output" in self.given
        groups = [self.own, *[Reading] * (self.study is not None), *[Showing] * prints]
        mine, *others = ({name: (one, defaults(of)[name]) for name, one in declared(of).items()} for of in groups)
        found = mine | found | {name: one for group in others for name, one in group.items()}
        if out:
            found["out_folder"] = replace(found["out_folder"][0], help=out), None
        else:
            found.pop("out_folder", None)
        arguments = [name for name, (one, _) in found.items() if one.argument]
        study = [] if self.study is None else [_keyword(self.study, list[str], STUDIES[self.study])]
        order = [*arguments, *first, *(name for name in found if name not in {*arguments, *first})]
        options = [_parameter(name, *found[name], matters=name in first) for name in order]
        other = {
            name: typer.Option(f"--{name}", help=line, rich_help_panel=QUESTIONS, metavar="")
            for name, line in self.questions.items()
        }
        return [*study, *options, *(_keyword(name, bool, info, False) for name, info in other.items())]

    def __call__(self, **words: Any) -> None:
        """Run the command with the words of a command line."""
        words = {name: value for name, value in words.items() if name not in self.questions}
        output = _parsed(Showing, words).output()
        shared = {name: words.pop(name, None) for name in self.takes}
        given = {name: declared(Options)[name].parse(value) for name, value in shared.items() if value is not None}
        options = Options(**{**self.usual, **given})
        study = None
        if self.study is not None:
            from goldless.cli.imported import tell_import
            from goldless.studies.reading import StudyFiles

            reading = vars(_parsed(Reading, words))
            study = StudyFiles(words.pop(self.study), {name: one for name, one in reading.items() if one}, tell_import)
        own_ones = _parsed(self.own, words)
        if not self.returns:
            self.begin(study, own_ones, options, output)
            return
        found, source = output.run(self, study, own_ones, options)
        more = {"own": own_ones, "options": options, "source": source, "study": study}
        wanted = inspect.signature(self._tell).parameters
        self._tell(found, output, **{name: one for name, one in more.items() if name in wanted})

    def begin(self, study: Any, own_ones: Any, options: Options, output: Output | None = None) -> Any:
        """Call the function; its result, or what is awaited for it."""
        check_each(own_ones)
        given = {self.study: study, "own": own_ones, "options": options, "output": output}
        return self.work(**{name: value for name, value in given.items() if name in self.given})


def _own_options(work: Callable[..., Any]) -> Any:
    """The dataclass of a function's own options."""
    named = work.__annotations__.get("own")
    return NoOptions if named is None else vars(inspect.getmodule(work))[named]


def _parsed(model: Any, words: dict[str, Any]) -> Any:
    """The options of a dataclass, taken out of the words of a command line; None: as by default."""
    found = {}
    for name, one in declared(model).items():
        value = words.pop(name, None)
        if value is not None:
            found[name] = one.parse(value)
            if not one.form.allows(found[name]):
                raise UserError(f"{one.flags[0]} must be {one.form.must_be}, got {found[name]!r}")
        elif defaults(model)[name] is MISSING:
            found[name] = None
    return model(**found)


def _parameter(name: str, one: Option, default: Any, *, matters: bool) -> inspect.Parameter:
    """An option as typer knows it: None where it is not given and its default is not a single word."""
    typed = one.form.typed
    kinds = [kind for kind in get_args(typed) if kind is not type(None)] if isinstance(typed, UnionType) else [typed]
    kind = get_args(kinds[0])[0] if get_origin(kinds[0]) is list else kinds[0]
    metavar = one.metavar or (METAVARS.get(kind) if isinstance(kind, type) else None)
    said = _markup(one.help)
    if default is MISSING and not one.may_lack:
        default = inspect.Parameter.empty
    elif not isinstance(default, str | int | float | Path):
        default, typed = None, typed | None
    if one.argument:
        return _keyword(name, typed, typer.Argument(metavar=metavar, help=said), default)
    shown: dict[str, Any] = {"rich_help_panel": None if matters else one.group, "metavar": metavar}
    if one.shown:
        said += f"  [dim]\\[default: {_markup(one.shown)}][/dim]"
        shown["show_default"] = False
    return _keyword(name, typed, typer.Option(*one.flags, help=said, **shown | dict(one.typer)), default)


def _keyword(name: str, typed: Any, info: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[typed, info])


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


def _markup(text: str) -> str:
    """Text with rich's markup escaped."""
    return re.sub(r"(\[[a-z#/@])", r"\\\1", text)


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
