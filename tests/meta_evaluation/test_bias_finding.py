"""From a study to its report: what is measured, what is listed as not measured, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from functools import partial

import anyio
import numpy as np
import pytest
from bias_study import bias_study, both_orders, comparison, rating, responses

from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.bias import find_bias
from goldless.models.scripted import ScriptedModel
from goldless.reports.document import write
from goldless.runs.options import Options

TASKS = [f"t{i:02}" for i in range(12)]
AGENTS = ("ann", "bob", "cy")
WORDS = {"ann": "some words that go on and on", "bob": "some words", "cy": "words"}
RECORDED = Options(metrics=(), recorded=True, resamples=200)
TEXTS = {task: {agent: f"{WORDS[agent]} {task}" for agent in AGENTS} for task in TASKS}


def find(study, options=RECORDED, **how):
    return anyio.run(partial(find_bias, study, options, **how))


def random_tables(seed=1):
    """Three reviewers, one of them an agent, with random verdicts, some unparsable; ratings from 1 to 3."""
    random = np.random.default_rng(seed)
    judgements = [
        comparison(reviewer, task, first, second, ("one", "two", "hm")[random.choice(3, p=[0.5, 0.4, 0.1])])
        for reviewer in ("ann", "bob", "eve")
        for task in TASKS
        for first in AGENTS
        for second in AGENTS
        if first != second
    ]
    texts = {task: {agent: "\n".join(["- w"] * int(random.integers(1, 9))) for agent in AGENTS} for task in TASKS}
    labels = [rating(task, agent, int(random.integers(1, 4))) for task in TASKS for agent in AGENTS]
    return {"responses": responses(texts), "labels": labels, "judgements": judgements}


def test_the_order_of_the_agents_changes_no_number(tmp_path):
    tables = random_tables()
    how = {"favours": ["ann:cy", "cy:ann"], "families": {"eve": "bob"}, "weights": {"ann": 1, "bob": 2, "eve": 0.5}}
    straight = find(bias_study(tmp_path / "one", tables), **how)
    tables["agents"] = [{"agent": agent} for agent in reversed(AGENTS)]
    turned = find(bias_study(tmp_path / "two", tables), **how)

    def numbers(report):
        return {
            (r.bias, r.judge, r.measure, r.about): (r.value, r.low, r.high, r.asked, r.used, r.ties)
            for r in report.rows
        }

    one, two = numbers(straight), numbers(turned)
    assert set(one) == set(two)
    assert len(one) == len(straight.rows)
    for key, values in one.items():
        assert two[key] == pytest.approx(values), key
    assert {key[0] for key in one} == {
        "position",
        "length",
        "format",
        "self-preference",
        "family preference",
        "favour rate",
    }


def test_a_bare_study_with_judgements_lists_what_it_cannot_measure(tmp_path):
    judgements = [comparison("eve", task, "ann", "bob", "one") for task in TASKS]
    report = find(bias_study(tmp_path, {"responses": responses(TEXTS), "judgements": judgements}))
    reasons = {one.bias: one.reason for one in report.unavailable}
    assert "one order only" in reasons["position"]
    assert "no labels" in reasons["length"]
    assert "no two responses to a task differ in format marks" in reasons["format"]
    assert "two reviewers" in reasons["self-preference"]
    assert "no judged pair" in reasons["family preference"]
    assert "--favours" in reasons["favour rate"]
    (row,) = report.rows
    assert (row.measure, row.value, row.used, row.shown) == ("longer wins, all pairs", 1.0, 12, None)


def test_the_favour_rate_needs_labels(tmp_path):
    judgements = [row for task in TASKS for row in both_orders("eve", task, "ann", "bob")]
    study = bias_study(tmp_path, {"responses": responses(TEXTS), "judgements": judgements})
    report = find(study, favours=["ann:bob"])
    assert ("favour rate", "no labels") in {(one.bias, one.reason) for one in report.unavailable}


def test_families_come_from_the_agents_table_and_are_overruled_by_name(tmp_path):
    judgements = [row for task in TASKS for row in both_orders("eve", task, "ann", "bob")]
    agents = [{"agent": "ann", "family": "red"}, {"agent": "bob", "family": "blue"}, {"agent": "cy", "family": None}]
    tables = {"responses": responses(TEXTS), "judgements": judgements, "agents": agents}
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
    study = bias_study(tmp_path, {"responses": responses(texts), "labels": labels})
    options = Options(metrics=("gem-raw",), scorer=toy_scorer(), resamples=200, journal=tmp_path / "journal.sqlite")
    report = find(study, options)
    # summed over both peers, ann shares 2 + 1 words, bob 2 + 1, cy 1 + 1: ann and bob tie, both beat cy
    row = report.row("length", "gem-raw", "longer wins, tied by people")
    assert (row.value, row.used, row.ties, row.kind) == (pytest.approx(2.5 / 3), 36, 12, "metric")
    assert report.metric_signatures["gem-raw"].startswith("gem-raw|")
    assert [(one.judge, one.asked, one.used) for one in report.coverage] == [("gem-raw", 36, 36)]
    assert ("position", "no judgements on the scale pairwise") in {(u.bias, u.reason) for u in report.unavailable}


def test_reviewers_that_the_study_has_no_judgements_of_are_asked(tmp_path):
    """A scripted reviewer that always says one is asked beside a recorded one that keeps to ann."""
    judgements = [row for task in TASKS for row in both_orders("eve", task, "ann", "bob")]
    study = bias_study(tmp_path, {"responses": responses(TEXTS), "judgements": judgements})
    lazy = ScriptedModel(answers=lambda _: "one", name="lazy")
    options = replace(RECORDED, recorded=False, journal=tmp_path / "journal.sqlite")
    report = find(study, options, reviewers=["eve", lazy])
    names = {row.judge for row in report.of("position")}
    asked = next(name for name in names if name != "eve")
    assert report.row("position", asked, "decided for the one shown first").value == 1
    assert report.row("position", "eve", "flips when the order is swapped").value == 0
    assert report.review_signature.startswith("peer-review|")
    assert [one.asked for one in report.coverage] == [24, 72]


def test_unparsable_judgements_are_counted_whatever_the_convention(tmp_path):
    study = bias_study(tmp_path, random_tables())
    hm = sum(row["output"] == "hm" for row in random_tables()["judgements"])
    for convention in ("default", "paper"):
        report = find(study, convention=convention)
        assert sum(one.missing for one in report.coverage) == hm
        assert f"convention:{convention}" in report.signature


def test_every_row_travels_with_its_signature_in_every_format(tmp_path):
    report = find(bias_study(tmp_path, random_tables()), favours=["ann:bob"])
    rows = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert len(rows) == len(report.rows)
    assert {row["signature"] for row in rows} == {report.signature}
    data = json.loads(json.dumps(write(report), allow_nan=False))
    assert data["rows"][0]["asked"] - data["rows"][0]["used"] == data["rows"][0]["missing"]
    text = report.to_markdown()
    assert report.signature in text
    assert "### Position: flips when the order is swapped" in text
    assert "Not measured:" in text


def test_names_cannot_break_a_table(tmp_path):
    evil = "a|b <script>"
    texts = {task: {evil: "one two", "bob": "one"} for task in TASKS}
    judgements = [row for task in TASKS for row in both_orders(evil, task, evil, "bob")]
    report = find(bias_study(tmp_path, {"responses": responses(texts), "judgements": judgements}))
    assert "<script>" not in report.to_markdown().partition("`bias|")[0]
    assert "a\\|b" in report.to_markdown()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"reviewers": ["evee"]}, "Did you mean 'eve'"),
        ({"favours": ["ann:zed"]}, "no agent 'zed'"),
        ({"families": {"zed": "x"}}, "no agent or reviewer with this name"),
        ({"weights": {"zed": 1.0}}, "no judgement by reviewer 'zed'"),
        ({"weights": {}}, "at least one reviewer"),
        ({"orders": "both"}, "'each' or 'together'"),
        ({"convention": "papers"}, "one of default, paper, pre, auto-pre"),
        ({"criterion": "style"}, "no label has the criterion 'style'"),
        ({"scale": "pair"}, "Did you mean 'pairwise'"),
        ({"scale": "5-level"}, "nothing to test for bias"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_allowed(tmp_path, how, message):
    with pytest.raises((UserError, MetricError), match=message):
        find(bias_study(tmp_path, random_tables()), **how)


def test_labels_of_several_criteria_need_a_name(tmp_path):
    tables = random_tables()
    tables["labels"] = [row | {"criterion": c} for row in tables["labels"] for c in ("style", "truth")]
    study = bias_study(tmp_path, tables)
    with pytest.raises(UserError, match="--criterion"):
        find(study)
    assert find(study, criterion="style").labels["pairs"] == 36


# --- labels and weights ------------------------------------------------------------------------------------------


def test_one_rater_s_preferences_decide_pairs_and_are_no_ties_that_length_could_win(tmp_path):
    """One rater prefers the longer response on every task, and so does the metric: no bias is shown by that."""
    tables = {
        "responses": responses(TEXTS),
        "labels": [{"task": task, "first": "ann", "second": "bob", "rater": "r", "preference": 1.0} for task in TASKS],
    }
    study = bias_study(tmp_path, tables)
    options = replace(RECORDED, metrics=("length",))
    report = find(study, options)
    assert report.labels == {"pairs": 12, "decided": 12, "tied": 0}
    assert "votes-beyond-0.5-ahead-by-1|" in report.signature
    assert not [row for row in report.rows if row.shown]
    for how in ({"convention": "paper"}, {"margin": 2}):
        two = find(study, options, **how)
        assert two.labels == {"pairs": 12, "decided": 0, "tied": 12}
        assert "votes-beyond-0.5-ahead-by-2|" in two.signature
    with pytest.raises(UserError, match="margin must be above 0, got -1"):
        find(study, options, margin=-1)


def test_weights_without_judgements_are_said_to_be_of_no_use(tmp_path):
    study = bias_study(tmp_path, {"responses": responses(TEXTS)})
    report = find(study, replace(RECORDED, metrics=("length",)), weights={"eve": 1.0})
    assert report.notes == ("the weights of eve were not used: no judgements on the scale pairwise",)
