"""The prompts are those of the paper, and what is absent is said to be."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from goldless.errors import UserError
from goldless.templates import NOT_AVAILABLE, PEER_REVIEW, TEMPLATES, find_template
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def paper() -> str:
    """The text of the GEM paper, with whitespace and quotation marks made alike."""
    beside = ROOT.parent / "shared" / "papers"
    path = Path(os.environ.get("GOLDLESS_PAPERS", beside)) / "gem_gre_bench.txt"
    if not path.is_file():
        pytest.skip("no papers: set GOLDLESS_PAPERS to their folder")
    return alike(path.read_text(encoding="utf-8"))


def alike(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub('[‘’“”"]', "'", text)).strip()


@pytest.mark.recorded
def test_the_rewriting_prompt_is_the_papers_c_1(paper):
    section = paper.split("C.1 Judgments Preprocessing")[1].split("C.2 Judgments Prediction")[0]
    assert alike(PEER_REVIEW.rewrite) in section
    prompt = section.split("System Prompt")[1].split("User Prompt")[0].strip()
    assert alike(PEER_REVIEW.rewrite) == prompt, "whole and nothing more"


@pytest.mark.recorded
def test_the_predicting_prompt_is_the_papers_c_2(paper):
    section = paper.split("C.2 Judgments Prediction")[1]
    assert alike(PEER_REVIEW.predict) == section.split("System Prompt")[1].split("User Prompt")[0].strip()


@pytest.mark.recorded
def test_the_question_has_the_papers_headings_in_its_order(paper):
    section = paper.split("C.2 Judgments Prediction")[1].split("User Prompt")[1].split("Forced LLM Output")[0]
    filled = alike(re.sub(r"\{[^}]*\}", "x", section))
    assert filled == alike(PEER_REVIEW.question("x", "x"))


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_an_absent_synopsis_or_candidate_is_not_available(template):
    assert NOT_AVAILABLE == "Not available"
    neither = template.question(None, None)
    assert neither.count("Not available") == 2
    assert neither == template.question("Not available", "Not available")


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_what_all_questions_share_comes_first_and_the_candidate_last(template):
    question = template.question("the synopsis", "the candidate")
    assert question.endswith("the candidate")
    assert question.index("the synopsis") < question.index("the candidate")


def test_an_unknown_template_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UserError, match=r"unknown template 'peer-revue'. Did you mean 'peer-review'\? Known: general"):
        find_template("peer-revue")
    with pytest.raises(UserError, match=r"unknown template 'xyzzy'\. Known: general, plain, peer-review, or a file"):
        find_template("xyzzy")


# --- templates of one's own --------------------------------------------------------------------------------------

OWN = """
rewrite = "List the points."
predict = "You are the second one."
synopsis_heading = "[About]"
candidate_heading = "[First]"
"""


def test_a_template_of_ones_own_is_read_from_a_file_and_its_name_tells_versions_apart(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    first = find_template(str(path))
    assert first.question(None, "x") == "[About]\n\nNot available\n\n[First]\n\nx"
    path.write_text(OWN.replace("second one", "other one"))
    second = find_template(str(path))
    assert first.name.startswith("mine@")
    assert second.name.startswith("mine@")
    assert first.name != second.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("[First]", " "), "lacks a text for candidate_heading"),
        (OWN + 'colour = "red"', "has colour"),
        ("rewrite = ", "cannot read this template"),
        (f"rewrite = {'[' * 5000}", "cannot read this template"),
        (None, "cannot read this template"),
    ],
)
def test_a_template_file_that_is_wrong_is_refused_with_what_it_must_have(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message):
        find_template(str(path))
