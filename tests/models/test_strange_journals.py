"""A journal that a stranger made: it runs nothing, its damage is counted, and no signal waits for it."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from goldless.errors import UserError
from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity, ScoreRequest, TokenLogprobs
from goldless.models.journal import Journal, Merged, _checksum, check_journal, merge, model_totals, opened_to_read
from tests.support.commands import goldless

MODEL = ModelIdentity("scripted", "toy")
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
HOSTILE = {
    "a view instead of the replies": ("drop table calls", f"create view calls as {ENDLESS}"),
    "a view instead of the models": ("drop table models", f"create view models as {ENDLESS}"),
    "one more view": (f"create view v as {ENDLESS}",),
    "a trigger on attempts": (
        f"create trigger t after insert on attempts begin select count(*) from ({ENDLESS}); end",
    ),
    "a trigger on claims": ("create trigger t before delete on claims begin select raise(ignore); end",),
    "a virtual table": ("drop table calls", "create virtual table calls using fts5(key, reply)"),
    "a computed column": (
        "drop table calls",
        "create table calls (key text, reply text as (hex(zeroblob(1000000000))), model text, kind text)",
    ),
    "other columns": ("drop table calls", "create table calls (key text, reply text)"),
    "an index of its own": ("create index i on calls (hex(key))",),
    "a table of somebody else": ("create table holidays (day text)",),
    "a name of rescued rows": (f"create view lost_and_found as {ENDLESS}",),
}
"""Statements that were made endless, slow or deceiving (attack 5), and tables that no journal has."""
READERS = {
    "opened": Journal,
    "checked": check_journal,
    "merged": lambda path: merge(Journal(path.with_name("mine.sqlite")), path),
    "looked at": lambda path: opened_to_read(path).__enter__(),
}


def request(number: int) -> ChatRequest:
    return ChatRequest((Message("user", f"Question {number}"),))


def keep(journal: Journal, number: int, text: str = "kept") -> None:
    journal.record(MODEL, [(f"k{number}", request(number), ChatReply(text), None)])


def change(path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file:
        for statement in statements:
            file.execute(statement)
        file.commit()


@pytest.fixture
def stranger(tmp_path):
    """Another journal with five replies, closed."""
    path = tmp_path / "stranger.sqlite"
    with contextlib.closing(Journal(path)) as journal:
        for number in range(5):
            keep(journal, number)
    return path


@pytest.mark.parametrize("how", READERS)
@pytest.mark.parametrize("statements", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_with_anything_that_no_journal_has_is_refused_before_anything_else(stranger, statements, how):
    change(stranger, *statements)
    before = stranger.read_bytes()
    with pytest.raises(UserError, match=r"cannot be used as a journal: it has .* in a form that no journal has"):
        READERS[how](stranger)
    assert stranger.read_bytes() == before


def test_what_sqlite_s_own_rescue_leaves_beside_the_tables_is_no_reason_to_refuse(stranger):
    """The form in which sqlite3's .recover puts rows of unknown tables."""
    change(stranger, "create table lost_and_found(rootpgno INTEGER, pgno INTEGER, nfield INTEGER, id INTEGER, c0, c1)")
    assert check_journal(stranger).replies == 5


def test_a_journal_without_one_of_its_tables_gets_it_again(stranger):
    change(stranger, "drop table claims")
    Journal(stranger).close()
    assert check_journal(stranger).problems == ()


# --- rows --------------------------------------------------------------------------------------------------------

SOUND = {"text": "kept", "finish": "stop", "token_logprobs": None, "choice_logprobs": None}
FORGED_REPLIES = [
    "[]",
    "{}",
    "7",
    '"text"',
    json.dumps(SOUND | {"text": 7}),
    json.dumps(SOUND | {"finish": "maybe"}),
    json.dumps(SOUND | {"token_logprobs": [["a"]]}),
    json.dumps(SOUND | {"choice_logprobs": {"yes": "much"}}),
    json.dumps(SOUND | {"choice_logprobs": {"yes": float("nan")}}),
    json.dumps({"logprobs": "abc"}),
    json.dumps({"logprobs": [float("-inf")]}),
]
FORGED_CELLS = [
    "key = x'00'",
    "model = x'ff'",
    "kind = x'ff'",
    "request = x'ff'",
    "created_at = x'ff'",
    "created_at = 9e999",
    "input_tokens = x'ff'",
    "cost_usd = 9e999",
    "cost_usd = -1.0",
    "checksum = null",
    "reply = cast(x'c328ff' as text)",
]


def test_replies_that_were_damaged_are_counted_and_not_merged(journal, stranger):
    change(stranger, "update calls set reply = replace(reply, 'kept', 'kepp') where key in ('k1', 'k3')")
    keep(journal, 0)
    assert merge(journal, stranger) == Merged(added=2, known=1, damaged=2)
    assert sorted(journal.find([f"k{number}" for number in range(5)])) == ["k0", "k2", "k4"]
    assert [total.calls for total in model_totals(journal)] == [3]
    assert check_journal(journal.path).damaged == 0


