"""Licences: what says that a reviewer passed its exams, of what, with which weight, and until when.

A licence holds for the model that sat the exams, on one scale, under one prompt and for one kind of task. Models behind
a name change without notice, so it also ends by itself. It is one JSON file that anybody can read, written whole or not
at all, and checked field by field when it is read; it holds no key, no response and no prompt, only hashes of them.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from goldless._version import __version__
from goldless.errors import UserError
from goldless.files import write_text
from goldless.judging.scales import Scale
from goldless.models.interface import ModelIdentity, content_hash

FORMAT = 1
SUFFIX = ".licence.json"
VALID_DAYS = 90
"""How long a licence holds unless told otherwise."""

Setting = str | int | float | bool | None
"""What a setting of an exam may be."""
Text = Annotated[str, StringConstraints(pattern=r"\S")]
Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
STRICT = ConfigDict(extra="forbid", strict=True)
"""For files: nothing is turned into what it should have been."""


def _whole_identity(value: Any) -> Any:
    """What a file says of a model: all of it, as a field left out would pass for one that is empty."""
    needed = [each.name for each in fields(ModelIdentity)]
    if isinstance(value, dict) and sorted(value) != sorted(needed):
        raise ValueError(f"needs the fields {', '.join(needed)}, got {', '.join(value)}")
    return value


Identity = Annotated[ModelIdentity, BeforeValidator(_whole_identity)]


@dataclass(frozen=True, slots=True)
class LicensedTrait:
    """One trait as the exam measured it."""

    __pydantic_config__: ClassVar = STRICT

    value: float
    n: int
    """Items it was measured on."""
    low: float | None = None
    """Lower end of its interval; None: there is none."""
    high: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no exam gives."""
        numbers = [number for number in (self.value, self.low, self.high) if number is not None]
        if not all(map(math.isfinite, numbers)):
            raise UserError(f"a trait is made of finite numbers, not of {numbers}")
        if self.n < 0:
            raise UserError(f"a trait is measured on 0 items or more, not on {self.n}")
        if (self.low is None) != (self.high is None) or (
            self.low is not None and self.high is not None and self.low > self.high
        ):
            raise UserError(
                f"an interval has two ends in ascending order, or none; it came as {self.low} to {self.high}"
            )


@dataclass(frozen=True, slots=True)
class Sitting:
    """An exam that was sat, and how."""

    __pydantic_config__: ClassVar = STRICT

    exam: Text
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """What a reviewer may judge, and with which weight."""

    __pydantic_config__: ClassVar = STRICT

    reviewer: Text
    """Its identity in short."""
    identity: Identity
    scale: Text
    prompt_hash: Hash
    """Of the scale's wording and the task description, by ``prompt_hash``."""
    task_kind: Text
    """What was judged, in the user's words, such as ``news summary``."""
    sittings: tuple[Sitting, ...]
    traits: Mapping[str, LicensedTrait]
    """By name, such as ``consistency``."""
    weight: float
    """Of its vote; negative: its votes are turned round, as a logit below one half does."""
    issued: dt.date
    expires: dt.date
    """The last day on which it holds."""
    goldless: Text
    """Version that issued it."""
    study_hash: Hash
    """Hash of the fingerprint of the study that the exams were made of."""

    def __post_init__(self) -> None:
        """Refuse what no issue gives."""
        if not math.isfinite(self.weight):
            raise UserError(f"the weight of a vote is a finite number, not {self.weight}")
        if self.expires < self.issued:
            raise UserError(f"a licence issued on {self.issued} cannot expire on {self.expires}: that is before it")
        blank = [name for name in ("reviewer", "scale", "prompt_hash", "task_kind") if not getattr(self, name).strip()]
        if blank:
            raise UserError(f"a licence needs a text for {', '.join(blank)}; it came empty")


