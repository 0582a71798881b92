"""Two runs, two agents side by side, and comparisons of one response; expected values by hand."""

from __future__ import annotations

import re

import polars as pl
import pytest

from goldless.apps.studio.comparison import (
    MOST_WORDS,
    compare_page,
    marked_words,
    side_by_side_page,
)
from goldless.apps.studio.evidence import response_page
from goldless.apps.studio.run_pages import failures_page
from goldless.apps.studio.site import Site
from goldless.errors import UserError
from tests.apps.studio.viewer_runs import written_run

SCORES = [
    ("m", "t1", "ann", 4.0),
    ("m", "t1", "bob", 3.0),
    ("m", "t2", "ann", 1.0),
    ("m", "t2", "bob", 9.0),
    ("m", "t3", "ann", None),
    ("m", "t3", "bob", 1.0),
    ("m", "t4", "ann", 2.0),
    ("m", "t4", "bob", 2.0),
]
TEXTS = [("t1", "ann", "the old grey cat"), ("t1", "bob", "The grey dog"), ("t2", "ann", "Alone here.")]
JUDGED = [
    ("r", "pairwise", "t1", "ann", "bob", "ann, I say", 1.0, None),
    ("r", "pairwise", "t1", "bob", "ann", "bob now", 1.0, None),
    ("s", "pairwise", "t1", "ann", "bob", "two", 0.0, None),
    ("s", "pairwise", "t1", "bob", "ann", "one", 1.0, None),
    ("u", "pairwise", "t1", "ann", "bob", "others", None, "unparsable"),
]


@pytest.fixture
def library(tmp_path):
    folder = written_run(tmp_path / "run", SCORES, responses=TEXTS)
    names = ["reviewer", "format", "task", "first", "second", "output", "value", "failure"]
    pl.DataFrame(JUDGED, schema=names, orient="row").write_parquet(folder / "judgements.parquet")
    labels = {"task": ["t1"], "first": ["bob"], "second": ["ann"], "rater": ["eve"], "preference": [-1.0]}
    pl.DataFrame(labels).write_parquet(folder / "labels.parquet")
    return Site(folder, journal=tmp_path / "j.sqlite")


def test_tasks_are_in_order_of_the_difference_with_the_words_that_differ_and_who_did_better(library):
    """t2 differs by 8, t1 by 1, t4 by 0, t3 is unknown; in the review bob won three of four on t1."""
    page = side_by_side_page(library, {"one": "ann", "other": "bob", "metric": "m"}, "run")
    assert re.findall(r'<h2 id="task-(\d)"', page) == ["1", "0", "3", "2"]
    assert re.findall("<mark>([^<]+)</mark>", page)[1:] == ["old", "cat", "dog"]  # the first explains the others
    shown = re.sub("<[^>]*>", "", page)
    for said in ("m: ann 4.00 and 3.00", "review: pairwise: bob 0.250 and 0.750"):
        assert said in shown
    for said in ("r: depends on the order", "s: bob", "u: no verdict", "eve (person): ann"):
        assert said in shown
    reviewed = side_by_side_page(library, {"one": "ann", "other": "bob", "metric": "review: pairwise"}, "run")
    assert "<bdi>ann</bdi> is higher on 0 tasks, <bdi>bob</bdi> on 1; 3 unknown." in reviewed


def test_a_page_has_the_agents_asked_for_and_says_what_it_does_not_know(library):
    page = side_by_side_page(library, {"one": "bob", "other": "ann", "better": "other"}, "run")
    assert "<bdi>bob</bdi> is higher on 1 task, <bdi>ann</bdi> on 1; 1 equal; 1 unknown." in page
    assert re.findall(r'<h2 id="task-(\d)"', page) == ["0"]
    for given, said in (
        ({"one": "zed"}, "no agent 'zed'"),
        ({"one": "ann", "other": "ann"}, "two different agents"),
        ({"metric": "zed"}, "no scores of 'zed'"),
        ({"better": "zed"}, "better must be one of one, other, equal, unknown"),
    ):
        with pytest.raises(UserError, match=said):
            side_by_side_page(library, given, "run")


