"""The report as a file: what it says, that it needs nothing else, and that nothing it is given can hurt it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import UserError
from goldless.reports.html import write_report
from goldless.reports.html.blocks import lexicon, section, words
from goldless.reports.run_folder import RESULTS
from goldless.signature import Signature
from tests.reports.report_folders import (
    HOSTILE,
    THREE,
    board,
    document,
    every_document,
    hostile_folder,
    leaderboard,
    write_folder,
)
from tests.support.paths import FIXTURES

SECTIONS = {
    "leaderboard": {"ranking", "leaderboard", "comparisons", "pairs"},
    "review": {"ranking", "leaderboard", "review"},
    "crash_test": {"crash-test"},
    "agreement": {"agreement"},
    "calibration": {"calibration"},
    "bias": {"bias"},
    "cost": {"cost"},
    "consistency": {"consistency"},
}


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.raw: dict[str, list[str]] = {"style": [], "script": []}
        self.sections: set[str] = set()
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag == "section":
            self.sections |= {value for key, value in attrs if key == "id"}
        self._in = tag

    def handle_data(self, data):
        if self._in in self.raw:
            self.raw[self._in].append(data)
            self._in = ""
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", "".join(self.texts))


def page_of(folder: Path) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "run", every_document())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The report on every result."""
    return page_of(write_folder(tmp_path_factory.mktemp("report") / "run", every_document()))


# --- what it says ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESULTS)
def test_a_report_has_no_section_without_data(tmp_path, name):
    page = page_of(write_folder(tmp_path, {name: every_document()[name]}))
    assert page.sections - {"asked", "glossary"} == SECTIONS[name] | ({"missing"} if name == "review" else set())


def test_the_verdict_is_what_is_decided_and_the_section_names_the_leader_with_its_interval(tmp_path):
    one = board(THREE)
    one["rows"][0]["better_than"] = ["cy"]
    caveat = "Intervals treat the peers as fixed: 3 are too few to allow for other peers."
    one["notes"] = [caveat, "Undecided: 1 of 3 differences."]
    text = page_of(write_folder(tmp_path, {"leaderboard": leaderboard(**{"gem-raw": one})})).text
    assert f"Before you trust this ranking: {caveat} " in text
    assert "ann is highest under gem-raw with 12.50 nats (95% interval 11.00 to 14.00, 4 tasks)." in text
    assert "ann and bob are tied; ann is better than cy. Nothing is missing." in text
    assert text.count("ann and bob are tied; ann is better than cy.") > 1


def test_a_run_that_is_incomplete_or_going_on_is_said_to_be(tmp_path):
    document = leaderboard() | {"complete": False, "open": 7}
    progress = {"state": "running", "stage": "scoring", "done": 3, "total": 9}
    text = page_of(write_folder(tmp_path, {"leaderboard": document, "progress": progress})).text
    assert "The run is incomplete: 7 answers missing" in text
    assert "The run is still in progress: scoring 3 of 9." in text


def test_a_score_that_is_missing_is_said_to_be_and_never_shown_as_zero(tmp_path):
    folder = write_folder(tmp_path, {"leaderboard": leaderboard(**{"gem-raw": board({**THREE, "dot": None})})})
    page = page_of(folder)
    row = re.search(r"<bdi>dot</bdi></th>(.*?)</tr>", (folder / "report.html").read_text(), re.DOTALL)[1]
    assert 'absent">no task was scored</td>' in row
    assert "8 of 32 pair scores are missing." in page.text


def test_a_judge_whose_ranks_have_nothing_to_do_with_those_of_people_is_above_one_that_reverses_them(tmp_path):
    document = every_document()["agreement"]
    for judge, value in zip(document["criteria"][0]["judges"], (-0.5, 0.0), strict=True):
        judge["correlations"][0] |= {"value": value}
    assert "judge-a is first with 0.000." in page_of(write_folder(tmp_path, {"agreement": document})).text


