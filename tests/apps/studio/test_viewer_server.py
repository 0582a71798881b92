"""The viewer's server over HTTP: what it answers, to whom, and with which headers."""

from __future__ import annotations

import json
import re

import anyio
import pytest
from yarl import URL

from goldless.apps.studio.server import listening
from goldless.apps.studio.site import Site
from goldless.errors import UserError
from goldless.records import CallFailure
from tests.apps.studio.studio_server import asking
from tests.apps.studio.viewer_runs import HOSTILE, chat, scored_run
from tests.support.study_files import word_scorer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TEXTS = {"t1": {"ann": "zarn bluk", "bob": "zarn mipo"}, "t2": {"ann": "vond rask", "bob": "rask ebbo"}}


@pytest.fixture
def runs(tmp_path):
    scored_run(tmp_path / "runs" / "words", TEXTS, tmp_path / "j.sqlite", metrics="gem-raw")
    return tmp_path / "runs"


@pytest.fixture
async def viewer(runs, tmp_path):
    async with asking(Site(runs, journal=tmp_path / "j.sqlite")) as client:
        yield client


# --- pages -----------------------------------------------------------------------------------------------------------


async def test_what_is_not_there_is_a_404_that_says_so(viewer):
    for path in ("runs/word", "runs/words/tasks/2", "runs/words/tasks/0/agents/2", "runs/none/report"):
        page, _ = await viewer.ask(path, status=404)
        assert "Not found" in page
    assert "Did you mean &#39;words&#39;?" in (await viewer.ask("runs/word", status=404))[0]
    for path in ("nothing/such", "static/x.css"):
        await viewer.get(path, status=404)
    await viewer.get("runs/words/tasks/0/pairs/1/1", status=404)
    assert "order must be one of task, score" in await viewer.get("runs/words/tasks?order=size", status=400)


async def test_failures_and_retries_are_shown_with_their_cause(tmp_path):
    down = CallFailure("timeout", "no answer in 60 s <b>", attempts=4)
    scorer = word_scorer(broken=lambda context, target: down if target == "zarn mipo" and "bluk" in context else None)
    scored_run(tmp_path / "runs" / "words", TEXTS, tmp_path / "j.sqlite", metrics="gem-raw", scorer=scorer)
    async with asking(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite")) as viewer:
        page, _ = await viewer.ask("runs/words/failures")
        assert "no answer in 60 s &lt;b&gt;" in page
        assert "incomplete</span>" in (await viewer.ask("runs/words"))[0]
        assert ">missing<" in (await viewer.ask("runs/words/tasks?agent=ann"))[0]
        page, _ = await viewer.ask("runs/words/tasks?failure=timeout")
        assert "t1" in page
        assert "<bdi>t2" not in page


# --- a run that is going on ------------------------------------------------------------------------------------------


async def test_progress_is_served_by_itself_while_a_run_is_going_on(viewer, runs):
    (runs / "going").mkdir()
    progress = {"state": "running", "stage": "scoring", "done": 3, "total": 12, "tokens": 4200, "cost_usd": 0.5}
    progress |= {"failed": 1, "workers": 4, "per_second": 0.5, "seconds_left": 16.2}
    (runs / "going" / "progress.json").write_text(json.dumps(progress))
    page, _ = await viewer.ask("runs/going")
    assert 'data-live="/runs/going/progress"' in page
    part, headers = await viewer.ask("runs/going/progress")
    assert "3 of 12 (25%), 1 failed, 4 workers, 0.5 per second, 4,200 tokens, 0.5000 USD, 16 s left" in part
    assert "<html" not in part
    assert headers["X-Run-State"] == "running"
    (runs / "going" / "progress.json").write_text('{"state": "done"}')
    assert (await viewer.ask("runs/going/progress"))[1]["X-Run-State"] == "done"


# --- security --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1", "0.0.0.0"])
async def test_another_name_in_the_host_header_is_refused(viewer, host):
    """A web page whose name was made to point to this machine calls it by that name."""
    page, _ = await viewer.ask("runs/words", status=403, Host=host)
    assert "zarn" not in page


async def test_its_own_names_are_answered_and_nothing_but_reading(viewer):
    assert URL(viewer.url).host == "127.0.0.1"
    port = URL(viewer.url).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST"):
        await viewer.ask("", Host=host)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        _, headers = await viewer.ask("runs/words", method=method, status=405)
        assert headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["", "runs/words/tasks/0", "static/viewer.js", "nothing", "runs/words/progress"])
