"""A server's replies go into the journal, its key does not."""

from __future__ import annotations

import pytest

from goldless.models.interface import ChatRequest, Message, TokenLogprobs
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledModel
from goldless.models.usage import Ledger
from goldless.records import CallFailure
from paid_twice import counts

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret-0123456789"


async def test_the_key_is_not_in_the_journal_even_where_the_server_repeats_it(serve, connect, tmp_path, monkeypatch):
    monkeypatch.setenv("GOLDLESS_HTTP_API_KEY", SECRET)
    server = serve(speaks={"vllm"}, key=SECRET, echo_header_in_errors=True)
    model = connect(server, use="both")
    await model.prepare()
    journal = Journal(tmp_path / "journal.sqlite")
    chat = JournalledModel(model, journal, Ledger("toy", None))
    scorer = JournalledModel(model, journal, Ledger("toy", None))

    assert (await chat.chat(ChatRequest((Message("user", "hello"),)))).text == "A fine reply."
    server.behaviour.faults = [(400, {}, "boom")] * 5
    assert isinstance(await chat.chat(ChatRequest((Message("user", "again"),))), CallFailure)
    server.behaviour.faults = []
    replies: dict = {}
    await scorer.score([await scorer.encode([Message("user", "one two")], "three")], replies.update)
    assert isinstance(replies[0], TokenLogprobs)

    assert f"Bearer {SECRET}" in server.authorizations
    assert counts(journal)["calls"] == 2
    assert counts(journal)["failures"] >= 1
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    journal.close()
    assert b"boom" in kept, "the server's words are kept"
    assert b"very-secret" not in kept
