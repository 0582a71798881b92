"""The pairs of responses a critic is shown: matched ones, and shuffled ones to compare them with.

A matched pair answers the same task; a shuffled pair takes the second response from another task. The second tasks are
drawn by derangements, permutations that leave no task in its place: a task paired with itself would count matched
evidence as shuffled.

When calls are limited, a design chooses the pairs. All ordered pairs of agents on all tasks cost
tasks · agents · (agents - 1) contrasts. A design uses part of them in *rings*: the agents form a circle, and one ring
on one task pairs every agent, as first, with the agent some steps further on. So a ring costs one contrast per agent,
every agent is first once and second once in it, and rings of different steps share no pair. The steps alternate, so
over the tasks every agent meets every other nearly equally often: the plain mean over an agent's pairs needs no
correction for its partners. Rings go to different tasks first, and to the same task again only when every task has one,
because pairs of one task repeat each other: on recorded critics 200 rings rank agents better on 200 tasks than on 20.
``docs/performance.md`` has the comparison with other designs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.errors import MetricError
from goldless.judging.asking import ReviewQuestion
from goldless.models.interface import content_hash

DEFAULT_SHUFFLES = 4
"""Shuffles per pair of agents if the number of tasks is fixed: 80-87% as efficient as all n² of them (simulated)."""
LEAST_AGENTS = 3
"""With two agents, each is the other's only partner, so both have the same score."""
LEAST_TASKS = 2
"""A shuffled pair needs a second task, and so does an interval."""


def default_shuffles(n: int) -> int:
    """The default number of derangements of n tasks: 4, or as many as there are."""
    return max(0, min(DEFAULT_SHUFFLES, n - 1))


