"""Prices are those of the price list, and a budget is never exceeded."""

from __future__ import annotations

import ast
import asyncio
import math
import re
from pathlib import Path

import pytest
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price, data
from hypothesis import given
from hypothesis import strategies as st

import goldless
from goldless.errors import BudgetError
from goldless.models.catalogue import PROVIDERS
from goldless.models.interface import ModelIdentity, Usage
from goldless.models.usage import Budget, Ledger, Price, Reservations, parse_budget, price_of


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-4o-mini", "gpt-4o-2024-05-13", "gpt-4.1", "gpt-5.4"])
@pytest.mark.parametrize("usage", [Usage(3000, 500), Usage(1, 1), Usage(90_000, 0)])
def test_a_call_costs_what_the_price_list_says_it_does(name, usage):
    used = PricedUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    expected = calc_price(used, name, provider_id="openai")
    price = price_of(ModelIdentity("openai", name))
    assert price.cost(usage) == pytest.approx(float(expected.total_price), rel=1e-9)


def test_a_model_of_a_known_name_on_somebodys_own_server_has_no_price_but_that_in_its_specification():
    own = ModelIdentity("openai", "gpt-4o", settings={"server": "http://here/v1"})
    assert price_of(own, "openai:gpt-4o?retries=2&price=0.5:2") == Price(0.5, 2.0)
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
    with Reservations(ledger) as aside:
        assert aside.set_aside("a", Usage(6, 4))
        assert aside.book_unkept("a", (0, 0)) == (Usage(6, 4), 10.0, True)
        assert aside.set_aside("b", Usage(6, 4))
        assert aside.book_unkept("b", (5, 1)) == (Usage(5, 1), 6.0, False)
        assert (ledger.calls, ledger.kept, ledger.estimated, ledger.spent_usd) == (2, 0, 1, 16.0)
        assert not aside.set_aside("c", Usage(5, 0))


NOT_CREDIBLE = [(0, 0), (0, 3), (-5000, 1), (5, -1), (2**63, 1), (10**300, 1), (6 + 65_536 + 1, 1), (5, 4 + 65_536 + 1)]


@pytest.mark.parametrize("said", NOT_CREDIBLE)
def test_a_usage_that_is_missing_or_cannot_be_is_booked_at_the_maximum_and_marked(said):
    ledger = Ledger("m", Price(1e6, 1e6), Budget(15))
    with Reservations(ledger) as aside:
        aside.set_aside("a", Usage(6, 4))
        assert aside.book("a", Usage(*said)) == (Usage(6, 4), 10.0, True)
        assert (ledger.spent_usd, ledger.calls, ledger.estimated) == (10.0, 1, 1)
        assert not aside.set_aside("b", Usage(6, 0))


def test_where_a_server_adds_tokens_they_are_booked_and_set_aside_for_from_then_on():
    """A dollar a token: 7 tokens where the request shows at most 5. Of 20, 13 are left: one such call, not two."""
    ledger = Ledger("m", Price(1e6, 1e6), Budget(20))
    with Reservations(ledger) as aside:
        aside.set_aside("a", Usage(4, 1))
        assert aside.book("a", Usage(6, 1)) == (Usage(6, 1), 7.0, False)
        assert ledger.most_usd(Usage(4, 1)) == 7.0
        assert aside.set_aside("b", Usage(4, 1))
        assert not aside.set_aside("c", Usage(4, 1))


# --- nothing stays set aside ---------------------------------------------------------------------------------------

ENDS = ("booked", "failed", "not taken", "returns", "raises", "is cancelled")
"""How a call ends: the first three are settled within the block; the others are how the block itself ends."""

calls = st.tuples(
    st.integers(0, 1),  # of which model
    st.integers(0, 4),  # at most so many tokens
    st.floats(0, 1),  # of which this part is used in the end
    st.booleans(),  # whether it was sent
    st.sampled_from(ENDS),
)
steps = st.lists(st.one_of(calls, st.none()), max_size=60)
"""A call begins, or with None the oldest one ends."""


