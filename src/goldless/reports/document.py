"""A result as plain data: what ``--json`` prints and a run folder holds, and the same result read back.

A result is a frozen dataclass. Its keys are its fields, except those with ``metadata={"json": False}``, which are only
there in the process that made the result; ``"if any"``: a field that is left out where it is empty; ``"inline"``: one
whose own fields are written in its place. A class whose keys are others lists them in ``KEYS``, where "*" stands for
the fields, and ``key:name`` for one of another name: properties are written too, and ignored when read. A name with a
dot is a part of a field, such as ``low:difference.low``; such a field is written by its parts alone.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from goldless.files import UnsafeFileError, safe_file

LARGEST = 1e18
"""Larger numbers, infinities and NaN count as missing."""
HERE_ONLY: Final[Mapping[str, bool]] = {"json": False}
"""Metadata of a field that is neither written nor read."""
IF_ANY: Final[Mapping[str, str]] = {"json": "if any"}
"""Metadata of a field that is left out where it is None or empty."""
INLINE: Final[Mapping[str, str]] = {"json": "inline"}
"""Metadata of a result whose own keys are written in its place."""

Kind = TypeVar("Kind")


class UnexpectedDataError(ValueError):
    """Data that is not what a class of results expects; says where."""


def write(result: Any) -> dict[str, Any]:
    """The result as plain data: dictionaries, lists, texts and finite numbers."""
    kind: Any = type(result)
    found: dict[str, Any] = {}
    for name, key in _keys(kind).items():
        value, mark = _part(result, name), _marks(kind).get(name)
        if mark == "inline":
            for inner, plain in ({} if value is None else write(value)).items():
                found.setdefault(inner, plain)
        elif mark != "if any" or value:
            found[key] = _plain(value)
    return found


def _part(result: Any, name: str) -> Any:
    """A field or property, or a part of one; None if that is None."""
    field, _, part = name.partition(".")
    value = getattr(result, field)
    return getattr(value, part) if part and value is not None else value


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return write(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read(kind: type[Kind], data: Any) -> Kind:
    """The result in plain data.

    Unknown keys are ignored. A null is None where the field allows it. What is absent, or null elsewhere, takes the
    field's default.
    """
    found: Kind = _read(kind, data, "")
    return found


def cells(result: Any, **more: Any) -> dict[str, Any]:
    """Values by key, plus additional ones: a row of a table."""
    return {**write(result), **more}


@functools.cache
def _keys(kind: Hashable) -> dict[str, str]:
    """The keys that fields and properties, or their parts, are written under, by name."""
    listed = getattr(kind, "KEYS", ("*",))
    parted = {name.partition(".")[0] for said in listed if "." in (name := said.partition(":")[2])}
    own = [one.name for one in _fields(kind) if one.name not in parted]
    found: dict[str, str] = {}
    for said in listed:
        for one in own if said == "*" else [said]:
            key, _, name = one.partition(":")
            found.setdefault(name or key, key)
    return found


@functools.cache
def _parts(kind: Hashable, name: str) -> dict[str, str]:
    """The keys of a field that is written by its parts, by part."""
    return {
        part: key
        for one, key in _keys(kind).items()
        for field, _, part in [one.partition(".")]
        if part and field == name
    }


@functools.cache
def _marks(kind: Any) -> dict[str, Any]:
    return {one.name: one.metadata.get("json") for one in _fields(kind)}


def _fields(kind: Any) -> list[Field[Any]]:
    return [one for one in fields(kind) if one.metadata.get("json", True)]


@functools.cache
def _types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, data: Any, place: str) -> Any:
    """``kind``: a dataclass, a text, number, truth value or literal, a tuple or mapping of these, None, or Any."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_fields(kind, _expected(dict, "an object", data, place), place)
    if origin in (Union, UnionType):
        *others, last = [one for one in inner if one is not type(None)]
        for one in others:  # the first that it fits; the error is the last one's
            with suppress(UnexpectedDataError):
                return _read(one, data, place)
        return None if _is_absent(data) and type(None) in inner else _read(last, data, place)
    if origin is tuple:
        values = _expected(list, "a list", data, place)
        kinds = inner[:1] * len(values) if inner[-1] is ... else inner
        if len(values) != len(kinds):
            raise _unexpected(place, f"must be a list of {len(kinds)}, got {len(values)}")
        return tuple(_read(kinds[n], value, f"{place}.{n}") for n, value in enumerate(values))
    if origin not in (None, Literal):  # a mapping
        found = _expected(dict, "an object", data, place)
        return {key: _read(inner[1], value, f"{place}.{key}") for key, value in found.items()}
    return _read_one(kind, data, place)


