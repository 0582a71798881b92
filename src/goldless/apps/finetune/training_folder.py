"""The folder of a training: its plan, the trainer's checkpoints, the adapter and the result.

The plan is everything that must be the same for a second run to go on where the first one stopped; a folder has one
plan. A finished training is never done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from goldless.apps.finetune.options import Recipe
from goldless.errors import UserError
from goldless.files import write_text
from goldless.models.interface import ModelIdentity
from goldless.models.local_weights.specification import ADAPTER_CONFIG, TRAINING_PLAN
from goldless.runs.store import check_writable

TRAINING_FILE = "training.json"
RESULT_FILE = "finetune.json"
ADAPTER = "adapter"
"""Name of the adapter's folder."""
CHECKPOINTS = "checkpoints"
"""Name of the folder of the trainer's checkpoints."""
LONG = 40
"""Longer settings are not shown in messages."""


class Training(BaseModel):
    """The result of a training."""

    model_config = ConfigDict(frozen=True)

    steps: int
    losses: tuple[tuple[int, float], ...]
    """Each step, and its mean of -log p per predicted token, in nats."""
    resumed_at: int = 0
    """The step of the checkpoint it was resumed from; 0: it started from scratch."""


def finished_training(folder: Path) -> Training | None:
    """The result of the training in a folder; None if it is not finished."""
    if not (folder / ADAPTER / ADAPTER_CONFIG).is_file():
        return None
    try:
        return Training.model_validate_json((folder / TRAINING_FILE).read_bytes())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is trained, on what, and how."""

    base: ModelIdentity
    """Only with the settings that affect training."""
    template: Mapping[str, str]
    """Its name and all its wordings."""
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


def check_folder(folder: Path) -> None:
    """Raise UserError if a folder is not writable or has other content."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{folder}: cannot write ({there} is not a writable folder). Choose another folder with --out")
    names = sorted(path.name for path in folder.iterdir()) if there == folder else []
    strange = [name for name in names if not name.startswith(".") or name == f".{ADAPTER}"]
    if strange and _read(folder / TRAINING_PLAN) is None:
        more = f" and {len(strange) - 3} more" * (len(strange) > 3)
        raise UserError(
            f"{folder} is not a training folder: it has {', '.join(strange[:3])}{more}, but no {TRAINING_PLAN}. "
            "Choose a new or empty folder with --out"
        )


def settle_plan(folder: Path, plan: TrainingPlan) -> bool:
    """Write the plan to its folder; True if the same plan was already there, UserError if another one was."""
    check_writable(folder)
    path, now = folder / TRAINING_PLAN, asdict(plan)
    before = _read(path)
    if before is None:
        write_text(path, json.dumps(now, ensure_ascii=False, indent=2) + "\n")
    elif changed := _changed(before, json.loads(json.dumps(now))):
        raise UserError(
            f"{folder} has a training with another plan: {'; '.join(changed)}. Choose another folder, or remove that "
            "one"
        )
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
