"""What a verb is made of: arguments of its own, options of runs that it takes by name, and its output."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo

from goldless.cli.output import Format, Output
from goldless.runs.option_forms import declared, defaults, flag_names, taken
from goldless.runs.options import Options

OUTPUT = "Output"
RUN_FOLDER = "Write results and evidence into this folder."
RESULT_FOLDER = "Write the result into this folder; it may hold other results of the study."

StudyArgument = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study folder, or one file with task, agent, text; or sample.")
]


def own(help: str, panel: str | None = None, flags: str = "", *, default: str = "", **more: Any) -> Any:  # noqa: A002
    """An option of one verb alone.

    ``flags``: ``--long -s WHAT IT IS FOLLOWED BY``, where that is not as the parameter says; ``default``: what the help
    says of the default where its value does not say it.
    """
    names, metavar = flag_names(flags)
    said = _markup(help) + (f"  [dim]\\[default: {_markup(default)}][/dim]" if default else "")
    settings = {"help": said, "rich_help_panel": panel, "metavar": metavar} | more
    return typer.Option(*names, **settings | ({"show_default": False} if default else {}))


def like(name: str, help: str = "", *, default: str = "") -> Any:  # noqa: A002
    """The option of runs of that name, for a verb whose value of it is no value of a run's option."""
    option = declared(Options)[name]
    flags = " ".join((*option.flags, option.metavar or ""))
    return own(help or option.help, option.group, flags, default=default or option.default_text)


def _markup(text: str) -> str:
    """Text for a help in rich's markup, taken literally."""
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

    ``takes``: groups of options of runs, or single ones, which come as the function's ``options``; ``without``: those
    of the groups that it has no use for; ``usual``: their values where nothing is said; ``helps``: what is said of
    them here. ``first``: the options that matter, by parameter, which stand before all others. A function with a
    parameter ``output`` gets ``--format`` and ``--json``, and ``--out`` where ``out`` says what is written there.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = dict(inspect.signature(command, eval_str=True).parameters)
        names = [
            name
            for name in taken(Options, takes)
            if name not in {*parameters, *without} and declared(Options)[name].flags
        ]
        shared = [_parameter(name, (helps or {}).get(name, "")) for name in names]
        shown = list(_output_parameters(out)) if "output" in parameters else []
        given_whole = {"options", "output"}
        arranged = _arranged([p for p in parameters.values() if p.name not in given_whole], shared, shown, first)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            if "options" in parameters:
                words = {name: given.pop(name) for name in names}
                given["options"] = _options(words, usual or {})
            if "output" in parameters:
                folder, shown_as, json_only = (given.pop(p, None) for p in ("out_folder", "table", "json_only"))
                given["output"] = Output("json" if json_only else shown_as, folder)
            command(**given)

        run.__signature__ = inspect.Signature(arranged)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in arranged}
        return run

    return decorate


def _parameter(name: str, said: str) -> inspect.Parameter:
    """An option of runs as a parameter of a command; None where it is not given and its value is no single word."""
    default = defaults(Options)[name]
    typed = declared(Options)[name].form.typed
    if not isinstance(default, str | int | float):
        default, typed = None, typed | None
    return _keyword(name, typed, default, like(name, said))


def _keyword(name: str, typed: Any, default: Any, info: Any) -> inspect.Parameter:
    annotation = Annotated[typed, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _options(words: Mapping[str, Any], usual: Mapping[str, Any]) -> Options:
    given = {name: declared(Options)[name].parse(value) for name, value in words.items() if value is not None}
    return Options(**{**usual, **given})


def _output_parameters(out: str) -> Iterable[inspect.Parameter]:
    if out:
        yield _keyword("out_folder", Path | None, None, own(out, OUTPUT, "--out FOLDER"))
    yield _keyword("table", Format, "rich", own("How to print tables.", OUTPUT, "--format"))
    said = "Short for --format json: one object on standard output."
    yield _keyword("json_only", bool, False, own(said, OUTPUT, "--json"))


def _arranged(
    own_ones: Iterable[inspect.Parameter],
    shared: Iterable[inspect.Parameter],
    shown: Iterable[inspect.Parameter],
    first: Sequence[str],
) -> list[inspect.Parameter]:
    """Arguments, then the options that matter, then the others."""
    found = {parameter.name: parameter for parameter in (*own_ones, *shared, *shown)}
    arguments = [p for p in found.values() if isinstance(_info(p), ArgumentInfo)]
    return [
        *arguments,
        *(_before_others(found[name]) for name in first),
        *(p for p in found.values() if p not in arguments and p.name not in first),
    ]


def _info(parameter: inspect.Parameter) -> Any:
    return get_args(parameter.annotation)[1]


def _before_others(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter outside of all panels, which stand below."""
    info = copy.copy(_info(parameter))
    info.rich_help_panel = None
    return _keyword(parameter.name, get_args(parameter.annotation)[0], parameter.default, info)
