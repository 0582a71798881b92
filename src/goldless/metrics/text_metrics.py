"""Metrics on texts alone: a response compared with its peers' or with the task's reference, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import polars as pl

from goldless.errors import MetricError
from goldless.evidence import rows_frame
from goldless.metrics.metric import PAIRS, RESPONSES, Extra, MetricInput, Needs, Scores, bounds_of, scores_over_peers
from goldless.records import ItemMetric, TextItem

Against = Literal["peers", "reference", "nothing"]


class TextPairMetric(Protocol):
    """A similarity of a candidate's text to a reference's."""

    @property
    def name(self) -> str:
        """The name, such as ``rouge-l``."""

    @property
    def unit(self) -> str:
        """The unit of its scores."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings and versions that its scores depend on, for the signature."""

    @property
    def extra(self) -> Extra | None:
        """The extra with its package; None if the default install has all packages."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """The score of each (candidate, reference); None where it is not defined."""


@dataclass(frozen=True)
class BaselineMetric:
    """The similarity of a response to its peers' or to the task's reference, or a property of the response alone."""

    name: str
    pairs: TextPairMetric
    against: Against = "peers"
    """The texts a response is compared with."""

    @property
    def unit(self) -> str:
        return self.pairs.unit

    @property
    def bounds(self) -> tuple[float, float] | None:
        return bounds_of(self.pairs)

    @property
    def needs(self) -> Needs:
        return Needs(texts=True, peers=self.against == "peers", extra=self.pairs.extra)

    def scores(self, data: MetricInput) -> Scores:
        """The scores of all responses."""
        items = list(data.items(peers=self.against == "peers"))
        if self.against == "peers":
            pairs = self._peer_scores(items)
            settings = {**self.pairs.settings, "peers": data.peers_shown(pairs)}
            return scores_over_peers(pairs, data.over_peers, settings=settings)
        others = [item.task.reference if self.against == "reference" else "" for item in items]
        known = [(item.text, other) for item, other in zip(items, others, strict=True) if other is not None]
        if not known:
            raise MetricError(
                f"{self.name} needs a column reference in the tasks table; no task has one. "
                f"Use {self.name.partition('[')[0]} to compare responses with the peers' instead"
            )
        found = iter(self.pairs.scores(known))
        scores = [None if other is None else next(found) for other in others]
        without = len(items) - len(known)
        return Scores(
            single_scores(items, scores),
            settings={**self.pairs.settings, "against": self.against},
            problems={"the task has no reference": without} if without else {},
        )

    def _peer_scores(self, items: Sequence[TextItem]) -> pl.DataFrame:
        keys = [(item, peer) for item in items for peer in item.peers]
        if not keys:
            raise MetricError(
                f"{self.pairs.name}: no task was answered by two agents, so there is nothing to compare. Score agents "
                f"on the same tasks, or compare responses with the tasks' references: {self.pairs.name}[reference]"
            )
        scores = self.pairs.scores([(item.text, item.peers[peer]) for item, peer in keys])
        rows = [(i.task.task, i.agent, peer, score, None) for (i, peer), score in zip(keys, scores, strict=True)]
        return rows_frame(rows, PAIRS)


@dataclass(frozen=True)
class UserMetric:
    """A custom metric on whole responses."""

    name: str
    items: ItemMetric

    @property
    def unit(self) -> str:
        return self.items.unit

    @property
    def needs(self) -> Needs:
        return Needs(texts=True, peers=False)

    async def scores(self, data: MetricInput) -> Scores:
        """The scores of all responses, and the metric's messages on those it could not score."""
        items = list(data.items())
        found = await self.items.scores(items)
        problems = Counter(one.problem for one in found if one.problem is not None)
        # a metric that looks at no pairs may still use all peers
        settings = {**self.items.settings, "peers": data.peers_shown(pl.DataFrame(schema=PAIRS))}
        return Scores(single_scores(items, [one.score for one in found]), settings=settings, problems=problems)


def single_scores(items: Sequence[TextItem], scores: Sequence[float | None]) -> pl.DataFrame:
    """A table of scores of single responses."""
    rows = [(i.task.task, i.agent, s, 1, int(s is not None)) for i, s in zip(items, scores, strict=True)]
    return rows_frame(rows, RESPONSES)
