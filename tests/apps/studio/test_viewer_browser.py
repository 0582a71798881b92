"""The viewer in a real browser: sort, filter, search, compare, open a task; hostile texts; accessibility."""

from __future__ import annotations

import json
import shutil

import pytest

from goldless.apps.studio.site import Site
from tests.apps.studio.studio_server import axe_faults, known_map, visiting
from tests.apps.studio.viewer_runs import HOSTILE, chat, scored_run
from tests.support.study_files import word_scorer

TEXTS = {
    "t1": {"ann": "zarn bluk", "bob": "zarn mipo", "cy": "quex"},
    "t2": {"ann": "vond rask", "bob": "rask ebbo vond", "cy": "quex"},
    "t3": {"ann": "lirp hoft hoft", "bob": "lirp hoft", "cy": "nothing alike"},
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Runs that all tests of this file look at; made once, with a journal of their own."""
    root = tmp_path_factory.mktemp("viewer")
    journal = root / "j.sqlite"
    scored_run(root / "runs" / "words", TEXTS, journal, metrics="gem-raw")
    scored_run(root / "runs" / "plain", TEXTS, journal, metrics="gem-raw", template="plain")
    hostile = {"t1": HOSTILE, "t2": HOSTILE}
    critic = chat(HOSTILE["script"], "Yes")
    options = {"metrics": ["gem-raw", "tvd-mi"], "critic": critic, "verdicts": "labels", "shuffles": 1}
    scored_run(root / "runs" / "hostile", hostile, journal, scorer=word_scorer(), **options)
    return root


@pytest.fixture
def view(browser, shelf):
    with visiting(browser, Site(shelf / "runs", journal=shelf / "j.sqlite")) as visit:
        yield visit


def names(page) -> list[str]:
    return page.locator("tbody th[scope=row]").all_inner_texts()


# --- what a reader does ----------------------------------------------------------------------------------------------


def test_a_reader_sorts_filters_searches_and_compares_and_gets_to_a_prompt(view):
    page = view.open()
    page.get_by_role("link", name="words", exact=True).click()
    page.get_by_role("row").nth(1).get_by_role("link").first.click()
    page.locator("tbody th a").first.click()
    folded = page.locator("details.evidence").nth(1)
    folded.locator("summary").first.click()
    assert folded.get_by_text("The exact prompt sent to the model.").is_visible()
    view.open("runs/words/tasks")
    assert names(page) == ["t1", "t2", "t3"]
    page.get_by_role("link", name="score").click()
    down = names(page)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("score")
    page.get_by_role("link", name="score").click()
    assert names(page) == down[::-1]
    page.get_by_label("Search").fill("EBBO")
    page.get_by_label("Search").press("Enter")
    assert names(page) == ["t2"]
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Agent").select_option("cy")
    page.get_by_label("Score from").fill("0.5")
    page.get_by_role("button", name="Apply").click()
    # cy shares no word with anybody, so it tells nothing on any task
    assert page.get_by_text("No task matches.").is_visible()
    view.open("compare")
    page.get_by_label("First").select_option("words")
    page.get_by_label("Second").select_option("plain")
    page.get_by_role("button", name="Compare").click()
    assert page.get_by_text("template").is_visible()  # the runs asked in other words, which the command refuses too


def test_a_page_of_a_running_run_shows_its_progress_without_being_asked(view, shelf):
    folder = shelf / "runs" / "going"
    folder.mkdir(exist_ok=True)
    progress = folder / "progress.json"
    progress.write_text('{"state": "running", "stage": "scoring", "done": 1, "total": 4}')
    page = view.open("runs/going")
    page.get_by_text("1 of 4").wait_for()
    board = {"metric": "gem", "unit": "nats", "rows": [{"agent": "<ann>", "score": 1.25, "tasks": 3}]}
    now = {"state": "running", "stage": "scoring", "done": 3, "total": 4, "so_far": [board]}
    progress.write_text(json.dumps(now))
    page.get_by_text("3 of 4").wait_for()
    assert page.get_by_role("heading", name="gem, so far").is_visible()
    assert page.get_by_role("row", name="<ann> 1.250 3").is_visible()
    progress.write_text('{"state": "done"}')
    page.get_by_text("no results").wait_for()
    shutil.rmtree(folder)


def test_keys_lead_from_the_list_to_a_text_and_show_what_they_do(view):
    page = view.open()
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("plain")
    page.keyboard.press("Enter")
    page.get_by_text("1 of 3 runs").wait_for()
    page.wait_for_load_state()  # its keys are there
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="plain").wait_for()
    page.get_by_role("link", name="Side by side").click()
    assert page.locator("section.two h2").count() == 3
    assert page.locator("section.two mark").count() > 0
    page.wait_for_load_state()
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("section.two h2").nth(1).inner_text()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=second, exact=True).wait_for()
    view.open("runs/plain/tasks/0")
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="t2", exact=True).wait_for()
    page.wait_for_load_state()  # its keys are there
    page.keyboard.press("ArrowLeft")
    page.get_by_role("heading", name="t1", exact=True).wait_for()
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Use these keys").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("heading", name="t1", exact=True).is_visible()


def test_a_sentence_of_a_map_lights_up_those_that_lose_without_it(view, monkeypatch):
    """Leaving out the first of two sentences costs the peer's second 2 nats and its first 0.1; the other costs 1."""
    nats = {"conditional": (-1.0, -1.0), "marginal": (-4.0, -4.0), "without": [(-1.1, -3.0), (-2.0, -1.0)]}
    made = known_map("One. Two.", "Un. Deux.", ("Un.", " Deux."), **nats)
    monkeypatch.setattr("goldless.apps.studio.maps.offers_whole_map", lambda _: True)
    monkeypatch.setattr("goldless.apps.studio.maps.whole_map", lambda *_: made)
    page = view.open("runs/words/tasks/0/pairs/0/1")
    page.get_by_role("link", name="Compute now").click()
    lit = page.locator("li.lit .label")
    page.get_by_role("button", name="C1").hover()
    assert lit.all_inner_texts() == ["C1", "P2"]
    assert page.locator("[data-lit]").inner_text() == "Without C1, this many nats would be lost: P2 2.00."
    page.get_by_role("button", name="P1").focus()
    assert lit.all_inner_texts() == ["C2", "P1"]
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Information map").hover()
    page.keyboard.press("Tab")
    assert lit.all_inner_texts() == ["C1", "P2"]


def test_the_keyboard_reaches_the_content_first_and_scrolls_texts(view):
    page = view.open("runs/words/tasks/0")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.locator("pre.text:not([tabindex='0'])").count() == 0


# --- hostile texts ---------------------------------------------------------------------------------------------------


def test_hostile_texts_show_as_text_and_run_nothing(view):
    for path in ("", "/tasks", "/tasks/0", "/tasks/0/agents/0", "/tasks/0/agents/5", "/tasks/0/pairs/0/1"):
        page = view.open(f"runs/hostile{path}")
        assert "run" not in page.title().split(" · ")[0].split()
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page = view.open("runs/hostile/tasks/0")
    shown = page.locator("article pre.text").all_inner_texts()
    assert HOSTILE["script"] in shown
    assert HOSTILE["textarea"] in shown
    assert "before␀after␛[31mred" in shown
    assert page.get_by_role("heading", name="escaped").count() == 0


def test_the_policy_stops_a_script_that_got_into_a_page(view):
    page = view.open("runs/words")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'document.title = 1'}))")
    assert page.title() != "1"
    assert len(view.said) == 1
    assert "Content Security Policy" in view.said.pop()


