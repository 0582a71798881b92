"""Accuracy and cost of panels of every size (Auto-PRE, figure 3): the best of each size, and the frontier.

A panel is on the frontier if no other is at least as accurate and at most as expensive, and better in one of the two.
All panels are measured on the same pairs, those that every compared reviewer judged. Choosing the best of many panels
on the same labels is optimistic, so each accuracy comes with that of the same choice on held-out tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.cost.judgement_costs import ReviewerCost, reviewer_costs
from goldless.meta_evaluation.cost.panel_search import (
    LEAST_COVERAGE,
    SAME,
    HeldOut,
    JudgedPairs,
    Places,
    cheapest_first,
    common_pairs,
    held_out,
    search_panels,
)
from goldless.meta_evaluation.judges import compared_pairs, judgements_hash
from goldless.metrics.chair import panel_verdicts
from goldless.metrics.judgement_table import Convention, PairJudgements
from goldless.metrics.label_agreement import PairCredits, accuracies, compare_credits, panel_credits, reviewer_credits
from goldless.metrics.pair_labels import PairLabels
from goldless.models.usage import Price
from goldless.reports.document import write
from goldless.reports.findings import Name, Said
from goldless.reports.report_table import Column, ReportTable, usd_text
from goldless.runs.options import Options, check_review_options
from goldless.runs.pipeline import review_study
from goldless.runs.review_evidence import what_people_said
from goldless.runs.review_results import Review
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws
from goldless.statistics.shared_errors import effective_votes
from goldless.studies import Study

OPTIMISTIC = (
    "The best of many panels was chosen on the labels it is measured with, so its accuracy is optimistic. "
    "Held out: the same choice made on one half of the tasks and measured on the other."
)
NEARLY = 0.01
"""Accuracy that is given up for a cheaper panel."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Reviewers with an equal vote, and how far they agree with people."""

    reviewers: tuple[str, ...]
    accuracy: float | None
    """Accuracy on pairs that people decided; None: it judged none."""
    low: float | None
    high: float | None
    n_pairs: int
    """Pairs that people decided and all compared reviewers judged: the same for every panel."""
    used: int
    """Number of these used for the accuracy: all."""
    n_tasks: int
    usd: float | None
    """Cost of all its judgements; None: the price of a member is unknown."""
    difference: float | None = None
    """Accuracy minus that of the most accurate panel."""
    difference_low: float | None = None
    difference_high: float | None = None
    effective_votes: float | None = None
    """How many independent votes it is worth, by the correlation of its members' errors; None: not known."""
    effective_votes_low: float | None = None
    effective_votes_high: float | None = None
    held_out: HeldOut | None = None
    """Accuracy of choosing the best panel of this size, or of at most this cost."""
    KEYS = ("*", "size")

    @property
    def size(self) -> int:
        """Members."""
        return len(self.reviewers)

    @property
    def name(self) -> str:
        """Its reviewers, joined."""
        return " + ".join(self.reviewers)

    @property
    def row(self) -> dict[str, Any]:
        """The panel as one row of a table."""
        held = self.held_out
        choice = {} if held is None else {"held_out_low": held.low, "held_out_high": held.high}
        return {**write(self), "panel": self.name, "held_out": None if held is None else held.accuracy, **choice}


