"""Bias: numbers counted by hand, what is listed as not measured, and what is refused."""

from __future__ import annotations

from functools import partial

import anyio
import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr

import goldless
from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.bias import (
    count_format_marks,
    count_words,
    find_bias,
    read_favours,
    within_correlation,
)
from goldless.runs.options import Options
from tests.support.study_files import response_rows, study_folder

TASKS = [f"t{i:02}" for i in range(12)]
AGENTS = ("ann", "bob", "cy")
WORDS = {"ann": "some words that go on and on", "bob": "some words", "cy": "words"}
RECORDED = Options.of(metrics=(), recorded=True, resamples=200)
TEXTS = {task: {agent: f"{WORDS[agent]} {task}" for agent in AGENTS} for task in TASKS}


def bias_study(folder, tables):
    return goldless.read_study(study_folder(folder, **tables))


def comparison(reviewer: str, task: str, first: str, second: str, output: str) -> dict:
    row = {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second}
    return row | {"output": output}


def rating(task: str, agent: str, score: float, rater: str = "r1") -> dict:
    return {"task": task, "agent": agent, "rater": rater, "score": score}


def find(study, options=RECORDED, *, favours=(), weights=None, orders="each", **more):
    given = {"favours": favours, "weights": weights, "orders": orders}
    return anyio.run(partial(find_bias, study, options.changed(**more), **given))


def judged(said, pair=("ann", "bob")):
    """Judgements of a pair by {reviewer: [(verdict with the first shown first, verdict with it shown second)]}.

    A verdict is 1 where the first of the pair is better, None where the reply cannot be read, "-" where none was asked.
    """
    rows = []
    for reviewer, by_task in said.items():
        for task, verdicts in zip(TASKS, by_task, strict=True):
            for shown, verdict in zip((pair, pair[::-1]), verdicts, strict=True):
                if verdict != "-":
                    first_wins = verdict == (shown == pair)
                    output = "hm" if verdict is None else "one" if first_wins else "two"
                    rows.append(comparison(reviewer, task, *shown, output))
    return rows


def found(folder, said, *, labels=(), pair=("ann", "bob"), tables=None, **how):
    """The report on judgements of one pair, and its rows by judge and measure."""
    extra = {"labels": list(labels)} if labels else {}
    tables = {"responses": response_rows(TEXTS), "judgements": judged(said, pair), **extra, **(tables or {})}
    report = find(bias_study(folder, tables), **how)
    return report, {(row.judge, row.measure): row for row in report.rows}


# --- position ------------------------------------------------------------------------------------------------------

FLIPS, FIRST = "flips when the order is swapped", "decided for the one shown first"


@pytest.mark.parametrize(("convention", "flips"), [("default", 1 / 11), ("paper", 1.5 / 12)])
def test_a_missing_order_is_left_out_or_half_a_flip_by_the_papers(tmp_path, convention, flips):
    """Task 0: an order cannot be read; task 1 flips to the second; the others keep to the first agent."""
    _, rows = found(tmp_path, {"r": [(1, None), (0, 1)] + [(1, 1)] * 10}, convention=convention)
    assert rows["r", FLIPS].value == pytest.approx(flips)
    first = rows["r", FIRST]
    assert (first.asked, first.used, first.missing) == (24, 22, 2)
    assert first.value == pytest.approx(10 / 22)


# --- length --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text", "number"),
    [
        (count_words, "", 0),
        (count_words, "One, two - three.", 3),
        (count_words, "Don't count well-known words twice", 5),
        (count_words, "\u8fd9\u662f good", 3),
        (count_words, "a_b 3.5", 3),
        (count_format_marks, "Plain text. 2 * 3 * 4 = 24, snake__case__name, - dash in a line.", 0),
        (count_format_marks, "# Title\n\n## Part\ntext", 2),
        (count_format_marks, "- one\n* two\n+ three\n\u2022 four\n1. five\n12) six", 6),
        (count_format_marks, "2016. A year is no list item, nor is #hashtag", 0),
        (count_format_marks, "**bold** and __also bold__ and <strong>this</strong>", 3),
        (count_format_marks, "| a | b |\n| c | d |", 2),
        (count_format_marks, "- **both** a list item and bold", 2),
        (count_format_marks, "---\n***", 0),
    ],
)
def test_words_are_counted_as_a_reader_would_and_marks_are_headings_list_items_bold_and_table_rows(count, text, number):
    assert count(text) == number


