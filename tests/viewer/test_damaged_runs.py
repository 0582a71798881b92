"""A damaged run folder is a page that says which file it is, never an error of the viewer."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import anyio
import anyio.lowlevel
import polars as pl
import pytest
from aiohttp.test_utils import TestClient, TestServer

from goldless.apps.studio.server import application
from goldless.apps.studio.site import Site
from goldless.concurrency import in_own_thread

pytestmark = pytest.mark.anyio
SOUND = Path(__file__).parents[1] / "fixtures" / "runs_of_0_1_0" / "score"
PAGES = ("runs/run", "runs/run/tasks", "runs/run/tasks/0", "runs/run/tasks/0/agents/0", "runs/run/failures")


@pytest.mark.parametrize("how", ["cut", "list", "pages", "metric", "agent", "number"])
@pytest.mark.parametrize("table", ["tasks", "responses", "logprobs", "verdicts", "pair_scores"])
async def test_a_damaged_table_is_named_on_the_page(tmp_path, table, how):
    shutil.copytree(SOUND, tmp_path / "runs" / "run")
    file = next(
        p for p in sorted((tmp_path / "runs" / "run").rglob("*.parquet")) if table in str(p.relative_to(tmp_path))
    )
    if how == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    elif how == "list":
        pl.read_parquet(file).with_columns(task=pl.lit([1])).write_parquet(file)
    elif how == "number":
        pl.read_parquet(file).with_columns(text=1.5, prompt=1.5, reference=pl.date(2026, 1, 2)).write_parquet(file)
    elif how in {"metric", "agent"}:
        pl.read_parquet(file).drop(how, strict=False).write_parquet(file)
    else:
        data = bytearray(file.read_bytes())
        data[4:40] = b"\xff" * 36
        file.write_bytes(data)
    library = Site(tmp_path / "runs", journal=tmp_path / "journal.sqlite")
    async with TestClient(TestServer(application(library))) as client:
        for page in PAGES:
            reply = await client.get(f"/{page}", headers={"Host": "127.0.0.1"})
            text = await reply.text()
            assert reply.status in {200, 404, 422}, (page, text[-600:])
            assert reply.status != 422 or table in text


@pytest.mark.parametrize("made", [{"task": [1]}, {"score": "high"}, {"task": "unknown"}])
def test_a_damaged_table_of_pairs_is_told_by_compare(goldless, tmp_path, made):
    shutil.copytree(SOUND, tmp_path / "run")
    file = next((tmp_path / "run").rglob("pair_scores*.parquet"))
    pairs = pl.read_parquet(file)
    first, second = pairs["agent"].unique().sort()[:2]
    pairs.with_columns(**{name: pl.lit(value) for name, value in made.items()}).write_parquet(file)
    ended = goldless("compare", tmp_path / "run", "--agents", f"{first},{second}", "--metric", pairs["metric"][0])
    assert ended.code in {0, 2}
    assert ended.code == 0 or "pair_scores" in ended.err


async def test_async_work_runs_inside_a_worker_thread_of_a_running_loop():
    """``anyio.run`` refuses there where sniffio is installed: the thread has the context of the loop."""

    async def work() -> str:
        await anyio.lowlevel.checkpoint()
        return "done"

    assert await asyncio.to_thread(in_own_thread, work) == "done"
