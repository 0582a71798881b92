"""A venue at OpenReview as a source of papers: its submissions, their reviews and their PDFs.

Venues live on one of two APIs: ICLR 2023 and earlier on v1, ICLR 2024 and later on v2. Submissions are listed once;
reviews and PDF of a paper are fetched when the paper is asked for. Whatever came is kept, so a collection that was
interrupted goes on where it stopped, and one made again is the same. Only the replies to a paper with too few reviews
are asked for again, by a run a day later or after a draw that failed: its reviews may not have been public yet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from goldless.errors import UserError, nearest
from goldless.gre_bench.openreview_api import Api, OpenReviewApi, Posting
from goldless.gre_bench.papers import HumanReview, LeftOut, Paper
from goldless.gre_bench.pdf_text import PdfProblem, PdfReader, pdf_text
from goldless.gre_bench.polite_session import KeptAnswers, Pace, Patience, Say
from goldless.gre_bench.review_forms import says_something, sections_and_extra

SUBMISSIONS_V1 = ("Blind_Submission", "Submission", "submission")
"""Names of submissions in API v1: double blind, single blind, and until 2017."""
LEFT_V1 = ("Withdrawn_Submission", "Desk_Rejected_Submission")
"""Names of submissions in API v1 that are no longer under review."""
DAY_SECONDS = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a venue has."""

    api: OpenReviewApi
    submissions: Mapping[str, Posting]
    review_name: str = "Official_Review"


class OpenReviewVenue:
    """A venue; a PaperSource."""

    def __init__(
        self,
        venue: str,
        *,
        cache: Path,
        api1: str = "https://api.openreview.net",
        api2: str = "https://api2.openreview.net",
        seconds_between_requests: float = 1.0,
        say: Say = lambda _: None,
        reader: PdfReader = "pypdf",
        patience: Patience | None = None,
    ) -> None:
        """Prepare a venue such as ``ICLR.cc/2023/Conference``; nothing is requested yet.

        ``cache`` is the folder of cached replies, ``say`` reports waits, ``reader`` converts PDFs to text.
        The account is read from OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD if both are set.
        """
        _check_venue(venue)
        if not math.isfinite(seconds_between_requests) or seconds_between_requests < 0:
            raise UserError(f"seconds between requests must be at least 0, got {seconds_between_requests}")
        self._venue = venue
        self._few: set[str] = set()
        self._answers = KeptAnswers(cache)
        self._bases: Mapping[Api, str] = {1: api1, 2: api2}
        self._pace = Pace(seconds_between_requests)
        self._patience = patience or Patience()
        self._say = say
        self._reader = reader
        self._listed: _Listing | None = None

    @property
    def name(self) -> str:
        """The venue's name at OpenReview."""
        return self._venue

    def papers(self) -> list[str]:
        """Sorted names of all submissions, including withdrawn and desk-rejected ones."""
        return sorted(self._listing().submissions)

    def paper(self, name: str, *, reviews: int) -> Paper | LeftOut:
        """A submission with its reviews and full text, or why it cannot be used. ``reviews``: fewest that it needs."""
        listing = self._listing()
        submission = listing.submissions.get(name)
        if submission is None:
            hint = nearest(name, listing.submissions)
            raise UserError(f"{self._venue} has no submission {name!r} among its {len(listing.submissions)}{hint}")
        left = _without_asking(submission)
        if left is not None:
            return left
        written, empty = _reviews(listing, submission)
        if len(written) < reviews:
            written, empty = _reviews(listing, submission, oldest_seconds=DAY_SECONDS)
        if len(written) < reviews:
            detail = f"{len(written)} with text, {reviews} needed" + (f"; {empty} empty" if empty else "")
            self._few.add(name)
            return LeftOut(name, "few_reviews", detail)
        data = listing.api.pdf(name)
        if isinstance(data, str):
            return LeftOut(name, "no_paper", data)
        text = pdf_text(data, reader=self._reader)
        if isinstance(text, PdfProblem):
            return LeftOut(name, text.reason, text.detail)
        return Paper(
            paper=name,
            title=submission.text("title"),
            abstract=submission.text("abstract"),
            text=text.text,
            reviews=tuple(written),
            public_date=submission.public_date,
            extra=_paper_extra(submission, pages=text.pages, empty=empty),
        )

    def forget_unreviewed(self) -> None:
        """Request papers with too few reviews again next time: their reviews may not have been public yet."""
        listing = self._listing()
        for name in sorted(self._few):
            listing.api.forget_replies(name)

    # --- the list of submissions -------------------------------------------------------------------------------

    def _listing(self) -> _Listing:
        if self._listed is None:
            self._listed = self._list()
            found = self._listed.submissions.values()
            left = Counter(one.outcome for one in found)
            self._say(
                f"{self._venue}: {len(found)} submissions ({left['withdrawn']} withdrawn, "
                f"{left['desk_rejected']} desk-rejected)"
            )
        return self._listed

    def _list(self) -> _Listing:
        """The submissions, from API v2 if the venue is there, else from v1. Raises UserError if there are none."""
        second = self._api(2)
        group2 = second.group(self._venue)
        if group2 is not None and any(group2.values()):
            usual = f"{self._venue}/-/{_word(group2, 'submission_name', 'Submission')}"
            found = self._all(second, [_word(group2, "submission_id", usual)])
            if found:
                reviews = _word(group2, "review_name", "Official_Review")
                return _Listing(second, found, reviews)
        first = self._api(1)
        group1 = first.group(self._venue)
        if group1 is not None or group2 is not None:
            for word in SUBMISSIONS_V1:
                found = self._all(first, [f"{self._venue}/-/{word}"])
                if found:
                    found |= self._all(first, [f"{self._venue}/-/{left}" for left in LEFT_V1])
                    return _Listing(first, found)
        for api in (first, second):  # papers may become public later
            api.forget()
        raise UserError(self._nothing(known=group1 is not None or group2 is not None))

    def _all(self, api: OpenReviewApi, invitations: Iterable[str]) -> dict[str, Posting]:
        found: dict[str, Posting] = {}
        for invitation in invitations:
            for page in api.pages(invitation=invitation):
                found |= {posting.id: posting for posting in page}
                self._say(f"{invitation}: {len(page)} more, {len(found)} in total")
        return found

    def _api(self, api: Api) -> OpenReviewApi:
        base, pace, patience = self._bases[api], self._pace, self._patience
        return OpenReviewApi(api, base, answers=self._answers, pace=pace, patience=patience, say=self._say)

    def _nothing(self, *, known: bool) -> str:
        asked = f"looked in {self._bases[2]} (API v2) and {self._bases[1]} (API v1)"
        if known:
            return (
                f"OpenReview shows no submissions of {self._venue!r} ({asked}). Its papers may not be public yet, or "
                "belong to a group below it, such as …/Conference or …/Workshop/NAME"
            )
        return (
            f"OpenReview has no public venue {self._venue!r} ({asked}). Use what follows 'id=' in the address of the "
            "venue's page, such as ICLR.cc/2023/Conference. Names are case-sensitive"
        )


