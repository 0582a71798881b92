"""A server that turns ids into text tells the texts of a target's tokens."""

from __future__ import annotations

import pytest
from loopback import Behaviour, LoopbackServer
from toy_language import tokens_of

from goldless.errors import CallError
from goldless.models.interface import Message

pytestmark = pytest.mark.anyio

MESSAGES = (Message("user", "The first review says that the method is new."),)
TARGET = "The second review is small. Ünïcode, too."


class Detokenizing(LoopbackServer):
    """A server with ``/detokenize``, whose reply names the text as ``field``."""

    field = "prompt"

    def _reply(self, path, body):
        if path == "/detokenize":
            return {self.field: "".join(self._texts[one] for one in body["tokens"])}
        return super()._reply(path, body)


@pytest.mark.parametrize(("speaks", "field"), [("vllm", "prompt"), ("sglang", "text")])
async def test_the_pieces_are_the_servers_tokens(connect, speaks, field):
    with Detokenizing(Behaviour(speaks={speaks})) as server:
        server.field = field
        model = connect(server)
        request = await model.encode(MESSAGES, TARGET)
        assert await model.pieces(request) == (*tokens_of(TARGET), "")


@pytest.mark.parametrize("speaks", ["vllm", "sglang", "echo"])
async def test_a_server_that_does_not_turn_ids_into_text_cannot_tell(serve, connect, speaks):
    model = connect(serve(speaks={speaks}))
    assert await model.pieces(await model.encode(MESSAGES, TARGET)) is None


async def test_a_server_that_is_down_is_a_failed_call(connect):
    with Detokenizing(Behaviour(speaks={"vllm"})) as server:
        model = connect(server)
        request = await model.encode(MESSAGES, TARGET)
        server.behaviour.faults = [(503, {}, "busy")] * 8
        with pytest.raises(CallError, match="busy"):
            await model.pieces(request)
