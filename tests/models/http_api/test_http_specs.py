"""Specifications, keys, and the first contact with a server."""

from __future__ import annotations

import logging
import socket

import pytest

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.http_api import HttpModel, http_model, service_model
from goldless.models.interface import ChatModel, ChatRequest, Message, Scorer
from goldless.records import CallFailure

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("user", "Hello?"),))


def test_an_http_model_is_both_scorer_and_chat_model():
    model = http_model("http://127.0.0.1:1/v1#m")
    assert isinstance(model, Scorer)
    assert isinstance(model, ChatModel)


def test_openai_without_a_key_names_the_variable():
    with pytest.raises(PrerequisiteError, match="OPENAI_API_KEY"):
        service_model("openai", "gpt-5")


def test_openai_goes_to_its_own_address_by_default(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    model = service_model("openai", "gpt-5")
    assert "https://api.openai.com/v1" in repr(model)
    assert model.identity.as_dict() == {
        "provider": "openai",
        "name": "gpt-5",
        "revision": "",
        "tokenizer": "",
        "settings": {},
    }


@pytest.mark.parametrize(
    "spec",
    [
        "ftp://host/v1#m",
        "http:///v1#m",
        "http://host:port/v1#m",
        "http://user:secret-value@host/v1#m",
        "http://host/v1?key=secret-value#m",
        "just words",
    ],
)
def test_what_is_no_plain_http_address_is_refused_without_repeating_secrets(spec):
    with pytest.raises(ModelSpecError) as caught:
        http_model(spec)
    assert "secret-value" not in str(caught.value)


def test_an_address_without_a_path_gets_v1():
    assert "'http://127.0.0.1:8000/v1'" in repr(http_model("http://127.0.0.1:8000#m"))


def test_a_key_with_a_line_break_is_refused(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nX-Other: value")
    with pytest.raises(PrerequisiteError, match="line break") as caught:
        service_model("openai", "gpt-5")
    assert "sk-secret" not in str(caught.value)


async def test_openai_uses_base_url_and_key_from_the_environment(serve, monkeypatch):
    server = serve(key="sk-secret-value")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    model = service_model("openai", "toy", use="chat")
    await model.prepare()
    reply = await model.chat(ASK)
    await model.aclose()
    assert reply.text == "A fine reply."
    assert set(server.authorizations) == {"Bearer sk-secret-value"}
    assert model.identity.settings == {"server": server.url}


async def test_an_openai_key_never_goes_to_another_host(serve, connect, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    server = serve()
    await connect(server).chat(ASK)
    assert set(server.authorizations) == {None}


async def test_another_host_gets_the_key_meant_for_it(serve, connect, monkeypatch):
    monkeypatch.setenv("GOLDLESS_HTTP_API_KEY", "local-value")
    server = serve()
    await connect(server).chat(ASK)
    assert set(server.authorizations) == {"Bearer local-value"}


async def test_a_server_that_repeats_the_key_does_not_leak_it(serve, connect, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("GOLDLESS_HTTP_API_KEY", "sk-secret-value")
    refused = (400, {}, "bad request")
    down = (500, {}, "down")
    server = serve(echo_header_in_errors=True, faults=[refused, down, down, down, down])
    model = connect(server)
    failures = [await model.chat(ASK), await model.chat(ASK)]
    assert [failure.kind for failure in failures] == ["rejected", "server_error"]
    assert all("redacted" in failure.message for failure in failures)
    shown = f"{failures} {model!r} {model.identity} {vars(model)} {caplog.text}"
    shown += " ".join(str(vars(record)) for record in caplog.records)
    assert "sk-secret-value" not in shown
    assert set(server.authorizations) == {"Bearer sk-secret-value"}


async def test_prepare_says_at_once_that_no_server_is_there(connect):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(PrerequisiteError, match="Start it, or check the host and the port") as caught:
            await connect(url).prepare()
    assert url in str(caught.value)


async def test_prepare_names_the_variable_when_the_key_is_wrong(serve, connect, monkeypatch):
    monkeypatch.setenv("GOLDLESS_HTTP_API_KEY", "sk-wrong-value")
    server = serve(key="sk-right-value", echo_header_in_errors=True)
    with pytest.raises(PrerequisiteError, match="GOLDLESS_HTTP_API_KEY") as caught:
        await connect(server).prepare()
    assert "sk-wrong-value" not in str(caught.value)


async def test_prepare_lists_the_models_when_the_name_is_wrong(serve, connect):
    server = serve(models=[{"id": "toy-large"}, {"id": "other"}])
    with pytest.raises(ModelSpecError, match="Did you mean 'toy-large'") as caught:
        await connect(server, "toy-larg").prepare()
    assert "other" in str(caught.value)


async def test_a_server_with_one_model_needs_no_name(serve, connect):
    model = connect(serve(), name="")
    await model.prepare()
    assert model.identity.name == "toy"


async def test_chat_without_prepare_settles_the_name_itself(serve, connect):
    server = serve()
    reply = await connect(server, name="").chat(ASK)
    assert reply.text == "A fine reply."
    assert server.bodies("/v1/chat/completions")[0]["model"] == "toy"


@pytest.mark.parametrize(("models", "said"), [([{"id": "a"}, {"id": "b"}], "a, b"), ([], "does not list its models")])
async def test_without_a_name_none_or_several_models_are_an_error(serve, connect, models, said):
    with pytest.raises(ModelSpecError, match=said):
        await connect(serve(models=models), name="").prepare()


async def test_a_redirect_is_not_followed(serve, connect):
    server = serve(faults=[(307, {"Location": "http://127.0.0.1:9/v1"}, "")])
    reply = await connect(server).chat(ASK)
    assert isinstance(reply, CallFailure)
    assert reply.kind == "rejected"
    assert "http://127.0.0.1:9/v1" in reply.message


async def test_chat_use_does_not_probe_scoring(serve, connect):
    server = serve(speaks={"vllm"})
    model = connect(server, use="chat")
    await model.prepare()
    assert set(server.paths()) == {"/v1/models", "/v1/chat/completions"}
    assert (model.capabilities.chat, model.capabilities.scoring) == (True, False)


async def test_scoring_use_does_not_ask_the_chat_endpoint(serve, connect):
    server = serve(speaks={"vllm"})
    model = connect(server, use="scoring")
    await model.prepare()
    assert "/v1/chat/completions" not in server.paths()
    assert model.capabilities.scoring


async def test_what_the_server_calls_its_weights_is_the_revision(serve, connect):
    server = serve(models=[{"id": "toy", "root": "org/Toy-8B", "created": 123}])
    model: HttpModel = connect(server)
    await model.prepare()
    assert model.identity.revision == "org/Toy-8B"
