"""Bradley-Terry strengths: agent i beats agent j with probability 1 / (1 + exp(s_j - s_i)), and a tie is half a win.

Strengths s are natural log-odds with mean 0. One fit is evalica's. Many fits, for intervals from resampled tasks, are
done side by side by Newton's method: the likelihood has one maximum, so both give the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goldless.arrays import BoolArray, FloatArray

NEWTON_STEPS = 60
LONGEST_STEP = 2.0
"""In log-odds: a first step across the flat part of the likelihood would overshoot."""


def bradley_terry(wins: FloatArray) -> FloatArray:
    """Strengths of agents in natural log-odds, mean 0, from wins [agents, agents] of row over column, by evalica."""
    import evalica  # noqa: PLC0415 - it brings pandas, which nothing else here needs

    winner, loser = np.nonzero(wins)
    found = evalica.bradley_terry(
        winner.tolist(),
        loser.tolist(),
        [evalica.Winner.X] * len(winner),
        weights=wins[winner, loser].tolist(),
        tolerance=1e-12,
        limit=100_000,
    )
    strength = np.log(found.scores.sort_index().to_numpy(dtype=np.float64))
    centred: FloatArray = strength - strength.mean()
    return centred


def bradley_terry_batch(wins: FloatArray, start: FloatArray) -> FloatArray:
    """The same for many matrices [some, agents, agents] at once, each with a finite solution: [some, agents]."""
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
    """Who always wins or was never met, where strengths are not finite."""
    if len(agents) < 2 or not wins.any():
        return "no strengths: no two agents have a verdict"
    if has_finite_strengths(wins[None])[0]:
        return None
    played = (wins + wins.T).sum(axis=1) > 0
    unmet = [agent for agent, has in zip(agents, played, strict=True) if not has]
    if unmet:
        return f"no finite strengths: no verdict on {', '.join(unmet)}; leave them out"
    always = [agent for agent, lost in zip(agents, wins.sum(axis=0), strict=True) if lost == 0]
    never = [agent for agent, won in zip(agents, wins.sum(axis=1), strict=True) if won == 0]
    who = [f"{', '.join(always)} never lost"] * bool(always) + [f"{', '.join(never)} never won"] * bool(never)
    said = " and ".join(who) or "some agents never lost to the others"
    return f"no finite strengths: {said}; rank by win rate, or add virtual ties"
