"""Declaration of an option: once, for the command line, for Python and for its check."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from goldless.errors import UserError, nearest
from goldless.runs.places import find_place

T = TypeVar("T")
M = TypeVar("M")
SAME_GROUP = ""
COMMA = r",(?![^\[\]]*\])"
"""A comma that is not within brackets."""
REQUIRED: Any = MISSING
"""Instead of a default, for an option that must be given."""
REMOVED: Mapping[str, str] = {
    "json": "Write --format json",
    "signature": "-v prints signatures in full",
    "timeout": "Write 'MODEL?timeout=SECONDS'",
    "max-retries": "Write 'MODEL?retries=N'",
    "max-in-flight": "Write 'MODEL?concurrency=N'",
    "price": "Write 'MODEL?price=IN:OUT'",
    "synopsis-writer": "Write gem-s[abstract,writer=MODEL]",
    "control-tasks": "Write gem-raw[control=N]+control",
    "budget-calls": "Write tvd-mi[calls=N]",
    "peer-sample": "Write --peers N",
    "metric-timeout": "Write python:FILE.py:FUNCTION?timeout=SECONDS",
    "critic-prompt": "Write tvd-mi[prompt=NAME]",
    "shuffles": "Write tvd-mi[shuffles=N]",
    "juror": "Write peer-prediction[juror=MODEL]",
    "juror-family": "Write peer-prediction[family=JUROR=FAMILY]",
    "examples": "Write peer-prediction[examples=N]",
    "drill": "Compare the groups with goldless score --compare-groups A B",
    "select-with": "Run goldless select",
    "select-metric": "Run goldless select --metric NAME",
    "tls-cert": "Let a reverse proxy serve HTTPS",
    "tls-key": "Let a reverse proxy serve HTTPS",
    "dark": "A figure has the colours of the reader's screen",
}
"""The new way of each option that was removed, by its flag."""
KINDS: Mapping[Any, str] = {int: "a whole number", float: "a number", Path: "a path"}


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class OptionForm:
    """The values of an option: as words of a command line, as a Python argument, and which are allowed."""

    typed: Any
    """Type of the words; a list where the option may be repeated."""
    parse: Callable[[Any], Any] = _same
    """Convert words of a command line into a value."""
    accept: Callable[[Any], Any] = _same
    """Convert a Python argument into a value."""
    must_be: str = ""
    allows: Callable[[Any], bool] = lambda _: True
    advice: Callable[[Any], str] = lambda _: ""
    """Advice on what to try instead of a value that is not allowed."""

    def words(self, value: Any) -> Any:
        """Convert words of a command line into the type that ``parse`` takes."""
        kind = get_args(self.typed)[0] if get_origin(self.typed) is list else self.typed
        if isinstance(value, list | tuple):
            return [replace(self, typed=kind).words(word) for word in value]
        if get_origin(kind) is Literal and value not in get_args(kind):
            raise ValueError(f"one of {', '.join(get_args(kind))}, got {value!r}")
        try:
            return kind(value) if kind in KINDS else value
        except ValueError:
            raise ValueError(f"{KINDS[kind]}, got {value!r}") from None


ANYTHING = OptionForm(str)


@dataclass(frozen=True)
class Option:
    """One option, as the command line, the Python functions and the check of a run know it."""

    help: str
    """Empty: the option is for Python alone."""
    group: str | None = None
    """Options are taken and shown in groups; None: of one verb alone, shown before them."""
    flags: tuple[str, ...] = ()
    """On the command line; by default the field's name."""
    metavar: str | None = None
    form: OptionForm = ANYTHING
    """By default as the field's type says."""
    keyword: str = ""
    """In Python; by default the field's name."""
    shown: str = ""
    """The default as the help shows it, where that is not the value."""
    argument: bool = False
    """It has no flag, only a place."""
    command_only: bool = False
    """It says how the command shows the result; Python has no use for it."""
    may_lack: bool = False
    """A command that leaves it out gives None, although Python must give a value."""
    default: Any = None
    """That of the field; REQUIRED where a value must be given."""

    @property
    def plain_default(self) -> Any:
        """The default as words of a command line; None where it has none."""
        if isinstance(self.default, bool):
            return self.default
        return str(self.default) if isinstance(self.default, str | int | float | Path) else None

    def parse(self, words: Any) -> Any:
        """The value of words on the command line."""
        name = str((*self.flags, self.metavar)[0])
        try:
            value = self.form.parse(self.form.words(words))
        except ValueError as error:
            raise UserError(f"{name} must be {error}") from None
        self.check(value, name)
        return value

    def check(self, value: Any, name: str) -> None:
        """Refuse a value that is not allowed."""
        if not self.form.allows(value):
            raise UserError(f"{name} must be {self.form.must_be}, got {value!r}{self.form.advice(value)}")


