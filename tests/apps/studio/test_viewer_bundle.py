"""The static site: the same pages as files, with links that lead to files."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlsplit

import pytest

from goldless.apps.studio.bundle import write_bundle
from goldless.apps.studio.site import Site
from goldless.errors import UserError
from tests.apps.studio.viewer_runs import scored_run, written_run

TEXTS = {f"t{i}": {"ann": f"zarn w{i}", "bob": f"zarn v{i}"} for i in range(5)}


@pytest.fixture
def site(tmp_path):
    scored_run(tmp_path / "runs" / "a b#c", TEXTS, tmp_path / "j.sqlite", metrics="gem-raw")
    written_run(tmp_path / "runs" / "other", [("m", "t1", "ann", 1.0)])
    (tmp_path / "runs" / "other" / "report.html").write_text("<title>report</title>")
    library = Site(tmp_path / "runs", journal=tmp_path / "j.sqlite")
    write_bundle(library, tmp_path / "site", tasks=3, maps=True)
    return tmp_path / "site"


def test_every_link_leads_to_a_file_of_the_site(site):
    pages = list(site.rglob("*.html"))
    # list; per run: leaderboard, tasks, failures; 3 tasks with 2 agents and 2 ordered pairs; 1 task with 1 agent
    made = 1 + 3 + 3 * (1 + 2 + 2) + 3 + (1 + 1)
    assert made == len([page for page in pages if page.name != "report.html"])
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8")):
            parts = urlsplit(unescape(link))
            assert not parts.scheme
            assert not parts.netloc
            assert not parts.path.startswith("/")
            if parts.path:
                assert (page.parent / parts.path).resolve().is_relative_to(site.resolve())
                assert (page.parent / parts.path).is_file(), f"{page}: {link}"


def test_the_site_says_how_many_tasks_it_holds_and_searches_their_texts(site):
    (tasks,) = [p for p in site.rglob("tasks.html") if "zarn" in p.read_text(encoding="utf-8")]
    text = tasks.read_text(encoding="utf-8")
    assert "this site has the first 3" in text
    assert "zarn w2" in text
    assert "zarn w3" not in text


def test_a_page_of_the_site_allows_nothing_but_its_own_files(site):
    for page in site.rglob("*.html"):
        if page.name != "report.html":
            text = page.read_text(encoding="utf-8")
            assert "default-src 'none'; style-src 'self' file:; script-src 'self' file:" in unescape(text)
            assert not re.search(r"<script(?![^>]*\ssrc=)", text)


def test_a_folder_with_anything_in_it_or_inside_the_runs_is_refused(site, tmp_path):
    library = Site(tmp_path / "runs", journal=tmp_path / "j.sqlite")
    with pytest.raises(UserError, match="not empty"):
        write_bundle(library, tmp_path / "site")
    with pytest.raises(UserError, match="which the viewer does not write to"):
        write_bundle(library, tmp_path / "runs" / "site")


def test_a_report_that_links_out_of_its_folder_is_not_copied_and_pages_do_not_claim_to_stay_on_this_machine(tmp_path):
    folder = written_run(tmp_path / "runs" / "other", [("m", "t1", "ann", 1.0)])
    (tmp_path / "secret.html").write_text("secret")
    (folder / "report.html").symlink_to(tmp_path / "secret.html")
    write_bundle(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite"), tmp_path / "site")
    assert not list((tmp_path / "site").rglob("report.html"))
    assert "on this machine only" not in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
