"""Providers by name: what each is asked on the wire, and what its replies mean."""

from __future__ import annotations

import math

import anyio
import pytest

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.catalogue import SERVICES, open_model
from goldless.models.http_api.formats import ROOM_FOR_THINKING
from goldless.models.interface import ChatReply, ChatRequest, Message, Usage
from goldless.models.usage import price_of
from goldless.records import CallFailure
from tests.support.servers.loopback import Behaviour, chat_reply
from tests.support.servers.providers import KEY, ProviderServer, anthropic_reply, gemini_reply

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("system", "Be brief."), Message("user", "Hello?")), max_tokens=50, temperature=0.3, seed=7)
SPECS = {name: f"{name}:toy" for name in SERVICES} | {
    "anthropic": "anthropic:claude-toy-1",
    "google": "google:gemini-toy",
}
AT_ROOT = ("anthropic", "google", "azure", "bedrock")


@pytest.fixture
def server(monkeypatch):
    with ProviderServer(Behaviour()) as running:
        for name, service in SERVICES.items():
            if not service.own:
                monkeypatch.setenv(service.keys[0], KEY)
            monkeypatch.setenv(service.url_variable, running.root if name in AT_ROOT else running.url)
        yield running


async def reply_of(spec: str, request: ChatRequest = ASK) -> ChatReply | CallFailure:
    model = open_model(spec, use="chat")
    try:
        return await model.chat(request)
    finally:
        await model.aclose()


def last_body(server):
    return server.asked[-1][1]


@pytest.mark.parametrize("provider", SPECS)
async def test_every_provider_gives_text_and_usage(server, provider):
    model = open_model(SPECS[provider], use="chat")
    await model.prepare()
    reply = await model.chat(ASK)
    await model.aclose()
    assert (reply.text, reply.finish, reply.usage) == ("A fine reply.", "stop", Usage(11, 4))
    assert model.capabilities.chat
    assert not model.capabilities.scoring


ASKED = {
    "anthropic": {  # the system text apart, and no seed
        "model": "claude-toy-1",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "Hello?"}],
        "system": "Be brief.",
        "temperature": 0.3,
    },
    "google": {  # parts, and room for thinking
        "contents": [{"role": "user", "parts": [{"text": "Hello?"}]}],
        "generationConfig": {"maxOutputTokens": 50 + ROOM_FOR_THINKING, "temperature": 0.3, "seed": 7},
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
    },
}


@pytest.mark.parametrize("provider", ASKED)
async def test_each_is_asked_in_its_own_format(server, provider):
    await reply_of(SPECS[provider])
    assert last_body(server) == ASKED[provider]


async def test_azure_with_a_dated_api_is_asked_at_the_deployment(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert (await reply_of("azure:toy")).text == "A fine reply."


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ("openai:toy?effort=low", {"reasoning_effort": "low", "max_tokens": 50 + ROOM_FOR_THINKING}),
        ("openrouter:toy?effort=high", {"reasoning": {"effort": "high"}}),
        ("anthropic:claude-toy-1?effort=low", {"output_config": {"effort": "low"}}),
        (
            "anthropic:claude-toy-1?thinking=2048",
            {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 2098},
        ),
        ("google:gemini-toy?thinking=0", {"thinkingConfig": {"thinkingBudget": 0}, "maxOutputTokens": 50}),
        (
            "google:gemini-toy?effort=low",
            {"thinkingConfig": {"thinkingLevel": "low"}, "maxOutputTokens": 50 + ROOM_FOR_THINKING},
        ),
        ("bedrock:toy?effort=low", {"reasoning_effort": "low"}),
        ("mistral:toy", {"random_seed": 7}),
    ],
)
async def test_how_much_a_model_thinks_is_said_in_the_providers_words(server, spec, asked):
    assert (await reply_of(spec)).text == "A fine reply."
    body = last_body(server)
    assert asked.items() <= body.get("generationConfig", body).items()


THOUGHTS = {
    "anthropic": anthropic_reply(
        [{"type": "thinking", "thinking": "Two?", "signature": "x"}, {"type": "text", "text": "one"}]
    ),
    "google": gemini_reply([{"text": "Two?", "thought": True}, {"text": "one"}]),
    "azure": chat_reply("one", reasoning_content="Two?"),
    "mistral": chat_reply(
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Two?"}]}, {"type": "text", "text": "one"}]
    ),
    "together": chat_reply("<think>Two?\n</think>\n\none"),
    "ollama": chat_reply("<think>It says </think> two. Two?</think>one"),
}