def test_judgements_that_could_not_be_read_are_counted_in_the_verdict_of_a_review(tmp_path):
    found = document("review") | {"failures": {"unparsable": 403}}
    for row in found["rankings"]["win rate"]["agents"]:
        row["used"] = row["asked"]
    text = page_of(write_folder(tmp_path, {"review": found})).text
    assert "403 judgements or exam answers are missing, but no score." in text
    assert "Nothing is missing" not in text


def test_a_failed_judgement_is_shown_with_its_cause_and_reply(tmp_path):
    rows = [
        {"reviewer": "judge-b", "task": "t1", "output": "I <b>cannot</b> say", "failure": "unparsable"},
        {"reviewer": "judge-b", "task": "t2", "output": "one", "failure": None},
    ]
    folder = write_folder(tmp_path, {"review": document("review")}, failed=rows)
    text = page_of(folder).text
    assert "Example: unparsable among judgements Task t1 · model judge-b I <b>cannot</b> say" in text


def test_every_part_of_the_signatures_of_runs_has_a_meaning():
    lines = re.findall(r'"signature": "([^"]+)"', "".join(file.read_text() for file in FIXTURES.rglob("*.json")))
    assert {line.partition("|")[0] for line in lines} >= {"gem-raw", "tvd-mi", "peer-review", "crash-test"}
    for line in lines:
        for one in line.split(" || "):
            assert Signature.parse(one).parts.keys() <= lexicon()["signature"].keys(), one


def test_a_report_has_a_section_for_each_result_and_every_term_that_is_linked_stands_in_the_glossary(page):
    assert set().union(*SECTIONS.values()) <= page.sections
    links = {value[1:] for _, key, value in page.attributes if key == "href" and value.startswith("#term-")}
    ids = {value for _, key, value in page.attributes if key == "id"}
    assert links
    assert links <= ids


def test_a_package_adds_a_section_and_one_that_fails_is_named_with_the_reason(whole, installed, monkeypatch):
    @section("tides", "Tides")
    def tides(run):
        yield words(f"High water in {run.study_name}.")
        yield "<b>plain text</b>"

    def storms(run):
        raise RuntimeError("no <b>wind</b>")

    module = ModuleType("toy_sections")
    vars(module).update(tides=tides, storms=storms, number=7, ranking=tides)
    monkeypatch.setitem(sys.modules, "toy_sections", module)
    names = ("tides", "storms", "number", "ranking")
    installed(*(EntryPoint(name, f"toy_sections:{name}", "goldless.sections") for name in names))
    page = page_of(whole)
    assert {"tides", "storms", "ranking"} <= page.sections
    assert "High water in letters. <b>plain text</b>" in page.text
    assert "could not be made (RuntimeError: no <b>wind</b>)" in page.text


# --- what cannot be read --------------------------------------------------------------------------------------------


