"""Licences: records that a reviewer passed its exams, for what, with which weight, and until when.

A licence is valid for the model that took the exams, on one scale, with one prompt and for one kind of task. Models
behind a name change without notice, so it also expires. It is one readable JSON file, written atomically and checked
field by field when it is read; it contains no key, no response and no prompt, only hashes of them.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from goldless._version import __version__
from goldless.errors import UserError
from goldless.files import write_text
from goldless.judging.scales import Scale
from goldless.models.interface import ModelIdentity, content_hash

FORMAT = 1
SUFFIX = ".licence.json"
VALID_DAYS = 90
"""The lifetime of a licence."""

Setting = str | int | float | bool | None
"""The type of an exam's setting."""
Text = Annotated[str, StringConstraints(pattern=r"\S")]
Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
STRICT = ConfigDict(extra="forbid", strict=True)
"""For files: no value is converted to another type."""


@dataclass(frozen=True, slots=True)
class LicensedTrait:
    """One trait as the exam measured it."""

    __pydantic_config__: ClassVar = STRICT

    value: Number
    n: Count
    """Number of items it was measured on."""
    low: Number | None = None
    """Lower end of its interval; None: there is none."""
    high: Number | None = None


@dataclass(frozen=True, slots=True)
class Sitting:
    """An exam that a reviewer took, and its settings."""

    __pydantic_config__: ClassVar = STRICT

    exam: Text
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharedErrors:
    """Shared errors, or votes, of a reviewer and another that passed the same exams."""

    __pydantic_config__: ClassVar = STRICT

    correlation: Annotated[float, Field(ge=-1 - 1e-9, le=1 + 1e-9)]
    n: Count
    """Pairs that both judged."""
    of: Literal["errors", "votes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """A reviewer's licence to judge, with its weight."""

    __pydantic_config__: ClassVar = STRICT

    reviewer: Text
    """The short form of its identity."""
    identity: ModelIdentity
    scale: Text
    prompt_hash: Hash
    """Hash of the scale's prompt and the task description, by ``prompt_hash``."""
    task_kind: Text
    """The kind of task in the user's words, such as ``news summary``."""
    sittings: tuple[Sitting, ...]
    traits: Mapping[str, LicensedTrait]
    """By name, such as ``consistency``."""
    weight: Number
    """The weight of its vote; negative: its votes are reversed, as by a logit below one half."""
    issued: dt.date
    expires: dt.date
    """The last day on which it is valid."""
    goldless: Text
    """The version of goldless that issued it."""
    study_hash: Hash
    """Hash of the fingerprint of the exams' study."""
    shared: Mapping[str, SharedErrors] = field(default_factory=dict)
    """By the short name of the other reviewer, for what a panel of both is worth; licences of before have none."""


_LICENCE = TypeAdapter(Licence)


def prompt_hash(scale: Scale, task_description: str) -> str:
    """Hash of a reviewer's instructions: the scale's messages with and without a prompt, its labels and its range."""
    marks = ("<first>", "<second>") if scale.pairwise else ("<first>", None)
    described = task_description.strip()
    worded = [
        [
            asdict(message)
            for message in scale.messages(*marks, prompt=prompt, task_description=described, explained=explained)
        ]
        for prompt in ("<prompt>", None)
        for explained in (False, True)
    ]
    spoken = [scale.spoken(label) for label in scale.labels]
    return content_hash(
        "licence", scale.name, scale.lowest, scale.highest, spoken, list(scale.values), worded, scale.restated()
    )


def issue(
    identity: ModelIdentity,
    scale: Scale,
    *,
    task_description: str,
    task_kind: str,
    sittings: Sequence[Sitting],
    traits: Mapping[str, LicensedTrait],
    weight: float,
    study_fingerprint: str,
    shared: Mapping[str, SharedErrors] | None = None,
    issued: dt.date | None = None,
) -> Licence:
    """A licence for this reviewer. ``issued`` None: today, in UTC."""
    held = [name for name, value in identity.settings.items() if re.search(r"://[^/\s]*@", value)]
    if held:
        # a licence is passed on; the part before the @ of an address is most often a secret
        raise UserError(
            f"{', '.join(held)} of {identity.short} contains a user name or password. Give the address without it; "
            "keys are read from the environment"
        )
    day = dt.datetime.now(dt.UTC).date() if issued is None else issued
    return Licence(
        reviewer=identity.short,
        identity=identity,
        scale=scale.name,
        prompt_hash=prompt_hash(scale, task_description),
        task_kind=task_kind,
        sittings=tuple(sittings),
        traits=dict(traits),
        weight=weight,
        issued=day,
        expires=day + dt.timedelta(days=VALID_DAYS),
        goldless=__version__,
        study_hash=content_hash("licence study", study_fingerprint),
        shared=dict(shared or {}),
    )


# --- whether it holds ----------------------------------------------------------------------------------------------


def check(
    licence: Licence, *, identity: ModelIdentity, scale: str, prompt_hash: str, task_kind: str, today: dt.date
) -> list[str]:
    """Why the licence is not valid for this reviewer, prompt and kind of task; empty if it is."""
    reasons = []
    if today > licence.expires:
        reasons.append(f"it expired on {licence.expires}, and today is {today}")
    if today < licence.issued:
        reasons.append(f"it is valid from {licence.issued}, and today is {today}")
    reasons += _other_model(licence.identity, identity)
    if scale != licence.scale:
        reasons.append(f"it is for the scale {licence.scale}, not {scale}")
    elif prompt_hash != licence.prompt_hash:
        reasons.append(
            f"it is for another prompt or task description ({licence.prompt_hash[:8]}, not {prompt_hash[:8]})"
        )
    if plain_kind(task_kind) != plain_kind(licence.task_kind):
        reasons.append(f"it is for tasks of the kind {licence.task_kind!r}, not {task_kind!r}")
    theirs, ours = _version(licence.goldless), _version(__version__)
    if theirs is None or ours is None or theirs > ours:
        reasons.append(
            f"it was issued by goldless {licence.goldless}, which this version, {__version__}, does not support"
        )
    return reasons


def refuse(
    held: Iterable[tuple[ModelIdentity, Licence | None]],
    *,
    scale: str,
    prompt_hash: str,
    task_kind: str,
    today: dt.date | None = None,
) -> None:
    """Raise with every reason why reviewers may not judge; return if all licences are valid.

    ``held``: each reviewer with its licence, or None if it has none. ``today`` None: the current day, in UTC.
    """
    day = dt.datetime.now(dt.UTC).date() if today is None else today
    lines = []
    for identity, licence in held:
        if licence is None:
            lines.append(f"  {identity.short}: no licence")
            continue
        reasons = check(
            licence, identity=identity, scale=scale, prompt_hash=prompt_hash, task_kind=task_kind, today=day
        )
        lines += [f"  {identity.short}: {reason}" for reason in reasons]
    if lines:
        raise UserError(
            "\n".join(["these reviewers have no valid licence. Let them take the exams, or leave them out:", *lines])
        )


def _other_model(licensed: ModelIdentity, asked: ModelIdentity) -> list[str]:
    if (licensed.provider, licensed.name) != (asked.provider, asked.name):
        return [f"it is for another model, {licensed.provider}:{licensed.name}, not {asked.provider}:{asked.name}"]
    reasons = [
        f"it is for the model's {what} {ours or 'unknown'}, not {theirs or 'unknown'}"
        for what, ours, theirs in (
            ("revision", licensed.revision, asked.revision),
            ("tokenizer", licensed.tokenizer, asked.tokenizer),
        )
        if ours != theirs
    ]
    for name in sorted({*licensed.settings, *asked.settings}):
        ours, theirs = licensed.settings.get(name), asked.settings.get(name)
        if ours != theirs:
            reasons.append(f"it is for the setting {name} = {ours or 'unset'}, not {theirs or 'unset'}")
    return reasons


def plain_kind(words: str) -> str:
    """A kind of task in the form used for comparisons: lower case, single spaces."""
    return " ".join(words.split()).casefold()


def _version(text: str) -> tuple[int, ...] | None:
    numbers = re.match(r"(\d+(?:\.\d+)*)", text)
    return tuple(map(int, numbers[1].split("."))) if numbers else None


# --- on disk -------------------------------------------------------------------------------------------------------


def write_licence(licence: Licence, folder: Path | str) -> Path:
    """Write the licence to a file in the folder, atomically.

    The name depends on reviewer, scale, prompt and kind of task: a licence issued again replaces the previous one.
    """
    folder = Path(folder)
    subject = content_hash(
        licence.identity.as_dict(), licence.scale, licence.prompt_hash, plain_kind(licence.task_kind)
    )
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{licence.reviewer} {licence.scale}").strip("-.")[:80]
    path = folder / f"{words}-{subject[:8]}{SUFFIX}"
    data = {"format": FORMAT, **_LICENCE.dump_python(licence, mode="json")}
    body = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, body)
    except OSError as error:
        raise UserError(f"{path}: the licence cannot be written ({error.strerror}). Choose another folder") from error
    return path


def read_licences(folder: Path | str) -> list[Licence]:
    """All licences in the folder, sorted by file name; empty if there is no such folder."""
    return [read_licence(path) for path in sorted(Path(folder).glob(f"*{SUFFIX}"))]


def read_licence(path: Path | str) -> Licence:
    """The licence in a file. Raises a UserError that names the file and every field that is wrong."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as a licence ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or isinstance(data["format"], bool):
        given = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise UserError(f"{path}: must be a JSON object with format {FORMAT}, got {given!r}. Issue the licence again")
    try:
        # as JSON once more: there a date is a text, and a list is a tuple, where nothing else is turned into another
        return _LICENCE.validate_json(json.dumps({name: value for name, value in data.items() if name != "format"}))
    except ValidationError as error:
        problems = [f"  {path}: {_problem(problem)}" for problem in error.errors()]
        raise UserError("\n".join(["the licence is not valid. Issue it again:", *problems])) from error


def _problem(problem: ErrorDetails) -> str:
    given = "" if problem["type"] == "missing" else f", got {problem['input']!r}"
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}{given}"
