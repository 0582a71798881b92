"""The change on held-out tasks is a mean over tasks; expected numbers are worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.apps.finetune.result import compare_held_out
from goldless.evidence import LOGPROBS


def row(task: str, target: str, given: str | None, *logprobs: float, synopsis: str | None = None) -> dict[str, object]:
    where = {"task": task, "target": target, "given": given, "synopsis": synopsis}
    return {**where, "sum_logprob_nats": sum(logprobs), "tokens": len(logprobs)}


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
    assert conditional.per_response.change.value == pytest.approx((1.25 + 6) / 2)
    assert (conditional.tasks, conditional.asked, conditional.missing, conditional.tokens) == (2, 3, 0, 5)
    assert marginal.per_response.change.value == pytest.approx((1 + 2) / 2)


def test_the_interval_of_two_tasks_is_students_t_over_their_changes():
    marginal = compared(BEFORE, AFTER)[1]
    # changes 1 and 2: mean 1.5, standard error 0.5, t with one degree of freedom at 97.5 %: 12.7062 (any table of t)
    assert marginal.per_response.change.low == pytest.approx(1.5 - 12.7062 * 0.5, abs=1e-4)
    assert marginal.per_response.change.high == pytest.approx(1.5 + 12.7062 * 0.5, abs=1e-4)


def test_the_difference_is_what_a_given_response_adds_and_needs_both_terms():
    difference = compared(BEFORE, AFTER)[2]
    # one, a given b: -5 + 6 = 1, then -3 + 5 = 2; two: -12 + 8 = -4, then -6 + 6 = 0; b has no marginal
    assert difference.per_response.before == pytest.approx((1 - 4) / 2)
    assert difference.per_response.after == pytest.approx((2 + 0) / 2)
    assert (difference.asked, difference.missing) == (3, 1)
    assert difference.per_token is None