def test_both_orders_of_a_comparison_are_one_line_and_say_who_won(library):
    for agent, said in (
        (0, "1 lost, 1 depends on the order, 1 no verdict"),
        (1, "1 won, 1 depends on the order, 1 no"),
    ):
        assert said in response_page(library, {}, "run", 0, agent)
    lost = response_page(library, {"outcome": "lost"}, "run", 0, 0)
    assert lost.count('<details class="evidence">') == 1
    assert "1 of 3 are shown" in lost
    assert 'class="text reply" dir="auto" tabindex="0" role="group" aria-label="Reply of s">two</pre>' in lost


def test_a_failure_is_listed_with_what_was_said(library):
    assert "<q>others</q>" in failures_page(library, {}, "run")


# --- two runs --------------------------------------------------------------------------------------------------------


def compared(tmp_path, before, after, **options):
    for name, values in (("one", before), ("two", after)):
        scores = [("m", task, agent, value) for (task, agent), value in values.items()]
        own = {key: value[name] for key, value in options.items()}
        written_run(tmp_path / "runs" / name, scores, **own)
    library = Site(tmp_path / "runs", journal=tmp_path / "j.sqlite")
    page = compare_page(library, {"first": "one", "second": "two"})
    cells = [[re.sub("<.*?>", "", one) for one in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in page.split("<tr>")]
    return page, [row for row in cells if len(row) > 1]


def test_two_runs_are_paired_by_task_and_agent_and_have_an_interval(tmp_path):
    """ann differs by 1, 2 and 3: mean 2, standard error 1/sqrt(3), so 4.302653/sqrt(3) = 2.484 either way."""
    before = {("t1", "ann"): 1.0, ("t2", "ann"): 1.0, ("t3", "ann"): 1.0, ("t1", "bob"): 5.0}
    after = {("t1", "ann"): 2.0, ("t2", "ann"): 3.0, ("t3", "ann"): 4.0, ("t1", "bob"): 4.0, ("t9", "ann"): 9.0}
    page, rows = compared(
        tmp_path, before, after, signature={name: f"m|seed:{name}|level:0.95" for name in ("one", "two")}
    )
    ann = next(row for row in rows if row[0] == "ann")
    assert ann == ["ann", "1.00", "3.00", "+2.00", "\u22120.48", "+4.48", "", "3", "undecided"]
    assert "3 common tasks under <strong>m</strong>; left out: 0 only in <bdi>one</bdi>, 1 only in" in page
    # t1: ann and bob, (1 - 1) / 2 = 0; t2 and t3: ann alone
    by_task = [(row[0], row[3]) for row in rows if row[0].startswith("t") and row[-1] == "open"]
    assert by_task == [("t3", "+3.00"), ("t2", "+2.00"), ("t1", "0.00")]
    assert ["seed", "one", "two"] in rows


def test_a_score_that_one_run_lacks_is_in_no_difference_and_other_texts_are_told(tmp_path):
    before, after = {("t1", "ann"): 1.0, ("t2", "ann"): None}, {("t1", "ann"): 2.0, ("t2", "ann"): 9.0}
    page, _ = compared(tmp_path, before, after, fingerprint={"one": "f1", "two": "f2"})
    assert "1 common tasks" in page
    assert "The runs use different studies" in page


def test_words_are_not_marked_in_long_texts_and_no_letter_is_lost():
    one, _ = marked_words("the old grey cat\n", "The grey dog")
    assert [text for marked, text in one if marked] == ["old", "cat"]
    assert "".join(text for _, text in one) == "the old grey cat\n"
    long = "w " * MOST_WORDS + "v"
    assert marked_words(long, "w v") == [[(False, long)], [(False, "w v")]]
    assert marked_words(None, "w") == [None, [(False, "w")]]
