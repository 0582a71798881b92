"""Run folders of strangers, damaged ones too, and how names, texts and numbers are written; expected values by hand."""

from __future__ import annotations

import asyncio
import json
import re
import shutil

import anyio
import anyio.lowlevel
import polars as pl
import pytest
from aiohttp.test_utils import TestClient, TestServer

from goldless.apps.studio.evidence import task_page
from goldless.apps.studio.run_pages import run_list, run_page
from goldless.apps.studio.server import application
from goldless.apps.studio.site import RunSummary, Site
from goldless.concurrency import in_own_thread
from goldless.reports.run_folder import RunFolder
from tests.apps.studio.viewer_runs import listed, written_run
from tests.support.paths import FIXTURES

# --- folders of strangers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("leaderboard.json", '{"a":' * 100_000),
        ("leaderboard.json", ""),
        ("leaderboard.json", "[1]"),
        ("leaderboard.json", '{"metrics": 3, "failures": [], "study": 7}'),
        ("progress.json", '{"state": "running", "done": NaN, "total": 1e999}'),
        ("progress.json", '{"state": "running", "done": 1, "total": 1' + "0" * 400 + "}"),
        ("made_by.json", '{"made": {"score": {"at": "0001-01-01T00:00:00+14:00"}}}'),
    ],
)
def test_a_folder_that_cannot_be_read_hides_no_other(tmp_path, file, text):
    written_run(tmp_path / "good", [("m", "t1", "ann", 1.0)])
    written_run(tmp_path / "bad", [("m", "t1", "ann", 1.0)])
    (tmp_path / "bad" / file).write_text(text)
    found = {run.name: run for run in listed(tmp_path)}
    assert found["good"].results == ("m",)
    assert file != "leaderboard.json" or (found["bad"].results, found["bad"].state) == ((), "damaged")
    progress = found["bad"].progress
    assert progress is None or not progress.share
    assert "bad" in run_list(Site(tmp_path, journal=tmp_path / "j.sqlite"), {})


def test_a_folder_with_an_agreement_alone_has_results_and_a_link_to_its_report(tmp_path):
    folder = tmp_path / "runs" / "people"
    folder.mkdir(parents=True)
    said = {"study": "letters", "fingerprint": "", "convention": "default", "level": 0.95, "complete": True}
    (folder / "agreement.json").write_text(json.dumps(said | {"criteria": []}))
    (folder / "report.html").write_text("<title>r</title>")
    (found,) = listed(tmp_path / "runs")
    assert (found.study, found.results, found.state) == ("letters", ("agreement",), "complete")
    assert found.made_at is not None
    page = run_page(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite"), {}, "people")
    assert "No results yet" not in page
    assert '<h2 id="other-1">Agreement</h2>' in page
    assert '<a href="/runs/people/report">report</a>' in page


def test_a_run_page_shows_the_sentences_and_tables_of_every_other_result(tmp_path, goldless):
    out = ("--out", str(tmp_path / "runs" / "all"))
    goldless("crashtest", "sample", "--metric", "length", "--perturbation", "deletion", *out)
    goldless("score", "sample", "--metric", "length", *out)
    goldless("plan", "--cost", out[1], *out)
    page = run_page(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite"), {}, "all")
    assert re.sub("<[^>]+>", "", page).count("length passes 1 of 1 crash tests, fails none.") == 1
    assert "↓ deletion" in page
    assert "The same on 10,000 similar tasks" in page


def test_a_review_that_nobody_passed_has_results(tmp_path):
    folder = tmp_path / "runs" / "strict"
    folder.mkdir(parents=True)
    review = {"scale": "pairwise", "nobody": "no reviewer passed", "rankings": {}, "reviewers": [{"name": "r"}]}
    (folder / "review.json").write_text(json.dumps(review))
    page = run_page(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite"), {}, "strict")
    assert "No results yet" not in page
    assert "no reviewer passed" in page


# --- how things are written ------------------------------------------------------------------------------------------


def test_ratings_stand_as_they_were_given_with_their_criterion_and_each_metric_has_its_decimals(tmp_path):
    folder = written_run(
        tmp_path / "run",
        [("small", "t1", "ann", 0.1234), ("large", "t1", "ann", 87.654)],
        responses=[("t1", "ann", "a text")],
    )
    rows = {"task": ["t1"], "agent": ["ann"], "rater": ["eve"], "score": [4.25], "criterion": ["clarity"]}
    pl.DataFrame(rows).write_parquet(folder / "labels.parquet")
    page = task_page(Site(folder, journal=tmp_path / "j.sqlite"), {}, "run", 0)
    assert "<bdi>eve</bdi> on <bdi>clarity</bdi> 4.25" in page
    assert ">0.123<" in page
    assert ">87.65<" in page


def test_a_result_with_half_a_sign_is_named_on_a_page_that_can_be_sent(tmp_path):
    folder = written_run(tmp_path / "runs" / "half", [("m", "t1", "ann", 1.0)])
    (folder / "leaderboard.json").write_text(json.dumps({"study": "\ud803", "metrics": {}}))
    library = Site(tmp_path / "runs", journal=tmp_path / "j.sqlite")
    assert run_list(library, {}).encode()
    assert "leaderboard.json does not match" in run_page(library, {}, "half").encode().decode()


def test_a_run_whose_summary_cannot_be_made_is_listed_by_its_name(tmp_path, monkeypatch):
    for name in ("good", "bad"):
        written_run(tmp_path / name, [("m", "t1", "ann", 1.0)])
    whole = RunSummary.of

    def summary(run: RunFolder) -> RunSummary:
        return whole(run) if run.name == "good" else 1 // 0

    monkeypatch.setattr(RunSummary, "of", summary)
    assert {run.name: run.state for run in listed(tmp_path)} == {"good": "complete", "bad": "unknown"}


SOUND = FIXTURES / "runs" / "score"
PAGES = ("runs/run", "runs/run/tasks", "runs/run/tasks/0", "runs/run/tasks/0/agents/0", "runs/run/failures")


@pytest.mark.parametrize("how", ["cut", "list", "pages", "metric", "agent", "number"])
@pytest.mark.parametrize("table", ["tasks", "responses", "logprobs", "verdicts", "pair_scores"])
@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_async_work_runs_inside_a_worker_thread_of_a_running_loop():
    """``anyio.run`` refuses there where sniffio is installed: the thread has the context of the loop."""

    async def work() -> str:
        await anyio.lowlevel.checkpoint()
        return "done"

    assert await asyncio.to_thread(in_own_thread, work) == "done"
