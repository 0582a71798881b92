"""Papers with their human reviews, as they come from a venue or a folder, and the draw.

The draw is which papers are used, why some are left out, and which of each paper's reviews is the candidate.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from goldless.errors import UserError
from goldless.gre_bench.extracted_text import storable
from goldless.runs.options import Progress

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


# --- the draw ------------------------------------------------------------------------------------------------------


class Part(BaseModel):
    """A table of the config; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CollectConfig(Part):
    """Which papers."""

    venue: str | None = None
    """A venue of OpenReview, such as ``ICLR.cc/2024/Conference``."""
    from_folder: str | None = None
    """A folder of papers and reviews, seen from the edition's folder."""
    papers: Annotated[int, Field(ge=1)] | None = None
    """How many are drawn; None: all that can be used."""
    reviews: Annotated[int, Field(ge=2)] = 3
    """Human reviews of each: one as candidate, the others as references."""
    seed: Annotated[int, Field(ge=0)] = 0
    reader: Literal["pypdf", "docling"] = "pypdf"
    """What reads PDFs."""
    fewer_ok: bool = False
    """Whether fewer papers than asked for will do."""

    @model_validator(mode="after")
    def _one_source(self) -> CollectConfig:
        if (self.venue is None) == (self.from_folder is None):
            raise ValueError("name a venue or a folder (from_folder): one of the two")
        return self


STAGE = "papers"
MOST_NAMED = 10
"""Papers that an error names."""


class TooFewPapersError(UserError):
    """Fewer papers can be used than were asked for."""


@dataclass(frozen=True, slots=True)
class DrawnPaper:
    """A paper with the reviews that were drawn of it."""

    paper: Paper
    candidate: HumanReview
    """The review that is scored beside the models': the human baseline."""
    references: tuple[HumanReview, ...]
    """The reviews that candidates are scored against."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What was drawn, and from what."""

    source: str
    """The venue, or the folder's name."""
    papers: tuple[DrawnPaper, ...]
    """In the order they were drawn in: a larger draw with the same seed begins with these."""
    left_out: tuple[LeftOut, ...]
    """Papers that came up and could not be used, in the order they came up in."""
    asked: CollectConfig
    """How many papers, and reviews of each, and the seed."""
    listed: int
    """How many papers the source has."""

    @property
    def untried(self) -> int:
        """How many papers never came up, because there were enough before."""
        return self.listed - len(self.papers) - len(self.left_out)


def draw_papers(
    source: PaperSource, asked: CollectConfig, *, progress: Callable[[Progress], None] = lambda _: None
) -> Draw:
    """Papers of the source, drawn at random, each with a candidate review and its references.

    The sorted names are shuffled by ``numpy.random.default_rng(seed)`` and tried in that order until enough papers can
    be used (``papers`` None: all are tried). A paper's reviews are ordered by a hash of seed, paper and review: the
    first is the candidate, so it depends on nothing but these. Too few papers are an error with the reasons counted,
    unless ``fewer_ok``.
    """
    names = sorted(set(source.papers()))
    total = len(names) if asked.papers is None else asked.papers
    drawn: list[DrawnPaper] = []
    left_out: list[LeftOut] = []
    for place in np.random.default_rng(asked.seed).permutation(len(names)):
        if len(drawn) == asked.papers:
            break
        found = _drawn(source.paper(names[int(place)], reviews=asked.reviews), asked.reviews, asked.seed)
        if isinstance(found, LeftOut):
            left_out.append(found)
        else:
            drawn.append(found)
        done = len(drawn) if asked.papers is not None else len(drawn) + len(left_out)
        progress(Progress(STAGE, done, total, 0, 0.0))
    draw = Draw(source.name, tuple(drawn), tuple(left_out), asked, len(names))
    if not drawn or (asked.papers is not None and len(drawn) < asked.papers and not asked.fewer_ok):
        raise TooFewPapersError(_too_few(draw))
    return draw


def _drawn(found: Paper | LeftOut, reviews: int, seed: int) -> DrawnPaper | LeftOut:
    """The paper with the reviews drawn, or why it cannot be used, whatever source it comes from."""
    if isinstance(found, LeftOut):
        return found
    if not storable(found.text).strip():
        return LeftOut(found.paper, "no_paper", "its text is empty")
    if not storable(found.abstract).strip():
        return LeftOut(found.paper, "no_abstract")
    written = [review for review in map(_storable_review, found.reviews) if review.text]
    if len(written) < reviews:
        return LeftOut(found.paper, "few_reviews", f"{len(written)} of {reviews}")
    chosen = sorted(written, key=lambda review: _rank(seed, found.paper, review.review))[:reviews]
    return DrawnPaper(replace(found, reviews=tuple(written)), chosen[0], tuple(chosen[1:]))


def _storable_review(review: HumanReview) -> HumanReview:
    # Before its text is put together: a section of NUL characters alone has no text, and no title either.
    return replace(review, sections={storable(title): storable(text) for title, text in review.sections.items()})


def _rank(seed: int, paper: str, review: str) -> bytes:
    # Each part with its length: no two papers and reviews may give the same bytes in a row.
    parts = [part.encode("utf-8", "surrogatepass") for part in (str(seed), paper, review)]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def _too_few(draw: Draw) -> str:
    if not draw.listed:
        return f"{draw.source}: there are no papers"
    reasons = Counter(paper.reason for paper in draw.left_out)
    counted = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
    usable = f"{len(draw.papers):,} of {draw.listed:,} papers can be used"
    asked = "" if draw.asked.papers is None else f"; {draw.asked.papers:,} were asked for"
    if not counted:
        fewer = "Ask for fewer papers, or take what there is with --fewer-ok."
        return f"{draw.source}: {usable}{asked}. None was left out. {fewer}"
    advice = "ask for fewer reviews of each"
    if draw.papers:
        advice = "ask for fewer papers or fewer reviews of each, or take what there is with --fewer-ok"
    first = draw.left_out[:MOST_NAMED]
    named = [f"  {out.paper}: {out.reason}" + (f" ({out.detail})" if out.detail else "") for out in first]
    if len(draw.left_out) > MOST_NAMED:
        named.append(f"  … and {len(draw.left_out) - MOST_NAMED:,} more")
    told = f"{draw.source}: {usable}{asked}. Left out: {counted}. Look into these, or {advice}."
    return "\n".join([told, *named])
