"""Prices are those of the price list, and a budget is never exceeded."""

from __future__ import annotations

import math

import pytest
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import BudgetError
from goldless.models.interface import ModelIdentity, Usage
from goldless.models.usage import Budget, Ledger, Price, parse_budget, price_of


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-4o-mini", "gpt-4o-2024-05-13", "gpt-4.1", "gpt-5.4"])
@pytest.mark.parametrize("usage", [Usage(3000, 500), Usage(1, 1), Usage(90_000, 0)])
def test_a_call_costs_what_the_price_list_says_it_does(name, usage):
    used = PricedUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    expected = calc_price(used, name, provider_id="openai")
    price = price_of(ModelIdentity("openai", name))
    assert price.cost(usage) == pytest.approx(float(expected.total_price), rel=1e-9)


def test_a_model_of_a_known_name_on_somebodys_own_server_has_no_known_price():
    assert price_of(ModelIdentity("openai", "gpt-4o", settings={"server": "http://here/v1"})) is None
    assert price_of(ModelIdentity("http", "gpt-4o", settings={"server": "http://here/v1"})) is None


@pytest.mark.parametrize("provider", ["embedded", "gguf", "hf", "scripted"])
def test_models_on_this_machine_are_free(provider):
    assert price_of(ModelIdentity(provider, "gpt-4o")) == Price(0.0, 0.0)


# --- what is written on the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "usd"),
    [("2USD", 2.0), ("2 usd", 2.0), ("0.5", 0.5), ("$3", 3.0), ("$ 3.25", 3.25), (" 10 ", 10.0), ("0", 0.0)],
)
def test_a_budget_is_an_amount_of_dollars(text, usd):
    assert parse_budget(text) == usd


# --- budget and ledger ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("usd", [math.nan, math.inf, -0.01])
def test_a_budget_that_could_not_be_kept_is_refused(usd):
    with pytest.raises(BudgetError):
        Budget(usd)


def test_a_failed_call_that_may_be_charged_for_is_booked_at_its_maximum_or_at_what_its_reply_says():
    ledger = Ledger("m", Price(1e6, 1e6), Budget(20))
    assert ledger.book_unkept(ledger.set_aside(Usage(6, 4)), (0, 0)) == (Usage(6, 4), 10.0, True)
    assert ledger.book_unkept(ledger.set_aside(Usage(6, 4)), (5, 1)) == (Usage(5, 1), 6.0, False)
    assert (ledger.calls, ledger.kept, ledger.estimated, ledger.spent_usd) == (2, 0, 1, 16.0)
    assert ledger.set_aside(Usage(5, 0)) is None


NOT_CREDIBLE = [(0, 0), (0, 3), (-5000, 1), (5, -1), (2**63, 1), (10**300, 1), (6 + 65_536 + 1, 1), (5, 4 + 65_536 + 1)]


@pytest.mark.parametrize("said", NOT_CREDIBLE)
def test_a_usage_that_is_missing_or_cannot_be_is_booked_at_the_maximum_and_marked(said):
    ledger = Ledger("m", Price(1e6, 1e6), Budget(15))
    assert ledger.book(ledger.set_aside(Usage(6, 4)), Usage(*said)) == (Usage(6, 4), 10.0, True)
    assert (ledger.spent_usd, ledger.calls, ledger.estimated) == (10.0, 1, 1)
    assert ledger.set_aside(Usage(6, 0)) is None


def test_where_a_server_adds_tokens_they_are_booked_and_set_aside_for_from_then_on():
    """A dollar a token: 7 tokens where the request shows at most 5. Of 20, 13 are left: one such call, not two."""
    ledger = Ledger("m", Price(1e6, 1e6), Budget(20))
    assert ledger.book(ledger.set_aside(Usage(4, 1)), Usage(6, 1)) == (Usage(6, 1), 7.0, False)
    assert ledger.set_aside(Usage(4, 1)).usd == 7.0
    assert ledger.set_aside(Usage(4, 1)) is None


steps = st.lists(
    st.tuples(
        st.booleans(),  # begin a call, or end the oldest one
        st.integers(0, 1),  # of which model
        st.integers(0, 4),  # at most so many tokens
        st.floats(0, 1),  # of which this part is used in the end
        st.booleans(),  # or it fails
    ),
    max_size=60,
)


@given(st.integers(1, 12), steps)
def test_two_models_with_any_number_of_calls_under_way_never_spend_more_than_the_budget(limit, given_steps):
    budget = Budget(limit)
    ledgers = [Ledger("a", Price(1e6, 1e6), budget), Ledger("b", Price(2e6, 2e6), budget)]
    prices, spent = (1, 2), 0
    under_way: list[tuple[int, float, int]] = []
    for begin, model, most, part, fails in given_steps:
        if begin:
            aside = ledgers[model].set_aside(Usage(most, 0))
            held = sum(prices[m] * tokens for m, _, tokens in under_way)
            assert (aside is not None) == (spent + held + prices[model] * most <= limit)
            if aside is not None:
                under_way.append((model, aside, most))
        elif under_way:
            which, aside, held = under_way.pop(0)
            used = int(held * part)
            if fails:
                ledgers[which].book_unkept(aside, None)
            else:
                ledgers[which].book(aside, Usage(used, 0))
                spent += prices[which] * (used or held)  # a call without input is booked at its maximum
        assert spent == sum(ledger.spent_usd for ledger in ledgers) <= limit
