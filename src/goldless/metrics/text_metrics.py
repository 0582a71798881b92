"""Metrics of texts alone: no model's evidence, only what a response says beside its peers' or the task's reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from goldless.text_items import ItemMetric, ItemScore, TextItem

__all__ = ["ItemMetric", "ItemScore", "TextItem", "TextPairMetric"]


class TextPairMetric(Protocol):
    """How near a candidate's text is to a reference's."""

    @property
    def name(self) -> str:
        """Such as ``rouge-l``."""

    @property
    def unit(self) -> str:
        """What its numbers are in."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What tells its numbers from another version's, for the signature."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """The score of each (candidate, reference); None where it is not defined."""
