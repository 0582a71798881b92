"""Workers without a cluster: what they load and reply, and when they are alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from goldless._version import __version__
from goldless.apps.fleet.worker import Loaded, ModelToLoad, Ready, Worker, unlike
from goldless.errors import CapabilityError, PrerequisiteError, UserError
from goldless.models.interface import ChatRequest, Message, ModelIdentity, ScoreRequest
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure

CHAT = ChatRequest((Message("user", "Which?"),), choices=("A", "B"))


@pytest.fixture
def worker(tmp_path, monkeypatch) -> Iterator[Worker]:
    monkeypatch.chdir(tmp_path)
    worker = Worker()
    yield worker
    worker.loop.close()


def load(worker: Worker, *models: object) -> Ready:
    return worker.load([ModelToLoad(model, "both") for model in models], Path.cwd())


def test_a_worker_reports_what_it_cannot_load_and_serves_the_rest(worker):
    ready = load(worker, "scripted:nowhere.jsonl", ScriptedModel(answers={"Which?": "B"}))
    assert "nowhere.jsonl: cannot read this script" in str(ready.models[0].error)
    assert isinstance(ready.models[0].error, UserError)
    assert ready.models[1].identity == ModelIdentity("scripted", "scripted")
    (reply,) = worker.work(1, [CHAT]).replies
    assert reply.text == "B"


def test_a_request_on_which_the_model_raises_is_the_only_failed_call(worker):
    def score(_: str, target: str) -> list[float]:
        return [1 / (len(target) - 3) - 1]

    load(worker, ScriptedModel(logprobs=score), ScriptedModel(answers={}))
    asked = [ScoreRequest("so", word) for word in ("a", "ten", "five")]
    one, failed, other = worker.work(0, asked).replies
    assert (one.logprobs, other.logprobs) == ((-1.5,), (0.0,))
    assert failed == CallFailure("server_error", "ZeroDivisionError: division by zero")
    assert isinstance(worker.work(1, asked).error, CapabilityError)


def test_a_worker_that_loads_what_the_first_could_not_is_not_the_one_that_cannot():
    lacking = ready(error=PrerequisiteError("needs torch"))
    assert unlike(lacking.models, ready()) == "node7 loaded hf:org/m@abc, which another worker cannot load: needs torch"


def ready(settings: str = "packed-8192", version: str = __version__, error: UserError | None = None) -> Ready:
    identity = None if error else ModelIdentity("hf", "org/m", "abc", settings={"sharing": settings})
    return Ready("node7", version, (Loaded(identity, error=error),))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (ready("packed-4096"), "sharing: packed-8192 and packed-4096"),
        (ready(version="0.0.1"), "node7 has goldless 0.0.1"),
        (ready(error=PrerequisiteError("needs torch")), "node7 cannot load a model that another worker loaded: needs"),
    ],
)
def test_a_worker_that_would_give_other_numbers_is_not_like_the_others(other, said):
    assert unlike(ready().models, ready()) is None
    assert said in unlike(ready().models, other)
