"""Every kind of server fault, over reviewing and over scoring: what was answered well is kept and never asked again.

Each trial runs a command while about a third of the replies are odd in one way, then again without faults. Every reply
must end as the right one or as a missing one, and the second run must ask only for what the first did not get.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import multiprocessing
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl
from aiohttp import web

from tests.support.commands import Ran, goldless, home
from tests.support.servers.loopback import Behaviour, Json, LoopbackServer, chat_reply
from tests.support.servers.toy_language import Reading
from tests.torture.tally import Tally

ODD_SHARE = 0.3
STORM_SHARE = 0.5
STORM = "429"
"""A server that is busy says so of any request, and later not: such runs must be complete at once."""
AT_ONCE = 4
"""Trials at once, each in its own process: most of their time is waiting."""
QUICK = ("--resamples", "100")
SLOW = ("stall", "a byte at a time")
"""Faults that the time limit ends, soon here; what a busy machine answers late is no fault."""
Answer = Callable[[web.Request, Json], Any]
"""Makes the odd reply from the right one: a body, a response, or something that awaits one."""


def _body(change: Callable[[Json], Any]) -> Answer:
    return lambda _, reply: web.Response(body=orjson.dumps(change(reply)), content_type="application/json")


def _raw(content: bytes, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("Content-Type", "application/json")
    return lambda _, __: web.Response(body=content, status=status, headers=named)


def _at(*path: str | int, value: Any) -> Answer:
    """The right reply with another value at one place."""

    def change(reply: Json) -> Json:
        inner: Any = reply
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        return reply

    return _body(change)


def _cut(after: int) -> Answer:
    async def answer(request: web.Request, reply: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(orjson.dumps(reply)[:after])
        if request.transport is not None:
            request.transport.abort()
        return response

    return answer


def _slowly(request: web.Request, reply: Json) -> Any:
    """One byte at a time, each soon enough for a limit between bytes, never whole within the limit of a call."""

    async def answer() -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for byte in orjson.dumps(reply):
            if request.transport is None or request.transport.is_closing():
                break  # nobody reads any more
            await response.write(bytes([byte]))
            await asyncio.sleep(0.2)
        return response

    return answer()


def _stall(request: web.Request, reply: Json) -> Any:
    async def answer() -> web.Response:
        await asyncio.sleep(4)
        return web.Response(body=orjson.dumps(reply), content_type="application/json")

    return answer()


@functools.cache
def _spaces() -> bytes:
    """Takes seconds: made before a trial that needs it, and not while its server has others to answer."""
    return gzip.compress(b" " * 300_000_000)


def _bomb(request: web.Request, reply: Json) -> Any:
    return _raw(_spaces(), Content_Encoding="gzip")(request, reply)


_CONTENT = ("choices", 0, "message", "content")
_STEP = ("choices", 0, "logprobs", "content", 0)
_ANY_WAY: dict[str, Answer] = {
    **{f"status {code}": _raw(b'{"error": {"message": "no"}}', code) for code in (400, 401, 403, 404, 408, 409, 413)},
    **{f"status {code}": _raw(b'{"error": {"message": "no"}}', code) for code in (418, 422, 451, 500, 501, 502, 503)},
    **{f"status {code}": _raw(b"", code) for code in (201, 202, 204, 205, 304, 504, 520, 529)},
    **{
        f"429, retry after {wait!r}": _raw(b"{}", 429, Retry_After=wait)
        for wait in ("0", "nan", "inf", "-5", "1e308", "soon", "", "0.01", "Wed, 21 Oct 2015 07:28:00 GMT")
    },
    "redirect": _raw(b"", 302, Location="http://127.0.0.1:9/v1/chat/completions"),
    "permanent redirect": _raw(b"", 308, Location="/elsewhere"),
    "HTML": _raw(b"<html>gateway</html>", Content_Type="text/html"),
    "HTML as 502": _raw(b"<html>Bad gateway</html>", 502, Content_Type="text/html"),
    "empty body": _raw(b""),
    "null": _raw(b"null"),
    "a number": _raw(b"7"),
    "a list": _raw(b"[]"),
    "a string": _raw(b'"one"'),
    "not UTF-8": _raw(b'{"choices": "\xff\xfe"}'),
    "NaN": _raw(b'{"choices": NaN}'),
    "deep JSON": _raw(b"[" * 100_000 + b"]" * 100_000),
    "half of it": _raw(b'{"choices": [{"mess'),
    "two documents": _raw(b"{}{}"),
    "wrong encoding": _raw(b"not gzip", Content_Encoding="gzip"),
    "a bomb": _bomb,
    "cut at once": _cut(0),
    "cut midway": _cut(40),
    "a byte at a time": _slowly,
    "stall": _stall,
    "no choices": _body(lambda reply: {**reply, "choices": []}),
    "choices missing": _body(lambda _: {"id": "x"}),
    "choices of another type": _at("choices", value=7),
    "choice is null": _at("choices", 0, value=None),
    "error in a 200": _body(lambda _: {"error": {"message": "overloaded", "type": "server_error"}}),
    **{
        f"usage {value!r}": _at("usage", value=value)
        for value in (None, [1], "many", {"prompt_tokens": "many"}, {"prompt_tokens": {}, "completion_tokens": -5})
    },
    **{
        f"usage of {value!r}": _at("usage", value={"prompt_tokens": value, "completion_tokens": 1})
        for value in (-5000, 0, 2**62, 10**15, 1e30, True, "11")
    },
}
_OF_CHAT: dict[str, Answer] = {
    "message is null": _at("choices", 0, "message", value=None),
    "content is null": _at(*_CONTENT, value=None),
    "content is a list": _at(*_CONTENT, value=[{"type": "text"}]),
    "content is a number": _at(*_CONTENT, value=1),
    "content is empty": _at(*_CONTENT, value=""),
    "control characters": _at(*_CONTENT, value="\x1b]0;owned\x07\x00\u202e"),
    "a lone surrogate": _raw(b'{"choices": [{"message": {"content": "\\ud800"}, "finish_reason": "stop"}]}'),
    "10 MB": _at(*_CONTENT, value="perhaps " * 1_250_000),
    "finish of another type": _at("choices", 0, "finish_reason", value={"why": 1}),
    "cut by the filter": _at("choices", 0, "finish_reason", value="content_filter"),
    "refusal": _body(lambda _: chat_reply(None, refusal="I can't help with that.")),
    "log-probabilities: a number": _at("choices", 0, "logprobs", value=7),
    "log-probabilities: another type": _at("choices", 0, "logprobs", value={"content": {"token": 1}}),
    "top: a number": _at(*_STEP, "top_logprobs", value=7),
    "top: null": _at(*_STEP, "top_logprobs", value=None),
    **{
        f"top of {values}": _at(
            *_STEP,
            "top_logprobs",
            value=[{"token": t, "logprob": p} for t, p in zip(("one", "two"), values, strict=True)],
        )
        for values in ((2, -3), (0, 0), (5, 5), (-0.1, 0.5), (700, -1), (1e308, -1e308), ("x", None), (-0.2, -0.2))
    },
}
_OF_SCORING: dict[str, Answer] = {
    "values: a number": _at("choices", 0, "prompt_logprobs", value=7),
    "values: null": _at("choices", 0, "prompt_logprobs", value=None),
    "values: none": _at("choices", 0, "prompt_logprobs", value=[]),
    "values: one less": _body(lambda r: _values(r, lambda rows: rows[:-1])),
    "values: one more": _body(lambda r: _values(r, lambda rows: [*rows, rows[-1]])),
    "values: another token's": _body(lambda r: _values(r, lambda rows: [*rows[:-1], {"0": {"logprob": -1.0}}])),
    **{
        f"a value of {value!r}": _body(
            lambda r, value=value: _values(r, lambda rows: [*rows[:-1], _valued(rows[-1], value)])
        )
        for value in (2, 1000.0, None, "x", [], -1e308, True)
    },
    "a value of -inf": _body(lambda r: _values(r, lambda rows: [*rows[:-1], _valued(rows[-1], "-Infinity")])),
}


def _values(reply: Json, change: Callable[[list[Any]], Any]) -> Json:
    choice = reply["choices"][0]
    if "prompt_logprobs" in choice:
        choice["prompt_logprobs"] = change(choice["prompt_logprobs"])
    return reply


def _valued(row: Json, value: Any) -> Json:
    return {token: {**one, "logprob": value} for token, one in row.items()}


@dataclass(frozen=True, slots=True)
class Command:
    """A command under trial."""

    arguments: tuple[str, ...]
    speaks: frozenset[str]
    """What the server must speak for it, besides chat."""
    path: str
    """Where the study is asked about."""
    kinds: dict[str, Answer]
    """What may be odd."""
    table: str
    """Its evidence."""
    key: tuple[str, ...]
    value: str
    """The evidence's columns: what was asked, and what the model said."""


