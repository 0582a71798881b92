"""Rankings of agents: by mean score, by win rate, or by Bradley-Terry strength, with intervals over tasks.

With Bradley-Terry strengths s, agent i beats agent j with probability 1 / (1 + exp(s_j - s_i)); a tie is half a win.
Unlike win rates, they adjust for agents that met different opponents.

Strengths are natural log-odds with mean 0, fitted by Newton's method, many resampled tasks side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.metrics.chair import TIED, PanelScores, PanelVerdicts
from goldless.statistics.bootstrap import Draws, Estimate, draw_counts, score_intervals
from goldless.statistics.standings import LeaderboardRow, score_table
from goldless.statistics.uneven_missing import uneven_missing_notes

NEWTON_STEPS = 60
LONGEST_STEP = 2.0
"""In log-odds: a first step across the flat part of the likelihood would overshoot."""


def bradley_terry(wins: FloatArray, *, start: FloatArray) -> FloatArray:
    """Strengths [some, agents] in natural log-odds, mean 0, from wins [some, agents, agents] of row over column.

    Each matrix must have a finite solution; the likelihood has one maximum, wherever the fit starts.
    """
    met = wins + wins.transpose(0, 2, 1)
    total = wins.sum(axis=2)
    size = wins.shape[1]
    strength = np.tile(start, (len(wins), 1))
    enough = 1e-10 * met.sum(axis=(1, 2))
    for _ in range(NEWTON_STEPS):
        gap = strength[:, :, None] - strength[:, None, :]
        chance = 1 / (1 + np.exp(-gap))
        slope = total - (met * chance).sum(axis=2)
        if np.all(np.abs(slope).max(axis=1) <= enough):
            break
        curve = -met * chance * (1 - chance)
        diagonal = np.arange(size)
        curve[:, diagonal, diagonal] = 0.0
        curve[:, diagonal, diagonal] = -curve.sum(axis=2)
        # only differences count: a constant added everywhere fixes the mean and changes no step
        curve += met.max(axis=(1, 2), initial=1.0)[:, None, None] / size
        step = np.linalg.solve(curve, slope[:, :, None])[:, :, 0]
        strength += step * np.minimum(1.0, LONGEST_STEP / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
    centred: FloatArray = strength - strength.mean(axis=1, keepdims=True)
    return centred


def has_finite_strengths(wins: FloatArray) -> BoolArray:
    """[some]: whether every agent has beaten every other, or one that has, and so on: then strengths are finite."""
    reach = (wins > 0) | np.eye(wins.shape[1], dtype=bool)
    for _ in range(max(1, int(np.ceil(np.log2(max(2, wins.shape[1])))))):
        reach = np.matmul(reach.astype(np.float32), reach.astype(np.float32)) > 0
    return np.asarray(reach.all(axis=(1, 2)))


def why_not_finite(wins: FloatArray, agents: Sequence[str]) -> str | None:
    """The reason why strengths are not finite: which agents always win, always lose or were never compared."""
    if len(agents) < 2 or not wins.any():
        return "no strengths: there are no verdicts on pairs"
    if has_finite_strengths(wins[None])[0]:
        return None
    played = (wins + wins.T).sum(axis=1) > 0
    unmet = [agent for agent, has in zip(agents, played, strict=True) if not has]
    if unmet:
        return f"no finite strengths: no verdict on {', '.join(unmet)}. Leave them out"
    always = [agent for agent, lost in zip(agents, wins.sum(axis=0), strict=True) if lost == 0]
    never = [agent for agent, won in zip(agents, wins.sum(axis=1), strict=True) if won == 0]
    who = [f"{', '.join(always)} never lost"] * bool(always) + [f"{', '.join(never)} never won"] * bool(never)
    said = " and ".join(who) or "some agents never lost to the others"
    return f"no finite strengths: {said}. See the win rates"


HALF_TIE = 0.5
"""Ties added between agents that met, in resamples where an agent always wins or always loses."""
ELEMENTS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class RankedAgent(LeaderboardRow):
    """One agent's rank: one more than the number of agents with a higher score; asked are ratings or pairs."""

    @property
    def n_tasks(self) -> int:
        """Tasks with a score or verdict."""
        return self.estimate.n


@dataclass(frozen=True)
class Ranking:
    """All agents, best first."""

    unit: str
    agents: tuple[RankedAgent, ...]
    notes: tuple[str, ...] = ()


def rank_by_mean(panel: PanelScores, **draws: Unpack[Draws]) -> Ranking:
    """Rank by mean score over tasks."""
    counts = (panel.asked > 0).sum(axis=0), (~np.isnan(panel.score)).sum(axis=0)
    unit = "rating" if panel.normalisation == "raw" else "standard deviations"
    lowest = float(np.nanmin(panel.score)) if (~np.isnan(panel.score)).any() else 0.0
    return _ranking(unit, panel.agents, score_intervals(panel.score, **draws), counts, lowest)


def rank_by_win_rate(verdicts: PanelVerdicts, **draws: Unpack[Draws]) -> Ranking:
    """Rank by the share of peers that an agent beats, ties counting half, averaged over tasks."""
    found = score_intervals(win_rates(verdicts), limits=(0.0, 1.0), **draws)
    return _ranking("win rate", verdicts.agents, found, _counts(verdicts), lowest=0.0)


