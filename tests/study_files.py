"""Studies as a user has them: tables of JSON lines, and scripts for ``scripted:FILE``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from goldless.models.scripted import ScriptedModel

Rows = Iterable[Mapping[str, object]]


def write_rows(path: Path, rows: Rows) -> Path:
    """A file of JSON lines, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def study_folder(folder: Path, **tables: Rows) -> Path:
    """A folder with these tables."""
    for name, rows in tables.items():
        write_rows(folder / f"{name}.jsonl", rows)
    return folder


def response_rows(texts: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    """A row for each response, of texts by task and agent."""
    return [{"task": task, "agent": agent, "text": text} for task, by in texts.items() for agent, text in by.items()]


def script_rows(model: ScriptedModel) -> list[dict[str, object]]:
    """All that a scripted scorer was asked, and what it says."""
    asked = {(call.context, call.target) for call in model.calls}
    return [{"context": c, "target": t, "logprobs": model._logprobs(c, t)} for c, t in sorted(asked)]
