"""What a metric gives: a score per pair and per response, absent where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.records import FailureKind


@dataclass(frozen=True, slots=True)
class PairScore:
    """What one agent's response tells about one peer's."""

    task: str
    agent: str
    """The candidate (x)."""
    peer: str
    """The reference (y)."""
    score: float | None
    """None: missing."""
    missing: FailureKind | None = None
    """Why; None where there is a score, or where nobody asked."""


@dataclass(frozen=True, slots=True)
class ResponseScore:
    """One response's score."""

    task: str
    agent: str
    score: float | None
    """None: missing."""
    asked: int
    """Pairs that should have been scored."""
    used: int
    """Pairs that were."""


def mean_over_peers(pairs: Sequence[PairScore]) -> list[ResponseScore]:
    """Mean over the peers of each response; missing where no pair is left."""
    groups: dict[tuple[str, str], list[PairScore]] = {}
    for pair in pairs:
        groups.setdefault((pair.task, pair.agent), []).append(pair)
    scores = []
    for (task, agent), group in groups.items():
        used = [pair.score for pair in group if pair.score is not None]
        mean = sum(used) / len(used) if used else None
        scores.append(ResponseScore(task, agent, mean, asked=len(group), used=len(used)))
    return scores


def mean_over_variants(variants: Sequence[Sequence[PairScore]]) -> list[PairScore]:
    """Mean of each pair over several ways of asking; missing where any of them is.

    Ways of asking differ in level, so a mean over those that happened to work would not be comparable.
    """
    if len(variants) == 1:
        return list(variants[0])
    found: dict[tuple[str, str, str], list[PairScore]] = {}
    for pairs in variants:
        for pair in pairs:
            found.setdefault((pair.task, pair.agent, pair.peer), []).append(pair)
    return [_mean_pair(key, group, len(variants)) for key, group in found.items()]


def _mean_pair(key: tuple[str, str, str], group: Sequence[PairScore], wanted: int) -> PairScore:
    values = [pair.score for pair in group if pair.score is not None]
    if len(values) == wanted:
        return PairScore(*key, sum(values) / wanted)
    return PairScore(*key, None, next((pair.missing for pair in group if pair.missing is not None), None))


def pair_matrix(pairs: Sequence[PairScore], agents: Sequence[str]) -> npt.NDArray[np.float64]:
    """Mean over tasks of each ordered pair: [agent, peer], NaN where there is none."""
    place = {agent: i for i, agent in enumerate(agents)}
    sums, counts = np.zeros((len(agents), len(agents))), np.zeros((len(agents), len(agents)))
    for pair in pairs:
        if pair.score is not None:
            sums[place[pair.agent], place[pair.peer]] += pair.score
            counts[place[pair.agent], place[pair.peer]] += 1
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)
