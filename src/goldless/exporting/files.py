"""Writing an export: a file or a folder, complete or not at all."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from goldless.errors import UserError


def check_free(path: Path, *, folder: bool) -> None:
    """Raise if something is already there; an empty folder may be filled."""
    if path.is_dir():
        if not folder:
            raise UserError(f"--out must be a file, got the folder {path}. Add a file name")
        if any(not file.name.startswith(".") for file in path.iterdir()):
            raise UserError(f"{path} is not empty. Choose another folder")
    elif path.exists():
        raise UserError(f"{path} already exists. Choose another path")


def write_folder(path: Path, files: Mapping[str, Iterable[str]]) -> None:
    """Write text files, given by their path in the folder and their pieces of text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        for name, pieces in files.items():
            file = fresh / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("w", encoding="utf-8", newline="\n") as opened:
                opened.writelines(pieces)
        if path.is_dir():
            path.rmdir()
        fresh.rename(path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def path_name(name: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "unnamed"
