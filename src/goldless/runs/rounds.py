"""Rounds: tasks in a random order that the seed fixes, some more each time, until a question is decided."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from goldless.models.interface import content_hash
from goldless.reports.decisions import Reason, Stopped
from goldless.reports.run_record import Spending
from goldless.runs.plan import RunPlan
from goldless.statistics.answering import Until
from goldless.statistics.comparisons import Comparison
from goldless.statistics.deciding import least_tasks

GROWTH = 1.2
"""How many times the tasks so far there are after one more round: looking is free, and so are few rounds."""


@dataclass(slots=True)
class Rounds:
    """The responses that are scored so far, by task and agent, with the peers of each."""

    until: Until
    agents: Sequence[str]
    answered: Mapping[str, Sequence[str]]
    """The agents, or samples of them, that answered each task; tasks in the order in which they are asked."""
    peers: Callable[[str, str], Iterable[str]]
    """The peers of a response, by task and agent."""
    samples: Mapping[str, str]
    """The agent of each sample."""
    pairing: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    tasks: int = 0
    comparisons: Sequence[Comparison] = ()
    stopped: Reason | None = None

    @classmethod
    def of(cls, plan: RunPlan) -> Rounds | None:
        """The rounds of a plan; None: all tasks are asked. Recorded evidence may be of any agent on any task."""
        study, options, peers = plan.study, plan.options, plan.peers
        if plan.until is None:
            return None
        agents, pairing = [agent.agent for agent in study.agents], options.pairing
        given = {task.task: agents if options.recorded else [r.agent for r in rs] for task, rs in study}

        def peers_of(task: str, agent: str) -> Iterable[str]:
            if pairing is not None:
                return pairing.get((task, agent), ())
            return (name for name in given[task] if name != agent and (peers is None or name in peers))

        # by hash, so that a further task changes the order of no other two
        order = sorted(given, key=lambda task: content_hash("until", options.seed, task))
        answered = {task: given[task] for task in order if len(given[task]) > 1}
        ranked = list(dict.fromkeys(study.samples.get(agent, agent) for agent in agents))
        return cls(plan.until, ranked, answered, peers_of, study.samples)

    def pairings(self) -> Iterator[dict[tuple[str, str], tuple[str, ...]]]:
        """What is scored in each round, until a look at it says to stop."""
        first = least_tasks(self.until.alpha / self.until.question.tests(len(self.agents)), self.until.at_least)
        while self.stopped is None:
            more = max(first, math.ceil(self.tasks * GROWTH)) - self.tasks
            # for the agents that are still open; all others stay their peers
            open_ = set(self.until.open(self.agents, self.comparisons))
            for task in list(self.answered)[self.tasks : self.tasks + more]:
                mine = [agent for agent in self.answered[task] if self.samples.get(agent, agent) in open_]
                self.pairing |= {(task, agent): tuple(self.peers(task, agent)) for agent in mine}
            self.tasks = min(len(self.answered), self.tasks + more)
            yield dict(self.pairing)

    def look(self, comparisons: Sequence[Comparison], *, over_budget: bool) -> None:
        """Take note of the comparisons so far, and whether to stop."""
        self.comparisons = comparisons
        if not self.until.open(self.agents, comparisons):
            self.stopped = "decided"
        elif over_budget:
            self.stopped = "budget"
        elif self.tasks == len(self.answered):
            self.stopped = "all tasks"

    @property
    def answer(self) -> str:
        """What is known so far."""
        return f"{self.tasks} of {len(self.answered)} tasks: {self.until.answer(self.agents, self.comparisons)}"

    def scored(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of responses that are scored, by their columns task and agent."""
        keys = pl.DataFrame(list(self.pairing), schema=dict.fromkeys(("task", "agent"), pl.String), orient="row")
        text = [pl.col(name).cast(pl.String) for name in ("task", "agent")]
        return rows.join(keys, left_on=text, right_on=["task", "agent"], how="semi", maintain_order="left")

    def result(self, by: str, spending: Sequence[Spending]) -> Stopped:
        """Where the run stopped."""
        asked = Counter(agent for _, agent in {(task, self.samples.get(one, one)) for task, one in self.pairing})
        return Stopped(
            question=self.until.question.text,
            alpha=self.until.alpha,
            at_least=self.until.at_least,
            by=by,
            tasks=self.tasks,
            tasks_there=len(self.answered),
            reason=self.stopped or "all tasks",
            answer=self.until.answer(self.agents, self.comparisons),
            open=tuple(self.until.open(self.agents, self.comparisons)),
            tasks_of={agent: asked[agent] for agent in self.agents},
            comparisons=tuple(self.until.matter(self.agents, self.comparisons)),
            usd_per_task=usd_per_task(spending, self.tasks),
        )


def usd_per_task(spending: Sequence[Spending], tasks: int) -> float | None:
    """What one task costs by the calls made now, those from the journal at the same price; None: unknown or free."""
    known = [(s.cost_usd / s.calls) * (s.calls + s.reused) for s in spending if s.cost_usd and s.calls]
    return sum(known) / tasks if known and tasks else None
