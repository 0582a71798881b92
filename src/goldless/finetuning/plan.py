"""The plan of a training: everything that must be the same for a second run to go on where the first one stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.files import write_text
from goldless.finetuning.checkpoints import refuse_other_plans
from goldless.finetuning.examples import ExampleSet
from goldless.finetuning.options import Recipe
from goldless.finetuning.training_record import ADAPTER, CHECKPOINTS
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.local_weights.specification import TRAINING_PLAN
from goldless.runs.store import check_writable
from goldless.templates import FIELDS, Template

PLAN_FILE = TRAINING_PLAN
HIDDEN_ADAPTER = f".{ADAPTER}"
"""Where a training writes its adapter before it is whole."""
LONG = 40
"""Characters of a setting that is too long to be told."""
TRAINED_WITH = ("device", "dtype", "weights")
"""Settings of a base that its training depends on; the others say how it scores."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is trained, on what, and how."""

    base: ModelIdentity
    """With those settings alone that the training depends on."""
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
        return {**asdict(self), "template": {"name": self.template.name, **words}, "recipe": self.recipe.as_dict()}

    @property
    def digest(self) -> str:
        """Tells two plans apart."""
        return content_hash(self.as_dict())


def trained_base(scorer: ModelIdentity) -> ModelIdentity:
    """The base as its training knows it, whichever way it is scored with."""
    return replace(scorer, settings={name: scorer.settings[name] for name in TRAINED_WITH if name in scorer.settings})


def optimizer_for(device: str) -> str:
    """AdamW, its state kept in 8 bits as in the paper where bitsandbytes and a CUDA device are there."""
    return "adamw_8bit" if device == "cuda" and find_spec("bitsandbytes") is not None else "adamw_torch"


def check_folder(folder: Path) -> None:
    """Raise UserError where a training cannot be written to a folder, or where that holds something else."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
        problem = None if writable else f"{there} is not a folder to write in"
        names = sorted(path.name for path in folder.iterdir()) if writable and there == folder else []
    except OSError as error:
        problem = error.strerror
    if problem is not None:
        raise UserError(f"{folder}: cannot be written to ({problem}). Give another folder with --out.")
    strange = [name for name in names if not name.startswith(".") or name == HIDDEN_ADAPTER]
    if strange and _read(folder / PLAN_FILE) is None:
        more = f" and {len(strange) - 3} more" * (len(strange) > 3)
        raise UserError(
            f"{folder}: holds something else than a training: {', '.join(strange[:3])}{more}, but no {PLAN_FILE}. Give "
            "a folder with --out that is new or empty."
        )


def settle_plan(folder: Path, plan: TrainingPlan, examples: ExampleSet) -> bool:
    """Note the plan in its folder; True where the same plan was begun there before.

    Raises UserError where the folder holds another plan or checkpoints of one, and where there is nothing to train on.
    """
    if not examples.examples:
        why = ", ".join(f"{count} {kind}" for kind, count in examples.left_out.items())
        raise UserError(f"no example is left to train on ({why}); raise --max-length, or use shorter texts")
    check_writable(folder)
    path, now = folder / PLAN_FILE, plan.as_dict()
    before = _read(path)
    if before is not None and (changed := _changed(before, json.loads(json.dumps(now)))):
        raise UserError(
            f"{folder}: holds a training by another plan: {'; '.join(changed)}. Give another folder, or remove that "
            "one."
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
        raise UserError(f"{path}: cannot be read ({error}); remove the folder, or give another one") from error
    if not isinstance(found, dict) or not {"base", "template", "recipe"} <= found.keys():
        raise UserError(f"{path}: is not a plan of a training; give another folder with --out")
    return found


def _changed(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    """What differs, down to single settings; of hashes, long texts and what only one of both has, that they do."""
    told: list[str] = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            told += _changed(old, new, f"{within}{key} ")
        elif old != new:
            was, is_now = ("none" if value is None else str(value) for value in (old, new))
            short = key in before and key in now and max(len(was), len(is_now)) < LONG
            told.append(f"{within}{key} was {was}, now {is_now}" if short else f"other {within}{key}")
    return told
