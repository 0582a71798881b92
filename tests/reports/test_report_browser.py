"""The report in a browser: opened from disk with no network, sorted, themed, saved, printed, and checked by axe."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from goldless.apps.studio.access import REPORT_POLICY
from goldless.reports.html import write_report
from tests.reports.report_folders import (
    HOSTILE,
    THREE,
    board,
    every_document,
    hostile_folder,
    leaderboard,
    write_folder,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything a report can show."""
    one = board(THREE)
    one["influence"] = [
        {"agent": "ann", "task": "t3", "change": -0.5, "rank": 1, "rank_without": 1, "ranking_changes": False}
    ]
    scores = [("gem-raw", f"t{i}", agent, place + i / 4) for i in range(12) for place, agent in enumerate(THREE)]
    agents = [
        {"agent": "ann", "parameters": 7e10, "family": "letters"},
        {"agent": "bob", "parameters": 7e9, "family": "letters"},
        {"agent": "cy", "group": "human"},
    ]
    made = {
        "goldless": "0.1.0",
        "python": "3.11",
        "made": {"score": {"at": "2025-03-01T12:00:00+00:00", "spending": []}},
    }
    failed = [{"reviewer": "judge-b", "task": "t1", "output": "Both are fine.", "failure": "unparsable"}]
    documents = every_document() | {"leaderboard": leaderboard(**{"gem-raw": one}), "made_by": made}
    run = tmp_path_factory.mktemp("report") / "run"
    write_report(write_folder(run, documents, scores=scores, agents=agents, failed=failed))
    return run


class Opened:
    """A page with what it asked for and complained of."""

    def __init__(self, browser: Any, folder: Path, *, unfold: bool = True, **options: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, **options)
        self.context.set_offline(True)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto((folder / "report.html").as_uri())
        if unfold:
            self.page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")

    def download(self, button: Any) -> bytes:
        with self.page.expect_download() as waiting:
            button.click()
        return Path(waiting.value.path()).read_bytes()


@pytest.fixture
def opened(browser, folder) -> Iterator[Opened]:
    found = Opened(browser, folder)
    yield found
    found.context.close()


def column(page: Any, table: str, place: int) -> list[str]:
    return page.locator(f"{table} tbody tr > :nth-child({place})").all_inner_texts()


LEADERBOARD = "#leaderboard-1 table"


def test_the_page_opens_from_disk_without_network_or_complaint(opened, folder):
    assert opened.errors == []
    assert [url.partition(":")[0] for url in opened.requests] == ["file"]
    assert opened.page.title() == "letters · goldless report"
    assert opened.page.locator("h1").inner_text() == "letters"


def test_what_is_missing_is_sorted_last_either_way(browser, tmp_path):
    scores = {"gone": None, "low": (1.0, 0.5, 1.5), "high": (9.0, 8.0, 10.0)}
    run = write_folder(tmp_path, {"leaderboard": leaderboard(m=board(scores))})
    write_report(run)
    page = Opened(browser, run).page
    heading = page.locator(f"{LEADERBOARD} thead th", has_text="score").get_by_role("button")
    for wanted in (["high", "low", "gone"], ["low", "high", "gone"]):
        heading.click()
        assert column(page, LEADERBOARD, 2) == wanted


@pytest.mark.parametrize(("system", "first", "second"), [("light", "Dark", "Light"), ("dark", "Light", "Dark")])
def test_the_theme_is_the_systems_until_the_reader_changes_it(browser, folder, system, first, second):
    page = Opened(browser, folder, unfold=False, color_scheme=system).page
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    assert before == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 27)"}[system]
    page.get_by_role("button", name=f"{first} colours").click()
    assert page.evaluate(ground) != before
    page.get_by_role("button", name=f"{second} colours").click()
    assert page.evaluate(ground) == before


def test_the_svg_of_a_figure_is_whole_and_knows_its_colours(opened):
    button = opened.page.locator("#leaderboard-1").get_by_role("button", name="Download SVG")
    root = ET.fromstring(opened.download(button))
    text = ET.tostring(root, encoding="unicode")
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(--" not in text
    assert {"ann", "bob", "cy"} <= {found.text for found in root.iter("{http://www.w3.org/2000/svg}text")}


def test_the_png_of_a_figure_is_one_and_is_not_empty(opened):
    for figure in ("leaderboard-1", "comparisons-1", "tasks-1"):
        png = opened.download(opened.page.locator(f"#{figure}").get_by_role("button", name="Download PNG"))
        assert png.startswith(b"\x89PNG\r\n\x1a\n"), figure
        assert int.from_bytes(png[16:20], "big") >= 600, figure
        assert len(png) > 4000, figure
    assert opened.errors == []


def test_the_csv_of_a_figure_has_the_numbers_of_the_run_to_the_last_digit(browser, tmp_path):
    scores = {"ann": (1 / 3, 0.1 + 0.2, 2 / 3), "bob, the second": (-1e-7, -2e-7, 1e-9), "gone": None}
    run = write_folder(tmp_path, {"leaderboard": leaderboard(m=board(scores))})
    write_report(run)
    opened = Opened(browser, run)
    text = opened.download(opened.page.locator("#leaderboard-1").get_by_role("button", name="Download CSV")).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["agent"] for row in rows] == list(scores)
    assert [float(rows[i]["score"]) for i in (0, 1)] == [1 / 3, -1e-7]
    assert float(rows[0]["95% low"]) == 0.1 + 0.2
    assert rows[2]["score"] == ""


