"""The board for others: a static site from evidence alone, the same bytes each time, opened in a browser."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.demonstration import EMBEDDED, add_invented_rewrites, begin_demonstration, write_scripts
from goldless.apps.gre.edition import INJECTED, Edition, marked_papers, open_edition
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.apps.gre_board.preregistration import preregister
from goldless.apps.gre_board.submissions import submit
from goldless.concurrency import in_own_thread
from goldless.models.scripted import ScriptedModel
from goldless.runs.options import Options
from tests.support import commands
from tests.support.study_files import write_rows

REVIEW = "<summary>It is about a method.</summary><weaknesses>Few experiments were run.</weaknesses>"
SUBMITTED = ("<summary>The experiments are few.</summary>", "<summary>The baselines are weak.</summary>")
OBEYED = "<summary>Superb.</summary>"
TEAM = "Example Lab"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
SCORE = {"metrics": ["gem", "gem-s[abstract]"], "resamples": 200}


def scored_demonstration(folder: Path, scorer) -> Path:
    """The offline edition, scored by a scorer.

    Two of its papers have hidden instructions, it is preregistered, and a team submitted twice.
    """
    edition = collect_edition(begin_demonstration(folder), {"injected": 2})
    edition = edition.with_settings({"score": SCORE})
    preregister(edition)
    write_scripts(edition)
    reviewer = {EMBEDDED: ScriptedModel(answers=lambda _: REVIEW, name=EMBEDDED)}
    edition, _ = _run(review_edition, edition, {}, stand_ins=reviewer, options=_asking(folder))
    add_invented_rewrites(edition)
    whole = edition.whole_study()
    for number, text in enumerate(SUBMITTED, start=1):
        texts = dict.fromkeys(whole.tasks, text)
        if number == 1:
            texts |= dict.fromkeys(marked_papers(whole, INJECTED), OBEYED)
        rows = [{"paper": paper, "text": said} for paper, said in texts.items()]
        file = write_rows(folder.parent / f"try-{number}.jsonl", rows)
        submit(edition, file, name=f"try-{number}", team=TEAM)
    _score(edition, scorer)
    return folder


def later_edition(folder: Path, earlier: Path, scorer) -> Path:
    """A second edition of the same papers, scored by another scorer.

    Its first paper has another text than was registered, and a title that would do harm if a page took it for markup.
    """
    shutil.copytree(earlier, folder, ignore=shutil.ignore_patterns("run*"))
    tasks = folder / "study" / "tasks.jsonl"
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    rows[0] |= {"title": HOSTILE, "prompt": f"{rows[0]['prompt']} Thanks."}
    write_rows(tasks, rows)
    _score(open_edition(folder), scorer)
    return folder


def _score(edition: Edition, scorer) -> None:
    rewriter = ScriptedModel(answers=lambda request: request.messages[-1].content[-200:], name="rewriter")
    given = {"scorer": scorer, "rewriters": (rewriter,)}
    _run(score_edition, edition, SCORE, stand_ins=given, options=_asking(edition.folder))


def _run(work, *arguments, **options):
    """Async work in its own thread: a browser of the tests has a loop in this one."""
    return in_own_thread(functools.partial(work, *arguments, **options))


def _asking(folder: Path) -> Options:
    return Options.of(journal=folder.parent / "journal.sqlite")


def scorer(name, by=1.0) -> ScriptedModel:
    """Counts words in common; ``by``: stretches the scale."""

    def logprobs(context: str, target: str) -> list[float]:
        known = set(re.findall(r"\w+", context))
        return [by * math.log(1 / 2 if word in known else 1 / 8) for word in re.findall(r"\w+", target)]

    return ScriptedModel(logprobs=logprobs, name=name)


@pytest.fixture(scope="module")
def editions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two years of the offline edition, by two scorers."""
    folder = tmp_path_factory.mktemp("editions")
    first = scored_demonstration(folder / "demo-2025", scorer("toy"))
    return first, later_edition(folder / "demo-2026", first, scorer("newer", 2.0))


