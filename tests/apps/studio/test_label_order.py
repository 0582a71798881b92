"""Which pair is next and on which side, where labels are written, and what they say; expected values by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter

import polars as pl
import pytest

from goldless.apps.studio.labels import (
    Desk,
    LabelSession,
    Pair,
    decide_question,
    next_pair,
    read_sitting,
)
from goldless.apps.studio.site import Site
from goldless.errors import UserError
from goldless.meta_evaluation.agreement import preference_agreement
from goldless.records import Preference
from goldless.studies import read_study, study_from_frame, write_study
from goldless.studies.writing import change_labels

ANSWERS = {f"t{i:02}": ("ann", "bob", "cy") for i in range(40)}
RANDOM = LabelSession("eve", order="random")
DECISIVE = LabelSession("eve")


def labelled(answers, sitting, preference, *, before=(), most=10_000):
    """Labels of a rater who judges all pairs that are shown, in the order in which they were; ``before``: others'."""
    found: list[Preference] = []
    while len(found) < most and (pair := next_pair(answers, sitting, [*before, *found])) is not None:
        found.append(Preference(pair.task, pair.left, pair.right, sitting.rater, preference(pair)))
    return found


@pytest.mark.parametrize("sitting", [DECISIVE, RANDOM])
def test_every_pair_is_shown_once_and_no_agent_has_a_side(sitting):
    """120 pairs: a fair coin gives each agent 27 to 53 of its 80 on the left in all but 1 of 400 cases."""
    answers = {**ANSWERS, "alone": ("dan",)}  # of whom there is no pair
    found = labelled(answers, sitting, lambda _: 0.0)
    assert len({(one.task, frozenset((one.first, one.second))) for one in found}) == 120
    left = Counter(one.first for one in found)
    assert all(27 <= left[agent] <= 53 for agent in ("ann", "bob", "cy"))


def test_order_and_sides_are_the_same_for_a_seed_and_differ_between_raters():
    def shown(sitting):
        return [(one.task, one.first, one.second) for one in labelled(ANSWERS, sitting, lambda _: 0.0, most=20)]

    assert shown(RANDOM) == shown(LabelSession("eve", order="random"))
    assert shown(RANDOM) != shown(LabelSession("eve", order="random", seed=1))
    assert shown(RANDOM) != shown(LabelSession("dan", order="random"))


def preferences(*said, rater="dan"):
    """Labels on consecutive tasks: (first, second, preferences)."""
    return [Preference(f"t{i:02}", one, other, rater, value) for one, other, by in said for i, value in enumerate(by)]


def test_agents_that_are_out_are_not_asked_about_and_a_decided_question_ends_it():
    """20 of 20 for ann against bob: p is at most 2 / 2^20, below 0.05 / 2, so that bob is out."""
    labels = preferences(("ann", "bob", [1.0] * 20), ("ann", "cy", [1.0, -1.0] * 3))
    found = decide_question(ANSWERS, labels)
    assert found.open
    assert found.answer == "the best is one of ann, cy"
    shown = labelled(ANSWERS, DECISIVE, lambda _: 0.0, before=labels)
    assert {frozenset((one.first, one.second)) for one in shown} == {frozenset(("ann", "cy"))}
    labels += preferences(("ann", "cy", [1.0] * 40), rater="cat")
    assert not decide_question(ANSWERS, labels).open
    assert decide_question(ANSWERS, labels).answer == "ann is the best"
    assert next_pair(ANSWERS, DECISIVE, labels) is None
    assert next_pair(ANSWERS, RANDOM, labels) is not None


def test_a_pair_of_agents_that_few_labels_would_decide_comes_before_one_that_is_balanced():
    """9 of 9 is one label short of the ten that are needed at least; 5 : 4 is far from any decision."""
    balanced = [1.0, -1.0] * 4
    labels = preferences(("ann", "bob", [*balanced, 1.0]), ("bob", "cy", [1.0] * 9), ("ann", "cy", balanced))
    shown = next_pair(ANSWERS, DECISIVE, labels)
    assert {shown.left, shown.right} == {"bob", "cy"}


def test_only_the_agents_of_a_question_are_shown_and_several_raters_are_one_task():
    found = labelled(ANSWERS, LabelSession("eve", question="ann>cy"), lambda _: 0.0)
    assert {frozenset((one.first, one.second)) for one in found} == {frozenset(("ann", "cy"))}
    assert len(found) == 40
    twice = preferences(("ann", "cy", [1.0] * 6)) + preferences(("cy", "ann", [-1.0] * 6), rater="cat")
    (comparison,) = decide_question(ANSWERS, twice, "ann>cy").comparisons
    assert (comparison.n, comparison.difference, comparison.decided) == (6, 1.0, False)
    with pytest.raises(UserError, match="the question must name agents of the study, got 'an'"):
        decide_question(ANSWERS, [], "an>cy")


# --- where labels go ---------------------------------------------------------------------------------------------


def study():
    rows = [{"task": t, "agent": a, "text": f"{a} on {t}"} for t in ("t1", "t2") for a in ("ann", "bob", "cy")]
    return study_from_frame(pl.DataFrame(rows), name="toy")