def test_hostile_names_are_shown_as_text_and_run_nothing(browser, tmp_path):
    run = hostile_folder(tmp_path / "run")
    write_report(run)
    opened = Opened(browser, run)
    dialogs: list[str] = []
    opened.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    agents = column(opened.page, LEADERBOARD, 2)
    assert agents[:3] == list(HOSTILE[:3])
    assert agents[3] == "⟦U+202E⟧right-to-left⟦U+2066⟧"
    assert opened.page.locator("script").count() == 1
    text = opened.download(opened.page.locator("#leaderboard-1").get_by_role("button", name="Download CSV")).decode()
    assert [row["agent"] for row in csv.DictReader(io.StringIO(text))][5] == "'" + HOSTILE[5]
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert (dialogs, opened.errors) == ([], [])


def faults(page: Any, options: dict[str, Any]) -> dict[str, list[str]]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return {fault["id"]: [node["html"][:200] for node in fault["nodes"][:3]] for fault in found}


def test_axe_finds_no_fault_in_light_and_enough_contrast_in_the_dark(browser, folder):
    page = Opened(browser, folder, unfold=False, color_scheme="light").page
    assert faults(page, {}) == {}
    page.emulate_media(color_scheme="dark")
    assert faults(page, {"runOnly": ["color-contrast"]}) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_no_fault_with_everything_unfolded(browser, folder, system, width, pictures):
    page = Opened(browser, folder, color_scheme=system, viewport={"width": width, "height": 900}).page
    pictures(page, f"report-{system}-{width}")
    assert faults(page, {}) == {}


