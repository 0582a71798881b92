"""Which pairs a critic is asked about when calls are scarce.

All ordered pairs of agents on all tasks cost tasks · agents · (agents - 1) contrasts. A design asks for part of them in
*rings*: the agents stand on a circle, and one ring on one task pairs every agent, as first, with the agent some steps
further on. So a ring costs one contrast per agent, in it every agent is first once and second once, and rings of
different steps share no pair. The steps take turns, so over the tasks every agent meets every other nearly equally
often: the plain mean over an agent's pairs needs no correction for who its partners were.

Rings go to different tasks first, and round again only when every task has one, because pairs of one task repeat each
other: on recorded critics 200 rings rank agents better on 200 tasks than on 20. ``docs/tvdmi_calls.md`` has the
comparison with other designs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from goldless.errors import MetricError
from goldless.judging.shuffling import default_shuffles
from goldless.models.interface import content_hash

LEAST_AGENTS = 3
"""Of two agents each is the other's only partner, so both have the same score."""
LEAST_TASKS = 2
"""A shuffled pair needs a second task, and so does an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How much a critic is asked: ``rings`` dealt out evenly over ``tasks``."""

    tasks: int
    """Tasks with at least one ring."""
    agents: int
    """Agents in a ring: all of the study."""
    rings: int
    """Over all tasks together; a task has at most agents - 1, which are all its ordered pairs."""
    shuffles: int
    """Shuffled questions for each matched one."""

    def __post_init__(self) -> None:
        """Refuse what no study has."""
        _check_study(self.tasks, self.agents, self.shuffles)
        most = self.tasks * (self.agents - 1)
        if not self.tasks <= self.rings <= most:
            raise MetricError(
                f"a design of {self.rings} rings on {self.tasks} tasks of {self.agents} agents came; "
                f"{self.tasks} to {most} rings are possible: let choose_design count them"
            )

    @property
    def contrasts(self) -> int:
        """Ordered pairs asked about, over all tasks."""
        return self.rings * self.agents

    @property
    def calls(self) -> int:
        """Critic calls: one matched and ``shuffles`` shuffled questions for each contrast."""
        return self.contrasts * (1 + self.shuffles)


def choose_design(n_tasks: int, n_agents: int, *, budget_calls: int, shuffles: int | None = None) -> Design:
    """The design that ranks best for at most ``budget_calls`` critic calls: as many rings as they pay for.

    Rings spread over as many tasks as there are. ``shuffles`` None: one a contrast, since another task is worth more
    than another shuffle; up to four where the budget pays for them on every pair of every task. There are never more
    than the tasks allow, which is one less than their number.
    """
    _check_study(n_tasks, n_agents, shuffles)
    every = n_tasks * (n_agents - 1)
    if shuffles is None:
        shuffles = max(1, min(default_shuffles(n_tasks), budget_calls // (every * n_agents) - 1))
    shuffles = min(shuffles, n_tasks - 1)
    ring_calls = n_agents * (1 + shuffles)
    rings = min(every, budget_calls // ring_calls)
    if rings < LEAST_TASKS:
        raise MetricError(
            f"{budget_calls} critic calls cannot rank {n_agents} agents: the least is {LEAST_TASKS * ring_calls}, "
            f"which pair every agent twice on {LEAST_TASKS} tasks with {shuffles} shuffled for each matched question; "
            "raise the budget or leave agents out"
        )
    return Design(tasks=min(rings, n_tasks), agents=n_agents, rings=rings, shuffles=shuffles)


def chosen_pairs(
    tasks: Sequence[str], agents: Sequence[str], design: Design, *, seed: int = 0
) -> dict[str, tuple[tuple[str, str], ...]]:
    """The ordered pairs (first, second) to ask about, by task, for each of the ``design.tasks`` chosen tasks.

    The choice depends on the names and the seed alone, not on the order they come in. What a smaller budget chose is
    chosen again by a larger one, so that raising it pays only for the new pairs while the shuffles stay the same.
    """
    _check_names("tasks", tasks, design.tasks, exact=False)
    _check_names("agents", agents, design.agents, exact=True)
    turns = _mixed("tasks", tasks, seed)[: design.tasks]
    circle = _mixed("agents", agents, seed)
    steps = [int(step) for step in _mixed("steps", [str(step) for step in range(1, design.agents)], seed)]
    stride = _stride(design.tasks, len(steps))
    chosen = set(turns)
    found: dict[str, list[tuple[str, str]]] = {task: [] for task in tasks if task in chosen}
    for ring in range(design.rings):
        lap, place = divmod(ring, design.tasks)
        step = steps[(lap * stride + place) % len(steps)]
        found[turns[place]].extend(zip(circle, circle[step:] + circle[:step], strict=True))
    return {task: tuple(pairs) for task, pairs in found.items()}


def _stride(tasks: int, steps: int) -> int:
    """How far the steps advance from one lap over the tasks to the next.

    The number of tasks goes on where the lap ended, so that all steps are used equally often. Where it shares a
    divisor with the number of steps, a task would get one step twice: the next number that shares none is taken.
    """
    return next(stride for stride in range(tasks, tasks + steps + 1) if math.gcd(stride, steps) == 1)


def _mixed(what: str, names: Sequence[str], seed: int) -> list[str]:
    """The names in an order that the seed decides, the same on every machine and release."""
    return sorted(names, key=lambda name: content_hash("design", what, seed, name))


def _check_study(n_tasks: int, n_agents: int, shuffles: int | None) -> None:
    if n_agents < LEAST_AGENTS:
        raise MetricError(
            f"{n_agents} agents came; a ranking by a critic needs at least {LEAST_AGENTS}, because two agents are each "
            "other's only partner and score the same: add an agent"
        )
    if n_tasks < LEAST_TASKS:
        raise MetricError(
            f"{n_tasks} tasks came; a critic needs at least {LEAST_TASKS}, one to match and one to shuffle: add tasks"
        )
    if shuffles is not None and shuffles < 1:
        raise MetricError(f"{shuffles} shuffles came; a critic needs at least 1 to hold matched pairs against")


def _check_names(what: str, names: Sequence[str], needed: int, *, exact: bool) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise MetricError(f"{twice!r} stands twice among the {what}; name each once")
    if len(names) < needed or (exact and len(names) > needed):
        raise MetricError(
            f"{len(names)} {what} came for a design of {'' if exact else 'at least '}{needed}; "
            "choose a design for this study"
        )
