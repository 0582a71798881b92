"""A jury's server with a client, and cases in every layout."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import anyio
import openai
from yarl import URL

from goldless.apps.jury.panel import Jury
from goldless.apps.jury.server import Limits, listening
from goldless.http_serving import serve_until_told
from tests.apps.jury.jury_models import juror, prefers

ANSWERS = ["a text about zarn", "a text about bluk"]
CASE = {"question": "What is it about?", "answers": ANSWERS}
SQUARE = (
    "[User Question]\n{question}\n\n[The Start of Assistant A's Answer]\n{a}\n[The End of Assistant A's Answer]\n\n"
    "[The Start of Assistant B's Answer]\n{b}\n[The End of Assistant B's Answer]"
)
"""As in MT-Bench and TVD-MI A.3.2."""
PIPED = (
    "<|User Prompt|>\n{question}\n\n<|The Start of Assistant A's Answer|>\n{a}\n<|The End of Assistant A's Answer|>\n\n"
    "<|The Start of Assistant B's Answer|>\n{b}\n<|The End of Assistant B's Answer|>"
)
"""As in Arena-Hard."""
RESPONSES = "Which is better?\n\n[Question]\n{question}\n\n[Response A]\n{a}\n\n[Response B]\n{b}"
ENDED = (
    "[Task Description]\n{question}\n[Response A]\n{a}\n[End of Response A]\n[Response B]\n{b}\n[End of Response B]\n"
    "Say [[A]], [[B]] or [[C]]."
)
LAYOUTS = {"square": SQUARE, "piped": PIPED, "responses": RESPONSES, "ended": ENDED}
ZARN = prefers("zarn", "bluk", "mipo")


def user(content) -> list[dict[str, object]]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]


@asynccontextmanager
async def serving(*jurors, tokens=None, sent="any", **limits):
    """A client of a jury's server, and its address."""
    jury = Jury(jurors or [juror(ZARN)])
    async with (
        listening(jury, host="127.0.0.1", port=0, tokens=tokens, limits=Limits(**limits)) as url,
        openai.AsyncOpenAI(base_url=url, api_key=sent, max_retries=0) as client,
    ):
        yield client, url


@asynccontextmanager
async def until_told(*jurors, **options):
    """A server that runs until this process gets a signal; its address."""
    addresses, running = [], anyio.Event()

    def ready(url):
        addresses.append(url)
        running.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_until_told, listening(Jury(jurors or [juror(ZARN)]), port=0, **options), ready)
        await running.wait()
        yield addresses[0]


async def ask(client, content, **options):
    messages = user(content if isinstance(content, str) else json.dumps(content))
    return await client.chat.completions.create(model="goldless-jury", messages=messages, **options)


async def half_sent(url, text=None):
    """A connection on which a text is sent, by default a request whose body does not come."""
    place = URL(url)
    reader, writer = await asyncio.open_connection(place.host, place.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {place.host}\r\nContent-Type: application/json\r\n"
    writer.write((text or f"{head}Content-Length: 100\r\n\r\n{{").encode())
    await writer.drain()
    return reader, writer
