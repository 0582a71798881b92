"""Selecting over the wire, with a scripted scorer."""

from __future__ import annotations

import re

import aiohttp
import pytest

from goldless.apps.jury.panel import Jury
from goldless.apps.jury.server import Limits, listening
from goldless.runs.options import Options
from tests.apps.jury.jury_client import ZARN
from tests.apps.jury.jury_models import juror
from tests.support.study_files import word_scorer

pytestmark = pytest.mark.anyio


@pytest.fixture
def selector(tmp_path) -> Options:
    return Options(scorer=word_scorer(), journal=tmp_path / "j")


async def post(selecting: Options | None, *bodies, **limits):
    limited = Limits(**limits)
    found = []
    async with (
        listening(Jury([juror(ZARN)]), host="127.0.0.1", port=0, limits=limited, selecting=selecting) as url,
        aiohttp.ClientSession() as client,
    ):
        for body in bodies:
            async with client.post(f"{url}/select", json=body) as reply:
                found.append((reply.status, await reply.json()))
    return found


ONE = {"question": "Which?", "answers": ["quex", "it is zarn bluk", "zarn bluk it was"]}


async def test_the_most_informative_answer_is_chosen_and_what_it_rests_on_is_shown(selector):
    ((status, said), (_, several)) = await post(selector, ONE, {"cases": [ONE, {"answers": ["mipo tolu", "tolu"]}]})
    assert status == 200
    (choice,) = said["choices"]
    assert choice["winner"] in {1, 2}
    assert choice["text"] == ONE["answers"][choice["winner"]]
    assert {"margin", "low", "high", "peers", "decided", "samples", "missing", "runner_up"} <= set(choice)
    assert (said["metric"], said["unit"]) == ("gem-raw", "nats")
    assert several["metric"] == "gem-raw+control"
    assert len(several["choices"]) == 2


async def test_what_is_not_a_case_is_refused_and_all_wrong_ones_are_named(selector):
    bad = [
        {"answers": ["only one"]},
        {"question": 3, "answers": ["a", "b"]},
        {"cases": [ONE, {"answers": "ab"}, {"answers": []}]},
        {"cases": []},
        {**ONE, "n": 2},
        {**ONE, "tolerance": "much"},
        {"answers": ["a", "b" * 300]},
        {"answers": ["a"] * 40},
    ]
    replies = await post(selector, *bad, longest_text=200, most_samples=20)
    assert {status for status, _ in replies} == {400}
    said = [body["error"]["message"] for _, body in replies]
    assert re.search(r"cases\.1\.answers: .*; cases\.2\.answers: ", said[2])
    assert "n: Extra inputs are not permitted" in said[4]
    assert "tolerance must be" in said[5]
    assert "200 characters" in said[6]
    assert "at most 20 answers, got 40" in said[7]