def test_nothing_sticks_out_of_the_page_on_a_phone(browser, folder):
    page = Opened(browser, folder, viewport={"width": 360, "height": 844}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    # a caption keeps clear of the shadow at the edge of its table, and the agents' names stay where they are
    table = page.locator(".scroll:has(.matrix)")
    edges = "(box) => [box, box.querySelector('caption')].map((one) => one.getBoundingClientRect().right)"
    edge, caption = table.evaluate(edges)
    assert caption <= edge - 8
    table.evaluate("(box) => { box.scrollLeft = 200; }")
    assert page.locator(".matrix tbody th").first.bounding_box()["x"] == table.bounding_box()["x"]


def test_print_is_light_whatever_the_theme_and_has_no_buttons(browser, folder):
    page = Opened(browser, folder, unfold=False, color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('main h2')).color") == "rgb(27, 30, 34)"
    assert not page.locator(".tools").first.is_visible()
    assert not page.locator("nav").is_visible()


# --- several metrics and their texts ---------------------------------------------------------------------------------

METRICS = {
    "gem-raw": ("ann", "bob", "cy"),
    "bartscore": ("bob", "cy", "ann"),
    "gem-raw+control": ("ann", "bob", "cy"),
    "rouge-l": ("ann", "cy", "bob"),
    "length": ("cy", "ann", "bob"),
}
TASKS = 12


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five metrics over twelve tasks: under each, the first agent is ahead of the second most on the last task."""
    run = tmp_path_factory.mktemp("report") / "five"
    boards, scores = {}, []
    for metric, order in METRICS.items():
        boards[metric] = board({agent: (9.0 - place, 8.5 - place, 9.5 - place) for place, agent in enumerate(order)})
        for task in range(TASKS):
            scores += [(metric, f"t{task}", agent, 9.0 - place * task) for place, agent in enumerate(order)]
    write_folder(run, {"leaderboard": leaderboard(**boards)}, scores=scores)
    tasks = [f"t{task}" for task in range(TASKS)]
    prompts = pl.DataFrame({"task": tasks, "prompt": [f"Question {task}?" for task in tasks]})
    prompts.write_parquet(run / "tasks.parquet")
    texts = [(task, agent, f"{agent} answers {task} at length. " * 20) for task in tasks for agent in THREE]
    pl.DataFrame(texts, schema=["task", "agent", "text"], orient="row").write_parquet(run / "responses.parquet")
    write_report(run)
    return run


def ranked(page: Any) -> list[str]:
    return page.locator(".matrix tbody th").all_inner_texts()


def test_the_switch_sorts_the_ranking_and_changes_what_is_shown(browser, five):
    page = Opened(browser, five, unfold=False).page
    assert ranked(page) == ["ann", "bob", "cy"]
    assert page.locator("#comparisons figure:visible h3").all_inner_texts() == ["Differences: gem-raw"]
    page.get_by_role("radio", name="bartscore").check()
    assert ranked(page) == ["bob", "cy", "ann"]
    assert page.locator("#comparisons figure:visible h3").all_inner_texts() == ["Differences: bartscore"]
    assert page.locator(".matrix thead th:visible").last.inner_text() == "missing"


def test_without_scripts_the_switch_still_chooses_the_metric(browser, five):
    page = Opened(browser, five, unfold=False, java_script_enabled=False).page
    page.get_by_role("radio", name="length").check()
    assert page.locator("#comparisons figure:visible h3").all_inner_texts() == ["Differences: length"]


def test_a_score_leads_to_its_texts_and_texts_can_be_searched(browser, five):
    page = Opened(browser, five, unfold=False).page
    # under gem-raw ann is ahead of bob by the number of the task: most on t11
    first = page.locator(".card:visible").first
    assert first.locator("summary").inner_text().startswith("t11 ann 9.00, bob −2.00 (+11.00)")
    assert first.locator("article:visible h3 bdi").all_inner_texts() == ["ann", "bob"]
    page.locator(".matrix tbody tr", has_text="cy").locator("a.evidence").first.click()
    assert "cy answers" in page.locator(".card:visible").first.inner_text()
    # bob leads it, and ann stays on the left; by key, as a click would miss while the page scrolls to the card
    page.get_by_role("radio", name="bartscore").press("Space")
    names = first.locator("article:visible h3 bdi").all_inner_texts()
    assert [first.locator("summary").inner_text().find(name) for name in names] == sorted(
        first.locator("summary").inner_text().find(name) for name in names
    )
    page.get_by_role("radio", name="gem-raw", exact=True).press("Space")
    # a cell of the heat map, and the same number in its table, lead to texts of both agents
    for number in (
        page.locator("#comparisons figure:visible svg [data-of='0 1 2']"),
        page.locator("#comparisons figure:visible table [data-of='0 1 2'] a.evidence"),
    ):
        page.evaluate("document.querySelectorAll('details.data').forEach((fold) => { fold.open = true; })")
        number.click()
        assert page.locator(".card[open]:visible article:visible h3 bdi").all_inner_texts() == ["bob", "cy"]
        assert [who.input_value() for who in page.locator(".who").all()] == ["1", "2"]
        page.locator(".who").first.select_option("")
    page.locator(".who").last.select_option("")
    page.get_by_label("Search these texts").fill("Question t11?")
    assert page.locator(".card:visible summary .name").all_inner_texts() == ["t11"]


def test_five_metrics_are_at_most_four_printed_pages_and_few_tab_stops(browser, five):
    page = Opened(browser, five, unfold=False).page
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page[^s]", pdf)) <= 4
    stops = "[...document.querySelectorAll('a[href],button,input,select,summary,[tabindex]')]"
    assert page.evaluate(f"{stops}.filter((one) => one.tabIndex >= 0 && one.checkVisibility()).length") < 80


def test_charts_say_their_finding_to_those_who_cannot_see_them(opened):
    drawn = opened.page.locator("svg.chart[role=img]")
    assert drawn.count() == opened.page.locator("svg.chart[role=img] > desc").count() > 10


def test_served_by_the_viewer_the_report_links_to_the_evidence_of_a_task(browser, five):
    page = browser.new_context().new_page()
    site = "http://127.0.0.1:9/runs/five"
    headers = {"Content-Security-Policy": REPORT_POLICY, "Content-Type": "text/html; charset=utf-8"}
    page.route("**/*", lambda route: route.fulfill(body=f"page {route.request.url}"))
    page.route(f"{site}/report", lambda route: route.fulfill(body=(five / "report.html").read_bytes(), headers=headers))
    page.goto(f"{site}/report")
    page.locator(".card[open] a.viewer:visible").first.click()
    page.wait_for_url(f"{site}/tasks/11")


def test_a_table_is_sorted_by_keyboard(opened):
    heading = opened.page.locator(f"{LEADERBOARD} thead th", has_text="agent").get_by_role("button")
    heading.focus()
    opened.page.keyboard.press("Enter")
    assert column(opened.page, LEADERBOARD, 2) == ["ann", "bob", "cy"]
    opened.page.keyboard.press(" ")
    assert column(opened.page, LEADERBOARD, 2) == ["cy", "bob", "ann"]


def test_every_figure_can_be_saved_and_has_its_data_below(opened):
    figures = opened.page.locator("figure:visible")
    assert figures.count() >= 12
    for figure in figures.all():
        assert figure.locator("details.data table").count() >= 1
        for kind in ("SVG", "PNG", "CSV"):
            assert figure.get_by_role("button", name=f"Download {kind}").first.is_visible()


def test_the_keyboard_reaches_the_results_past_the_contents(opened):
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.textContent") == "Skip to the results"
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("location.hash") == "#content"
