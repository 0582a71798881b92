"""Which of two responses a judge prefers besides quality: the first shown, its own, its family's, a given agent's.

*Position*, over the pairs a reviewer was asked about in both orders. *Flips*: share of pairs whose verdict changes with
the order, 1 - Pc of Auto-PRE. *First-position rate*: of the verdicts on pairs judged in both orders that found one
better, the share for the response shown first; each response of such a pair is first once, so 0.5 is neutral whichever
is better.

*Preference gap* (PRE, equation 2): PG(i, j) = P_i(i ≻ j) - P_j(i ≻ j), for reviewers i and j that are agents as well,
P_r(i ≻ j) the share of tasks on which r finds i's response better than j's, a tie counting half. PG(j, i) is the same
number. Both shares are over the pairs that both reviewers judged. The mean of all gaps is over the gaps, each counting
once however many tasks it rests on; tasks are resampled for all gaps together.

*Own-family wins*: over pairs of an agent of the reviewer's family with one of another, the rate at which the reviewer
prefers its own; minus the rate of the other reviewers, those of neither agent's family, and minus that of people, on
the same pairs.

*Favour rate* (Auto-PRE, equation 5): how often a judge favours one agent though people do not. Over the tasks on which
people find two agents tied or prefer the second, the share of verdicts for the first. A tied verdict does not favour
it, and ties are counted. The accuracy on the pairs of these two agents that people decided is reported too, a tied
verdict counting half. Verdicts are those of each order, or one vote on both.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import UserError, nearest
from goldless.meta_evaluation.bias.report import (
    Bias,
    BiasRow,
    Measured,
    Unavailable,
    mean_of_shares,
    measured,
    measured_votes,
    row_of,
    share_rows,
)
from goldless.meta_evaluation.bias.votes import PairGrid, Votes, toward
from goldless.metrics.exam_traits import Trait, consistency
from goldless.metrics.judgement_table import NEITHER, Convention, PairJudgements
from goldless.statistics.bootstrap import Draws, Share

Found = tuple[list[BiasRow], list[Unavailable]]

ONE_ORDER = "judgements are in one order only. Ask for both orders of every pair"
GAP = "preference gap"
MEAN = "mean of all"
OWN_WINS = "own family wins"
LESS_REVIEWERS = "own family wins, less other reviewers"
LESS_PEOPLE = "own family wins, less people"
RATE = "favours the first though people do not"
ACCURACY = "accuracy on pairs people decided"


# --- position ------------------------------------------------------------------------------------------------------


def position_rows(judgements: PairJudgements, *, convention: Convention, draws: Draws) -> Found:
    """Flips and first-position rate of every reviewer that was asked in both orders."""
    both: BoolArray = np.asarray(judgements.asked.all(axis=2))
    heard = [name for name, own in zip(judgements.reviewers, both, strict=True) if own.any()]
    silent = tuple(name for name in judgements.reviewers if name not in heard)
    unavailable = [Unavailable("position", ONE_ORDER, silent)] if silent else []
    if not heard:
        return [], unavailable
    same = consistency(judgements.of(heard), convention=convention, **draws)
    rows = [_flips(same[name], judgements.of([name])) for name in heard]
    first = [_first(judgements.of([name])) for name in heard]
    rows += share_rows("position", "decided for the one shown first", first, neutral=NEITHER, draws=draws)
    return rows, unavailable


def _flips(same: Trait, own: PairJudgements) -> BiasRow:
    """One less the consistency; tied: pairs judged in both orders with a tie in at least one of them."""
    value, high, low = (None if one is None else 1 - one for one in (same.value, same.low, same.high))
    share = Share(value, low, high, same.used, same.n_tasks, same.level, same.method, same.note)
    (said,) = own.value
    ties = int(np.sum((said == NEITHER).any(axis=1) & ~np.isnan(said).any(axis=1)))
    one = Measured(own.reviewers[0], "reviewer", said.ravel(), np.repeat(own.task, 2), same.asked, ties)
    return row_of(share, "position", "flips when the order is swapped", one, neutral=None)


def _first(own: PairJudgements) -> Measured:
    """1 where the one shown first won, 0 where the other did; a tie is not decided, and counted."""
    both, value = own.asked[0].all(axis=1), own.value[0]
    whole = (both & ~np.isnan(value).any(axis=1))[:, None]
    for_first = np.sign(np.stack([value[:, 0] - NEITHER, NEITHER - value[:, 1]], axis=1))
    tied = whole & (for_first == 0)
    values = np.where(whole & ~tied, (for_first + 1) / 2, np.nan).ravel()
    asked, ties = int((both[:, None] & ~tied).sum()), int(tied.sum())
    note = f"ties left out: {ties}" if ties else None
    return Measured(own.reviewers[0], "reviewer", values, np.repeat(own.task, 2), asked, ties, note=note)


# --- one's own -----------------------------------------------------------------------------------------------------


def gap_rows(grid: PairGrid, reviewers: Sequence[Votes], *, draws: Draws) -> Found:
    """The preference gap of every two reviewers that are also agents, and their mean."""
    bias: Bias = "self-preference"
    own = [judge for judge in reviewers if judge.name in grid.agents]
    others = tuple(judge.name for judge in reviewers if judge.name not in grid.agents)
    unavailable = [Unavailable(bias, "no agent with the same name", others)] if others else []
    found = [_gap(grid, first, second) for first, second in itertools.combinations(own, 2)]
    silent = tuple(one.judge for one in found if not one.asked)
    if silent:
        unavailable.append(Unavailable(bias, "no pair that both reviewers judged", silent))
    found = [one for one in found if one.asked]
    if not found:
        needed = "a preference gap needs two reviewers that are also agents"
        return [], [*unavailable, *([] if silent else [Unavailable(bias, needed)])]
    rows = share_rows(bias, GAP, found, neutral=0.0, draws=draws, lowest=-1.0)
    if len(found) > 1:
        rows.append(_mean_gap(found, rows, draws=draws))
    return rows, unavailable


def _gap(grid: PairGrid, first: Votes, second: Votes) -> Measured:
    column, turned = grid.pair(first.name, second.name)
    asked = first.asked[:, column] & second.asked[:, column]
    gap = first.vote[:, column] - second.vote[:, column]
    pair = first.name, second.name
    return measured(", ".join(pair), "reviewers", (-gap if turned else gap)[:, None], asked[:, None], pair=pair)


def _mean_gap(found: Sequence[Measured], gaps: Sequence[BiasRow], *, draws: Draws) -> BiasRow:
    """The mean of the gaps that are defined."""
    known = [one for one, row in zip(found, gaps, strict=True) if row.value is not None]
    positive = sum((row.value or 0.0) > 0 for row in gaps)
    note = f"{positive} of {len(known)} gaps above 0"
    if len(known) < len(gaps):
        note += f"; {len(gaps) - len(known)} not defined"
    values, task = (np.concatenate([getattr(one, name) for one in found]) for name in ("values", "task"))
    share = mean_of_shares([one.values[:, None] for one in known], draws=draws, lowest=-1.0)
    together = Measured(MEAN, "reviewers", values, task, sum(one.asked for one in found), note=note)
    return row_of(share, "self-preference", GAP, together, neutral=0.0)


# --- one's own kind ------------------------------------------------------------------------------------------------


def family_rows(
    grid: PairGrid,
    reviewers: Sequence[Votes],
    people: FloatArray | None,
    *,
    agent_families: Mapping[str, str],
    reviewer_families: Mapping[str, str],
    draws: Draws,
) -> Found:
    """How each reviewer judges its own family's responses, compared with other reviewers and people."""
    families = [agent_families[agent] for agent in grid.agents]
    low, high = (np.array([families[i] for i in side], dtype=np.str_) for side in (grid.low, grid.high))
    others = _disinterested(grid, reviewers, reviewer_families, low, high)
    rows: list[BiasRow] = []
    lacking: list[str] = []
    alone: list[str] = []
    for judge in reviewers:
        family = reviewer_families[judge.name]
        asked = judge.asked & ((low == family) != (high == family))
        if not asked.any():
            lacking.append(judge.name)
            continue
        mine = measured_votes(judge.name, judge.kind, toward(judge.vote, high == family), asked, about=family)
        rows += share_rows("family preference", OWN_WINS, [mine], neutral=None, draws=draws)
        less = _less(judge, asked, others, family, turned=high == family, measure=LESS_REVIEWERS, draws=draws)
        if not less:
            alone.append(judge.name)
        rows += less
        if people is not None:
            rows += _less(judge, asked, people, family, turned=high == family, measure=LESS_PEOPLE, draws=draws)
    return rows, _without_family(lacking, alone, unlabelled=people is None and bool(rows))


