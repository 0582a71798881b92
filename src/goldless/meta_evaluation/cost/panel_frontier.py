"""Accuracy against cost for panels of every size (Auto-PRE, figure 3): the best of each size, and the frontier.

A panel is on the frontier where none is at least as accurate and at most as dear, and better in one of the two. All
panels are measured on the same pairs, those that every compared reviewer judged. Choosing the best of many panels on
the same labels is optimistic: beside each accuracy stands the one of the same choice on tasks that had no say in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.cost.common_pairs import LEAST_COVERAGE, JudgedPairs, agents_in, common_pairs
from goldless.meta_evaluation.cost.held_out import HeldOut, held_out
from goldless.meta_evaluation.cost.panel_search import (
    SAME,
    SearchedPanels,
    cheapest_first,
    panel_costs,
    search_panels,
)
from goldless.metrics.chair import panel_verdicts
from goldless.metrics.judgement_table import Convention, PairJudgements
from goldless.metrics.label_agreement import PairCredits, accuracies, compare_credits, panel_credits, reviewer_credits
from goldless.metrics.pair_labels import PairLabels
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.signature import Signature

OPTIMISTIC = (
    "The best of many panels was chosen on the labels it is measured with, so its accuracy is optimistic. "
    "Held out: the same choice made on one half of the tasks and measured on the other."
)


@dataclass(frozen=True, slots=True)
class Panel:
    """Reviewers with an equal vote, and how far they agree with people."""

    reviewers: tuple[str, ...]
    accuracy: float | None
    """On pairs that people decided; None: it judged none."""
    low: float | None
    high: float | None
    n_pairs: int
    """Pairs that people decided and all compared reviewers judged: the same for every panel."""
    used: int
    """Of these, pairs the accuracy rests on: all."""
    n_tasks: int
    usd: float | None
    """Of all its judgements; None: the price of a member is unknown."""
    difference: float | None = None
    """Accuracy less that of the most accurate panel."""
    difference_low: float | None = None
    difference_high: float | None = None
    held_out: HeldOut | None = None
    """Of choosing the best panel of this size, or at no more than this cost."""

    @property
    def size(self) -> int:
        """Members."""
        return len(self.reviewers)

    def as_row(self) -> dict[str, Cell]:
        """The panel as one row of a table."""
        data = {name: value for name, value in asdict(self).items() if name not in {"reviewers", "held_out"}}
        held = self.held_out
        return {
            "panel": " + ".join(self.reviewers),
            "size": self.size,
            **data,
            "held_out": None if held is None else held.accuracy,
            "held_out_low": None if held is None else held.low,
            "held_out_high": None if held is None else held.high,
        }


@dataclass(frozen=True, slots=True)
class Frontier:
    """What accuracy costs."""

    reviewers: tuple[str, ...]
    """Those that were compared."""
    coverage: tuple[JudgedPairs, ...]
    """How many of the decided pairs each reviewer judged, those left out among them."""
    n_decided: int
    """Pairs that people decided."""
    n_common: int
    """Of these, pairs that all compared reviewers judged."""
    unseen: tuple[str, ...]
    """Agents that people decided about and no such pair is of."""
    by_size: tuple[Panel, ...]
    """The most accurate panel of each size, its held-out accuracy that of choosing among panels of its size."""
    frontier: tuple[Panel, ...]
    """Cheapest first; held out: of choosing among panels that cost no more. Empty: no panel's cost is known."""
    most_accurate: Panel
    """Held out: of choosing among all panels."""
    search: str
    """Which panels were tried."""
    unpriced: tuple[str, ...]
    """Reviewers whose price is unknown: no panel with one of them can be on the frontier."""
    level: float
    signature: str

    def size_table(self) -> ReportTable:
        """The best panel of each size."""
        return ReportTable(
            f"Best panel of each size, on {self._on} ({self.search}; held out: choosing among panels of the size)",
            (Column("size", "size", "count"), *self._columns()),
            tuple(panel.as_row() for panel in self.by_size),
            self.signature,
        )

    def frontier_table(self) -> ReportTable:
        """The panels that no other beats in cost and accuracy."""
        most = " + ".join(self.most_accurate.reviewers)
        differences = (
            Column("difference", "to best", "number", decimals=3),
            Column("difference_low difference_high", f"{self.level * 100:g}%", "interval", decimals=3),
        )
        return ReportTable(
            f"Frontier of accuracy and cost (held out: choosing among panels of no greater cost; best: {most})",
            (*self._columns(), *differences),
            tuple(panel.as_row() for panel in self.frontier),
            self.signature,
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Reviewers that judged too few pairs to be compared."""
        return tuple(one.reviewer for one in self.coverage if not one.compared)

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said of the pairs that panels are compared on."""
        notes = []
        if self.left_out:
            told = ", ".join(f"{one.reviewer} ({one.judged})" for one in self.coverage if not one.compared)
            most = max(one.judged for one in self.coverage)
            notes.append(
                f"left out for judging less than {LEAST_COVERAGE * 100:g} % of the {most} decided pairs of the "
                f"reviewer that judged most: {told}"
            )
        if self.n_common < self.n_decided:
            notes.append(f"panels are compared on {self._on}")
        if self.unseen:
            notes.append(
                f"none of these pairs is of {', '.join(self.unseen)}, so accuracies say nothing of them; where that is "
                "because reviewers judge no agents of their own family, --own-family counts those judgements too"
            )
        return tuple(notes)

    @property
    def _on(self) -> str:
        if self.n_common == self.n_decided:
            return f"all {self.n_decided} pairs that people decided"
        return f"the {self.n_common} of {self.n_decided} decided pairs that every compared reviewer judged"

    def _columns(self) -> tuple[Column, ...]:
        interval = f"{self.level * 100:g}%"
        return (
            Column("panel", "panel", least=14),
            Column("usd", "USD", "usd", "?"),
            Column("accuracy", "agrees", "number", "missing"),
            Column("low high", interval, "interval", decimals=3),
            Column("used", "pairs", "count"),
            Column("held_out", "held out", "number"),
            Column("held_out_low held_out_high", interval, "interval", decimals=3, wide=True),
        )

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "reviewers": list(self.reviewers),
            "coverage": [asdict(one) for one in self.coverage],
            "n_decided": self.n_decided,
            "n_common": self.n_common,
            "unseen": list(self.unseen),
            "by_size": [_panel_json(panel) for panel in self.by_size],
            "frontier": [_panel_json(panel) for panel in self.frontier],
            "most_accurate": _panel_json(self.most_accurate),
            "search": self.search,
            "unpriced": list(self.unpriced),
            "level": self.level,
            "note": OPTIMISTIC,
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _panel_json(panel: Panel) -> dict[str, Any]:
    return {**asdict(panel), "reviewers": list(panel.reviewers), "size": panel.size}


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
    """The best panel of each size and the frontier of accuracy and cost, equal votes, both orders, exact ties half.

    All on the decided pairs that every compared reviewer judged; who judged too few to be compared is left out.
    ``usd``: what each reviewer's judgements cost together; None, or no entry: unknown. ``described``: what else the
    signature says of how the judgements and costs came about.
    """
    if splits < 1:
        raise UserError(f"{splits} splits came; at least 1 is needed to measure on tasks held out, 200 is the default")
    if not labels.decided().n_pairs:
        raise MetricError("people decided no pair, so no panel's accuracy is known: add labels to the study")
    coverage, common = common_pairs(judgements, labels.decided(), convention=convention)
    decided, judgements = labels.decided(), judgements.of([one.reviewer for one in coverage if one.compared])
    found = _Finder(
        judgements,
        common,
        usd,
        convention=convention,
        splits=splits,
        seed=seed,
        resamples=resamples,
        level=level,
    )
    best_overall = int(found.best(found.order) or 0)
    sizes = found.searched.members.sum(axis=1)
    groups = [found.order[sizes[found.order] == size] for size in range(1, len(judgements.reviewers) + 1)]
    by_size = [(best, group) for group in groups if (best := found.best(group)) is not None]
    dearest = [(panel, found.order[found.cost[found.order] <= found.cost[panel] + SAME]) for panel in found.undominated]
    rows = found.panels([*by_size, *dearest, (best_overall, found.order)], best_overall)
    signature = Signature(
        "panel-frontier",
        {
            "reviewers": ",".join(judgements.reviewers),
            "vote": "equal",
            "orders": "both",
            "ties": "half",
            "convention": convention,
            "missing": "half" if convention == "paper" else "left out",
            "compared-on": f"{common.n_pairs} of {decided.n_pairs} pairs, judged by all",
            "least-judged": f"{LEAST_COVERAGE:g} of the most",
            **(described or {}),
            "splits": str(splits),
            "seed": str(seed),
            "resamples": str(resamples),
        },
    )
    return Frontier(
        reviewers=judgements.reviewers,
        coverage=coverage,
        n_decided=decided.n_pairs,
        n_common=common.n_pairs,
        unseen=tuple(agent for agent in agents_in(decided) if agent not in agents_in(common)),
        by_size=tuple(rows[: len(by_size)]),
        frontier=tuple(rows[len(by_size) : -1]),
        most_accurate=rows[-1],
        search=found.searched.search,
        unpriced=tuple(name for name in judgements.reviewers if usd.get(name) is None),
        level=level,
        signature=str(signature),
    )


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
        seed: int,
        resamples: int,
        level: float,
    ) -> None:
        self._judgements, self._labels, self._convention = judgements, labels, convention
        self._splits, self._draws = splits, {"seed": seed, "resamples": resamples}
        self._level = level
        prices = [usd.get(name) for name in judgements.reviewers]
        self.searched: SearchedPanels = search_panels(judgements, labels, convention=convention)
        self.cost = panel_costs(self.searched, prices)
        self.order = cheapest_first(self.searched, prices)
        self._accuracy = self.searched.accuracy
        self._single = reviewer_credits(judgements, labels, convention=convention)

    def best(self, order: npt.NDArray[np.intp]) -> int | None:
        """The most accurate of these panels, the first of equals; None: none of them judged anything."""
        accuracy = self._accuracy[order]
        if not len(order) or np.isnan(accuracy).all():
            return None
        return int(order[int(np.argmax(accuracy >= np.nanmax(accuracy) - SAME))])

    @property
    def undominated(self) -> list[int]:
        """The panels on the frontier, cheapest first."""
        found: list[int] = []
        reached = -math.inf
        known = self.order[~np.isnan(self.cost[self.order]) & ~np.isnan(self._accuracy[self.order])]
        begin = 0
        while begin < len(known):
            same = np.flatnonzero(self.cost[known] <= self.cost[known[begin]] + SAME)
            equal = known[begin : int(same[-1]) + 1]
            best = self.best(equal)
            if best is not None and self._accuracy[best] > reached + SAME:
                found.append(best)
                reached = float(self._accuracy[best])
            begin = int(same[-1]) + 1
        return found

    def panels(self, chosen: Sequence[tuple[int, npt.NDArray[np.intp]]], most_accurate: int) -> list[Panel]:
        """The panels with intervals; each comes with the panels it was chosen from."""
        earned = {number: self._credits(number) for number in {number for number, _ in chosen}}
        numbers = list(earned)
        found = accuracies([earned[number] for number in numbers], level=self._level, **self._draws)
        rows = dict(zip(numbers, found, strict=True))
        made = []
        for number, among in chosen:
            row, cost = rows[number], float(self.cost[number])
            difference = compare_credits(earned[number], earned[most_accurate], level=self._level, **self._draws)
            panel = Panel(
                self.searched.names(number),
                row.accuracy,
                row.low,
                row.high,
                n_pairs=row.n_pairs,
                used=row.used,
                n_tasks=row.n_tasks,
                usd=None if math.isnan(cost) else cost,
                held_out=held_out(self.searched, among, splits=self._splits, level=self._level, **self._draws),
            )
            if number != most_accurate:
                panel = replace(
                    panel,
                    difference=difference.difference,
                    difference_low=difference.low,
                    difference_high=difference.high,
                )
            made.append(panel)
        return made

    def _credits(self, number: int) -> PairCredits:
        names = self.searched.names(number)
        if len(names) == 1:
            return self._single[names[0]]
        verdicts = panel_verdicts(self._judgements, weights=dict.fromkeys(names, 1.0), convention=self._convention)
        return panel_credits(verdicts, self._labels, name=" + ".join(names))
