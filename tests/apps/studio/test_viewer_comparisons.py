"""Two runs, two agents side by side, and comparisons of one response; expected values by hand."""

from __future__ import annotations

import csv
import html
import re

import polars as pl
import pytest

import goldless
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
from tests.apps.studio.viewer_runs import scored_run, written_run

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


WORDS = {"t1": ("the old grey cat", "a dog"), "t2": ("it rained", "it was dry"), "t3": ("blue", "a deep blue sea")}


def compared(tmp_path, before: str, after: str, **chosen):
    """The page about two runs under these metrics, and what the command says of the same agents."""
    texts = {task: {"ann": one, "bob": other} for task, (one, other) in WORDS.items()}
    for name, metrics in (("one", before), ("two", after)):
        scored_run(tmp_path / "runs" / name, texts, tmp_path / "j.sqlite", metrics=metrics.split(","))
    page = compare_page(Site(tmp_path / "runs", journal=tmp_path / "j.sqlite"), chosen)
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", page)))


@pytest.mark.parametrize(("runs", "agents"), [(("one", "one"), ("ann", "bob")), (("one", "two"), ("bob", "bob"))])
def test_the_page_shows_the_tables_and_the_verdict_of_the_command(tmp_path, runs, agents):
    chosen = {"first": runs[0], "second": runs[1], "one": agents[0], "other": agents[1]}
    shown = compared(tmp_path, "length,gem-raw", "length", **chosen)
    folders = [tmp_path / "runs" / name for name in dict.fromkeys(runs)]
    tables = goldless.compare(*folders, agents=list(dict.fromkeys(agents))).tables()
    for table in tables:
        assert table.title in shown
        assert all(note in shown for note in table.notes)
    for row in csv.DictReader(tables[0].to_csv().splitlines()):
        assert f"{float(row['difference']):+.2f}".replace("-", "\u2212").replace("+0.00", "0.00") in shown
        assert row["signature"] in shown


def test_runs_without_a_common_metric_are_not_compared(tmp_path):
    assert "the runs have no metric in common" in compared(tmp_path, "length", "gem-raw", first="one", second="two")


def test_words_are_not_marked_in_long_texts_and_no_letter_is_lost():
    one, _ = marked_words("the old grey cat\n", "The grey dog")
    assert [text for marked, text in one if marked] == ["old", "cat"]
    assert "".join(text for _, text in one) == "the old grey cat\n"
    long = "w " * MOST_WORDS + "v"
    assert marked_words(long, "w v") == [[(False, long)], [(False, "w v")]]
    assert marked_words(None, "w") == [None, [(False, "w")]]
