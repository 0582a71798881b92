"""Accuracy and cost of every panel of reviewers (Auto-PRE, figure 3): the best of each size, and the frontier.

    python benchmarks/papers/panel_frontier.py ../shared/data/xsum_peer_review

Defaults are the paper's: its seven reviewers, prices in US dollars per million tokens, 1,000 tokens per judgement,
missing judgements counted as one half. A panel is an equal vote over both orders, an exact tie one half; a panel of
one is that reviewer, with each order scored on its own. All panels are measured on the same pairs, those that every
reviewer judged. A panel is on the frontier if no other is at least as accurate and at most as expensive, and better
in one of the two.

The best of many panels on some labels is partly the luckiest. So the same choice (of that size; at no more than that
cost) is made on one half of the tasks and measured on the other, and vice versa, many times over: "held out".
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import goldless
from goldless.metrics.judgement_table import PairJudgements, pair_judgements
from goldless.metrics.label_agreement import (
    PairCredits,
    accuracies,
    compare_all_credits,
    panel_judge,
    reviewer_judges,
)
from goldless.metrics.pair_labels import PairLabels
from goldless.runs.options import Options
from goldless.runs.review_evidence import what_people_said
from goldless.statistics.bootstrap import ABSENT, Draws, task_intervals
from goldless.statistics.shared_errors import effective_votes

PAPER_PRICES = {
    **dict.fromkeys(("vicuna-7b", "chatglm3-6b", "baichuan2-13b", "fastchat-t5-3b"), 0.0),
    "chatgpt": 1.0,
    "chatglm_pro": 1.0,
    "gpt4": 40.0,
}
SAME = 1e-12
"""Accuracies within this are equal: sums of the same numbers in another order."""


@dataclass(frozen=True)
class Panel:
    """One panel, and the accuracy of the choice that led to it."""

    reviewers: tuple[str, ...]
    usd: float
    accuracy: float
    low: float | None
    high: float | None
    votes: float | None
    """How many independent votes it is worth."""
    held_out: float
    held_out_low: float | None
    held_out_high: float | None
    on_choosing_half: float
    difference: float | None
    """Accuracy minus that of the most accurate panel; None: this is the one."""
    difference_low: float | None
    difference_high: float | None


@dataclass(frozen=True)
class Frontier:
    """The panels worth knowing."""

    n_panels: int
    n_pairs: int
    n_decided: int
    by_size: list[Panel]
    frontier: list[Panel]
    most_accurate: Panel


def panel_frontier(
    judgements: PairJudgements,
    labels: PairLabels,
    usd: Mapping[str, float],
    *,
    convention: str = "default",
    splits: int = 200,
    draws: Draws,
) -> Frontier:
    """Every panel of the reviewers on the decided pairs that all of them judged; ``usd``: cost by reviewer."""
    decided = labels.decided()
    judges = reviewer_judges(judgements, convention=convention)
    common = decided.kept(np.all([~np.isnan(one.credits(decided).credit) for one in judges], axis=0))
    single = {one.name: one.credits(common) for one in judges}
    names = judgements.reviewers
    panels = [members for size in range(1, len(names) + 1) for members in itertools.combinations(names, size)]
    panels.sort(key=lambda members: (sum(usd[name] for name in members), len(members)))  # of equals, the cheapest

    def credits_of(members: tuple[str, ...]) -> PairCredits:
        if len(members) == 1:
            return single[members[0]]
        return panel_judge(judgements, weights=dict.fromkeys(members, 1.0), convention=convention).credits(common)

    earned = [credits_of(members) for members in panels]
    cost = np.array([sum(usd[name] for name in members) for members in panels])
    size = np.array([len(members) for members in panels])
    on_task = (common.task[:, None] == np.unique(common.task)[None, :]).astype(float)
    by_task, pairs = np.stack([one.credit for one in earned]) @ on_task, on_task.sum(axis=0)
    accuracy = by_task.sum(axis=1) / pairs.sum()
    best = int(_first_best(accuracy))

    def described(panel: int, among: np.ndarray) -> Panel:
        (row,) = accuracies([earned[panel]], **draws)
        wrong = np.stack([1 - single[name].credit for name in panels[panel]])
        less = ABSENT if panel == best else compare_all_credits([earned[panel], earned[best]], **draws)[0].difference
        held, low, high, choosing = _held_out(by_task[among], pairs, splits=splits, draws=draws)
        return Panel(
            panels[panel],
            float(cost[panel]),
            *(row.share.value, row.share.low, row.share.high),
            effective_votes(wrong, common.task, panels[panel], **draws).votes.value,
            *(held, low, high, choosing),
            *(less.value, less.low, less.high),
        )

    chosen = []
    for members in range(1, len(names) + 1):
        among = np.flatnonzero(size == members)
        chosen.append(described(int(among[_first_best(accuracy[among])]), among))
    edge, reached = [], -1.0
    for price in np.unique(np.round(cost, 12)):
        among = np.flatnonzero(cost <= price + SAME)
        panel = int(among[_first_best(accuracy[among])])
        if accuracy[panel] > reached + SAME:
            edge.append(described(panel, among))
            reached = accuracy[panel]
    everything = described(best, np.arange(len(panels)))
    return Frontier(len(panels), common.n_pairs, decided.n_pairs, chosen, edge, everything)


def _first_best(accuracy: np.ndarray) -> np.ndarray:
    """Index of the highest accuracy of each row, the first of equals."""
    return np.argmax(accuracy >= accuracy.max(axis=-1, keepdims=True) - SAME, axis=-1)


def _held_out(
    by_task: np.ndarray, pairs: np.ndarray, *, splits: int, draws: Draws
) -> tuple[float, float | None, float | None, float]:
    """Accuracy, with interval, of choosing on one half of the tasks; and that on the halves it was chosen on."""
    random = np.random.default_rng(draws["seed"])
    tasks = by_task.shape[1]
    choosing = np.zeros((2 * splits, tasks))
    for split in range(splits):
        order = random.permutation(tasks)
        choosing[2 * split, order[: tasks // 2]] = 1.0
        choosing[2 * split + 1, order[tasks // 2 :]] = 1.0
    accuracy = (choosing @ by_task.T) / (choosing @ pairs)[:, None]
    best = _first_best(accuracy)
    earned = ((1 - choosing) * by_task[best]).sum(axis=0) / splits
    mean = float(earned.sum() / pairs.sum())
    linear = mean + (earned - mean * pairs) / pairs.mean()
    (found,) = task_intervals(linear[:, None], **draws)
    return mean, found.low, found.high, float(accuracy[np.arange(len(best)), best].mean())


def recorded_frontier(
    path: str, prices: Mapping[str, float], *, tokens: int, convention: str, splits: int, resamples: int
) -> Frontier:
    """The panels of the priced reviewers, by the judgements recorded in a study."""
    study = goldless.read_study(path)
    settings = {"recorded": True, "convention": convention, "resamples": 200}
    review = goldless.review(study, reviewers=tuple(prices), **settings)
    agents = [agent.agent for agent in study.agents]
    judged = pair_judgements(review.judgements, reviewers=list(prices), tasks=study.tasks, agents=agents)
    labels = what_people_said(study, Options.of(**settings)).tested
    usd = {one.name: one.asked * tokens * prices[one.name] / 1e6 for one in review.reviewers}
    draws: Draws = {"seed": 0, "resamples": resamples, "level": 0.95}
    return panel_frontier(judged, labels, usd, convention=convention, splits=splits, draws=draws)


def _print(title: str, panels: Sequence[Panel]) -> None:
    print(f"\n{title}\n{'USD':>8} {'votes':>6} {'agrees':>7} {'95%':>15} {'held out':>9} {'to best (95%)':>24}  panel")
    for one in panels:
        votes = "" if one.votes is None else f"{one.votes:.2f}"
        less = "the best"
        if one.difference is not None:
            less = f"{one.difference:+.3f} ({one.difference_low:+.3f} … {one.difference_high:+.3f})"
        print(
            f"{one.usd:8.2f} {votes:>6} {one.accuracy:7.4f} {one.low:6.3f} … {one.high:.3f} {one.held_out:9.4f} "
            f"{less:>24}  {' + '.join(one.reviewers)}"
        )


def main() -> None:
    """Print the best panel of each size, and the frontier."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("study", help="a study with pairwise judgements and labels")
    arguments.add_argument("--price", action="append", metavar="NAME=USD", help="reviewer and USD per million tokens")
    arguments.add_argument("--tokens", type=int, default=1000, help="per judgement")
    arguments.add_argument("--convention", default="paper", choices=("paper", "default"))
    arguments.add_argument("--splits", type=int, default=200)
    arguments.add_argument("--resamples", type=int, default=10_000)
    given = arguments.parse_args()
    prices = PAPER_PRICES
    if given.price:
        prices = {name: float(usd) for name, _, usd in (one.rpartition("=") for one in given.price)}
    how = {name: getattr(given, name) for name in ("tokens", "convention", "splits", "resamples")}
    found = recorded_frontier(given.study, prices, **how)
    print(f"{found.n_panels} panels, {found.n_pairs} of {found.n_decided} decided pairs that every reviewer judged")
    _print("Best panel of each size (held out: choosing among panels of the size)", found.by_size)
    _print("Frontier of accuracy and cost (held out: choosing among panels that cost no more)", found.frontier)
    best = found.most_accurate
    print(
        f"\nchoosing the most accurate of all panels: {best.on_choosing_half:.4f} on the tasks it was chosen on, "
        f"{best.held_out:.4f} on the others ({given.splits} splits)"
    )


if __name__ == "__main__":
    main()