def _without_family(lacking: Sequence[str], alone: Sequence[str], *, unlabelled: bool) -> list[Unavailable]:
    found = [
        (
            lacking,
            "no judged pair of an agent of its family and another. Set families in the agents table or with --family",
        ),
        (alone, "no reviewer outside both families judged the same pairs"),
    ]
    unavailable = [Unavailable("family preference", reason, tuple(names)) for names, reason in found if names]
    if unlabelled:
        unavailable.append(Unavailable("family preference", "no labels, so there is no comparison with people"))
    return unavailable


def _less(
    judge: Votes,
    asked: BoolArray,
    others: FloatArray,
    family: str,
    *,
    turned: BoolArray,
    measure: str,
    draws: Draws,
) -> list[BiasRow]:
    """The judge's rate less that of others on the pairs that they voted on; nothing where there are none."""
    both = asked & ~np.isnan(others)
    if not both.any():
        return []
    difference = toward(judge.vote, turned) - toward(others, turned)
    one = measured(judge.name, judge.kind, difference, both, about=family)
    return share_rows("family preference", measure, [one], neutral=0.0, lowest=-1.0, draws=draws)


def _disinterested(
    grid: PairGrid,
    reviewers: Sequence[Votes],
    families: Mapping[str, str],
    low: npt.NDArray[np.str_],
    high: npt.NDArray[np.str_],
) -> FloatArray:
    """[tasks, pairs]: mean vote of the reviewers of neither agent's family; NaN: none."""
    total, count = np.zeros(grid.shape), np.zeros(grid.shape)
    for judge in reviewers:
        family = families[judge.name]
        heard = ~np.isnan(judge.vote) & ((low != family) & (high != family))[None, :]
        total += np.where(heard, judge.vote, 0.0)
        count += heard
    mean = np.full(grid.shape, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


# --- a named agent -------------------------------------------------------------------------------------------------


def read_favours(given: Sequence[str | tuple[str, str]], agents: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of agents, each ``FIRST:SECOND`` or two names; names can contain colons."""
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
            raise UserError(f"--favours must be two agents as FIRST:SECOND, got {given!r}")
        pair = next((pair for pair in splits if set(pair) <= set(agents)), splits[0])
    else:
        pair = given
    for name in pair:
        if name not in agents:
            raise UserError(
                f"--favours {given!r}: no agent {name!r}{nearest(name, agents) or '.'} Agents: {', '.join(agents)}"
            )
    if pair[0] == pair[1]:
        raise UserError(f"--favours must name two different agents, got {given!r}")
    return pair


def favour_rows(
    grid: PairGrid, judges: Sequence[Votes], people: FloatArray, pair: tuple[str, str], *, draws: Draws
) -> Found:
    """Rate and accuracy of every judge for the first agent compared with the second."""
    first, second = pair
    column, turned = grid.pair(first, second)
    human = toward(people[:, column], turned)[:, None]
    about = f"{first} over {second}"
    if not np.any(human <= NEITHER):
        reason = f"{about}: people always prefer {first}, or there are no labels"
        return [], [Unavailable("favour rate", reason)]
    rates: list[Measured] = []
    credits_: list[Measured] = []
    silent: list[str] = []
    for judge in judges:
        values = toward(np.stack([v.value[:, column] for v in judge.verdicts], axis=1), turned)
        asked = np.stack([v.asked[:, column] for v in judge.verdicts], axis=1)
        unfavoured, decided = asked & (human <= NEITHER), asked & ~np.isnan(human) & (human != NEITHER)
        if not unfavoured.any():
            silent.append(judge.name)
            continue
        favours = np.where(np.isnan(values), np.nan, (values > NEITHER).astype(np.float64))
        earned = (1 + np.sign(values - NEITHER) * np.sign(human - NEITHER)) / 2
        for kept, found, on in ((rates, favours, unfavoured), (credits_, earned, decided)):
            ties = int(np.sum(on & (values == NEITHER)))
            kept.append(measured(judge.name, judge.kind, found, on, ties=ties, about=about))
    rows = share_rows("favour rate", RATE, rates, neutral=None, draws=draws)
    decided_ones = [one for one in credits_ if one.asked]
    rows += share_rows("favour rate", ACCURACY, decided_ones, neutral=None, draws=draws)
    reason = f"{about}: not judged where people see a tie or prefer {second}"
    return rows, [Unavailable("favour rate", reason, tuple(silent))] if silent else []
