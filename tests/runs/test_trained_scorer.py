"""A scorer that was trained says so where it is asked in other words, or about tasks it was trained on."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import pytest

from goldless.records import Response, Task
from goldless.runs.explaining import explain_pair
from goldless.runs.opening import scorer_notes, task_marks
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.studies import read_study
from goldless.templates import TEMPLATES, Template

pytestmark = pytest.mark.anyio

GENERAL, PLAIN = TEMPLATES["general"], TEMPLATES["plain"]
ASKED = (Task("t1", prompt="Which bird?"), (Response("t1", "ann", "a wren"), Response("t1", "bob", "a robin")))
OTHER = (Task("t2", prompt="Which tree?"), (Response("t2", "ann", "an oak"),))


def words_of(template: Template) -> dict[str, str]:
    return {
        "name": template.name,
        "predict": template.predict,
        "synopsis_heading": template.synopsis_heading,
        "candidate_heading": template.candidate_heading,
    }


@pytest.fixture
def trained(toy_scorer):
    """Makes a scorer trained with a template, and on tasks."""

    def make(template: Template = GENERAL, *tasks):
        model = toy_scorer(tokens=lambda text: re.findall(r"\w+\W*", text))
        marks = sorted({mark for task in tasks for mark in task_marks(*task)})
        model.training_record = lambda: {"template": words_of(template), "trained_on": marks}
        return model

    return make


def test_a_template_of_ones_own_is_told_by_its_file(trained):
    own = replace(PLAIN, name="say@0123abcd", predict="Say.")
    (note,) = scorer_notes(trained(own), [GENERAL, own], [ASKED])
    assert "trained with the template say@0123abcd, but is used with general here" in note
    assert "Use --template say.toml, the file" in note


@pytest.mark.parametrize(
    "again",
    [
        ASKED,
        # another agent's response to what was asked then
        (ASKED[0], (Response("t1", "cy", "a crow"),)),
        # a response that was there then, the prompt left out
        (Task("t1"), (Response("t1", "zoe", "a robin"),)),
    ],
)
def test_a_task_trained_on_is_known_by_its_prompt_or_by_a_response(trained, again):
    (note,) = scorer_notes(trained(GENERAL, ASKED), [GENERAL], [OTHER, again])
    assert "trained on 1 of the 2 tasks scored here" in note


def test_a_scorer_without_a_record_is_not_spoken_of(toy_scorer, trained):
    empty = trained()
    empty.training_record = dict
    assert [scorer_notes(model, [PLAIN], [ASKED]) for model in (toy_scorer(), empty)] == [[], []]


async def test_a_run_and_a_map_say_it_once(trained, study_file, tmp_path):
    study = read_study(study_file())
    scorer = trained(PLAIN, *list(study)[:2])
    journal = tmp_path / "journal.sqlite"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        await evaluate_study(study, Options.of(metrics=("gem-raw",), scorer=scorer, journal=journal, resamples=100))
    told = [str(warning.message) for warning in said]
    assert ["trained with the template plain, but is used with general" in note for note in told] == [True, False]
    assert "trained on 2 of the 3 tasks" in told[1]
    asked = Options.of(scorer=scorer, journal=journal)
    with pytest.warns(UserWarning, match="trained with the template plain") as said:
        await explain_pair(study, asked, task="t3", agent="ann", peer="bob")
    assert len(said) == 1