async def test_every_answer_tells_the_browser_to_run_nothing_foreign_and_keep_nothing(viewer, path):
    _, headers = await viewer.ask(path, status=404 if path == "nothing" else 200)
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("style-src", "script-src", "img-src", "connect-src", "form-action")} == {"'self'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize(
    "path",
    [
        "static/../server.py",
        "static/..%2fserver.py",
        "static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "runs/..",
        "runs/%2e%2e/tasks",
        "runs/..%2f..%2fetc/tasks",
        "runs/words%2f..%2f../tasks",
        "runs/%00/tasks",
        "runs/words/report/../../../secret",
    ],
)
async def test_no_address_leads_out_of_the_runs_folder(viewer, runs, path):
    (runs.parent / "leaderboard.json").write_text('{"study": "secret"}')
    page, _ = await viewer.ask(path, status=404)
    assert "secret" not in page.replace("/secret", "")


async def test_a_report_is_served_in_a_box_of_its_own_and_never_from_outside_its_folder(viewer, runs):
    report = runs / "words" / "report.html"
    report.unlink(missing_ok=True)
    await viewer.get("runs/words/report", status=404)
    (runs.parent / "secret.html").write_text("secret")
    report.symlink_to(runs.parent / "secret.html")
    await viewer.get("runs/words/report", status=404)
    report.unlink()
    report.write_text("<!doctype html><title>r</title><script>1</script>")
    _, headers = await viewer.ask("runs/words/report")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


async def test_other_sites_may_link_to_it_but_not_load_from_it(viewer):
    await viewer.ask("runs/words", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    await viewer.ask("runs/words", status=403, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")
    await viewer.ask("runs/words", status=403, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors")
    await viewer.ask(
        "runs/words/tasks/0/pairs/0/1?whole=1", status=403, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate"
    )


async def test_nothing_is_written_into_a_run_folder(viewer, runs):
    def state():
        return {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in (runs / "words").iterdir()}

    before = state()
    for path in ("", "runs/words", "runs/words/tasks?q=zarn", "runs/words/tasks/0/agents/0"):
        await viewer.get(path)
    assert state() == before


# --- hostile texts ---------------------------------------------------------------------------------------------------


async def test_hostile_texts_are_shown_and_never_become_markup(tmp_path):
    name = "a b#c?d&'\"<i>%2e"
    critic = {"metrics": ["gem-raw", "tvd-mi"], "critic": chat("Yes <i>"), "verdicts": "labels", "shuffles": 1}
    hostile = dict.fromkeys(("<t&1>", f"{HOSTILE['script']} {HOSTILE['rtl']}"), HOSTILE)
    scored_run(tmp_path / "runs" / name, hostile, tmp_path / "j.sqlite", **critic)
    async with asking(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite")) as viewer:
        listed, _ = await viewer.ask()
        base = re.search(r'href="/(runs/[^"]+)"', listed)[1]
        for path in ("", "/tasks", "/tasks/1", "/tasks/0/agents/0", "/tasks/1/agents/4", "/tasks/0/pairs/0/1"):
            page, _ = await viewer.ask(base + path)
            for markup in ("<script>document", 'onerror="', "</textarea>", "<i>", "<b>", "\x00", "\u202e"):
                assert markup not in page
            assert not re.search(r"<[^>]*\sstyle=", page)
        page, _ = await viewer.ask(f"{base}/tasks/0")
        for said in ("&lt;script&gt;document.title=", "before␀after␛[31mred", "⟦U+202E⟧gnp.exe", "{{ 7*7 }} {% raw %}"):
            assert said in page
        assert "The first 20,000 of 30,000 characters." in page
        whole, _ = await viewer.ask(f"{base}/tasks/0?whole=1")
        assert HOSTILE["line"] in whole


def test_a_port_that_is_taken_is_said_to_be(runs, tmp_path):
    async def twice():
        library = Site(runs, journal=tmp_path / "j.sqlite")
        async with listening(library) as url, listening(library, port=URL(url).port):
            pass

    with pytest.raises(UserError, match="Choose another port, or 0 for a free one"):
        anyio.run(twice)
