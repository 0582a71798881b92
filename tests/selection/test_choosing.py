"""Which response is chosen, and when that is decided; intervals against SciPy's t distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from goldless.errors import UserError
from goldless.selection.selecting import Rule, Tolerance, choose
from goldless.statistics.deciding import ANYTIME


def table(scores: np.ndarray) -> dict[tuple[str, str], float]:
    k = len(scores)
    return {(str(i), str(j)): scores[i, j] for i in range(k) for j in range(k) if i != j}


def texts(k: int) -> dict[str, str]:
    return {str(i): f"text {i}" for i in range(k)}


def drawn(k: int, lead: float, seed: int = 0) -> np.ndarray:
    """Scores of k responses; the one in place 2 leads."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, (k, k))
    scores[2] += lead
    return scores


EXACT = Tolerance(0.0)


def test_the_best_score_is_chosen_and_the_margin_is_the_difference_of_scores():
    scores = drawn(14, lead=1.0)
    found = choose("t", texts(14), table(scores), Rule(tolerance=EXACT))
    np.fill_diagonal(scores, np.nan)
    # in its own place, what the others score with it
    means = np.where(np.isnan(scores), np.nanmean(scores, axis=0), scores).mean(axis=1)
    best, second = np.argsort(-means)[:2]
    assert (found.chosen, found.runner_up) == (str(best), str(second))
    assert found.score == pytest.approx(means[best])
    margin = means[best] - means[second]
    differences = np.delete(scores[best] - scores[second], [best, second])
    low, high = stats.t.interval(1 - 0.05 / 13, 11, margin, stats.sem(differences))
    assert (found.margin.value, found.margin.low, found.margin.high) == pytest.approx((margin, low, high))
    assert found.margin.n == 12


def test_a_clear_lead_is_decided_and_a_small_one_is_not():
    assert choose("t", texts(14), table(drawn(14, lead=4.0)), Rule(tolerance=EXACT)).decided
    assert not choose("t", texts(14), table(drawn(14, lead=0.1)), Rule(tolerance=EXACT)).decided


def test_rivals_within_the_tolerance_do_not_matter():
    scores = drawn(14, lead=4.0)
    scores[5] = scores[2] - 0.01  # as good as the leader
    scores[5, 2] = scores[2, 5] = 4.0
    assert not choose("t", texts(14), table(scores), Rule(tolerance=EXACT, alpha=1e-6)).decided
    assert choose("t", texts(14), table(scores), Rule(tolerance=Tolerance(5.0), alpha=0.05)).decided


def test_the_same_text_is_no_rival():
    scores = drawn(14, lead=4.0)
    scores[5] = scores[2]
    same = {**texts(14), "5": "text 2"}
    found = choose("t", same, table(scores), Rule(tolerance=EXACT))
    assert found.decided
    assert found.runner_up not in {"2", "5"}
    one = choose("t", dict.fromkeys("abc", "x"), {}, Rule())
    assert (one.chosen, one.decided) == ("a", True)


def test_the_mistake_rate_of_decided_choices_is_below_alpha_even_when_one_looks_after_every_sample():
    """Two responses of equal worth among 16: whichever leads, calling it better is wrong."""
    rng, wrong = np.random.default_rng(1), 0
    rule = Rule(alpha=0.1, at_least=5, tolerance=EXACT, bound=ANYTIME, most=16)
    for _ in range(80):
        scores = rng.normal(0, 1, (16, 16))
        scores[:2] += 3.0
        looks = [choose("t", texts(k), table(scores[:k, :k]), rule) for k in (9, 12, 16)]
        wrong += any(look.decided for look in looks)
    assert wrong / 80 < 0.1


def test_missing_scores_are_counted_and_a_response_without_any_is_never_chosen():
    scores = drawn(5, lead=9.0)
    given = {key: value for key, value in table(scores).items() if key[0] != "2"}
    found = choose("t", texts(5), given, Rule(), failed=2)
    assert found.chosen != "2"
    assert found.missing == 1 + 2
    assert not found.decided
    nothing = choose("t", texts(3), {}, Rule())
    assert (nothing.chosen, nothing.text, nothing.missing) == (None, None, 3)
    alone = choose("t", {"a": "x"}, {}, Rule())
    assert (alone.chosen, alone.samples) == ("a", 1)


@pytest.mark.parametrize(("written", "value", "spreads"), [("0.5sd", 0.5, True), (2, 2.0, False), ("0", 0.0, False)])
def test_a_tolerance_is_in_the_metrics_unit_or_in_standard_deviations(written, value, spreads):
    assert Tolerance.parse(written) == Tolerance(value, spreads)


@pytest.mark.parametrize("written", ["-1", "sd", "nan", "inf", "1se", [], None])
def test_another_tolerance_is_refused(written):
    with pytest.raises(UserError, match="tolerance must be"):
        Tolerance.parse(written)
