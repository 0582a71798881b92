"""The change on held-out tasks is a mean over tasks; expected numbers are worked out by hand."""

from __future__ import annotations

import math

import polars as pl
import pytest

from goldless.evidence import LOGPROBS
from goldless.finetuning.material import TaskTexts
from goldless.finetuning.result import compare_held_out, held_out_evidence
from goldless.models.interface import Capabilities, ModelIdentity, ScoreRequest, TokenLogprobs
from goldless.records import Task
from goldless.scoring import ScoringStage
from goldless.templates import find_template


def row(task: str, target: str, given: str | None, *logprobs: float, synopsis: str | None = None) -> dict[str, object]:
    where = {"task": task, "target": target, "given": given, "synopsis": synopsis}
    return {**where, "sum_logprob_nats": sum(logprobs), "tokens": len(logprobs)}


def lost(task: str, target: str, given: str | None) -> dict[str, object]:
    return {"task": task, "target": target, "given": given, "failure": "too_long", "failure_message": "long"}


def compared(before, after):
    return compare_held_out(*(pl.DataFrame(rows, LOGPROBS) for rows in (before, after)))


BEFORE = [
    row("one", "a", None, -4.0, -2.0),
    row("one", "a", "b", -3.0, -2.0),
    row("one", "b", "a", -1.0),
    row("two", "a", None, -8.0),
    row("two", "a", "b", -6.0, -6.0),
]
AFTER = [
    row("one", "a", None, -3.0, -2.0),
    row("one", "a", "b", -2.0, -1.0),
    row("one", "b", "a", -0.5),
    row("two", "a", None, -6.0),
    row("two", "a", "b", -3.0, -3.0),
]


def test_means_are_over_tasks_and_not_over_texts_or_tokens():
    conditional, marginal, difference = compared(BEFORE, AFTER)
    assert [r.term for r in (conditional, marginal, difference)] == ["conditional", "marginal", "difference"]
    # one: -6 nats over 3 tokens and 2 texts; two: -12 over 2 tokens and 1 text
    assert conditional.per_token.before == pytest.approx((-6 / 3 - 12 / 2) / 2)
    assert conditional.per_token.after == pytest.approx((-3.5 / 3 - 6 / 2) / 2)
    assert conditional.per_response.before == pytest.approx((-6 / 2 - 12) / 2)
    assert conditional.per_response.after == pytest.approx((-3.5 / 2 - 6) / 2)
    assert conditional.per_response.change == pytest.approx((1.25 + 6) / 2)
    assert (conditional.tasks, conditional.asked, conditional.missing, conditional.tokens) == (2, 3, 0, 5)
    assert marginal.per_response.change == pytest.approx((1 + 2) / 2)


def test_the_interval_of_two_tasks_is_students_t_over_their_changes():
    marginal = compared(BEFORE, AFTER)[1]
    # changes 1 and 2: mean 1.5, standard error 0.5, t with one degree of freedom at 97.5 %: 12.7062 (any table of t)
    assert marginal.per_response.low == pytest.approx(1.5 - 12.7062 * 0.5, abs=1e-4)
    assert marginal.per_response.high == pytest.approx(1.5 + 12.7062 * 0.5, abs=1e-4)


def test_the_difference_is_what_a_given_response_adds_and_needs_both_terms():
    difference = compared(BEFORE, AFTER)[2]
    # one, a given b: -5 + 6 = 1, then -3 + 5 = 2; two: -12 + 8 = -4, then -6 + 6 = 0; b has no marginal
    assert difference.per_response.before == pytest.approx((1 - 4) / 2)
    assert difference.per_response.after == pytest.approx((2 + 0) / 2)
    assert (difference.asked, difference.missing) == (3, 1)
    assert difference.per_token is None


def test_what_one_side_could_not_predict_is_missing_in_both_and_counted():
    after = [AFTER[0], lost("one", "a", "b"), *AFTER[2:]]
    conditional = compared(BEFORE, after)[0]
    assert (conditional.asked, conditional.missing) == (3, 1)
    assert conditional.per_response.before == pytest.approx((-1 - 12) / 2)


def test_nothing_scored_is_no_number_rather_than_zero():
    rows = compared([lost("one", "a", None)], [lost("one", "a", None)])
    change = rows[1].per_response
    assert (change.before, change.after, change.change, change.note) == (None, None, None, "no task could be scored")
    assert not any(isinstance(x, float) and math.isnan(x) for x in (rows[1].tokens, rows[1].missing))


class Counting:
    """A scorer that gives every byte of a target -1 and notes how many requests came in each call."""

    context_length = None

    def __init__(self, *, together: bool) -> None:
        self.identity = ModelIdentity("test", "counting", "1")
        self.capabilities = Capabilities(scoring=True, together=together)
        self.calls: list[int] = []

    async def encode(self, messages, target):
        return ScoreRequest(tuple(" ".join(m.content for m in messages).encode()), tuple(target.encode()))

    async def score(self, requests, deliver):
        self.calls.append(len(requests))
        deliver({i: TokenLogprobs((-1.0,) * len(r.target)) for i, r in enumerate(requests)})


@pytest.mark.anyio
@pytest.mark.parametrize(("together", "calls", "told"), [(True, [27], [3]), (False, [9, 9, 9], [1, 2, 3])])
async def test_a_scorer_that_is_faster_with_many_is_asked_about_all_tasks_at_once(together, calls, told):
    scorer = Counting(together=together)
    stages = [ScoringStage(scorer, find_template("plain"), None, None)]
    tasks = [TaskTexts(Task(f"t{i}"), {agent: f"{agent} of {i}" for agent in "abc"}) for i in range(3)]
    heard: list[int] = []
    found = await held_out_evidence(tasks, stages, done=heard.append)
    assert (scorer.calls, heard) == (calls, told)
    # six pairs and three marginals a task, whose texts have six bytes
    assert found["task"].to_list() == [f"t{i}" for i in range(3) for _ in range(9)]
    assert set(found["sum_logprob_nats"]) == {-6.0}
