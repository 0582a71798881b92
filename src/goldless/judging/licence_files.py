"""Licences on disk: one JSON file each, written whole or not at all, and checked field by field when it is read."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.judging.licences import Licence, LicensedTrait, Sitting, plain_kind
from goldless.models.interface import ModelIdentity, content_hash

FORMAT = 1
SUFFIX = ".licence.json"


def write_licence(licence: Licence, folder: Path | str) -> Path:
    """Write the licence to a file of its own in the folder; whole or not at all.

    The name comes from reviewer, scale, prompt and kind of task: a licence issued again replaces the one before.
    """
    folder = Path(folder)
    subject = content_hash(
        licence.identity.as_dict(), licence.scale, licence.prompt_hash, plain_kind(licence.task_kind)
    )
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{licence.reviewer} {licence.scale}").strip("-.")[:80]
    path = folder / f"{words}-{subject[:8]}{SUFFIX}"
    body = json.dumps(_as_data(licence), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, prefix=".licence.", delete=False) as aside:
            try:
                aside.write(body)
                aside.flush()
                os.fsync(aside.fileno())
                Path(aside.name).replace(path)
            except BaseException:
                Path(aside.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UserError(f"{path}: the licence cannot be written ({error.strerror}); name another folder") from error
    return path


def read_licences(folder: Path | str) -> list[Licence]:
    """All licences in the folder, in the order of their files; none where there is no such folder."""
    return [read_licence(path) for path in sorted(Path(folder).glob(f"*{SUFFIX}"))]


def read_licence(path: Path | str) -> Licence:
    """The licence in a file. Raises a UserError that names the file and every field that is wrong."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as a licence ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or isinstance(data["format"], bool):
        came = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise UserError(f"{path}: a licence is a JSON object with format {FORMAT}; this has {came!r}. Issue it again.")
    problems = [f"  {path}: {problem}" for problem in _problems(data)]
    if problems:
        raise UserError("\n".join(["a licence that cannot be used; issue it again:", *problems]))
    try:
        return _from_data(data)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _as_data(licence: Licence) -> dict[str, Any]:
    """Plain data in the order of the fields."""
    data = {"format": FORMAT, **asdict(licence)}
    return data | {"issued": licence.issued.isoformat(), "expires": licence.expires.isoformat()}


def _from_data(data: Mapping[str, Any]) -> Licence:
    fields = {name: data[name] for name in FIELDS}
    return Licence(
        **fields
        | {
            "identity": ModelIdentity(**data["identity"]),
            "sittings": tuple(Sitting(**sitting) for sitting in data["sittings"]),
            "traits": {name: LicensedTrait(**trait) for name, trait in data["traits"].items()},
            "issued": dt.date.fromisoformat(data["issued"]),
            "expires": dt.date.fromisoformat(data["expires"]),
        }
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_any_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    # a whole number may be too large for a float
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_number_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_day(value: object) -> bool:
    try:
        return isinstance(value, str) and len(value) == len("2000-01-31") and bool(dt.date.fromisoformat(value))
    except ValueError:
        return False


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_settings(value: object) -> bool:
    return isinstance(value, dict) and all(v is None or isinstance(v, str | int | float) for v in value.values())


def _is_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


FIELDS = {
    "reviewer": (_is_text, "a text"),
    "identity": (lambda value: isinstance(value, dict), "an object"),
    "scale": (_is_text, "a text"),
    "prompt_hash": (_is_hash, "64 hexadecimal digits"),
    "task_kind": (_is_text, "a text"),
    "sittings": (lambda value: isinstance(value, list), "a list"),
    "traits": (lambda value: isinstance(value, dict), "an object"),
    "weight": (_is_number, "a finite number"),
    "issued": (_is_day, "a date such as 2026-01-31"),
    "expires": (_is_day, "a date such as 2026-01-31"),
    "goldless": (_is_text, "a text"),
    "study_hash": (_is_hash, "64 hexadecimal digits"),
}
_IDENTITY = {
    "provider": (_is_text, "a text"),
    "name": (_is_text, "a text"),
    "revision": (_is_any_text, "a text"),
    "tokenizer": (_is_any_text, "a text"),
    "settings": (_is_texts, "an object of texts"),
}
_SITTING = {"exam": (_is_text, "a text"), "settings": (_is_settings, "an object of texts, numbers and truth values")}
_TRAIT = {
    "value": (_is_number, "a finite number"),
    "n": (_is_count, "a whole number of 0 or more"),
    "low": (_is_number_or_none, "a finite number or null"),
    "high": (_is_number_or_none, "a finite number or null"),
}


def _problems(data: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong, each with the field it stands in."""
    found = _wrong({name: value for name, value in data.items() if name != "format"}, FIELDS, "")
    parts: list[tuple[str, object, Mapping[str, Any]]] = [("identity", data.get("identity"), _IDENTITY)]
    for place, sitting in enumerate(data["sittings"] if isinstance(data.get("sittings"), list) else ()):
        parts.append((f"sittings[{place}]", sitting, _SITTING))
    for name, trait in (data["traits"] if isinstance(data.get("traits"), dict) else {}).items():
        parts.append((f"traits.{name}", trait, _TRAIT))
    for where, part, fields in parts:
        if isinstance(part, dict):
            found += _wrong(part, fields, f"{where}.")
        elif where != "identity":
            found.append(f"{where} is an object, not {part!r}")
    return found


def _wrong(part: Mapping[str, Any], fields: Mapping[str, Any], place: str) -> list[str]:
    found = [f"{place}{name} is missing; it is {fields[name][1]}" for name in fields if name not in part]
    for name, value in part.items():
        if name not in fields:
            found.append(f"{place}{name} is no field of a licence; known: {', '.join(fields)}")
        elif not fields[name][0](value):
            found.append(f"{place}{name} is {fields[name][1]}, not {value!r}")
    return found
