"""Checkpoints of a training: each is sealed with its plan and the hashes of its files when it is whole.

A training goes on only from a sealed checkpoint of the same plan whose files are still those that were written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.files import write_text

SEAL = "goldless_checkpoint.json"


def seal_checkpoint(folder: Path, plan: str) -> None:
    """Note that a checkpoint was written to its end, by which plan, and what its files are."""
    seal = {"plan": plan, "files": _hashes(folder)}
    write_text(folder / SEAL, json.dumps(seal, indent=2) + "\n")


def refuse_other_plans(folder: Path, plan: str) -> None:
    """Raise UserError where a folder holds a checkpoint of another plan: it may have seen what is now held out."""
    strange = [path.name for path in _by_step(folder) if (seal := _seal(path)) and seal["plan"] != plan]
    if strange:
        raise UserError(
            f"{folder}: holds checkpoints of another plan ({', '.join(strange)}), which may have been trained on tasks "
            "that are held out now. Give another folder, or remove that one."
        )


def last_checkpoint(folder: Path, plan: str, say: Callable[[str], None] = lambda _: None) -> Path | None:
    """The latest whole checkpoint of a plan; None where there is none. ``say`` hears of those that were damaged."""
    refuse_other_plans(folder, plan)
    for path in _by_step(folder):
        seal = _seal(path)
        if seal is None:
            # the run was ended while it wrote this one
            continue
        damaged = _damaged(path, seal["files"])
        if not damaged:
            return path
        say(f"{path}: not used, since {', '.join(damaged)} changed or cannot be read since it was written")
    return None


def remove_checkpoints(folder: Path, plan: str) -> None:
    """Delete the sealed checkpoints of a plan, and their folder where it holds nothing else."""
    for path in _by_step(folder):
        if (seal := _seal(path)) and seal["plan"] == plan:
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


def _seal(path: Path) -> dict[str, Any] | None:
    """What a checkpoint says of itself; None where it was not written to its end."""
    try:
        seal = json.loads((path / SEAL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(seal, dict) and isinstance(seal.get("plan"), str) and isinstance(seal.get("files"), dict)
    return seal if whole else None


def _damaged(path: Path, files: Mapping[str, str]) -> list[str]:
    """Names of files that are not what they were."""
    return [name for name, known in files.items() if _hash(path / name) != known]


def _hashes(folder: Path) -> dict[str, str | None]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    return {path.relative_to(folder).as_posix(): _hash(path) for path in files}


def _hash(path: Path) -> str | None:
    """The hash of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
