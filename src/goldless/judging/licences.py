"""Licences: records that a reviewer passed its exams, for what, with which weight, and until when.

A licence is valid for the model that took the exams, on one scale, with one prompt and for one kind of task. Models
behind a name change without notice, so it also expires. It is one readable JSON file, written atomically and checked
field by field when it is read; it contains no key, no response and no prompt, only hashes of them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from goldless._version import __version__
from goldless.errors import UserError
from goldless.files import write_text
from goldless.judging.scales import Scale
from goldless.models.interface import ModelIdentity, content_hash

SUFFIX = ".licence.json"
VALID_DAYS = 90
"""The lifetime of a licence."""

Text = Annotated[str, StringConstraints(pattern=r"\S")]
Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
STRICT = ConfigDict(extra="forbid", strict=True)
"""For files: no value is converted to another type."""


@dataclass(frozen=True)
class LicensedTrait:
    """One trait as the exam measured it."""

    __pydantic_config__: ClassVar = STRICT

    value: Number
    n: Count
    """Number of items it was measured on."""
    low: Number | None = None
    """Lower end of its interval; None: there is none."""
    high: Number | None = None


@dataclass(frozen=True)
class Sitting:
    """An exam that a reviewer took, and its settings."""

    __pydantic_config__: ClassVar = STRICT

    exam: Text
    settings: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class SharedErrors:
    """Shared errors, or votes, of a reviewer and another that passed the same exams."""

    __pydantic_config__: ClassVar = STRICT

    correlation: Annotated[float, Field(ge=-1 - 1e-9, le=1 + 1e-9)]
    n: Count
    """Pairs that both judged."""
    of: Literal["errors", "votes"]


REFUSED = "these reviewers have no valid licence. Let them take the exams, or leave them out:"


@dataclass(frozen=True, kw_only=True)
class Licence:
    """A reviewer's licence to judge, with its weight."""

    __pydantic_config__: ClassVar = STRICT

    format: Literal[1]
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

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """The licence in a file. Raises a UserError that names the file and every field that is wrong."""
        try:
            return TypeAdapter(cls).validate_json(Path(path).read_bytes())
        except OSError as error:
            raise UserError(f"{path}: cannot be read as a licence ({error})") from error
        except ValidationError as error:
            lines = ["the licence is not valid. Issue it again:"]
            for problem in error.errors():
                got = "" if problem["type"] == "missing" else f", got {problem['input']!r:.200}"
                where = f"{'.'.join(map(str, problem['loc']))}: " if problem["loc"] else ""
                lines.append(f"  {path}: {where}{problem['msg']}{got}")
            raise UserError("\n".join(lines)) from error

    @staticmethod
    def require(
        reviewers: Iterable[tuple[ModelIdentity, Licence | None]],
        *,
        scale: Scale,
        task_description: str,
        task_kind: str,
        today: dt.date | None = None,
    ) -> None:
        """Raise with every reason why reviewers may not judge; return if all licences are valid.

        ``reviewers``: each with its licence, or None if it has none. ``today`` None: the current day, in UTC.
        """
        day = dt.datetime.now(dt.UTC).date() if today is None else today
        wanted: dict[str, Any] = {"scale": scale.name, "prompt_hash": prompt_hash(scale, task_description)}
        wanted |= {"task_kind": task_kind, "today": day}
        lines = [
            f"  {identity.short}: {reason}"
            for identity, licence in reviewers
            for reason in (["no licence"] if licence is None else check(licence, identity=identity, **wanted))
        ]
        if lines:
            raise UserError("\n".join([REFUSED, *lines]))


def prompt_hash(scale: Scale, task_description: str) -> str:
    """Hash of a reviewer's instructions: the scale's messages with and without a prompt, its labels and its range."""
    marks = ("<first>", "<second>") if scale.pairwise else ("<first>", None)
    worded = [
        [
            asdict(one)
            for one in scale.messages(*marks, prompt=p, task_description=task_description, explained=explained)
        ]
        for p in ("<prompt>", None)
        for explained in (False, True)
    ]
    labels = [scale.spoken(label) for label in scale.labels], list(scale.labels.values())
    return content_hash("licence", scale.name, scale.lowest, scale.highest, *labels, worded, scale.marked_form(""))


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
        format=1,
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
    """Reasons why the licence is not valid for this reviewer, prompt and kind of task; empty if it is."""
    reasons = [f"it expired on {licence.expires}, and today is {today}"] if today > licence.expires else []
    held, asked = (f"{one.provider}:{one.name}" for one in (licence.identity, identity))
    if held != asked:
        reasons.append(f"it is for another model, {held}, not {asked}")
    else:
        one, other = (
            {"model's revision": model.revision or "unknown", "model's tokenizer": model.tokenizer or "unknown"}
            | {f"setting {name} =": model.settings.get(name, "unset") for name in sorted(settings)}
            for settings in [{*licence.identity.settings, *identity.settings}]
            for model in (licence.identity, identity)
        )
        reasons += [f"it is for the {what} {one[what]}, not {other[what]}" for what in one if one[what] != other[what]]
    if scale != licence.scale:
        reasons.append(f"it is for the scale {licence.scale}, not {scale}")
    elif prompt_hash != licence.prompt_hash:
        reasons.append(
            f"it is for another prompt or task description ({licence.prompt_hash[:8]}, not {prompt_hash[:8]})"
        )
    if _plain_kind(task_kind) != _plain_kind(licence.task_kind):
        reasons.append(f"it is for tasks of the kind {licence.task_kind!r}, not {task_kind!r}")
    return reasons


def _plain_kind(words: str) -> str:
    """A kind of task in the form used for comparisons: lower case, single spaces."""
    return " ".join(words.split()).casefold()


# --- on disk -------------------------------------------------------------------------------------------------------


def write_licence(licence: Licence, folder: Path | str) -> Path:
    """Write the licence to a file in the folder, atomically.

    The name depends on reviewer, scale, prompt and kind of task: a licence issued again replaces the previous one.
    """
    folder = Path(folder)
    subject = content_hash(
        licence.identity.as_dict(), licence.scale, licence.prompt_hash, _plain_kind(licence.task_kind)
    )
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{licence.reviewer} {licence.scale}").strip("-.")[:80]
    path = folder / f"{words}-{subject[:8]}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, TypeAdapter(Licence).dump_json(licence, indent=2).decode() + "\n")
    except OSError as error:
        raise UserError(f"{path}: the licence cannot be written ({error.strerror}). Choose another folder") from error
    return path


def read_licences(folder: Path | str) -> list[Licence]:
    """All licences in the folder, sorted by file name; empty if there is no such folder."""
    return [Licence.read(path) for path in sorted(Path(folder).glob(f"*{SUFFIX}"))]
