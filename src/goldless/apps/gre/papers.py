"""Papers with their human reviews, where they come from, and what the people behind reviews are called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from goldless.errors import UserError

HUMAN = "human"
"""The baseline agent and its group: the human review that is scored like the models' reviews."""
REFERENCE = "reference"
"""The group of the reviews that others are compared with; its agents are ``reference1``, ``reference2``, …"""


def is_reference(agent: str) -> bool:
    """True if an agent is a reference, which is not ranked."""
    return re.fullmatch(rf"{REFERENCE}\d+", agent) is not None


def is_person(agent: str) -> bool:
    """True if an agent is a person: the baseline, or a reference."""
    return agent == HUMAN or is_reference(agent)


def reads_as_person(name: str) -> bool:
    """True if a name would suggest a person, so that no model may have it."""
    return re.fullmatch(rf"\s*(?:{HUMAN}|{REFERENCE})\d*\s*", name, re.IGNORECASE) is not None


Reason = str
"""The reason why a paper is left out.

``withdrawn``, ``desk_rejected``. ``few_reviews``: fewer reviews with text than requested. ``no_abstract``.
``no_paper``: there is no file of it. ``encrypted_pdf``, ``broken_pdf``. ``scanned_pdf``: pages without text.
``garbled_pdf``: its text is not readable. ``cut_pdf``: its end is missing.
"""


class UnusablePaperError(Exception):
    """A paper that cannot be used."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


class UnansweredError(UserError):
    """A source's server did not reply after several attempts; another run resumes from there."""


@dataclass(frozen=True)
class HumanReview:
    """One review a person wrote."""

    review: str
    """Its name, unique among those of the paper."""
    sections: Mapping[str, str]
    """Texts by title, in the order they were written in."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other values that were noted, such as rating and confidence."""
    rewrite: tuple[str, str] | None = None
    """Its rewriter and rewritten text, where there is one."""

    @property
    def text(self) -> str:
        return joined(self.sections)


def joined(sections: Mapping[str, str]) -> str:
    """The text of a review: each section that has one under its title; a section without a title as it is."""
    parts = [(title.strip(), text.strip()) for title, text in sections.items() if text.strip()]
    return "\n\n".join(f"{title}:\n\n{text}" if title else text for title, text in parts)


@dataclass(frozen=True)
class Paper:
    """A paper with its reviews."""

    paper: str
    """Its name, unique at the venue."""
    text: str
    """The full paper."""
    columns: Mapping[str, Any]
    """Of its task: ``title``, ``synopsis_abstract`` and other synopses, ``public_date`` and what else is known."""
    reviews: tuple[HumanReview, ...]


class PaperSource(Protocol):
    """A source of papers."""

    name: str
    """The venue, or the folder's name."""

    def papers(self) -> Sequence[str]:
        """Names of all papers there are, in any order."""

    def paper(self, name: str, *, reviews: int) -> Paper:
        """One of them with all its reviews. ``reviews``: fewest that it needs. Raises if there is no text of it."""


def draw_rank(seed: int, *names: str) -> bytes:
    """The place of what has these names in a random order that depends on nothing but the seed and the names."""
    # Each part with its length: no two lists of names may give the same bytes in a row.
    parts = [part.encode("utf-8", "surrogatepass") for part in (str(seed), *names)]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
