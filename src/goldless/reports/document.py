"""A result as plain data: what ``--json`` prints and a run folder holds, and the same result read back.

A result is a frozen dataclass. Its keys are its fields, except those with ``metadata={"json": False}``, which are only
there in the process that made the result. A class whose keys are others lists them in ``KEYS``, where "*" stands for
the fields: properties are written too, and ignored when the result is read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from goldless.reports.findings import Said
    from goldless.reports.report_table import ReportTable

LARGEST = 1e18
"""Larger numbers, infinities and NaN count as missing."""
HERE_ONLY: Final[Mapping[str, bool]] = {"json": False}
"""Metadata of a field that is neither written nor read."""

Kind = TypeVar("Kind")


class Shown(Protocol):
    """A result that says itself what it shows: for the terminal, Markdown, CSV, LaTeX, the report and the viewer."""

    def findings(self) -> Iterable[Said]:
        """Sentences, the most important first."""

    def tables(self) -> Sequence[ReportTable]:
        """Tables, in order."""


class UnexpectedDataError(ValueError):
    """Data that is not what a class of results expects; says where."""


def write(result: Any) -> dict[str, Any]:
    """The result as plain data: dictionaries, lists, texts and finite numbers."""
    kind: Any = type(result)
    return {name: _plain(getattr(result, name)) for name in _keys(kind)}


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


@functools.cache
def _keys(kind: Hashable) -> tuple[str, ...]:
    own = [one.name for one in _fields(kind)]
    keys: tuple[str, ...] = getattr(kind, "KEYS", ("*",))
    return tuple(name for key in keys for name in (own if key == "*" else [key]))


def _fields(kind: Any) -> list[Field[Any]]:
    return [one for one in fields(kind) if one.metadata.get("json", True)]


@functools.cache
def _types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, data: Any, place: str) -> Any:
    """``kind``: a dataclass, a text, number, truth value or literal, a tuple or mapping of these, or None as well."""
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
        hint, value = _types(kind)[one.name], _number(data.get(one.name))
        required = one.default is MISSING and one.default_factory is MISSING
        if value is not None:
            given[one.name] = _read(hint, value, f"{place}.{one.name}")
        elif type(None) in get_args(hint) and (required or one.name in data):
            given[one.name] = None
        elif required:
            raise _unexpected(f"{place}.{one.name}", "Field required")
    return kind(**given)


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
