"""The jury's server: verdicts in OpenAI's format, what is refused and how, limits, and its end."""

from __future__ import annotations

import json
import logging
import os
import signal

import aiohttp
import anyio
import openai
import pytest

from goldless.apps.jury.panel import Jury
from goldless.apps.jury.server import Limits, listening
from goldless.errors import UserError
from goldless.http_serving import serve_until_told
from goldless.models.scripted import ScriptedModel
from tests.apps.jury.jury_client import CASE, ZARN, ask, half_sent, serving, until_told, user
from tests.apps.jury.jury_models import DOWN, Held, always, juror, prefers

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# --- verdicts --------------------------------------------------------------------------------------------------


async def test_a_case_as_json_is_answered_as_json_with_the_votes_beside_it():
    jurors = juror(ZARN, "ann", 3.0), juror(prefers("bluk", "zarn"), "bob", 1.0), juror(always(DOWN), "cy")
    async with serving(*jurors) as (client, _):
        reply = await ask(client, CASE)
    said = json.loads(reply.choices[0].message.content)
    assert said == {"winner": 0, "tie": False, "shares": [0.75, 0.25]}
    record = reply.goldless
    assert (record["asked"], record["used"], record["missing"], record["absent"]) == (6, 4, 2, ["cy"])
    assert record["votes"][0] == {
        "juror": "ann",
        "scale": "pairwise",
        "weight": 3.0,
        "first": 0,
        "second": 1,
        "value": 1.0,
        "output": "one",
        "failure": None,
    }
    assert record["votes"][4]["failure"] == {"kind": "server_error", "message": "the model is down", "attempts": 6}
    assert (reply.object, reply.model, reply.choices[0].finish_reason) == ("chat.completion", "goldless-jury", "stop")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens > 0


async def test_a_jury_without_any_verdict_is_a_bad_gateway_with_the_votes():
    async with serving(juror(always(DOWN), "ann"), juror(always("I cannot say."), "bob")) as (client, _):
        with pytest.raises(openai.APIStatusError, match="ann: server_error; bob: unparsable") as caught:
            await ask(client, CASE)
    assert (caught.value.status_code, caught.value.code) == (502, "no_verdict")
    assert [vote["value"] for vote in caught.value.response.json()["goldless"]["votes"]] == [None] * 4
    assert caught.value.response.headers["X-Should-Retry"] == "false"


async def test_a_stream_holds_the_same_content_the_usage_and_the_votes():
    async with serving() as (client, _):
        stream = await ask(client, CASE, stream=True, stream_options={"include_usage": True})
        found = [chunk async for chunk in stream]
    content = "".join(chunk.choices[0].delta.content or "" for chunk in found if chunk.choices)
    assert json.loads(content)["winner"] == 0
    assert [chunk.choices[0].finish_reason for chunk in found if chunk.choices] == [None, "stop"]
    assert found[1].goldless["winner"] == 0
    assert found[-1].usage.total_tokens > 0
    assert len({chunk.id for chunk in found}) == 1


async def test_the_jury_is_the_one_model_listed():
    async with serving() as (client, _):
        assert [model.id async for model in client.models.list()] == ["goldless-jury"]
        assert (await client.models.retrieve("goldless-jury")).id == "goldless-jury"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-4")


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format"),
        ({"extra_body": {"n": [1]}}, "n"),
        ({"extra_body": {"stream": "yes"}}, "stream"),
        ({"extra_body": {"stream_options": 1}}, "stream_options"),
    ],
)
async def test_what_would_change_the_replys_shape_is_refused_by_name(options, param):
    async with serving() as (client, _):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(client, CASE, **options)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"[1]", b"null", b"\xff\xfe", b"[" * 50_000, b"{}", b'{"messages": "hello"}', b'{"messages": []}',
     b'{"messages": [1]}', b'{"messages": [{"role": "user"}]}', b'{"messages": [{"role": "user", "content": []}]}',
     b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
     b'{"messages": [{"role": "system", "content": "x"}]}', b'{"messages": [{"role": ["user"], "content": "x"}]}'],
)  # fmt: skip
async def test_every_malformed_body_gets_a_json_error(body):
    async with serving() as (_, url), aiohttp.ClientSession() as session:
        reply = await session.post(f"{url}/chat/completions", data=body, headers={"Content-Type": "application/json"})
        assert reply.status == 400
        said = await reply.json()
    assert said["error"]["type"] == "invalid_request_error"
    assert "Traceback" not in said["error"]["message"]


