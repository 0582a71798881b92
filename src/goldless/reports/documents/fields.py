"""Fields of result documents, and reading a document: validated once, with problems reported in one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from goldless.reports.document import LARGEST, UnexpectedDataError, read


def _text(value: object) -> str:
    # a plain check: half a surrogate pair is a text too, and pydantic's own refuses it
    if not isinstance(value, str):
        raise ValueError(f"must be a text, got {type(value).__name__}")  # noqa: TRY004 - pydantic's way
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, got {type(value).__name__}")  # noqa: TRY004
    try:
        found = float(value)
    except OverflowError:  # more digits than a float can hold
        return None
    return found if abs(found) < LARGEST else None


def _count(value: object) -> int:
    return int(_number(value) or 0)


Text = Annotated[str, PlainValidator(_text)]
Number = Annotated[float | None, BeforeValidator(_number)]
"""None: missing."""
Level = Annotated[float, Field(gt=0, lt=1)]
"""A confidence level."""
Count = Annotated[int, BeforeValidator(_count)]
Texts = tuple[Text, ...]
EMPTY: dict[str, Any] = {}
"""The default of an optional object; every document gets its own copy."""


class Part(BaseModel):
    """An object in a document. All fields are kept, even those that only tables use; null means the default."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: value for name, value in data.items() if value is not None or name in required}

    def get(self, name: str, /) -> Any:
        """The field of that name, None if there is none: the protocol of table rows."""
        return getattr(self, name, None)

    def cells(self, **more: Any) -> dict[str, Any]:
        """Its fields by name, plus additional ones: a row of a table."""
        return {**dict(self), **more}


class Bounded(Part):
    """A number with the ends of its interval."""

    low: Number = None
    """None: there is no interval."""
    high: Number = None


class Result(Part):
    """A document with results of a study."""

    study: Text = ""
    fingerprint: Text = ""
    """SHA-256 of the study's tasks and responses; empty: unknown."""
    complete: bool = True
    """Whether everything requested was collected, so that running the command again would change nothing."""
    level: Level = 0.95
    signature: Text = ""
    notes: Texts = ()


Found = TypeVar("Found", bound=Part)
Document = TypeVar("Document")
"""A document class, or the dataclass of a result."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why an existing file could not be read as a document."""

    file: str
    reason: str
    is_object: bool = False
    """Whether it is a JSON object, but with fields that this version does not expect."""

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


def read_document(path: Path, kind: type[Document]) -> Document | Unreadable | None:
    """The document or result in a file; None if the file does not exist."""
    data = read_object(path)
    if not isinstance(data, dict):
        return data
    try:
        return read(kind, data) if is_dataclass(kind) else kind.model_validate(data)  # type: ignore[attr-defined]
    except ValidationError as error:
        return Unreadable(path.name, _first_problem(error), is_object=True)
    except UnexpectedDataError as error:
        return Unreadable(path.name, str(error), is_object=True)


def read_rows(path: Path, kind: type[Found]) -> tuple[Found, ...] | Unreadable:
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
            found.append(kind.model_validate(row))
        except ValidationError:
            continue
    return tuple(found)


def _first_problem(error: ValidationError) -> str:
    first, *others = error.errors(include_url=False, include_input=False)
    place = ".".join(map(str, first["loc"]))
    more = f"; {len(others)} more" if others else ""
    return f"{place}: {first['msg'].removeprefix('Value error, ')}{more}"
