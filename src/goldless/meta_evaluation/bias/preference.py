"""Self-preference and family preference: whether a reviewer sees its own kind's responses better than others do.

*Preference gap* (PRE, equation 2): PG(i, j) = P_i(i ≻ j) - P_j(i ≻ j), for reviewers i and j that are agents as well,
P_r(i ≻ j) the share of tasks on which r finds i's response better than j's, a tie counting half. PG(j, i) is the same
number. Both shares are over the pairs that both reviewers judged. The mean of all gaps is over the gaps, each counting
once however many tasks it rests on; tasks are resampled for all gaps together.

*Own-family wins*: over pairs of an agent of the reviewer's family with one of another, the rate at which the reviewer
prefers its own; less the rate of the other reviewers, those of neither agent's family, and less that of people, on the
same pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.bias.judges import Judge, PairGrid
from goldless.meta_evaluation.bias.rows import (
    BiasRow,
    Draws,
    Measured,
    Unavailable,
    mean_of_shares,
    measured_on_pairs,
    row_of,
    share_rows,
)

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

GAP = "preference gap"
MEAN = "mean of all"
OWN_WINS = "own family wins"
LESS_REVIEWERS = "own family wins, less other reviewers"
LESS_PEOPLE = "own family wins, less people"


def gap_rows(grid: PairGrid, reviewers: Sequence[Judge], *, draws: Draws) -> tuple[list[BiasRow], list[Unavailable]]:
    """The preference gap of every two reviewers that are agents, and their mean."""
    own = [judge for judge in reviewers if judge.name in grid.agents]
    others = tuple(judge.name for judge in reviewers if judge.name not in grid.agents)
    unavailable = [Unavailable("self-preference", "no agent of the same name", others)] if others else []
    measured = []
    for first, second in itertools.combinations(own, 2):
        column, turned = grid.pair(first.name, second.name)
        asked = first.asked[:, column] & second.asked[:, column]
        gap = first.vote[:, column] - second.vote[:, column]
        measured.append(_differences((first.name, second.name), -gap if turned else gap, asked))
    silent = tuple(one.judge for one in measured if not one.asked.any())
    if silent:
        unavailable.append(Unavailable("self-preference", "no pair that both reviewers judged", silent))
    measured = [one for one in measured if one.asked.any()]
    if not measured:
        needed = "a gap takes two reviewers that are agents as well"
        return [], [*unavailable, *([] if silent else [Unavailable("self-preference", needed)])]
    ends = {"neutral": 0.0, "lowest": -1.0, "highest": 1.0}
    rows = share_rows("self-preference", GAP, measured, draws=draws, **ends)
    if len(measured) > 1:
        rows.append(_mean_gap(measured, rows, draws=draws))
    return rows, unavailable


def _mean_gap(measured: Sequence[Measured], gaps: Sequence[BiasRow], *, draws: Draws) -> BiasRow:
    """The mean of the gaps that are defined."""
    known = [one for one, row in zip(measured, gaps, strict=True) if row.value is not None]
    positive = sum((row.value or 0.0) > 0 for row in gaps)
    note = f"{positive} of {len(known)} gaps above 0"
    if len(known) < len(gaps):
        note += f"; {len(gaps) - len(known)} not defined"
    values, asked, task = (
        np.concatenate([getattr(one, name) for one in measured]) for name in ("values", "asked", "task")
    )
    share = mean_of_shares([one.values[:, None] for one in known], draws=draws, lowest=-1.0, highest=1.0)
    together = Measured(MEAN, "reviewers", values, asked, task, note=note)
    return row_of(share, "self-preference", GAP, together, neutral=0.0)


def family_rows(
    grid: PairGrid,
    reviewers: Sequence[Judge],
    people: FloatArray | None,
    *,
    agent_families: Mapping[str, str],
    reviewer_families: Mapping[str, str],
    draws: Draws,
) -> tuple[list[BiasRow], list[Unavailable]]:
    """How each reviewer sees its own family's responses, beside how others and people see them."""
    families = [agent_families[agent] for agent in grid.agents]
    low, high = (np.array([families[i] for i in side], dtype=np.str_) for side in (grid.low, grid.high))
    others = _disinterested(grid, reviewers, reviewer_families, low, high)
    rows: list[BiasRow] = []
    lacking: list[str] = []
    alone: list[str] = []
    for judge in reviewers:
        family = reviewer_families[judge.name]
        mixed = (low == family) != (high == family)
        asked = judge.asked & mixed
        if not asked.any():
            lacking.append(judge.name)
            continue
        turned = high == family
        mine = _own(judge.vote, turned)
        own = replace(measured_on_pairs(judge.name, judge.kind, mine, asked), about=family)
        rows += share_rows("family preference", OWN_WINS, [own], neutral=None, draws=draws)
        if (asked & ~np.isnan(others)).any():
            rows += _less(
                judge, mine - _own(others, turned), asked & ~np.isnan(others), LESS_REVIEWERS, about=family, draws=draws
            )
        else:
            alone.append(judge.name)
        if people is not None and (asked & ~np.isnan(people)).any():
            rows += _less(
                judge, mine - _own(people, turned), asked & ~np.isnan(people), LESS_PEOPLE, about=family, draws=draws
            )
    unavailable = []
    if lacking:
        reason = "no judged pair of an agent of its family with another; families: the agents table, or --family"
        unavailable.append(Unavailable("family preference", reason, tuple(lacking)))
    if alone:
        reason = "no other reviewer of neither family judged the same pairs"
        unavailable.append(Unavailable("family preference", reason, tuple(alone)))
    if people is None and rows:
        unavailable.append(Unavailable("family preference", "no labels: nothing can be said beside people"))
    return rows, unavailable


def _own(vote: FloatArray, turned: BoolArray) -> FloatArray:
    """[tasks, pairs]: how far the agent of the reviewer's family is better."""
    found: FloatArray = np.where(turned[None, :], 1 - vote, vote)
    return found


def _less(
    judge: Judge, difference: FloatArray, asked: BoolArray, measure: str, *, about: str, draws: Draws
) -> list[BiasRow]:
    task = np.repeat(np.arange(len(difference)), difference.shape[1])
    kept = np.where(asked, difference, np.nan).ravel()
    one = Measured(judge.name, judge.kind, kept, asked.ravel(), task, about=about)
    return share_rows("family preference", measure, [one], neutral=0.0, lowest=-1.0, highest=1.0, draws=draws)


def _disinterested(
    grid: PairGrid,
    reviewers: Sequence[Judge],
    families: Mapping[str, str],
    low: npt.NDArray[np.str_],
    high: npt.NDArray[np.str_],
) -> FloatArray:
    """[tasks, pairs]: mean vote of the reviewers of neither agent's family; NaN: nobody."""
    total, count = np.zeros(grid.shape), np.zeros(grid.shape)
    for judge in reviewers:
        family = families[judge.name]
        heard = ~np.isnan(judge.vote) & ((low != family) & (high != family))[None, :]
        total += np.where(heard, judge.vote, 0.0)
        count += heard
    mean = np.full(grid.shape, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _differences(pair: tuple[str, str], values: FloatArray, asked: BoolArray) -> Measured:
    kept = np.where(asked, values, np.nan)
    return Measured(", ".join(pair), "reviewers", kept, asked, np.arange(len(values)), pair=pair)
