"""The favour rate (Auto-PRE, equation 5): how often a judge favours one agent though people do not.

Over the tasks on which people find two agents tied or prefer the second, the share of verdicts for the first. A tied
verdict does not favour it, and ties are counted. Beside it stands the accuracy on the pairs of these two agents that
people decided, a tied verdict counting half. Verdicts are those in each order on its own, or one vote on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.bias.judges import Judge, PairGrid
from goldless.meta_evaluation.bias.rows import BiasRow, Draws, Measured, Unavailable, share_rows
from goldless.metrics.judgement_table import NEITHER

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

RATE = "favours the first though people do not"
ACCURACY = "accuracy on pairs people decided"


def read_favours(given: Sequence[str | tuple[str, str]], agents: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of agents, each ``FIRST:SECOND`` or two names; a name may hold colons itself."""
    found, problems = [], []
    for one in given:
        try:
            found.append(_two(one, agents))
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    return list(dict.fromkeys(found))


def _two(given: str | tuple[str, str], agents: Sequence[str]) -> tuple[str, str]:
    if isinstance(given, str):
        parts = given.split(":")
        splits = [(":".join(parts[:i]).strip(), ":".join(parts[i:]).strip()) for i in range(1, len(parts))]
        if not splits:
            raise UserError(f"--favours {given!r}: give two agents as FIRST:SECOND")
        pair = next((pair for pair in splits if set(pair) <= set(agents)), splits[0])
    else:
        pair = given
    for name in pair:
        if name not in agents:
            raise UserError(
                f"--favours {given!r}: no agent {name!r}{nearest(name, agents)} Agents: {', '.join(agents)}."
            )
    if pair[0] == pair[1]:
        raise UserError(f"--favours {given!r}: name two different agents")
    return pair


def favour_rows(
    grid: PairGrid, judges: Sequence[Judge], people: FloatArray, pair: tuple[str, str], *, draws: Draws
) -> tuple[list[BiasRow], list[Unavailable]]:
    """Rate and accuracy of every judge for the first agent against the second."""
    first, second = pair
    column, turned = grid.pair(first, second)
    human = _toward(people[:, column], turned=turned)
    about = f"{first} over {second}"
    if not np.any(human <= NEITHER):
        return [], [
            Unavailable("favour rate", f"{about}: people prefer {first} wherever there is a label, or have none")
        ]
    rates, credits_, silent = [], [], []
    for judge in judges:
        values = np.stack([_toward(v.value[:, column], turned=turned) for v in judge.verdicts], axis=1)
        asked = np.stack([v.asked[:, column] for v in judge.verdicts], axis=1)
        unfavoured = asked & (human <= NEITHER)[:, None]
        if not unfavoured.any():
            silent.append(judge.name)
            continue
        favours = np.where(np.isnan(values), np.nan, (values > NEITHER).astype(np.float64))
        rates.append(_measured(judge, favours, unfavoured, values, about))
        decided = asked & (~np.isnan(human) & (human != NEITHER))[:, None]
        earned = (1 + np.sign(values - NEITHER) * np.sign(human - NEITHER)[:, None]) / 2
        if decided.any():
            credits_.append(_measured(judge, earned, decided, values, about))
    rows = [
        *share_rows("favour rate", RATE, rates, neutral=None, draws=draws),
        *share_rows("favour rate", ACCURACY, credits_, neutral=None, draws=draws),
    ]
    reason = f"{about}: not judged where people see a tie or prefer {second}"
    return rows, [Unavailable("favour rate", reason, tuple(silent))] if silent else []


def _toward(value: FloatArray, *, turned: bool) -> FloatArray:
    return 1 - value if turned else value


def _measured(judge: Judge, values: FloatArray, asked: BoolArray, verdicts: FloatArray, about: str) -> Measured:
    kept = np.where(asked, values, np.nan)
    task = np.repeat(np.arange(len(values)), values.shape[1])
    ties = int(np.sum(asked & (verdicts == NEITHER)))
    one = Measured(judge.name, judge.kind, kept.ravel(), asked.ravel(), task, ties=ties)
    return replace(one, about=about)
