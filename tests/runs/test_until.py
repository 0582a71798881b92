"""Runs that stop when a question is decided: what they ask, what they pay, what they say.

The toy scorer gives ln 4 nats for every word of a peer's response that the context has. A task has eight words of its
own, of which an agent uses some: the more, the better.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import goldless
from goldless.errors import UserError
from goldless.models.interface import ModelIdentity
from goldless.models.scripted import ScriptedModel
from goldless.reports.document import write
from goldless.runs.store import save_run

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no rewriter")

TASKS = 60
USES = {"ann": 0.9, "bob": 0.6, "bess": 0.6, "cy": 0.1}


def study(tasks=TASKS):
    random = np.random.default_rng(5)
    rows = []
    for task in range(tasks):
        for agent, share in USES.items():
            words = [f"{syllable}{task}q" for syllable in ("za", "bu", "mi", "vo", "ra", "lu", "pe", "ko")]
            own = [word for word in words if random.random() < share]
            rows.append({"task": f"t{task}", "agent": agent, "text": " ".join([*own, f"{agent}{task}q"])})
    return goldless.study_from_frame(pl.DataFrame(rows))


def evaluate(scorer, tmp_path, until=(), metrics="gem-raw", **options):
    options = {"resamples": 100, "journal": tmp_path / "journal.sqlite", "until": until, **options}
    return goldless.evaluate(study(), metrics=metrics, scorer=scorer, **options)


class Paid(ScriptedModel):
    """A model of a provider that takes money."""

    @property
    def identity(self):
        return ModelIdentity("elsewhere", "toy")


@pytest.fixture
def paid_scorer(toy_scorer):
    return lambda: Paid(logprobs=lambda context, target: toy_scorer()._logprobs(context, target))


def scores(result, metric="gem-raw"):
    rows = result.outcomes[metric].responses
    return {(task, agent): score for task, agent, score in rows.select("task", "agent", "score").iter_rows()}


def test_a_clear_difference_needs_few_tasks_and_pays_for_no_other(toy_scorer, tmp_path):
    scorer = toy_scorer()
    result = evaluate(scorer, tmp_path, "ann>cy")
    stopped = result.stopped
    assert (stopped.reason, stopped.answer) == ("decided", "ann is better than cy")
    assert stopped.tasks < TASKS / 2
    asked = set(result.evidence.logprobs["task"])
    assert len(asked) == stopped.tasks
    # bob and bess are only partners: nothing is given to them
    assert set(result.evidence.logprobs["given"].drop_nulls()) == {"ann", "cy"}
    assert set(result.evidence.logprobs["target"]) == set(USES)
    assert {agent for _, agent in scores(result)} == {"ann", "cy"}


@pytest.mark.parametrize("metric", ["gem-raw", pytest.param("gem-raw+control", marks=pytest.mark.nightly)])
def test_whoever_is_decided_leaves_and_stays_a_partner_so_that_the_others_scores_stay(toy_scorer, tmp_path, metric):
    everything = scores(evaluate(toy_scorer(), tmp_path, metrics=metric, over_peers="own"), metric)
    result = evaluate(toy_scorer(), tmp_path, "baseline=bob", metrics=metric, over_peers="own")
    there = scores(result, metric)
    assert all(score == pytest.approx(everything[key]) for key, score in there.items())
    tasks = result.stopped.tasks_of
    assert tasks["cy"] < tasks["bess"] == tasks["bob"] == TASKS
    late = {task for task, agent in there if agent == "bob"} - {task for task, agent in there if agent == "cy"}
    rows = result.evidence.logprobs.filter(pl.col("task").is_in(list(late)))
    assert "cy" in rows["target"].to_list()
    assert "cy" not in rows["given"].to_list()
    assert result.stopped.answer == "1 better than bob, 1 worse, 1 undecided"


def test_a_second_run_pays_nothing_and_another_question_only_for_what_is_new(toy_scorer, tmp_path):
    first = evaluate(toy_scorer(), tmp_path, "ann>cy")
    again = toy_scorer()
    second = evaluate(again, tmp_path, "ann>cy")
    assert write(second) == write(first)
    assert (second.spending[0].calls, second.spending[0].reused) == (0, first.spending[0].calls)
    assert first.spending[0].reused == 0
    other = evaluate(toy_scorer(), tmp_path, "best")
    assert other.stopped.answer == "ann is the best"
    fresh = evaluate(toy_scorer(), tmp_path / "fresh", "best")
    assert write(other) == write(fresh)
    assert 0 < other.spending[0].calls < fresh.spending[0].calls
    assert other.spending[0].calls + other.spending[0].reused == fresh.spending[0].calls


def test_the_order_is_random_fixed_by_the_seed_and_does_not_depend_on_other_tasks(toy_scorer, tmp_path):
    def asked(given, seed=0):
        found = goldless.evaluate(
            given, metrics="length", scorer=toy_scorer(), resamples=100, until="ann>cy", seed=seed, at_least=20
        )
        return {task for task, _ in scores(found, "length")}

    assert asked(study()) != asked(study(), seed=1)
    more = asked(study(TASKS + 30))
    assert {task for task in more if int(task[1:]) < TASKS} <= asked(study())


def test_two_alike_are_undecided_with_what_it_would_take(paid_scorer, tmp_path):
    result = evaluate(paid_scorer(), tmp_path, "bob>bess", price_usd_per_million=(10.0, 0.0))
    stopped = result.stopped
    assert (stopped.reason, stopped.tasks, stopped.open) == ("all tasks", TASKS, ("bob", "bess"))
    (comparison,) = stopped.comparisons
    assert not comparison.decided
    assert comparison.more_tasks is None or comparison.more_tasks > 0
    assert stopped.usd_per_task == pytest.approx(result.spending[0].cost_usd / TASKS)
    assert "undecided with all tasks, 60 of 60 tasks" in stopped.sentence


def test_a_budget_stops_it_and_a_larger_one_continues(paid_scorer, tmp_path):
    price = {"price_usd_per_million": (100.0, 0.0)}
    whole = evaluate(paid_scorer(), tmp_path / "whole", "bob>bess", **price).spending[0].cost_usd
    result = evaluate(paid_scorer(), tmp_path, "bob>bess", budget_usd=whole / 2, **price)
    assert result.stopped.reason == "budget"
    assert result.spending[0].cost_usd <= whole / 2
    assert not result.complete
    more = evaluate(paid_scorer(), tmp_path, "bob>bess", **price)
    assert more.stopped.reason == "all tasks"
    assert more.spending[0].cost_usd + result.spending[0].cost_usd == pytest.approx(whole)


def test_recorded_evidence_answers_the_same(toy_scorer, tmp_path):
    full = evaluate(toy_scorer(), tmp_path)
    save_run(full, tmp_path / "run")
    asked = evaluate(toy_scorer(), tmp_path, "best")
    recorded = goldless.evaluate(
        tmp_path / "run", metrics="gem-raw", recorded=True, until="best", resamples=100, at_least=10
    )
    assert (recorded.stopped.answer, recorded.stopped.tasks_of) == (asked.stopped.answer, asked.stopped.tasks_of)
    assert scores(recorded) == pytest.approx(scores(asked))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": "ann>dan"}, "--until must name agents of the study, got 'dan'"),
        ({"until": ["ann>bob", "bob>ann"]}, "takes one question, got 2"),
        ({"until": "best", "alpha": 0.0}, "alpha must be a number between 0 and 1, got 0.0"),
        ({"until": "best", "alpha": 1.0}, "alpha must be"),
        ({"until": "best", "at_least": 1}, "at_least must be a whole number of at least 2"),
    ],
)
def test_a_question_that_cannot_be_asked_costs_nothing(toy_scorer, tmp_path, options, message):
    scorer = toy_scorer()
    with pytest.raises(UserError, match=message):
        evaluate(scorer, tmp_path, **options)
    assert scorer.calls == []


def test_only_the_questions_comparisons_are_tested_where_the_data_decided_when_to_stop(toy_scorer, tmp_path):
    result = evaluate(toy_scorer(), tmp_path, "baseline=cy", metrics=["gem-raw", "length"])
    for metric in ("gem-raw", "length"):
        board = result.leaderboard(metric)
        assert {(c.first, c.second) for c in board.comparisons} == {("ann", "cy"), ("bob", "cy"), ("bess", "cy")}
        assert "confidence-sequence-less-skew(alpha=0.05,at-least=10)" in board.signature
        assert any("do not allow for that" in note for note in board.notes)
    data = write(result)["stopped"]
    assert (data["decided"], data["by"], len(data["comparisons"])) == (True, "gem-raw", 3)


def test_a_difference_of_groups_has_no_interval_where_the_question_chose_the_tasks(toy_scorer, tmp_path):
    agents = [{"agent": agent, "group": "high" if share > 0.5 else "low"} for agent, share in USES.items()]
    groups = goldless.study_from_frame(study().response_table, agents=pl.DataFrame(agents))
    options = {"metrics": "gem-raw", "compare_groups": ("high", "low"), "resamples": 100}
    options |= {"scorer": toy_scorer(), "journal": tmp_path / "journal.sqlite"}
    stopped, whole = (goldless.evaluate(groups, until=until, **options) for until in ("bob>cy", ()))
    difference, reference = (result.leaderboard().groups.difference for result in (stopped, whole))
    assert difference.value > 0
    assert (difference.low, stopped.leaderboard().groups.auc_by_task.low) == (None, None)
    assert reference.low is not None
