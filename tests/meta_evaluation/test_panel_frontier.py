"""All panels at once give what each gives alone; the frontier, the held-out choice, and the recorded XSum panels."""

from __future__ import annotations

import functools
import itertools
import math
import random

import anyio
import numpy as np
import pytest

import goldless
from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.cost import panel_search
from goldless.meta_evaluation.cost.judgement_costs import parse_reviewer_prices
from goldless.meta_evaluation.cost.panel_search import halves, held_out, search_panels
from goldless.meta_evaluation.cost.panels import find_panels, panel_frontier
from goldless.metrics.pair_labels import pair_labels
from goldless.records import Rating
from goldless.reports.document import write
from goldless.runs.options import Options
from judgement_columns import pair_judgements_from_columns

FAST = {"resamples": 200}


def made_up(reviewers: int, tasks: int, *, seed: int = 0, missing: float = 0.1, right: float = 0.5):
    """Three agents of known quality on each task, and reviewers that are right with a probability, in both orders."""
    luck = random.Random(seed)
    quality = {"a": 3.0, "b": 2.0, "c": 1.0}
    columns: list[tuple[str, str, str, str, float | None]] = []
    for reviewer, task in itertools.product(range(reviewers), range(tasks)):
        for first, second in itertools.permutations(quality, 2):
            value = float((quality[first] > quality[second]) == (luck.random() < right))
            columns.append((f"r{reviewer}", f"t{task}", first, second, None if luck.random() < missing else value))
    names = [f"t{task}" for task in range(tasks)]
    agents = list(quality)
    judged = pair_judgements_from_columns(*map(list, zip(*columns, strict=True)), tasks=names, agents=agents)
    labels = pair_labels(
        [Rating(task, agent, "p", score) for task in names for agent, score in quality.items()],
        tasks=names,
        agents=agents,
    )
    return columns, judged, labels


def by_hand(columns, members, *, common: bool = False) -> float:
    """Accuracy of an equal vote of several reviewers, counted pair by pair; the label is alphabetical order.

    ``common``: on pairs that all reviewers judged in both orders, those beside the members too.
    """
    said = {(r, t, x, y): value for r, t, x, y, value in columns}
    everybody = sorted({r for r, *_ in columns})
    earned = []
    for task, (low, high) in itertools.product(
        sorted({t for _, t, *_ in columns}), itertools.combinations(["a", "b", "c"], 2)
    ):
        votes = []
        if common and any(None in (said[r, task, low, high], said[r, task, high, low]) for r in everybody):
            continue
        for name in members:
            one, other = said[name, task, low, high], said[name, task, high, low]
            if one is not None and other is not None:
                votes.append((2 * one - 1) - (2 * other - 1))
        if votes:
            earned.append(0.5 if sum(votes) == 0 else float(sum(votes) > 0))
    return sum(earned) / len(earned)


def test_every_panel_has_the_accuracy_counted_pair_by_pair():
    columns, judged, labels = made_up(5, 8, right=0.7)
    searched = search_panels(judged, labels)
    assert len(searched.members) == 2**5 - 1
    for panel in range(len(searched.members)):
        assert searched.accuracy[panel] == pytest.approx(by_hand(columns, searched.names(panel)))


def test_no_panel_on_the_frontier_is_beaten_in_cost_and_accuracy_and_all_others_are():
    columns, judged, labels = made_up(5, 12, right=0.7)
    usd = {f"r{i}": float(price) for i, price in enumerate((0, 0, 1, 1, 5))}
    found = panel_frontier(judged, labels, usd, **FAST)
    points = {
        names: (sum(usd[name] for name in names), by_hand(columns, names, common=True))
        for size in range(1, 6)
        for names in itertools.combinations(judged.reviewers, size)
    }
    best = {
        (cost, accuracy)
        for cost, accuracy in points.values()
        if not any(c <= cost and a >= accuracy - 1e-12 and (c, a) != (cost, accuracy) for c, a in points.values())
    }
    assert [(panel.usd, round(panel.accuracy, 9)) for panel in found.frontier] == sorted(
        (cost, round(accuracy, 9)) for cost, accuracy in best
    )
    assert [panel.usd for panel in found.frontier] == sorted(panel.usd for panel in found.frontier)
    assert found.most_accurate.accuracy == pytest.approx(max(accuracy for _, accuracy in points.values()))


def test_a_panel_with_a_reviewer_of_unknown_price_has_no_cost_and_is_on_no_frontier():
    _, judged, labels = made_up(3, 8, right=0.8)
    found = panel_frontier(judged, labels, {"r0": 0.0, "r1": None}, **FAST)
    assert found.unpriced == ("r1", "r2")
    assert [panel.reviewers for panel in found.frontier] == [("r0",)]
    assert {panel.usd for panel in found.by_size if panel.reviewers != ("r0",)} == {None}
    none = panel_frontier(judged, labels, {}, **FAST)
    assert none.frontier == ()
    assert none.most_accurate.usd is None


