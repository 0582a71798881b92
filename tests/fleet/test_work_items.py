"""Work items without a cluster: what is kept, what is computed again, and what a lost worker costs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest

from goldless.errors import CapabilityError, ModelError, PrerequisiteError, UserError
from goldless.fleet import parts as module
from goldless.fleet.likeness import settled, unlike
from goldless.fleet.parts import Parts, as_part, from_part, item_name, part_path, write_part
from goldless.fleet.signs_of_life import LostError
from goldless.fleet.work_items import TRIES, Answer, Item, WorkItems
from goldless.fleet.worker import Done, Loaded, ModelToLoad, Ready, Worker
from goldless.models.interface import (
    ChatReply,
    ChatRequest,
    Message,
    ModelIdentity,
    ScoreRequest,
    TokenLogprobs,
    Usage,
)
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure

MODEL = ModelIdentity("scripted", "toy")
ASKED = [ScoreRequest((1, 2), (number,)) for number in range(8)]
CHAT = ChatRequest((Message("user", "Which?"),), choices=("A", "B"))
REPLIES = [
    TokenLogprobs((-0.1, -1e-7, -12.25), Usage(5, 1)),
    TokenLogprobs((), Usage(), (CallFailure("timeout", "late", 2, (7, 0)),)),
    CallFailure("too_long", "9 tokens do not fit", 0),
    ChatReply("A ✓", "choice", (("A", -0.25),), {"A": -0.25, "B": -1.5}, Usage(3, 1), (CallFailure("refused", "no"),)),
]


def score(item: Item) -> Done:
    return Done(as_part([TokenLogprobs((-float(request.target[0]),)) for request in item.requests]))


def answered(items: WorkItems, compute: Callable[[Item], Awaitable[Done]], workers: int = 1, **given) -> Answer:
    """The answer where a lost worker is replaced at once."""

    async def run() -> Answer:
        async def employ() -> None:
            while True:
                with suppress(LostError):
                    await items.serve(given.get("alive", anyio.lowlevel.checkpoint), compute)

        employed = [asyncio.ensure_future(employ()) for _ in range(workers)]
        try:
            return await items.answer(0, MODEL, given.get("requests", ASKED), given.get("check", lambda: None))
        finally:
            for one in employed:
                one.cancel()

    return anyio.run(run)


@pytest.fixture
def items(tmp_path) -> WorkItems:
    return WorkItems(Parts(tmp_path / "fleet"))


def test_replies_come_back_from_a_part_as_they_were():
    assert from_part(as_part(REPLIES), 4) == REPLIES


@pytest.mark.parametrize("data", [b"", b"PAR1", as_part(REPLIES)[:-9], as_part(REPLIES[:2])])
def test_a_part_that_is_damaged_or_of_another_item_is_not_taken(tmp_path, data):
    name = item_name(MODEL, ASKED[:4])
    (tmp_path / "fleet").mkdir()
    part_path(tmp_path / "fleet", name).write_bytes(data)
    assert Parts(tmp_path / "fleet").left(name, 4) is None


def test_the_name_of_an_item_is_of_the_model_and_all_requests_in_order():
    others = [
        item_name(MODEL, ASKED[::-1]),
        item_name(MODEL, ASKED[:-1]),
        item_name(ModelIdentity("scripted", "toy", settings={"sharing": "packed-4096"}), ASKED),
        item_name(MODEL, [CHAT]),
        item_name(MODEL, [ChatRequest(CHAT.messages, choices=("B", "A"))]),
    ]
    assert len({item_name(MODEL, ASKED), *others}) == 6
    assert item_name(MODEL, ASKED) == item_name(MODEL, list(ASKED))


def test_what_a_killed_driver_left_is_taken_once_and_not_computed(items):
    name = item_name(MODEL, ASKED)
    write_part(items.parts.folder, name, score(Item(0, ASKED, name, None, 1)).part)
    computed = []

    async def compute(item: Item) -> Done:
        computed.append(item)
        return score(item)

    again = WorkItems(Parts(items.parts.folder))
    first = answered(again, compute)
    assert not computed
    assert answered(again, compute) == first
    assert len(computed) == 1


def test_a_worker_that_is_lost_after_it_wrote_its_part_is_not_asked_again(items):
    computed = []

    async def compute(item: Item) -> Done:
        computed.append(item)
        write_part(items.parts.folder, item.name, score(item).part)
        raise LostError("was lost")

    assert answered(items, compute).replies[7].logprobs == (-7.0,)
    assert len(computed) == 1


def test_a_request_that_no_worker_survives_is_the_only_failure(items):
    falls = []

    async def compute(item: Item) -> Done:
        if ASKED[5] in item.requests:
            falls.append(len(item.requests))
            raise LostError("was lost (signal 9)")
        return score(item)

    found = answered(items, compute, workers=2).replies
    assert [reply.logprobs for reply in found[:5] + found[6:]] == [(-float(n),) for n in (0, 1, 2, 3, 4, 6, 7)]
    assert found[5] == CallFailure("server_error", "the worker that computed it was lost (signal 9)")
    assert falls == [8] * TRIES + [4, 2, 1]


def test_a_worker_that_was_lost_while_idle_is_no_fault_of_the_next_item(items):
    dead = iter([True] * (TRIES + 1) + [False])
    sizes = []

    async def alive() -> None:
        if next(dead):
            raise LostError("was lost")

    async def compute(item: Item) -> Done:
        sizes.append(len(item.requests))
        return score(item)

    answered(items, compute, alive=alive)
    assert sizes == [len(ASKED)]


def test_an_error_of_the_run_is_raised_and_not_tried_again(items):
    async def compute(_: Item) -> Done:
        return Done(error=CapabilityError("it takes token ids"))

    with pytest.raises(CapabilityError, match="it takes token ids"):
        answered(items, compute)


def test_without_workers_the_wait_ends_with_the_reason(items, monkeypatch):
    monkeypatch.setattr("goldless.fleet.work_items.LOOK_SECONDS", 0.01)

    def check() -> None:
        raise ModelError("there has been no worker")

    with pytest.raises(ModelError, match="no worker"):
        answered(items, score, workers=0, check=check)


def test_parts_go_when_the_journal_has_them_and_old_ones_after_a_month(tmp_path):
    folder = tmp_path / "fleet"
    parts = Parts(folder)
    for name in ("old", "new", "chat"):
        write_part(folder, name, b"")
    os.utime(part_path(folder, "old"), (0, 0))
    parts = Parts(folder)
    parts.remove("new")
    parts.remove_later("chat")
    assert [path.stem for path in folder.iterdir()] == ["chat"]
    parts.close()
    assert not folder.exists()


def test_of_many_chats_only_the_last_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHATS_KEPT", 2)
    parts = Parts(tmp_path / "fleet")
    for number in range(5):
        write_part(parts.folder, str(number), b"")
        parts.remove_later(str(number))
    assert sorted(path.stem for path in parts.folder.iterdir()) == ["3", "4"]


# --- the worker, in this process ------------------------------------------------------------------------------------


@pytest.fixture
def worker(tmp_path, monkeypatch) -> Iterator[Worker]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mark").touch()
    worker = Worker(tmp_path)
    yield worker
    worker.loop.close()


def load(worker: Worker, *models: object) -> Ready:
    return worker.load([ModelToLoad(model, "both") for model in models], worker.folder, "mark")


def test_a_worker_reports_what_it_cannot_load_and_serves_the_rest(worker):
    ready = load(worker, "scripted:nowhere.jsonl", ScriptedModel(answers={"Which?": "B"}))
    assert "nowhere.jsonl: cannot read this script" in str(ready.models[0].error)
    assert isinstance(ready.models[0].error, UserError)
    assert ready.models[1].identity == ModelIdentity("scripted", "scripted")
    (reply,) = from_part(worker.work(1, [CHAT], "part").part, 1)
    assert reply.text == "B"
    assert from_part(part_path(worker.folder, "part").read_bytes(), 1) == [reply]


def test_whatever_a_model_raises_the_worker_goes_on(worker):
    def fails(_: ChatRequest) -> str:
        raise ZeroDivisionError("by zero")

    load(worker, ScriptedModel(answers=fails), ScriptedModel(answers={}))
    assert worker.work(0, [CHAT], "part").failure == "ZeroDivisionError: by zero"
    assert isinstance(worker.work(1, ASKED, "part").error, CapabilityError)
    assert not part_path(worker.folder, "part").exists()


# --- likeness -------------------------------------------------------------------------------------------------------


def ready(settings: str = "packed-8192", version: str | None = None, error: UserError | None = None) -> Ready:
    from goldless._version import __version__  # noqa: PLC0415 - only here

    identity = None if error else ModelIdentity("hf", "org/m", "abc", settings={"sharing": settings})
    return Ready("node7", 1, version or __version__, (Loaded(identity, error=error),), True)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (ready("packed-4096"), "sharing: packed-8192 and packed-4096"),
        (ready(version="0.0.1"), "node7 has goldless 0.0.1"),
        (ready(error=PrerequisiteError("needs torch")), "node7 cannot load .* needs torch"),
    ],
)
def test_a_worker_that_would_give_other_numbers_is_refused(other, said):
    assert unlike(ready().models, ready()) is None
    with pytest.raises(PrerequisiteError, match=said):
        settled([ready(), other])
