"""A source of papers that lie in memory, for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from goldless.apps.gre.collecting import drawn_study
from goldless.apps.gre.config import CollectConfig
from goldless.apps.gre.papers import Paper, Reason, UnusablePaperError


class LeftOut(NamedTuple):
    """A paper that cannot be used."""

    paper: str
    reason: Reason
    detail: str = ""


@dataclass
class Listing:
    """A source that holds its papers in memory and notes which were asked for."""

    held: Sequence[Paper | LeftOut]
    name: str = "a venue"
    asked: list[str] = field(default_factory=list)

    def papers(self) -> Sequence[str]:
        return [paper.paper for paper in self.held]

    def paper(self, name: str, *, reviews: int) -> Paper:
        self.asked.append(name)
        found = next(paper for paper in self.held if paper.paper == name)
        if isinstance(found, LeftOut):
            raise UnusablePaperError(found.reason, found.detail)
        return found


def looked_up(source, name, reviews=3) -> Paper | LeftOut:
    """A paper of a source, or why it cannot be used."""
    try:
        return source.paper(name, reviews=reviews)
    except UnusablePaperError as error:
        return LeftOut(name, error.reason, error.detail)


def drawn(source, **asked) -> dict[str, list[dict]]:
    """The tables of a draw from a source by these settings of the table ``collect``."""
    return drawn_study(source, CollectConfig(venue="a venue", **asked))
