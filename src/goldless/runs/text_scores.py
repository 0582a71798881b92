"""Scores of metrics that look at texts alone: baselines, and metrics that are not ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from goldless.errors import MetricError
from goldless.metrics.catalogue import Metric
from goldless.metrics.scores import PairScore, ResponseScore, mean_over_peers
from goldless.metrics.text_metrics import ItemMetric, TextItem, TextPairMetric
from goldless.studies import Study

Pairing = Mapping[tuple[str, str], Sequence[str]]
"""The peers of each response that is scored, by task and agent."""


@dataclass(frozen=True, slots=True)
class TextScores:
    """What a metric of texts gives."""

    pairs: tuple[PairScore, ...]
    """Empty where responses are not held against each other one by one."""
    responses: tuple[ResponseScore, ...]
    problems: Mapping[str, int]
    """What a metric that is not ours said of responses it could not score, with how often."""


def text_items(study: Study, peers: Sequence[str] | None, pairing: Pairing | None) -> Iterator[TextItem]:
    """Every response that is scored, with the peers it is held against."""
    for task, responses in study:
        texts = {r.agent: r.text for r in responses}
        for agent, text in texts.items():
            if pairing is None:
                names: Sequence[str] = [name for name in texts if name != agent and (peers is None or name in peers)]
            elif (task.task, agent) in pairing:
                names = [name for name in pairing[task.task, agent] if name in texts]
            else:
                continue
            yield TextItem(task, agent, text, {name: texts[name] for name in names})


async def text_scores(metric: Metric, items: Sequence[TextItem]) -> TextScores:
    """The scores of all items."""
    if metric.items is not None:
        return await _item_scores(metric.items, items)
    if metric.pairs is None:
        raise MetricError(f"{metric.name} is not a metric of texts")
    if metric.against == "peers":
        return _peer_scores(metric.pairs, items)
    if metric.against == "reference":
        return _reference_scores(metric.name, metric.pairs, items)
    return _single_scores(metric.pairs, [(item, item.text, "") for item in items])


def _peer_scores(metric: TextPairMetric, items: Sequence[TextItem]) -> TextScores:
    keys = [(item, peer) for item in items for peer in item.peers]
    if not keys:
        raise MetricError(
            f"{metric.name}: no response has a peer to be held against. Score at least two agents, or hold responses "
            f"against the tasks' own references with {metric.name}[reference]."
        )
    scores = metric.scores([(item.text, item.peers[peer]) for item, peer in keys])
    pairs = tuple(
        PairScore(item.task.task, item.agent, peer, score) for (item, peer), score in zip(keys, scores, strict=True)
    )
    return TextScores(pairs, tuple(mean_over_peers(pairs)), {})


def _reference_scores(name: str, metric: TextPairMetric, items: Sequence[TextItem]) -> TextScores:
    known = [(item, item.text, item.task.reference) for item in items if item.task.reference is not None]
    if not known:
        raise MetricError(
            f"{name}: no task has a reference (a column reference of the tasks table). "
            f"{name.partition('[')[0]} alone holds responses against the peers' instead."
        )
    return _single_scores(metric, known, [item for item in items if item.task.reference is None])


def _single_scores(
    metric: TextPairMetric,
    held: Sequence[tuple[TextItem, str, str]],
    without: Sequence[TextItem] = (),
) -> TextScores:
    scores = metric.scores([(text, other) for _, text, other in held])
    responses = [
        ResponseScore(item.task.task, item.agent, score, asked=1, used=int(score is not None))
        for (item, _, _), score in zip(held, scores, strict=True)
    ]
    responses += [ResponseScore(item.task.task, item.agent, None, asked=1, used=0) for item in without]
    problems = {"the task has no reference": len(without)} if without else {}
    return TextScores((), tuple(responses), problems)


async def _item_scores(metric: ItemMetric, items: Sequence[TextItem]) -> TextScores:
    scores = await metric.scores(items)
    responses = tuple(
        ResponseScore(item.task.task, item.agent, found.score, asked=1, used=int(found.score is not None))
        for item, found in zip(items, scores, strict=True)
    )
    return TextScores((), responses, Counter(found.problem for found in scores if found.problem is not None))
