"""Papers with their human reviews, as they come from a venue or a folder, why some are left out, and who wrote them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

HUMAN = "human"
"""The agent, and its group, that is the baseline: the review a person wrote that is scored beside the models'."""
REFERENCE = "reference"
"""The group of the reviews that others are held against; its agents are ``reference1``, ``reference2``, …"""
PEOPLE = frozenset({HUMAN, REFERENCE})
"""Groups of the agents that are people."""
_REFERENCE = re.compile(rf"{REFERENCE}\d+")
_LIKE_PEOPLE = re.compile(rf"\s*(?:{HUMAN}|{REFERENCE})\d*\s*", re.IGNORECASE)

Reason = Literal[
    "withdrawn",
    "desk_rejected",
    "few_reviews",
    "no_abstract",
    "no_paper",
    "encrypted_pdf",
    "broken_pdf",
    "scanned_pdf",
    "garbled_pdf",
    "cut_pdf",
]
"""Why a paper is left out.

``few_reviews``: fewer reviews with any text than were asked for. ``no_paper``: there is no file of it.
``scanned_pdf``: pages without text. ``garbled_pdf``: its text is not readable. ``cut_pdf``: its end is missing.
"""


def reference_agents(reviews: int) -> tuple[str, ...]:
    """The agents that stand for the references, where that many reviews of each paper were drawn."""
    return tuple(f"{REFERENCE}{number}" for number in range(1, reviews))


def is_reference(agent: str) -> bool:
    """Whether an agent is a review that others are held against; such agents do not stand on a board."""
    return _REFERENCE.fullmatch(agent) is not None


def is_person(agent: str) -> bool:
    """Whether an agent is a person: the baseline, or a reference."""
    return agent == HUMAN or is_reference(agent)


def reads_as_person(name: str) -> bool:
    """Whether a reader would take an agent of this name for a person, so that no model may be called so."""
    return _LIKE_PEOPLE.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class HumanReview:
    """One review a person wrote."""

    review: str
    """Its name, unique among those of the paper."""
    sections: Mapping[str, str]
    """Texts by title, in the order they were written in."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else was noted, such as rating and confidence."""

    @property
    def text(self) -> str:
        """The whole review: each section that has a text under its title; a section without a title as it is."""
        parts = [(title.strip(), text.strip()) for title, text in self.sections.items() if text.strip()]
        return "\n\n".join(f"{title}:\n\n{text}" if title else text for title, text in parts)


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper with its reviews."""

    paper: str
    """Its name, unique at the venue."""
    title: str
    abstract: str
    text: str
    """The full paper."""
    reviews: tuple[HumanReview, ...]
    """Those that have any text."""
    public_date: str | None = None
    """Day from which everybody could read it, as an ISO date; a month or a year where no more is known."""
    synopses: Mapping[str, str] = field(default_factory=dict)
    """Others than the abstract, by name."""
    rewrites: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Who rewrote a review and how it reads then, by the review's name."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else is known, such as its address."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A paper that cannot be used."""

    paper: str
    reason: Reason
    detail: str = ""


class PaperSource(Protocol):
    """Where papers come from."""

    @property
    def name(self) -> str:
        """The venue, or the folder's name."""

    def papers(self) -> Sequence[str]:
        """Names of all papers there are, in any order."""

    def paper(self, name: str, *, reviews: int) -> Paper | LeftOut:
        """One of them with all its reviews, or why it cannot be used. ``reviews``: fewest that it needs."""
