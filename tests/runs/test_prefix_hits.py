"""After a run, the share of its tokens that servers had in their prefix caches is said, where they say it."""

from __future__ import annotations

import pytest

from goldless.models.interface import CacheCounts
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Ledger
from goldless.runs.opening import OpenModel
from goldless.runs.options import Options

pytestmark = pytest.mark.anyio


class Served(ScriptedModel):
    """A model whose servers count as given, call by call."""

    def __init__(self, *pages: dict[str, CacheCounts]) -> None:
        super().__init__(name="toy")
        self._pages = list(pages)

    async def cache_counts(self):
        return self._pages.pop(0)

    async def recommendations(self, noise_nats):
        return ()


async def said(journal, *pages) -> list[str]:
    lines: list[str] = []
    opened = OpenModel(Served(*pages), journal, Ledger("toy", None))
    await opened.note_cached()
    await opened.say_cached(Options(say=lines.append))
    return lines


async def test_only_this_run_counts(journal):
    lines = await said(journal, {"a": CacheCounts(1000, 900)}, {"a": CacheCounts(1200, 950)})
    assert lines == ["scripted:toy: 50 of 200 prompt tokens (25%) were in the prefix cache"]


async def test_a_server_that_left_came_or_was_started_again_is_left_out(journal):
    before = {"left": CacheCounts(5000, 0), "stays": CacheCounts(100, 0), "again": CacheCounts(100, 50)}
    after = {"stays": CacheCounts(300, 100), "came": CacheCounts(700, 700), "again": CacheCounts(20, 0)}
    assert await said(journal, before, after) == [
        "scripted:toy: 100 of 200 prompt tokens (50%) were in the prefix cache"
    ]


async def test_nothing_is_said_where_servers_do_not_count_or_nothing_was_sent(journal):
    assert await said(journal, {}, {}) == []
    assert await said(journal, {"a": CacheCounts(10, 5)}, {"a": CacheCounts(10, 5)}) == []
