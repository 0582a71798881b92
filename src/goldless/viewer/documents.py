"""Result documents of a run folder: JSON, read tolerantly because a run may be going on or of an older version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from goldless.records import Agent

Document = Mapping[str, Any]
Stamp = tuple[tuple[str, int, int], ...]
"""Names, times and sizes of files: equal as long as nothing was written."""


def read_document(path: Path) -> Document:
    """The JSON object in a file; empty where there is none, or it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # brackets in brackets without end
        return {}
    return found if isinstance(found, dict) else {}


def stamp(folder: Path, names: Iterable[str]) -> Stamp:
    """What changes when one of these files of a folder is written."""
    found = []
    for name in names:
        try:
            status = (folder / name).stat()
        except OSError:
            continue
        found.append((name, status.st_mtime_ns, status.st_size))
    return tuple(found)


def part(document: Document, *names: str) -> Document:
    """The object under these names, one inside the other; empty where it is not there."""
    found: Any = document
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def rows(document: Document, name: str) -> list[Document]:
    """The list of objects under a name; empty where it is not there."""
    found = document.get(name)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []


def signature_settings(signature: object) -> dict[str, str]:
    """The settings that a signature names, its metric first."""
    if not isinstance(signature, str) or not signature:
        return {}
    metric, *parts = signature.split("|")
    return {"metric": metric, **{key: value for key, _, value in (one.partition(":") for one in parts)}}


def read_agents(folder: Path) -> list[Agent]:
    """The agents that a run folder lists; none where it does not."""
    found = []
    try:
        lines = (folder / "agents.jsonl").read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return []
    for line in lines:
        try:
            row = json.loads(line)
            found.append(Agent(str(row["agent"]), group=row.get("group")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return found
