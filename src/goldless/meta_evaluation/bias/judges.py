"""What reviewers, their panel and metrics say of every two responses to a task, in one form for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.bias.rows import JudgeKind
from goldless.metrics.chair import PanelVerdicts, panel_scores, panel_verdicts, reviewer_scores, vote_share
from goldless.metrics.judgement_table import NEITHER, Convention, PairJudgements, ResponseRatings
from goldless.metrics.metric import ResponseScore
from goldless.metrics.pair_labels import PairLabels

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Orders = Literal["each", "together"]
"""``each``: the two orders of a pair are verdicts of their own. ``together``: one vote on both."""
PANEL = "panel"


@dataclass(frozen=True, slots=True, eq=False)
class PairGrid:
    """Every pair of agents on every task; ``low`` is the agent of a pair with the lower number."""

    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    low: IntArray = field(init=False)
    """[pairs]"""
    high: IntArray = field(init=False)

    def __post_init__(self) -> None:
        """Number the pairs."""
        low, high = np.triu_indices(len(self.agents), k=1)
        object.__setattr__(self, "low", low.astype(np.int64))
        object.__setattr__(self, "high", high.astype(np.int64))

    @property
    def shape(self) -> tuple[int, int]:
        """Tasks, pairs."""
        return len(self.tasks), len(self.low)

    def pair(self, first: str, second: str) -> tuple[int, bool]:
        """The number of a pair of agents, and whether the first one is its high."""
        one, other = self.agents.index(first), self.agents.index(second)
        return self._number(min(one, other), max(one, other)), one > other

    def spread(self, task: IntArray, low: IntArray, high: IntArray, values: npt.NDArray[np.generic]) -> FloatArray:
        """Values of single pairs as [tasks, pairs], NaN elsewhere."""
        table = np.full(self.shape, np.nan)
        if len(task):
            table[task, self._numbers(low, high)] = values
        return table

    def differences(self, values: FloatArray) -> FloatArray:
        """[tasks, pairs]: low less high, of a table [tasks, agents]."""
        found: FloatArray = values[:, self.low] - values[:, self.high]
        return found

    def _number(self, low: int, high: int) -> int:
        return int(self._numbers(np.array([low]), np.array([high]))[0])

    def _numbers(self, low: IntArray, high: IntArray) -> IntArray:
        # the rows of the upper triangle above this one hold agents - 1, agents - 2, … pairs
        numbers: IntArray = low * (2 * len(self.agents) - low - 1) // 2 + high - low - 1
        return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """One verdict on each pair."""

    value: FloatArray
    """[tasks, pairs]: 1 low is better, 0 high is, 0.5 neither; NaN: missing or not asked."""
    asked: BoolArray
    """[tasks, pairs]"""


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """A reviewer, a panel or a metric."""

    name: str
    kind: JudgeKind
    vote: FloatArray
    """[tasks, pairs]: how far low is better; of a reviewer the mean of its verdicts in both orders."""
    asked: BoolArray
    """[tasks, pairs]"""
    verdicts: tuple[Verdicts, ...]
    """In each order, or one on both."""
    scores: FloatArray | None = None
    """[tasks, agents] where it rates or scores; None: it compares."""


def comparing_judges(
    grid: PairGrid,
    judgements: PairJudgements,
    *,
    weights: Mapping[str, float] | None,
    orders: Orders,
    convention: Convention,
) -> list[Judge]:
    """The reviewers that compare, and their panel where they are several or weights are named."""
    judges = []
    for name in judgements.reviewers:
        own = judgements.of([name])
        signs = panel_verdicts(own, votes="signs", convention=convention)
        vote, asked = vote_share(signs), signs.asked > 0
        verdicts = _verdicts(grid, own, None, orders, convention)
        judges.append(
            Judge(name, "reviewer", _on(grid, signs, vote), _asked(grid, signs, asked), verdicts, scores=None)
        )
    if weights is not None or len(judgements.reviewers) > 1:
        both = panel_verdicts(judgements, weights=weights, convention=convention)
        verdicts = _verdicts(grid, judgements, weights, orders, convention)
        vote, asked = _on(grid, both, both.verdict), _asked(grid, both, both.asked > 0)
        judges.append(Judge(PANEL, "panel", vote, asked, verdicts))
    return judges


def rating_judges(
    grid: PairGrid, ratings: ResponseRatings, *, weights: Mapping[str, float] | None, convention: Convention
) -> list[Judge]:
    """The reviewers that rate, the higher the better, and their panel where they are several or weights are named."""
    judges = []
    for name in ratings.reviewers:
        own = reviewer_scores(ratings, name)
        judges.append(_scoring(grid, name, "reviewer", own.score, own.asked > 0, convention=convention))
    if weights is not None or len(ratings.reviewers) > 1:
        normalisation: Literal["raw", "z"] = "raw" if convention == "paper" else "z"
        panel = panel_scores(ratings, weights=weights, normalisation=normalisation)
        judges.append(_scoring(grid, PANEL, "panel", panel.score, panel.asked > 0, convention=convention))
    return judges


def metric_judge(grid: PairGrid, name: str, scores: Iterable[ResponseScore]) -> Judge:
    """A metric: the higher score is the better."""
    tasks = {task: number for number, task in enumerate(grid.tasks)}
    agents = {agent: number for number, agent in enumerate(grid.agents)}
    table = np.full((len(tasks), len(agents)), np.nan)
    asked = np.zeros(table.shape, dtype=np.bool_)
    for row in scores:
        cell = tasks[row.task], agents[row.agent]
        asked[cell] = True
        table[cell] = np.nan if row.score is None else row.score
    return _scoring(grid, name, "metric", table, asked, convention="default")


def peoples_verdicts(grid: PairGrid, labels: PairLabels) -> FloatArray:
    """[tasks, pairs]: 1 people find low better, 0 high, 0.5 a tie; NaN: no label."""
    return grid.spread(labels.task, labels.low, labels.high, (labels.sign + 1) / 2)


def _scoring(
    grid: PairGrid, name: str, kind: JudgeKind, scores: FloatArray, rated: BoolArray, *, convention: Convention
) -> Judge:
    vote = (np.sign(grid.differences(scores)) + 1) / 2
    asked: BoolArray = rated[:, grid.low] & rated[:, grid.high]
    if convention == "paper":
        vote = np.where(asked & np.isnan(vote), NEITHER, vote)
    return Judge(name, kind, vote, asked, (Verdicts(vote, asked),), scores)


def _verdicts(
    grid: PairGrid,
    judgements: PairJudgements,
    weights: Mapping[str, float] | None,
    orders: Orders,
    convention: Convention,
) -> tuple[Verdicts, ...]:
    parts: Sequence[PairJudgements] = [judgements]
    if orders == "each":
        parts = [_in_order(judgements, order) for order in (0, 1) if judgements.asked[:, :, order].any()]
    found = []
    for part in parts:
        voted = panel_verdicts(part, weights=weights, convention=convention)
        found.append(Verdicts(_on(grid, voted, voted.verdict), _asked(grid, voted, voted.asked > 0)))
    return tuple(found)


def _in_order(judgements: PairJudgements, order: int) -> PairJudgements:
    """The judgements with low shown first (0) or second (1), as if no others had been asked for."""
    chosen = np.arange(2) == order
    value: FloatArray = np.where(chosen, judgements.value, np.nan)
    return replace(judgements, value=value, asked=judgements.asked & chosen)


def _on(grid: PairGrid, verdicts: PanelVerdicts, values: FloatArray) -> FloatArray:
    return grid.spread(verdicts.task, verdicts.low, verdicts.high, values)


def _asked(grid: PairGrid, verdicts: PanelVerdicts, asked: BoolArray) -> BoolArray:
    spread: BoolArray = _on(grid, verdicts, asked.astype(np.float64)) == 1
    return spread
