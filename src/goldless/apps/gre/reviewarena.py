"""ReviewArena as a source of papers: a corpus of OpenReview papers with reviews, decisions and OCR text.

Its files are ``data/SPLIT-NNNNN-of-NNNNN.parquet``, one row per paper, in the columns of the dataset card of
``Samarth0710/reviewbench`` on the Hugging Face Hub. ``reviews_json`` is a JSON list of reviews, each an object with the
fields of its venue's form. The corpus has no dates, only the venue's year, and papers are public before that year
begins: they are undated here, so the contamination clock never calls them clean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from goldless.apps.gre.paper_text import (
    MOST_UNREADABLE,
    unix_lines,
    unreadable_share,
)
from goldless.apps.gre.papers import HumanReview, Paper, Reason, UnusablePaperError
from goldless.apps.gre.review_form import says_something, sections_and_extra
from goldless.errors import UserError
from goldless.files import POLARS_FAILED

NEEDED = ("forum_id", "venue_id", "title", "abstract", "decision", "reviews_json", "markdown")
KEPT = ("conference", "year", "track", "decision")
"""Columns that are kept of a paper; the decision's comment and the authors' rebuttal are not."""
NOT_OF_THE_REVIEWER = ("review_id", "rebuttal")
"""Fields of a review that its reviewer did not write."""
LISTED = 12
OUTCOMES: dict[str, Reason] = {"withdraw": "withdrawn", "desk": "desk_rejected"}


class ReviewArena:
    """A downloaded corpus, or the papers of one venue in it."""

    def __init__(self, folder: Path, venue: str | None = None, *, say: Callable[[str], None] = lambda _: None) -> None:
        self.name = f"ReviewArena {venue or folder.resolve().name}"
        self._places: dict[str, tuple[Path, int]] = {}
        venues: Counter[str] = Counter()
        repeated = 0
        for file in _files(folder):
            for place, (paper, at) in enumerate(_rows(file, pl.col("forum_id"), pl.col("venue_id"))):
                venues[str(at)] += 1
                if paper and venue in {None, at}:
                    repeated += paper in self._places
                    self._places.setdefault(str(paper), (file, place))
        if not self._places:
            there = ", ".join(f"{name} ({count:,})" for name, count in venues.most_common(LISTED)) or "none"
            more = f" and {len(venues) - LISTED} more" if len(venues) > LISTED else ""
            asked = "" if venue is None else f" of the venue {venue!r}"
            raise UserError(f"{folder}: no papers{asked}. Its venues: {there}{more}")
        if repeated:
            say(f"{self.name}: rows that repeat a forum_id: {repeated}; the first row of each is used")

    def papers(self) -> Sequence[str]:
        """Names of all papers, as OpenReview names their forums."""
        return tuple(self._places)

    def paper(self, name: str, *, reviews: int) -> Paper:
        """One of them with all its reviews. ``reviews``: fewest that it needs. Raises if it cannot be used."""
        file, place = self._places[name]
        known = pl.read_parquet_schema(file)
        ((row,),) = _rows(file, pl.struct([one for one in dict.fromkeys((*NEEDED, *KEPT)) if one in known]), at=place)
        decision = str(row["decision"] or "").lower()
        for word, reason in OUTCOMES.items():
            if word in decision:
                raise UnusablePaperError(reason, decision)
        written = _reviews(row["reviews_json"])
        if len(written) < reviews:
            raise UnusablePaperError("few_reviews", f"{len(written)} of {reviews}")
        text = unix_lines(str(row["markdown"] or ""))
        if not text.strip() or unreadable_share(text) > MOST_UNREADABLE:
            raise UnusablePaperError("no_paper", "its markdown is empty or not readable")
        return Paper(
            paper=name,
            title=str(row["title"] or ""),
            abstract=str(row["abstract"] or "").strip(),
            text=text,
            reviews=written,
            extra={column: row[column] for column in KEPT if row.get(column) not in {None, ""}},
        )


def _files(folder: Path) -> list[Path]:
    """The corpus's files, each with the columns that are needed."""
    files = sorted((folder / "data").glob("*.parquet")) or sorted(folder.glob("*.parquet"))
    if not files:
        raise UserError(
            f"{folder}: no data/*.parquet. Download the corpus there, for example with: hf download "
            f"Samarth0710/reviewbench --repo-type dataset --local-dir {folder}"
        )
    for file in files:
        _rows(file, pl.len())
        columns = pl.read_parquet_schema(file)
        wrong = [f"{name} ({columns.get(name, 'absent')})" for name in NEEDED if columns.get(name) != pl.String]
        if wrong:
            raise UserError(f"{folder}: not in ReviewArena's layout: {file.name} must have text in {', '.join(wrong)}")
    return files


def _rows(file: Path, *columns: pl.Expr, at: int | None = None) -> list[tuple[Any, ...]]:
    """The rows of a file, or the one at a place."""
    try:
        frame = pl.scan_parquet(file)
        return (frame if at is None else frame.slice(at, 1)).select(columns).collect().rows()
    except (OSError, *POLARS_FAILED) as error:
        raise UserError(f"{file}: cannot be read ({str(error).splitlines()[0]}). Download it again") from error


def _reviews(stored: Any) -> tuple[HumanReview, ...]:
    """The reviews that say something; none if what is stored is no list of reviews."""
    try:
        found = orjson.loads(stored or "[]")
    except orjson.JSONDecodeError:
        return ()
    reviews: dict[str, HumanReview] = {}
    for number, content in enumerate(found if isinstance(found, list) else (), 1):
        if isinstance(content, dict):
            prose = {field: value for field, value in content.items() if field not in NOT_OF_THE_REVIEWER}
            sections, extra = sections_and_extra(prose)
            name = str(content.get("review_id") or number)
            if says_something(sections):
                known = {field: value for field, value in extra.items() if value not in (None, "", [], {})}
                reviews.setdefault(name, HumanReview(name, sections, known))
    return tuple(reviews.values())
