"""Judges' preferences between every two responses to a task, in one form for all judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import UserError, nearest
from goldless.evidence import JUDGEMENTS, empty
from goldless.meta_evaluation.bias.report import JudgeKind
from goldless.meta_evaluation.judges import Judge, recorded_scales
from goldless.metrics.chair import PanelVerdicts, panel_verdicts, vote_share
from goldless.metrics.judgement_table import NEITHER, PairJudgements
from goldless.metrics.pair_labels import PairLabels
from goldless.models.catalogue import find_provider
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.pipeline import review_study
from goldless.runs.review_evidence import recorded_review
from goldless.studies import Study

Orders = Literal["each", "together"]
"""``each``: the two orders of a pair are separate verdicts. ``together``: one vote on both."""


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
        return int(self._numbers(*np.sort(np.array([one, other])))), one > other

    def spread(self, task: IntArray, low: IntArray, high: IntArray, values: npt.NDArray[np.generic]) -> FloatArray:
        """Values of single pairs as [tasks, pairs], NaN elsewhere."""
        table = np.full(self.shape, np.nan)
        if len(task):
            table[task, self._numbers(low, high)] = values
        return table

    def differences(self, values: FloatArray) -> FloatArray:
        """[tasks, pairs]: low minus high, of a table [tasks, agents]."""
        found: FloatArray = values[:, self.low] - values[:, self.high]
        return found

    def _numbers(self, low: IntArray, high: IntArray) -> IntArray:
        # the rows of the upper triangle above this one hold agents - 1, agents - 2, … pairs
        numbers: IntArray = low * (2 * len(self.agents) - low - 1) // 2 + high - low - 1
        return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """One verdict on each pair."""

    value: FloatArray
    """[tasks, pairs]: 1 low is better, 0 high is, 0.5 neither; NaN: missing or not requested."""
    asked: BoolArray
    """[tasks, pairs]"""


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """One judge's votes on every pair."""

    name: str
    kind: JudgeKind
    vote: FloatArray
    """[tasks, pairs]: how far low is better; for a reviewer, the mean of its verdicts in both orders."""
    asked: BoolArray
    """[tasks, pairs]"""
    verdicts: tuple[Verdicts, ...]
    """The verdicts in each order, or one on both."""
    scores: FloatArray | None = None
    """[tasks, agents] where it rates or scores; None: it compares."""


def votes_of(judge: Judge, grid: PairGrid, *, orders: Orders = "each") -> Votes:
    """The judge's votes on the pairs of the grid; the higher score is better."""
    both = judge.verdicts
    if both is None or judge.compared is None:
        return _scored(judge, grid)
    if judge.kind == "reviewer":
        both = panel_verdicts(judge.compared, votes="signs", convention=judge.convention)
    whole = _on(grid, both, vote_share(both) if judge.kind == "reviewer" else both.verdict)
    parts: Sequence[PairJudgements] = [judge.compared]
    if orders == "each":
        parts = [_in_order(judge.compared, order) for order in (0, 1) if judge.compared.asked[:, :, order].any()]
    voted = [panel_verdicts(part, weights=judge.weights, convention=judge.convention) for part in parts]
    verdicts = tuple(_on(grid, one, one.verdict) for one in voted)
    return Votes(judge.name, judge.kind, whole.value, whole.asked, verdicts)


def peoples_verdicts(grid: PairGrid, labels: PairLabels) -> FloatArray:
    """[tasks, pairs]: 1 people find low better, 0 high, 0.5 a tie; NaN: no label."""
    return grid.spread(labels.task, labels.low, labels.high, (labels.sign + 1) / 2)


def toward(vote: FloatArray, turned: npt.ArrayLike) -> FloatArray:
    """The vote for high instead of low where ``turned`` is true."""
    found: FloatArray = np.where(turned, 1 - vote, vote)
    return found


