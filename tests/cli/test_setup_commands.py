"""``goldless quickstart`` and ``goldless cache``."""

from __future__ import annotations

import csv
import json
import shlex
import sqlite3

import pytest

from goldless.models.cache import default_journal, models_folder


def test_quickstart_writes_a_study_and_says_what_to_run_next(goldless, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = goldless("quickstart")
    first, *rest = ended.out.splitlines()
    assert (ended.code, len(rest)) == (0, 3)
    assert first.startswith("Wrote answers.csv: 10 tasks, 4 agents, 40 responses")
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert (len(rows), len({row["task"] for row in rows}), len({row["agent"] for row in rows})) == (40, 10, 4)
    assert all(row["prompt"] and row["text"] for row in rows)
    for line in rest:
        command = shlex.split(line, comments=True)[1:]
        if "score" not in command:  # that one needs the embedded model
            assert goldless(*command).code in {0, 5}


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


def test_show_names_places_sizes_and_what_is_lost(goldless, kept):
    found = {one["part"]: one for one in json.loads(goldless("cache", "show", "--json").out)["kept"]}
    assert found["journal"]["path"] == str(kept)
    assert found["journal"]["bytes"] == kept.stat().st_size
    assert found["journal"]["contents"] == "2 replies that cost 1.25 USD"
    assert "pay again" in found["journal"]["if_cleared"]
    assert (found["models"]["path"], found["models"]["bytes"]) == (str(models_folder()), 1500)
    assert "1.5 kB" in goldless("cache", "show").out


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
