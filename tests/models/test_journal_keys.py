"""Keys of the journal must never change: replies that were paid for would be asked for again."""

from __future__ import annotations

import hashlib

import pytest

from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity, ScoreRequest
from goldless.models.journal import model_hash
from goldless.models.journalled import JournalledModel, score_key
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Ledger

REQUEST = ChatRequest(
    (Message("system", "Be brief."), Message("user", "Größer: 1 oder 2? \u4f60")),
    max_tokens=7,
    temperature=0.5,
    seed=3,
    choices=("one", "two"),
    logprobs=True,
)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_models_name_in_the_journal_is_the_hash_of_its_identity_written_out():
    text = '[{"name":"m","provider":"http","revision":"r","settings":{"a":"1","server":"http://x/v1"},"tokenizer":"t"}]'
    for settings in ({"server": "http://x/v1", "a": "1"}, {"a": "1", "server": "http://x/v1"}):
        assert model_hash(ModelIdentity("http", "m", "r", "t", settings)) == sha256(text)[:16]


@pytest.mark.anyio
async def test_a_chat_calls_key_is_the_hash_of_the_call_written_out(journal):
    model = ScriptedModel(answers=lambda _: ChatReply("one", "choice", (("one", -0.1),), {"one": -0.1, "two": -2.4}))
    chat = JournalledModel(model, journal, Ledger("scripted", None))
    await chat.chat(REQUEST)
    text = (
        f'["chat","{model_hash(model.identity)}",{{"choices":["one","two"],"logprobs":true,"max_tokens":7,'
        '"messages":[{"content":"Be brief.","role":"system"},{"content":"Größer: 1 oder 2? \u4f60","role":"user"}],'
        '"seed":3,"temperature":0.5},0]'
    )
    assert list(journal.find([sha256(text)])) == [sha256(text)]


@pytest.mark.parametrize(
    ("context", "target", "written"),
    [
        ((1, 128_000), (0, 49_151), ("[1,128000]", "[0,49151]")),
        ("Größe\n\x1f\x7f", 'a "b" \\ \u2028', ('"Größe\\n\\u001f\x7f"', '"a \\"b\\" \\\\ \u2028"')),
    ],
)
@pytest.mark.parametrize("replicate", [0, 3])
def test_a_scoring_calls_key_is_the_hash_of_its_context_and_target_written_out(context, target, written, replicate):
    again = ",3" if replicate else ""
    expected = sha256(f'["score","m","{sha256(f"[{written[0]}]")}",{written[1]}{again}]')
    assert score_key("m", ScoreRequest(context, target), replicate=replicate) == expected