COMMANDS = {
    "review": Command(
        ("review", "{study}", "--reviewers", "toy={model}", "--exam", "none"),
        frozenset(),
        "/v1/chat/completions",
        _ANY_WAY | _OF_CHAT,
        "judgements",
        ("task", "first", "second"),
        "value",
    ),
    "score": Command(
        ("score", "{study}", "--scorer", "{model}", "--metric", "gem-raw"),
        frozenset({"vllm"}),
        "/v1/completions",
        _ANY_WAY | _OF_SCORING,
        "logprobs",
        ("task", "target", "given"),
        "sum_logprob_nats",
    ),
}
WITHOUT_PROBABILITIES = {"log-probabilities: a number", "log-probabilities: another type", "top: a number", "top: null"}
WITHOUT_PROBABILITIES |= {"top of ('x', None)"}
MARKER = "zarn"
"""A word of every response, and of no prompt."""
STUDY = [
    {"task": task, "agent": agent, "text": f"{MARKER} {task} {words}"}
    for task in ("one two", "three four", "which words")
    for agent, words in (("ann", "the method is sound"), ("bob", "the method is new"), ("cy", "Paris"))
]


class FaultyServer(LoopbackServer):
    """Answers a share of the requests to one path oddly; counts by content what it answered well."""

    def __init__(self, command: Command, marker: str, seed: int) -> None:
        super().__init__(Behaviour(speaks=set(command.speaks), chat=_verdict))
        self._bigram = Reading()
        self._path, self._marker, self._seed = command.path, marker, seed
        self._chance = random.Random(seed)
        self.odd: Answer | None = None
        self.storm = False
        self.well: Counter[str] = Counter()
        self.odd_replies = 0

    async def _answer_or_misbehave(self, request: web.Request, body: Any) -> web.StreamResponse:
        if request.path != self._path or not self._is_work(body):
            return await super()._answer_or_misbehave(request, body)
        asked = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
        if self.odd is not None and self._is_odd(asked):
            self.odd_replies += 1
            made = self.odd(request, self._reply(request.path, body))
            return await made if hasattr(made, "__await__") else made
        self.well[asked] += 1
        return await super()._answer_or_misbehave(request, body)

    def _is_odd(self, asked: str) -> bool:
        """Half of all requests in a storm; otherwise the same requests however often they come."""
        if self.storm:
            return self._chance.random() < STORM_SHARE
        return random.Random(f"{self._seed} {asked}").random() < ODD_SHARE

    def _is_work(self, body: Any) -> bool:
        """Whether the study is asked about, and not what the server can do."""
        if isinstance(body.get("prompt"), list):
            return any(self._marker in self._texts.get(one, "") for one in body["prompt"])
        return self._marker.encode() in orjson.dumps(body)


