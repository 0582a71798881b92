"""Who may call the jury: tokens, names; request ids, health."""

from __future__ import annotations

import json
import logging
import os
import re
import signal

import aiohttp
import openai
import pytest

from goldless.apps.jury.server import Tokens
from goldless.errors import PrerequisiteError
from tests.apps.jury.jury_client import CASE, ask, half_sent, serving, until_told, user

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("s3cret\n")
    return path


# --- tokens ----------------------------------------------------------------------------------------------------


async def test_the_right_token_opens_and_any_other_does_not(token_file):
    async with serving(tokens=Tokens(file=token_file), sent="s3cret") as (client, _):
        assert await ask(client, CASE)
    for wrong in ("s3cre", "s3cret2", "S3cret"):
        async with serving(tokens=Tokens(file=token_file), sent=wrong) as (client, _):
            with pytest.raises(openai.AuthenticationError) as caught:
                await ask(client, CASE)
            assert "s3cret" not in caught.value.response.text
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()


async def test_the_token_is_never_logged_or_answered(token_file, caplog, capfd):
    """Neither a wrong one nor the right one, in a request that is understood or in bytes that are none."""
    heads = ["GARBAGE s3cret", "POST /v1/models HTTP/1.1\r\nAuthorization: Bearer s3cret\x00"]
    with caplog.at_level(logging.DEBUG):
        for sent in ("s3cret?", "s3cret"):
            async with serving(tokens=Tokens(file=token_file), sent=sent) as (_, url):
                headers = {"Authorization": f"Bearer {sent}", "Content-Type": "application/json"}
                async with aiohttp.ClientSession(headers=headers) as session:
                    for path in ("chat/completions", "embeddings"):
                        reply = await session.post(f"{url}/{path}", data=b"no json")
                        assert reply.status in {400, 401, 404}
                        assert "s3cret" not in await reply.text()
        async with serving(tokens=Tokens(file=token_file)) as (_, url):
            for head in heads:
                reader, writer = await half_sent(url, f"{head}\r\n\r\n")
                reply = await reader.read()
                writer.close()
                assert b" 400 " in reply.splitlines()[0]
                assert b"Traceback" not in reply
    ours = [record for record in caplog.records if record.name.startswith(("goldless", "aiohttp"))]
    assert (ours, capfd.readouterr()) == ([], ("", ""))


def test_tokens_come_from_the_environment_and_any_of_several_opens(monkeypatch):
    monkeypatch.setenv("JURY_TOKEN", " old\nnew ")
    tokens = Tokens(variable="JURY_TOKEN")
    admitted = [tokens.admit(f"Bearer {word}") for word in ("old", "new", "old\nnew", "", "ol")]
    assert admitted == [True, True, False, False, False]
    monkeypatch.setenv("JURY_TOKEN", "t\u00f6ken")
    with pytest.raises(PrerequisiteError, match="JURY_TOKEN must have one token or several, of ASCII characters"):
        Tokens(variable="JURY_TOKEN")
    monkeypatch.delenv("JURY_TOKEN")
    with pytest.raises(PrerequisiteError, match="export JURY_TOKEN="):
        Tokens(variable="JURY_TOKEN")


async def test_tokens_of_a_file_are_those_it_has_now_and_stay_if_it_is_gone(token_file):
    async with until_told(tokens=Tokens(file=token_file)) as url, aiohttp.ClientSession() as session:

        async def status(token):
            return (await session.get(f"{url}/models", headers={"Authorization": f"Bearer {token}"})).status

        seen = [await status("s3cret"), await status("fresh")]
        token_file.write_text("fresh\n")
        seen += [await status("s3cret"), await status("fresh")]
        token_file.unlink()
        seen += [await status("fresh")]
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [200, 401, 401, 200, 200]


@pytest.mark.parametrize("host", ["evil.com@127.0.0.1", "evil.com", "127.0.0.1.evil.com", "localhost@evil.com", ""])
async def test_without_a_token_other_names_are_refused(host):
    async with serving() as (_, url), aiohttp.ClientSession() as session:
        assert (await session.get(f"{url}/models", headers={"Host": host})).status in {400, 403}
        assert (await session.get(f"{url}/models", headers={"Host": "localhost"})).status == 200


# --- ids, health, the end --------------------------------------------------------------------------------------


async def test_every_reply_and_every_error_has_the_requests_id():
    async with serving() as (_, url), aiohttp.ClientSession() as session:
        sent = {"X-Request-Id": "case-7"}
        assert (await session.get(f"{url}/models", headers=sent)).headers["X-Request-Id"] == "case-7"
        wrong = await session.post(f"{url}/chat/completions", data=b"no json", headers=sent)
        assert (wrong.headers["X-Request-Id"], (await wrong.json())["error"]["request_id"]) == ("case-7", "case-7")
        forged = await session.get(f"{url}/models", headers={"X-Request-Id": "a b\u00e9" * 40})
        assert re.fullmatch("[0-9a-f]{32}", forged.headers["X-Request-Id"])
        body = {"model": "any", "messages": user(json.dumps(CASE)), "stream": True}
        streamed = await session.post(f"{url}/chat/completions", json=body, headers=sent)
        assert (streamed.status, streamed.headers["X-Request-Id"]) == (200, "case-7")


async def test_health_needs_no_token_and_nothing_else_does_without(token_file):
    async with serving(tokens=Tokens(file=token_file)) as (_, url), aiohttp.ClientSession() as session:
        reply = await session.get(f"{url.removesuffix('/v1')}/healthz", headers={"Host": "10.0.0.7"})
        assert (reply.status, await reply.json()) == (200, {"status": "ok"})
        assert (await session.get(f"{url.removesuffix('/v1')}/healthz/x")).status == 401
