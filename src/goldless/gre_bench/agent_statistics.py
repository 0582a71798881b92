"""Statistics over a handful of agents: correlations, and the size effect within families.

Correlations over a handful of agents: three coefficients, each with an interval and a test suited to small numbers.

Intervals are Fisher's z: tanh(artanh r ± q se), with se = 1 / √(n - 3) for Pearson's coefficient (Fisher, 1921),
√((1 + r² / 2) / (n - 3)) for Spearman's (Bonett and Wright, 2000) and √(0.437 / (n - 4)) for Kendall's tau-b (Fieller,
Hartley and Pearson, 1957). A bootstrap over 8 to 17 agents draws the same few again and again and is too narrow there.
p: two-sided, how often a random pairing of agents gives a coefficient at least as far from 0; all pairings are tried
where there are few.

The size effect within families: how much a score rises with ten times the parameters (GEM, section 5, figure 5).

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
import numpy.typing as npt
from scipy.special import ndtri

from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.gre_bench.boards import AsJson, Board
from goldless.gre_bench.papers import HUMAN
from goldless.meta_evaluation.consistency import COEFFICIENTS, FEWEST_AGENTS, Coefficient, correlations
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.statistics.bootstrap import left_out_intervals
from goldless.statistics.comparisons import holm

EXACT_AGENTS = 7
"""Up to this many agents all pairings are tried (5,040)."""
LOST: Mapping[Coefficient, int] = {"pearson": 3, "spearman": 3, "kendall": 4}
"""Subtracted from the number of agents in the standard error."""
INTERVALS = (
    "Intervals are Fisher's z (with Bonett and Wright's error for Spearman, Fieller's for Kendall), p from random "
    "pairings of agents. Both assume that agents are a random sample; models of one family are similar, so both are "
    "too optimistic."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inference:
    """How intervals and p are computed."""

    level: float = 0.95
    seed: int = 0
    permutations: int = 10_000

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        if not 0 < self.level < 1:
            raise UserError(f"level must be between 0 and 1 (for example 0.95), got {self.level}")
        if self.permutations < 1 or self.seed < 0:
            raise UserError(
                f"permutations must be at least 1 and the seed at least 0, got {self.permutations} and {self.seed}"
            )

    def signature(self, name: str, metric: str, settings: Mapping[str, str]) -> str:
        """The signature of a result under one metric."""
        drawn = {"permutations": str(self.permutations), "seed": str(self.seed)}
        return str(Signature(f"{name}[{metric}]", {**settings, **drawn}))


DEFAULT = Inference()


@dataclass(frozen=True, slots=True)
class AgentCorrelation:
    """One coefficient over agents."""

    coefficient: Coefficient
    value: float | None
    """None: not defined, ``note`` says why."""
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    p: float | None
    n: int
    """Agents with both values."""
    p_holm: float | None = None
    """Corrected for all tests of the same table (Holm)."""
    note: str | None = None


def agent_correlations(
    first: Mapping[str, float], second: Mapping[str, float], inference: Inference = DEFAULT
) -> tuple[AgentCorrelation, ...]:
    """Pearson, Spearman and Kendall's tau-b over the agents in both."""
    # sorted, so that the pairings do not depend on the order in which agents come
    common = sorted(agent for agent in first if agent in second)
    x, y = (np.array([side[agent] for agent in common], dtype=np.float64) for side in (first, second))
    pairings = _pairings(len(common), inference)
    return tuple(_correlation(x, y, coefficient, pairings, inference.level) for coefficient in COEFFICIENTS)


def corrected(groups: Sequence[Sequence[AgentCorrelation]]) -> list[tuple[AgentCorrelation, ...]]:
    """The same with Holm's correction over the groups, separately for each coefficient."""
    by_coefficient = [holm([one.p for one in column]) for column in zip(*groups, strict=True)]
    return [
        tuple(replace(one, p_holm=ps[place]) for one, ps in zip(group, by_coefficient, strict=True))
        for place, group in enumerate(groups)
    ]


