"""Tasks are put to a scorer one by one, or many in one call where the scorer is faster so.

Expected numbers are counted by hand.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
import polars as pl
import pytest

import goldless
from goldless.models.canaries import CanaryReport
from goldless.models.interface import ModelIdentity, ScoreRequest
from goldless.models.scripted import ScriptedModel
from goldless.runs import collection

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no rewriter")

TASKS = 5
WORDS = ("zarn", "bluk", "mipo")


class Recording(ScriptedModel):
    """A scorer that keeps how many requests each call had."""

    def __init__(self, *, together: bool) -> None:
        super().__init__(logprobs=lambda context, target: [-1.0 - (word not in context) for word in target.split()])
        self._together = together
        self.sizes: list[int] = []

    @property
    def capabilities(self):
        return replace(super().capabilities, together=self._together)

    async def score(self, requests, deliver) -> None:
        self.sizes.append(len(requests))
        await super().score(requests, deliver)


def study():
    rows = [
        {"task": f"t{t}", "agent": agent, "text": f"w{t} {word}"}
        for t in range(TASKS)
        for agent, word in zip(("ann", "bob", "cy"), WORDS, strict=True)
    ]
    return goldless.study_from_frame(pl.DataFrame(rows))


def evaluated(scorer, journal):
    reports = []
    result = goldless.evaluate(
        study(), metrics="gem-raw", scorer=scorer, resamples=100, journal=journal, progress=reports.append
    )
    return [(row.agent, row.score) for row in result.leaderboard().rows], [
        r.done for r in reports if r.stage == "scoring"
    ]


def test_a_scorer_that_is_faster_with_many_tasks_gets_them_in_one_call_and_gives_the_same(
    tmp_path, monkeypatch: pytest.MonkeyPatch
):
    # three agents: six pairs and three marginals a task
    monkeypatch.setattr(collection, "QUESTIONS_TOGETHER", 18)
    single, many = Recording(together=False), Recording(together=True)
    one_by_one, first = evaluated(single, tmp_path / "a.sqlite")
    together, second = evaluated(many, tmp_path / "b.sqlite")
    assert together == one_by_one
    assert single.sizes[-TASKS:] == [9] * TASKS
    assert many.sizes[-3:] == [18, 18, 9]
    assert first == [0, 9, 18, 27, 36, 45]
    assert second == [0, 18, 36, 45]


class Overtaking(Recording):
    """Its first batch is tokenised and computed last; every task is about the same texts."""

    def __init__(self) -> None:
        super().__init__(together=True)
        self.asked: list[list[ScoreRequest]] = []
        self.in_flight = self.most_in_flight = 0

    @property
    def identity(self):
        return replace(super().identity, provider="embedded")

    async def read(self, contexts, targets) -> None:
        await anyio.sleep(0 if self.asked else 0.05)

    async def score(self, requests, deliver) -> None:
        self.asked.append(list(requests))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        while len(self.asked) == 1:  # noqa: ASYNC110 - the second batch, asked while this one is computed
            await anyio.sleep(0.001)
        await super().score(requests, deliver)
        self.in_flight -= 1


def test_batches_overlap_and_what_two_of_them_ask_is_always_computed_in_the_first(
    tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(collection, "QUESTIONS_TOGETHER", 9)
    monkeypatch.setattr("goldless.runs.collection.check_scorer", no_canaries)
    scorer = Overtaking()
    rows = [
        {"task": f"t{t}", "agent": agent, "text": word if agent != "ann" else f"{word} w{t}"}
        for t in range(3)
        for agent, word in zip(("ann", "bob", "cy"), WORDS, strict=True)
    ]
    goldless.evaluate(
        goldless.study_from_frame(pl.DataFrame(rows)),
        metrics="gem-raw",
        scorer=scorer,
        resamples=100,
        journal=tmp_path / "journal.sqlite",
    )
    # bob and cy say the same on every task: their two marginals and two pairs are asked with the first alone
    assert [len(call) for call in scorer.asked] == [9, 5, 5]
    assert scorer.most_in_flight == 2


async def no_canaries(*_):
    return CanaryReport(tokens_counted=True, copied_nats=-1.0, shuffled_nats=-2.0, noise_nats=0.0)


class Local(Recording):
    """A scorer that says it is a Hugging Face model of some precision and way of computing."""

    def __init__(self, **settings: str) -> None:
        super().__init__(together=False)
        self._settings = settings

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("hf", "owner/model", "0123456789abcdef", settings=self._settings)


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        ({"dtype": "float32", "sharing": "packed prefix tree"}, True),
        ({"dtype": "bfloat16", "sharing": "prefix tree"}, False),
        ({"dtype": "bfloat16", "sharing": "packed prefix tree"}, False),
    ],
)
def test_recorded_log_probabilities_of_another_precision_are_not_taken(tmp_path, other, *, taken: bool):
    first = goldless.evaluate(
        study(),
        metrics="gem-raw",
        scorer=Local(dtype="float32", sharing="prefix tree"),
        resamples=100,
        journal=tmp_path / "a.sqlite",
    )
    goldless.write_study(study(), tmp_path / "recorded")
    columns = ("scorer", "template", "rewriter", "synopsis", "task", "target", "given", "texts", "sum_logprob_nats")
    first.evidence.logprobs.select(*columns, tokens=pl.lit(2)).write_ndjson(tmp_path / "recorded" / "logprobs.jsonl")
    again = Local(**other)
    goldless.evaluate(
        goldless.read_study(tmp_path / "recorded"),
        metrics="gem-raw",
        scorer=again,
        resamples=100,
        journal=tmp_path / "b.sqlite",
    )
    # beside the canaries, nothing or everything is asked again
    assert (again.sizes[-TASKS:] == [9] * TASKS) is not taken


def test_precision_and_way_of_computing_stand_in_the_signature(tmp_path):
    scorer = Local(dtype="bfloat16", sharing="prefix tree; not packed: its attention is of another kind")
    result = goldless.evaluate(study(), metrics="gem-raw", scorer=scorer, resamples=100, journal=tmp_path / "a.sqlite")
    signature = result.leaderboard().signature
    assert "|scorer:hf:owner/model@01234567/bf16|" in signature
    assert "|dtype:bfloat16|sharing:cached|" in signature
