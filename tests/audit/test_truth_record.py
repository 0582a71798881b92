"""The sentence of ``score`` on how the default metric did, where the truth was known, on studies of this kind."""

from __future__ import annotations

import re

import pytest

import goldless
from goldless.audit.truth_record import RECORD, main_script, truth_record
from goldless.models.scripted import ScriptedModel
from goldless.studies import study_from_frame
from tests.support.paths import DOCS

QUESTIONS = ("What is rain?", "Why is the sky blue?", "What do bees eat?")
SOURCE = "The council met on Monday and chose the old bridge for repair, as the new one was too dear for the town"
SUMMARIES = ("The council chose the old bridge for repair", "The new one was too dear for the town")


def study_of(prompts, texts):
    rows = [
        {"task": f"t{number}", "agent": agent, "text": f"{text} {number}", "prompt": prompt}
        for number, prompt in enumerate(prompts)
        for agent, text in zip("ab", texts, strict=True)
    ]
    return study_from_frame(rows)


STUDIES = {
    "sources": study_of([f"{SOURCE} {number}" for number in range(3)], SUMMARIES),
    "open questions": study_of(QUESTIONS, ("Water that falls", "Because of light")),
    "translations": study_of(("雨是什么", "天为什么是蓝的", "蜜蜂吃什么"), ("What is rain", "What then is rain")),
}


def known_words(context, target):
    """A word is likely if the context has it."""
    words = set(re.findall(r"\w+", context.lower()))
    return [-1.0 if word in words else -3.0 for word in re.findall(r"\w+", target.lower())] or [-1.0]


def last_note(study):
    scorer = ScriptedModel(logprobs=known_words, name="known-words")
    board = goldless.evaluate(study, metrics=["shared-info"], scorer=scorer, resamples=200).boards["shared-info"]
    return board.notes[-1]


@pytest.mark.parametrize("kind", STUDIES)
def test_the_notes_of_score_end_with_the_record_of_this_kind_of_study(kind):
    assert last_note(STUDIES[kind]) == f"Where the answer was known: {RECORD[kind]}."


def test_in_another_script_nothing_was_measured():
    study = study_of(QUESTIONS, ("Вода, которая падает", "Из-за света"))
    assert last_note(study).endswith("nothing was measured on responses in this script (cyrillic).")


def test_another_metric_has_no_such_sentence():
    board = goldless.evaluate(STUDIES["open questions"], metrics=["length"], resamples=200).boards["length"]
    assert not any("somebody knew" in note for note in board.notes)


def test_a_study_without_prompts_counts_as_open_questions():
    rows = [{"task": t, "agent": a, "text": f"{a} {t}"} for t in "uv" for a in ("one", "two")]
    said = truth_record(study_from_frame(rows), has_sources=False, uses_grounding=False, repeats_texts=False)
    assert RECORD["open questions"] in said


@pytest.mark.parametrize(
    ("texts", "script"),
    [(["Regen"], "latin"), (["雨", "です"], "cjk"), (["дождь, rain"], "cyrillic"), (["", "123"], None)],
)
def test_the_script_is_that_of_most_letters(texts, script):
    assert main_script(texts) == script


@pytest.mark.skipif(not DOCS.is_dir(), reason="installed without the docs")
def test_the_figures_are_those_of_the_decision_and_of_the_page():
    """The lowest and the highest of the sets with sources, the translations, the board."""
    decision = (DOCS / "decisions" / "0009_the_default_metric.md").read_text(encoding="utf-8")
    page = (DOCS / "truth.md").read_text(encoding="utf-8")
    assert ".769 on AlpacaEval and .572 on TED" in decision
    assert "Newsroom .812, FaithBench .607" in decision
    overlap = next(line for line in page.splitlines() if line.startswith("| word overlap |"))
    for figure in (".694", ".574", ".568", "−.04"):
        assert figure in overlap