@pytest.mark.parametrize("cell", FORGED_CELLS)
def test_a_forged_cell_is_not_merged_whatever_it_is(journal, stranger, cell):
    change(stranger, f"update calls set {cell} where key = 'k2'")
    assert merge(journal, stranger) == Merged(added=4, damaged=1)
    assert all(isinstance(total.first, float) for total in model_totals(journal))


@pytest.mark.parametrize("cell", FORGED_CELLS)
def test_a_forged_cell_is_shown_without_a_traceback(stranger, cell):
    change(stranger, f"update calls set {cell} where key = 'k2'")
    shown = goldless("journal", "show", "--journal", stranger)
    assert not shown.broke, shown.err


@pytest.mark.parametrize("column", ["id", "model", "occasion", "reserved_usd", "submitted_at", "label"])
def test_a_forged_batch_is_shown_without_a_traceback(stranger, column):
    row = {
        "label": "l",
        "id": "i",
        "model": "m",
        "occasion": 0,
        "reserved_usd": 1.0,
        "submitted_at": 1.0,
        column: b"\xff",
    }
    with contextlib.closing(sqlite3.connect(stranger)) as file:
        names = ", ".join(row)
        file.execute(f"insert into batches ({names}) values ({', '.join('?' * len(row))})", [*row.values()])
        file.commit()
    shown = goldless("journal", "show", "--journal", stranger)
    assert not shown.broke, shown.err


@pytest.mark.parametrize("reply", FORGED_REPLIES)
def test_what_is_no_reply_is_not_merged_though_its_checksum_is_right(journal, stranger, reply):
    checksum = _checksum("k2", reply.encode(), 0, 0, None)
    with contextlib.closing(sqlite3.connect(stranger)) as file:
        file.execute("update calls set reply = ?, checksum = ? where key = 'k2'", (reply, checksum))
        file.commit()
    assert merge(journal, stranger) == Merged(added=4, damaged=1)
    assert check_journal(stranger).damaged == 1


def test_a_sound_reply_replaces_a_damaged_one_of_ours(journal, stranger):
    for number in range(5):
        keep(journal, number)
    with journal.transaction() as run:
        run.execute("update calls set reply = 'lost' where key in ('k0', 'k4')")
    assert merge(journal, stranger) == Merged(known=3, mended=2)
    assert len(journal.find([f"k{number}" for number in range(5)])) == 5
    assert merge(journal, stranger) == Merged(known=5)


def test_contexts_and_models_are_taken_only_under_their_own_hash(journal, stranger):
    with contextlib.closing(Journal(stranger)) as other:
        asked = ScoreRequest((1, 2), (3,))
        other.record(MODEL, [("s", asked, TokenLogprobs((-1.0,)), None)])
    change(stranger, "insert into bodies values ('forged', '[7]')", "insert into models values ('forged', '{}')")
    assert merge(journal, stranger).added == 6
    assert journal.rows("select body from bodies") == [("[1,2]",)]
    assert [total.model for total in model_totals(journal)] == ["scripted:toy"]


def test_the_command_says_what_was_left_out_and_what_was_replaced(goldless, tmp_path, stranger):
    mine = tmp_path / "mine.sqlite"
    with contextlib.closing(Journal(mine)) as journal:
        keep(journal, 0)
    change(mine, "update calls set reply = 'lost'")
    change(stranger, "update calls set reply = 'lost' where key = 'k3'")
    merged = goldless("journal", "merge", stranger, "--journal", mine)
    assert merged.code == 0
    assert "3 replies added, 0 were there already" in merged.err
    assert "1 replies that were damaged here were replaced" in merged.err
    assert "1 damaged replies there were left out" in merged.err
    assert goldless("journal", "show", "--journal", mine).code == 0


# --- signals -----------------------------------------------------------------------------------------------------

LONG = """
    import sys
    from goldless.cli.console import Signals, run_async
    from goldless.models.journal import Journal

    journal = Journal(sys.argv[1])

    def look():
        print("looking", flush=True)
        journal.rows({endless!r} + " where i < 0")

    async def look_in_a_loop():
        look()

    with Signals() as signals:
        try:
            run_async(look_in_a_loop) if sys.argv[2] == "loop" else look()
        except KeyboardInterrupt:
            sys.exit(signals.code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("where", ["loop", "no loop"])
def test_one_signal_ends_a_statement_that_would_run_for_ever(tmp_path, where, number):
    program = textwrap.dedent(LONG).format(endless=ENDLESS)
    command = [sys.executable, "-c", program, str(tmp_path / "j.sqlite"), where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "looking\n"
        process.send_signal(number)
        assert process.wait(60) == 128 + number