def test_of_equally_accurate_panels_the_cheaper_is_chosen():
    _, judged, labels = made_up(2, 8, right=1.0, missing=0.0)
    found = panel_frontier(judged, labels, {"r0": 3.0, "r1": 2.0}, **FAST)
    assert found.most_accurate.reviewers == ("r1",)
    assert found.most_accurate.accuracy == 1.0
    assert [panel.reviewers for panel in found.frontier] == [("r1",)]


def test_the_difference_to_the_most_accurate_panel_is_that_of_their_accuracies_where_nothing_is_missing():
    _, judged, labels = made_up(3, 12, right=0.7, missing=0.0)
    found = panel_frontier(judged, labels, {"r0": 0.0, "r1": 1.0, "r2": 2.0}, **FAST)
    for panel in found.frontier[:-1]:
        assert panel.difference == pytest.approx(panel.accuracy - found.most_accurate.accuracy)
        assert panel.difference_low <= panel.difference <= panel.difference_high
    assert found.frontier[-1].difference is None


# --- the same pairs for all ------------------------------------------------------------------------------------------


def judged_by(judges, tasks=40):
    """Reviewers by name with what they say of a pair: whether a is better than b on a task; None: not asked."""
    names = [f"t{task}" for task in range(tasks)]
    columns = [
        (name, task, first, second, value if first == "a" else 1 - value)
        for name, says in judges.items()
        for number, task in enumerate(names)
        if (value := says(number)) is not None
        for first, second in (("a", "b"), ("b", "a"))
    ]
    labels = pair_labels([Rating(task, agent, "p", score) for task in names for agent, score in (("a", 2), ("b", 1))])
    judged = pair_judgements_from_columns(*map(list, zip(*columns, strict=True)), tasks=names, agents=["a", "b"])
    return judged, labels


def test_a_reviewer_that_judged_three_of_forty_pairs_is_left_out_and_named():
    judged, labels = judged_by(
        {"lazy": lambda i: 1.0 if i < 3 else None, "good": lambda i: float(i % 10 > 0), "bad": lambda i: float(i % 2)}
    )
    found = panel_frontier(judged, labels, {"lazy": 0.0, "good": 1.0, "bad": 1.0}, **FAST)
    assert (found.most_accurate.reviewers, found.most_accurate.accuracy) == (("good",), pytest.approx(36 / 40))
    assert (found.reviewers, found.left_out) == (("good", "bad"), ("lazy",))
    assert [(one.reviewer, one.judged, one.compared) for one in found.coverage] == [
        ("lazy", 3, False),
        ("good", 40, True),
        ("bad", 40, True),
    ]
    assert "less than 50 % of the 40 decided pairs" in found.notes[0]
    assert "lazy (3)" in found.notes[0]


def test_panels_are_compared_on_the_pairs_that_all_reviewers_judged_and_their_number_is_said():
    """The first 10 tasks are hard: only one reviewer tried them, and was wrong. On the other 30 it is the better."""
    judged, labels = judged_by({"brave": lambda i: float(i >= 12), "shy": lambda i: None if i < 10 else float(i >= 14)})
    found = panel_frontier(judged, labels, {"brave": 1.0, "shy": 1.0}, **FAST)
    # over all it judged shy has 26 / 30 and brave 28 / 40; on the 30 common pairs brave has 28
    assert (found.n_common, found.n_decided) == (30, 40)
    assert (found.most_accurate.reviewers, found.most_accurate.accuracy) == (("brave",), pytest.approx(28 / 30))
    assert {panel.used for panel in found.by_size} == {30}
    assert "30 of 40 decided pairs" in found.size_table().title
    assert "|compared-on:30 of 40 pairs" in found.signature
    assert any(column.heading == "pairs" and not column.wide for column in found.size_table().columns)


def test_reviewers_with_no_pair_in_common_are_refused_with_what_to_do():
    judged, labels = judged_by({"even": lambda i: None if i % 2 else 1.0, "odd": lambda i: 1.0 if i % 2 else None})
    with pytest.raises(MetricError, match=r"of 40 they judged: even 20, odd 20.*Name fewer reviewers.*--own-family"):
        panel_frontier(judged, labels, {}, **FAST)


# --- held out ------------------------------------------------------------------------------------------------------


def test_halves_part_the_tasks_and_every_task_is_on_either_side_once_a_split():
    parted = halves(7, splits=5, seed=3)
    assert parted.shape == (10, 7)
    assert np.array_equal(parted[0::2] + parted[1::2], np.ones((5, 7)))
    assert set(parted.sum(axis=1)) == {3, 4}


