"""What is asked of a chat endpoint, and what its replies mean."""

from __future__ import annotations

import math

import pytest

from goldless.models.http_api.formats import ROOM_FOR_THINKING
from goldless.models.interface import ChatRequest, Message
from tests.support.servers.loopback import chat_reply, rejection

pytestmark = pytest.mark.anyio

MESSAGES = (Message("system", "Be brief."), Message("user", "Hello?"))
ASK = ChatRequest(MESSAGES, max_tokens=50, temperature=0.3, seed=7)


async def test_a_request_is_worded_as_openai_words_it(serve, connect):
    server = serve()
    await connect(server).chat(ASK)
    assert server.bodies("/v1/chat/completions") == [
        {
            "model": "toy",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}],
            "max_tokens": 50,
            "temperature": 0.3,
            "seed": 7,
        }
    ]


async def test_max_tokens_is_renamed_when_rejected_by_name_and_the_new_name_is_kept(serve, connect):
    def chat(body):
        if "max_tokens" in body:
            raise rejection(400, "Unsupported parameter: use 'max_completion_tokens' instead.", "max_tokens")
        return chat_reply("fine")

    server = serve(chat=chat)
    model = connect(server)
    assert (await model.chat(ASK)).text == "fine"
    assert (await model.chat(ASK)).text == "fine"
    bodies = server.bodies("/v1/chat/completions")
    assert [("max_tokens" in body, body.get("max_completion_tokens")) for body in bodies] == [
        (True, None),
        (False, 50 + ROOM_FOR_THINKING),
        (False, 50 + ROOM_FOR_THINKING),
    ]


async def test_a_temperature_the_server_does_not_take_is_left_out_and_stands_in_the_identity(serve, connect):
    def chat(body):
        if "temperature" in body:
            raise rejection(400, "Unsupported value: 'temperature' does not support 0.", "temperature")
        return chat_reply("fine")

    model = connect(serve(chat=chat))
    await model.prepare()
    assert model.identity.settings["temperature"] == "server default"
    assert (await model.chat(ASK)).text == "fine"


async def test_log_probabilities_of_written_tokens_come_when_asked_for(serve, connect):
    content = [{"token": "A", "logprob": -0.25}, {"token": " fine", "logprob": -1.5}]
    server = serve(chat=lambda body: chat_reply("A fine", logprobs=content if body.get("logprobs") else None))
    model = connect(server)
    asked = await model.chat(ChatRequest(MESSAGES, logprobs=True))
    plain = await model.chat(ChatRequest(MESSAGES))
    assert asked.token_logprobs == (("A", -0.25), (" fine", -1.5))
    assert plain.token_logprobs is None


def listed(**probabilities):
    return [{"token": token, "logprob": math.log(p)} for token, p in probabilities.items()]


@pytest.mark.parametrize(
    ("written", "probabilities", "chosen"),
    [
        ("one", {"one": 0.6, "two": 0.2, "The": 0.2}, ("one", "choice", {"one": 0.75, "two": 0.25})),
        ("one or two", {"one": 0.3, "two": 0.5}, ("two", "choice", {"one": 0.375, "two": 0.625})),
        ("Both are fine.", None, ("Both are fine.", "stop", None)),
    ],
)
async def test_a_choice_is_what_is_written_or_else_most_probable_or_else_open(
    serve, connect, written, probabilities, chosen
):
    first = {"token": "one", "logprob": math.log(0.3), "top_logprobs": listed(**(probabilities or {}))}
    others = [{"token": " or", "logprob": -0.1}, {"token": " two", "logprob": -0.1}]
    content = [first, *others[: len(written.split()) - 1]] if probabilities else None
    model = connect(serve(chat=lambda _: chat_reply(written, logprobs=content)))
    reply = await model.chat(ChatRequest(MESSAGES, choices=("one", "two")))
    found = reply.choice_logprobs and {answer: math.exp(value) for answer, value in reply.choice_logprobs.items()}
    assert (reply.text, reply.finish) == chosen[:2]
    assert found == (chosen[2] and pytest.approx(chosen[2]))


async def test_fewer_alternatives_are_asked_for_when_the_server_takes_fewer(serve, connect):
    def chat(body):
        if body.get("top_logprobs", 0) > 5:
            raise rejection(400, "top_logprobs must be at most 5", "top_logprobs")
        return chat_reply("one")

    server = serve(chat=chat)
    model = connect(server)
    for _ in range(2):
        await model.chat(ChatRequest(MESSAGES, choices=("one", "two")))
    bodies = server.bodies("/v1/chat/completions")
    assert [(body["logprobs"], body["top_logprobs"]) for body in bodies] == [(True, 20), (True, 5), (True, 5)]
    assert bodies[0]["max_tokens"] < 20


async def test_a_server_that_rejects_logprobs_is_asked_without_them(serve, connect):
    def chat(body):
        if "logprobs" in body:
            raise rejection(400, "logprobs are not supported with this model", "logprobs")
        return chat_reply("one")

    reply = await connect(serve(chat=chat)).chat(ChatRequest(MESSAGES, choices=("one", "two")))
    assert (reply.text, reply.choice_logprobs) == ("one", None)


VLLM_TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 "
    "'max_tokens'. Please reduce one or the other. (parameter=input_tokens, max_tokens, value=(8, 2045))"
)


async def test_a_refusal_for_length_that_names_max_tokens_is_no_matter_of_wording(serve, connect):
    def refuse(body):
        raise rejection(400, VLLM_TOO_LONG, "input_tokens, max_tokens")

    server = serve(chat=refuse)
    found = await connect(server).chat(ChatRequest(MESSAGES))
    assert found.kind == "too_long"
    assert len(server.bodies("/v1/chat/completions")) == 1
