"""Strategies: two stages of prompting, in the TVD-MI paper's words or in general ones."""

from __future__ import annotations

import anyio
import pytest

from goldless.errors import UserError
from goldless.meta_evaluation.perturbations.catalogue import find_strategy
from goldless.meta_evaluation.perturbations.perturbation import perturb
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Response, Task
from goldless.studies import study_from_records

TASKS = [Task("t1", prompt="Paper one."), Task("t2", synopses={"abstract": "Abstract two."}), Task("t3")]


def write(name, writer=None, tasks=TASKS, **options):
    """The responses of a strategy to the tasks, or why they are missing."""
    study = study_from_records(tasks, [Response(task.task, "ann", "An answer.") for task in tasks], name="study")
    asked = [Response(task.task, name, "") for task in tasks]
    work = lambda: perturb(study, find_strategy(name), responses=asked, writer=writer, **options)  # noqa: E731
    return [text.text or text.failure for text in anyio.run(work)]


def asked(writer):
    return [tuple(message.content for message in call.messages) for call in writer.calls]


def test_a_response_is_written_from_the_notes_alone():
    """TVD-MI, A.2.1 and A.2.2, agents 4 and 5."""
    writer = ScriptedModel(answers={"Paper one.": "notes on one", "notes on one": " A review. "})
    made = write("brief[peer-review]", writer, TASKS[:1])
    assert made == ["A review."]
    writing = (
        "Based on the notes please write a very brief review in 1 paragraph. Calibrate to 20 percent acceptance rate."
    )
    assert asked(writer) == [
        ("Take notes on the paper for an ICLR style review.", "Paper one."),
        (writing, "notes on one"),
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "strategic-rewrite[peer-review]",
            "Make the notes read as though they are totally different results and methodology than in the main paper.",
        ),
        ("related-shift[peer-review]", "Change technical details in the notes to differ from the main paper."),
        ("standard[peer-review]", "Take notes on the paper for an ICLR style review."),
    ],
)
def test_reviews_of_agents_2_to_4_differ_in_their_notes_only(name, words):
    """TVD-MI, A.2.1 and A.2.2."""
    writer = ScriptedModel(answers=lambda _: "notes")
    write(name, writer, TASKS[:1])
    reading, writing = (said for said, _ in asked(writer))
    assert words in reading
    assert writing == (
        "Based on the notes please write an ICLR style review of the paper in 3--4 paragraphs covering methods, "
        "results and impact. Calibrate to 20 percent acceptance rate."
    )


def test_the_null_strategy_asks_nobody_and_always_says_the_same():
    """TVD-MI, A.2: agent 6."""
    made = write("null[peer-review]")
    want = "This paper presents research findings. The methodology and results appear sound."
    assert made == [want] * 3


def test_a_task_is_read_from_its_prompt_or_abstract_and_missing_with_neither():
    writer = ScriptedModel(answers=lambda r: f"on {r.messages[-1].content}")
    made = write("standard", writer, at_once=3)
    missing = CallFailure("no_synopsis", "task t3 has neither a prompt nor an abstract", attempts=0)
    assert made == ["on on Paper one.", "on on Abstract two.", missing]


def test_a_strategy_without_a_writer_is_refused():
    with pytest.raises(UserError, match="standard needs a chat model"):
        write("standard")


def test_an_unknown_strategy_is_answered_by_the_nearest():
    with pytest.raises(UserError, match=r"unknown strategy 'briefly'. Did you mean 'brief'\?"):
        find_strategy("briefly")