@given(st.integers(1, 12), steps)
def test_however_calls_end_nothing_stays_set_aside_and_the_budget_holds(limit, schedule):
    """By hand: a call that was sent and not booked costs its maximum, and so does a call without input."""
    budget = Budget(limit)
    ledgers = [Ledger("a", Price(1e6, 1e6), budget), Ledger("b", Price(2e6, 2e6), budget)]
    prices = (1, 2)
    spent = 0
    under_way: list[tuple[Reservations, int, int, float, bool, str]] = []

    def end() -> int:
        aside, model, most, part, sent, how = under_way.pop(0)
        used = int(most * part)
        cost = 0
        if how == "booked":
            aside.book("k", Usage(used, 0))
            cost = used or most
        elif how == "failed":
            aside.book_unkept("k", (0, 0))
            cost = most
        elif how == "not taken":
            aside.book_unkept("k", None)
        elif sent:
            cost = most
        error = {"raises": ValueError(), "is cancelled": asyncio.CancelledError()}.get(how)
        aside.__exit__(type(error), error, None)
        return prices[model] * cost

    for step in [*schedule, *[None] * len(schedule)]:
        if step is None:
            spent += end() if under_way else 0
        else:
            model, most, part, sent, how = step
            aside = Reservations(ledgers[model])
            held = sum(prices[other] * tokens for _, other, tokens, *_ in under_way)
            assert aside.set_aside("k", Usage(most, 0)) == (spent + held + prices[model] * most <= limit)
            if spent + held + prices[model] * most <= limit:
                aside.send(["k"] if sent else [])
                under_way.append((aside, model, most, part, sent, how))
        assert spent == sum(ledger.spent_usd for ledger in ledgers) <= limit
    assert (budget.committed_usd, budget.under_way) == (spent, 0)


def test_only_blocks_that_end_reserve():
    """So that no reservation leaks: only ``Reservations`` reserves, and each is entered where it is made."""
    unsafe: list[str] = []
    for path in Path(goldless.__file__).parent.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if not re.search(r"reserve|settle|Reservations", source):
            continue
        tree = ast.parse(source)
        entered = {item.context_expr for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            reserves = name.endswith((".reserve", ".settle")) and not name.startswith("self._ledger.")
            if reserves or (name == "Reservations" and node not in entered):
                unsafe.append(f"{path.name}:{node.lineno}")
    assert unsafe == []


# --- prices that depend on the length of a call --------------------------------------------------------------------

TIERED = {
    "google": ("gemini-2.5-pro", 200_000, (1.25, 10.0), (2.5, 15.0)),
    "anthropic": ("claude-sonnet-4-5", 200_000, (3.0, 15.0), (6.0, 22.5)),
    "openai": ("gpt-5.4", 272_000, (2.5, 15.0), (5.0, 22.5)),
}
"""As their price lists have it: the longest input at the first price, and both prices, in and out."""


@pytest.mark.parametrize("provider", TIERED)
def test_a_long_call_has_the_price_of_long_calls(provider):
    name, longest, short, long = TIERED[provider]
    price = price_of(ModelIdentity(provider, name))
    for tokens, (read, written) in ((longest, short), (longest + 1, long)):
        expected = (tokens * read + 500 * written) / 1e6
        assert price.cost(Usage(tokens, 500)) == pytest.approx(expected, rel=1e-12)
        assert price.shared(0.5).cost(Usage(tokens, 500)) == pytest.approx(expected / 2, rel=1e-12)
    ledger = Ledger("m", price)
    assert ledger.most_usd(Usage(longest + 1, 500)) == pytest.approx(expected, rel=1e-12)


LENGTHS = (1000, 200_000, 200_001, 272_001, 2_000_000)


@pytest.mark.slow
def test_every_price_is_that_of_the_list_at_every_length_and_never_falls_with_length():
    """A reservation is made for the longest that a call can be, so a longer call must not cost less."""
    unlike: list[str] = []
    services = [service for service in PROVIDERS.all().values() if service.price_id is not None]
    names = {provider.id: [model.id for model in provider.models] for provider in data.providers}
    for service in services:
        for name in names.get(service.price_id, ()):
            price = price_of(ModelIdentity(service.name, name))
            if price is None:
                continue
            costs = [price.cost(Usage(tokens, 700)) for tokens in LENGTHS]
            listed = [
                calc_price(PricedUsage(input_tokens=tokens, output_tokens=700), name, provider_id=service.price_id)
                for tokens in LENGTHS
            ]
            if costs != pytest.approx([float(one.total_price) for one in listed], rel=1e-9) or costs != sorted(costs):
                unlike.append(name)
    assert unlike == []