def _pairings(n: int, inference: Inference) -> npt.NDArray[np.intp]:
    """Orders of n agents: all of them if n is small, else random ones, the given order first."""
    if n <= EXACT_AGENTS:
        return np.array(list(itertools.permutations(range(n))), dtype=np.intp)
    random = np.random.default_rng(inference.seed)
    drawn = random.permuted(np.tile(np.arange(n), (inference.permutations, 1)), axis=1)
    return np.vstack([np.arange(n)[None], drawn])


def _correlation(
    x: FloatArray, y: FloatArray, coefficient: Coefficient, pairings: npt.NDArray[np.intp], level: float
) -> AgentCorrelation:
    n = len(x)
    if n < FEWEST_AGENTS:
        few = f"fewer than {FEWEST_AGENTS} agents in both"
        return AgentCorrelation(coefficient, None, None, None, None, n, note=few)
    value = float(correlations(x[None], y[None], coefficient)[0])
    if math.isnan(value):
        return AgentCorrelation(
            coefficient, None, None, None, None, n, note="not defined: all agents have the same value"
        )
    paired = correlations(np.broadcast_to(x, pairings.shape), y[pairings], coefficient)
    # a pairing that is equal but for the last digit counts as equal
    p = float(np.mean(np.abs(paired) >= abs(value) - 1e-9))
    low, high, note = fisher_interval(value, n, coefficient, level=level)
    return AgentCorrelation(coefficient, value, low, high, p, n, note=note)


def fisher_interval(
    value: float, n: int, coefficient: Coefficient, *, level: float
) -> tuple[float | None, float | None, str | None]:
    """The two ends; None with the reason if there are too few agents or the coefficient is 1 or -1."""
    lost = LOST[coefficient]
    if n <= lost:
        return None, None, f"no interval: n = {n}"
    if abs(value) >= 1 - 1e-12:
        return None, None, f"no interval: the coefficient is {value:.0f}"
    spread = {"pearson": 1.0, "spearman": 1 + value**2 / 2, "kendall": 0.437}[coefficient]
    reach = float(ndtri((1 + level) / 2)) * math.sqrt(spread / (n - lost))
    middle = math.atanh(value)
    return math.tanh(middle - reach), math.tanh(middle + reach), None


# --- the size effect -----------------------------------------------------------------------------------------------


Family = tuple[FloatArray, FloatArray]
"""log10 of the parameters, and scores."""
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
    slope: float | None
    """Change of the score per tenfold parameters; None: no family has two sizes."""
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    p: float | None
    pairs: int
    """Pairs of one family that differ in size."""
    larger_higher: int
    """Of these, those in which the larger has the higher score."""
    tied: int
    """Of these, those with equal scores."""
    families: tuple[str, ...]
    agents: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SizeEffect(AsJson):
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


def size_effect(board: Board, inference: Inference = DEFAULT, *, estimated_sizes: bool = True) -> SizeEffect:
    """The size effect of every metric. ``estimated_sizes``: whether to use agents whose size is an estimate."""
    sized, left_out = _sized(board, estimated_sizes=estimated_sizes)
    rows = tuple(_effect(metric, _families(board, metric, sized), inference) for metric in board.metrics)
    used = {family for row in rows for family in row.families}
    alone = tuple(a for a in sized if board.agents[a].family not in used)
    if alone:
        left_out["no other size in the family"] = alone
    notes = [METHOD, *(f"left out, {why}: {', '.join(agents)}." for why, agents in left_out.items())]
    guessed = [agent for agent in sized if agent in board.estimated_sizes and agent not in alone]
    if guessed:
        notes.append(f"sizes of {len(guessed)} agents are estimates: {', '.join(guessed)}.")
    told = {
        "sizes": evidence_hash((agent, size, board.agents[agent].family) for agent, size in sized.items()),
        "estimated-sizes": "used" if estimated_sizes else "left-out",
        "interval": f"families-jackknife-{inference.level:g}",
    }
    signatures = {m: inference.signature("size-effect", m, {"board": board.told(m), **told}) for m in board.metrics}
    return SizeEffect(board.name, rows, inference.level, left_out, tuple(notes), signatures)


