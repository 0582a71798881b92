"""``goldless journal`` shows, checks, clears and merges journals."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing

import pytest

from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity, ScoreRequest, TokenLogprobs, Usage
from goldless.models.journal import Journal
from goldless.models.usage import Charge

OLD, NEW = ModelIdentity("http", "old"), ModelIdentity("http", "new")
ASKED, KEPT = ChatRequest((Message("user", "x" * 200),)), ChatReply("kept")
UNPRICED = Charge(Usage(1, 1), None, estimated=False)


@pytest.fixture
def path(tmp_path):
    """A journal with 300 replies of one model, stored 40 days ago, and 2 of another."""
    path = tmp_path / "journal.sqlite"
    with closing(Journal(path)) as journal:
        charge = Charge(Usage(10, 5), 0.01, estimated=False)
        journal.record(OLD, [(f"a{i:03}", ASKED, KEPT, charge) for i in range(300)])
        charge = Charge(Usage(3, 0), None, estimated=False)
        journal.record(NEW, [("b0", ScoreRequest("c", "t"), TokenLogprobs((-1.0,)), charge)])
        journal.record(NEW, [("b1", ASKED, KEPT, UNPRICED)])
        with journal.transaction() as run:
            run.execute("update calls set created_at = ? where key like 'a%'", [time.time() - 40 * 24 * 3600])
    return path


@pytest.fixture
def journal(goldless, path):
    """Runs a verb of ``goldless journal`` on the journal."""
    return lambda *words: goldless("journal", *words, "--journal", path)


def change(path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def keys(path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {key for (key,) in connection.execute("select key from calls")}


def test_show_adds_up_calls_tokens_and_cost_by_model(journal):
    found = json.loads(journal("show", "--format", "json").out)
    rows = [(row["model"], row["calls"], row["tokens"], row["cost_usd"]) for row in found["models"]]
    assert rows == [("http:old", 300, 4500, pytest.approx(3.0)), ("http:new", 2, 5, None)]
    assert found["bytes"] > 100_000


def test_check_counts_damaged_replies_and_changes_nothing(journal, path):
    assert journal("show", "--check").code == 0
    change(path, "update calls set reply = replace(reply, 'kept', 'lost') where key in ('a000', 'b1')")
    ended = journal("show", "--check", "--format", "json")
    found = json.loads(ended.out)["check"]
    assert (ended.code, found["replies"], found["damaged"], found["problems"]) == (1, 300, 2, [])
    assert len(keys(path)) == 302


def test_clear_deletes_by_model_and_by_age_after_asking(journal, path):
    assert "300 replies that cost 3.00 USD would be deleted" in journal("clear", "--older-than", 30, "--dry-run").err
    assert journal("clear", "--older-than", 30).code == 2, "nobody can be asked here"
    assert len(keys(path)) == 302
    assert journal("clear", "--older-than", 30, "--model", "http:new", "--yes").code == 0
    assert len(keys(path)) == 302, "both must be true"
    assert journal("clear", "--older-than", 30, "--yes").code == 0
    assert keys(path) == {"b0", "b1"}
    assert journal("clear", "--model", "http:new", "--yes").code == 0
    assert keys(path) == set()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from bodies").fetchone() == (0,)


def test_clearing_replies_gives_their_space_back(journal, path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    before = path.stat().st_size
    assert journal("clear", "--model", "http:old", "--yes").code == 0
    assert path.stat().st_size < before / 2


def test_the_named_journal_is_cleared_and_a_dry_run_deletes_nothing(journal, path):
    assert journal("clear", "journal", "--dry-run").code == 0
    assert path.is_file()
    assert journal("clear", "journal", "--yes").code == 0
    assert not path.exists()


def test_merge_adds_what_is_not_there(goldless, journal, path, tmp_path):
    other = tmp_path / "other.sqlite"
    with closing(Journal(other)) as new:
        new.record(NEW, [(key, ASKED, KEPT, UNPRICED) for key in ("b1", "c")])
    ended = goldless("journal", "merge", path, path, "--journal", other)
    assert "301 replies added, 1 were there already" in ended.err
    assert "0 replies added, 302 were there already" in ended.err
    assert keys(other) == keys(path) | {"c"}
    checked = goldless("journal", "show", "--check", "--format", "json", "--journal", other)
    assert json.loads(checked.out)["check"]["replies"] == 303
    assert journal("merge", path).code == 2, "it is the journal itself"


def test_a_damaged_file_is_named_and_left_and_nothing_of_it_is_merged(goldless, path, tmp_path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    content = bytearray(path.read_bytes())
    at = content.index(b"a150") // 4096 * 4096
    content[at : at + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    checked = goldless("journal", "show", "--check", "--journal", path)
    assert (checked.code, f"the file {path} is damaged" in checked.err) == (1, True)
    saved = tmp_path / "saved.sqlite"
    merged = goldless("journal", "merge", path, "--journal", saved)
    assert (merged.code, "nothing was added (database disk image is malformed)" in merged.err) == (2, True)
    assert keys(saved) == set()
    assert path.read_bytes() == content


@pytest.mark.parametrize("verb", [("show", "--check"), ("show",), ("clear", "--older-than", 1, "--yes")])
def test_a_file_whose_damage_sqlite_repeats_in_its_message_is_told(journal, path, verb):
    """The message is no text then, which is another kind of error."""
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE TA\xff\xfeE"))
    ended = journal(*verb)
    assert ended.code in {1, 2}
    assert "Traceback" not in ended.err
    assert "journal" in ended.err + ended.out
