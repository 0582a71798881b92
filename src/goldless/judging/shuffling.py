"""Which pairs of responses a critic is shown: matched ones, and shuffled ones to hold them against.

A matched pair answers the same task; a shuffled pair takes the second response from another task. The second tasks are
drawn by derangements, permutations that leave no task in its place: a task paired with itself would count matched
evidence as shuffled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.errors import UserError, nearest
from goldless.models.interface import content_hash

DEFAULT_SHUFFLES = 4
"""Shuffles a pair of agents where the number of tasks is fixed: 80-87 % as efficient as all n² of them (simulated)."""


@dataclass(frozen=True, slots=True)
class CriticQuestion:
    """What a critic is asked: whether the first agent's response to ``task`` tells about the second's."""

    task: str
    first: str
    second: str
    second_task: str
    """Equal to ``task``: a matched pair; another: a shuffled one."""


def default_shuffles(n: int) -> int:
    """Derangements of n tasks that are asked for unless told otherwise: 4, or as many as there are."""
    return max(0, min(DEFAULT_SHUFFLES, n - 1))


def derangements(n: int, m: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Rows [m, n] of m derangements of 0..n-1, no two of which send a place to the same one.

    They are different cyclic shifts around one random circle, so every pair of different places is equally likely.
    There are only n-1 such shifts: more are cut to that, and fewer than two places have none.
    """
    if n < 0 or m < 0:
        raise UserError(f"derangements are counted from 0; asked for {m} of {n} places")
    if n < 2:
        return np.empty((0, max(n, 0)), dtype=np.int64)
    circle = random.permutation(n)
    shifts = 1 + random.permutation(n - 1)[:m]  # more shuffles keep the ones fewer would draw
    found = np.empty((len(shifts), n), dtype=np.int64)
    found[:, circle] = circle[(np.arange(n) + shifts[:, None]) % n]
    return found


def critic_questions(
    answered: Mapping[str, Sequence[str]],
    *,
    shuffles: int = DEFAULT_SHUFFLES,
    seed: int = 0,
    panel: Sequence[str] | None = None,
    only: Mapping[str, Collection[tuple[str, str]]] | None = None,
) -> list[CriticQuestion]:
    """Matched and shuffled questions about every ordered pair of agents, from the agents that answered each task.

    A pair has ``shuffles`` shuffled questions for each matched one, or as many as its common tasks allow. A pair with
    one common task has nothing to hold it against, so nothing is asked about it. ``panel``: only pairs with an agent
    of the panel in them; None: all. ``only``: the ordered pairs to ask about, by task; None: all. Each pair's draw
    depends on the seed, its two names and its common tasks alone: another agent in the study changes none. Questions
    about the same first response stand together, as they share the beginning of their prompt.
    """
    if shuffles < 1:
        raise UserError(f"a critic needs at least 1 shuffle to hold matched pairs against, not {shuffles}")
    tasks_of: dict[str, dict[str, None]] = {}
    for task, names in answered.items():
        for agent in names:
            tasks_of.setdefault(agent, {})[task] = None
    _check_panel(panel, tasks_of)
    found: dict[tuple[str, str], list[CriticQuestion]] = {}
    chosen = None if only is None else {(task, *pair) for task, pairs in only.items() for pair in pairs}
    wanted = None if chosen is None else {pair[1:] for pair in chosen}
    for first, second in _pairs(list(tasks_of), panel):
        if wanted is not None and (first, second) not in wanted:
            continue
        common = [task for task in tasks_of[first] if task in tasks_of[second]]
        for task, others in _second_tasks(common, shuffles, content_hash("shuffles", seed, first, second)).items():
            if chosen is None or (task, first, second) in chosen:
                asked = (CriticQuestion(task, first, second, other) for other in (task, *others))
                found.setdefault((task, first), []).extend(asked)
    return [question for task in answered for agent in tasks_of for question in found.get((task, agent), ())]


def _pairs(agents: Sequence[str], panel: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    chosen = set(agents if panel is None else panel)
    for first in agents:
        yield from ((first, s) for s in agents if s != first and (first in chosen or s in chosen))


def _second_tasks(common: Sequence[str], shuffles: int, seed: str) -> dict[str, list[str]]:
    """The tasks that each task is shuffled with; empty where nothing can be shuffled."""
    drawn = sorted(common)  # the order of rows in a file must not change the draw
    random = np.random.default_rng(int(seed, 16))
    rows = derangements(len(drawn), shuffles, random)
    if not len(rows):
        return {}
    by_task = {task: [drawn[s] for s in column] for task, column in zip(drawn, rows.T.tolist(), strict=True)}
    return {task: by_task[task] for task in common}


def _check_panel(panel: Sequence[str] | None, agents: Mapping[str, object]) -> None:
    if panel is None:
        return
    if not panel:
        raise UserError("the panel of partners is empty: name at least one agent, or leave it out to pair all")
    for name in panel:
        if name not in agents:
            raise UserError(
                f"the panel names {name!r}, which answered nothing{nearest(name, agents) or '.'} "
                f"Agents: {', '.join(agents)}."
            )
