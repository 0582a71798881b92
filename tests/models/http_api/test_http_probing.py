"""What a server can do is found by asking it, never by trusting it."""

from __future__ import annotations

import pytest

from goldless.errors import CapabilityError
from goldless.models.interface import Message
from tests.support.servers.loopback import chat_reply

pytestmark = pytest.mark.anyio

MESSAGES = (Message("user", "The first review says"),)


async def failing(model) -> str:
    with pytest.raises(CapabilityError) as caught:
        await model.encode(MESSAGES, "that the method is new.")
    with pytest.raises(CapabilityError):
        await model.score([], lambda _: None)
    return str(caught.value)


async def test_a_chat_only_server_cannot_score_and_the_message_says_what_was_asked(serve, connect):
    model = connect(serve())
    await model.prepare()
    assert (model.capabilities.chat, model.capabilities.scoring) == (True, False)
    message = await failing(model)
    for word in (
        "scoring as sglang",
        "scoring as vllm",
        "scoring as completions-echo",
        "404",
        "embedded",
        "gguf:",
        "hf:",
    ):
        assert word in message


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ({"speaks": {"echo"}, "ignores_prompt_logprobs": True}, "accepted echo but did not return the prompt"),
        ({"speaks": {"vllm"}, "ignores_prompt_logprobs": True}, "accepted prompt_logprobs but returned none"),
        ({"speaks": {"echo"}, "tokenizing": "merging"}, "merges context and target"),
    ],
)
async def test_a_server_that_silently_does_something_else_is_found_out(serve, connect, behaviour, said):
    model = connect(serve(**behaviour))
    await model.prepare()
    assert not model.capabilities.scoring
    assert said in await failing(model)


@pytest.mark.parametrize(
    ("speaks", "dialect"),
    [
        ({"sglang", "vllm", "echo"}, "sglang"),
        ({"vllm", "echo"}, "vllm"),
        ({"echo"}, "completions-echo"),
    ],
)
async def test_the_most_exact_dialect_a_server_speaks_is_used(serve, connect, speaks, dialect):
    model = connect(serve(speaks=speaks))
    await model.prepare()
    assert model.identity.settings["dialect"] == dialect


async def test_scoring_is_probed_once_and_on_first_use(serve, connect):
    server = serve(speaks={"vllm"})
    model = connect(server, use="chat")
    await model.prepare()
    assert not model.capabilities.scoring
    await model.encode(MESSAGES, "target")
    assert model.capabilities.scoring
    probes = server.paths().count("/v1/completions")
    await model.encode(MESSAGES, "another target")
    await model.prepare()
    assert server.paths().count("/v1/completions") == probes == 1


async def test_every_finding_is_reported(serve, connect):
    model = connect(serve(speaks={"vllm"}))
    await model.prepare()
    assert [(finding.ability, finding.works) for finding in model.findings] == [
        ("chat", True),
        ("scoring as sglang", False),
        ("scoring as vllm", True),
    ]


@pytest.mark.parametrize(
    ("logprobs", "choice", "tokens"),
    [
        (None, False, False),
        ([{"token": "yes", "logprob": -0.1, "top_logprobs": []}], False, True),
        (
            [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "no", "logprob": -2.4}]}],
            True,
            True,
        ),
    ],
)
async def test_log_probabilities_of_written_tokens_count_only_when_they_come(serve, connect, logprobs, choice, tokens):
    server = serve(chat=lambda _: chat_reply("yes", logprobs=logprobs))
    model = connect(server)
    await model.prepare()
    assert (model.capabilities.choice, model.capabilities.token_logprobs) == (choice, tokens)


async def test_a_server_without_chat_says_so_in_its_capabilities(serve, connect):
    server = serve(speaks={"vllm"})
    server.behaviour.faults.append((400, {}, "you must provide a chat template"))
    model = connect(server)
    await model.prepare()
    assert (model.capabilities.chat, model.capabilities.scoring) == (False, True)


async def test_a_busy_server_is_not_taken_for_one_that_cannot_chat(serve, connect):
    server = serve(faults=[(500, {}, "boom")] * 4)
    model = connect(server, use="chat")
    await model.prepare()
    assert model.capabilities.chat
