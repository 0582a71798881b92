"""The imitation of each provider is right: its official SDK talks to it and reads the same text and usage as we do.

Each test is skipped where the SDK is not installed.
"""

from __future__ import annotations

import pytest
from batch_providers import BatchServer
from loopback import Behaviour
from providers import KEY, TEXT, ProviderServer

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def server():
    with ProviderServer(Behaviour()) as running:
        yield running


def test_anthropics_sdk(server):
    sdk = pytest.importorskip("anthropic")
    client = sdk.Anthropic(api_key=KEY, base_url=server.root, max_retries=0)
    message = client.messages.create(
        model="claude-toy-1",
        max_tokens=50,
        system="Be brief.",
        messages=[{"role": "user", "content": "Hello?"}],
        output_config={"effort": "low"},
    )
    usage = message.usage
    assert (message.content[0].text, message.stop_reason) == (TEXT, "end_turn")
    assert (usage.input_tokens + usage.cache_read_input_tokens, usage.output_tokens) == (11, 4)
    assert [model.id for model in client.models.list()] == ["claude-toy-1"]
    with pytest.raises(sdk.AuthenticationError):
        sdk.Anthropic(api_key="other", base_url=server.root, max_retries=0).models.list()


def test_googles_sdk(server):
    genai = pytest.importorskip("google.genai")
    client = genai.Client(api_key=KEY, http_options={"base_url": server.root, "api_version": "v1beta"})
    config = {
        "max_output_tokens": 50,
        "temperature": 0.3,
        "seed": 7,
        "system_instruction": "Be brief.",
        "thinking_config": genai.types.ThinkingConfig(thinking_budget=0),
    }
    reply = client.models.generate_content(model="gemini-toy", contents="Hello?", config=config)
    counts = reply.usage_metadata
    assert reply.text == TEXT
    assert (counts.prompt_token_count, counts.candidates_token_count + counts.thoughts_token_count) == (11, 4)
    asked = server.asked[-1][1]
    assert set(asked["generationConfig"]) == {"maxOutputTokens", "temperature", "seed", "thinkingConfig"}
    assert asked["systemInstruction"]["parts"] == [{"text": "Be brief."}]


def test_openais_sdk_with_azure(server):
    sdk = pytest.importorskip("openai")
    client = sdk.AzureOpenAI(azure_endpoint=server.root, api_key=KEY, api_version="2024-10-21", max_retries=0)
    reply = client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "Hello?"}])
    assert (reply.choices[0].message.content, reply.usage.prompt_tokens) == (TEXT, 11)
    newer = sdk.OpenAI(base_url=f"{server.root}/openai/v1", api_key=KEY, max_retries=0)
    reply = newer.chat.completions.create(model="toy", messages=[{"role": "user", "content": "Hello?"}])
    assert reply.choices[0].message.content == TEXT


def test_mistrals_sdk(server):
    module = pytest.importorskip("mistralai")
    client_type = getattr(module, "Mistral", None) or pytest.importorskip("mistralai.client").Mistral
    client = client_type(api_key=KEY, server_url=server.root)
    reply = client.chat.complete(
        model="toy", messages=[{"role": "user", "content": "Hello?"}], max_tokens=50, random_seed=7
    )
    assert (reply.choices[0].message.content, reply.usage.prompt_tokens) == (TEXT, 11)
    assert server.asked[-1][1]["random_seed"] == 7


# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def batches():
    with BatchServer(Behaviour(), say=lambda asked: f"Reply to {asked}") as running:
        yield running


def test_openais_sdk_with_batches(batches, tmp_path):
    sdk = pytest.importorskip("openai")
    client = sdk.OpenAI(base_url=batches.url, api_key=KEY, max_retries=0)
    line = b'{"custom_id":"k","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"content":"a"}]}}'
    file = client.files.create(file=("x.jsonl", line), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    assert made.status == "in_progress"
    batches.end()
    ended = client.batches.retrieve(made.id)
    assert (ended.status, ended.request_counts.completed) == ("completed", 1)
    assert '"content":"Reply to a"' in client.files.content(ended.output_file_id).text


def test_anthropics_sdk_with_batches(batches):
    sdk = pytest.importorskip("anthropic")
    client = sdk.Anthropic(api_key=KEY, base_url=batches.root, max_retries=0)
    params = {"model": "claude-toy-1", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}]}
    made = client.messages.batches.create(requests=[{"custom_id": "k", "params": params}])
    assert made.processing_status == "in_progress"
    batches.end()
    assert client.messages.batches.retrieve(made.id).processing_status == "ended"
    [row] = client.messages.batches.results(made.id)
    assert (row.custom_id, row.result.type, row.result.message.content[0].text) == ("k", "succeeded", "Reply to a")
