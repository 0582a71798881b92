"""A verb is declared in one place: a dataclass of its own options, the run options it takes, and one function."""

from __future__ import annotations

import inspect
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from goldless.cli.console import end
from goldless.cli.output import OUTPUT, RESULT_FOLDER, Output, tell_import
from goldless.cli.settings_file import Set, Settings, settings
from goldless.runs.option_forms import LINES, REQUIRED, Option, OptionForm, check_each, declared, option, parsed, split
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.studies import Study

__all__ = ["OUTPUT", "RESULT_FOLDER", "Command", "Reading", "Verb", "same", "verb", "verbs_app"]

READING = "Reading the study"
RUN_FOLDER = "Write results and evidence to this folder."
STUDY = Option(
    "A file with columns task, agent and text, a study folder, a run folder, results of another tool, - for standard "
    "input, or sample for the one that comes with goldless.",
    metavar="STUDY",
    form=LINES,
    argument=True,
    default=REQUIRED,
)
METAVARS = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH", bool: ""}
"""The placeholder that the help shows for a type, where the option itself names none."""
MOST_OPTIONS = 10
"""The number of options that a help shows beside --help."""
COMMON = ("folder", "shown_as", "columns", "peers", "until", "budget_usd", "compare", "verbose")
"""Options that a help shows, if the verb has them, beside those that come first and its own."""
QUESTIONS = "Other questions, each with a help of its own"
LISTED = {"templates", "template", "critic_prompt", "scale", "debate", "exams", "perturbations", "strategies"}
"""Options whose help lists their words."""
STUDY_FILES = (".csv", ".jsonl", ".parquet", ".json", ".tsv")
RUN_FILE = "made_by.json"
Offers = Iterable[tuple[str, str]]
"""Words, each with what it is."""
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Raised by typer for a command line that does not fit."""


class Helped:
    """A command whose help shows no type for ``--help``."""

    def get_help_option(self, ctx: Any) -> Any:
        found = super().get_help_option(ctx)  # type: ignore[misc]
        if found is not None:
            found.metavar = ""
        return found


class VerbGroup(Helped, TyperGroup):
    """Verbs under one name."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        self.add_help_option = not args or args[0].startswith("-")
        if not self.add_help_option:
            self.params = []  # typer imports pydantic to see that none was given
        return super().make_context(info_name, args, parent, **extra)