LABEL = Preference("t1", "ann", "bob", "eve", 1.0, "clear, and short")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_label_is_added_to_the_table_that_is_there_and_can_be_taken_back(tmp_path, kind):
    write_study(study(), tmp_path / "s", format=kind)
    old = {"task": ["t2"], "agent": ["cy"], "rater": ["old"], "score": [3.5]}
    path = tmp_path / "s" / f"labels.{kind}"
    frame = pl.DataFrame(old)
    {"jsonl": frame.write_ndjson, "csv": frame.write_csv, "parquet": frame.write_parquet}[kind](path)
    before = path.read_bytes()
    other = Preference("t1", "ann", "bob", "eve", 1.0)  # the same on no criterion
    for label in (LABEL, other):
        change_labels(tmp_path / "s", label, add=True)
    found = read_study(tmp_path / "s")
    assert list(found.preferences()) == [LABEL, other]
    assert [rating.score for rating in found.ratings()] == [3.5]
    for _ in range(2):  # the second time there is none
        change_labels(tmp_path / "s", other, add=False)
    assert list(read_study(tmp_path / "s").preferences()) == [LABEL]
    if kind == "jsonl":
        assert path.read_bytes().startswith(before)
    path.unlink()
    path.with_suffix("").mkdir()
    with pytest.raises(UserError, match="folder of parts"):
        change_labels(tmp_path / "s", LABEL, add=True)


def test_a_rater_who_is_killed_loses_no_label(tmp_path):
    write_study(study(), tmp_path / "s")
    script = """
import sys
from pathlib import Path
from goldless.records import Preference
from goldless.studies.writing import change_labels
for number in range(100_000):
    change_labels(Path(sys.argv[1]), Preference("t1", "ann", "bob", f"r{number}", 1.0), add=True)
    print(number, flush=True)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        said = [child.stdout.readline() for _ in range(50)]
        os.kill(child.pid, signal.SIGKILL)
    raters = [label.rater for label in read_study(tmp_path / "s").preferences()]
    assert raters[:50] == [f"r{int(number)}" for number in said]


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "runs").mkdir()
    write_study(study(), tmp_path / "s")
    return Desk(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite").run, tmp_path / "runs" / ".studio")


def test_a_pair_is_labelled_once_by_a_rater_and_a_change_from_outside_is_seen(desk, tmp_path):
    sitting = read_sitting({"study": str(tmp_path / "s"), "rater": "eve"})
    pair = Pair("t1", "bob", "ann")
    assert desk.add(sitting, pair, 1.0)
    assert not desk.add(sitting, pair, -1.0)
    change_labels(tmp_path / "s", Preference("t2", "ann", "cy", "dan", 1.0), add=True)
    assert [label.rater for label in desk.open(sitting).labels] == ["eve", "dan"]
    assert desk.undo(sitting) == Preference("t1", "bob", "ann", "eve", 1.0)
    assert desk.undo(sitting) is None
    assert [label.rater for label in desk.open(sitting).labels] == ["dan"]


def test_a_single_file_is_left_as_it_is_and_its_labels_go_to_a_copy(desk, tmp_path):
    path = tmp_path / "answers.jsonl"
    pl.DataFrame([{"task": "t", "agent": a, "text": a} for a in ("ann", "bob")]).write_ndjson(path)
    before = path.read_bytes()
    sitting = read_sitting({"study": str(path), "rater": "eve"})
    desk.add(sitting, Pair("t", "ann", "bob"), -1.0)
    assert path.read_bytes() == before
    folder = desk.open(sitting).folder
    assert folder.is_relative_to(tmp_path / "runs" / ".studio" / "labels")
    assert [label.preference for label in read_study(folder).preferences()] == [-1.0]


def test_a_run_folder_is_not_changed_even_if_it_is_given_by_its_path(desk, tmp_path):
    write_study(study(), tmp_path / "run")
    (tmp_path / "run" / "leaderboard.json").write_text("{}")
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert desk.add(read_sitting({"study": str(tmp_path / "run"), "rater": "eve"}), Pair("t1", "ann", "bob"), 1.0)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rater": "eve"}, "choose a run, or name a study"),
        ({"study": "x"}, "your name must have 1 to 80 characters"),
        ({"study": "x", "rater": "eve", "order": "best"}, "order must be one of decisive, random"),
        ({"study": "x", "rater": "eve", "seed": "-1"}, "seed must be a whole number"),
        ({"study": "x", "rater": "eve", "criterion": "c" * 301}, "at most 300 characters, got 301"),
    ],
)
def test_an_address_that_lacks_something_says_what(given, said):
    with pytest.raises(UserError, match=said):
        read_sitting(given)


# --- what labels say ---------------------------------------------------------------------------------------------


def test_agreement_is_the_share_of_pairs_on_which_a_metric_prefers_the_same_response():
    """Two raters agree on t1 (ann before bob) and differ on t2, so one pair is decided; m says bob, n says ann."""
    labels = [
        Preference("t1", "ann", "bob", "eve", 1.0),
        Preference("t1", "bob", "ann", "dan", -1.0),
        Preference("t2", "ann", "bob", "eve", 1.0),
        Preference("t2", "ann", "bob", "dan", -1.0),
    ]
    rows = [("m", "t1", "ann", 1.0), ("m", "t1", "bob", 2.0), ("n", "t1", "ann", 2.0), ("n", "t1", "bob", 1.0)]
    scores = pl.DataFrame(rows, schema=["metric", "task", "agent", "score"], orient="row")
    found = preference_agreement(study(), labels, scores, resamples=500, level=0.95)
    counts = found.labels
    assert (counts.preferences, counts.raters, counts.pairs, counts.decided) == (4, 2, 2, 1)
    assert [(one.name, one.accuracy.share.value) for one in found.by_accuracy] == [("n", 1.0), ("m", 0.0)]
    assert found.ceiling.accuracy.value == 0.5
    assert preference_agreement(study(), labels, None, resamples=500, level=0.95).judges == ()
    assert preference_agreement(study(), [], scores, resamples=500, level=0.95) is None
