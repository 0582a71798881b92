"""A call is made by one process at a time; a process that ends gives its calls back."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from contextlib import closing

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from goldless.errors import UserError
from goldless.models import journal as journals
from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity, TokenLogprobs, Usage
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledModel, chat_key
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Budget, Ledger, Price
from goldless.records import CallFailure
from tests.support.servers.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio
MODEL = ModelIdentity("scripted", "toy")
QUESTION = ChatRequest((Message("user", "Why?"),))
OWNER = """
    import os, sys
    import anyio
    from goldless.models.journal import Journal
    async def own():
        async with Journal(sys.argv[1]).claim(["a", "b"]):
            print("claimed", flush=True)
            sys.stdin.read()
            os._exit(0)

    anyio.run(own)
"""


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL_TIME


@pytest.fixture
def other(journal):
    """Another process's view of the journal, in this process."""
    with closing(Journal(journal.path)) as opened:
        yield opened


async def test_a_claimed_call_is_nobody_else_s_until_its_block_ends(journal, other):
    async with journal.claim(["a", "b"]) as mine:
        assert mine == {"a", "b"}
        async with other.claim(["a", "c"]) as theirs, journal.claim(["a"]) as again:
            assert (theirs, again) == ({"c"}, set())
        async with other.claim(["a", "b", "c"]) as theirs:
            assert theirs == {"c"}, "a block ends only what it claimed itself"
    async with other.claim(["a", "b"]) as theirs:
        assert theirs == {"a", "b"}
    assert journal.rows("select * from claims") == []


@pytest.fixture
def owner(journal):
    """Another process that has claimed two calls and waits."""
    command = [sys.executable, "-c", textwrap.dedent(OWNER), str(journal.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "claimed\n"
        yield process
        process.kill()


async def test_the_claims_of_a_killed_process_are_free_at_once(journal, owner):
    async with journal.claim(["a"]) as mine:
        assert mine == set()
    owner.kill()
    owner.wait()
    with anyio.fail_after(60):
        await journal.freed(["a", "b"])
    async with journal.claim(["a", "b"]) as mine:
        assert mine == {"a", "b"}


@pytest.mark.parametrize("seconds", [-1.0, 10 * journals.LEASE_SECONDS + 1.0])
async def test_a_claim_that_expired_or_ends_later_than_any_can_is_free(journal, other, seconds):
    """The second is one that a clock wrote before it was set back."""
    async with other.claim(["a"]):
        with other.transaction() as run:
            run.execute("update claims set expires_at = ?", [time.time() + seconds])
        await journal.freed(["a"])
        async with journal.claim(["a"]) as mine:
            assert mine == {"a"}
            other.release(["a"])
            assert len(journal.rows("select * from claims")) == 1, "whoever lost a claim cannot release it"


async def test_a_claim_is_renewed_while_its_call_is_out(journal, monkeypatch):
    monkeypatch.setattr(journals, "RENEWAL_SECONDS", 0.01)
    async with journal.claim(["a"]):
        (until,) = journal.rows("select expires_at from claims")
        await until_true(lambda: journal.rows("select expires_at from claims") != [until])


async def until_true(condition) -> None:
    for _ in range(1000):
        if condition():
            return
        await anyio.to_thread.run_sync(time.sleep, 0.01)
    pytest.fail("it did not happen")


# --- models behind the journal -----------------------------------------------------------------------------------


class Slow(ScriptedModel):
    """Answers after a moment, and counts."""

    def __init__(self) -> None:
        super().__init__(name="slow", answers={}, logprobs={})

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.calls.append(request)
        await anyio.sleep(0.05)
        return ChatReply("Because.", usage=Usage(1, 1))

    async def score(self, requests, deliver) -> None:
        self.calls += requests
        await anyio.sleep(0.05)
        deliver({i: TokenLogprobs((-1.0,), Usage(1, 0)) for i in range(len(requests))})


KEY = chat_key(Slow().identity, QUESTION)


async def test_two_processes_ask_for_a_text_once(journal, other):
    model = Slow()
    chats = [JournalledModel(model, one, Ledger("m", Price(1.0, 1.0), Budget(1.0))) for one in (journal, other)]
    replies: list[ChatReply | CallFailure] = []

    async def ask(chat: JournalledModel) -> None:
        replies.append(await chat.chat(QUESTION))

    async with anyio.create_task_group() as tasks:
        for chat in chats * 2:
            tasks.start_soon(ask, chat)
    assert len(model.calls) == 1
    assert [reply.text for reply in replies] == ["Because."] * 4
    assert sorted(chat.ledger.calls for chat in chats) == [0, 1]
    assert sorted(chat.reused.cost_usd for chat in chats) == [0.0, 2e-6], "the other knows what the reply had cost"


async def test_a_cancelled_call_is_released(journal, other):
    with anyio.move_on_after(0.01):
        await JournalledModel(Slow(), journal, Ledger("m", None)).chat(QUESTION)
    async with other.claim([KEY]) as mine:
        assert mine == {KEY}


# --- calls that end together -------------------------------------------------------------------------------------


async def test_a_reply_that_came_is_kept_although_its_asker_is_cancelled_in_that_moment(journal):
    with anyio.CancelScope() as scope:

        class Interrupted(Slow):
            async def chat(self, request: ChatRequest) -> ChatReply:
                reply = await super().chat(request)
                scope.cancel()
                return reply

        await JournalledModel(Interrupted(), journal, Ledger("m", None)).chat(QUESTION)
    await anyio.lowlevel.checkpoint()
    assert list(journal.find([KEY])) == [KEY]


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        """reply = '{"text":"Becausf.","finish":"stop","token_logprobs":null,"choice_logprobs":null}'""",
        "reply = cast(x'ff00ff' as text)",
        "input_tokens = 7",
        "cost_usd = 99.0",
        "input_tokens = 'many'",
        "checksum = null",
    ],
)
async def test_a_damaged_reply_counts_as_not_there_is_told_and_asked_again(journal, change):
    model = Slow()
    price = Price(1.0, 1.0)
    first = await JournalledModel(model, journal, Ledger("m", price)).chat(QUESTION)
    with journal.transaction() as run:
        run.execute(f"update calls set {change}")
    with pytest.warns(UserWarning, match="a stored reply is damaged, so its call is made again"):
        again = await JournalledModel(model, journal, Ledger("m", price)).chat(QUESTION)
    assert (first.text, again.text, len(model.calls)) == ("Because.", "Because.", 2)
    assert journal.rows("select count(*) from calls") == [(1,)]


def test_a_damaged_file_is_a_user_error_that_says_what_to_do(tmp_path):
    path = tmp_path / "journal.sqlite"
    with closing(Journal(path)) as journal:
        for i in range(200):
            journal.record(MODEL, [(f"k{i}", QUESTION, ChatReply("x" * 1000), None)])
    content = bytearray(path.read_bytes())
    for page in range(2 * 4096, len(content), 4096):
        content[page : page + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(UserError, match="Restore it from a backup"), closing(Journal(path)) as journal:
        journal.find([f"k{i}" for i in range(200)])
    assert path.read_bytes() == content