def option(
    default: T,
    help: str = "",  # noqa: A002 - it is what the help says
    flags: str = "",
    *,
    group: str | None = SAME_GROUP,
    at_least: int | None = None,
    **more: Any,
) -> T:
    """A dataclass field that is an option.

    - ``default``: REQUIRED where a value must be given.
    - ``flags``: ``--long -s METAVAR``, or a part of it where the rest is as the field's name and type say.
    - ``group``: as that of the field before, if it is not given.
    - ``at_least``: for a whole number; ``more``: as ``Option`` says.
    """
    words = flags.split()
    names = tuple(word for word in words if word.startswith("-"))
    metavar = " ".join(words[len(names) :]) or None
    more |= {} if at_least is None else {"form": integer(at_least)}
    metadata = {"option": Option(help, group, names, metavar, **more)}
    if default is REQUIRED:
        return cast("T", field(metadata=metadata))
    if isinstance(default, dict):
        return cast("T", field(default_factory=dict, metadata=metadata))
    return field(default=default, metadata=metadata)


def group(options_class: Callable[[], T]) -> T:
    """A dataclass field with the options of another dataclass, whose names are known without it."""
    return field(default_factory=options_class, metadata={"options_class": options_class})


def argument(metavar: str, help: str, default: Any = REQUIRED, **more: Any) -> Any:  # noqa: A002 - as above
    """A dataclass field that is an argument of the command line, without a flag."""
    return option(default, help, metavar, group=None, argument=True, **more)


# --- from declarations to values -----------------------------------------------------------------------------------


@cache
def group_classes(model: Any) -> Mapping[str, Any]:
    """The dataclasses that a dataclass of options is composed of, by field."""
    metadata = {option_field.name: option_field.metadata for option_field in fields(model)}
    return {name: entries["options_class"] for name, entries in metadata.items() if "options_class" in entries}


@cache
def group_of(model: Any) -> Mapping[str, str]:
    """The field of the group that each option is in, by the option's name."""
    return {name: group_name for group_name, part in group_classes(model).items() for name in declared(part)}


@cache
def declared(model: Any) -> Mapping[str, Option]:
    """The options of a dataclass and its groups, by name, with what the field's name and type say of them."""
    options: dict[str, Option] = {}
    for part in group_classes(model).values():
        options |= declared(part)
    heading = None
    for option_field in fields(model):
        declaration: Option | None = option_field.metadata.get("option")
        if declaration is None:
            continue
        if declaration.group != SAME_GROUP:
            heading = declaration.group
        flags = declaration.flags
        if not flags and declaration.help and not declaration.argument:
            flags = (f"--{option_field.name.replace('_', '-')}",)
        form = _form_of(str(option_field.type)) if declaration.form is ANYTHING else declaration.form
        options[option_field.name] = replace(
            declaration,
            group=heading,
            flags=flags,
            form=form,
            keyword=declaration.keyword or option_field.name,
            default=defaults(model)[option_field.name],
        )
    return options


def _form_of(written: str) -> OptionForm:
    kind = written.replace(" | None", "")
    words = re.fullmatch(r"Literal\[(.*)\]", kind)
    return FORMS_OF[kind] if words is None else one_of(*ast.literal_eval(f"[{words[1]}]"))


@cache
def defaults(model: Any) -> Mapping[str, Any]:
    """The default of each field of a dataclass and its groups; MISSING where a value must be given."""
    values: dict[str, Any] = {}
    for part in group_classes(model).values():
        values |= defaults(part)
    for option_field in fields(model):
        factory = option_field.default_factory
        if option_field.name not in group_classes(model):
            values[option_field.name] = option_field.default if factory is MISSING else factory()
    return values


def flat_values(options: Any) -> dict[str, Any]:
    """The values of options, those in groups too, by name."""
    model: Any = type(options)
    values: dict[str, Any] = {}
    for name, value in vars(options).items():
        values |= vars(value) if name in group_classes(model) else {name: value}
    return values


def build(model: Callable[..., M], values: Mapping[str, Any]) -> M:
    """Make a dataclass from values by name, each put into the group that declares it."""
    return change(model(), values) if group_classes(model) else model(**values)


def change(options: M, values: Mapping[str, Any]) -> M:
    """Return a copy of options in which these, by name, have other values."""
    model: Any = type(options)
    changes: dict[str, Any] = {}
    of_groups: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name in group_of(model):
            of_groups.setdefault(group_of(model)[name], {})[name] = value
        else:
            changes[name] = value
    for group_name, group_values in of_groups.items():
        changes[group_name] = replace(getattr(options, group_name), **group_values)
    changed: Any = options
    return cast("M", replace(changed, **changes))


