"""ReviewArena as a source of papers: a corpus of OpenReview papers with reviews, decisions and OCR text.

Its files are ``data/SPLIT-NNNNN-of-NNNNN.parquet``, one row per paper, in the columns of the dataset card of
``Samarth0710/reviewbench`` on the Hugging Face Hub. ``reviews_json`` is a JSON list of reviews, each an object with the
fields of its venue's form. The corpus has no dates, only the venue's year, and papers are public before that year
begins: they are undated here, so the contamination clock never calls them clean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import polars as pl

from goldless.apps.gre.paper_text import MOST_UNREADABLE, unreadable_share
from goldless.apps.gre.papers import HumanReview, Paper, Reason, UnusablePaperError
from goldless.apps.gre.review_form import says_something, sections_and_extra
from goldless.errors import UserError
from goldless.files import POLARS_FAILED

COLUMNS = ("forum_id", "venue_id", "title", "abstract", "decision", "reviews_json", "markdown")
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
        self._folder = folder
        if not any(folder.glob("data/*.parquet")):
            raise UserError(
                f"{folder}: no data/*.parquet. Download the corpus there, for example with: hf download "
                f"Samarth0710/reviewbench --repo-type dataset --local-dir {folder}"
            )
        rows = pl.scan_parquet(folder / "data" / "*.parquet").with_columns(pl.col(COLUMNS).cast(pl.String))
        listed = self._collected(rows.select(COLUMNS).select("forum_id", "venue_id"))
        mine = listed if venue is None else listed.filter(pl.col("venue_id") == venue)
        self._papers = tuple(mine["forum_id"].drop_nulls().unique(maintain_order=True))
        self._rows = rows if venue is None else rows.filter(pl.col("venue_id") == venue)
        if not self._papers:
            venues = listed["venue_id"].value_counts(sort=True).rows()
            there = ", ".join(f"{name} ({count:,})" for name, count in venues[:LISTED]) or "none"
            more = f" and {len(venues) - LISTED} more" if len(venues) > LISTED else ""
            asked = "" if venue is None else f" of the venue {venue!r}"
            raise UserError(f"{folder}: no papers{asked}. Its venues: {there}{more}")
        if repeated := len(mine) - len(self._papers):
            say(f"{self.name}: rows that repeat a forum_id: {repeated}; the first row of each is used")

    def _collected(self, rows: pl.LazyFrame) -> pl.DataFrame:
        try:
            return rows.collect()
        except (OSError, *POLARS_FAILED) as error:
            said = f"cannot be read as ReviewArena's ({str(error).splitlines()[0]}). Download it again"
            raise UserError(f"{self._folder}/data: {said}") from error

    def papers(self) -> Sequence[str]:
        return self._papers

    def paper(self, name: str, *, reviews: int) -> Paper:
        row = self._collected(self._rows.filter(pl.col("forum_id") == name).head(1)).row(0, named=True)
        text = {column: str(row[column] or "") for column in COLUMNS}
        for word, reason in OUTCOMES.items():
            if word in text["decision"].lower():
                raise UnusablePaperError(reason, text["decision"])
        written = _reviews(text["reviews_json"])
        if len(written) < reviews:
            raise UnusablePaperError("few_reviews", f"{len(written)} of {reviews}")
        if unreadable_share(text["markdown"]) > MOST_UNREADABLE:
            raise UnusablePaperError("no_paper", "its markdown is empty or not readable")
        extra = {column: row[column] for column in KEPT if row.get(column) not in {None, ""}}
        return Paper(name, text["title"], text["abstract"].strip(), text["markdown"], written, extra=extra)


def _reviews(stored: str) -> tuple[HumanReview, ...]:
    """The reviews that say something; none if what is stored is no JSON."""
    try:
        found = orjson.loads(stored)
    except orjson.JSONDecodeError:
        return ()
    reviews: dict[str, HumanReview] = {}
    for number, content in enumerate(found if isinstance(found, list) else (), 1):
        if not isinstance(content, dict):
            continue
        sections, extra = sections_and_extra({k: v for k, v in content.items() if k not in NOT_OF_THE_REVIEWER})
        if says_something(sections):
            name = str(content.get("review_id") or number)
            known = {field: value for field, value in extra.items() if value not in (None, "", [], {})}
            reviews.setdefault(name, HumanReview(name, sections, known))
    return tuple(reviews.values())
