"""The folder of a training: its plan, checkpoints to resume from, and its result.

The plan is everything that must be the same for a second run to go on where the first one stopped. Each checkpoint is
sealed with it and with the hashes of its files when it is whole: a training goes on only from a sealed checkpoint of
the same plan whose files are still those that were written. A finished training is never done again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from goldless.errors import UserError
from goldless.files import write_text
from goldless.finetuning.material import ExampleSet
from goldless.finetuning.options import Recipe
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.local_weights.specification import ADAPTER_CONFIG, TRAINING_PLAN
from goldless.runs.store import check_writable
from goldless.templates import FIELDS, Template

FILE = "training.json"
SEAL = "goldless_checkpoint.json"
RESULT_FILE = "finetune.json"
ADAPTER = "adapter"
"""Name of the adapter's folder."""
CHECKPOINTS = "checkpoints"
"""Name of the folder of checkpoints."""
HIDDEN_ADAPTER = f".{ADAPTER}"
"""Name of the adapter's folder while it is being written."""
LONG = 40
"""Longer settings are not shown in messages."""
TRAINED_WITH = ("device", "dtype", "weights")
"""Settings of a base that affect training; the others affect only scoring."""


class Training(BaseModel):
    """The result of a training."""

    model_config = ConfigDict(frozen=True)

    steps: int
    losses: tuple[tuple[int, float], ...]
    """Step, and the mean of -log p per predicted token of what was trained on since the one before, in nats."""
    resumed_at: int = 0
    """The step of the checkpoint it was resumed from; 0: it started from scratch."""


def note_training(folder: Path, training: Training) -> None:
    """Store the result of a training."""
    write_text(folder / FILE, json.dumps(training.model_dump(exclude={"resumed_at"})) + "\n")


def finished_training(folder: Path) -> Training | None:
    """The result of the training in a folder; None if it is not finished."""
    if not (folder / ADAPTER / ADAPTER_CONFIG).is_file():
        return None
    try:
        return Training.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValueError):
        return None


# --- checkpoints ---------------------------------------------------------------------------------------------------


class Seal(BaseModel):
    """The record of a complete checkpoint."""

    plan: str
    files: dict[str, str | None]
    """Hashes by name."""


def seal_checkpoint(folder: Path, plan: str) -> None:
    """Record that a checkpoint is complete, with its plan and the hashes of its files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    seal = Seal(plan=plan, files={path.relative_to(folder).as_posix(): _hash(path) for path in files})
    write_text(folder / SEAL, json.dumps(seal.model_dump(), indent=2) + "\n")


def refuse_other_plans(folder: Path, plan: str) -> None:
    """Raise UserError if a folder has a checkpoint of another plan, which may have seen tasks that are held out now."""
    strange = [path.name for path in _by_step(folder) if (seal := _seal(path)) and seal.plan != plan]
    if strange:
        raise UserError(
            f"{folder} has checkpoints of another plan ({', '.join(strange)}), which may have been trained on tasks "
            "that are held out now. Choose another folder, or remove that one"
        )


def last_checkpoint(folder: Path, plan: str, say: Callable[[str], None] = lambda _: None) -> Path | None:
    """The latest complete checkpoint of a plan; None if there is none. ``say`` reports damaged ones."""
    refuse_other_plans(folder, plan)
    for path in _by_step(folder):
        seal = _seal(path)
        if seal is None:
            # the run was ended while it wrote this one
            continue
        damaged = [name for name, known in seal.files.items() if _hash(path / name) != known]
        if not damaged:
            return path
        say(f"{path}: not used, because files changed or cannot be read: {', '.join(damaged)}")
    return None


def remove_checkpoints(folder: Path, plan: str) -> None:
    """Delete the sealed checkpoints of a plan, and their folder if it is empty then."""
    for path in _by_step(folder):
        if (seal := _seal(path)) and seal.plan == plan:
            shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def checkpoint_step(path: Path | None) -> int:
    """After which step a checkpoint was written; 0 for none."""
    number = "" if path is None else path.name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _by_step(folder: Path) -> list[Path]:
    """Latest first."""
    return sorted(folder.glob("checkpoint-*"), key=checkpoint_step, reverse=True)


def _seal(path: Path) -> Seal | None:
    """The record of a checkpoint; None if it is not complete."""
    try:
        return Seal.model_validate_json((path / SEAL).read_bytes())
    except (OSError, ValueError):
        return None


def _hash(path: Path) -> str | None:
    """The hash of a file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