def prompt_hash(scale: Scale, task_description: str) -> str:
    """Hash of all a reviewer is told beside the texts: the scale's wording with and without a prompt, and its range."""
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
    issued: dt.date | None = None,
    valid_days: int = VALID_DAYS,
) -> Licence:
    """A licence for this reviewer. ``issued`` None: today, in UTC."""
    if valid_days < 0:
        raise UserError(f"a licence holds for 0 days or more after the day it is issued, not for {valid_days}")
    held = [name for name, value in identity.settings.items() if re.search(r"://[^/\s]*@", value)]
    if held:
        # a licence is passed on; what stands before the @ of an address is most often a secret
        raise UserError(
            f"{', '.join(held)} of {identity.short} holds a user or password; give the address without it: "
            "keys come from the environment"
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
        expires=day + dt.timedelta(days=valid_days),
        goldless=__version__,
        study_hash=content_hash("licence study", study_fingerprint),
    )


# --- whether it holds ----------------------------------------------------------------------------------------------


def check(
    licence: Licence, *, identity: ModelIdentity, scale: str, prompt_hash: str, task_kind: str, today: dt.date
) -> list[str]:
    """Why the licence does not hold for this reviewer, prompt and kind of task; empty where it does."""
    reasons = []
    if today > licence.expires:
        reasons.append(f"it expired on {licence.expires}, and today is {today}")
    if today < licence.issued:
        reasons.append(f"it was issued on {licence.issued}, and today is {today}")
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
            f"it was issued by goldless {licence.goldless}, which this version, {__version__}, does not know"
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
    """Raise with every reason why reviewers may not judge; return where all licences hold.

    ``held``: each reviewer with its licence, or None where it has none. ``today`` None: the day it is, in UTC.
    """
    day = dt.datetime.now(dt.UTC).date() if today is None else today
    lines = []
    for identity, licence in held:
        if licence is None:
            lines.append(f"  {identity.short}: it has none")
            continue
        reasons = check(
            licence, identity=identity, scale=scale, prompt_hash=prompt_hash, task_kind=task_kind, today=day
        )
        lines += [f"  {identity.short}: {reason}" for reason in reasons]
    if lines:
        raise UserError(
            "\n".join(
                ["these reviewers have no licence that holds; let them sit the exams, or leave them out:", *lines]
            )
        )


def _other_model(licensed: ModelIdentity, asked: ModelIdentity) -> list[str]:
    if (licensed.provider, licensed.name) != (asked.provider, asked.name):
        return [f"it is for another model, {licensed.provider}:{licensed.name}, not {asked.provider}:{asked.name}"]
    reasons = [
        f"it is for {what} {ours or 'unknown'} of the model, not {theirs or 'unknown'}"
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
    """A kind of task as it is compared: without case and further spaces."""
    return " ".join(words.split()).casefold()


def _version(text: str) -> tuple[int, ...] | None:
    numbers = re.match(r"(\d+(?:\.\d+)*)", text)
    return tuple(map(int, numbers[1].split("."))) if numbers else None


# --- on disk -------------------------------------------------------------------------------------------------------

_LICENCE = TypeAdapter(Licence)


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
    data = {"format": FORMAT, **_LICENCE.dump_python(licence, mode="json")}
    body = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, body)
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
    try:
        # as JSON once more: there a date is a text, and a list is a tuple, where nothing else is turned into another
        return _LICENCE.validate_json(json.dumps({name: value for name, value in data.items() if name != "format"}))
    except ValidationError as error:
        problems = [f"  {path}: {problem}" for problem in _problems(error)]
        raise UserError("\n".join(["a licence that cannot be used; issue it again:", *problems])) from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _problems(error: ValidationError) -> list[str]:
    """Everything that is wrong, each with the field it stands in."""
    found = []
    for problem in error.errors():
        place = ".".join(map(str, problem["loc"]))
        came = "" if problem["type"] == "missing" else f", got {problem['input']!r}"
        found.append(f"{place}: {problem['msg']}{came}")
    return found