class Command(Helped, TyperCommand):
    """A verb: options that are not given are as the project's settings say; its help shows those that matter most."""

    shows_all = False
    file = Settings()
    """The settings that hold here."""
    used: Set = {}  # noqa: RUF012 - replaced, never changed
    """The options that they set for it."""

    @property
    def verb(self) -> Verb:
        return self.callback.__wrapped__  # type: ignore[union-attr, no-any-return]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the command line, with the project's settings as defaults."""
        self.shows_all = "--help-all" in args
        words = ["--help"] if self.shows_all else args
        if parent is not None and not extra.get("resilient_parsing"):  # which is how typer completes words
            self.file, self.used, root = settings(), {}, parent.find_root().command
            if self.file.path is not None:
                self.file.check(root.list_commands(parent))
                path = f"{parent.command_path} {self.name}".replace("--", "").split()[1:]
                self.used = self.file.for_verb((*path,), self.verb.options)
        extra["default_map"] = {name: value for name, (value, _) in self.used.items()}
        try:
            return super().make_context(info_name, words, parent, **extra)
        except UsageError as error:
            wrong: Any = error
            wrong.command = "goldless" if parent is None else f"{parent.command_path} {info_name}"
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the verb with the project's settings, where these may be used, and with models by their full names."""
        sources = {name: ctx.get_parameter_source(name).name for name in self.used}
        used = {name: self.used[name] for name, source in sources.items() if source == "DEFAULT_MAP"}
        self.file.use(ctx.params, self.verb.options, used)
        return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, with the options that matter most unless all are asked for."""
        options = [one for one in self.params if isinstance(one, TyperOption)]
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda **_: None  # type: ignore[attr-defined]
        shown = self
        if not self.shows_all and len(options) > MOST_OPTIONS:
            shown = copy(self)
            shown.epilog = f"[bold]{ctx.command_path} --help-all[/] shows all {len(options)} options."
            shown.params = [
                copy(one) for one in self.params if one not in options or one.name in self.verb.in_short_help
            ]
            for one in shown.params:
                if isinstance(one, TyperOption) and one.rich_help_panel != QUESTIONS:
                    one.rich_help_panel = None
        super(Command, shown).format_help(ctx, formatter)


def verbs_app(help: str, *verbs: Verb, **more: Any) -> typer.Typer:  # noqa: A002
    """An application of several verbs."""
    usual: dict[str, Any] = {"cls": VerbGroup, "no_args_is_help": True, "rich_markup_mode": "rich"}
    named = {"help_option_names": ["--help", "-h"]}
    made = typer.Typer(
        help=help, pretty_exceptions_enable=False, add_completion=False, context_settings=named, **usual | more
    )
    for one in verbs:
        made.command(one.__name__.strip("_"), cls=Command)(one.signed())
    return made


def _columns(given: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in split(given):
        name, equals, column = word.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise ValueError(f"NAME=COLUMN, got {word!r}. Try --columns task=id,agent=model,text=output")
        found.setdefault(name.strip(), []).append(column.strip())
    return found


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The own options of a verb that has none."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options for reading the files of a study."""

    importer: str | None = option(
        None,
        "Format of the files, as goldless list importers names it (default: recognised by content).",
        "--from FORMAT",
        group=READING,
    )
    columns: Mapping[str, str | Sequence[str]] | None = option(
        None,
        "Columns of a table: task=id,agent=model.",
        "NAME=COLUMN",
        form=OptionForm(list[str], parse=_columns),
    )
    wide: bool = option(False, "Read a table with one row per task and one column per agent.")
    repeats: Literal["samples", "first", "agents", "tasks"] | None = option(
        None,
        "Average over several responses of an agent to a task (default for logs), keep the first, or make more agents "
        "or tasks of them (NAME#2).",
    )

    def read(self, paths: Sequence[str]) -> Study:
        """The study in these files; says what was found in them."""
        from goldless.studies import import_study, sample_study

        files = [sample_study()] if paths == ("sample",) and not Path("sample").exists() else paths
        study = import_study(files, **{name: given for name, given in vars(self).items() if given})
        tell_import(study)
        return study

    def words(self, paths: Sequence[str]) -> str:
        """The study as it is given on a command line, with the options by which it is read."""
        cells = ",".join(f"{name}={one}" for name, given in (self.columns or {}).items() for one in given)
        named = {"--columns": cells, "--from": self.importer, "--repeats": self.repeats}
        words = [word for flag, value in named.items() if value for word in (flag, value)]
        return shlex.join([*paths, *words, *(["--wide"] if self.wide else [])])


def same(name: str, default: Any, help: str = "", **more: Any) -> Any:  # noqa: A002
    """A field of a verb's own options that is like the run option of that name; ``more``: what is otherwise."""
    found = declared(Options)[name]
    return field(default=default, metadata={"option": replace(found, keyword="", help=help or found.help, **more)})