def test_held_out_accuracy_is_that_of_choosing_on_one_half_and_measuring_on_the_other():
    _, judged, labels = made_up(4, 6, right=0.6)
    searched = search_panels(judged, labels)
    found = held_out(searched, np.arange(len(searched.members)), splits=20, draws={"seed": 1, "level": 0.95, **FAST})
    earned = judged_pairs = 0.0
    for choosing in halves(6, splits=20, seed=1):
        inside = choosing == 1
        shares = searched.earned[:, inside].sum(axis=1) / searched.judged[:, inside].sum(axis=1)
        chosen = next(i for i, share in enumerate(shares) if share >= max(shares) - 1e-12)
        earned += searched.earned[chosen, ~inside].sum()
        judged_pairs += searched.judged[chosen, ~inside].sum()
    assert found.accuracy == pytest.approx(earned / judged_pairs)
    assert found.low <= found.accuracy <= found.high


def test_choosing_among_reviewers_that_toss_coins_looks_good_and_is_not_when_held_out():
    """Of a fair coin the accuracy is one half, whichever of 255 panels of coins is chosen."""
    _, judged, labels = made_up(8, 40, seed=5, missing=0.0)
    found = panel_frontier(judged, labels, {}, splits=100, **FAST)
    held = found.most_accurate.held_out
    assert found.most_accurate.accuracy > 0.55
    assert held.on_choosing_half > 0.55
    assert abs(held.accuracy - 0.5) < 0.05


def test_too_few_tasks_to_halve_are_said_and_give_no_number():
    _, judged, labels = made_up(2, 3, right=0.9, missing=0.0)
    held = panel_frontier(judged, labels, {}, **FAST).most_accurate.held_out
    assert held.accuracy is None
    assert "too few" in held.note


def test_the_same_seed_gives_the_same_numbers_and_another_one_other_splits():
    _, judged, labels = made_up(4, 10, right=0.6)
    first, again = (write(panel_frontier(judged, labels, {}, seed=4, **FAST)) for _ in range(2))
    assert first == again
    other = panel_frontier(judged, labels, {}, seed=5, **FAST).most_accurate.held_out
    assert other.on_choosing_half != first["most_accurate"]["held_out"]["on_choosing_half"]


# --- many reviewers ------------------------------------------------------------------------------------------------


def test_beyond_twelve_reviewers_small_panels_are_all_tried_larger_ones_grown_and_this_is_said():
    columns, judged, labels = made_up(14, 6, right=0.65, missing=0.0)
    found = panel_frontier(judged, labels, {}, splits=5, **FAST)
    assert [panel.size for panel in found.by_size] == list(range(1, 15))
    # 14 + 91 + 364 + 1001 + 2002 = 3472 panels of up to five are no more than 4096; with six there would be 6475
    assert "all panels of up to 5 of the 14 reviewers" in found.search
    assert "can be missed" in found.search
    pairs = max(by_hand(columns, two) for two in itertools.combinations(judged.reviewers, 2))
    assert found.by_size[1].accuracy == pytest.approx(pairs)
    assert found.by_size[-1].accuracy == pytest.approx(by_hand(columns, judged.reviewers))


def test_grown_panels_are_all_panels_where_all_fit(monkeypatch):
    """With three reviewers and pairs at most, the only larger panel is that of all."""
    _, judged, labels = made_up(3, 6, right=0.7)
    whole = search_panels(judged, labels)
    monkeypatch.setattr(panel_search, "EVERY_PANEL_UP_TO", 2)
    grown = search_panels(judged, labels)
    assert {grown.names(i) for i in range(len(grown.members))} == {whole.names(i) for i in range(len(whole.members))}


# --- bad input -----------------------------------------------------------------------------------------------------


def test_labels_that_decide_nothing_and_no_splits_are_refused():
    _, judged, labels = made_up(2, 4)
    with pytest.raises(MetricError, match="no pair has a decided label"):
        panel_frontier(judged, labels.among([]), {})
    with pytest.raises(UserError, match="splits must be at least 1, got 0"):
        panel_frontier(judged, labels, {}, splits=0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "words"),
    [({"scale": "5-level"}, "pairwise"), ({"exams": ("consistency",)}, "exam"), ({}, "no labels")],
)
async def test_panels_need_a_pairwise_scale_no_exam_and_labels(study_file, options, words):
    study = goldless.read_study(study_file())
    with pytest.raises(UserError, match=words):
        await find_panels(study, Options(reviewers=("x",), recorded=True, **options))


# --- recorded ------------------------------------------------------------------------------------------------------

