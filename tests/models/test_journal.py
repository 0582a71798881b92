"""The journal keeps every reply once, whatever happens to the processes that write it."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import textwrap

import pytest

from goldless.errors import UserError
from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity
from goldless.models.journal import Journal
from tests.support.paid_twice import counts

MODEL = ModelIdentity("scripted", "toy")


def said(journal: Journal, *keys: str) -> dict[str, str]:
    return {key: kept.reply.text for key, kept in journal.find(keys).items()}


def keep(journal: Journal, key: str, reply: str = "kept") -> None:
    journal.record(MODEL, [(key, ChatRequest((Message("user", "Why?"),)), ChatReply(reply), None)])


def test_the_first_reply_stays(journal):
    keep(journal, "a", "first")
    keep(journal, "a", "second")
    assert said(journal, "a") == {"a": "first"}
    assert counts(journal)["calls"] == 1


OPENERS = """
    import multiprocessing, sys
    import anyio
    from goldless.models.journal import Journal

    def use(path, start):
        start.wait()
        journal = Journal(path)
        async def claim():
            async with journal.claim(["k"]):
                pass

        anyio.run(claim)
        journal.close()

    forked, failed = multiprocessing.get_context("fork"), 0
    for attempt in range(5):
        start = forked.Barrier(8)
        processes = [forked.Process(target=use, args=(f"{sys.argv[1]}/{attempt}", start)) for _ in range(8)]
        [process.start() for process in processes]
        [process.join() for process in processes]
        failed += sum(process.exitcode != 0 for process in processes)
    print(failed)
"""


def test_processes_that_open_one_new_journal_at_the_same_moment_can_all_use_it(tmp_path):
    """SQLite does not wait for the lock while a file is switched to its write-ahead log; the journal must."""
    command = [sys.executable, "-c", textwrap.dedent(OPENERS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize("format_", [1, 7])
def test_a_journal_of_another_format_is_refused_and_left_as_it_is(format_, tmp_path):
    path = tmp_path / "other.sqlite"
    other = sqlite3.connect(path)
    other.execute(f"pragma user_version={format_}")
    other.close()
    before = path.read_bytes()
    with pytest.raises(UserError, match=rf"other\.sqlite: the journal has format {format_}"):
        Journal(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["no database, but long enough to be looked at as one " * 50])
def test_a_file_that_is_no_journal_is_refused(tmp_path, content):
    path = tmp_path / "letter.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=r"letter\.txt: cannot be used as a journal"):
        Journal(path)
    assert path.read_text() == content


def test_a_folder_in_which_nothing_can_be_made_is_a_user_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--journal"):
        Journal(tmp_path / "file" / "journal.sqlite")


def test_only_the_owner_may_read_the_file_and_those_beside_it(journal):
    keep(journal, "a")
    files = list(journal.path.parent.glob("journal.sqlite*"))
    assert len(files) > 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_journal_that_cannot_be_written_is_a_clear_message_and_keeps_what_it_has(tmp_path):
    """SQLite's own page limit stands for a full disk."""
    journal = Journal(tmp_path / "j.sqlite")
    keep(journal, "first")
    pages = journal._connection.execute("pragma page_count").fetchone()[0]
    journal._connection.execute(f"pragma max_page_count={pages}")
    with pytest.raises(UserError, match="cannot write the journal"):
        keep(journal, "second", "x" * 1_000_000)
    assert said(journal, "first", "second") == {"first": "kept"}
    journal.close()
