"""Log-probabilities are those of the target's tokens and no other, in every dialect.

Expected values come from the toy model's definition, computed here in plain Python.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import reduce
from itertools import pairwise
from operator import getitem

import pytest

from goldless.errors import CallError
from goldless.models.interface import ChatReply, ChatRequest, Message, ScoreRequest, TokenLogprobs
from tests.support.servers.toy_language import CORPUS

pytestmark = pytest.mark.anyio

MESSAGES = (Message("system", "Judge the review."), Message("user", "The first review says that the method is new."))
TARGET = "The second review says that the experiments are small. Ünïcode, too."
CONTEXT_TOKENS = 6 + 18 + 6
"""Words, spaces and full stops of both messages, and <s>, <system>, <end>, <user>, <end>, <assistant>."""


def expected(before: str, target: str) -> list[float]:
    """Log p of each target token after the token before the target: add-one bigram over 4096 words.

    In a chat layout the end of the turn follows.
    """
    words = re.findall(r"\w+|\s+|[^\w\s]", CORPUS)
    pairs, singles = Counter(pairwise(words)), Counter(words[:-1])
    tokens = [before, *re.findall(r"\w+|\s+|[^\w\s]", target)]
    tokens += ["<end>"] * (before == "<assistant>")
    return [math.log((pairs[a, b] + 1) / (singles[a] + 4096)) for a, b in pairwise(tokens)]


async def scored(model, *requests: ScoreRequest):
    replies = {}
    await model.score(requests, replies.update)
    assert sorted(replies) == list(range(len(requests)))
    return [replies[index] for index in range(len(requests))]


DIALECTS = [
    ({"speaks": {"sglang"}}, ("sglang", "chat", "<assistant>")),
    ({"speaks": {"sglang"}, "chat_ids": "reply"}, ("sglang", "chat", "<assistant>")),
    ({"speaks": {"sglang"}, "chat_ids": "none"}, ("sglang", "plain", "\n\n")),
    ({"speaks": {"vllm"}}, ("vllm", "chat", "<assistant>")),
    ({"speaks": {"vllm"}, "chat_ids": "none"}, ("vllm", "plain", "\n\n")),
    ({"speaks": {"echo"}}, ("completions-echo", "plain", "\n\n")),
    ({"speaks": {"echo"}, "counts_begin_mark": True}, ("completions-echo", "plain", "\n\n")),
]


@pytest.mark.parametrize(("behaviour", "found"), DIALECTS)
async def test_each_dialect_returns_the_values_of_exactly_the_target(serve, connect, behaviour, found):
    dialect, layout, before = found
    model = connect(serve(**behaviour))
    await model.prepare()
    [reply] = await scored(model, await model.encode(MESSAGES, TARGET))
    assert isinstance(reply, TokenLogprobs)
    assert reply.logprobs == pytest.approx(expected(before, TARGET), abs=1e-12)
    assert reply.usage.input_tokens > len(reply.logprobs)
    assert model.identity.settings["dialect"] == dialect
    assert model.identity.settings["layout"] == layout
    assert model.positions == ("target+end" if layout == "chat" else "target")


async def test_ids_of_context_and_target_are_joined_and_sent_as_they_are(serve, connect):
    server = serve(speaks={"vllm"})
    model = connect(server)
    request = await model.encode(MESSAGES, TARGET)
    await scored(model, request)
    sent = server.bodies("/v1/completions")[-1]["prompt"]
    assert sent == [*request.context, *request.target]
    assert len(request.context) == CONTEXT_TOKENS
    assert server.bodies("/tokenize")[-1]["add_special_tokens"] is False


@pytest.mark.parametrize("speaks", ["vllm", "sglang", "echo"])
async def test_a_target_that_closes_its_turn_reaches_no_server_as_a_special_token(serve, connect, speaks):
    server = serve(speaks={speaks})
    model = connect(server)
    await scored(model, await model.encode(MESSAGES, f"{TARGET}<|im_end|>"))
    assert "<|im_end|>" not in str(server.asked)
    assert "<\\\\|im_end|>" in str(server.asked)


ROWS = ("meta_info", "input_token_logprobs")
POSITIONS = ("choices", 0, "prompt_logprobs")
ECHOED = ("choices", 0, "logprobs")


@pytest.mark.parametrize(
    ("dialect", "place", "change"),
    [
        ("sglang", ROWS, lambda rows: rows[:-1]),
        ("sglang", (*ROWS, -1, 1), lambda token: token + 1),
        ("sglang", ("meta_info",), lambda _: {}),
        ("vllm", POSITIONS, lambda positions: positions[:-1]),
        ("vllm", (*POSITIONS, -1), lambda entry: {"7": next(iter(entry.values()))}),
        ("vllm", (*POSITIONS, -1), lambda entry: {token: {"logprob": -9999.0} for token in entry}),
        ("vllm", ("choices",), lambda _: []),
        ("echo", (*ECHOED, "token_logprobs", -2), lambda _: 0.7),
        ("echo", (*ECHOED, "token_logprobs", -2), lambda _: None),
        ("echo", (*ECHOED, "tokens"), lambda tokens: [*tokens[1:], "?"]),
        ("echo", (*ECHOED, "text_offset", -3), lambda _: 0),
        ("echo", ("choices",), lambda _: [{"text": "something else"}]),
    ],
)
async def test_a_reply_that_is_not_about_the_tokens_sent_is_a_failure(serve, connect, dialect, place, change):
    def damage(reply):
        *way, last = place
        within = reduce(getitem, way, reply)
        within[last] = change(within[last])
        return reply

    server = serve(speaks={dialect})
    model = connect(server)
    await model.prepare()
    server.behaviour.damage = damage
    [reply] = await scored(model, await model.encode(MESSAGES, TARGET))
    assert reply.kind == "bad_reply"


async def test_a_text_longer_than_the_model_takes_is_not_sent(serve, connect):
    server = serve(speaks={"vllm"}, models=[{"id": "toy", "max_model_len": 50}])
    model = connect(server)
    fits = await model.encode(MESSAGES, "small")
    assert model.context_length == 49
    too_long = ScoreRequest(fits.context, fits.target * 40)
    asked = len(server.bodies("/v1/completions"))
    first, second = await scored(model, fits, too_long)
    assert isinstance(first, TokenLogprobs)
    assert second.kind == "too_long"
    assert len(server.bodies("/v1/completions")) == asked + 1


async def test_an_empty_target_has_no_values_and_costs_no_call(serve, connect):
    server = serve(speaks={"vllm"}, chat_ids="none")
    model = connect(server)
    request = await model.encode(MESSAGES, "")
    asked = len(server.asked)
    [reply] = await scored(model, request)
    assert reply == TokenLogprobs(())
    assert len(server.asked) == asked


async def test_one_failing_request_does_not_stop_the_others(serve, connect):
    server = serve(speaks={"vllm"})
    model = connect(server, concurrency=1)
    requests = [await model.encode(MESSAGES, f"target {number}") for number in range(3)]
    server.behaviour.faults.append((400, {}, "no"))
    replies = await scored(model, *requests)
    assert sorted(type(reply).__name__ for reply in replies) == ["CallFailure", "TokenLogprobs", "TokenLogprobs"]


async def test_the_server_tokenises_each_different_text_once(serve, connect):
    server = serve(speaks={"vllm"})
    model = connect(server, use="scoring")
    await model.prepare()
    before = len(server.bodies("/tokenize"))
    texts = [f"Answer {i}." for i in range(4)]
    for given in texts:
        for target in texts:
            await model.encode([Message("user", f"Given: {given}")], target)
    asked = [body.get("prompt") or body["messages"][0]["content"] for body in server.bodies("/tokenize")[before:]]
    assert sorted(asked) == sorted([f"Given: {text}" for text in texts] + texts)


async def test_sglang_computes_every_context_before_its_other_targets(serve, connect):
    """Requests that arrive together under a context that is not in its cache would each compute it."""
    server = serve(speaks={"sglang"})
    model = connect(server, use="scoring")
    await model.prepare()
    shown = [[Message("user", word)] for word in ("one", "two", "three")]
    requests = [await model.encode(messages, f"word {i}") for i in range(4) for messages in shown]
    before = len(server.bodies("/generate"))
    replies: dict = {}
    await model.score(requests, replies.update)
    sent = server.bodies("/generate")[before:]
    assert len(replies) == len(sent) == 12
    contexts = [tuple(body["input_ids"][: body["logprob_start_len"]]) for body in sent]
    assert len(set(contexts[:3])) == 3


async def test_sglang_gets_at_most_a_hundred_calls_at_once_whatever_it_could_take(serve, connect):
    """Above 128 waiting calls its policy lpm turns itself off (its scheduler's _determine_active_policy)."""
    server = serve(speaks={"sglang"})
    model = connect(server, use="scoring")
    await model.prepare()
    requests = [await model.encode([Message("user", "one two")], f"word {i}") for i in range(400)]
    replies: dict = {}
    server.behaviour.delay_seconds = 0.005
    server.most_seen_at_once = 0
    await model.score(requests, replies.update)
    assert all(isinstance(reply, TokenLogprobs) for reply in replies.values())
    assert len(replies) == 400
    assert 1 < server.most_seen_at_once <= 100
    assert model._client.limiter.maximum == 100  # how much of it is used depends on how fast this machine is


async def test_a_tokenizer_that_merges_across_the_join_gives_a_failure_not_a_number(serve, connect):
    # The probe's target begins a word after a blank line, so this server's merging shows already there.
    server = serve(speaks={"echo"})
    model = connect(server)
    await model.prepare()
    server.behaviour.tokenizing = "merging"
    [reply] = await scored(model, await model.encode(MESSAGES, TARGET))
    assert reply.kind == "bad_reply"
    assert "merges context and target" in reply.message


async def test_a_hundred_requests_are_each_delivered_once_with_their_own_values(serve, connect):
    targets = [f"The {word} review says {number}." for number in range(25) for word in ("first", "second", "a", "b")]
    model = connect(serve(speaks={"sglang"}))
    requests = [await model.encode(MESSAGES, target) for target in targets]
    replies = await scored(model, *requests)
    for target, reply in zip(targets, replies, strict=True):
        assert reply.logprobs == pytest.approx(expected("<assistant>", target), abs=1e-12)


# --- lengths -------------------------------------------------------------------------------------------------------

LISTED = [{"id": "toy", "object": "model", "root": "toy", "max_model_len": 64}]
SHORT = (Message("system", "Read."), Message("user", "one two three"))


async def test_vllm_tells_its_context_and_counts_tokens_in_its_own_template(serve, connect):
    """The toy template: a beginning, a role and an end mark for each message, and the mark of the assistant's turn.

    "Read" and "." are two tokens, three words and the blanks between them five.
    """
    server = serve(models=LISTED, speaks={"vllm"})
    model = connect(server, use="chat")
    await model.prepare()
    by_hand = 1 + (2 + 2) + (2 + 5) + 1
    assert (model.context_length, await model.count_tokens(SHORT)) == (63, by_hand)


async def test_a_tokenizer_that_does_not_answer_is_a_failure_and_asked_again_later(serve, connect):
    server = serve(models=LISTED, speaks={"vllm"})
    model = connect(server, use="chat")
    await model.prepare()
    server.behaviour.faults += [(503, {}, "busy")] * 4
    with pytest.raises(CallError, match="server_error"):
        await model.count_tokens(SHORT)
    assert await model.count_tokens(SHORT) == 13
    assert isinstance(await model.chat(ChatRequest(SHORT)), ChatReply)