def keywords(model: Any, names: Iterable[str]) -> dict[str, str]:
    """The fields of these names by what Python calls them."""
    options = declared(model)
    return {options[name].keyword if name in options else name: name for name in names}


def parsed(model: Callable[..., M], words: dict[str, Any], verb_defaults: Mapping[str, Any] | None = None) -> M:
    """Take a dataclass's options out of the words of a command line; an absent one has the verb's or its default."""
    values = dict(verb_defaults or {})
    for name, declaration in declared(model).items():
        value = words.pop(name, None)
        if value is not None:
            values[name] = declaration.parse(value)
        elif declaration.default is REQUIRED:
            values[name] = None
    return build(model, values)


def from_arguments(model: Callable[..., M], arguments: Mapping[str, Any], names: Mapping[str, str]) -> M:
    """Make a dataclass's options from Python arguments; ``names``: the field of each keyword."""
    options = declared(model)
    settings = {}
    for keyword, value in arguments.items():
        name = names[keyword]
        default = defaults(model)[name]
        if value is not None:
            settings[name] = options[name].form.accept(value) if name in options else value
        elif default is MISSING or isinstance(default, str | int | float):
            settings[name] = value  # left to the check, which says what it must be
    return build(model, settings)


def refuse_unknown(verb: str, keywords: Iterable[str], allowed: Collection[str]) -> None:
    """Refuse a Python argument that a verb does not take."""
    for keyword in keywords:
        if keyword not in allowed:
            hint = new_way(keyword, allowed)
            raise UserError(f"unknown argument {keyword!r}{hint or '.'} {verb} takes {', '.join(sorted(allowed))}")


def new_way(name: str, allowed: Iterable[str]) -> str:
    """The end of a message about an unknown option: the replacement of a removed one, or the nearest allowed one."""
    removed = REMOVED.get(name.strip("-").replace("_", "-"))
    return f". It was removed. {removed}" if removed else nearest(name, allowed)


def check_each(options: Any) -> None:
    """Refuse a value that its own declaration does not allow."""
    model: Any = type(options)
    values = flat_values(options)
    for name, declaration in declared(model).items():
        value = values[name]
        if value is not None or declaration.default is not None:
            declaration.check(value, declaration.keyword)


def values(options: Any, *excluded: str) -> dict[str, Any]:
    """Return a verb's options as keyword arguments, without those that only its command has."""
    model: Any = type(options)
    return {
        name: getattr(options, name)
        for name, declaration in declared(model).items()
        if not (declaration.command_only or name in excluded)
    }


# --- forms ---------------------------------------------------------------------------------------------------------


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A sequence, or a single value, as a tuple."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def split(given: Iterable[str]) -> tuple[str, ...]:
    """Names that are repeated or separated by commas, each once; a command: takes all that follows it.

    A comma within brackets belongs to the name.
    """
    parts: list[str] = []
    for item in given:
        command = re.search(r"(?:^|,)\s*((?:[\w.\- ]+=)?command:.*)", item, re.DOTALL)
        if command is None:
            parts += re.split(COMMA, item)
        else:
            parts += [*re.split(COMMA, item[: command.start()]), command[1]]
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def metric_names(given: Iterable[Any]) -> tuple[Any, ...]:
    """Metrics from names that may hold several, separated by commas; a command: takes all that follows it."""
    found: list[Any] = []
    for item in given:
        found += [item] if callable(item) or hasattr(item, "needs") else split([str(item)])
    return tuple(dict.fromkeys(found))


def _place(written: str) -> str:
    find_place(written)
    return written


def _number(low: float, high: float, must_be: str) -> OptionForm:
    return OptionForm(
        float, must_be=must_be, allows=lambda given: isinstance(given, int | float) and low < given < high
    )


def one_of(*words: str) -> OptionForm:
    """One word of several."""
    return OptionForm(Literal[words], must_be=f"one of {', '.join(words)}", allows=lambda given: given in words)


def integer(least: int | None = None, *, parse: Callable[[Any], Any] = _same, or_none: bool = False) -> OptionForm:
    """A whole number, at least ``least``; ``or_none``: None has a meaning although it is not the default."""

    def allows(value: Any) -> bool:
        if value is None:
            return or_none
        return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)

    must_be = "a whole number" if least is None else f"a whole number of at least {least}"
    return OptionForm(int, parse=parse, must_be=must_be, allows=allows)


