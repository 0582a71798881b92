"""Papers with their human reviews, from a venue or a folder, and the draw.

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
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from goldless.apps.gre.paper_text import Reason, UnusablePaperError, storable
from goldless.errors import UserError
from goldless.runs.progress import Progress

HUMAN = "human"
"""The baseline agent and its group: the human review that is scored like the models' reviews."""
REFERENCE = "reference"
"""The group of the reviews that others are compared with; its agents are ``reference1``, ``reference2``, …"""
PEOPLE = frozenset({HUMAN, REFERENCE})
"""Groups of the agents that are people."""
_REFERENCE = re.compile(rf"{REFERENCE}\d+")
_LIKE_PEOPLE = re.compile(rf"\s*(?:{HUMAN}|{REFERENCE})\d*\s*", re.IGNORECASE)


def reference_agents(reviews: int) -> tuple[str, ...]:
    """The agents of the references, given the number of reviews drawn per paper."""
    return tuple(f"{REFERENCE}{number}" for number in range(1, reviews))


def is_reference(agent: str) -> bool:
    """Whether an agent is a reference, which is not ranked."""
    return _REFERENCE.fullmatch(agent) is not None


def is_person(agent: str) -> bool:
    """Whether an agent is a person: the baseline, or a reference."""
    return agent == HUMAN or is_reference(agent)


def reads_as_person(name: str) -> bool:
    """Whether a name would suggest a person, so that no model may have it."""
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
    """Day it became public, as an ISO date; a month or a year if no more is known."""
    synopses: Mapping[str, str] = field(default_factory=dict)
    """Others than the abstract, by name."""
    rewrites: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Rewriter and rewrite of a review, by the review's name."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else is known, such as its address."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A paper that cannot be used."""

    paper: str
    reason: Reason
    detail: str = ""


class UnansweredError(UserError):
    """A source's server did not reply after several attempts; another run resumes from there."""


class PaperSource(Protocol):
    """A source of papers."""

    @property
    def name(self) -> str:
        """The venue, or the folder's name."""

    def papers(self) -> Sequence[str]:
        """Names of all papers there are, in any order."""

    def paper(self, name: str, *, reviews: int) -> Paper:
        """One of them with all its reviews. ``reviews``: fewest that it needs. Raises if it cannot be used."""


# --- the draw ------------------------------------------------------------------------------------------------------


class Part(BaseModel):
    """A table of the config; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _without_nul(cls, value: Any) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("must not contain the character NUL")
        return value


class CollectConfig(Part):
    """Which papers."""

    venue: str | None = None
    """A venue of OpenReview, such as ``ICLR.cc/2024/Conference``."""
    from_folder: str | None = None
    """A folder of papers and reviews, seen from the edition's folder."""
    from_reviewarena: str | None = None
    """A folder with the corpus ReviewArena, seen from the edition's folder; ``venue`` is one of its ``venue_id``."""
    papers: Annotated[int, Field(ge=1)] | None = None
    """Number of papers to draw; None: all usable ones."""
    reviews: Annotated[int, Field(ge=2)] = 3
    """Human reviews of each: one as candidate, the others as references."""
    seed: Annotated[int, Field(ge=0)] = 0
    reader: Literal["pypdf", "docling"] = "pypdf"
    """The PDF reader."""
    fewer_ok: bool = False
    """Whether to accept fewer papers than requested."""
    anchors: str | None = None
    """An earlier edition whose papers are added as anchors, seen from the edition's folder."""
    anchor_papers: Annotated[int, Field(ge=1)] = 20
    """Number of anchors."""
    injected: Annotated[int, Field(ge=0)] = 0
    """Number of papers that are reviewed a second time, with a hidden instruction in the text."""

    @model_validator(mode="after")
    def _one_source(self) -> CollectConfig:
        elsewhere = self.venue is not None or self.from_reviewarena is not None
        if elsewhere == (self.from_folder is not None):
            raise ValueError("set either from_folder, or one or both of venue and from_reviewarena")
        if self.papers is not None and self.injected > self.papers:
            raise ValueError(f"injected must be at most papers, {self.papers}, got {self.injected}")
        return self