def _check_venue(venue: str) -> None:
    if venue.startswith(("http:", "https:")):
        inside = parse_qs(urlsplit(venue).query).get("id", [""])[0]
        hint = f"Try {inside!r}" if inside else "Use what follows 'id=' in it"
        raise UserError(f"--venue must be a name such as ICLR.cc/2023/Conference, got an address: {venue}. {hint}")
    if not venue or venue != venue.strip("/ ") or any(letter.isspace() for letter in venue):
        raise UserError(
            f"--venue must be a name with parts separated by '/' and without spaces, such as ICLR.cc/2023/Conference, "
            f"got {venue!r}"
        )


def _word(group: Mapping[str, Any], key: str, default: str) -> str:
    value = group.get(key)
    return value if isinstance(value, str) and value else default


def _without_asking(submission: Posting) -> LeftOut | None:
    """Why a submission cannot be used, judging by the list of submissions alone."""
    if submission.deleted:
        return LeftOut(submission.id, "withdrawn", "deleted")
    if submission.outcome is not None:
        return LeftOut(submission.id, submission.outcome, submission.text("venue"))
    if not submission.text("abstract"):
        return LeftOut(submission.id, "no_abstract", "its abstract is empty or not public")
    file = submission.text("pdf")
    if not file:
        return LeftOut(submission.id, "no_paper", "it has no public PDF")
    if not file.startswith("/"):
        return LeftOut(submission.id, "no_paper", f"its PDF is not at OpenReview: {file[:200]}")
    return None


def _reviews(
    listing: _Listing, submission: Posting, *, oldest_seconds: float = math.inf
) -> tuple[list[HumanReview], int]:
    """The reviews with text, oldest first, and the number without."""
    pages = listing.api.pages(forum=submission.id, oldest_seconds=oldest_seconds)
    found = [
        reply
        for page in pages
        for reply in page
        if reply.id != submission.id and not reply.deleted and reply.is_review(listing.review_name)
    ]
    reviews = [_review(reply) for reply in sorted(found, key=lambda reply: (reply.created or 0, reply.id))]
    written = [review for review in reviews if says_something(review.sections)]
    return written, len(reviews) - len(written)


def _review(reply: Posting) -> HumanReview:
    sections, extra = sections_and_extra(reply.content)
    return HumanReview(reply.id, sections, {**extra, "reviewer": reply.signature})


def _paper_extra(submission: Posting, *, pages: int, empty: int) -> dict[str, Any]:
    """Other fields of a submission to keep."""
    return {
        "address": f"https://openreview.net/forum?id={quote(submission.id, safe='')}",
        "number": submission.number,
        "venue": submission.text("venue"),
        "pages": pages,
        "empty_reviews": empty,
    }
