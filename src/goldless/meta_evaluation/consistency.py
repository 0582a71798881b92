"""Consistency over scorers: whether agents have the same order under every model that computes log-probabilities.

GEM, section 5, compares agents' scores under a small and a large scorer. Here: Pearson, Spearman and Kendall's tau-b
over agents' mean scores, with intervals from resampling tasks for both scorers together, and the same within each task.
(The paper's "Spearman" of its tables 6 and 7 is Pearson.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack, get_args

import numpy as np

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import MetricError
from goldless.meta_evaluation.judges import ScoredBy, score_arrays
from goldless.reports.document import Result, cells
from goldless.reports.findings import Name, Said
from goldless.reports.report_table import Column, ReportTable
from goldless.statistics.bootstrap import USUAL, Draws, Estimate, task_intervals
from goldless.statistics.rank_correlation import DIGITS, levelled, over_agents, rank_correlations

Coefficient = Literal["pearson", "spearman", "kendall"]
"""``kendall`` is tau-b."""
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)
ALIKE = 0.8
"""Spearman's coefficient of two scorers that rank agents alike."""
ROUNDING = 1e-9
FEWEST_AGENTS = 3
"""With two agents every correlation is 1 or -1."""
PERCENTILE = (
    "Intervals over agents are percentiles over resampled tasks, for these agents. Resampled means are noisier than "
    "the study's own, so the intervals are biased low where agents are close."
)


@dataclass(frozen=True)
class ScorerAgreement:
    """One coefficient of one metric's scores under two scorers."""

    metric: str
    first: str
    second: str
    coefficient: Coefficient
    over_agents: Estimate
    """Of agents' mean scores."""
    n_agents: int
    asked: int
    """Number of responses given to at least one of the two scorers."""
    used: int
    """Number of these with a score under both."""
    within_task: Estimate
    """Mean of the coefficient over the agents of one task, over the tasks on which it is defined."""

    @property
    def scorers(self) -> str:
        return f"{self.first} / {self.second}"


@dataclass(frozen=True)
class Consistency(Result):
    """Agreement of scorers about agents."""

    rows: tuple[ScorerAgreement, ...]
    level: float
    signatures: Mapping[str, str]
    """The signature of each score, by metric and scorer."""
    notes: tuple[str, ...] = field()

    def sentences(self) -> Iterator[Said]:
        """Two scorers are shown to rank the agents alike if the whole interval of Spearman's is ALIKE or more."""
        for row in self.rows:
            if row.coefficient != "spearman":
                continue
            who: Said = (Name(row.first), " and ", Name(row.second))
            found = row.over_agents
            if found.value is None:
                yield (*who, ": the correlation under ", Name(row.metric), " is not defined.")
                continue
            ends, alike, needed = "", "are not shown to rank the agents alike", f"; alike would be {ALIKE:g} or more"
            if found.low is not None and found.high is not None:
                ends = f" ({found.low:.2f} to {found.high:.2f})"
                if found.low >= ALIKE - ROUNDING:
                    alike, needed = "rank the agents alike", ""
                elif found.high < ALIKE - ROUNDING:
                    alike = "do not rank the agents alike"
            yield (*who, f" {alike} under ", Name(row.metric), f": Spearman {found.value:.3f}{ends}{needed}.")

    def tables(self) -> list[ReportTable]:
        return [self.table()]

    def table(self) -> ReportTable:
        interval = f"{self.level * 100:g}%"
        columns = (
            *(Column(name, name, "name") for name in ("metric", "scorers")),
            Column("coefficient", "coefficient"),
            Column("value", "agents", "number", "-", 3),
            Column("low high", interval, "interval", decimals=2),
            Column("within_task", "by task", "number", "-", 3),
            Column("within_low within_high", interval, "interval", decimals=2),
            Column("n_agents", "n agents", "count", wide=True),
            Column("n_tasks", "tasks", "count", wide=True),
            *(Column(name, name, "count", wide=True) for name in ("asked", "used", "missing")),
            Column("tasks_used", "defined on tasks", "count", wide=True),
        )
        rows = tuple(_scorer_row(row) for row in self.rows)
        counted = dict.fromkeys(f"{row.n_agents} agents, {row.over_agents.n} tasks" for row in self.rows)
        title = f"Agents under different scorers ({'; '.join(counted)})"
        return ReportTable(title, columns, rows, " || ".join(self.signatures.values()))


def _scorer_row(row: ScorerAgreement) -> dict[str, Any]:
    counts = {"n_tasks": row.over_agents.n, "tasks_used": row.within_task.n, "missing": row.asked - row.used}
    by_task = {"within_low": row.within_task.low, "within_high": row.within_task.high}
    return cells(row, "over_agents", scorers=row.scorers, **counts, **by_task)


