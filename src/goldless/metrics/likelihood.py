"""Metrics over stored log-probabilities: GEM, GEM-S, GEM-raw and their relatives, each a short pure function.

For a response x by an agent, a response y by a peer, and a synopsis z where one is named, the evidence holds
log p(y | x), log p(y), log p(x | y) and log p(x), all given z as well. They are sums over tokens, or means per token
where a metric says so. An agent's score on a task is the mean over its peers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from goldless.evidence import LogprobEvidence
from goldless.metrics.scores import PairScore

Term = Literal["peer given agent", "peer", "agent given peer", "agent"]


def gem(peer_given_agent: float, peer: float) -> float:
    """Pointwise mutual information log p(y | x) - log p(y), in nats (GEM paper, section 3; GEM-S: all given z)."""
    return peer_given_agent - peer


def mean_token_mi(peer_given_agent: float, peer: float, agent_given_peer: float, agent: float) -> float:
    """Nats per token that each response makes the other likelier, mean of both directions.

    Averaged over tasks, the two terms are a difference of entropies per token, H(Y) - H(Y | X).
    """
    return ((peer_given_agent - peer) + (agent_given_peer - agent)) / 2


def gppm(peer_given_agent: float) -> float:
    """The generative peer prediction mechanism: log p(y | x) per token (Lu et al. 2024). No marginal is taken off."""
    return peer_given_agent


def bartscore_recall(peer_given_agent: float) -> float:
    """The sum log p(y | x): how well the response predicts the peer's (as the GEM paper computes it, D.3)."""
    return peer_given_agent


def bartscore_precision(agent_given_peer: float) -> float:
    """The sum log p(x | y): how well the peer's response predicts this one."""
    return agent_given_peer


def bartscore_f1(peer_given_agent: float, agent_given_peer: float) -> float:
    """What BARTScore calls F1: the arithmetic mean of recall and precision."""
    return (peer_given_agent + agent_given_peer) / 2


def gptscore(agent_given_peer: float) -> float:
    """The mean log p(x | y) per token, the peer's response in place of the reference (Fu et al. 2023)."""
    return agent_given_peer


@dataclass(frozen=True, slots=True)
class LikelihoodMetric:
    """A function of log-probabilities, and which it takes."""

    of: Callable[..., float]
    terms: tuple[Term, ...]
    per_token: bool
    """Whether the terms are means over tokens; else sums."""

    @property
    def unit(self) -> str:
        """What its numbers are in."""
        return "nats per token" if self.per_token else "nats"

    @property
    def marginals(self) -> bool:
        """Whether it needs log p of a response alone."""
        return "peer" in self.terms or "agent" in self.terms


GEM = LikelihoodMetric(gem, ("peer given agent", "peer"), per_token=False)
RELATIVES: Mapping[str, LikelihoodMetric] = {
    "mi": LikelihoodMetric(mean_token_mi, ("peer given agent", "peer", "agent given peer", "agent"), per_token=True),
    "gppm": LikelihoodMetric(gppm, ("peer given agent",), per_token=True),
    "bartscore": LikelihoodMetric(bartscore_f1, ("peer given agent", "agent given peer"), per_token=False),
    "bartscore-precision": LikelihoodMetric(bartscore_precision, ("agent given peer",), per_token=False),
    "bartscore-recall": LikelihoodMetric(bartscore_recall, ("peer given agent",), per_token=False),
    "gptscore": LikelihoodMetric(gptscore, ("agent given peer",), per_token=True),
}


def pair_scores(
    evidence: Iterable[LogprobEvidence], metric: LikelihoodMetric = GEM, *, peers: Collection[str] | None = None
) -> list[PairScore]:
    """The metric on every ordered pair of agent and peer, higher is better. Missing where any of its terms is.

    The evidence is of one scorer, template, rewriter and synopsis. ``peers``: the agents that serve as peers; all
    where none are named.
    """
    known = {(row.task, row.target, row.given): row for row in evidence}
    pairs: dict[tuple[str, str, str], None] = {}
    for task, target, given in known:
        if given is None:
            continue
        if metric.terms[0] == "peer given agent":
            if peers is None or target in peers:
                pairs[task, given, target] = None
        elif peers is None or given in peers:
            pairs[task, target, given] = None
    return [_pair(known, metric, *pair) for pair in pairs]


def _pair(
    known: Mapping[tuple[str, str, str | None], LogprobEvidence],
    metric: LikelihoodMetric,
    task: str,
    agent: str,
    peer: str,
) -> PairScore:
    keys: dict[Term, tuple[str, str, str | None]] = {
        "peer given agent": (task, peer, agent),
        "peer": (task, peer, None),
        "agent given peer": (task, agent, peer),
        "agent": (task, agent, None),
    }
    rows = [known.get(keys[term]) for term in metric.terms]
    values = [None if row is None else row.mean_nats if metric.per_token else row.sum_nats for row in rows]
    if any(value is None for value in values):
        failure = next((row.failure for row in rows if row is not None and row.failure is not None), None)
        return PairScore(task, agent, peer, None, None if failure is None else failure.kind)
    return PairScore(task, agent, peer, metric.of(*values))