@pytest.mark.parametrize("provider", THOUGHTS)
async def test_thinking_is_kept_out_of_what_is_read(server, provider):
    server.said = server.behaviour.chat = lambda _: THOUGHTS[provider]
    reply = await reply_of(SPECS[provider], ChatRequest(ASK.messages, choices=("one", "two")))
    assert (reply.text, reply.finish) == ("one", "choice")


CUT = {
    "anthropic": anthropic_reply([{"type": "thinking", "thinking": "Hm", "signature": "x"}], stop="max_tokens"),
    "google": gemini_reply([], finish="MAX_TOKENS"),
    "together": chat_reply("<think>Hm", finish="length"),
    "mistral": chat_reply("", finish="model_length"),
    "openai": chat_reply(None, finish="length"),
}


@pytest.mark.parametrize("provider", CUT)
async def test_a_reply_that_is_all_thinking_is_an_empty_text_cut_at_its_limit(server, provider):
    server.said = server.behaviour.chat = lambda _: CUT[provider]
    reply = await reply_of(SPECS[provider])
    assert (reply.text, reply.finish) == ("", "length")


async def test_a_model_that_thinks_gets_room_for_it_once_the_probe_has_seen_it(server):
    server.said = lambda _: CUT["anthropic"]
    model = open_model(SPECS["anthropic"], use="chat")
    assert model.thinking_tokens == 0
    await model.prepare()
    await model.aclose()
    assert model.thinking_tokens == ROOM_FOR_THINKING


GEMINI_BLOCKS = ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII")
REFUSED = [
    ("anthropic", anthropic_reply([], stop="refusal", stop_details={"type": "refusal", "category": "bio"})),
    ("google", {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 11}}),
    *(("google", gemini_reply([], finish=reason)) for reason in GEMINI_BLOCKS),
    ("azure", chat_reply(None, finish="content_filter")),
    ("openai", chat_reply(None, refusal="I cannot help with that.")),
]


@pytest.mark.parametrize(("provider", "said"), REFUSED)
async def test_a_refusal_is_told_apart_from_a_failure(server, provider, said):
    server.said = server.behaviour.chat = lambda _: said
    assert (await reply_of(SPECS[provider])).kind == "refused"


FOUR = ["anthropic", "google", "azure", "openai"]


