"""Licences: what says that a reviewer passed its exams, of what, with which weight, and until when.

A licence holds for the model that sat the exams, on one scale, under one prompt and for one kind of task. Models behind
a name change without notice, so it also ends by itself. It is one JSON file that anybody can read; it holds no key, no
response and no prompt, only hashes of them.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from goldless._version import __version__
from goldless.errors import UserError
from goldless.judging.scales import Scale
from goldless.models.interface import ModelIdentity, content_hash

VALID_DAYS = 90
"""How long a licence holds unless told otherwise."""

Setting = str | int | float | bool | None
"""What a setting of an exam may be."""


@dataclass(frozen=True, slots=True)
class LicensedTrait:
    """One trait as the exam measured it."""

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

    exam: str
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """What a reviewer may judge, and with which weight."""

    reviewer: str
    """Its identity in short."""
    identity: ModelIdentity
    scale: str
    prompt_hash: str
    """Of the scale's wording and the task description, by ``prompt_hash``."""
    task_kind: str
    """What was judged, in the user's words, such as ``news summary``."""
    sittings: tuple[Sitting, ...]
    traits: Mapping[str, LicensedTrait]
    """By name, such as ``consistency``."""
    weight: float
    """Of its vote; negative: its votes are turned round, as a logit below one half does."""
    issued: dt.date
    expires: dt.date
    """The last day on which it holds."""
    goldless: str
    """Version that issued it."""
    study_hash: str
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
