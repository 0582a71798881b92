"""What a metric of texts is given, and what it gives back: one response at a time, with all it may be held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from goldless.records import Task


@dataclass(frozen=True, slots=True)
class TextItem:
    """One response to be scored."""

    task: Task
    agent: str
    text: str
    peers: Mapping[str, str]
    """Texts of the responses it is held against, by agent."""


@dataclass(frozen=True, slots=True)
class ItemScore:
    """What a metric says of one response."""

    score: float | None
    """Higher is better. None: missing."""
    problem: str | None = None
    """Why it is missing, where the metric says so."""


class ItemMetric(Protocol):
    """A metric that is given whole responses with everything they may be held against."""

    @property
    def name(self) -> str:
        """As it was asked for."""

    @property
    def unit(self) -> str:
        """What its numbers are in."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What tells its numbers from another version's, for the signature."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order."""
