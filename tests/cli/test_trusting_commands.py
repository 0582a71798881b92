"""``goldless agree``, ``bias``, ``crashtest`` and ``explain`` as a user types them."""

from __future__ import annotations

import json
import re
from functools import partial

import anyio
import pytest

from goldless.judging.scales import SCALES
from goldless.runs.explaining import explain_pair
from goldless.runs.options import Options
from goldless.studies import read_study
from tests.support.study_files import response_rows, script_rows, study_folder

PEOPLE = {"ann": 3, "bob": 2, "cy": 1}


@pytest.fixture
def held(goldless, tmp_path, three_agents):
    """Scores of a file beside the labels of raters; they are right but for a tie of bob and cy: 2.5 of 3 pairs a task.

    q is one above p throughout, so both order all pairs alike.
    """
    rows = [f"{t},{a},{s}" for t in three_agents for a, s in (("ann", 2), ("bob", 1), ("cy", 1))]
    (tmp_path / "mine.csv").write_text("task,agent,score\n" + "\n".join(rows) + "\n")

    def agree(raters: str, *more: str):
        labels = [
            {"task": t, "agent": a, "rater": r, "score": score + (r == "q")}
            for t in three_agents
            for a, score in PEOPLE.items()
            for r in raters
        ]
        folder = study_folder(tmp_path / "study", responses=response_rows(three_agents), labels=labels)
        return goldless("agree", folder, "--scores", tmp_path / "mine.csv", "--resamples", 200, *more)

    return agree


def test_scores_of_a_file_are_held_against_people(held):
    ended = held("pq", "--format", "json")
    assert ended.code == 0
    data = json.loads(ended.out)
    (judge,) = data["criteria"][0]["judges"]
    assert judge["name"] == "mine"
    assert judge["accuracy"]["share"]["value"] == pytest.approx(7.5 / 9)
    assert (judge["accuracy"]["asked"], judge["accuracy"]["share"]["n"], judge["accuracy"]["tied"]) == (9, 9, 3)
    assert data["criteria"][0]["ceiling"]["accuracy"]["value"] == 1
    assert data["signature"].startswith("agreement|")


def test_one_rater_is_said_and_ends_well(held):
    ended = held("p")
    assert ended.code == 0
    assert "none: one rater" in ended.out


# --- bias ------------------------------------------------------------------------------------------------------------

TASKS = [f"t{i:02}" for i in range(12)]
TEXTS = {t: {"ann": f"good long answer {t}", "bob": f"poor {t}"} for t in TASKS}
BOTH_ORDERS = (("ann", "bob"), ("bob", "ann"))


@pytest.fixture
def study(tmp_path):
    """ann keeps to the longer response, lazy always says one; people find all alike."""
    judgements = [
        {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second, "output": output}
        for task in TASKS
        for reviewer, outputs in (("ann", ("one", "two")), ("lazy", ("one", "one")))
        for (first, second), output in zip(BOTH_ORDERS, outputs, strict=True)
    ]
    labels = [{"task": t, "agent": a, "rater": "r", "score": 3} for t in TASKS for a in ("ann", "bob")]
    return study_folder(tmp_path / "study", responses=response_rows(TEXTS), labels=labels, judgements=judgements)


def test_weights_and_orders_decide_the_panel_vote(goldless, study):
    arguments = ("bias", study, "--recorded", "--favours", "ann:bob", "--format", "json", "--resamples", "200")
    for more, rate in ((("--weights", "ann=2,lazy=1"), 1.0), (("--count-orders", "together"), 1.0), ((), 0.5)):
        found = json.loads(goldless(*arguments, *more).out)
        (row,) = (r for r in found["rows"] if r["judge"] == "panel" and r["measure"].startswith("favours"))
        assert row["value"] == rate, more


def test_a_reviewer_can_be_asked_now(goldless, study, script_file):
    shown = [(by[first], by[second]) for by in TEXTS.values() for first, second in BOTH_ORDERS]
    questions = [SCALES["pairwise"].messages(*pair, prompt=None)[-1].content for pair in shown]
    script = script_file([{"prompt": question, "answer": "two"} for question in questions])
    ended = goldless(
        "bias", study, "--reviewers", f"ann,last=scripted:{script}", "--format", "json", "--resamples", "200"
    )
    assert ended.code == 0, ended.err
    rows = {(row["judge"], row["measure"]): row for row in json.loads(ended.out)["rows"]}
    assert rows["last", "decided for the one shown first"]["value"] == 0


# --- crashtest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "perturbation", "fail_on", "code"),
    [
        ("length", "elongation", "fail", 5),
        ("length", "elongation", "never", 0),
        # the effect is too small for these texts to show it
        ("bleu", "deletion", "fail", 0),
        ("bleu", "deletion", "not-shown", 5),
    ],
)
def test_what_ends_with_five_can_be_chosen(goldless, metric, perturbation, fail_on, code):
    asked = ("--metric", metric, "--perturbation", perturbation, "--fail-on", fail_on, "--resamples", 200)
    assert goldless("crashtest", "sample", *asked).code == code


# --- explain ---------------------------------------------------------------------------------------------------------

HOSTILE = {"t1": {"ann": "zarn [red]bluk[/red].", "bob": "zarn [bold]bluk[/bold] \x1b[31mmipo\x07."}}


def words(text: str) -> list[str]:
    return re.findall(r"\w+\W*", text)


def test_markup_and_control_characters_of_a_response_are_shown_not_obeyed(
    goldless, toy_scorer, study_file, script_file, tmp_path
):
    path, model = study_file(HOSTILE), toy_scorer(tokens=words)
    options = Options.of(scorer=model, journal=tmp_path / "writing-the-script.sqlite")
    anyio.run(partial(explain_pair, task="t1", agent="ann", peer="bob"), read_study(path), options)
    script = script_file([{**row, "tokens": words(row["target"])} for row in script_rows(model)])
    pair = ("--task", "t1", "--agent", "ann", "--peer", "bob")
    ended = goldless("explain", path, *pair, "--scorer", f"scripted:{script}")
    assert "zarn [bold]bluk[/bold] [31mmipo." in ended.out
    assert "zarn [red]bluk[/red]." in ended.out
    assert "\x1b" not in ended.out
    assert "\x07" not in ended.out
