"""``goldless quickstart`` and ``goldless cache``."""

from __future__ import annotations

import sqlite3

import pytest

from goldless.models.cache import default_journal, models_folder


def test_quickstart_writes_into_a_new_folder_and_overwrites_nothing_else(goldless, tmp_path):
    folder = tmp_path / "my trial"
    assert goldless("quickstart", folder).code == 0
    assert goldless("quickstart", folder).code == 0
    (folder / "answers.csv").write_text("mine")
    ended = goldless("quickstart", folder)
    assert ended.code == 2
    assert "would be overwritten" in ended.err
    assert (folder / "answers.csv").read_text() == "mine"


@pytest.fixture
def kept():
    """A journal with two replies and a model file."""
    journal = default_journal()
    journal.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(journal)
    connection.execute("create table calls (key text, cost_usd real)")
    connection.executemany("insert into calls values (?, ?)", [("a", 0.5), ("b", 0.75)])
    connection.commit()
    connection.close()
    models_folder().mkdir(parents=True)
    (models_folder() / "model.gguf").write_bytes(b"x" * 1500)
    return journal


def test_nothing_is_deleted_without_a_yes(goldless, kept):
    ended = goldless("cache", "clear", "all")
    assert ended.code == 2
    assert "--yes" in ended.err
    assert "2 replies that cost 1.25 USD" in ended.err
    assert kept.exists()
    assert (models_folder() / "model.gguf").exists()


def test_only_what_is_named_is_deleted(goldless, kept):
    assert goldless("cache", "clear", "models", "--yes").code == 0
    assert kept.exists()
    assert not models_folder().exists()
    ended = goldless("cache", "clear", "journal", "--yes")
    assert ended.code == 0
    assert f"deleted: {kept}" in ended.err
    assert not kept.exists()
    assert "nothing to clear" in goldless("cache", "clear", "all").err