def by_name(what: str, *, last: bool = False) -> OptionForm:
    """Texts by name, each given as ``NAME=TEXT``; ``last``: split at the last ``=``, so that names may contain it."""

    def parse(given: Iterable[str]) -> dict[str, str]:
        found = {}
        for item in given:
            name, equals, value = item.rpartition("=") if last else item.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise ValueError(f"NAME={what}, got {item!r}")
            found[name.strip()] = value.strip()
        return found

    return OptionForm(list[str], parse=parse, accept=dict)


def _two(text: str) -> tuple[str, str]:
    found = split([text])
    if len(found) != 2:
        raise ValueError(f"two different agents, separated by a comma, got {text!r}")
    return found[0], found[1]


def _differ(given: Sequence[str]) -> bool:
    return len(given) == 2 and given[0] != given[1]


def _limits(given: Iterable[str]) -> dict[str, float | str | None]:
    found: dict[str, float | str | None] = {}
    for item in given:
        trait, _, limit = item.rpartition("=")
        name = trait.strip() or "all"
        found.pop(name, None)  # the last one counts
        try:
            found[name] = None if limit == "none" else limit if limit == "mean" else float(limit)
        except ValueError:
            raise ValueError(f"a number, mean or none, got {item!r}") from None
    return found


def _of_usage(name: str) -> Callable[..., Any]:
    """A function of the module on money, which takes longer to import than a help to print."""

    def call(*given: Any) -> Any:
        from goldless.models import usage  # noqa: PLC0415 - see above

        return getattr(usage, name)(*given)

    return call


TEXT = OptionForm(str)
FILE = OptionForm(Path, accept=Path)
SCORES = OptionForm(list[Path])
"""Files with scores; from Python also scores by metric, task and agent."""
FILES = OptionForm(list[Path], parse=tuple, accept=lambda given: tuple(map(Path, as_tuple(given))))
POSITIVE = _number(0, math.inf, "a finite number above 0")
LEVEL = replace(
    _number(0, 1, "a number between 0 and 1"),
    advice=lambda given: f". Try {given / 100:g}" if isinstance(given, int | float) and 50 <= given < 100 else "",
)
LINES = OptionForm(list[str], parse=tuple, accept=as_tuple)
NAMES = OptionForm(list[str], parse=split, accept=as_tuple)
ONE_LIST = OptionForm(str, parse=lambda text: split([text]), accept=as_tuple)
PEERS = OptionForm(
    str,
    parse=lambda words: int(words) if words.strip().isdecimal() else split([words]),
    accept=lambda given: given if isinstance(given, int) else as_tuple(given),
    must_be="a whole number of at least 1, or names of agents",
    allows=lambda peers: peers > 0 if isinstance(peers, int) else all(isinstance(name, str) for name in peers),
)
"""A number of agents, or their names."""
METRIC_NAMES = OptionForm(list[str], parse=metric_names, accept=lambda given: metric_names(as_tuple(given)))
REVIEWER_NAMES = OptionForm(list[str], split, lambda given: given if isinstance(given, Mapping) else as_tuple(given))
EXAM_NAMES = OptionForm(list[str], split, lambda given: split([given]) if isinstance(given, str) else tuple(given))
MODEL = OptionForm(
    str,
    must_be="a model specification or a model object",
    allows=lambda given: isinstance(given, str) or hasattr(given, "prepare"),
)
PLACE = OptionForm(str, parse=_place, accept=_place)
TWO_AGENTS = OptionForm(str, _two, tuple, must_be="two different agents", allows=_differ)
TWO_GROUPS = OptionForm(tuple[str, str], must_be="two different groups", allows=_differ)
LIMITS = OptionForm(
    list[str],
    _limits,
    dict,
    must_be="limits that are finite numbers, mean or none",
    allows=lambda limits: all(not isinstance(one, float) or math.isfinite(one) for one in limits.values()),
)
BUDGET = OptionForm(str, parse=_of_usage("parse_budget"))
PRICE = OptionForm(
    str,
    accept=lambda given: given if hasattr(given, "input_usd") else _of_usage("Price")(*given),
)
FORMS_OF = {
    "str": TEXT,
    "bool": OptionForm(bool),
    "int": integer(),
    "float": OptionForm(float),
    **dict.fromkeys(("Path", "Path | str"), FILE),
    **dict.fromkeys(("list[Path]", "Sequence[Path]", "Sequence[Path | str]"), FILES),
    "list[str]": LINES,
    "Sequence[str | ChatModel]": NAMES,
    "Sequence[str | Scorer]": NAMES,
    **dict.fromkeys(("str | ChatModel", "str | Scorer"), MODEL),
    "Any": TEXT,
}
"""The form of a type, as it is written."""