def verb(*takes: str, **settings: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Register a function as a command.

    - ``takes`` lists the option groups, or single options, it accepts.
    - ``settings``: fields of ``Verb``.
    """
    return lambda work: Verb(work, takes, **settings)


@dataclass(eq=False)
class Verb:
    """A verb, declared by one function and a dataclass: its command, and what a Python function is made from.

    The function may declare ``verb_options``, the options of this verb alone, ``options``, the run options that it
    takes, and ``study``, read from files. Either it returns a result, which the verb's renderer shows, or it takes the
    ``output`` and prints by itself. Its docstring is the help; lines of the last paragraph that start with
    ``goldless`` are examples.
    """

    work: Callable[..., Any]
    groups: Sequence[str] = ()
    """Run options that it takes: groups, or single ones."""
    excluded: Collection[str] = ()
    """Options of these groups that it does not take."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of run options that differ for this verb."""
    helps: Mapping[str, str] = field(default_factory=dict)
    """Help texts of options that differ for this verb."""
    prominent: Sequence[str] = ()
    """Options that the help shows first."""
    out: str = ""
    """Help for ``--out``: what it writes."""
    result_name: str = ""
    """Name of the result's file in that folder."""
    keeps_evidence: bool = False
    """It replaces the evidence in the folder."""
    averages_samples: bool = False
    """It knows that several samples are of one agent."""
    study_from: Callable[[Any], Any] | None = None
    """Builds the study from inputs that only the Python API accepts."""
    exit_status: Callable[[Any], tuple[int, str] | Literal[False] | None] = lambda _: None
    """Exit code and message for a result that fails; None or False for success."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """Options that ask something else, with another help, and what that is."""

    def __post_init__(self) -> None:
        options_class = self.work.__annotations__.get("verb_options")
        module = vars(inspect.getmodule(self.work))
        self.verb_options: Any = NoOptions if options_class is None else module[options_class]
        self.parameters = set(inspect.signature(self.work).parameters)
        self.study = "study" in self.parameters
        self.returns = self.work.__annotations__["return"] != "None"
        verb_options = declared(self.verb_options)
        left_out = {*verb_options, *self.excluded}
        taken = ((name, one) for name, one in declared(Options).items() if {name, one.group} & {*self.groups})
        self.takes = [name for name, _ in taken if name not in left_out]
        in_help_order = list(dict.fromkeys((*self.prominent, *verb_options, *COMMON)))
        questions = [flag.removeprefix("--") for flag in self.questions]
        self.in_short_help = (*in_help_order[: MOST_OPTIONS - len(questions)], *questions)
        self._render: Callable[..., None] = lambda result, output: output.tell(result)
        self.__name__, self.__doc__ = self.work.__name__, _help_text(self.work.__doc__ or "")

    def signed(self) -> Self:
        """The verb with the signature that typer makes a command from."""
        arranged = [_parameter(name, one, prominent=name in self.prominent) for name, one in self.options.items()]
        self.__signature__ = inspect.Signature(arranged)
        self.__annotations__ = {one.name: one.annotation for one in arranged}
        return self

    def renderer(self, render: Callable[..., None]) -> Callable[..., None]:
        """Register the function that shows results on the command line: it takes the result and the output.

        It may also declare ``verb_options``, ``options``, ``study`` and ``words``, which name the study.
        """
        self._render = render
        return render

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """Every option of the command, as its help arranges them: its own, the run's, for reading, for printing."""
        prints, out = self.returns or "output" in self.parameters, self.out or RESULT_FOLDER * bool(self.result_name)
        names = {
            self.verb_options: declared(self.verb_options),
            Options: [name for name in self.takes if declared(Options)[name].flags],
            Reading: declared(Reading) if self.study else (),
            Output: [name for name in declared(Output) if name != "folder" or out] if prints else (),
        }
        found = {"study": STUDY} if self.study else {}
        for model, listed in names.items():
            for name in listed:
                found.setdefault(name, declared(model)[name])
        for name, value in self.defaults.items():
            found[name] = replace(found[name], shown=", ".join(map(str, value)))
        for name, said in {**self.helps, **({"folder": out} if out else {})}.items():
            found[name] = replace(found[name], help=said, shown="" if "(default:" in said else found[name].shown)
        for flag, line in self.questions.items():
            form = OptionForm(bool)
            found[flag.removeprefix("--")] = Option(line, QUESTIONS, (flag,), form=form, default=False)
        arguments = [name for name, one in found.items() if one.argument]
        return {name: found[name] for name in dict.fromkeys((*arguments, *self.prominent, *found))}

    def __call__(self, **words: Any) -> None:
        """Run the command with the words of a command line: read the study, do the work, keep and show the result."""
        verb_options, output = parsed(self.verb_options, words), parsed(Output, words)
        options = parsed(Options, {name: words.pop(name, None) for name in self.takes}, self.defaults)
        reading, paths = parsed(Reading, words), tuple(words["study"]) if self.study else ()
        study = reading.read(paths) if self.study else None
        arguments = {
            "verb_options": verb_options,
            "options": options,
            "study": study,
            "words": reading.words(paths),
            "output": output,
        }
        result = output.run(self, arguments)
        if not self.returns:
            return
        if self.result_name:
            output.keep(study, self.__name__, self.result_name, result)
        parameters = inspect.signature(self._render).parameters
        self._render(result, **{name: value for name, value in arguments.items() if name in parameters})
        if ending := self.exit_status(result):
            end(*ending)

    def begin(self, **arguments: Any) -> Any:
        """Call the function with the arguments it declares; return its result or coroutine."""
        check_each(arguments["verb_options"])
        return self.work(**{name: value for name, value in arguments.items() if name in self.parameters})


def _parameter(name: str, one: Option, *, prominent: bool) -> inspect.Parameter:
    """An option as typer knows it: words, which the option itself parses; None where it is not given."""
    form, default = one.form.typed, one.default
    kind = get_args(form)[0] if get_origin(form) is list else form
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    metavar = one.metavar or (f"<{'|'.join(choices)}>" if choices else METAVARS.get(kind))
    typed: Any = form if kind is bool or get_origin(form) is tuple else str if kind is form else list[str]
    if default is REQUIRED and not one.may_lack:
        default = inspect.Parameter.empty
    elif (default := one.plain_default) is None:
        typed = typed | None
    said = _markup(one.help)
    shown: dict[str, Any] = {"metavar": metavar, "autocompletion": completer(name, metavar or "", one.help, choices)}
    if not one.argument:
        shown["rich_help_panel"] = None if prominent else one.group
        if one.shown:
            said += f"  [dim]\\[default: {_markup(one.shown)}][/dim]"
            shown["show_default"] = False
    info = typer.Argument(help=said, **shown) if one.argument else typer.Option(*one.flags, help=said, **shown)
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
    return re.sub(r"(\[[a-z#/@])", r"\\\1", text)


# --- the words that the Tab key offers; typer's own scripts ask for them ----------------------------------------------


def completer(name: str, metavar: str, said: str, choices: Sequence[str]) -> Callable[[str], Offers] | None:
    """The function that completes a value, or the last of several after commas; None: nothing is known."""
    if any(word in metavar for word in ("STUDY", "RUN", "FILES")):
        return lambda incomplete: _paths(incomplete, studies="STUDY" in metavar or "FILES" in metavar)
    listed = said.partition(": ")[2].partition(".")[0].partition(", each")[0] if name in LISTED else ""
    words = choices or re.findall(r"[\w-]+", listed)
    offers: Callable[[], Offers] = lambda: ((word, "") for word in words)  # noqa: E731 - as the two below
    if name in {"metrics", "metric"}:
        offers = _metrics
    elif "MODEL" in metavar or name == "base":
        offers = _models
    elif not words:
        return None

    def complete(incomplete: str) -> Offers:
        kept, comma, _ = incomplete.rpartition(",")
        return ((f"{kept}{comma}{word}", about) for word, about in offers())

    return complete


def _metrics() -> Iterator[tuple[str, str]]:
    from goldless.metrics.catalogue import BASELINES, CATALOGUE, METRICS
    from goldless.user_metrics import metric_forms

    for name, said in (*METRICS.items(), *metric_forms().items()):
        yield re.sub(r"([\[:])[A-Z].*", r"\1", name), said
    for name in (*BASELINES, *CATALOGUE.of_packages()):
        if name not in METRICS:
            yield name, ""


def _models() -> Iterator[tuple[str, str]]:
    from goldless.models.catalogue import PROVIDERS

    for prefix, provider in PROVIDERS.all().items():
        said = provider.forms[0].purpose if provider.forms else ""
        yield (prefix if provider.bare else f"{prefix}:{'//' * prefix.startswith('http')}"), said


def _paths(incomplete: str, *, studies: bool) -> Iterator[tuple[str, str]]:
    """Run folders, other folders, and files of studies where these are wanted."""
    if studies:
        yield "sample", "The sample study"
    begin, name = os.path.split(incomplete)
    folder = Path(begin or ".").expanduser()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        word = os.path.join(begin, path.name)  # noqa: PTH118 - as it was typed, ~ and ./ too
        if path.name.startswith(".") and not name:
            continue
        if path.is_dir():
            yield (word, "Run folder") if (path / RUN_FILE).exists() else (f"{word}/", "")
        elif studies and path.suffix in STUDY_FILES:
            yield word, "File"
