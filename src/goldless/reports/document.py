"""A result as plain data: what ``--json`` prints and a run folder holds, and the same result read back.

A result is a frozen dataclass. Its keys are its fields, except those with ``metadata={"json": False}``, which are only
there in the process that made the result; ``"if any"``: a field that is left out where it is empty; ``"inline"``: one
whose own fields are written in its place. A class whose keys are others lists them in ``KEYS``, where "*" stands for
the fields, and ``key:name`` for one of another name: properties are written too, and ignored when read.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

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
        value, mark = getattr(result, name), _marks(kind).get(name)
        if mark == "inline":
            for inner, plain in ({} if value is None else write(value)).items():
                found.setdefault(inner, plain)
        elif mark != "if any" or value:
            found[key] = _plain(value)
    return found


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
    """The keys that fields and properties are written under, by name."""
    own = [one.name for one in _fields(kind)]
    found: dict[str, str] = {}
    for said in getattr(kind, "KEYS", ("*",)):
        for one in own if said == "*" else [said]:
            key, _, name = one.partition(":")
            found.setdefault(name or key, key)
    return found


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
    if is_dataclass(kind):
        return _read_fields(kind, data, place)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _read_either(inner, data, place)
    if origin is Literal:
        if data in inner:
            return data
        raise _unexpected(place, f"must be one of {', '.join(map(repr, inner))}, got {data!r:.60}")
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise _unexpected(place, f"must be a list, got {type(data).__name__}")
        kinds = inner[:1] * len(data) if inner[-1] is ... else inner
        if len(data) != len(kinds):
            raise _unexpected(place, f"must be a list of {len(kinds)}, got {len(data)}")
        return tuple(_read(one, value, f"{place}.{n}") for n, (one, value) in enumerate(zip(kinds, data, strict=True)))
    if origin is not None:  # a mapping
        if not isinstance(data, dict):
            raise _unexpected(place, f"must be an object, got {type(data).__name__}")
        return {key: _read(inner[1], value, f"{place}.{key}") for key, value in data.items()}
    return _read_one(kind, data, place)


def _read_fields(kind: Any, data: Any, place: str) -> Any:
    if not isinstance(data, dict):
        raise _unexpected(place, f"must be an object, got {type(data).__name__}")
    given = {}
    for one in _fields(kind):
        key = _keys(kind).get(one.name, one.name)
        hint, value = _types(kind)[one.name], _number(data.get(key))
        required = one.default is MISSING and one.default_factory is MISSING
        if one.metadata.get("json") == "inline":
            given[one.name] = _read_inline(hint, data, place, without=set(_keys(kind).values()))
        elif value is not None:
            given[one.name] = _read(hint, value, f"{place}.{key}")
        elif type(None) in get_args(hint) and (required or key in data):
            given[one.name] = None
        elif required:
            raise _unexpected(f"{place}.{key}", "Field required")
    try:
        return kind(**given)
    except ValueError as error:
        raise _unexpected(place, str(error)) from error


def _read_inline(hint: Any, data: dict[str, Any], place: str, *, without: Iterable[str]) -> Any:
    """The result whose keys are among the data; None where that is allowed and none of its own keys is there."""
    (kind,) = [one for one in get_args(hint) or (hint,) if one is not type(None)]
    own = set(_keys(kind).values()).difference(without)
    absent = type(None) in get_args(hint) and all(data.get(key) is None for key in own)
    return None if absent else _read_fields(kind, data, place)


def _read_either(kinds: tuple[Any, ...], data: Any, place: str) -> Any:
    """Data of the first kind that it fits; the error is the last one's."""
    if _number(data) is None:
        if type(None) in kinds:
            return None
        raise _unexpected(place, "Field required")
    *others, last = [kind for kind in kinds if kind is not type(None)]
    for kind in others:
        try:
            return _read(kind, data, place)
        except UnexpectedDataError:
            continue
    return _read(last, data, place)


def _number(value: Any) -> Any:
    """None for a number that counts as missing."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if abs(value) < LARGEST else None  # NaN is not below anything
    return value


def _read_one(kind: Any, data: Any, place: str) -> Any:
    known = _number(data)
    if kind is Any:
        return data
    if kind in (int, float):
        if isinstance(known, bool) or not isinstance(known, int | float):
            raise _unexpected(place, f"must be a number, got {type(data).__name__}")
        return kind(known)
    if not isinstance(data, kind):
        what = {str: "a text", bool: "true or false"}.get(kind, kind.__name__)
        raise _unexpected(place, f"must be {what}, got {type(data).__name__}")
    return data


def _unexpected(place: str, said: str) -> UnexpectedDataError:
    return UnexpectedDataError(f"{place.removeprefix('.')}: {said}" if place else said)


# --- schemas -------------------------------------------------------------------------------------------------------


def schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of what a class of results writes."""
    properties: dict[str, Any] = {}
    required = []
    for name, key in _keys(kind).items():
        hint = _types(kind).get(name) or get_type_hints(getattr(kind, name).fget)["return"]
        if _marks(kind).get(name) == "inline":
            inner = next(one for one in get_args(hint) or (hint,) if one is not type(None))
            properties = {**schema(inner)["properties"], **properties}
            continue
        properties[key] = _schema_of(hint)
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


@dataclass(frozen=True, slots=True)
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
            f"{self.file} does not match what this version of goldless expects ({self.reason}). It may come from an "
            "older or newer version. Run the command again to recreate it"
        )


def read_object(path: Path) -> dict[str, Any] | Unreadable | None:
    """The JSON object in a file; None if the file does not exist."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        return Unreadable(path.name, f"cannot be read ({type(error).__name__}: {error})")
    if not isinstance(data, dict):
        return Unreadable(path.name, f"must be a JSON object, got {type(data).__name__}")
    return data


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
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RecursionError) as error:
        return Unreadable(path.name, f"cannot be read ({type(error).__name__}: {error})")
    found = []
    for row in rows:
        try:
            found.append(read(kind, row))
        except UnexpectedDataError:
            continue
    return tuple(found)
