"""In which order questions go to a server: each beginning once, then the questions that share it."""

from __future__ import annotations

import re

import anyio
import pytest

from goldless.judging.asking import Question, find_verdicts
from goldless.judging.critic import SAME_SOURCE
from goldless.models.interface import Capabilities, ChatReply, ModelIdentity


def questions(*beginnings: str) -> list[Question]:
    return [
        Question(scale=SAME_SOURCE, first=beginning, second=f"number {i}", task="task", begins_with=beginning)
        for i, beginning in enumerate(beginnings)
    ]


class Slow:
    """Answers after a moment, and notes which questions were answered when each one was sent."""

    identity = ModelIdentity("scripted", "slow")

    def __init__(self, *, keeps_prefixes: bool) -> None:
        self.capabilities = Capabilities(chat=True, keeps_prefixes=keeps_prefixes)
        self.answered_before: dict[int, set[int]] = {}
        self._answered: set[int] = set()

    async def chat(self, request):
        i = int(re.search(r"number (\d+)", request.messages[1].content)[1])
        self.answered_before[i] = set(self._answered)
        await anyio.sleep(0.01)
        self._answered.add(i)
        return ChatReply("Yes")


@pytest.mark.anyio
async def test_a_server_that_keeps_prefixes_has_each_beginning_before_the_others_are_sent():
    model, asked = Slow(keeps_prefixes=True), questions("a", "a", "a", "b", "b", "c")
    found = await find_verdicts(model, "labels", asked, 256)
    assert [one.value for one in found] == [1.0] * 6
    before = model.answered_before
    assert before[0] == set()  # alone: it computes the instructions
    assert before[3] == before[5] == {0}
    assert all(0 in before[i] for i in (1, 2))
    assert 3 in before[4]


@pytest.mark.anyio
async def test_other_servers_are_not_kept_waiting():
    model = Slow(keeps_prefixes=False)
    await find_verdicts(model, "labels", questions("a", "a", "b"), 256)
    assert list(model.answered_before.values()) == [set()] * 3
