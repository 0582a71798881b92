"""A server for ``benchmarks/speed/judging.py``: replies in several providers' wire formats, each after a fixed wait.

    python benchmarks/speed/judging_server.py [--delay SECONDS]

It runs as a process of its own, listens on this machine only, prints its address and serves until its input ends. It
speaks as little HTTP as the clients it is asked by need, so that what is measured is them. ``GET /stats`` says how many
completions were asked for since it was last asked, how many at once, and how long it took from the first question, and
from the first answer, to the last answer by this process's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Any

MODEL = "loopback"
VERDICTS = ("one", "two")
USAGE = {"prompt_tokens": 400, "completion_tokens": 1, "total_tokens": 401}


class Counts:
    """What was asked since the counts were last read."""

    def __init__(self) -> None:
        self.asked = self.answered = self.at_once = self.most_at_once = 0
        self.first_asked = self.first_answered = self.last_answered = 0.0

    def begin(self) -> int:
        """Count a question; its number."""
        if not self.asked:
            self.first_asked = time.perf_counter()
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        return self.asked

    def end(self) -> None:
        """Count an answer."""
        self.answered += 1
        self.at_once -= 1
        self.last_answered = time.perf_counter()
        self.first_answered = self.first_answered or self.last_answered

    def read(self) -> dict[str, float]:
        """The counts; they begin anew."""
        seconds = self.last_answered - self.first_asked
        answering = self.last_answered - self.first_answered
        found = {
            "answered": self.answered,
            "most_at_once": self.most_at_once,
            "seconds": seconds,
            "answering_seconds": answering,
        }
        self.__init__()  # type: ignore[misc]
        return found


class Connection(asyncio.Protocol):
    """One client's connection: requests one after the other, told apart by their Content-Length."""

    def __init__(self, delay_seconds: float, counts: Counts) -> None:
        self._delay_seconds = delay_seconds
        self._counts = counts
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = _content_length(head)
            if len(self._received) < end + 4 + length:
                return
            self._received = self._received[end + 4 + length :]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        write = next((write for route, write in ROUTES if head.startswith(b"post ") and route in head[:200]), None)
        if write is not None:
            number = self._counts.begin()
            body = json.dumps(write(VERDICTS[number % 2])).encode()
            if self._delay_seconds:
                asyncio.get_running_loop().call_later(self._delay_seconds, self._complete, body)
            else:
                self._complete(body)
        elif head.startswith((b"get /v1/models", b"get /v1beta/models")):
            listed = [{"id": MODEL, "object": "model", "name": f"models/{MODEL}"}]
            self._send({"object": "list", "data": listed, "models": listed})
        elif head.startswith(b"get /stats"):
            self._send(self._counts.read())
        else:
            self._write(b"404 Not Found", b'{"error":{"message":"Not Found"}}')

    def _complete(self, body: bytes) -> None:
        self._counts.end()
        self._write(b"200 OK", body)

    def _send(self, data: Any) -> None:
        self._write(b"200 OK", json.dumps(data).encode())

    def _write(self, status: bytes, body: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
            self._transport.write(head + body)


def completion(text: str) -> dict[str, Any]:
    """A reply as OpenAI words it, and most others."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice], "usage": USAGE}


def message(text: str) -> dict[str, Any]:
    """A reply as Anthropic words it."""
    content, usage = [{"type": "text", "text": text}], {"input_tokens": 400, "output_tokens": 1}
    about = {"id": "x", "type": "message", "role": "assistant", "model": MODEL, "stop_sequence": None}
    return {**about, "content": content, "stop_reason": "end_turn", "usage": usage}


def content(text: str) -> dict[str, Any]:
    """A reply as the Gemini API words it."""
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 400, "candidatesTokenCount": 1, "totalTokenCount": 401}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}


ROUTES = (
    (b"/chat/completions", completion),
    (b"/v1/messages", message),
    (b":generatecontent", content),
)


def _content_length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


async def serve(delay_seconds: float) -> None:
    """Serve until standard input ends."""
    loop, counts = asyncio.get_running_loop(), Counts()
    server = await loop.create_server(lambda: Connection(delay_seconds, counts), "127.0.0.1", 0, backlog=4096)
    async with server:
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=1.0, help="seconds before each answer")
    asyncio.run(serve(parser.parse_args().delay))
