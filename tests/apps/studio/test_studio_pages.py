"""What the studio's pages refuse, and what they remember of runs."""

from __future__ import annotations

import json

import aiohttp
import pytest

from goldless.apps.studio import new_run
from goldless.apps.studio.site import Studio, checked_run_name
from goldless.errors import UserError
from tests.apps.studio.studio_server import asking

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TABLE = b"task,agent,text\nt1,ann,zarn\nt1,bob,<i>bluk</i>\n"


async def drop(pages, name="answers.csv", content=TABLE, status=303):
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("file", content, filename=name, content_type="text/csv")
    return await pages.post("new", form, status)


@pytest.fixture
async def pages(tmp_path):
    async with asking(Studio(tmp_path / "runs", journal=tmp_path / "j.sqlite")) as client:
        client.root = tmp_path
        await client.get(f"?token={client.site.access.token}")
        yield client


async def test_a_file_name_with_a_path_is_refused_and_nothing_is_written(pages):
    for name in ("../out.csv", "a/b.csv", "..\\out.csv", ".hidden", "..", "x" * 200 + ".csv"):
        assert "file&#39;s name must" in await drop(pages, name, status=400)
    assert [path for path in pages.root.rglob("*") if path.suffix in {".csv", ".hidden"}] == []


@pytest.mark.parametrize("name", ["a\x01b.csv", "a\x7fb.csv", "a\tb.csv", "a\0b.csv"])
async def test_a_file_name_with_a_control_character_is_refused_with_a_message(pages, name):
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = aiohttp.BytesPayload(
        head.encode() + TABLE + b"\r\n--x--\r\n", content_type="multipart/form-data; boundary=x"
    )
    assert "control characters" in await pages.post("new", body, 400)
    assert list(pages.root.rglob("*.csv")) == []


async def test_two_files_of_one_name_are_refused(pages):
    form = aiohttp.FormData()
    for _ in range(2):
        form.add_field("file", TABLE, filename="answers.csv", content_type="text/csv")
    assert "two files have the same name" in await pages.post("new", form, 400)


async def test_a_file_that_is_too_large_is_refused_and_not_kept(pages, monkeypatch):
    monkeypatch.setattr(new_run, "MOST_BYTES", 1_000)
    assert "Score large files where they are" in await drop(pages, content=b"x" * 1_001, status=413)
    assert [path for path in (pages.root / "runs").rglob("*") if path.is_file()] == []


async def test_every_problem_of_a_file_is_shown_at_once(pages):
    page = await pages.get(await drop(pages, content=b"task,agent,text\nt1,,a\nt1,bob,x\nt1,bob,y\n"))
    assert "cannot be read" in page
    assert "2 problems" in page


async def test_texts_and_names_of_a_file_are_escaped(pages):
    page = await pages.get(await drop(pages, "<i>x</i>.csv".replace("/", ""), b"task,agent,text\n<i>t,ann,\n"))
    assert "<i>" not in page
    assert "&lt;i&gt;" in page


async def test_a_form_that_the_page_cannot_send_is_refused(pages):
    place = await drop(pages)
    good = {"name": "r", "metric": "length"}
    for wrong, said in (
        ({"name": "../r"}, "a run&#39;s name must"),
        ({"name": ".studio"}, "a run&#39;s name must"),
        ({"metric": "python:evil.py:f"}, "metric must be one of"),
        ({"critic": "command:rm -rf x"}, "a metric or model that runs code cannot be chosen"),
        ({"budget": "much"}, "budget"),
        ({"column-task": "nothing"}, "the files cannot be read"),
    ):
        assert said in await pages.post(f"{place}/run", good | wrong, 400)
    assert [path.name for path in (pages.root / "runs").iterdir()] == [".studio"]
    await pages.get("new/0123456789abcdef", 404)
    await pages.get("new/..%2Fpasted", 404)
    await pages.get("runs/nothing", 404)
    await pages.post("runs/nothing/stop", {}, 400)
    await pages.post("runs/nothing/go", {}, 400)


async def test_a_name_that_is_taken_is_refused(pages):
    (pages.root / "runs" / "r").mkdir()
    assert "there is a run &#39;r&#39; already" in await pages.post(f"{await drop(pages)}/run", {"name": "r"}, 400)


async def test_texts_that_cannot_be_mapped_are_told_and_kept_in_the_form(pages):
    page = await pages.post("paste", {"first": "x" * 4_001, "second": " "}, 400)
    assert "The first text has 4,001 characters; at most 4,000 fit here" in page
    assert "The second text is empty" in page
    assert "x" * 4_001 in page
    await pages.get("paste/0123456789abcdef", 404)


def test_names_of_runs_are_plain_names_of_folders():
    for name in ("first", "Größe 7+1", "a.b"):
        assert checked_run_name(f" {name} ") == name
    for name in ("", ".", "..", "a/b", "a\\b", "-rf", "a.", "a\nb", "x" * 81):
        with pytest.raises(UserError, match="a run's name must"):
            checked_run_name(name)


async def test_a_command_survives_a_restart_of_the_studio(tmp_path):
    def studio(folder):
        return Studio(tmp_path / folder, journal=tmp_path / "j.sqlite")

    first = studio("runs")
    first.children.start("r", ["score", "x.csv"])
    first.children.end_all()
    assert studio("runs").children.command("r") == ["score", "x.csv"]
    assert studio("other").children.command("r") is None
    with pytest.raises(UserError, match="was not started here"):
        studio("other").children.go_on("r")


async def test_a_run_that_ended_early_can_go_on_until_it_is_deleted_with_its_command(pages):
    children = pages.site.children
    children.start("r", ["score", "x.csv"])
    children.end_all()
    assert "Resume" in await pages.get("runs/r")
    await pages.post("delete/r", {})
    assert not (pages.root / "runs" / "r").exists()
    assert children.command("r") is None


async def test_a_folder_of_runs_from_elsewhere_brings_no_command(pages):
    kept, run = pages.root / "runs" / ".studio" / "runs", pages.root / "runs" / "evil"
    for folder in (kept, run):
        folder.mkdir(parents=True)
    (kept / "evil.json").write_text(json.dumps({"arguments": ["score", "x.csv"]}))
    (run / "progress.json").write_text(json.dumps({"state": "interrupted"}))
    assert "Resume" not in await pages.get("runs/evil")
    assert "evil was not started here" in await pages.post("runs/evil/go", {}, 400)


@pytest.mark.parametrize("words", [["--metric", "command:sh -c x"], ["--metric=length,python:evil.py:f"]])
async def test_a_kept_command_that_runs_code_does_not_go_on(tmp_path, words):
    children = Studio(tmp_path / "runs", journal=tmp_path / "j.sqlite").children
    children.folder.mkdir(parents=True)
    (children.folder / "r.json").write_text(json.dumps({"arguments": ["score", "x.csv", *words]}))
    with pytest.raises(UserError, match="runs code cannot be chosen on a page"):
        children.go_on("r")