def _scored(judge: Judge, grid: PairGrid) -> Votes:
    table = judge.response_scores
    vote = (np.sign(grid.differences(table.score)) + 1) / 2
    rated = table.asked > 0
    asked: BoolArray = rated[:, grid.low] & rated[:, grid.high]
    if judge.convention != "default":
        vote = np.where(asked & np.isnan(vote), NEITHER, vote)
    return Votes(judge.name, judge.kind, vote, asked, (Verdicts(vote, asked),), table.score)


def _in_order(judgements: PairJudgements, order: int) -> PairJudgements:
    """The judgements with low shown first (0) or second (1) only."""
    chosen = np.arange(2) == order
    value: FloatArray = np.where(chosen, judgements.value, np.nan)
    return replace(judgements, value=value, asked=judgements.asked & chosen)


def _on(grid: PairGrid, verdicts: PanelVerdicts, values: FloatArray) -> Verdicts:
    """Values of the judged pairs, and which of them were requested."""
    place = verdicts.task, verdicts.low, verdicts.high
    return Verdicts(grid.spread(*place, values), grid.spread(*place, verdicts.asked > 0) == 1)


# --- the judgements they rest on -------------------------------------------------------------------------------------

Reviewers = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Judgements of reviewers, and what they cost in this run."""

    rows: pl.DataFrame = field(default_factory=lambda: empty(JUDGEMENTS))
    reviewers: tuple[str, ...] = ()
    reason: str | None = None
    """Why there are no judgements."""
    spending: tuple[Spending, ...] = ()
    signature: str | None = None
    """The spending of this run."""
    open: int = 0
    """Number of judgements missing for a temporary cause."""

    @property
    def spent_usd(self) -> float:
        """The cost of this run, as far as prices are known."""
        return sum(row.cost_usd or 0.0 for row in self.spending)


async def reviewers_judgements(study: Study, how: Options) -> Reviewed:
    """The recorded judgements of the given reviewers (default: all); other names are models, which are asked.

    With ``how.recorded`` no model is asked.
    """
    recorded = recorded_scales(study)
    known = recorded.get(how.scale, [])
    given: Reviewers = how.reviewers
    if not given and not known:
        others = f" (there are some on {', '.join(recorded)})" if recorded else ""
        return Reviewed(reason=f"no judgements on the scale {how.scale}{others}")
    names = [] if isinstance(given, Mapping) else [one for one in given if isinstance(one, str) and one in known]
    asked = given if isinstance(given, Mapping) else [one for one in given if one not in names]
    _check_asked(study, how, asked, known)
    tables = [empty(JUDGEMENTS)]
    if names or not given:
        found = recorded_review(study, scale=how.chosen_scale, reviewers=names, convention=how.convention)
        tables.append(found.judgements)
    review = await review_study(study, replace(how, reviewers=asked)) if asked else None
    if review is not None:
        tables.append(review.judgements)
    # names are of the categories of their study, or plain text where there are none
    rows = pl.concat([table.cast(pl.Schema(JUDGEMENTS)) for table in tables])
    return Reviewed(
        rows=rows,
        reviewers=tuple(dict.fromkeys([*names, *rows["reviewer"]])),
        reason=None if len(rows) else "there are no judgements by the reviewers",
        spending=() if review is None else review.spending,
        signature=None if review is None else review.signature,
        open=0 if review is None else review.open,
    )


def _check_asked(study: Study, how: Options, asked: Reviewers, known: Sequence[str]) -> None:
    """Refuse names without recorded judgements if no model is to be asked, or if they are not models."""
    strange = [
        str(name)
        for name in asked
        if how.recorded
        or (known and isinstance(name, str) and find_provider(name) is None and not set(name) & set(":=/."))
    ]
    if strange:
        listed = f"Recorded reviewers: {', '.join(known) or 'none'}."
        raise UserError(
            f"{study.name} has no recorded judgements by {', '.join(strange)} on the scale {how.scale}"
            f"{nearest(strange[0], known) or '.'} {listed} To ask a model, name it as openai:MODEL or "
            "http://HOST:PORT/v1#MODEL, without --recorded"
        )