CANDIDATES = ("vicuna-7b", "chatglm3-6b", "baichuan2-13b", "fastchat-t5-3b", "chatgpt", "chatglm_pro", "gpt4")
OPEN = CANDIDATES[:4]
PAPER_PRICES = parse_reviewer_prices(["gpt4=40", "chatgpt=1", "chatglm_pro=1", *(f"{name}=0" for name in OPEN)])
"""Auto-PRE, section "Cost Analysis": US dollars per million tokens."""


@pytest.fixture(scope="module")
def xsum(recorded):
    return goldless.read_study(recorded / "xsum_peer_review")


def panels_of(study, members, **settings):
    options = Options(reviewers=members, recorded=True, convention="paper", resamples=200)
    prices = {name: PAPER_PRICES[name] for name in members}
    return anyio.run(functools.partial(find_panels, prices=prices, **settings), study, options)


@pytest.fixture(scope="module")
def panels(xsum):
    return panels_of(xsum, CANDIDATES, tokens_a_judgement=1000, splits=50)


@pytest.mark.nightly
@pytest.mark.recorded
def test_with_the_papers_prices_gpt4_costs_168_dollars_and_agrees_on_7369(panels):
    """4200 judgements of 1000 tokens at 40 dollars a million; accuracies: Auto-PRE, table 3."""
    assert panels.reviewers["gpt4"].usd == pytest.approx(4200 * 1000 * 40 / 1e6)
    by_size = {panel.size: panel for panel in panels.frontier.by_size}
    assert by_size[1].reviewers == ("gpt4",)
    assert by_size[1].usd == pytest.approx(168)
    assert round(by_size[1].accuracy, 4) == 0.7369
    assert round(by_size[7].accuracy, 4) == 0.7401
    assert by_size[7].usd == pytest.approx(168 + 2 * 4.2)


@pytest.mark.nightly
@pytest.mark.recorded
def test_the_published_points_that_the_recorded_data_can_give(panels, xsum):
    """Auto-PRE's panels are equal votes of open models and paid ones (its table 12).

    A5, open models with ChatGLM_Pro, GPT-3.5 and GPT-4: with all four open models it is the vote of all seven, .7401;
    with the open model that passes the exam it is the row "PRE (Auto-Exam)" of table 3, .7381. Costs: 42, 1 and 2
    dollars a million tokens for A5, A1 and A2. A3 and A4 ask a model in two wordings, of which one is recorded. The
    paper gives accuracies of A1 and A2 in a figure only.
    """
    costs = {}
    for name, paid in {"A1": ["chatglm_pro"], "A2": ["chatglm_pro", "chatgpt"]}.items():
        costs[name] = sum(panels.reviewers[member].usd for member in (*OPEN, *paid))
    assert costs == pytest.approx({"A1": 4.2 * 1, "A2": 4.2 * 2})
    passed = ("fastchat-t5-3b", "chatgpt", "chatglm_pro", "gpt4")
    a5 = panels_of(xsum, passed, tokens_a_judgement=1000, splits=5).frontier.by_size[-1]
    assert round(a5.accuracy, 4) == 0.7381
    assert a5.usd == pytest.approx(4.2 * 42)


@pytest.mark.recorded
def test_a_panel_without_gpt4_comes_within_a_hundredth_of_it_for_a_twentieth_of_its_cost(panels):
    """Auto-PRE says of its fourth panel: 90 % less cost, accuracy .0054 lower."""
    cheap = [panel for panel in panels.frontier.frontier if panel.usd <= 168 / 20 + 1e-9]
    assert max(panel.accuracy for panel in cheap) > 0.7369 - 0.01
    # and on tasks that had no say in the choice it is lower than it looks
    assert all(panel.held_out.accuracy <= panel.accuracy + 1e-9 for panel in panels.frontier.frontier)


@pytest.mark.nightly
@pytest.mark.recorded
def test_where_own_families_are_left_out_the_agents_that_no_common_pair_is_of_are_named(xsum):
    """ChatGPT and vicuna-7b are agents too: counted from the tables, common pairs are those of the other five."""
    options = Options(reviewers=("gpt4", "chatgpt", "vicuna-7b"), recorded=True, resamples=200)
    found = anyio.run(functools.partial(find_panels, splits=5), xsum, options).frontier
    assert found.unseen == ("chatgpt", "vicuna-7b")
    assert any("none of these pairs includes chatgpt, vicuna-7b" in note for note in found.notes)
    assert "own-family:left out" in found.signature


@pytest.mark.nightly
@pytest.mark.recorded
def test_without_a_number_given_tokens_are_estimated_from_the_questions_text(xsum):
    cost = panels_of(xsum, ("gpt4",), splits=5).reviewers["gpt4"]
    assert cost.tokens_from == "estimated"
    # a document, two summaries and the instructions, at four characters a token
    assert 300 < cost.tokens_a_judgement < 1000
    assert math.isclose(cost.usd, cost.tokens * 40 / 1e6)
