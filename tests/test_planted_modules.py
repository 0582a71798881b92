"""Modules that lie in the working folder by accident or ill will are run by no process that goldless starts."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

import goldless
from goldless.apps.studio.site import Studio
from goldless.errors import PrerequisiteError
from goldless.models.cache import PackagedFiles

PLANTED = ("pip", "orjson", "polars", "goldless", "sitecustomize")
STARTING = ["cache.py", "site.py"]
"""Files of the source that start a Python process; each has a test here."""


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A working folder with modules that leave a mark when they are run; returns which have been."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path)!r} + '/ran-{name}', 'w').close()\n")
    monkeypatch.chdir(folder)
    return lambda: sorted(path.name.removeprefix("ran-") for path in tmp_path.glob("ran-*"))


def test_the_trap_springs_where_python_looks_into_the_folder(planted):
    subprocess.run([sys.executable, "-m", "goldless"], check=True, capture_output=True)
    assert "goldless" in planted()


def test_the_module_runs_neither_plugins_nor_modules_of_the_folder(planted, tmp_path):
    folder = tmp_path / "work"
    (folder / "goldless.py").unlink()
    (folder / "evil.py").write_text(f"open({str(tmp_path)!r} + '/ran-evil', 'w').close()\n")
    information = folder / "evil-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[goldless.metrics]\nevil = evil:metric\n")
    command = [sys.executable, "-m", "goldless", "list", "plugins"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "evil" not in listed.stdout + listed.stderr
    assert planted() == []


def test_a_run_of_the_studio_runs_none(planted, tmp_path, study_file):
    children = Studio(tmp_path / "runs", journal=tmp_path / "j.sqlite").children
    children.start("r", ["score", str(study_file()), "--metric=length"])
    while children.running("r"):
        time.sleep(0.05)
    assert (tmp_path / "runs" / "r" / "leaderboard.json").is_file(), children.said("r")
    assert planted() == []


def test_a_download_runs_none(planted, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    files = PackagedFiles("a model", "1 kB", "goldless-absent", "1.0", "0", {"model.bin": "0"}, "", "absent", "Copy it")
    with pytest.raises(PrerequisiteError, match="No matching distribution found for goldless-absent"):
        files.locate()
    assert planted() == []


def test_every_place_that_starts_python_is_told_to_look_nowhere_else():
    source = Path(goldless.__file__).parent
    found = []
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "executable" not in text:
            continue
        tree = ast.parse(text)
        named = sum(ast.unparse(node) == "sys.executable" for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        lists = [node.elts for node in ast.walk(tree) if isinstance(node, ast.List) and len(node.elts) > 1]
        safe = sum([ast.unparse(word) for word in words[:2]] == ["sys.executable", "'-P'"] for words in lists)
        assert named == safe, f"{path}: write [sys.executable, '-P', …]"
        found += [path.name] * named
    assert sorted(found) == STARTING
