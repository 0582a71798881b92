"""Mutated replies: each wire format's good reply, damaged at random, read and booked as in a run.

Whatever the damage, the call must end as a reply that can be or as a typed failure, stand in the journal as one of
both, and be paid for.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import orjson
from yarl import URL

from goldless.errors import GoldlessError
from goldless.models.catalogue import ANY_SERVER
from goldless.models.http_api.client import CallSettings
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.specs import Specification
from goldless.models.interface import ChatReply, ChatRequest, Message, TokenLogprobs
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledModel
from goldless.models.usage import Ledger, Price
from goldless.records import CallFailure
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply, rejection
from tests.support.servers.providers import anthropic_reply, gemini_reply
from tests.torture.tally import Tally

Json = Any
ANSWERS = ("one", "two", "three")
SURROGATE, NOT_A_NUMBER, INFINITE, DEEP = "\ue000", "\ue001", "\ue002", "\ue003"
"""Stand for what only raw JSON text can hold."""
RAW = {
    SURROGATE: b'"\\ud800"',
    NOT_A_NUMBER: b"NaN",
    INFINITE: b"-1e999",
    DEEP: b"[" * 3000 + b"]" * 3000,
}
ODD = (None, True, False, 0, 1, -1, -5000, 2.5, 1e-3, 0.5, 2, 5, 700, 1000, 2**31, 2**63, 2**64 - 1, 1e30, 1e300, 1e308)
ODD += (-1e308, -9999.0, "", "many", "\x00", "\u202e", "[[A]]", "x" * 5000, [], [1], [None], [[]], {}, {"a": 1}, *RAW)
PRICE = Price(10.0, 10.0)
Rejection = type(rejection(400, ""))
ROUNDING = 1e-3


# --- damage ----------------------------------------------------------------------------------------------------------


def places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a reply."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def damaged(reply: Json, dice: random.Random) -> bytes:
    """The reply as JSON, with one to three things replaced, removed, doubled or moved, or its text cut."""
    root = [copy.deepcopy(reply)]
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        *way, last = dice.choice([path for path in places(root) if path])
        within: Any = root
        for key in way:
            within = within[key]
        act = dice.random()
        if act < 0.7:
            within[last] = copy.deepcopy(dice.choice(ODD))
        elif act < 0.85 and way:
            del within[last]
        elif isinstance(within, list):
            within.insert(dice.randrange(len(within) + 1), copy.deepcopy(within[last]))
        else:
            within[f"{last}_"] = within.pop(last)
        if not root:
            break
    content = orjson.dumps(root[0] if root else None)
    for mark, raw in RAW.items():
        content = content.replace(orjson.dumps(mark), raw)
    if dice.random() < 0.05:
        content = content[: dice.randrange(len(content) + 1)]
    return content


# --- what is asked and replied ---------------------------------------------------------------------------------------


def _openai() -> Json:
    others = [{"token": answer, "logprob": math.log(p)} for answer, p in zip(ANSWERS, (0.6, 0.3, 0.05), strict=True)]
    return chat_reply("one", logprobs=[{"token": "one", "logprob": math.log(0.6), "top_logprobs": others}])


def _gemini() -> Json:
    rows = [{"token": one, "logProbability": math.log(p)} for one, p in zip(ANSWERS, (0.6, 0.3, 0.05), strict=True)]
    listed = {"chosenCandidates": rows[:1], "topCandidates": [{"candidates": rows}]}
    return gemini_reply([{"text": "one"}], logprobsResult=listed)


CHAT: Mapping[str, tuple[str, Callable[[], Json]]] = {
    "openai": ("openai", _openai),
    "mistral": ("openai", lambda: chat_reply([{"type": "text", "text": "one"}])),
    "anthropic": ("anthropic", lambda: anthropic_reply([{"type": "text", "text": "one"}])),
    "google": ("gemini", _gemini),
}
SCORING = {"vllm": "vllm", "sglang": "sglang", "completions-echo": "echo"}


class Subject:
    """A model of one wire format behind journal and ledger; in place of the network it has good or damaged replies."""

    def __init__(self, kind: str, journal: Journal, dice: random.Random) -> None:
        self.kind = kind
        self.damages = False
        self.last = b""
        self._dice = dice
        self._numbers = itertools.count()
        chat_format, make = CHAT.get(kind, CHAT["openai"])
        speaks = {SCORING[kind]} if kind in SCORING else set()
        server = LoopbackServer(Behaviour(speaks=speaks, chat_ids="reply" if kind == "sglang" else "tokenize"))
        self._reply = server._reply if kind in SCORING else lambda *_: make()
        service = replace(ANY_SERVER, format=chat_format, dialects=(kind,) if kind in SCORING else ())
        self.model = HttpModel(
            Specification.read(service, f"http://127.0.0.1:1/{kind}/v1#toy"),
            calling=CallSettings(retries=1, wait_seconds=0.0, patience_seconds=0.0),
            use="scoring" if kind in SCORING else "chat",
        )
        self.model._client.transfer = self._transfer
        self.ledger = Ledger(kind, PRICE)
        self.model.charge_to(self.ledger)
        self._through = JournalledModel(self.model, journal, self.ledger)

    async def _transfer(self, _: str, url: URL, body: bytes | None = None, **__: Any) -> Any:
        route = "/" + url.path.split("/", 2)[2]  # without the kind
        try:
            reply = self._reply(route, None if body is None else orjson.loads(body))
        except Rejection as refused:
            return refused.status, {}, orjson.dumps({"error": {"message": str(refused)}})
        self.last = damaged(reply, self._dice) if self.damages else orjson.dumps(reply)
        return 200, {}, self.last

    async def ask(self) -> ChatReply | TokenLogprobs | CallFailure:
        """One call that was never made before, its replies damaged."""
        number = next(self._numbers)
        message = Message("user", f"number {number} of {self.kind}")
        if self.kind not in SCORING:
            self.damages = True
            choices = ANSWERS if number % 2 else ()
            return await self._through.chat(ChatRequest((message,), choices=choices, logprobs=number % 4 < 2))
        request = await self._through.encode((message,), "three four five")
        self.damages = True
        replies: dict[int, TokenLogprobs | CallFailure] = {}
        await self._through.score([request], replies.update)
        return replies[0]

    async def prepare(self) -> None:
        """Read a damaged list of models, or damaged ids of a new text. Raises a typed error, or returns."""
        self.damages = True
        if self.kind in SCORING and self.kind != "completions-echo":
            await self.model.encode((Message("user", f"text {next(self._numbers)} of {self.kind}"),), "three four five")
        else:
            self.model._listing = None
            await self.model._connect()


def impossible(reply: ChatReply | TokenLogprobs | CallFailure) -> str | None:
    """What a reply says that cannot be; None for a failure, which says nothing."""
    if isinstance(reply, CallFailure):
        return None
    values: list[Any]
    if isinstance(reply, TokenLogprobs):
        values = list(reply.logprobs)
        counted = len(values) > 0
    else:
        reply.text.encode()
        chosen = dict(reply.choice_logprobs or {})
        values = [value for _, value in reply.token_logprobs or ()] + list(chosen.values())
        counted = not chosen or abs(sum(map(math.exp, chosen.values())) - 1) < 1e-6
    wrong = [value for value in values if type(value) is not float or not math.isfinite(value) or value > ROUNDING]
    usage = reply.usage
    if any(type(count) is not int or count < 0 for count in (usage.input_tokens, usage.output_tokens)):
        return f"usage {usage}"
    return f"values {wrong[:3]}" if wrong else None if counted else "probabilities that do not sum to 1"


async def _one(subject: Subject, journal: Journal, tally: Tally) -> None:
    rows, paid = _rows(journal), subject.ledger.spent_usd
    try:
        reply = await subject.ask()
        wrong = impossible(reply)
    except Exception as error:  # noqa: BLE001 - that is what is counted
        tally.tracebacks += 1
        tally.notes.append(f"{subject.kind}: {error!r} for {subject.last[:300]!r}")
        return
    finally:
        subject.damages = False
    if wrong:
        tally.silent_changes += 1
        tally.notes.append(f"{subject.kind}: {wrong} kept from {subject.last[:300]!r}")
    if _rows(journal) <= rows:
        tally.lost += 1
        tally.notes.append(f"{subject.kind}: neither reply nor failure is in the journal for {subject.last[:300]!r}")
    # all calls are booked but those that an error in the reply's body says were not taken
    charged = not isinstance(reply, CallFailure) or reply.charged is not None
    if charged and not subject.ledger.spent_usd > paid:
        tally.lost += 1
        tally.notes.append(f"{subject.kind}: not paid for: {reply!r:.200}")


def _rows(journal: Journal) -> int:
    (row,) = journal.rows("select (select count(*) from calls) + (select count(*) from failures)")
    return int(row[0])


async def _other(subject: Subject, tally: Tally) -> None:
    """What comes before a call, damaged: a typed error or none."""
    try:
        await subject.prepare()
    except GoldlessError:
        pass
    except Exception as error:  # noqa: BLE001 - as above
        tally.tracebacks += 1
        tally.notes.append(f"{subject.kind}, before the call: {error!r} for {subject.last[:300]!r}")
    finally:
        subject.damages = False


async def _run(count: int, seed: int, tally: Tally) -> None:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder, "journal.sqlite"))
        subjects = [Subject(kind, journal, dice) for kind in (*CHAT, *SCORING)]
        for subject in subjects:
            await subject.model.prepare()
        for number in range(count):
            subject = subjects[number % len(subjects)]
            tally.tried += 1
            if number // len(subjects) % 5 == 4:
                await _other(subject, tally)
            else:
                await _one(subject, journal, tally)
        rows = journal.rows("select count(*) from calls where input_tokens < 1 or output_tokens < 0 or cost_usd <= 0")
        tally.silent_changes += rows[0][0]
        journal.close()


def run(count: int, seed: int) -> Tally:
    """Damage ``count`` replies, over all formats in turn; the same seed gives the same damage."""
    tally = Tally("mutated replies")
    anyio.run(_run, count, seed, tally)
    return tally