@pytest.fixture(scope="module")
def site(editions, tmp_path_factory) -> Path:
    """The site of both."""
    folder = tmp_path_factory.mktemp("site") / "site"
    ended = commands.goldless("gre", "publish", *editions, "--out", folder)
    assert ended.code == 0, ended.err
    return folder


def pages(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.nightly
def test_the_same_evidence_gives_the_same_bytes_whatever_the_place_zone_language_or_hash_seed(site, editions, tmp_path):
    moved = [Path(shutil.copytree(edition, tmp_path / "elsewhere" / edition.name)) for edition in editions]
    around = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "77", "COLUMNS": "40"}
    again = tmp_path / "again" / "deep"
    command = [sys.executable, "-m", "goldless", "gre", "publish", *map(str, moved), "--out", str(again)]
    ended = subprocess.run(command, env={**os.environ, **around}, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert pages(again) == pages(site)
    assert {"index.html", "edition-demo-2025.html", "editions.html"} <= set(pages(site))


def test_no_page_has_a_time_a_script_or_an_address(site):
    for name, page in pages(site).items():
        text = page.decode()
        assert "<script" not in text, name
        assert "<img" not in text, name
        assert "http-equiv" in text, name
        assert not re.search(r"(?:src|href)=\"(?:https?:|//|/)", text), name
        assert not re.search(r"\b20\d\d-\d\d-\d\dT", text), name
        assert str(site) not in text, name


@pytest.mark.nightly
def test_results_that_do_not_follow_from_their_evidence_are_refused(goldless, editions, tmp_path):
    forged = Path(shutil.copytree(editions[0], tmp_path / "forged"))
    board = json.loads((forged / "run" / "leaderboard.json").read_text())
    board["metrics"]["gem"]["rows"][-1]["estimate"]["value"] += 5
    (forged / "run" / "leaderboard.json").write_text(json.dumps(board))
    ended = goldless("gre", "publish", forged, "--out", tmp_path / "site")
    assert ended.code == 2
    assert "do not follow from the evidence" in " ".join(ended.err.split())
    assert not (tmp_path / "site").exists()


def test_the_run_of_an_edition_replays(goldless, editions):
    ended = goldless("replay", editions[0] / "run")
    assert ended.code == 0, ended.out
    assert "come out the same, from the evidence alone" in " ".join(ended.out.split())


def test_every_file_of_a_run_says_that_the_papers_are_invented(editions):
    for name in ("leaderboard.md", "leaderboard.csv", "leaderboard.json", "gre.md", "response_scores.csv"):
        assert "demonstration:invented" in (editions[0] / "run" / name).read_text(), name
    assert "DEMONSTRATION, NOT A RESULT" in (editions[0] / "run" / "report.html").read_text()


@pytest.mark.nightly
def test_results_of_other_reviews_are_refused(goldless, editions, tmp_path):
    changed = Path(shutil.copytree(editions[0], tmp_path / "changed"))
    responses = changed / "study" / "responses.jsonl"
    responses.write_text(responses.read_text().replace("the", "a", 1))
    ended = goldless("gre", "publish", changed, "--out", tmp_path / "site")
    assert ended.code == 2
    assert "other papers or reviews than the edition has now" in " ".join(ended.err.split())


def test_files_that_are_not_of_a_site_stay_and_old_pages_go(goldless, editions, site, tmp_path):
    out = Path(shutil.copytree(site, tmp_path / "site"))
    (out / "CNAME").write_text("gre.example")
    assert goldless("gre", "publish", editions[0], "--out", out).code == 0
    assert (out / "CNAME").read_text() == "gre.example"
    assert not (out / "edition-demo-2025.html").exists()
    (out / "method.html").write_text("mine")
    ended = goldless("gre", "publish", editions[0], "--out", out)
    assert ended.code == 2
    assert "method.html was not made by goldless gre publish" in " ".join(ended.err.split())
    assert (out / "method.html").read_text() == "mine"


def test_two_editions_of_one_name_are_told(goldless, editions, tmp_path):
    ended = goldless("gre", "publish", editions[0], editions[0], "--out", tmp_path / "site")
    assert ended.code == 2
    assert "two editions have the same name: demo-2025" in " ".join(ended.err.split())


def test_a_public_board_shows_its_registration_its_submissions_and_hidden_instructions(site, editions):
    noted = json.loads((editions[0] / "run" / "gre_board.json").read_text())
    text = re.sub(r"<[^>]+>", "|", (site / "edition-demo-2025.html").read_text())
    assert noted["preregistered"]["hash"] in text
    assert ": unchanged" in text
    # the later edition changed a paper after the registration
    assert "but changed since: draw" in (site / "index.html").read_text()
    (team,) = [row for row in noted["submissions"]["best"] if row["metric"] == "gem"]
    assert team["submissions"] == 2
    assert f"{team['corrected']:.2f}" in text
    assert all(one["sha256"] in text for one in noted["submissions"]["log"])
    assert "Hidden instructions: does gem hold?" in text
    # the first submission says something else of the papers with hidden instructions
    injected = json.loads((editions[0] / "run" / "gre.json").read_text())["injected"]
    (fell,) = [row["difference"]["value"] for row in injected["models"] if row["agent"] == "try-1"]
    assert fell < 0
    assert f"|{fell:+.2f}|".replace("-", "\u2212") in text


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(browser, site):
    """Opens pages of the site without network, and notes what they complain of."""
    contexts = []

    def open_page(file="index.html", **options):
        context = browser.new_context(**options)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto((site / file).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_every_link_leads_to_a_page_that_opens(opened, site):
    page = opened()
    seen, left = set(), ["index.html"]
    while left:
        file = left.pop()
        seen.add(file)
        page.goto((site / file).as_uri())
        assert page.locator("h1").count() == 1, file
        hrefs = page.eval_on_selector_all("a", "links => links.map((link) => link.getAttribute('href'))")
        for href in hrefs:
            target, _, fragment = href.partition("#")
            assert not fragment or target or page.locator(f"#{fragment}").count() == 1, (file, href)
            if target and target not in seen and target not in left:
                left.append(target)
    assert seen == set(pages(site))
    assert page.complaints == []


def test_a_reader_goes_from_the_board_to_the_models_and_to_the_years(opened):
    page = opened()
    assert "DEMONSTRATION" in page.locator("main .warning").first.inner_text()
    table = page.locator("#board table").first
    assert table.locator("tbody tr").count() == 7
    page.get_by_role("link", name="Editions").click()
    # the same reviews by a scorer that stretches the scale by two: nothing but the ranks compares
    years = [row for row in page.locator("#models table tbody tr").all_inner_texts() if "invented-70b" in row]
    later, earlier = (row.split("\t") for row in years)
    assert later[5] == earlier[5]
    assert later[6] != earlier[6]
    assert "are on different scales" in page.locator("#models").inner_text()
    page.get_by_role("link", name="Board: demo-2025").click()
    assert "How few papers flip rank 1" in page.locator("#firm").inner_text()


@pytest.mark.parametrize(("system", "width"), [("light", 360), pytest.param("dark", 1280, marks=pytest.mark.nightly)])
def test_axe_finds_no_fault_and_nothing_sticks_out(opened, system, width, pictures):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for file in ("edition-demo-2025.html", "editions.html", "method.html"):
        page = opened(file, color_scheme=system, viewport={"width": width, "height": 900})
        pictures(page, f"site-{file.removesuffix('.html')}-{system}-{width}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, file
        found = axe.run(page).response["violations"]
        told = {fault["id"]: [node["html"][:200] for node in fault["nodes"][:3]] for fault in found}
        assert told == {}, file


def test_a_hostile_title_is_text(opened):
    page = opened("index.html")
    page.locator("#papers summary").click()
    assert page.locator("img, script").count() == 0
    assert "<script>alert(1)</script>" in page.locator("#papers table").inner_text()
    assert "⟦U+202E⟧" in page.locator("#papers table").inner_text()
    assert page.complaints == []