def _verdict(body: Json) -> Json:
    """One or two, by the question alone."""
    first = hashlib.sha256(orjson.dumps(body["messages"])).digest()[0] % 2
    likely, other = ("one", "two") if first else ("two", "one")
    top = [{"token": likely, "logprob": -0.125}, {"token": other, "logprob": -2.5}]
    return chat_reply(likely, logprobs=[{**top[0], "top_logprobs": top}] if body.get("logprobs") else None)


@dataclass(slots=True)
class Trial:
    """One command against one server, which is well or odd."""

    command: Command
    server: FaultyServer
    folder: Path

    def run(self, name: str, odd: Answer | None) -> tuple[Ran, dict[tuple[str, ...], float]]:
        """Run the command once; returns how it ended, and what the model said as far as it is known."""
        self.server.odd = odd
        out = self.folder / name
        slow = odd in map(_ANY_WAY.get, SLOW)
        # a fault that lasts is given up soon
        limits = "" if odd is None or self.server.storm else f"&timeout={1 if slow else 30}&retries=2"
        model = f"{self.server.url}#toy?patience=1{limits}"
        places = {"study": self.folder / "study.jsonl", "model": model}
        arguments = [argument.format(**places) for argument in self.command.arguments]
        ran = goldless(*arguments, *QUICK, "--out", out)
        return ran, self._said(out / self.command.table)

    def _said(self, table: Path) -> dict[tuple[str, ...], float]:
        if not list(table.glob("*.parquet")):
            return {}
        columns = (*self.command.key, self.command.value)
        rows = pl.read_parquet(table / "*.parquet").select(*columns).drop_nulls(self.command.value)
        return {row[:-1]: row[-1] for row in rows.iter_rows()}