def test_a_folder_without_results_is_refused_with_what_is_expected(tmp_path):
    with pytest.raises(UserError, match=r"no results to report.*leaderboard\.json"):
        write_report(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        write_report(tmp_path / "nowhere")


@pytest.mark.parametrize("broken", ["{", "[1, 2]", '"text"', "\xff"])
def test_a_document_that_cannot_be_read_is_said_in_the_page(tmp_path, broken):
    folder = write_folder(tmp_path, {"leaderboard": leaderboard()})
    (folder / "review.json").write_bytes(broken.encode("latin-1"))
    assert "Review.json" in page_of(folder).text


def test_tables_of_evidence_that_are_broken_are_said_in_the_page(tmp_path):
    folder = write_folder(tmp_path, {"leaderboard": leaderboard()})
    (folder / "response_scores.csv").write_text("a,b\n1,2\n")
    (folder / "logprobs.parquet").write_bytes(b"no parquet")
    (folder / "agents.jsonl").write_text("{")
    text = page_of(folder).text
    assert all(name in text for name in ("Response_scores.csv", "Logprobs.parquet", "Agents.jsonl"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(name=st.sampled_from(list(RESULTS)), data=st.data())
def test_no_change_to_a_document_breaks_the_report(name, data, tmp_path_factory):
    documents = every_document()
    at: object = documents[name]
    while isinstance(at, dict | list) and at:
        key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else list(range(len(at)))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            at[key] = data.draw(JSON)
            break
        at = at[key]
    page = page_of(write_folder(tmp_path_factory.mktemp("run"), documents))
    assert page.elements.count("script") == 1


# --- what it consists of --------------------------------------------------------------------------------------------


def test_the_same_results_give_the_same_bytes_and_nothing_else_is_left_in_the_folder(whole):
    before = set(whole.iterdir())
    first = write_report(whole).read_bytes()
    assert write_report(whole).read_bytes() == first
    assert set(whole.iterdir()) - before == {whole / "report.html"}


def test_the_page_refers_to_nothing_outside_itself(page):
    targets = [value for _, key, value in page.attributes if key in {"href", "src", "action", "data", "srcset"}]
    assert targets
    assert all(target.startswith("#") for target in targets)
    assert not {"img", "link", "iframe", "object", "embed", "form", "base"} & set(page.elements)
    assert all("url(" not in style and "@import" not in style for style in page.raw["style"])
    assert not [key for _, key, _ in page.attributes if key == "style" or key.startswith("on")]


def test_every_style_and_the_script_stand_in_the_policy_by_their_hash(page):
    policy = next(value for tag, key, value in page.attributes if tag == "meta" and "default-src" in value)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    found = [*page.raw["style"], *page.raw["script"]]
    assert len(found) == 5
    for text in found:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_every_table_has_a_caption_every_heading_of_it_a_scope_and_ids_are_given_once(page):
    assert page.elements.count("caption") == page.elements.count("table") > 5
    assert sum(tag == "th" and key == "scope" for tag, key, _ in page.attributes) == page.elements.count("th")
    ids = [value for _, key, value in page.attributes if key == "id"]
    assert len(ids) == len(set(ids))


# --- hostile names --------------------------------------------------------------------------------------------------


def test_hostile_names_become_text_and_nothing_else_and_reach_no_attribute(tmp_path):
    folder = hostile_folder(tmp_path / "run")
    page = page_of(folder)
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert page.elements.count("script") == 1
    assert not {"img", "b", "textarea"} & set(page.elements)
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }} {% raw %}" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
    assert "nul\u2400bell\u2407\u241b[31mred" in page.text
    allowed = re.compile(r"[-\w #.,:;()%/'=\"*+]*")
    words = ("alert", "onerror", "HYPERLINK", "xxxxx", "raw %", "right-to-left", "red")
    assert all(allowed.fullmatch(value) for _, key, value in page.attributes if key != "content")
    assert not [value for _, _, value in page.attributes for word in words if word in value]
    # a name of ten thousand characters is shown whole once, and short elsewhere
    assert text.count("x" * 10_000) == 1
    assert f"…xxxxxxxx#{hashlib.sha256(HOSTILE[-1].encode()).hexdigest()[:4]}" in text


@given(name=st.text(min_size=1, max_size=60))
def test_any_text_can_be_the_name_of_an_agent(name, tmp_path_factory):
    scores = {name: (2.0, 1.0, 3.0), "other agent": (1.0, 0.5, 1.5)}
    folder = write_folder(tmp_path_factory.mktemp("run"), {"leaderboard": leaderboard(m=board(scores))})
    page = page_of(folder)
    assert page.elements.count("script") == 1
    assert page.elements.count("table") >= 4
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", (folder / "report.html").read_text()
    )


def test_a_document_with_a_lone_surrogate_is_named_and_left_out(tmp_path):
    folder = write_folder(tmp_path, {"leaderboard": leaderboard()})
    (folder / "leaderboard.json").write_text(json.dumps(leaderboard() | {"study": "half \ud83d"}))
    assert "Leaderboard.json does not match" in page_of(folder).text