# --- the plan ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is trained, on what, and how."""

    base: ModelIdentity
    """Only with the settings that affect training."""
    template: Template
    texts: str
    """Whose rewrites, or ``responses``."""
    synopsis: str | None
    recipe: Recipe
    optimizer: str
    """By transformers' name."""
    examples: str
    """Hash of all token ids that are trained on, in order."""
    held_out: str
    """Hash of the held-out tasks and their texts."""

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        words = {field: getattr(self.template, field) for field in FIELDS}
        return {**asdict(self), "template": {"name": self.template.name, **words}}

    @property
    def digest(self) -> str:
        """A hash of the plan."""
        return content_hash(self.as_dict())


def trained_base(scorer: ModelIdentity) -> ModelIdentity:
    """The base with only the settings that affect training."""
    return replace(scorer, settings={name: scorer.settings[name] for name in TRAINED_WITH if name in scorer.settings})


def optimizer_for(device: str) -> str:
    """AdamW, with its state in 8 bits as in the paper if bitsandbytes and a CUDA device are available."""
    return "adamw_8bit" if device == "cuda" and find_spec("bitsandbytes") is not None else "adamw_torch"


def check_folder(folder: Path) -> None:
    """Raise UserError if a folder is not writable or has other content."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
        problem = None if writable else f"{there} is not a writable folder"
        names = sorted(path.name for path in folder.iterdir()) if writable and there == folder else []
    except OSError as error:
        problem = error.strerror
    if problem is not None:
        raise UserError(f"{folder}: cannot write ({problem}). Choose another folder with --out")
    strange = [name for name in names if not name.startswith(".") or name == HIDDEN_ADAPTER]
    if strange and _read(folder / TRAINING_PLAN) is None:
        more = f" and {len(strange) - 3} more" * (len(strange) > 3)
        raise UserError(
            f"{folder} is not a training folder: it has {', '.join(strange[:3])}{more}, but no {TRAINING_PLAN}. "
            "Choose a new or empty folder with --out"
        )


def settle_plan(folder: Path, plan: TrainingPlan, examples: ExampleSet) -> bool:
    """Write the plan to its folder; True if the same plan was already there.

    Raises UserError if the folder has another plan or its checkpoints, or if there is nothing to train on.
    """
    if not examples.examples:
        why = ", ".join(f"{count} {kind}" for kind, count in examples.left_out.items())
        raise UserError(f"no examples to train on ({why}). Raise --max-length, or use shorter texts")
    check_writable(folder)
    path, now = folder / TRAINING_PLAN, plan.as_dict()
    before = _read(path)
    if before is not None and (changed := _changed(before, json.loads(json.dumps(now)))):
        raise UserError(
            f"{folder} has a training with another plan: {'; '.join(changed)}. Choose another folder, or remove that "
            "one"
        )
    refuse_other_plans(folder / CHECKPOINTS, plan.digest)
    if before is None:
        write_text(path, json.dumps(now, ensure_ascii=False, indent=2) + "\n")
    return before is not None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}). Remove the folder, or choose another one") from error
    if not isinstance(found, dict) or not {"base", "template", "recipe"} <= found.keys():
        raise UserError(f"{path}: not a training plan. Choose another folder with --out")
    return found


def _changed(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    """Differences by setting, with values unless they are hashes, long texts or missing in one."""
    told: list[str] = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            told += _changed(old, new, f"{within}{key} ")
        elif old != new:
            was, is_now = ("none" if value is None else str(value) for value in (old, new))
            short = key in before and key in now and max(len(was), len(is_now)) < LONG
            told.append(f"{within}{key} was {was}, now {is_now}" if short else f"different {within}{key}")
    return told