def _read_one(kind: Any, data: Any, place: str) -> Any:
    if kind in (int, float):
        return kind(_expected(int | float, "a number", None if _is_absent(data) else data, place))
    if kind in (str, bool):
        return _expected(kind, "a text" if kind is str else "true or false", data, place)
    if kind is not Any and data not in (allowed := get_args(kind)):
        raise _unexpected(place, f"must be one of {', '.join(map(repr, allowed))}, got {data!r:.60}")
    return data


def _expected(kinds: Any, what: str, data: Any, place: str) -> Any:
    if not isinstance(data, kinds) or (isinstance(data, bool) and kinds is not bool):
        raise _unexpected(place, f"must be {what}, got {type(data).__name__}")
    return data


def _read_fields(kind: Any, data: dict[str, Any], place: str) -> Any:
    given = {}
    for one in _fields(kind):
        key, hint = _keys(kind).get(one.name, one.name), _types(kind)[one.name]
        optional = type(None) in get_args(hint)
        required = one.default is MISSING and one.default_factory is MISSING
        parts, inner = _parts(kind, one.name), _but_none(hint)
        if parts:
            said = {part: data.get(key) for part, key in parts.items()}
            there = not optional or any(value is not None for value in said.values())
            given[one.name] = _read_fields(inner, said, place) if there else None
        elif one.metadata.get("json") == "inline":  # its keys are among the data; None: none of its own is there
            own = set(_keys(inner).values()).difference(_keys(kind).values())
            there = not optional or any(data.get(name) is not None for name in own)
            given[one.name] = _read_fields(inner, data, place) if there else None
        elif not _is_absent(data.get(key)):
            given[one.name] = _read(hint, data[key], f"{place}.{key}")
        elif optional and (required or key in data):
            given[one.name] = None
        elif required:
            raise _unexpected(f"{place}.{key}", "Field required")
    try:
        return kind(**given)
    except ValueError as error:
        raise _unexpected(place, str(error)) from error


def _but_none(hint: Any) -> Any:
    """The first type of a hint that is not None."""
    return next(one for one in get_args(hint) or (hint,) if one is not type(None))


def _is_absent(value: Any) -> bool:
    """True for nothing, and for a number that counts as missing."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (number and not abs(value) < LARGEST)  # NaN is not below anything


def _unexpected(place: str, said: str) -> UnexpectedDataError:
    return UnexpectedDataError(f"{place.removeprefix('.')}: {said}" if place else said)


# --- schemas -------------------------------------------------------------------------------------------------------


def schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of what a class of results writes."""
    properties: dict[str, Any] = {}
    required = []
    for name, key in _keys(kind).items():
        field, _, part = name.partition(".")
        hint = _types(kind).get(field) or get_type_hints(getattr(kind, field).fget)["return"]
        if _marks(kind).get(name) == "inline":
            properties = {**schema(_but_none(hint))["properties"], **properties}
            continue
        properties[key] = schema(_but_none(hint))["properties"][part] if part else _schema_of(hint)
        required += [key] * (_marks(kind).get(name) != "if any")
    return {"title": kind.__name__, "type": "object", "properties": properties, "required": required}


def _schema_of(hint: Any) -> dict[str, Any]:
    if is_dataclass(hint):
        return schema(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema_of(one) for one in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (tuple, list):
        items = _schema_of(inner[0]) if inner[-1] is ... or origin is list else {"anyOf": list(map(_schema_of, inner))}
        return {"type": "array", "items": items}
    if origin is not None:  # a mapping
        return {"type": "object", "additionalProperties": _schema_of(inner[1])}
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return {"type": names[hint]} if hint in names else {}


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
    found = _parsed(path, lambda text: [json.loads(text)])  # a null is not an absent file
    if found is None or isinstance(found, Unreadable):
        return found
    data: Any = found[0]
    return (
        data if isinstance(data, dict) else Unreadable(path.name, f"must be a JSON object, got {type(data).__name__}")
    )


def _parsed(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(safe_file(path, path.parent).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnsafeFileError as error:
        return Unreadable(path.name, error.reason)
    except (OSError, ValueError, RecursionError) as error:
        return Unreadable(path.name, f"cannot be read ({type(error).__name__}: {error})")


def read_document(path: Path, kind: type[Kind]) -> Kind | Unreadable | None:
    """The result in a file; None if the file does not exist."""
    data = read_object(path)
    if not isinstance(data, dict):
        return data
    try:
        return read(kind, data)
    except UnexpectedDataError as error:
        return Unreadable(path.name, str(error), is_object=True)


def read_rows(path: Path, kind: type[Kind]) -> tuple[Kind, ...] | Unreadable:
    """The valid rows of a JSONL file; empty if the file does not exist."""
    rows = _parsed(path, lambda text: [json.loads(line) for line in text.split("\n") if line.strip()])
    if isinstance(rows, Unreadable):
        return rows
    found = []
    for row in rows or ():
        with suppress(UnexpectedDataError):
            found.append(read(kind, row))
    return tuple(found)