@dataclass(frozen=True, slots=True)
class Frontier:
    """The accuracy and cost of panels."""

    reviewers: tuple[str, ...]
    """The compared reviewers."""
    coverage: tuple[JudgedPairs, ...]
    """How many of the decided pairs each reviewer judged, including reviewers left out."""
    n_decided: int
    """Pairs that people decided."""
    n_common: int
    """Of these, pairs that all compared reviewers judged."""
    unseen: tuple[str, ...]
    """Agents in decided pairs, but in none of these."""
    by_size: tuple[Panel, ...]
    """The most accurate panel of each size, its held-out accuracy that of choosing among panels of its size."""
    frontier: tuple[Panel, ...]
    """Cheapest first; held out: choosing among panels that cost no more. Empty: no panel's cost is known."""
    most_accurate: Panel
    """Held out: choosing among all panels."""
    search: str
    """Which panels were tried."""
    unpriced: tuple[str, ...]
    """Reviewers whose price is unknown: no panel with one of them can be on the frontier."""
    level: float
    signature: str
    KEYS = ("*", "note", "notes")

    @property
    def note(self) -> str:
        """How to take the accuracies."""
        return OPTIMISTIC

    def findings(self) -> Iterator[Said]:
        """What accuracy the money buys, along the frontier."""
        known = [row for row in self.frontier if row.usd is not None and row.accuracy is not None]
        edge = sorted(known, key=lambda row: row.usd or 0.0)
        if not edge:
            return
        best = edge[-1].accuracy or 0.0
        near = next(row for row in edge if (row.accuracy or 0.0) >= best - NEARLY)
        shown = list(dict.fromkeys([edge[0], near, edge[-1]]))
        parts: list[str | Name] = []
        for row in shown:
            parts += ["; "] * bool(parts)
            for place, name in enumerate(row.reviewers):
                parts += [" + "] * bool(place) + [Name(name)]
            parts.append(f": {row.accuracy:.3f} for {usd_text(row.usd or 0.0)} USD")
        yield ("What the money buys, in agreement with people: ", *parts, ".")
        alone = [row for row in (*self.by_size, *self.frontier) if row.size == 1 and row.usd is not None]
        most = max(alone, key=lambda row: row.accuracy or 0.0, default=None)
        if most is not None and most.reviewers not in {row.reviewers for row in shown}:
            said = f": {most.accuracy:.3f} for {usd_text(most.usd or 0.0)} USD."
            yield ("The most accurate single reviewer is ", Name(most.name), said)

    def tables(self) -> list[ReportTable]:
        """The best panel of each size, and the frontier if prices are known."""
        return [self.size_table(), *[self.frontier_table()] * bool(self.frontier)]

    def size_table(self) -> ReportTable:
        """The best panel of each size."""
        return ReportTable(
            f"Best panel of each size, on {self._on} ({self.search}; held out: choosing among panels of the size)",
            (Column("size", "size", "count"), *self.columns()),
            tuple(panel.row for panel in self.by_size),
            self.signature,
        )

    def frontier_table(self) -> ReportTable:
        """The panels that no other beats in cost and accuracy."""
        most = self.most_accurate.name
        differences = (
            Column("difference", "to best", "number", decimals=3),
            Column("difference_low difference_high", f"{self.level * 100:g}%", "interval", decimals=3),
        )
        return ReportTable(
            f"Frontier of accuracy and cost (held out: choosing among panels that cost no more; best: {most})",
            (*self.columns(), *differences),
            tuple(panel.row for panel in self.frontier),
            self.signature,
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Reviewers that judged too few pairs to be compared."""
        return tuple(one.reviewer for one in self.coverage if not one.compared)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the pairs that panels are compared on."""
        notes = []
        if self.left_out:
            listed = ", ".join(f"{one.reviewer} ({one.judged})" for one in self.coverage if not one.compared)
            most = max(one.judged for one in self.coverage)
            notes.append(
                f"left out for judging less than {LEAST_COVERAGE * 100:g} % of the {most} decided pairs of the "
                f"reviewer that judged most: {listed}"
            )
        if self.n_common < self.n_decided:
            notes.append(f"panels are compared on {self._on}")
        if self.unseen:
            notes.append(
                f"none of these pairs includes {', '.join(self.unseen)}, so accuracies say nothing about them. If that "
                "is because reviewers do not judge agents of their own family, add --own-family"
            )
        return tuple(notes)

    @property
    def _on(self) -> str:
        if self.n_common == self.n_decided:
            return f"all {self.n_decided} pairs that people decided"
        return f"the {self.n_common} of {self.n_decided} decided pairs that every compared reviewer judged"

    def columns(self) -> tuple[Column, ...]:
        """The columns that all tables of panels have."""
        interval = f"{self.level * 100:g}%"
        return (
            Column("panel", "panel", "name"),
            Column("usd", "USD", "usd", "?"),
            Column("effective_votes", "votes", "number", decimals=2),
            Column("accuracy", "agrees", "number", "missing"),
            Column("low high", interval, "interval", decimals=3),
            Column("used", "pairs", "count"),
            Column("held_out", "held out", "number"),
            Column("held_out_low held_out_high", interval, "interval", decimals=3, wide=True),
        )


def panel_frontier(
    judgements: PairJudgements,
    labels: PairLabels,
    usd: Mapping[str, float | None],
    *,
    convention: Convention = "default",
    splits: int = 200,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    described: Mapping[str, str] | None = None,
) -> Frontier:
    """The best panel of each size and the frontier of accuracy and cost, equal votes, exact ties half.

    Uses the decided pairs that every compared reviewer judged; reviewers that judged too few are left out. ``usd``: the
    total cost of each reviewer's judgements; None, or no entry: unknown. ``described``: further settings for the
    signature.
    """
    decided = labels.decided()
    if splits < 1:
        raise UserError(f"splits must be at least 1, got {splits}. Try 200")
    if not decided.n_pairs:
        raise MetricError("no pair has a decided label, so no panel's accuracy is known. Add labels to the study")
    coverage, common = common_pairs(judgements, decided, convention=convention)
    judgements = judgements.of([one.reviewer for one in coverage if one.compared])
    draws: Draws = {"seed": seed, "resamples": resamples, "level": level}
    found = _Finder(judgements, common, usd, convention=convention, splits=splits, draws=draws)
    by_size, frontier = found.best_by_size(), found.undominated()
    rows = found.panels([*by_size, *frontier, (found.most_accurate, found.order)])
    settings = {
        "reviewers": ",".join(judgements.reviewers),
        "vote": "equal",
        "orders": "both",
        "ties": "half",
        "convention": convention,
        "missing": "left out" if convention == "default" else "half",
        "compared-on": f"{common.n_pairs} of {decided.n_pairs} pairs, judged by all",
        "least-judged": f"{LEAST_COVERAGE:g} of the most",
        **(described or {}),
        "splits": str(splits),
        "seed": str(seed),
        "resamples": str(resamples),
    }
    return Frontier(
        reviewers=judgements.reviewers,
        coverage=coverage,
        n_decided=decided.n_pairs,
        n_common=common.n_pairs,
        unseen=tuple(agent for agent in _agents_in(decided) if agent not in _agents_in(common)),
        by_size=tuple(rows[: len(by_size)]),
        frontier=tuple(rows[len(by_size) : -1]),
        most_accurate=rows[-1],
        search=found.searched.search,
        unpriced=tuple(name for name in judgements.reviewers if usd.get(name) is None),
        level=level,
        signature=str(Signature("panel-frontier", settings)),
    )


def _agents_in(labels: PairLabels) -> tuple[str, ...]:
    """The agents that the pairs are of."""
    numbers = sorted({*labels.low.tolist(), *labels.high.tolist()})
    return tuple(labels.agents[number] for number in numbers)


_Chosen = tuple[int, Places]
"""A panel, and the panels it was chosen from."""


class _Finder:
    """The panels of one set of judgements, and how they are described."""

    def __init__(
        self,
        judgements: PairJudgements,
        labels: PairLabels,
        usd: Mapping[str, float | None],
        *,
        convention: Convention,
        splits: int,
        draws: Draws,
    ) -> None:
        self._judgements, self._labels, self._convention = judgements, labels, convention
        self._splits, self._draws = splits, draws
        self.searched = search_panels(judgements, labels, convention=convention)
        self._accuracy, self._cost = self.searched.accuracy, self.searched.costs(usd)
        self.order = cheapest_first(self.searched, self._cost)
        self.most_accurate = int(self._best(self.order) or 0)
        self._single = reviewer_credits(judgements, labels, convention=convention)

    def best_by_size(self) -> list[_Chosen]:
        """The most accurate panel of each size, with all of that size."""
        sizes = self.searched.sizes[self.order]
        groups = [self.order[sizes == size] for size in range(1, len(self.searched.reviewers) + 1)]
        return [(best, group) for group in groups if (best := self._best(group)) is not None]

    def undominated(self) -> list[_Chosen]:
        """The panels on the frontier, cheapest first, each with all that cost no more."""
        found: list[_Chosen] = []
        cost, reached = self._cost[self.order], -math.inf
        known = self.order[~np.isnan(cost) & ~np.isnan(self._accuracy[self.order])]
        begin = 0
        while begin < len(known):
            end = int(np.flatnonzero(self._cost[known] <= self._cost[known[begin]] + SAME)[-1]) + 1
            best = self._best(known[begin:end])
            if best is not None and self._accuracy[best] > reached + SAME:
                found.append((best, self.order[cost <= self._cost[best] + SAME]))
                reached = float(self._accuracy[best])
            begin = end
        return found

    def panels(self, chosen: Sequence[_Chosen]) -> list[Panel]:
        """The panels with intervals."""
        earned = {number: self._credits(number) for number in {number for number, _ in chosen}}
        rows = dict(zip(earned, accuracies(list(earned.values()), **self._draws), strict=True))
        made = []
        for number, among in chosen:
            row, cost = rows[number], float(self._cost[number])
            panel = Panel(
                self.searched.names(number),
                row.accuracy,
                row.low,
                row.high,
                n_pairs=row.n_pairs,
                used=row.used,
                n_tasks=row.n_tasks,
                usd=None if math.isnan(cost) else cost,
                **self._effective_votes(number),
                held_out=held_out(self.searched, among, splits=self._splits, draws=self._draws),
            )
            if number != self.most_accurate:
                less = compare_credits(earned[number], earned[self.most_accurate], **self._draws)
                panel = replace(panel, difference=less.difference, difference_low=less.low, difference_high=less.high)
            made.append(panel)
        return made

    def _best(self, order: Places) -> int | None:
        """The most accurate of these panels, the first of equals; None: none of them judged anything."""
        accuracy = self._accuracy[order]
        if not len(order) or np.isnan(accuracy).all():
            return None
        return int(order[int(np.argmax(accuracy >= np.nanmax(accuracy) - SAME))])

    def _effective_votes(self, number: int) -> dict[str, float | None]:
        names = self.searched.names(number)
        wrong = np.stack([1 - self._single[name].credit for name in names])
        found = effective_votes(wrong, self._labels.task, names, **self._draws)
        ends = {"effective_votes_low": found.low, "effective_votes_high": found.high}
        return {"effective_votes": found.votes, **ends}

    def _credits(self, number: int) -> PairCredits:
        names = self.searched.names(number)
        if len(names) == 1:
            return self._single[names[0]]
        verdicts = panel_verdicts(self._judgements, weights=dict.fromkeys(names, 1.0), convention=self._convention)
        return panel_credits(verdicts, self._labels, name=" + ".join(names))


# --- of a study ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PanelCosts:
    """The costs of reviewers, and the accuracy of their panels."""

    reviewers: Mapping[str, ReviewerCost]
    frontier: Frontier
    review: Review
    """The review it is based on."""


async def find_panels(
    study: Study,
    options: Options,
    *,
    prices: Mapping[str, Price] | None = None,
    tokens_a_judgement: float | None = None,
    splits: int = 200,
) -> PanelCosts:
    """Accuracy and cost of all panels of the reviewers, from recorded judgements or by asking them.

    ``prices``: by reviewer; others are looked up. ``tokens_a_judgement``: replaces counted or estimated tokens.
    """
    check_review_options(options)
    if not options.chosen_scale.pairwise:
        raise UserError(
            f"scale must be pairwise to compare panels, got {options.scale}, which rates single responses. "
            "Choose a pairwise scale"
        )
    if options.traits:
        raise UserError("all panels are compared, without an exam. Leave out the exam")
    people = what_people_said(study, options)
    if people.tested is None or not people.tested.n_pairs:
        raise MetricError(
            f"{study.name} has no labels that decide a pair, so no accuracy is known. Add a labels table, or request "
            "the cost alone"
        )
    review = await review_study(study, options)
    heard = [reviewer.name for reviewer in review.reviewers if reviewer.asked]
    if not heard:
        raise MetricError("there are no judgements, so there is no panel")
    costs = reviewer_costs(study, review, options, prices=prices, tokens_a_judgement=tokens_a_judgement)
    frontier = panel_frontier(
        compared_pairs(study, review.judgements, heard),
        people.tested,
        {name: cost.usd for name, cost in costs.items()},
        convention=options.convention,
        splits=splits,
        **options.some("seed", "resamples", "level"),
        described={
            "scale": options.scale,
            "orders": options.orders,
            "pairs": people.tested.rule,
            "own-family": "judged" if options.judges_own_family else "left out",
            "evidence": judgements_hash(review.judgements),
            "tokens": "+".join(sorted({cost.tokens_from for cost in costs.values()})),
            "prices": ",".join(f"{name}={_price(cost)}" for name, cost in costs.items()),
        },
    )
    return PanelCosts(costs, frontier, review)


def _price(cost: ReviewerCost) -> str:
    read, written = cost.input_usd_per_million, cost.output_usd_per_million
    if read is None or written is None:
        return "unknown"
    return f"{read:g}" if read == written else f"{read:g}/{written:g}"