def run(count: int, seed: int) -> Tally:
    """Try so many pairs of command and fault, all kinds in turn, and add up what went wrong."""
    every = [(command, kind) for command, tried in COMMANDS.items() for kind in tried.kinds]
    random.Random(seed).shuffle(every)
    jobs = [(*every[number % len(every)], seed + number) for number in range(count)]
    total = Tally("server faults")
    if count < AT_ONCE:  # a process takes longer to start than a trial
        for job in jobs:
            total.add(_one(job))
        return total
    with ProcessPoolExecutor(AT_ONCE, multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(_one, jobs):
            total.add(found)
    return total


_RIGHT: dict[str, dict[tuple[str, ...], float]] = {}
"""What the model says to an undisturbed command, by its evidence; the server always says the same."""


def _one(job: tuple[str, str, int]) -> Tally:
    command, kind, seed = job
    tally = Tally(kind)
    with tempfile.TemporaryDirectory() as folder:
        _try(COMMANDS[command], kind, seed, Path(folder), tally)
    return tally


def _met(value: float, right: float | None, kind: str) -> bool:
    """Whether a value is the right one; without a list of probabilities the label that was written is right, too."""
    label = right is not None and kind in WITHOUT_PROBABILITIES and value == round(right)
    return label or value == right


def _try(command: Command, kind: str, seed: int, folder: Path, tally: Tally) -> None:
    (folder / "study.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in STUDY))
    if command.kinds[kind] is _bomb:
        _spaces()
    with FaultyServer(command, MARKER, seed) as server:
        trial = Trial(command, server, folder)
        if command.table not in _RIGHT:
            with home(folder / "control"):
                _RIGHT[command.table] = trial.run("right", None)[1]
        right = _RIGHT[command.table]
        server.well.clear()
        server.storm = kind.startswith(STORM)
        with home(folder / "home"):
            runs = [trial.run("first", command.kinds[kind]), trial.run("second", None)]
    where = f"{command.arguments[0]}, {kind}, seed {seed}"
    tally.tried += server.odd_replies > 0
    if not right or not server.odd_replies:
        tally.notes.append(f"{where}: no fault was met")
    for ran, said in runs:
        if ran.broke:
            tally.tracebacks += 1
            tally.notes.append(f"{where}: code {ran.code}: {ran.err.strip().splitlines()[-1:]}")
        wrong = [key for key, value in said.items() if not _met(value, right.get(key), kind)]
        tally.silent_changes += len(wrong)
        tally.notes += [f"{where}: {key} is {said[key]}, not {right.get(key)}" for key in wrong]
    first, second = (said for _, said in runs)
    complete = server.storm and "1e308" not in kind  # nobody waits that long
    lost = [key for key in (right if complete else first) if key not in (first if complete else second)]
    tally.lost += len(lost)
    again = sum(times - 1 for times in server.well.values())
    tally.paid_twice += again
    if lost or again:
        tally.notes.append(f"{where}: {len(lost)} lost, {again} paid twice")