def _sized(board: Board, *, estimated_sizes: bool) -> tuple[dict[str, float], dict[str, tuple[str, ...]]]:
    """log10 of the parameters of all agents that have family and size, and why the others are left out."""
    sized: dict[str, float] = {}
    out: dict[str, list[str]] = {}
    for name, agent in board.agents.items():
        if name == HUMAN:
            continue
        if agent.parameters is None:
            out.setdefault("number of parameters not known", []).append(name)
        elif agent.family is None:
            out.setdefault("family not known", []).append(name)
        elif name in board.estimated_sizes and not estimated_sizes:
            out.setdefault("size is an estimate", []).append(name)
        else:
            sized[name] = math.log10(agent.parameters)
    return sized, {why: tuple(agents) for why, agents in out.items()}


def _families(board: Board, metric: str, sized: Mapping[str, float]) -> dict[str, Family]:
    """Families with at least two sizes that have scores."""
    members: dict[str, list[tuple[float, float]]] = {}
    for agent, score in board.models(metric).items():
        if agent in sized:
            members.setdefault(str(board.agents[agent].family), []).append((sized[agent], score))
    found = {}
    for family, rows in sorted(members.items()):
        sizes, scores = np.array(rows).T
        if np.ptp(sizes) > 0:
            found[family] = (sizes, scores)
    return found


def _effect(metric: str, families: Mapping[str, Family], inference: Inference) -> MetricSizeEffect:
    held = list(families.values())
    pairs, higher, tied = _pairs(held)
    found = MetricSizeEffect(
        metric,
        *(None, None, None, None),
        pairs=pairs,
        larger_higher=higher,
        tied=tied,
        families=tuple(families),
        agents=sum(len(scores) for _, scores in held),
    )
    if not held:
        return replace(found, note="no family has two sizes with scores")
    found = replace(found, slope=_slope(held), p=_p(held, inference))
    if len(held) < 2:
        return replace(found, note="no interval: one family")
    without = np.array([[_slope(held[:i] + held[i + 1 :])] for i in range(len(held))])
    (interval,) = left_out_intervals(
        [_slope(held)],
        without,
        n_tasks=len(held),
        seed=inference.seed,
        level=inference.level,
        lowest=-math.inf,
        highest=math.inf,
    )
    return replace(found, low=interval.low, high=interval.high)


def _centred(families: Sequence[Family]) -> list[Family]:
    return [(sizes - sizes.mean(), scores - scores.mean()) for sizes, scores in families]


def _slope(families: Sequence[Family]) -> float:
    """Least squares with a level for each family: the slope of deviations from family means."""
    centred = _centred(families)
    return float(sum(x @ y for x, y in centred) / sum(x @ x for x, _ in centred))


def _pairs(families: Sequence[Family]) -> tuple[int, int, int]:
    """Pairs that differ in size, those in which the larger is higher, and those that are tied."""
    signs = [
        np.sign((sizes[i] - sizes[j]) * (scores[i] - scores[j]))
        for sizes, scores in families
        for i, j in itertools.combinations(range(len(sizes)), 2)
        if sizes[i] != sizes[j]
    ]
    # a sum of numpy's truth values is one of its numbers, which JSON does not know
    return len(signs), sum(bool(sign > 0) for sign in signs), sum(bool(sign == 0) for sign in signs)


def _p(families: Sequence[Family], inference: Inference) -> float:
    """Two-sided. The slope's denominator is the same however sizes are given out, so its numerator is compared."""
    centred = _centred(families)
    observed = abs(sum(float(x @ y) for x, y in centred))
    nearly = observed * (1 - 1e-9)  # sums in another order differ in the last digit
    if math.prod(math.factorial(len(x)) for x, _ in centred) <= EXACT_WAYS:
        sums = np.zeros(1)
        for x, y in centred:
            given = np.array([x[list(order)] @ y for order in itertools.permutations(range(len(x)))])
            sums = np.add.outer(sums, given).ravel()
        return float(np.mean(np.abs(sums) >= nearly))
    random = np.random.default_rng(inference.seed)
    drawn = np.zeros(inference.permutations)
    for x, y in centred:
        drawn += random.permuted(np.tile(x, (inference.permutations, 1)), axis=1) @ y
    return (int(np.sum(np.abs(drawn) >= nearly)) + 1) / (inference.permutations + 1)
