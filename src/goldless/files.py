"""Files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    write_whole(path, lambda p: p.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file aside and put it in its place when it is whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
