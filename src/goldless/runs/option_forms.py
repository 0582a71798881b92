"""How an option is declared: once, for the command line, for Python and for its check."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from goldless.errors import UserError, nearest
from goldless.fleet.place import FORMS, is_place, parse_place

T = TypeVar("T")
M = TypeVar("M")


class RefusedError(ValueError):
    """Words that are not a value of an option: what they must be, and what was given."""


def _same(value: Any) -> Any:
    return value


def _any(_: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Form:
    """What values an option has: as words of a command line, as a Python argument, and which are allowed."""

    typed: Any
    """Type of the words; a list where the option may be repeated."""
    parse: Callable[[Any], Any] = _same
    """The value of words."""
    accept: Callable[[Any], Any] = _same
    """The value of a Python argument."""
    must_be: str = ""
    allows: Callable[[Any], bool] = _any

    def option(
        self,
        default: T,
        group: str,
        flags: str = "",
        help: str = "",  # noqa: A002 - it is what the help says
        *,
        keyword: str | None = None,
        default_text: str = "",
    ) -> T:
        """A dataclass field that is an option of this form; ``flags``: ``--long -s METAVAR``."""
        names, metavar = flag_names(flags)
        metadata = {"option": Option(self, group, names, help, keyword, metavar, default_text)}
        if isinstance(default, dict):
            return cast("T", field(default_factory=dict, metadata=metadata))
        return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Option:
    """One option, as the command line, the Python functions and the check of a run know it."""

    form: Form
    group: str
    """Options are taken and shown in groups."""
    flags: tuple[str, ...]
    """On the command line; none: the option is for Python alone."""
    help: str
    keyword: str | None
    """In Python, where that is not the field's name."""
    metavar: str | None
    default_text: str
    """The default as the help shows it, where that is not the value."""

    def parse(self, words: Any) -> Any:
        """The value of words on the command line."""
        try:
            return self.form.parse(words)
        except RefusedError as error:
            must_be, given = error.args
            raise UserError(f"{self.flags[0]} must be {must_be}, got {given!r}") from None

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that is not allowed."""
        if not self.form.allows(value):
            raise UserError(f"{name} must be {self.form.must_be}, got {value!r}")


def flag_names(flags: str) -> tuple[tuple[str, ...], str | None]:
    """The names in ``--long -s METAVAR``, and the metavar."""
    words = flags.split()
    names = tuple(word for word in words if word.startswith("-"))
    return names, " ".join(words[len(names) :]) or None


# --- from declarations to values -----------------------------------------------------------------------------------


@cache
def declared(model: Any) -> Mapping[str, Option]:
    """The options of a dataclass, by field."""
    return {one.name: one.metadata["option"] for one in fields(model) if "option" in one.metadata}


@cache
def defaults(model: Any) -> Mapping[str, Any]:
    """The default of each field of a dataclass."""
    return {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in fields(model)}


def taken(model: Any, takes: Collection[str]) -> list[str]:
    """The fields of the groups, and those that are named alone, in the order of their declaration."""
    return [name for name, one in declared(model).items() if one.group in takes or name in takes]


def from_arguments(model: Callable[..., M], verb: str, takes: Collection[str], given: Mapping[str, Any]) -> M:
    """The options from the Python arguments of a verb that takes these groups; another argument is refused."""
    options, usual = declared(model), defaults(model)
    known = {name: name for name in (*taken(model, takes), *(name for name in usual if name not in options))}
    known |= {options[name].keyword or name: name for name in known if name in options}
    settings = {}
    for keyword, value in given.items():
        if keyword not in known:
            hint = nearest(keyword, known)
            raise UserError(f"unknown argument {keyword!r}{hint or '.'} {verb} takes {', '.join(sorted(known))}")
        name = known[keyword]
        if value is not None:
            settings[name] = options[name].form.accept(value) if name in options else value
        elif isinstance(usual[name], str | int | float):
            settings[name] = value  # left to the check, which says what it must be
    return model(**settings)


def check_each(options: Any) -> None:
    """Refuse a value that its own declaration does not allow."""
    model: Any = type(options)
    usual = defaults(model)
    for name, one in declared(model).items():
        value = getattr(options, name)
        if value is not None or usual[name] is not None:
            one.check(name, value)


# --- forms ---------------------------------------------------------------------------------------------------------


def several(given: Any) -> tuple[Any, ...]:
    """One thing, or a sequence of them, as a tuple."""
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)


def split(given: Iterable[str]) -> tuple[str, ...]:
    """Names that are repeated or separated by commas, each once; a command: takes all that follows it."""
    found: list[str] = []
    for item in given:
        command = re.search(r"(?:^|,)\s*((?:[\w.\- ]+=)?command:.*)", item, re.DOTALL)
        found += (item if command is None else item[: command.start()]).split(",")
        found += [] if command is None else [command[1]]
    return tuple(dict.fromkeys(name.strip() for name in found if name.strip()))


def metric_names(given: Iterable[Any]) -> tuple[Any, ...]:
    """Metrics from names that may hold several, separated by commas; a command: takes all that follows it."""
    found: list[Any] = []
    for item in given:
        found += [item] if callable(item) or hasattr(item, "needs") else split([str(item)])
    return tuple(dict.fromkeys(found))


def _place(written: str) -> str:
    parse_place(written)
    return written


TEXT = Form(str)
FLAG = Form(bool)
FILE = Form(Path, accept=Path)
FILES = Form(list[Path], parse=tuple, accept=lambda given: tuple(map(Path, several(given))))
NUMBER = Form(float)
POSITIVE = Form(
    float,
    must_be="a finite number above 0",
    allows=lambda given: isinstance(given, int | float) and 0 < given < math.inf,
)
LINES = Form(list[str], parse=tuple, accept=several)
NAMES = Form(list[str], parse=split, accept=several)
ONE_LIST = Form(str, parse=lambda text: split([text]), accept=several)
METRIC_NAMES = Form(list[str], parse=metric_names, accept=lambda given: metric_names(several(given)))
REVIEWER_NAMES = Form(list[str], split, lambda given: given if isinstance(given, Mapping) else several(given))
EXAM_NAMES = Form(list[str], split, lambda given: split([given]) if isinstance(given, str) else tuple(given))
MODEL = Form(
    str,
    must_be="a model specification or a model object",
    allows=lambda given: isinstance(given, str) or hasattr(given, "prepare"),
)
PLACE = Form(str, parse=_place, must_be=FORMS, allows=is_place)
LEVEL = Form(
    float,
    must_be="a number between 0 and 1",
    allows=lambda given: isinstance(given, int | float) and 0 < given < 1,
)


def one_of(*values: str) -> Form:
    """One word of several."""
    return Form(Literal[values], must_be=f"one of {', '.join(values)}", allows=lambda given: given in values)


def whole(least: int | None = None, *, parse: Callable[[Any], Any] = _same, or_none: bool = False) -> Form:
    """A whole number, at least ``least``; ``or_none``: None has a meaning although it is not the default."""

    def allows(given: Any) -> bool:
        number = isinstance(given, int) and not isinstance(given, bool) and (least is None or given >= least)
        return number or (or_none and given is None)

    said = "a whole number" if least is None else f"a whole number of at least {least}"
    return Form(int, parse=parse, must_be=said, allows=allows)


def by_name(what: str, *, last: bool = False) -> Form:
    """Texts by name, each given as ``NAME=TEXT``; ``last``: split at the last ``=``, so that names may contain it."""

    def parse(given: Iterable[str]) -> dict[str, str]:
        found = {}
        for item in given:
            name, equals, value = item.rpartition("=") if last else item.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise RefusedError(f"NAME={what}", item)
            found[name.strip()] = value.strip()
        return found

    return Form(list[str], parse=parse, accept=dict)


def _two(text: str) -> tuple[str, str]:
    found = split([text])
    if len(found) != 2:
        raise RefusedError("two different agents, separated by a comma", text)
    return found[0], found[1]


TWO_AGENTS = Form(str, parse=_two, accept=tuple)
TWO_GROUPS = Form(
    tuple[str, str],
    must_be="two different groups",
    allows=lambda given: len(given) == 2 and given[0] != given[1],
)


def _limits(given: Iterable[str]) -> dict[str, float | str | None]:
    found: dict[str, float | str | None] = {}
    for item in given:
        trait, _, limit = item.rpartition("=")
        name = trait.strip() or "all"
        found.pop(name, None)  # the last one counts
        try:
            found[name] = None if limit == "none" else limit if limit == "mean" else float(limit)
        except ValueError:
            raise RefusedError("a number, mean or none", item) from None
    return found


def _finite(limits: Mapping[str, Any]) -> bool:
    return all(not isinstance(limit, float) or math.isfinite(limit) for limit in limits.values())


LIMITS = Form(list[str], _limits, dict, must_be="limits that are finite numbers, mean or none", allows=_finite)


def _parsed_budget(text: str) -> float:
    from goldless.models.usage import parse_budget  # noqa: PLC0415 - models take longer to import than a help to print

    return parse_budget(text)


def _parsed_price(text: str) -> Any:
    from goldless.models.usage import parse_price  # noqa: PLC0415 - as above

    return parse_price(text)


def _accepted_price(given: Any) -> Any:
    from goldless.models.usage import Price  # noqa: PLC0415 - as above

    return given if isinstance(given, Price) else Price(*given)


BUDGET = Form(str, parse=_parsed_budget)
PRICE = Form(str, parse=_parsed_price, accept=_accepted_price)
