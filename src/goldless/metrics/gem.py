"""GEM and GEM-raw: how many nats a response tells about what its peers wrote.

PMI(x; y) = log p(y | x) - log p(y), both sums over the tokens of y, never divided by length. A response's score is the
mean over its peers y; an agent's score is the mean over tasks. ("Benchmarking LLMs' Judgments with No Gold Standard",
section 3.) GEM scores rewrites, GEM-raw the responses as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from goldless.evidence import LogprobEvidence
from goldless.metrics.scores import PairScore, ResponseScore


def pair_scores(evidence: Iterable[LogprobEvidence]) -> list[PairScore]:
    """PMI in nats of every ordered pair, higher is better. Missing where either term is."""
    rows = list(evidence)
    marginals = {_asked_about(row): row for row in rows if row.given is None}
    return [_pair(row, marginals.get(_asked_about(row))) for row in rows if row.given is not None]


def _asked_about(row: LogprobEvidence) -> tuple[str | None, ...]:
    """What the two terms of a pair must have in common."""
    return row.scorer, row.template, row.rewriter, row.synopsis, row.task, row.target


def _pair(conditional: LogprobEvidence, marginal: LogprobEvidence | None) -> PairScore:
    known, before = conditional.sum_nats, None if marginal is None else marginal.sum_nats
    failure = conditional.failure or (None if marginal is None else marginal.failure)
    return PairScore(
        task=conditional.task,
        agent=str(conditional.given),
        peer=conditional.target,
        score=None if known is None or before is None else known - before,
        missing=None if failure is None else failure.kind,
    )


def response_scores(pairs: Sequence[PairScore]) -> list[ResponseScore]:
    """Mean over the peers of each response; missing where no pair is left."""
    groups: dict[tuple[str, str], list[PairScore]] = {}
    for pair in pairs:
        groups.setdefault((pair.task, pair.agent), []).append(pair)
    scores = []
    for (task, agent), group in groups.items():
        used = [pair.score for pair in group if pair.score is not None]
        mean = sum(used) / len(used) if used else None
        scores.append(ResponseScore(task, agent, mean, asked=len(group), used=len(used)))
    return scores
