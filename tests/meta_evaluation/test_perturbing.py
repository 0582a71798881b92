"""Perturbing the responses of a study: order, missing texts, what is unchanged, and what a writer is asked."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import polars as pl
import pytest

from goldless.errors import UserError
from goldless.meta_evaluation.perturbations.catalogue import find_perturbation, find_strategy
from goldless.meta_evaluation.perturbations.perturbation import perturb
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Response, Task
from goldless.studies import study_from_frame, study_from_records

ROWS = [
    ("t1", "ann", "Ann one. Ann two."),
    ("t1", "bob", "Bob on t1."),
    ("t2", "ann", "Just this"),
    ("t3", "ann", "Ann on t3. Again."),
]
REVIEW = "Strengths And Weaknesses:\n\nNew idea. Poor text."


@pytest.fixture
def study():
    frame = pl.DataFrame(ROWS, schema=["task", "agent", "text"], orient="row")
    tasks = pl.DataFrame({"task": ["t1", "t2", "t3"], "synopsis_abstract": ["about t1", None, "about t3"]})
    return study_from_frame(frame, tasks=tasks)


def run(study, name, responses=None, **options):
    responses = [r for _, rs in study for r in rs] if responses is None else responses
    work = lambda: perturb(study, find_perturbation(name), responses=responses, **options)  # noqa: E731
    return [SimpleNamespace(**row) for row in anyio.run(work).iter_rows(named=True)]


def one(text, name, **options):
    frame = pl.DataFrame({"task": ["t"], "agent": ["a"], "text": [text]})
    return run(study_from_frame(frame), name, **options)[0]


def echo(prefix="", **options):
    """A writer that says what it was given."""
    return ScriptedModel(answers=lambda r: prefix + r.messages[-1].content, **options)


# --- without a writer ------------------------------------------------------------------------------------------------


def test_an_unchanged_text_is_marked_and_white_space_is_no_change():
    assert one("Only one.", "deletion").unchanged
    assert one("Summary Of The Review:\n\nOnly one.", "deletion[paper]").unchanged  # joined by a space
    assert one("123 456", "case-flip").unchanged
    assert not one("abc", "case-flip").unchanged
    assert not one("Only one.", "elongation").unchanged
    assert one("No sections here.", "elongation[peer-review]").unchanged


def test_a_text_of_which_nothing_is_left_is_missing_not_empty():
    made = one("no end", "deletion[paper]")
    assert (made.text, made.unchanged) == (None, False)
    assert (made.failure, made.message) == ("not_recorded", "nothing is left of the text after deletion[paper]")


def test_shuffled_tasks_are_the_same_agents_and_one_task_alone_is_missing(study):
    made = {(row.task, row.agent): row for row in run(study, "shuffled-task")}
    own = {(task, agent): text for task, agent, text in ROWS}
    texts = {task: made[task, "ann"].text for task in ("t1", "t2", "t3")}
    assert sorted(texts.values()) == sorted(own[task, "ann"] for task in texts)
    assert all(text != own[task, "ann"] for task, text in texts.items())
    assert made["t1", "bob"].message == "bob has no response to another task"


# --- with a writer -------------------------------------------------------------------------------------------------


def test_completion_gives_the_writer_the_gaps_and_takes_what_it_fills_in():
    def fill(request):
        return request.messages[1].content.replace("[There is one missing sentence]", "Nothing new.")

    writer = ScriptedModel(answers=fill)
    made = one("One. Two. Three.", "completion", writer=writer)
    assert made.text == "One. Nothing new. Three."
    assert writer.calls[0].messages[1].content == "One. [There is one missing sentence] Three."
    one("One. Two.", "completion[peer-review]", writer=writer)
    assert one("One. Two.", "completion", writer=echo()).failure == "bad_reply"  # gaps are left
    # GEM, D.1.2: the first words of its system prompt
    opening = "You are tasked with completing missing sentences of a peer review evaluation given by the user"
    assert writer.calls[1].messages[0].content.startswith(opening)


def test_rephrasing_uses_the_papers_words_where_asked_and_marks_an_unchanged_reply():
    writer = echo()
    assert one("My review.", "rephrase[peer-review]", writer=writer).unchanged
    # GEM, D.2.1
    system = writer.calls[0].messages[0].content
    assert system.startswith("You are tasked with rewriting a peer review evaluation.")
    assert "2. Improve the writing and make the language more natural and native-sounding." in system
    assert one("My text.", "rephrase", writer=echo("Well: ")).text == "Well: My text."
    assert writer.calls[0].messages[1].content == "My review."


def test_a_response_of_the_synopsis_alone_is_asked_once_a_task_and_missing_without_one(study):
    writer = echo("Response to ")
    made = run(study, "synopsis-only", writer=writer, at_once=4)
    assert [row.text for row in made] == ["Response to about t1", "Response to about t1", None, "Response to about t3"]
    assert made[2].failure == "no_synopsis"
    assert len(writer.calls) == 2
    run(study, "synopsis-only[peer-review]", writer=writer)
    # GEM, D.1.3
    assert writer.calls[2].messages[0].content.startswith("You are given an abstract of a paper submission for a top-")


def test_a_synopsis_no_task_has_is_an_error_with_those_there_are(study):
    with pytest.raises(UserError, match=r"no task of frame has a synopsis 'assw'.*The study has: abstract"):
        run(study, "synopsis-only[assw]", writer=echo())


def test_elongation_with_summaries_asks_for_two_lines_and_puts_them_in():
    def points(request):
        return "novelty and\nrigor." if "key strengths" in request.messages[0].content else "prose and length"

    made = one(REVIEW, "elongation[peer-review-summaries]", writer=ScriptedModel(answers=points))
    assert "notable strengths, including novelty and rigor. However, there" in made.text
    assert "could be improved, such as prose and length. Specifically, I discuss" in made.text


@pytest.mark.parametrize("name", ["rephrase", "completion", "elongation[peer-review-summaries]"])
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (CallFailure("refused", "no"), "refused"),
        (ChatReply("half of", finish="length"), "truncated"),
        (ChatReply("  \n"), "bad_reply"),
    ],
)
def test_what_a_writer_fails_to_write_is_missing_with_its_cause(name, reply, kind):
    made = one(REVIEW, name, writer=ScriptedModel(answers=lambda _: reply))
    assert (made.text, made.unchanged, made.failure) == (None, False, kind)


# --- strategies: two stages of prompting, in the words of the TVD-MI paper or in general ones -------------------------

TASKS = [Task("t1", prompt="Paper one."), Task("t2", synopses={"abstract": "Abstract two."}), Task("t3")]


def write(name, writer=None, tasks=TASKS, **options):
    """The responses of a strategy to the tasks, or why they are missing."""
    study = study_from_records(tasks, [Response(task.task, "ann", "An answer.") for task in tasks], name="study")
    asked = [Response(task.task, name, "") for task in tasks]
    work = lambda: perturb(study, find_strategy(name), responses=asked, writer=writer, **options)  # noqa: E731
    return [text or message for text, message in anyio.run(work).select("text", "message").rows()]


def asked(writer):
    return [tuple(message.content for message in call.messages) for call in writer.calls]


def test_a_response_is_written_from_the_notes_alone():
    """TVD-MI, A.2.1 and A.2.2, agents 4 and 5; agent 6, the constant one, asks nobody."""
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
    want = "This paper presents research findings. The methodology and results appear sound."
    assert write("null[peer-review]") == [want] * 3


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


def test_a_task_is_read_from_its_prompt_or_abstract_and_missing_with_neither():
    writer = ScriptedModel(answers=lambda r: f"on {r.messages[-1].content}")
    made = write("standard", writer, at_once=3)
    assert made == ["on on Paper one.", "on on Abstract two.", "task t3 has neither a prompt nor an abstract"]
