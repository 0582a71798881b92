"""Correlations over a handful of agents: three coefficients, each with an interval and a test fit for so few.

Intervals are Fisher's z: tanh(artanh r ± q se), with se = 1 / √(n - 3) for Pearson's coefficient (Fisher, 1921),
√((1 + r² / 2) / (n - 3)) for Spearman's (Bonett and Wright, 2000) and √(0.437 / (n - 4)) for Kendall's tau-b (Fieller,
Hartley and Pearson, 1957). A bootstrap over 8 to 17 agents draws the same few again and again and is too narrow there.
p: two-sided, how often a random pairing of agents gives a coefficient at least as far from 0; all pairings are tried
where there are few.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.meta_evaluation.consistency import COEFFICIENTS, FEWEST_AGENTS, Coefficient, correlations
from goldless.signature import Signature
from goldless.statistics.standings import holm

EXACT_UP_TO = 7
"""Up to this many agents all pairings are tried (5,040)."""
LOST: Mapping[Coefficient, int] = {"pearson": 3, "spearman": 3, "kendall": 4}
"""What is taken off the number of agents in the standard error."""
INTERVALS = (
    "Intervals are Fisher's z (with Bonett and Wright's error for Spearman, Fieller's for Kendall), p from random "
    "pairings of agents. Both take agents for a random sample; models of one family are alike, so both are too hopeful."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inference:
    """How intervals and p are made."""

    level: float = 0.95
    seed: int = 0
    permutations: int = 10_000

    def __post_init__(self) -> None:
        """Refuse what makes no interval and no p."""
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
    """Corrected for all that was tested beside it (Holm)."""
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
    """The same with Holm's correction over the groups, for each coefficient by itself."""
    by_coefficient = [holm([one.p for one in column]) for column in zip(*groups, strict=True)]
    return [
        tuple(replace(one, p_holm=ps[place]) for one, ps in zip(group, by_coefficient, strict=True))
        for place, group in enumerate(groups)
    ]


def _pairings(n: int, inference: Inference) -> npt.NDArray[np.intp]:
    """Orders of n agents: all of them where n is small, else random ones, the given order first."""
    if n <= EXACT_UP_TO:
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
        return AgentCorrelation(coefficient, None, None, None, None, n, note="not defined: all agents are alike")
    paired = correlations(np.broadcast_to(x, pairings.shape), y[pairings], coefficient)
    # a pairing that is equal but for the last digit counts as equal
    p = float(np.mean(np.abs(paired) >= abs(value) - 1e-9))
    low, high, note = fisher_interval(value, n, coefficient, level=level)
    return AgentCorrelation(coefficient, value, low, high, p, n, note=note)


def fisher_interval(
    value: float, n: int, coefficient: Coefficient, *, level: float
) -> tuple[float | None, float | None, str | None]:
    """The two ends; without them, and with the reason, where agents are too few or the coefficient is 1 or -1."""
    lost = LOST[coefficient]
    if n <= lost:
        return None, None, f"no interval: n = {n}"
    if abs(value) >= 1 - 1e-12:
        return None, None, f"no interval: the coefficient is {value:.0f}"
    spread = {"pearson": 1.0, "spearman": 1 + value**2 / 2, "kendall": 0.437}[coefficient]
    reach = float(ndtri((1 + level) / 2)) * math.sqrt(spread / (n - lost))
    middle = math.atanh(value)
    return math.tanh(middle - reach), math.tanh(middle + reach), None
