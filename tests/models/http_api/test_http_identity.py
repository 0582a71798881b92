"""What makes two models on servers the same model: their weights and configuration, not their address."""

from __future__ import annotations

import pytest

from goldless.errors import PrerequisiteError
from goldless.models.interface import ChatRequest, Message
from goldless.models.journalled import JournalledModel
from goldless.models.usage import Ledger

pytestmark = pytest.mark.anyio

MESSAGES = (Message("user", "Hello?"),)


def listed(root, **more):
    return [{"id": "toy", "object": "model", "root": root, **more}]


async def identity(connect, server, **options):
    model = connect(server, **options)
    await model.prepare()
    return model.identity


async def test_a_server_that_moves_is_not_paid_again(serve, connect, journal):
    behaviour = {"speaks": {"vllm"}, "models": listed("/models/a"), "fingerprint": "vllm-0.32-0123"}
    here, there = serve(**behaviour), serve(**behaviour)
    for server in (here, there):
        model = connect(server)
        await model.prepare()
        asked = len(server.asked)
        through = JournalledModel(model, journal, Ledger("toy", None))
        await through.chat(ChatRequest(MESSAGES))
        await through.score([await through.encode(MESSAGES, "One two.")], lambda _: None)
        paid = [path for path, _ in server.asked[asked:] if path != "/tokenize"]
        assert paid == (["/v1/chat/completions", "/v1/completions"] if server is here else [])


async def test_two_checkpoints_of_one_served_name_do_not_look_alike(serve, connect):
    first = await identity(connect, serve(models=listed("/models/checkpoint-100")))
    second = await identity(connect, serve(models=listed("/models/checkpoint-200")))
    assert first.short != second.short
    assert "/models" not in first.short


@pytest.mark.parametrize("use", ["chat", "scoring", "both"])
async def test_the_fingerprint_of_vllm_is_part_of_the_identity_whatever_the_use(serve, connect, use):
    models = listed("/models/a")
    one, other = (serve(speaks={"vllm"}, models=models, fingerprint=f"vllm-0.32-{n}") for n in (1, 2))
    assert await identity(connect, one, use=use) != await identity(connect, other, use=use)
    both = await identity(connect, one, use="both")
    assert (await identity(connect, one, use=use)).short == both.short


async def test_a_fingerprint_that_changes_with_every_call_is_ignored(serve, connect):
    one, other = (serve(models=listed("/models/a"), fingerprint=f"fp_{n}") for n in (1, 2))
    assert await identity(connect, one) == await identity(connect, other)


async def test_a_server_that_says_nothing_of_its_weights_is_known_by_its_address(serve, connect):
    server = serve(models=[{"id": "toy"}])
    assert (await identity(connect, server)).settings["server"] == server.url


@pytest.mark.parametrize("use", ["chat", "scoring"])
async def test_a_server_whose_list_is_broken_works_where_the_model_is_named(serve, connect, use):
    server = serve(speaks={"vllm"}, listing_status=500)
    model = connect(server, use=use)
    await model.prepare()
    assert model.capabilities.scoring if use == "scoring" else model.capabilities.chat


@pytest.mark.parametrize("use", ["chat", "scoring"])
async def test_a_server_that_only_fails_is_reported_as_not_ready(serve, connect, use):
    server = serve(speaks={"vllm"}, listing_status=503, faults=[(503, {}, "loading")] * 40)
    with pytest.raises(PrerequisiteError, match="not ready"):
        await connect(server, use=use).prepare()


async def test_two_checkpoints_on_sglang_do_not_look_alike_to_a_chat_model(serve, connect):
    found = [
        await identity(
            connect, serve(speaks={"sglang"}, models=listed("toy", owned_by="sglang"), weights=weights), use="chat"
        )
        for weights in ("/models/checkpoint-100", "/models/checkpoint-200")
    ]
    assert found[0].short != found[1].short