# --- how it looks ----------------------------------------------------------------------------------------------------

PAGES = {
    "runs": "",
    "run": "runs/words",
    "tasks": "runs/words/tasks?agent=ann&order=score",
    "task": "runs/words/tasks/0",
    "response": "runs/words/tasks/0/agents/0",
    "verdicts": "runs/hostile/tasks/0/agents/0",
    "map": "runs/words/tasks/0/pairs/0/1",
    "side": "runs/words/side-by-side",
    "failures": "runs/words/failures",
    "compare": "compare?first=words&second=plain",
    "problem": "runs/none",
}


def unfolded(view, path: str):
    page = view.open(path)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    view.said[:] = [line for line in view.said if "404" not in line]  # one of the pages is that of a run that is none
    return page


def faults(view, path: str, scheme: str, **options) -> list[tuple[str, str]]:
    view.page.emulate_media(color_scheme=scheme)
    return axe_faults(unfolded(view, path), **options)


def test_nothing_sticks_out_of_any_page(view, pictures):
    for name, path in PAGES.items():
        page = unfolded(view, path)
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            pictures(page, f"viewer-{name}-light-{width}")
            inside = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert inside, (name, width)


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        (("run", "tasks", "response", "map", "compare"), "light"),
        *(pytest.param(tuple(PAGES), scheme, marks=pytest.mark.nightly) for scheme in ("light", "dark")),
    ],
)
def test_axe_finds_no_fault(view, names, scheme):
    assert [fault for name in names for fault in faults(view, PAGES[name], scheme)] == []


def test_colours_have_enough_contrast_in_the_dark(view):
    assert faults(view, PAGES["task"], "dark", runOnly=["color-contrast"]) == []
