"""A result as plain data, which ``--format json`` prints and a run folder holds; it is read back, and makes table rows.

A result is a frozen dataclass. Its keys are its fields, except those of the type ``InMemory``, which exist only in the
process that made the result. pydantic writes and reads it: NaN and infinity are null, unknown keys are ignored.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import Field, TypeAdapter, ValidationError, computed_field
from pydantic_core import CoreSchema, core_schema, from_json

from goldless.files import UnsafeFileError, safe_file
from goldless.statistics.bootstrap import Estimate

if TYPE_CHECKING:
    from goldless.reports.findings import Said
    from goldless.reports.report_table import ReportTable
    from goldless.reports.run_record import Spending

Kind = TypeVar("Kind")


class _AnyValue:
    """A type that pydantic does not look into."""

    @staticmethod
    def __get_pydantic_core_schema__(*_: object) -> CoreSchema:
        return core_schema.any_schema()


InMemory = Annotated[Kind, Field(exclude=True), _AnyValue]
"""The type of a field that is neither written nor read."""
if TYPE_CHECKING:
    written_property = property
else:

    def written_property(function: Callable[[Any], Any]) -> Any:
        """Make a property that is written too, and ignored when read."""
        return computed_field(property(function))


class Result:
    """The base of all that verbs return; one renderer, one writer and one reader know nothing else.

    A result is a frozen dataclass of this base. What it does not declare is empty.
    """

    if TYPE_CHECKING:
        # dataclass fields or properties of a result
        @property
        def settings(self) -> Mapping[str, Any]: ...
        @property
        def notes(self) -> Sequence[str]: ...
        @property
        def warnings(self) -> Sequence[str]: ...
        @property
        def spending(self) -> Sequence[Spending]: ...
        @property
        def asked(self) -> int: ...
        @property
        def open(self) -> int: ...
    else:
        settings: ClassVar = {}
        """Settings that its numbers were made with; the signature is printed from them."""
        notes: ClassVar = ()
        """Sentences for its reader, printed below its tables."""
        warnings: ClassVar = ()
        """Sentences for its reader, printed above its tables."""
        spending: ClassVar = ()
        """Calls and cost of each model."""
        asked: ClassVar = 0
        """Number of requested calls; 0: not counted."""
        open: ClassVar = 0
        """Number of calls that another run of the same command would make."""

    def sentences(self) -> Iterable[Said]:
        """Sentences about itself, printed first."""
        return ()

    def tables(self) -> Sequence[ReportTable]:
        """Its numbers, for every medium."""
        return ()

    def terminal_tables(self, *, details: bool) -> Sequence[ReportTable]:  # noqa: ARG002 - subclasses use it
        """The tables of a terminal, where there is less room; all of them in full with ``details``."""
        return self.tables()

    def to_csv(self) -> str:
        """Its tables as comma-separated values."""
        return "\n".join(table.to_csv() for table in self.tables())

    def to_markdown(self) -> str:
        """Its tables as Markdown."""
        return "\n".join(table.to_markdown() for table in self.tables())


class UnexpectedDataError(ValueError):
    """Data that is not what a class of results expects; says where."""


_adapters: dict[type, TypeAdapter[Any]] = {}


def adapter(kind: type) -> TypeAdapter[Any]:
    """The reader, writer and schema of a class of results."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def write(result: Any) -> dict[str, Any]:
    """The result as plain data: dictionaries, lists, texts and finite numbers."""
    plain_data: dict[str, Any] = from_json(adapter(type(result)).dump_json(result))
    return plain_data


def read(kind: type[Kind], data: str | bytes) -> Kind:
    """The result in a JSON text, without keys that it does not know."""
    try:
        result: Kind = adapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = first["msg"]
        raise UnexpectedDataError(f"{place}: {reason}" if place else reason) from error
    return result


def schemas(kinds: Mapping[str, type]) -> dict[str, Any]:
    """JSON schemas of what classes of results write, by name, and of the parts that they share."""
    by_name, shared = TypeAdapter.json_schemas([(name, "serialization", adapter(kind)) for name, kind in kinds.items()])
    return {**shared["$defs"], **{name: schema for (name, _), schema in by_name.items()}}


# --- rows of tables --------------------------------------------------------------------------------------------------


def cells(result: Any, main: str = "estimate", **more: Any) -> dict[str, Any]:
    """The fields of a result by name, as one row of a table.

    An estimate gives its value under the field's name, the ends of its interval as NAME_low and NAME_high, and
    NAME_n. That of the field ``main`` also gives its parts under their own names. ``more``: other cells.
    """
    row: dict[str, Any] = {}
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, Estimate):
            parts = {"": value.value, "_low": value.low, "_high": value.high, "_n": value.n}
            row |= {f"{field.name}{part}": number for part, number in parts.items()}
            if field.name == main:
                row |= cells(value)
        else:
            row[field.name] = None if isinstance(value, float) and not math.isfinite(value) else value
    return {**row, **more}


# --- files ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unreadable:
    """The reason why an existing file could not be read as a result."""

    file: str
    reason: str
    is_object: bool = False
    """True if it is a JSON object, but with fields that this version does not expect."""

    def __str__(self) -> str:
        """A sentence without its full stop."""
        if not self.is_object:
            return f"{self.file} {self.reason}"
        return (
            f"{self.file} does not match what this version of goldless expects ({self.reason}). It may come from "
            "another version. Run the command again to recreate it"
        )


def read_object(path: Path) -> dict[str, Any] | Unreadable | None:
    """The JSON object in a file; None if the file does not exist."""
    parsed = _parsed(path, lambda text: [json.loads(text)])  # a null is not an absent file
    if parsed is None or isinstance(parsed, Unreadable):
        return parsed
    data: Any = parsed[0]
    if isinstance(data, dict):
        return data
    return Unreadable(path.name, f"must be a JSON object, got {type(data).__name__}")


def _parsed(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(safe_file(path, path.parent).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnexpectedDataError as error:
        return Unreadable(path.name, str(error), is_object=True)
    except UnsafeFileError as error:
        return Unreadable(path.name, error.reason)
    except (OSError, ValueError, RecursionError) as error:
        return Unreadable(path.name, f"cannot be read ({type(error).__name__}: {error})")


def read_document(path: Path, kind: type[Kind]) -> Kind | Unreadable | None:
    """The result in a file; None if the file does not exist."""
    result: Kind | Unreadable | None = _parsed(path, functools.partial(read, kind))
    if isinstance(result, Unreadable) and isinstance(data := read_object(path), Unreadable):
        return data  # no JSON object at all
    return result


def _json_lines(text: str) -> list[str]:
    """The lines that are not empty; raises ValueError if one of them is no JSON."""
    lines = [line for line in text.split("\n") if line.strip()]
    for line in lines:
        json.loads(line)
    return lines


def read_rows(path: Path, kind: type[Kind]) -> tuple[Kind, ...] | Unreadable:
    """The valid rows of a JSONL file; empty if the file does not exist."""
    lines = _parsed(path, _json_lines)
    if isinstance(lines, Unreadable):
        return lines
    rows = []
    for line in lines or ():
        with suppress(UnexpectedDataError):
            rows.append(read(kind, line))
    return tuple(rows)
