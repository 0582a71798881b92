"""Servers that say how long their context is, and refusals for length in the words of many servers."""

from __future__ import annotations

import json

import pytest
from loopback import rejection

from goldless.errors import CallError
from goldless.models.http_api.client import ApiKey, status_failure
from goldless.models.interface import ChatReply, ChatRequest, Message

pytestmark = pytest.mark.anyio

VLLM_NAMES_MAX_TOKENS = (
    "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 "
    "'max_tokens'. Please reduce one or the other. (parameter=input_tokens, max_tokens, value=(8, 2045))"
)
"""vLLM's words since 2026 (vllm-project/vllm pull request 33425)."""

VLLM_OLDER = (
    "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
    "messages, 10000 in the completion). Please reduce the length of the messages or completion."
)
"""OpenAI's and older vLLM's (vllm-project/vllm issue 20409)."""

VLLM_PROMPT = "The prompt (total length 25938) is too long to fit into the model (context length 4096)."
"""vllm-project/vllm issue 12165."""

ANTHROPIC = "prompt is too long: 219898 tokens > 200000 maximum"
"""earendil-works/pi issue 102."""

ANTHROPIC_WITH_REPLY = (
    "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length"
)
"""docker/docker-agent issue 569."""

OPENROUTER = "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307 tokens"
"""topoteretes/cognee issue 1061."""

LLAMA_CPP = "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it"
LLAMA_CPP_LATE = "Context size has been exceeded."
"""Both ggml-org/llama.cpp issue 19774."""

REFUSALS = [
    *((400, said) for said in (VLLM_OLDER, VLLM_NAMES_MAX_TOKENS, VLLM_PROMPT)),
    *((400, said) for said in (ANTHROPIC, ANTHROPIC_WITH_REPLY, OPENROUTER, LLAMA_CPP)),
    (500, LLAMA_CPP_LATE),
]

VLLM = [{"id": "toy", "object": "model", "root": "toy", "max_model_len": 64}]
MESSAGES = (Message("system", "Read."), Message("user", "one two three"))


@pytest.mark.parametrize(("status", "said"), REFUSALS)
def test_a_refusal_for_length_is_known_in_the_words_of_many_servers_and_not_tried_again(status, said):
    body = json.dumps({"error": {"message": said, "type": "invalid_request_error"}}).encode()
    failure = status_failure(status, body, {}, url="http://127.0.0.1/v1/x", key=ApiKey())
    assert (failure.kind, failure.retryable) == ("too_long", False)


async def test_a_refusal_for_length_that_names_max_tokens_is_no_matter_of_wording(serve, connect):
    def refuse(body):
        raise rejection(400, VLLM_NAMES_MAX_TOKENS, "input_tokens, max_tokens")

    server = serve(chat=refuse)
    found = await connect(server).chat(ChatRequest(MESSAGES))
    assert found.kind == "too_long"
    assert len(server.bodies("/v1/chat/completions")) == 1


async def test_vllm_tells_its_context_and_counts_tokens_in_its_own_template(serve, connect):
    """The toy template: a beginning, a role and an end mark for each message, and the mark of the assistant's turn.

    "Read" and "." are two tokens, three words and the blanks between them five.
    """
    server = serve(models=VLLM, speaks={"vllm"})
    model = connect(server, use="chat")
    await model.prepare()
    by_hand = 1 + (2 + 2) + (2 + 5) + 1
    assert (model.context_length, await model.count_tokens(MESSAGES)) == (63, by_hand)


async def test_a_tokenizer_that_does_not_answer_is_a_failure_and_asked_again_later(serve, connect):
    server = serve(models=VLLM, speaks={"vllm"})
    model = connect(server, use="chat")
    await model.prepare()
    server.behaviour.faults += [(503, {}, "busy")] * 4
    with pytest.raises(CallError, match="server_error"):
        await model.count_tokens(MESSAGES)
    assert await model.count_tokens(MESSAGES) == 13
    assert isinstance(await model.chat(ChatRequest(MESSAGES)), ChatReply)