def compare_scorers(scored: Sequence[ScoredBy], **draws: Unpack[Draws]) -> Consistency:
    """The agreement of every two scorers on every metric that both have, with tasks resampled for both together."""
    metrics = list(dict.fromkeys(one.metric for one in scored))
    both = [pair for pair in itertools.combinations(scored, 2) if pair[0].metric == pair[1].metric]
    both.sort(key=lambda pair: metrics.index(pair[0].metric))
    if not both:
        by: dict[str, list[str]] = {}
        for one in scored:
            by.setdefault(one.scorer, []).append(one.metric)
        found = "; ".join(f"{name}: {', '.join(own)}" for name, own in by.items())
        raise MetricError(f"no metric was computed under two scorers ({found}). Compute the same metric under both")
    how: Draws = {**USUAL, **draws}
    rows = tuple(row for pair in both for row in _agreement(*pair, how))
    signatures = {f"{one.metric} by {one.scorer}": one.signature for pair in both for one in pair if one.signature}
    notes = dict.fromkeys(note for pair in both for note in _other_differences(*pair))
    return Consistency(rows, how["level"], signatures, (PERCENTILE, *notes))


OF_THE_SCORER = {"scorer", "noise", "positions", "layout", "kernel", "dialect", "evidence", "goldless"}


def _other_differences(first: ScoredBy, second: ScoredBy) -> Iterator[str]:
    """Differences beside the scorer between signatures of the same metric."""
    both = f"{first.metric}: {first.scorer} and {second.scorer}"
    if first.signature and first.signature == second.signature:
        yield f"{both} have the same signature: identical runs were compared"
    mine, theirs = (one.settings for one in (first, second))
    for key in {**mine, **theirs}:
        if key not in OF_THE_SCORER and mine.get(key) != theirs.get(key):
            values = f"{mine.get(key, 'none')} and {theirs.get(key, 'none')}"
            yield f"{both} differ in more than the scorer: {key} is {values}"


# --- two scorers ---------------------------------------------------------------------------------------------------


def _agreement(first: ScoredBy, second: ScoredBy, draws: Draws) -> Iterator[ScorerAgreement]:
    keys = {**first.scores, **second.scores}
    names = {"tasks": list(dict.fromkeys(t for t, _ in keys)), "agents": list(dict.fromkeys(a for _, a in keys))}
    tables = np.stack([score_arrays(one.scores, **names)[0] for one in (first, second)])
    both: BoolArray = np.asarray(~np.isnan(tables).any(axis=0))
    kept: BoolArray = np.asarray(both.any(axis=0))
    if int(kept.sum()) < FEWEST_AGENTS:
        raise MetricError(
            f"{first.metric}: at least {FEWEST_AGENTS} agents must have scores under both {first.scorer} and "
            f"{second.scorer}, got {int(kept.sum())}"
        )
    tables, used = tables[:, :, kept], np.asarray(both.any(axis=1))
    over = over_agents(tables[:, used], _coefficients, draws)
    by_task = task_intervals(_coefficients(*tables).T, **draws)
    for coefficient, one, within in zip(COEFFICIENTS, over, by_task, strict=True):
        yield ScorerAgreement(
            metric=first.metric,
            first=first.scorer,
            second=second.scorer,
            coefficient=coefficient,
            over_agents=one,
            n_agents=int(kept.sum()),
            asked=len(keys),
            used=int(both.sum()),
            within_task=within.within(-1.0, 1.0),
        )


def _coefficients(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.stack([correlations(first, second, coefficient) for coefficient in COEFFICIENTS])


def correlations(first: FloatArray, second: FloatArray, coefficient: Coefficient) -> FloatArray:
    """[rows]: the coefficient of each row of two tables over the columns present in both; NaN: not defined."""
    both = ~np.isnan(first + second)
    count = both.sum(axis=1, keepdims=True)
    sides = []
    for table in (first, second):
        # levelled rows less their means, all 0 where they are alike
        scaled = levelled(np.where(both, table, np.nan), by_row=True)
        deviation = scaled - np.nansum(scaled, axis=1, keepdims=True) / np.maximum(1, count)
        flat = np.nan_to_num(np.abs(deviation)).max(axis=1, keepdims=True) <= 10.0**-DIGITS
        sides.append(np.where(flat & both, 0.0, deviation))
    if coefficient == "pearson":
        x, y = map(np.nan_to_num, sides)
        found = np.full(len(first), np.nan)
        below = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
        np.divide((x * y).sum(axis=1), below, out=found, where=below > 0)
    else:
        left, right = sides
        found = rank_correlations(left, right, "spearman" if coefficient == "spearman" else "kendall-b")
    clipped: FloatArray = np.where(count[:, 0] < FEWEST_AGENTS, np.nan, np.clip(found, -1.0, 1.0))
    return clipped
