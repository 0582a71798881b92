"""What documents are made of, and how one is read: validated once, and where it is wrong told in one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, model_validator

LARGEST = 1e18
"""Numbers beyond it, and those that are none, are taken for missing."""


def _text(value: object) -> str:
    # a plain check: half a surrogate pair is a text too, and pydantic's own refuses it
    if not isinstance(value, str):
        raise ValueError(f"is {type(value).__name__}, and a text is expected")  # noqa: TRY004 - pydantic's way
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"is {type(value).__name__}, and a number is expected")  # noqa: TRY004
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
"""Of confidence."""
Count = Annotated[int, BeforeValidator(_count)]
Texts = tuple[Text, ...]
EMPTY: dict[str, Any] = {}
"""A field that is an object and may be left out; every document gets its own copy."""


class Part(BaseModel):
    """An object in a document. All its fields are kept, those too that only stand in tables; null is a default."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: value for name, value in data.items() if value is not None or name in required}

    def get(self, name: str, /) -> Any:
        """The field of that name, as a row of a table gives it; None: there is none."""
        return getattr(self, name, None)

    def cells(self, **more: Any) -> dict[str, Any]:
        """Its fields by name, and more beside them: a row of a table."""
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
    """SHA-256 of the study's tasks and responses; empty: not told."""
    complete: bool = True
    """Whether another run of the same command would find nothing left to ask."""
    level: Level = 0.95
    signature: Text = ""
    notes: Texts = ()


Found = TypeVar("Found", bound=Part)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a file that is there could not be read as a document."""

    file: str
    reason: str
    is_object: bool = False
    """Whether it holds a JSON object, of another shape than this version expects."""

    def __str__(self) -> str:
        """In a sentence, without its full stop."""
        if not self.is_object:
            return f"{self.file} {self.reason}"
        return (
            f"{self.file} has another shape than this version of goldless expects ({self.reason}). It may come from an "
            "older or newer version: run it again to have it shown"
        )


def read_document(path: Path, kind: type[Found]) -> Found | Unreadable | None:
    """The document in a file; None where there is no such file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        return Unreadable(path.name, f"cannot be read ({type(error).__name__}: {error})")
    if not isinstance(data, dict):
        return Unreadable(path.name, f"holds {type(data).__name__}, and an object is expected")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        return Unreadable(path.name, _first_problem(error), is_object=True)


def read_rows(path: Path, kind: type[Found]) -> tuple[Found, ...] | Unreadable:
    """The rows of a JSONL file that are of this kind; none where there is no such file."""
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