THINKING_APART = {
    "xAI": ({"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 331}, Usage(12, 319)),
    "Gemini by a gateway": ({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 900}, Usage(9, 891)),
    "OpenAI": ({"prompt_tokens": 12, "completion_tokens": 319, "total_tokens": 331}, Usage(12, 319)),
    "no total": ({"prompt_tokens": 12, "completion_tokens": 2}, Usage(12, 2)),
    "a total too small": ({"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 5}, Usage(12, 2)),
    "a total that is no count": ({"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": -5}, Usage()),
}
"""xAI counts reasoning apart from completion_tokens, but in the total_tokens (docs.x.ai; the first is its own)."""


@pytest.mark.parametrize("case", THINKING_APART)
async def test_thinking_that_is_only_in_the_total_is_charged(server, case):
    said, charged = THINKING_APART[case]
    server.behaviour.chat = lambda _: chat_reply("x") | {"usage": said}
    model = open_model(SPECS["openai"], use="chat")
    reply = await model.chat(ASK)
    await model.aclose()
    assert (reply.text, reply.usage) == ("x", charged)


def usage_said(*, said: object, text: str = "x", stop: str = "stop") -> dict:
    """A reply in all formats at once, whose counts of tokens are all this."""
    kinds = ("input_tokens", "prompt_tokens", "inputTokens", "output_tokens", "completion_tokens", "outputTokens")
    return {
        "type": "message",
        "content": [{"type": "text", "text": text}],
        "usage": dict.fromkeys(kinds, said),
        "usageMetadata": dict.fromkeys(("promptTokenCount", "candidatesTokenCount"), said),
        "candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": stop.upper()}],
        "output": {"message": {"content": [{"text": text}]}},
        "stopReason": stop,
        "stop_reason": stop,
        "choices": [{"message": {"content": text}, "finish_reason": stop}],
    }


@pytest.mark.parametrize("provider", FOUR)
@pytest.mark.parametrize("said", [None, "many", {}, [1], -5000, 2.5, True, 0])
async def test_a_usage_that_is_no_count_leaves_the_text_and_counts_as_not_reported(server, provider, said):
    server.said = server.behaviour.chat = lambda _: usage_said(said=said)
    reply = await reply_of(SPECS[provider])
    assert (reply.text, reply.usage) == ("x", Usage())


@pytest.mark.parametrize(
    ("provider", "stop"),
    [
        ("anthropic", "refusal"),
        ("google", "safety"),
        ("azure", "content_filter"),
        ("openai", "content_filter"),
    ],
)
async def test_a_refusal_says_what_it_is_charged_for(server, provider, stop):
    server.said = server.behaviour.chat = lambda _: usage_said(said=7, stop=stop)
    failure = await reply_of(SPECS[provider])
    assert (failure.kind, failure.charged) == ("refused", (7, 7))


async def test_gemini_gives_probabilities_of_a_choice_where_its_model_does(server):
    listed = [
        {"token": "one", "tokenId": 1, "logProbability": math.log(0.6)},
        {"token": "two", "tokenId": 2, "logProbability": math.log(0.2)},
    ]
    result = {"chosenCandidates": listed[:1], "topCandidates": [{"candidates": listed}]}
    server.said = lambda _: gemini_reply([{"text": "one"}], logprobsResult=result)
    reply = await reply_of(SPECS["google"], ChatRequest(ASK.messages, choices=("one", "two")))
    assert {answer: math.exp(value) for answer, value in reply.choice_logprobs.items()} == pytest.approx(
        {"one": 0.75, "two": 0.25}
    )
    assert last_body(server)["generationConfig"]["logprobs"] == 20


@pytest.mark.parametrize(
    ("provider", "variable"),
    [(name, SERVICES[name].keys[0]) for name in AT_ROOT],
)
async def test_a_wrong_key_names_its_variable_and_is_not_shown(server, monkeypatch, provider, variable):
    monkeypatch.setenv(variable, "wrong-secret-value")
    model = open_model(SPECS[provider], use="chat")
    with pytest.raises(PrerequisiteError, match=variable) as caught:
        await model.prepare()
    later = await model.chat(ASK)
    await model.aclose()
    assert later.kind == "rejected"
    assert variable in later.message
    assert "wrong-secret-value" not in f"{caught.value} {later}"


@pytest.mark.parametrize("spec", ["anthropic:claude-toy-2", "google:gemini-tay", "azure:tay", "bedrock:tay"])
async def test_an_unknown_model_is_said_to_be_unknown(server, spec):
    model = open_model(spec, use="chat")
    with pytest.raises(ModelSpecError, match=spec.partition(":")[2]):
        await model.prepare()
    await model.aclose()


async def test_a_limit_that_is_used_up_stops_the_next_calls_for_as_long_as_the_server_says(server):
    server.headers = {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "40"}
    model = open_model(SPECS["anthropic"], use="chat")
    await model.chat(ASK)
    await model.aclose()
    limiter = model._client.limiter
    assert 0 < limiter.paused_until - anyio.current_time() <= 40


def test_bedrock_needs_a_region_from_the_environment_or_the_specification(monkeypatch):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    with pytest.raises(PrerequisiteError, match="AWS_REGION"):
        open_model("bedrock:openai.gpt-oss-20b-1:0")
    there = open_model("bedrock:openai.gpt-oss-20b-1:0?region=eu-west-1")
    assert "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1" in repr(there)
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    elsewhere = open_model("bedrock:openai.gpt-oss-20b-1:0")
    assert "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1" in repr(elsewhere)
    assert there.identity == elsewhere.identity


@pytest.mark.parametrize(
    "spec",
    [
        "anthropic:claude-sonnet-4-5",
        "google:gemini-2.5-flash",
        "bedrock:openai.gpt-oss-120b-1:0",
        "groq:llama-3.3-70b-versatile",
        "deepseek:deepseek-chat",
        "fireworks:accounts/fireworks/models/gpt-oss-120b",
        "mistral:mistral-large-latest",
        "together:meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "openrouter:openai/gpt-4o-mini",
        "azure:gpt-4o",
    ],
)
def test_a_providers_public_models_have_a_price(spec, monkeypatch):
    for service in SERVICES.values():
        monkeypatch.setenv(service.keys[0], KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://toy.openai.azure.com")
    assert price_of(open_model(spec).identity).input_usd > 0
