"""Labelling in a real browser, by keyboard from the first page; deleting a run; accessibility."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest

import goldless
from goldless.apps.studio.new_run import delete_run
from goldless.apps.studio.site import Studio
from goldless.errors import UserError
from goldless.runs.store import save_run
from goldless.studies import read_study, study_from_frame
from tests.apps.studio.studio_server import axe_faults, tab_to, visiting

pytestmark = pytest.mark.slow
AGENTS = ("anselm", "berengar", "columba")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one run: three agents on six tasks, whose names are not in their texts."""
    root = tmp_path_factory.mktemp("labelling")
    rows = [
        {"task": f"t{i}", "agent": agent, "text": f"zarn {'bluk ' * (j + 1)}{i} <b>x</b>"}
        for i in range(6)
        for j, agent in enumerate(AGENTS)
    ]
    tasks = pl.DataFrame([{"task": f"t{i}", "prompt": f"Say {i}."} for i in range(6)])
    study = study_from_frame(pl.DataFrame(rows), tasks=tasks, name="toy")
    save_run(goldless.evaluate(study, metrics=["rouge-l", "length"], resamples=200), root / "runs" / "first")
    return root / "runs"


@pytest.fixture
def page(browser, runs, tmp_path):
    with visiting(browser, Studio(runs, journal=tmp_path / "j.sqlite")) as visit:
        visit.page.studio, visit.page.root = visit.site, visit.url
        yield visit.page


def labels(runs) -> list[dict]:
    (path,) = (runs / ".studio" / "labels").glob("first-*/labels.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in rows if row["criterion"] == "short & clear"]


def wait_until_labelled(page, number: int) -> None:
    """The page after that many labels, with its script: before it is there, a page has no keys."""
    page.get_by_text(f"{number} labelled by").wait_for()
    page.wait_for_load_state()


def test_ten_pairs_are_labelled_by_keyboard_alone_from_the_first_page(page, runs):
    keys = page.keyboard
    tab_to(page, "a[href='/label']")
    keys.press("Enter")
    page.get_by_role("heading", name="Label pairs blind").wait_for()
    tab_to(page, "#rater")
    keys.type("Eve O'Hara")
    tab_to(page, "#criterion")
    keys.type("short & clear")
    keys.press("Enter")
    for number, key in enumerate("ab1t20abab"):
        wait_until_labelled(page, number)
        assert page.get_by_role("heading", name="short & clear").is_visible()
        assert not any(agent in page.content() for agent in AGENTS)
        keys.press(key)
    wait_until_labelled(page, 10)
    found = labels(runs)
    assert [row["preference"] for row in found] == [1.0, -1.0, 1.0, 0.0, -1.0, 0.0, 1.0, -1.0, 1.0, -1.0]
    assert {(row["rater"], row["criterion"]) for row in found} == {("Eve O'Hara", "short & clear")}
    assert len({(row["task"], frozenset((row["first"], row["second"]))) for row in found}) == 10

    shown = page.locator("pre.text").all_inner_texts()
    keys.press("u")
    wait_until_labelled(page, 9)
    assert labels(runs) == found[:-1]
    last = page.locator("pre.text").all_inner_texts()
    keys.press("b")
    wait_until_labelled(page, 10)
    assert labels(runs) == found
    assert page.locator("pre.text").all_inner_texts() == shown != last


def test_agreement_follows_the_labels_of_all_raters_and_pages_are_accessible(page, runs, pictures):
    faults: list[tuple[str, str]] = []

    def look(name: str) -> None:
        pictures(page, name)
        faults.extend(axe_faults(page))

    def sit(one, rater: str, keys: str) -> None:
        one.goto(f"{page.root}label/pairs?run=first&rater={rater}&criterion=kind&order=random")
        for number, key in enumerate(keys):
            wait_until_labelled(one, number)
            one.keyboard.press(key)
        wait_until_labelled(one, len(keys))

    sit(page, "Eve", "ab")
    page.get_by_text("Agreement so far").click()
    assert page.get_by_role("row", name="rouge-l").is_visible()
    look("label-light")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 800})
    look("label-dark-360")
    page.emulate_media(media="print")
    assert page.locator("pre.text").first.is_visible()
    assert not [one for one in page.locator("nav, button").all() if one.is_visible()]
    page.emulate_media(media="screen")
    page.get_by_role("link", name="Another rater or criterion").click()
    look("label-start-dark-360")
    sit(page.context.new_page(), "Dan", "ttt")
    page.goto(f"{page.root}label/pairs?run=first&rater=Eve&criterion=kind&order=random")
    page.get_by_text("Agreement so far").click()
    page.get_by_text("5 labels by 2 raters").wait_for()
    look("label-agreement-dark-360")
    assert faults == []
    (folder,) = (runs / ".studio" / "labels").glob("first-*")
    assert len([one for one in read_study(folder).preferences() if one.criterion == "kind"]) == 5


def test_a_run_is_deleted_only_after_it_is_confirmed(page, runs):
    shutil.copytree(runs / "first", runs / "second")
    page.goto(page.root)
    page.get_by_role("link", name="Delete second").click()
    page.get_by_role("link", name="Keep it").click()
    assert (runs / "second").is_dir()
    page.get_by_role("link", name="Delete second").click()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url(page.root)
    assert page.get_by_role("link", name="second").count() == 0
    assert not (runs / "second").exists()
    assert (runs / "first").is_dir()


def test_what_is_outside_the_folder_or_in_progress_is_not_deleted(page, runs, tmp_path):
    outside = tmp_path / "elsewhere"
    shutil.copytree(runs / "first", outside)
    (runs / "link").symlink_to(outside)
    (runs / "going").mkdir()
    (runs / "going" / "progress.json").write_text('{"state": "running"}')
    for name, said in (("link", "is a link"), ("going", "is in progress"), ("..", "no run"), ("elsewhere", "no run")):
        with pytest.raises(UserError, match=said):
            delete_run(page.studio, {}, name)
    assert (outside / "leaderboard.json").is_file()
    (runs / "link").unlink()
    shutil.rmtree(runs / "going")