def rank_by_bradley_terry(
    verdicts: PanelVerdicts,
    *,
    seed: int = 0,
    resamples: int = 1_000,
    level: float = 0.95,
) -> Ranking:
    """Rank by Bradley-Terry strength, with percentile intervals over resampled tasks.

    Strengths are not finite where an agent, or a group of agents, always wins or always loses against the rest; the
    notes then say which.
    """
    by_task, agents = _wins_by_task(verdicts), len(verdicts.agents)
    wins = by_task.sum(axis=0).reshape(agents, agents)
    met = ((wins + wins.T) > 0).astype(np.float64)
    over, note = (~np.isnan(win_rates(verdicts))).sum(axis=0), why_not_finite(wins, verdicts.agents)
    found = [Estimate(n=int(n), level=level) for n in over]
    if note is None:
        strengths = bradley_terry(wins[None], start=np.zeros(agents))[0]
        found = [replace(one, value=float(strength)) for one, strength in zip(found, strengths, strict=True)]
        if len(by_task) < 2:
            note = f"no interval: n = {len(by_task)}"
        else:
            drawn, irregular = _refitted(by_task, met, strengths, seed=seed, resamples=resamples)
            ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0).T.tolist()
            found = [replace(one, low=low, high=high) for one, (low, high) in zip(found, ends, strict=True)]
            if irregular:
                said = "resamples had no finite solution; in these, half a tie was added to every pair"
                note = f"{irregular} of {resamples} {said}"
    ranking = _ranking("log-odds", verdicts.agents, found, _counts(verdicts), lowest=None)
    return replace(ranking, notes=() if note is None else (note,))


def _refitted(
    by_task: FloatArray, met: FloatArray, strength: FloatArray, *, seed: int, resamples: int
) -> tuple[FloatArray, int]:
    """Strengths [resamples, agents] of resampled tasks, and how many resamples had no finite ones of their own."""
    agents = len(strength)
    drawn, irregular = [], 0
    step = max(1, ELEMENTS_AT_ONCE // agents**2)
    for counts in draw_counts(len(by_task), seed=seed, resamples=resamples):
        for begin in range(0, len(counts), step):
            wins = (counts[begin : begin + step] @ by_task).reshape(-1, agents, agents)
            bad = ~has_finite_strengths(wins)
            wins[bad] += HALF_TIE / 2 * met
            irregular += int(bad.sum())
            drawn.append(bradley_terry(wins, start=strength))
    return np.concatenate(drawn), irregular


def _wins_by_task(verdicts: PanelVerdicts) -> FloatArray:
    """Wins [tasks with a verdict, agents * agents] of row over column, ties half."""
    present = ~np.isnan(verdicts.margin)
    value, low, high = verdicts.verdict[present], verdicts.low[present], verdicts.high[present]
    agents = len(verdicts.agents)
    names, task = np.unique(verdicts.task[present], return_inverse=True)
    table = np.zeros((len(names), agents * agents))
    np.add.at(table, (task, low * agents + high), value)
    np.add.at(table, (task, high * agents + low), 1 - value)
    return table


def win_rates(verdicts: PanelVerdicts) -> FloatArray:
    """[tasks, agents]: the share of peers that each beats, as seen from either side of a pair."""
    task = np.concatenate([verdicts.task, verdicts.task])
    agent = np.concatenate([verdicts.low, verdicts.high])
    both = np.concatenate([verdicts.verdict, 1 - verdicts.verdict])
    return score_table(task, agent, both, tasks=len(verdicts.tasks), agents=len(verdicts.agents))


def _counts(verdicts: PanelVerdicts) -> tuple[IntArray, IntArray]:
    agents = len(verdicts.agents)
    asked, used = (
        np.bincount(np.concatenate([verdicts.low[kept], verdicts.high[kept]]), minlength=agents)
        for kept in (verdicts.asked > 0, ~np.isnan(verdicts.margin))
    )
    return asked, used


def _ranking(
    unit: str,
    agents: Sequence[str],
    found: Sequence[Estimate],
    counts: tuple[IntArray, IntArray],
    lowest: float | None,
) -> Ranking:
    """Return the ranking by these scores.

    ``counts``: pairs or ratings requested and used. ``lowest``: the lowest score there can be; None: there is none.
    """
    values = np.array([one.value for one in found], np.float64)
    rows = [
        RankedAgent(
            rank=None if one.value is None else 1 + int(np.sum(values > one.value + TIED)),
            agent=agent,
            estimate=one,
            asked=int(asked),
            used=int(used),
        )
        for agent, one, asked, used in zip(agents, found, *counts, strict=True)
    ]
    rows.sort(key=lambda row: (row.rank is None, row.rank or 0, row.agent))
    notes = [f"{agent}: {one.note}" for agent, one in zip(agents, found, strict=True) if one.note]
    if lowest is not None:
        notes += uneven_missing_notes(rows, lowest)
    return Ranking(unit, tuple(rows), tuple(notes))
