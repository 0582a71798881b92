"""The size effect within families: how much a score rises with ten times the parameters (GEM, section 5, figure 5).

The slope b of score = family + b log10(parameters), by least squares over families with at least two sizes. A family
has its own level, so that nothing is learnt from one family being better than another. The interval leaves out one
family at a time (Tukey's jackknife, Student's t below ten families): models of one family are not independent. p:
two-sided, how often sizes given to the members of each family at random yield a slope at least as far from 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from goldless.apps.gre.board_comparison import LEVEL, PERMUTATIONS, drawn_signature
from goldless.apps.gre.boards import Board
from goldless.apps.gre.papers import HUMAN
from goldless.arrays import FloatArray
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.statistics.bootstrap import left_out_intervals

Family = tuple[FloatArray, FloatArray]
"""log10 of the parameters, and scores; both as deviations from the family's mean."""
EXACT_WAYS = 100_000
"""Up to this many assignments of sizes, all are tried."""
METHOD = (
    "Slope: change of the score per tenfold parameters, with a separate level for each family. Interval: leaving out "
    "one family at a time. p: sizes permuted at random within each family."
)


@dataclass(frozen=True, slots=True)
class MetricSizeEffect:
    """The size effect under one metric."""

    metric: str
    slope: float | None = None
    """Change of the score per tenfold parameters; None: no family has two sizes."""
    low: float | None = None
    """None: no interval, ``note`` says why."""
    high: float | None = None
    p: float | None = None
    pairs: int = 0
    """Pairs of one family that differ in size."""
    larger_higher: int = 0
    """Of these, those in which the larger has the higher score."""
    tied: int = 0
    """Of these, those with equal scores."""
    families: tuple[str, ...] = ()
    agents: int = 0
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SizeEffect:
    """The size effect under each metric of a board."""

    board: str
    metrics: tuple[MetricSizeEffect, ...]
    level: float
    left_out: Mapping[str, tuple[str, ...]]
    """Agents that were left out, by reason."""
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """Signatures by metric."""

    def table(self) -> ReportTable:
        """One row per metric."""
        columns = (
            Column("metric", "metric"),
            Column("slope", "per tenfold", "signed", decimals=2, reason="note"),
            Column("low high", f"{self.level * 100:g}%", "signed interval", decimals=2, reason="note"),
            Column("p", "p", "probability"),
            Column("larger_higher pairs", "larger higher", "fraction"),
            Column("tied", "tied", "count", wide=True),
            Column("n_families", "families", "count"),
            Column("agents", "agents", "count", wide=True),
        )
        rows = tuple({**asdict(row), "n_families": len(row.families), "families": None} for row in self.metrics)
        title = f"{self.board}: size effect within families"
        return ReportTable(title, columns, rows, " || ".join(self.signatures.values()), self.notes)


def size_effect(board: Board, *, seed: int = 0) -> SizeEffect:
    """The size effect of every metric."""
    sized: dict[str, float] = {}
    left_out: dict[str, list[str]] = {}
    for agent in [agent for agent in board.agents if agent.agent != HUMAN]:
        if agent.parameters is None or agent.family is None:
            what = "number of parameters" if agent.parameters is None else "family"
            left_out.setdefault(f"{what} not known", []).append(agent.agent)
        else:
            sized[agent.agent] = math.log10(agent.parameters)
    rows = tuple(_effect(metric, _families(board, metric, sized), seed) for metric in board.metrics)
    used = {family for row in rows for family in row.families}
    family = {agent.agent: agent.family for agent in board.agents}
    if alone := [agent for agent in sized if family[agent] not in used]:
        left_out["no other size in the family"] = alone
    notes = [METHOD, *(f"left out, {why}: {', '.join(agents)}." for why, agents in left_out.items())]
    if guessed := [agent for agent in sized if agent in board.estimated_sizes and agent not in alone]:
        notes.append(f"sizes of {len(guessed)} agents are estimates: {', '.join(guessed)}.")
    told = {
        "sizes": evidence_hash((agent, size, family[agent]) for agent, size in sized.items()),
        "estimated-sizes": "used",
        "interval": f"families-jackknife-{LEVEL:g}",
    }
    signatures = {m: drawn_signature("size-effect", m, {"board": board.told(m), **told}, seed) for m in board.metrics}
    reasons = {why: tuple(agents) for why, agents in left_out.items()}
    return SizeEffect(board.name, rows, LEVEL, reasons, tuple(notes), signatures)


def _families(board: Board, metric: str, sized: Mapping[str, float]) -> dict[str, Family]:
    """Families with at least two sizes that have scores."""
    members: dict[str, list[tuple[float, float]]] = {}
    scores = board.models(metric)
    family = {agent.agent: str(agent.family) for agent in board.agents}
    for agent, score in scores.items():
        if agent in sized:
            members.setdefault(family[agent], []).append((sized[agent], score))
    arrays = {name: np.array(rows) for name, rows in sorted(members.items())}
    centred = {name: rows - rows.mean(axis=0) for name, rows in arrays.items() if np.ptp(rows[:, 0]) > 0}
    return {name: (rows[:, 0], rows[:, 1]) for name, rows in centred.items()}


def _effect(metric: str, families: Mapping[str, Family], seed: int) -> MetricSizeEffect:
    held = list(families.values())
    signs = [
        float(np.sign((sizes[i] - sizes[j]) * (scores[i] - scores[j])))
        for sizes, scores in held
        for i, j in itertools.combinations(range(len(sizes)), 2)
        if sizes[i] != sizes[j]
    ]
    found = MetricSizeEffect(
        metric,
        pairs=len(signs),
        larger_higher=sum(sign > 0 for sign in signs),
        tied=sum(sign == 0 for sign in signs),
        families=tuple(families),
        agents=sum(len(scores) for _, scores in held),
    )
    if not held:
        return replace(found, note="no family has two sizes with scores")
    found = replace(found, slope=_slope(held), p=_p(held, seed))
    if len(held) < 2:
        return replace(found, note="no interval: one family")
    without = np.array([[_slope(held[:i] + held[i + 1 :])] for i in range(len(held))])
    (interval,) = left_out_intervals(
        [_slope(held)], without, n_tasks=len(held), seed=seed, level=LEVEL, lowest=-math.inf, highest=math.inf
    )
    return replace(found, low=interval.low, high=interval.high)


def _slope(families: Sequence[Family]) -> float:
    """Least squares with a level for each family: the slope of deviations from family means."""
    return float(sum(x @ y for x, y in families) / sum(x @ x for x, _ in families))


def _p(families: Sequence[Family], seed: int) -> float:
    """Two-sided. The slope's denominator is the same however sizes are given out, so its numerator is compared."""
    observed = abs(sum(float(x @ y) for x, y in families))
    nearly = observed * (1 - 1e-9)  # sums in another order differ in the last digit
    if math.prod(math.factorial(len(x)) for x, _ in families) <= EXACT_WAYS:
        sums = np.zeros(1)
        for x, y in families:
            given = np.array([x[list(order)] @ y for order in itertools.permutations(range(len(x)))])
            sums = np.add.outer(sums, given).ravel()
        return float(np.mean(np.abs(sums) >= nearly))
    random = np.random.default_rng(seed)
    drawn = np.zeros(PERMUTATIONS)
    for x, y in families:
        drawn += random.permuted(np.tile(x, (PERMUTATIONS, 1)), axis=1) @ y
    return (int(np.sum(np.abs(drawn) >= nearly)) + 1) / (PERMUTATIONS + 1)
