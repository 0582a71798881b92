"""Peers drawn for each response, so that the cost of a run grows with its agents and not with their square.

The agents of a task form a ring whose order the seed draws anew for every task. Each response is compared with its
nearest neighbours, half of them on either side, so every agent serves as a peer as often as it is scored, and a pair
that counts for one agent counts for the other: a metric of both directions asks nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from goldless.metrics.metric import Pairing
from goldless.models.interface import content_hash
from goldless.studies import Study

DRAWN_PEERS = 8
"""Peers of each response by default, for metrics that draw them."""
FEWEST_AGENTS = 11
"""With fewer agents all peers are compared by default."""


def ring(agents: Sequence[str], peers: int, seed: int, task: str) -> dict[str, tuple[str, ...]]:
    """Each agent's peers on a task: its nearest neighbours in a ring; all others where there are no more."""
    # by hash, so that another agent moves few of the others' neighbours
    order = sorted(agents, key=lambda agent: content_hash("ring", seed, task, agent))
    size = len(order)
    steps = [step for distance in range(1, size // 2 + 1) for step in (distance, -distance)]
    steps = steps[: min(peers, size - 1)]
    return {agent: tuple(order[(place + step) % size] for step in steps) for place, agent in enumerate(order)}


def ring_pairing(study: Study, peers: int, seed: int) -> dict[tuple[str, str], tuple[str, ...]]:
    """The peers drawn for each response of a study, by task and agent.

    Agents with several samples are drawn as one agent with all of its samples; a response may have the other samples of
    its own agent as peers besides.
    """
    pairing = {}
    for task, responses in study:
        # recorded evidence may be of agents whose responses are not there
        names = [response.agent for response in responses] or study.agent_list
        samples: dict[str, list[str]] = {}
        for name in names:
            samples.setdefault(study.samples.get(name, name), []).append(name)
        for agent, neighbours in ring(list(samples), peers, seed, task.task).items():
            drawn = tuple(name for neighbour in neighbours for name in samples[neighbour])
            for name in samples[agent]:
                pairing[task.task, name] = drawn + tuple(other for other in samples[agent] if other != name)
    return pairing


def in_both(first: Pairing | None, second: Pairing | None) -> Pairing | None:
    """The peers that both pairings have; None where neither limits them."""
    if first is None or second is None:
        return second if first is None else first
    both = {}
    for response, peers in first.items():
        also = set(second.get(response, ()))
        both[response] = tuple(peer for peer in peers if peer in also)
    return both
