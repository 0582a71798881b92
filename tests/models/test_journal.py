"""The journal keeps every reply once, whatever happens to the processes that write it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import UserError
from goldless.models.interface import ModelIdentity, ScoreRequest, Usage, content_hash
from goldless.models.journal import Entry, Journal, model_hash
from goldless.models.journalled import score_key
from paid_twice import called_after_reply, counts

MODEL = ModelIdentity("scripted", "toy")
WRITER = """
    import sys, time
    import anyio
    from goldless.models.interface import ModelIdentity, Usage
    from goldless.models.journal import Entry, Journal

    path, name, batches, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    sys.stdin.readline()
    journal = Journal(path)
    for batch in range(batches):
        keys = [f"{name}-{batch}-{i}" for i in range(size)]
        anyio.run(journal.begin, keys)
        entries = [Entry(key, "score", "{}", "x" * 200, Usage(), None) for key in keys]
        journal.record(ModelIdentity("scripted", name), entries, bodies={key: key for key in keys})
    journal.close()
"""


REPLY = '{"text":"kept","finish":"stop","token_logprobs":null,"choice_logprobs":null}'


def said(journal: Journal, *keys: str) -> dict[str, str]:
    return {key: kept.reply for key, kept in journal.find(keys).items()}


def entry(key: str, reply: str = "{}") -> Entry:
    return Entry(key, "score", "{}", reply, Usage(), None)


def writer(path, name: str, batches: int, size: int) -> subprocess.Popen[str]:
    """A process that writes batches as soon as it is told to go."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), name, str(batches), str(size)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True)


def go(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.stdin.write("\n")
        process.stdin.close()


def test_more_keys_than_one_query_takes_are_all_found(journal):
    keys = [f"k{i}" for i in range(1234)]
    journal.record(MODEL, [entry(key, key) for key in keys])
    assert said(journal, *keys) == {key: key for key in keys}


def test_the_first_reply_stays(journal):
    journal.record(MODEL, [entry("a", "first")])
    journal.record(MODEL, [entry("a", "second")])
    assert said(journal, "a") == {"a": "first"}
    assert counts(journal)["calls"] == 1


def test_a_call_begun_after_its_reply_came_is_told_on_and_one_begun_before_is_not(journal):
    anyio.run(journal.begin, ["a", "b"])
    journal.record(MODEL, [entry("a"), entry("b")])
    assert called_after_reply(journal) == []
    with journal.transaction() as run:  # begin() itself does not allow it
        run.execute("insert into attempts values ('b', ?)", [time.time() + 1])
    assert called_after_reply(journal) == ["b"]


def test_a_batch_in_which_one_row_cannot_be_kept_leaves_nothing(journal):
    with pytest.raises(UserError, match="NOT NULL"):
        journal.record(MODEL, [entry("a"), Entry("b", "score", "{}", None, Usage(), None)])
    assert counts(journal)["calls"] == 0
    journal.record(MODEL, [entry("a")])
    assert counts(journal)["calls"] == 1


def test_two_processes_that_open_and_write_one_new_journal_at_once_lose_nothing(tmp_path):
    path = tmp_path / "shared.sqlite"
    processes = [writer(path, name, batches=100, size=5) for name in ("one", "two")]
    go(*processes)
    assert [process.wait(60) for process in processes] == [0, 0]
    journal = Journal(path)
    assert counts(journal)["calls"] == 1000
    assert len(journal.find([f"{n}-{b}-{i}" for n in ("one", "two") for b in range(100) for i in range(5)])) == 1000
    journal.close()


OPENERS = """
    import multiprocessing, sys
    import anyio
    from goldless.models.journal import Journal

    def use(path, start):
        start.wait()
        journal = Journal(path)
        anyio.run(journal.begin, ["k"])
        journal.close()

    forked, failed = multiprocessing.get_context("fork"), 0
    for attempt in range(10):
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


@pytest.mark.parametrize("patience_seconds", [0.0, 0.03, 0.1])
def test_a_journal_whose_writer_was_killed_is_readable_and_holds_only_whole_batches(tmp_path, patience_seconds):
    path = tmp_path / "killed.sqlite"
    process = writer(path, "one", batches=100_000, size=7)
    go(process)
    deadline = time.monotonic() + 60
    while count(path) < 7:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(patience_seconds)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    journal = Journal(path)
    kept = counts(journal)["calls"]
    assert kept >= 7
    assert kept % 7 == 0
    batches = kept // 7
    assert len(journal.find([f"one-{b}-{i}" for b in range(batches) for i in range(7)])) == kept
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    journal.record(MODEL, [entry("afterwards")])
    journal.close()


def count(path) -> int:
    if not path.exists():
        return 0
    connection = sqlite3.connect(path, timeout=10)
    try:
        return connection.execute("select count(*) from calls").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


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
    journal.record(MODEL, [entry("a")])
    files = list(journal.path.parent.glob("journal.sqlite*"))
    assert len(files) > 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


# --- keys --------------------------------------------------------------------------------------------------------

words = st.text(alphabet="ab", max_size=2)
identities = st.builds(
    ModelIdentity,
    provider=words,
    name=words,
    revision=words,
    tokenizer=words,
    settings=st.dictionaries(words, words, max_size=1),
)
parts = st.lists(st.integers(0, 2), max_size=3).map(tuple) | words
requests = st.builds(ScoreRequest, parts, parts)


@given(identities, requests, identities, requests)
def test_two_scoring_calls_have_one_key_exactly_when_model_context_and_target_are_the_same(model, one, other, two):
    same = score_key(model_hash(model), one) == score_key(model_hash(other), two)
    assert same == ((model, one) == (other, two))


def test_a_hash_is_sha256_of_the_json_of_its_parts():
    """From `printf '["a",{"b":[1,2]}]' | sha256sum`."""
    assert content_hash("a", {"b": (1, 2)}) == "8dd4a86c0811b7fde71b04f5850c43889204bd23ad92a465d8272252ca8f6a04"


def test_a_journal_that_cannot_be_written_is_a_clear_message_and_keeps_what_it_has(tmp_path):
    """SQLite's own page limit stands for a full disk."""
    journal = Journal(tmp_path / "j.sqlite")
    identity = ModelIdentity("scripted", "m")
    journal.record(identity, [Entry("first", "score", "{}", "kept", Usage(), None)])
    pages = journal._connection.execute("pragma page_count").fetchone()[0]
    journal._connection.execute(f"pragma max_page_count={pages}")
    with pytest.raises(UserError, match="cannot write the journal"):
        journal.record(identity, [Entry("second", "score", "{}", "x" * 1_000_000, Usage(), None)])
    assert said(journal, "first", "second") == {"first": "kept"}
    journal.close()
