from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goldless.errors import StudyError
from goldless.studies import read_study

MakeFolder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> MakeFolder:
    """Writes a study folder: each value is the text or bytes of a file, or rows for JSONL."""

    def make(name: str = "study", **files: Any) -> Path:
        path = tmp_path / name
        path.mkdir()
        for key, content in files.items():
            stem, _, suffix = key.rpartition("_") if key.endswith(("_csv", "_jsonl", "_json")) else (key, "", "jsonl")
            if isinstance(content, list):
                content = "".join(json.dumps(row) + "\n" for row in content)  # noqa: PLW2901 - rows as text
            data = content if isinstance(content, bytes) else content.encode()
            (path / f"{stem}.{suffix}").write_bytes(data)
        return path

    return make


@pytest.fixture
def problems() -> Callable[[Path], list[tuple[str, int | None, str]]]:
    """Every problem of a study that must not be readable, as (file, line, message)."""

    def find(path: Path) -> list[tuple[str, int | None, str]]:
        with pytest.raises(StudyError) as caught:
            read_study(path)
        return [(problem.file, problem.line, problem.message) for problem in caught.value.problems]

    return find