STAGE = "papers"
MOST_NAMED = 10
"""Maximum number of papers listed in an error."""


class TooFewPapersError(UserError):
    """Fewer papers are usable than requested."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw of papers."""

    source: str
    """The venue, or the folder's name."""
    papers: tuple[Paper, ...]
    """In the order drawn: a larger draw with the same seed begins with these. Each has the reviews that were drawn: the
    first is the candidate, the human baseline; the others are the references that candidates are compared with."""
    left_out: tuple[LeftOut, ...]
    """Papers that were drawn but could not be used, in order."""
    asked: CollectConfig
    """How many papers, and reviews of each, and the seed."""
    listed: int
    """How many papers the source has."""


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
    drawn: list[Paper] = []
    left_out: list[LeftOut] = []
    for place in np.random.default_rng(asked.seed).permutation(len(names)):
        if len(drawn) == asked.papers:
            break
        name = names[int(place)]
        try:
            drawn.append(_drawn(source.paper(name, reviews=asked.reviews), asked.reviews, asked.seed))
        except UnusablePaperError as unusable:
            left_out.append(LeftOut(name, unusable.reason, unusable.detail))
        done = len(drawn) if asked.papers is not None else len(drawn) + len(left_out)
        progress(Progress(STAGE, done, total, 0, 0.0))
    draw = Draw(source.name, tuple(drawn), tuple(left_out), asked, len(names))
    if not drawn or (asked.papers is not None and len(drawn) < asked.papers and not asked.fewer_ok):
        raise TooFewPapersError(_too_few(draw))
    return draw


def _drawn(paper: Paper, reviews: int, seed: int) -> Paper:
    """The paper with its drawn reviews, the candidate first."""
    if not storable(paper.text).strip():
        raise UnusablePaperError("no_paper", "its text is empty")
    if not storable(paper.abstract).strip():
        raise UnusablePaperError("no_abstract")
    # Before its text is put together: a section of NUL characters alone has no text, and no title either.
    cleaned = [
        replace(review, sections={storable(title): storable(text) for title, text in review.sections.items()})
        for review in paper.reviews
    ]
    written = [review for review in cleaned if review.text]
    if len(written) < reviews:
        raise UnusablePaperError("few_reviews", f"{len(written)} of {reviews}")
    written.sort(key=lambda review: draw_rank(seed, paper.paper, review.review))
    return replace(paper, reviews=tuple(written[:reviews]))


def draw_rank(seed: int, *names: str) -> bytes:
    """The place of what has these names in a random order that depends on nothing but the seed and the names."""
    # Each part with its length: no two lists of names may give the same bytes in a row.
    parts = [part.encode("utf-8", "surrogatepass") for part in (str(seed), *names)]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def _too_few(draw: Draw) -> str:
    if not draw.listed:
        return f"{draw.source}: no papers"
    reasons = Counter(paper.reason for paper in draw.left_out)
    counted = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
    usable = f"{len(draw.papers):,} of {draw.listed:,} papers are usable"
    asked = "" if draw.asked.papers is None else f", but {draw.asked.papers:,} were requested"
    if not counted:
        fewer = "Request fewer papers, or accept fewer with --fewer-ok"
        return f"{draw.source}: {usable}{asked}. None was left out. {fewer}"
    advice = "request fewer reviews per paper"
    if draw.papers:
        advice = "request fewer papers or fewer reviews per paper, or accept fewer with --fewer-ok"
    first = draw.left_out[:MOST_NAMED]
    named = [f"  {out.paper}: {out.reason}" + (f" ({out.detail})" if out.detail else "") for out in first]
    if len(draw.left_out) > MOST_NAMED:
        named.append(f"  … and {len(draw.left_out) - MOST_NAMED:,} more")
    summary = f"{draw.source}: {usable}{asked}. Left out: {counted}. Check these, or {advice}:"
    return "\n".join([summary, *named])