def derangements(n: int, m: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Rows [m, n] of m derangements of 0..n-1, no two of which map an index to the same one.

    They are different cyclic shifts around one random circle, so every pair of different indices is equally likely.
    There are only n-1 such shifts, so m is limited to that; with fewer than two indices there are none.
    """
    if n < 2:
        return np.empty((0, n), dtype=np.int64)
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
    only: Collection[tuple[str, str, str]] | None = None,
) -> list[ReviewQuestion]:
    """Matched and shuffled questions about every ordered pair of agents, from the agents that answered each task.

    Whether the first's response is informative about the second's: to the same task, matched, or to another, shuffled.

    A pair has ``shuffles`` shuffled questions for each matched one, or as many as its common tasks allow. A pair with
    one common task has no shuffled question, so there is no question about it. ``panel``: only pairs with an agent of
    the panel; None: all. ``only``: the ordered pairs to ask about, each behind its task; None: all. Each pair's draw
    depends only on the seed, its two names and its common tasks, not on other agents in the study. Questions about the
    same first response are together, since they share the beginning of their prompt.
    """
    tasks_of: dict[str, dict[str, None]] = {}
    for task, names in answered.items():
        for agent in names:
            tasks_of.setdefault(agent, {})[task] = None
    wanted = None if only is None else {(first, second) for _, first, second in only}
    found: dict[tuple[str, str], list[ReviewQuestion]] = {(task, agent): [] for task in answered for agent in tasks_of}
    for first, second in itertools.permutations(tasks_of, 2):
        if panel is not None and first not in panel and second not in panel:
            continue
        if wanted is not None and (first, second) not in wanted:
            continue
        common = [task for task in tasks_of[first] if task in tasks_of[second]]
        for task, others in other_tasks(common, shuffles, content_hash("shuffles", seed, first, second)).items():
            if only is None or (task, first, second) in only:
                found[task, first] += [ReviewQuestion(task, first, second, other) for other in (task, *others)]
    return list(itertools.chain.from_iterable(found.values()))


def other_tasks(common: Sequence[str], shuffles: int, seed: str) -> dict[str, list[str]]:
    """The tasks that each task is shuffled with; empty if nothing can be shuffled."""
    drawn = sorted(common)  # the order of rows in a file must not change the draw
    columns = derangements(len(drawn), shuffles, np.random.default_rng(int(seed, 16))).T.tolist()
    by_task = {task: [drawn[s] for s in column] for task, column in zip(drawn, columns, strict=True)}
    return {task: by_task[task] for task in common if by_task[task]}


# --- designs for scarce calls ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Design:
    """The number of questions a critic gets: ``rings`` distributed evenly over ``tasks``."""

    tasks: int
    """Tasks with at least one ring."""
    agents: int
    """Number of agents in a ring: all of the study."""
    rings: int
    """Over all tasks together; a task has at most agents - 1, which are all its ordered pairs."""
    shuffles: int
    """Shuffled questions for each matched one."""


def choose_design(n_tasks: int, n_agents: int, *, budget_calls: int, shuffles: int | None = None) -> Design:
    """The design that ranks best with at most ``budget_calls`` critic calls: as many rings as they allow.

    Rings are spread over as many tasks as there are. ``shuffles`` None: one per contrast, since another task is worth
    more than another shuffle; up to four if the budget allows them on every pair of every task. There are at most one
    fewer than tasks.
    """
    if n_agents < LEAST_AGENTS:
        raise MetricError(
            f"a ranking by a critic needs at least {LEAST_AGENTS} agents, got {n_agents}. Two agents are each other's "
            "only partner and score the same, so add an agent"
        )
    if n_tasks < LEAST_TASKS:
        raise MetricError(
            f"a critic needs at least {LEAST_TASKS} tasks, one to match and one to shuffle, got {n_tasks}. Add tasks"
        )
    if shuffles is not None and shuffles < 1:
        raise MetricError(f"shuffles must be at least 1, got {shuffles}")
    every = n_tasks * (n_agents - 1)
    if shuffles is None:
        shuffles = max(1, min(default_shuffles(n_tasks), budget_calls // (every * n_agents) - 1))
    shuffles = min(shuffles, n_tasks - 1)
    ring_calls = n_agents * (1 + shuffles)
    rings = min(every, budget_calls // ring_calls)
    if rings < LEAST_TASKS:
        raise MetricError(
            f"the budget must be at least {LEAST_TASKS * ring_calls} critic calls to rank {n_agents} agents, got "
            f"{budget_calls}. That pairs every agent twice on {LEAST_TASKS} tasks with {shuffles} shuffled for each "
            "matched question. Raise the budget or leave out agents"
        )
    return Design(tasks=min(rings, n_tasks), agents=n_agents, rings=rings, shuffles=shuffles)


def chosen_pairs(
    tasks: Sequence[str], agents: Sequence[str], design: Design, *, seed: int = 0
) -> dict[str, tuple[tuple[str, str], ...]]:
    """The ordered pairs (first, second) to ask about, by task, for each of the ``design.tasks`` chosen tasks.

    The choice depends only on the names and the seed, not on their order. A larger budget includes the choice of a
    smaller one, so raising it pays only for the new pairs while the shuffles stay the same.
    """

    def mixed(what: str, names: Iterable[str]) -> list[str]:
        """The names in an order that the seed decides, the same on every machine and release."""
        return sorted(names, key=lambda name: content_hash("design", what, seed, name))

    turns, circle = mixed("tasks", tasks)[: design.tasks], mixed("agents", agents)
    steps = [int(step) for step in mixed("steps", map(str, range(1, design.agents)))]
    # The next lap goes on where the last one ended, so that all steps are used equally often. Where the number of tasks
    # shares a divisor with that of steps, a task would get one step twice: the next number that shares none is taken.
    stride = next(n for n in itertools.count(design.tasks) if math.gcd(n, len(steps)) == 1)
    chosen = set(turns)
    found: dict[str, list[tuple[str, str]]] = {task: [] for task in tasks if task in chosen}
    for ring in range(design.rings):
        lap, place = divmod(ring, design.tasks)
        step = steps[(lap * stride + place) % len(steps)]
        found[turns[place]].extend(zip(circle, circle[step:] + circle[:step], strict=True))
    return {task: tuple(pairs) for task, pairs in found.items()}
