"""Specifications, keys, and the first contact with a server."""

from __future__ import annotations

import logging
import re
import socket

import anyio
import pytest

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.catalogue import ANY_SERVER, open_model, unopened_identity
from goldless.models.http_api import CallSettings, Specification, service_model
from goldless.models.interface import ChatRequest, Message

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("user", "Hello?"),))


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
        service_model(ANY_SERVER, spec)
    assert "secret-value" not in str(caught.value)


def test_a_key_with_a_line_break_is_refused(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nX-Other: value")
    with pytest.raises(PrerequisiteError, match="line break") as caught:
        open_model("openai:gpt-5")
    assert "sk-secret" not in str(caught.value)


async def test_openai_uses_base_url_and_key_from_the_environment(serve, monkeypatch):
    server = serve(key="sk-secret-value")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    model = open_model("openai:toy", use="chat")
    await model.prepare()
    reply = await model.chat(ASK)
    await model.aclose()
    assert reply.text == "A fine reply."
    assert set(server.authorizations) == {"Bearer sk-secret-value"}
    assert model.identity.settings == {"server": "own"}


async def test_an_openai_key_never_goes_to_another_host(serve, connect, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    server = serve()
    await connect(server).chat(ASK)
    assert set(server.authorizations) == {None}


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
    shown = f"{failures} {model!r} {model.identity} {vars(model)} {vars(model._client)} {caplog.text}"
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


@pytest.mark.parametrize(("models", "said"), [([{"id": "a"}, {"id": "b"}], "a, b"), ([], "does not list its models")])
async def test_without_a_name_none_or_several_models_are_an_error(serve, connect, models, said):
    with pytest.raises(ModelSpecError, match=said):
        await connect(serve(models=models), name="").prepare()


async def test_a_redirect_is_not_followed(serve, connect):
    server = serve(faults=[(307, {"Location": "http://127.0.0.1:9/v1"}, "")])
    reply = await connect(server).chat(ASK)
    assert reply.kind == "rejected"
    assert "http://127.0.0.1:9/v1" in reply.message


async def test_each_server_can_have_its_own_key(serve, connect, monkeypatch):
    monkeypatch.setenv("FIRST_KEY", "first-value")
    monkeypatch.setenv("SECOND_KEY", "second-value")
    first, second = serve(key="first-value"), serve(key="second-value")
    replies = [
        await connect(first, "toy?key=FIRST_KEY").chat(ASK),
        await connect(second, "toy?key=SECOND_KEY").chat(ASK),
    ]
    assert [reply.text for reply in replies] == ["A fine reply."] * 2


OWNED = {
    "OPENAI_API_KEY": "OpenAI (https://api.openai.com)",
    "ANTHROPIC_API_KEY": "Anthropic (https://api.anthropic.com)",
    "GOOGLE_API_KEY": "the Gemini API (https://generativelanguage.googleapis.com)",
    "AWS_BEARER_TOKEN_BEDROCK": "Bedrock (https://bedrock-runtime.",
    "AZURE_OPENAI_API_KEY": "Azure",
    "GROQ_API_KEY": "Groq (https://api.groq.com)",
    "VLLM_API_KEY": "vLLM (http://127.0.0.1:8000)",
    "OPENAI_ADMIN_KEY": "OpenAI (https://api.openai.com)",
    "AWS_SECRET_ACCESS_KEY": "AWS",
    "GITHUB_TOKEN": "GitHub",
    "HF_TOKEN": "Hugging Face",
}


@pytest.mark.parametrize("variable", OWNED)
@pytest.mark.parametrize(
    "address",
    [
        "http://evil.example/v1",
        "https://api.openai.com.evil.example/v1",
        "http://api.openai.com/v1",
        "http://api.anthropic.com/v1",
        "https://evil.amazonaws.com/v1",
    ],
)
def test_a_variable_that_belongs_to_somebody_is_not_sent_to_anybody_else(monkeypatch, variable, address):
    monkeypatch.setenv(variable, "sk-secret-value")
    with pytest.raises(ModelSpecError) as caught:
        service_model(ANY_SERVER, f"{address}#m?key={variable}")
    said = str(caught.value)
    assert f"{variable} belongs to {OWNED[variable]}" in said
    assert f"is not sent to {address.removesuffix('/v1')}" in said
    assert "GOLDLESS_HTTP_API_KEY" in said
    assert "sk-secret-value" not in said


@pytest.mark.parametrize("spec", ["openai:gpt-5?key=GITHUB_TOKEN", "together:m?key=OPENAI_API_KEY"])
def test_a_provider_by_name_gets_no_key_of_another(monkeypatch, spec):
    monkeypatch.setenv(spec.partition("key=")[2], "sk-secret-value")
    with pytest.raises(ModelSpecError, match="belongs to"):
        open_model(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "https://api.openai.com/v1#gpt-5?key=OPENAI_API_KEY",
        "https://models.github.ai/inference#m?key=GITHUB_TOKEN",
        "https://router.huggingface.co/v1#m?key=HF_TOKEN",
        "openai:gpt-5?key=OPENAI_API_KEY",
        "openai:gpt-5?key=OPENAI_KEY_OF_MY_TEAM",
        "bedrock:openai.gpt-oss-20b-1:0?region=eu-west-1&key=AWS_BEARER_TOKEN_BEDROCK",
        "http://127.0.0.1:4000/v1#m?key=MY_OWN_VARIABLE",
    ],
)
def test_a_variable_is_sent_where_it_belongs(monkeypatch, spec):
    monkeypatch.setenv(spec.partition("key=")[2], "sk-secret-value")
    open_model(spec)


@pytest.mark.parametrize("spec", ["http://a:8000/v1,http://b:8000/v1#m", "http:@servers.txt#m"])
def test_several_servers_are_refused_with_what_to_do(spec):
    with pytest.raises(ModelSpecError, match="put a router before them"):
        open_model(spec)
    with pytest.raises(ModelSpecError, match="put a router before them"):
        unopened_identity(spec)


def test_a_variable_that_is_not_set_is_named():
    with pytest.raises(PrerequisiteError, match="export NOT_SET_ANYWHERE="):
        service_model(ANY_SERVER, "http://127.0.0.1:1/v1#m?key=NOT_SET_ANYWHERE")


def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated():
    with pytest.raises(ModelSpecError, match="not the key itself") as caught:
        service_model(ANY_SERVER, "http://127.0.0.1:1/v1#m?key=sk-secret-value")
    assert "sk-secret-value" not in str(caught.value)


def test_options_of_the_specification_come_before_those_of_its_maker():
    model = service_model(
        ANY_SERVER, "http://127.0.0.1:1/v1#m?timeout=7.5&retries=0&concurrency=3", calling=CallSettings(retries=4)
    )
    found = model._client.calling
    assert (found.timeout_seconds, found.retries, found.concurrency) == (7.5, 0, 3)


async def test_a_given_concurrency_is_not_exceeded(serve, connect):
    server = serve(delay_seconds=0.01)
    model = connect(server, "toy?concurrency=3")
    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(model.chat, ASK)
    assert server.most_seen_at_once == 3


async def test_other_parameters_are_passed_on_with_every_request(serve, connect):
    server = serve()
    model = connect(f"{server.url}?api-version=2024-10-21", "toy?tier=fast&retries=1")
    await model.prepare()
    assert set(server.queries) == {"api-version=2024-10-21&tier=fast"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("timeout=soon", "timeout must be a number of seconds such as 600, got 'soon'"),
        ("timeout=nan", "timeout must be a number of seconds such as 600, got 'nan'"),
        ("timeout=0", "timeout must be a number of seconds"),
        ("retries=-1", "retries must be a number of times"),
        ("concurrency=0", "concurrency must be a number of calls"),
        ("concurrency=2.5", "concurrency must be a number of calls"),
        ("timout=5", "Did you mean 'timeout'"),
        ("", "the options of m must be"),
        ("api_key=x", "must not contain a secret, got api_key"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(options, said):
    with pytest.raises(ModelSpecError, match=re.escape(said)):
        Specification.read(ANY_SERVER, f"http://127.0.0.1:1/v1#m?{options}")


def test_openai_goes_to_its_own_address_by_default(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    model = open_model("openai:gpt-5")
    assert "https://api.openai.com/v1" in repr(model)
    assert model.identity.as_dict() == {
        "provider": "openai",
        "name": "gpt-5",
        "revision": "",
        "tokenizer": "",
        "settings": {},
    }


def test_an_address_without_a_path_gets_v1():
    assert "'http://127.0.0.1:8000/v1'" in repr(service_model(ANY_SERVER, "http://127.0.0.1:8000#m"))
