"""The draw: which papers of a source are used, and which of each paper's reviews is the candidate."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from goldless.errors import UserError
from goldless.gre_bench.config import CollectConfig
from goldless.gre_bench.extracted_text import storable
from goldless.gre_bench.papers import HumanReview, LeftOut, Paper, PaperSource
from goldless.runs.options import Progress

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
