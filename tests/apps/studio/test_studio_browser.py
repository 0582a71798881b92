"""The studio in a real browser: paste two texts, drop a file and run it, stop and resume; accessibility."""

from __future__ import annotations

import json
import threading

import pytest

from goldless.apps.studio.site import Studio
from tests.apps.studio.studio_server import axe_faults, known_map, tab_to, visiting
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply

pytestmark = pytest.mark.slow

TEXTS = {
    "t1": {"ann": "zarn bluk mipo tolu", "bob": "zarn bluk mipo", "cy": "<b>quex</b>"},
    "t2": {"ann": "vond rask", "bob": "rask vond ebbo", "cy": "quex"},
}
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
PATIENCE = 120_000
"""Milliseconds that a child process may take to start on a busy machine."""


@pytest.fixture
def visit(browser, tmp_path):
    with visiting(browser, Studio(tmp_path / "runs", journal=tmp_path / "j.sqlite")) as visit:
        visit.page.set_default_timeout(PATIENCE)
        yield visit


@pytest.fixture
def faults(pictures):
    """Keeps a picture of a page and returns what is wrong with it, in light and dark and on a phone."""

    def look(page, name: str) -> list[tuple[str, str]]:
        found = []
        for scheme, width in (("dark", 360), ("light", 1280)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            pictures(page, f"studio-{name}-{scheme}-{width}")
            found += axe_faults(page, **({"runOnly": ["color-contrast"]} if scheme == "dark" else {}))
        return found

    return look


FIRST, SECOND = "A cat sat. <b>Dogs</b> bark.", "The cat sat there."


def paste_two_texts_and_light_up_a_sentence(visit, faults) -> None:
    page = visit.open("paste")
    assert faults(page, "paste") == []
    page.get_by_label("First text").fill(FIRST)
    page.get_by_label("Second text").fill(SECOND)
    page.get_by_role("button", name="Show the map").click()
    page.locator("[data-map]").wait_for()
    assert "nats of information about the second text" in page.locator(".lead").inner_text()
    assert page.get_by_text("<b>Dogs</b> bark.").count() == 1
    page.get_by_role("button", name="C1: light up what it goes with").focus()
    assert page.locator("[data-sentence=P1]").get_attribute("class") == "lit"
    assert faults(page, "map") == []
    page.reload()  # the address alone is enough
    page.locator("[data-map]").wait_for()


def test_two_pasted_texts_become_a_map_whose_sentences_light_up(visit, faults, monkeypatch):
    """Leaving out the first sentence costs the other text's only one 2 nats, leaving out the second none."""
    made = known_map(FIRST, SECOND, (SECOND,), conditional=(-1.0,), marginal=(-4.0,), without=[(-3.0,), (-1.0,)])
    monkeypatch.setattr("goldless.apps.studio.maps.find_embedded", lambda: "here")
    monkeypatch.setattr("goldless.apps.studio.maps.map_of_texts", lambda *_: made)
    paste_two_texts_and_light_up_a_sentence(visit, faults)


@pytest.mark.nightly
@pytest.mark.embedded
def test_the_embedded_model_makes_a_map_of_two_pasted_texts(visit, faults, embedded_file):
    paste_two_texts_and_light_up_a_sentence(visit, faults)


@pytest.mark.nightly
def test_a_file_is_checked_planned_and_run_to_the_end_by_keyboard_alone(visit, faults, study_file):
    page = visit.open("new")
    assert faults(page, "new") == []
    page.evaluate(DROP, ["odd names.csv", "k,who,said\n1,ann,zarn\n1,bob,zarn\n"])
    page.get_by_text("cannot be read").wait_for()
    for label, column in (("task", "k"), ("agent", "who"), ("text", "said")):
        page.get_by_label(label, exact=True).fill(column)
    page.get_by_role("button", name="Read it again").click()
    page.get_by_text("read as table").wait_for()
    answers = study_file(TEXTS)
    keys, page = page.keyboard, visit.open("")
    page.on("filechooser", lambda _: None)  # intercepted from now on: the key below may be faster than the request
    tab_to(page, "a[href='/new']")
    keys.press("Enter")
    page.get_by_role("heading", name="New run").wait_for()
    tab_to(page, "#file")
    with page.expect_file_chooser() as chooser:
        keys.press("Enter")
    chooser.value.set_files(answers)
    page.get_by_text("no difference can be significant").wait_for()
    assert page.locator(".lead").first.inner_text().startswith("ready 2 tasks, 3 agents, 6 responses")
    tab_to(page, "#metric-default")
    keys.press("Space")
    tab_to(page, "summary")
    keys.press("Enter")
    tab_to(page, "#metric-length")
    keys.press("Space")
    tab_to(page, "button[data-busy='Planning …']")
    keys.press("Enter")
    page.get_by_text("No model is called.").wait_for()
    assert faults(page, "checked") == []
    tab_to(page, "#name")
    keys.press("Control+a")
    keys.type("my first run")
    tab_to(page, "button[formmethod=post]")
    keys.press("Enter")
    page.get_by_role("heading", name="length", exact=True).wait_for()
    # ann wrote 4 and 2 words
    assert page.get_by_role("row", name="ann").get_by_role("cell", name="3.0").count() == 1
    assert faults(page, "run") == []
    # from a number of the report to all evidence of a task: two clicks
    page = visit.open("runs/my%20first%20run/report")
    page.locator("a.evidence").first.click()
    page.get_by_role("link", name="All evidence on this task").first.click()
    page.wait_for_url("**/runs/my%20first%20run/tasks/*")
    assert page.get_by_text("zarn bluk mipo tolu").or_(page.get_by_text("rask vond ebbo")).count() > 0


def test_a_run_is_stopped_and_goes_on_without_asking_again(visit, faults, study_file):
    gate, asked = threading.Event(), []

    def judge(body):
        asked.append(json.dumps(body))
        if len(asked) > 3:
            gate.wait(PATIENCE / 1_000)
        return chat_reply("Yes")

    with LoopbackServer(Behaviour(chat=judge)) as server:
        page = visit.open("new")
        page.evaluate(DROP, ["answers.jsonl", study_file(TEXTS).read_text()])
        page.get_by_text("Other metrics", exact=True).click()
        page.get_by_label("The usual ones").uncheck()
        page.get_by_label("tvd-mi how well").check()
        page.get_by_text("Critic, for tvd-mi").click()
        page.get_by_label("Critic", exact=True).fill(f"{server.url}#toy")
        page.get_by_role("button", name="Run", exact=True).click()
        page.locator(".progress progress[value]").wait_for()
        assert faults(page, "watch") == []
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Resume").wait_for()
        assert faults(page, "stopped") == []
        before = len(asked)
        gate.set()
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("heading", name="tvd-mi", exact=True).wait_for()
    answered = {body for body in asked[:3] if "First response" in body}  # the others try out the server
    assert answered
    assert not answered & set(asked[before:])