async def test_an_error_inside_is_answered_without_its_words_and_logged_without_the_answers(caplog):
    def explode(request):
        raise RuntimeError(request.messages[-1].content)

    async with serving(juror(ScriptedModel(answers=explode))) as (client, _):
        with caplog.at_level(logging.DEBUG), pytest.raises(openai.InternalServerError) as caught:
            await ask(client, CASE)
    logged = "".join(logging.Formatter().format(record) for record in caplog.records if "goldless" in record.name)
    assert "RuntimeError" in logged
    assert "zarn" not in logged
    assert "zarn" not in caught.value.response.text


# --- limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "case", "status", "said"),
    [
        ({"most_answers": 2}, {"answers": ["a", "b", "c"]}, 400, "at most 2 answers, got 3"),
        ({"longest_text": 10}, {"answers": ["a", "b" * 11]}, 400, "at most 10 characters, got 11"),
        ({"longest_text": 10}, {"question": "q" * 11, "answers": ["a", "b"]}, 400, "at most 10 characters, got 11"),
        ({"most_bytes": 1000}, {"answers": ["a" * 2000, "b"]}, 413, "size limit"),
    ],
)
async def test_more_than_allowed_is_refused_never_cut(limits, case, status, said):
    async with serving(**limits) as (client, _):
        with pytest.raises(openai.APIStatusError, match=said) as caught:
            await ask(client, case)
    assert caught.value.status_code == status


async def test_half_sent_requests_take_no_place_and_are_given_up():
    async with serving(at_once=1, waiting=0, reading_seconds=1) as (client, url):
        held = [await half_sent(url) for _ in range(20)]
        assert await ask(client, CASE)
        for reader, writer in held:
            assert b" 408 " in await reader.readline()
            writer.close()


async def test_cases_over_the_limit_wait_and_those_beyond_are_told_to_come_again():
    """1 under way, 1 waiting: of the next two whoever comes later is refused, the others are answered."""
    model, answered, refused = Held(), [], []
    async with serving(juror(model), at_once=1, waiting=1) as (client, _):

        async def call() -> None:
            try:
                answered.append(await ask(client, CASE))
            except openai.RateLimitError as error:
                refused.append(error)
                model.let_go.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await model.asked.wait()
            tasks.start_soon(call)
            tasks.start_soon(call)
    assert [error.response.headers["Retry-After"] for error in refused] == ["1"]
    assert len(answered) == 2


# --- the server's life -----------------------------------------------------------------------------------------


async def test_where_it_cannot_listen_the_jury_says_why():
    for host in ("0.0.0.0", "::", "", "127.0.0.2"):
        with pytest.raises(UserError, match=f"listening on {host} needs a token"):
            await serve_until_told(listening(Jury([juror(ZARN)]), host=host, port=0), print)
    async with serving() as (_, url):
        port = int(url.split(":")[2].removesuffix("/v1"))
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1, port {port}"):
            await serve_until_told(listening(Jury([juror(ZARN)]), port=port), print)
    with pytest.raises(UserError, match=r"cannot listen on 127\.0\.0\.1, port 99999"):
        await serve_until_told(listening(Jury([juror(ZARN)]), port=99_999), print)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "said"),
    [
        # a web page may send text/plain to this machine without asking
        ("POST", "/chat/completions", {"Content-Type": "text/plain"}, 415, "application/json"),
        ("POST", "/chat/completions", {"Content-Encoding": "gzip"}, 400, "its headers"),
        ("GET", "/chat/completions", {}, 405, "/v1/chat/completions"),
        ("POST", "/embeddings", {}, 404, "/v1/chat/completions"),
    ],
)
async def test_a_request_of_another_kind_gets_a_json_error(method, path, headers, status, said):
    async with serving() as (_, url), aiohttp.ClientSession() as session:
        body = {} if method == "GET" else {"data": b"no gzip"}
        sent = {"Content-Type": "application/json", **headers}
        reply = await session.request(method, f"{url}{path}", headers=sent, **body)
        assert (reply.status, said in (await reply.json())["error"]["message"]) == (status, True)


async def test_while_it_stops_the_jury_finishes_what_it_has_and_takes_nothing_new():
    model, found = Held(), {}
    async with (
        until_told(juror(model), limits=Limits(at_once=1)) as url,
        aiohttp.ClientSession() as session,
        anyio.create_task_group() as tasks,
    ):

        async def call(name):
            body = {"model": "any", "messages": user(json.dumps(CASE))}
            found[name] = (await session.post(f"{url}/chat/completions", json=body)).status

        tasks.start_soon(call, "runs")
        await model.asked.wait()
        tasks.start_soon(call, "waits")
        await anyio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep(0.1)
        with pytest.raises(aiohttp.ClientConnectionError):
            await call("new")
        model.let_go.set()
    assert found == {"runs": 200, "waits": 200}
