"""A scripted model says what is written down, and nothing else."""

from __future__ import annotations

import json

import pytest

from goldless.errors import UserError
from goldless.models.interface import ChatRequest, Message, TokenLogprobs
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure

pytestmark = pytest.mark.anyio


def asking(text: str, **options) -> ChatRequest:
    return ChatRequest((Message("system", "be brief"), Message("user", text)), **options)


async def scored(model: ScriptedModel, *pairs: tuple[str, str]) -> dict:
    replies: dict = {}
    requests = [await model.encode([Message("user", given)], target) for given, target in pairs]
    await model.score(requests, replies.update)
    return replies


async def test_its_replies_are_those_written_down_for_the_last_message(script_file):
    model = ScriptedModel.from_file(
        script_file([{"prompt": "why?", "answer": "so"}, {"context": "a", "target": "b", "logprobs": [-1, -0.5]}])
    )
    reply = await model.chat(asking("why?"))
    assert (reply.text, reply.finish) == ("so", "stop")
    assert (await scored(model, ("a", "b")))[0].logprobs == (-1.0, -0.5)


async def test_what_is_not_written_down_is_a_failed_call(script_file):
    model = ScriptedModel.from_file(
        script_file([{"prompt": "why?", "answer": "so"}, {"context": "a", "target": "b", "logprobs": [-1]}])
    )
    assert (await model.chat(asking("who?"))).kind == "rejected"
    replies = await scored(model, ("b", "a"), ("a", "b"))
    assert isinstance(replies[0], CallFailure)
    assert isinstance(replies[1], TokenLogprobs)


BAD = {
    2: "{not json",
    3: json.dumps({"prompt": "a"}),
    4: json.dumps({"context": "a", "target": "b"}),
    6: json.dumps([1, 2]),
    7: json.dumps(5),
    8: json.dumps({"prompt": "a", "answer": 3}),
    9: json.dumps({"context": "a", "target": "b", "logprobs": "high"}),
    10: json.dumps({"context": ["a"], "target": "b", "logprobs": [-1]}),
    11: json.dumps({"context": "a", "target": "b", "logprobs": [None]}),
    12: "",
    13: "[" * 100_000,
}


def test_every_bad_line_of_a_script_is_named_and_no_good_one(tmp_path):
    good = json.dumps({"prompt": "a", "answer": "b"})
    path = tmp_path / "script.jsonl"
    path.write_text("".join(BAD.get(number, good) + "\n" for number in range(1, 14)))
    with pytest.raises(UserError) as caught:
        ScriptedModel.from_file(path)
    named = [line.split(":")[1] for line in str(caught.value).splitlines() if line.startswith(f"  {path}:")]
    assert named == [str(number) for number in BAD]


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_script_that_cannot_be_read_is_a_user_error(tmp_path, content):
    path = tmp_path / "script.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match="cannot read this script"):
        ScriptedModel.from_file(path)