def test_the_longer_one_winning_is_counted_among_ties_and_balanced_over_what_people_prefer(tmp_path):
    """ann's response is longer. People: tied on four tasks, then ann better on four, then bob on four."""
    labels = [
        rating(task, agent, 3 + (agent == "ann") * (0, 1, -1)[i // 4])
        for i, task in enumerate(TASKS)
        for agent in ("ann", "bob")
    ]
    verdicts = [(1, 1), (1, 0), (0, 0), (1, None)] + [(1, 1)] * 3 + [(0, 0)] + [(1, 1)] * 2 + [(0, 0)] * 2
    _, rows = found(tmp_path, {"r": verdicts}, labels=labels)
    tied, adjusted, raw = (rows["r", f"longer wins, {on}"] for on in ("tied by people", "adjusted", "all pairs"))
    assert (tied.value, tied.used, tied.asked, tied.ties, tied.neutral) == (pytest.approx(1.5 / 3), 3, 4, 1, 0.5)
    # the longer wins on 3 of 4 tasks where people prefer it and on 2 of 4 where they do not
    assert (adjusted.value, adjusted.used) == (pytest.approx((3 / 4 + 2 / 4) / 2), 8)
    assert (raw.value, raw.used, raw.neutral, raw.shown) == (pytest.approx(6.5 / 11), 11, None, None)
    people = rows["people", "longer wins, all pairs"]
    assert (people.value, people.used) == (0.5, 12)


def test_the_correlation_at_equal_rating_is_that_within_tasks_and_ratings():
    random = np.random.default_rng(3)
    task, agent = np.indices((60, 7)).reshape(2, -1)
    rows = pl.DataFrame({"task": task, "agent": agent, "label": random.integers(1, 4, 420).astype(float)})
    rows = rows.with_columns(x=pl.col("label") / 2 + random.normal(size=420))
    rows = rows.with_columns(y=0.4 * pl.col("x") + pl.col("label") + random.normal(size=420))
    scores, ratings = (rows[name].to_numpy().reshape(60, 7) for name in ("y", "label"))
    found, asked = within_correlation(scores, rows, ratings, draws={"seed": 0, "resamples": 2000, "level": 0.9})
    shared = rows.filter(pl.len().over("task", "label") > 1)
    left = shared.select(pl.col(name) - pl.col(name).mean().over("task", "label") for name in ("x", "y"))
    assert found.value == pytest.approx(pearsonr(*left.to_numpy().T).statistic)
    assert (found.n, asked) == (len(left), len(left))
    assert found.low < found.value < found.high


# --- one's own -------------------------------------------------------------------------------------------------------


def test_the_gap_is_what_one_sees_of_itself_less_what_the_other_sees_of_it(tmp_path):
    """On 9 of 12 tasks ann finds its own response better than bob's, bob finds so on 3."""
    said = {name: [(int(i < wins),) * 2 for i in range(12)] for name, wins in (("ann", 9), ("bob", 3))}
    _, rows = found(tmp_path, said)
    row = rows["ann, bob", "preference gap"]
    assert (row.value, row.asked, row.used, row.neutral) == (pytest.approx(9 / 12 - 3 / 12), 12, 12, 0)


def test_in_the_mean_every_gap_counts_once_and_one_that_is_not_defined_is_left_out(tmp_path):
    """Gaps of 1 over ten tasks that both judged and of 0 over twelve; of bob and cy nothing can be read."""
    rows = judged({"ann": [(1, 1)] * 12, "bob": [(None, None)] * 2 + [(0, 0)] * 10})
    rows += judged({"ann": [(1, 1)] * 12, "cy": [(1, 1)] * 12}, ("ann", "cy"))
    rows += judged({"bob": [(None, None)] * 12, "cy": [(1, 1)] * 12}, ("bob", "cy"))
    report = find(bias_study(tmp_path, {"responses": response_rows(TEXTS), "judgements": rows}))
    gaps = {row.judge: (row.value, row.used, row.missing) for row in report.of("self-preference")}
    assert gaps["ann, bob"] == (1.0, 10, 2)
    assert gaps["ann, cy"] == (0.0, 12, 0)
    assert gaps["bob, cy"] == (None, 0, 12)
    assert gaps["mean of all"] == (pytest.approx(1 / 2), 22, 14)
    assert "1 of 2 gaps above 0; 1 not defined" in report.of("self-preference")[-1].note


def test_own_family_wins_stand_beside_reviewers_of_neither_family_and_people(tmp_path):
    """r is of ann's family, s of bob's, o of none; people find ann and bob tied."""
    votes = {"r": {"ab": (1, 1), "ac": (1, 1)}, "s": {"ab": (0, 0), "ac": (1, 0)}, "o": {"ab": (1, 0), "ac": (0, 0)}}
    rows = [
        row
        for key, pair in (("ab", ("ann", "bob")), ("ac", ("ann", "cy")))
        for row in judged({name: [said[key]] * 12 for name, said in votes.items()}, pair)
    ]
    labels = [rating(task, agent, 3) for task in TASKS for agent in ("ann", "bob")]
    study = bias_study(tmp_path, {"responses": response_rows(TEXTS), "judgements": rows, "labels": labels})
    report = find(study, families={"r": "ann", "s": "bob", "o": "grey"})
    own = {(row.judge, row.measure): row for row in report.of("family preference")}
    assert own["r", "own family wins"].value == 1
    # of ann and bob only o is of neither family, 0.5; of ann and cy s and o, the mean of 0.5 and 0
    assert own["r", "own family wins, less other reviewers"].value == pytest.approx((0.5 + 0.75) / 2)
    people = own["r", "own family wins, less people"]
    assert (people.value, people.used, people.about) == (0.5, 12, "ann")
    assert [one.judges for one in report.unavailable if one.bias == "family preference"] == [("o",)]


# --- favour rate -----------------------------------------------------------------------------------------------------

VERDICTS = {
    "r": [(1, 1)] * 4 + [(1, 1), (1, 0), (0, 0), (None, 1)] + [(1, 1), (1, 1), (0, 1), (0, 0)],
    "s": [(1, 0)] * 4 + [(0, 0), (0, 1), (1, 1), (1, 1)] + [(1, 1), (0, 1), (0, 0), (0, 0)],
}
"""For ann against bob; people find ann better on four tasks, tied on four, worse on four."""


@pytest.mark.parametrize(
    ("judge", "how", "rate", "accuracy"),
    [
        # orders on the eight tasks: 2 + 1 + 0 + 1 of the one that is there, then 2 + 2 + 1 + 0: 9 of 15;
        # right on 8 of 8 where ann is better; where bob is: 0 + 0 + 1 + 2 of 8
        ("r", {}, (9 / 15, 15, 0), 11 / 16),
        ("r", {"convention": "paper"}, (9 / 16, 16, 1), 11 / 16),
        # tied tasks, ann first: tie, tie, tie, s alone for ann; bob first: the same; then ann first: ann, tie, bob, bob
        # and bob first: ann, ann, tie, bob: favoured 2 + 1 + 2 of 16
        ("panel", {}, (5 / 16, 16, 8), None),
        # tied tasks: (2-2), (1-1)+(1-1), tie, s alone; then ann, 3:1 ann, 1:3 bob, bob: favoured 3 of 8; people prefer
        # ann: 3 of 4 votes for ann on four tasks; bob: ann, ann, bob, bob: 4 + 2 of 8
        ("panel", {"orders": "together"}, (3 / 8, 8, 3), 6 / 8),
        # with three votes r decides wherever it speaks; where it does not, s favours ann
        ("panel", {"weights": {"r": 3.0, "s": 1.0}}, (10 / 16, 16, 0), None),
        # the other direction: s favours bob: on ann's tasks 1 each, on ties 2, 1, 0, 0
        ("s", {"favours": ["bob:ann"]}, (7 / 16, 16, 0), None),
    ],
)
def test_the_favour_rate_is_over_tasks_where_people_see_a_tie_or_prefer_the_other(tmp_path, judge, how, rate, accuracy):
    labels = [
        rating(task, agent, 3 + (agent == "ann") * (1, 0, -1)[i // 4])
        for i, task in enumerate(TASKS)
        for agent in ("ann", "bob")
    ]
    _, rows = found(tmp_path, VERDICTS, labels=labels, **{"favours": ["ann:bob"], **how})
    row = rows[judge, "favours the first though people do not"]
    assert (row.value, row.used, row.ties) == (pytest.approx(rate[0]), *rate[1:])
    if accuracy is not None:
        assert rows[judge, "accuracy on pairs people decided"].value == pytest.approx(accuracy)


def test_names_of_agents_may_hold_colons_and_all_wrong_pairs_are_named_at_once():
    agents = ("openai:gpt-4", "b", "x:y")
    assert read_favours(["openai:gpt-4:b", ("b", "x:y")], agents) == [("openai:gpt-4", "b"), ("b", "x:y")]
    with pytest.raises(UserError, match=r"(?s)FIRST:SECOND.*'q'.*'z'.*two different"):
        read_favours(["b", "b:q", "z:b", "b:b"], agents)


# --- the report ------------------------------------------------------------------------------------------------------


def test_a_bare_study_with_judgements_lists_what_it_cannot_measure(tmp_path):
    judgements = [comparison("eve", task, "ann", "bob", "one") for task in TASKS]
    report = find(bias_study(tmp_path, {"responses": response_rows(TEXTS), "judgements": judgements}))
    reasons = {one.bias: one.reason for one in report.unavailable}
    assert "one order only" in reasons["position"]
    assert "no labels" in reasons["length"]
    assert "no two responses to a task differ in format marks" in reasons["format"]
    assert "two reviewers" in reasons["self-preference"]
    assert "no judged pair" in reasons["family preference"]
    assert "--favours" in reasons["favour rate"]
    (row,) = report.rows
    assert (row.measure, row.value, row.used, row.shown) == ("longer wins, all pairs", 1.0, 12, None)


def test_families_come_from_the_agents_table_and_are_overruled_by_name(tmp_path):
    judgements = judged({"eve": [(1, 1)] * 12})
    agents = [{"agent": "ann", "family": "red"}, {"agent": "bob", "family": "blue"}, {"agent": "cy", "family": None}]
    tables = {"responses": response_rows(TEXTS), "judgements": judgements, "agents": agents}
    study = bias_study(tmp_path, tables)
    own = find(study, families={"eve": "red"}).row("family preference", "eve", "own family wins")
    assert (own.value, own.about, own.used) == (1.0, "red", 12)
    other = find(study, families={"eve": "blue"}).row("family preference", "eve", "own family wins")
    assert other.value == 0.0
    assert not find(study, families={"eve": "red", "bob": "red"}).of("family preference")


def test_scores_of_a_metric_are_looked_at_beside_reviewers(tmp_path, toy_scorer):
    """The toy scorer gives ln 4 nats for each word that the peer's response shares: here more with every word."""
    texts = {t: {"ann": "zarn bluk mipo", "bob": "zarn bluk", "cy": "zarn"} for t in TASKS}
    labels = [rating(task, agent, 3) for task in TASKS for agent in AGENTS]
    study = bias_study(tmp_path, {"responses": response_rows(texts), "labels": labels})
    options = Options.of(metrics=("gem-raw",), scorer=toy_scorer(), resamples=200, journal=tmp_path / "journal.sqlite")
    report = find(study, options)
    # summed over both peers, ann shares 2 + 1 words, bob 2 + 1, cy 1 + 1: ann and bob tie, both beat cy
    row = report.row("length", "gem-raw", "longer wins, tied by people")
    assert (row.value, row.used, row.ties, row.kind) == (pytest.approx(2.5 / 3), 36, 12, "metric")
    assert report.metric_signatures["gem-raw"].startswith("gem-raw|")
    assert [(one.judge, one.asked, one.used) for one in report.coverage] == [("gem-raw", 36, 36)]
    assert ("position", "no judgements on the scale pairwise") in {(u.bias, u.reason) for u in report.unavailable}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"reviewers": ["evee"]}, "Did you mean 'eve'"),
        ({"favours": ["ann:zed"]}, "no agent 'zed'"),
        ({"families": {"zed": "x"}}, "no agent or reviewer 'zed'"),
        ({"weights": {"zed": 1.0}}, "no judgement by reviewer 'zed'"),
        ({"weights": {}}, "at least one reviewer"),
        ({"convention": "papers"}, "one of default, paper, pre, auto-pre"),
        ({"criterion": "style"}, "no label has the criterion 'style'"),
        ({"scale": "pair"}, "Did you mean 'pairwise'"),
        ({"scale": "5-level"}, "nothing to test for bias"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_allowed(tmp_path, how, message):
    labels = [rating(task, agent, 3) for task in TASKS for agent in AGENTS]
    with pytest.raises((UserError, MetricError), match=message):
        found(tmp_path, {"eve": [(1, 1)] * 12}, labels=labels, **how)
