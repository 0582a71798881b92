"""A venue at OpenReview as a source of papers: its submissions, their reviews and their PDFs.

Venues live on one of two APIs: ICLR 2023 and earlier on v1, ICLR 2024 and later on v2. Submissions, reviews and
comments are all notes. API v1 gives a note one invitation and plain content; API v2 gives it several invitations and
wraps each field of its content as ``{"value": …}``.

Submissions are listed once; reviews and PDF of a paper are fetched when the paper is asked for. Replies are cached, so
an interrupted collection resumes where it stopped. Only the replies to a paper with too few reviews are requested
again, by a run a day later or after a draw that failed: its reviews may not have been public yet.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, quote, urlsplit

from goldless.apps.gre.paper_text import PdfReader, UnusablePaperError, pdf_text
from goldless.apps.gre.papers import HumanReview, Paper
from goldless.apps.gre.review_form import says_something, sections_and_extra
from goldless.errors import PrerequisiteError, UserError, nearest

if TYPE_CHECKING:
    from goldless.apps.gre.openreview_api import Api, OpenReviewApi, Patience

SUBMISSIONS_V1 = ("Blind_Submission", "Submission", "submission")
"""Names of submissions in API v1: double blind, single blind, and until 2017."""
LEFT_V1 = ("Withdrawn_Submission", "Desk_Rejected_Submission")
"""Names of submissions in API v1 that are no longer under review."""
REVIEWS_V1 = ("/official_review", "/official/review")
"""How invitations to review end on API v1, through the years."""
DAY_SECONDS = 24 * 60 * 60
_OUTCOMES: tuple[tuple[Literal["withdrawn", "desk_rejected"], re.Pattern[str]], ...] = (
    ("withdrawn", re.compile(r"withdrawn", re.IGNORECASE)),
    ("desk_rejected", re.compile(r"desk[ _-]?reject", re.IGNORECASE)),
)


@dataclass(frozen=True, slots=True)
class _Posting:
    """A note of either API."""

    id: str
    api: Api
    invitations: tuple[str, ...]
    """What it answers: names such as ``ICLR.cc/2024/Conference/-/Submission``."""
    content: Mapping[str, Any]
    """Fields by name, without the wrapping of API v2."""
    number: int | None
    signature: str
    """Last part of its author's name, such as ``Reviewer_a1B2``."""
    created: int | None
    """When it was written, in milliseconds since 1970."""
    public_date: str | None
    """Day from which everybody could read it, as an ISO date in UTC."""
    deleted: bool

    @classmethod
    def of(cls, note: Any, api: Api) -> _Posting:
        """A note as the client library gives it; what is not of the documented type counts as absent."""
        content = note.content if isinstance(note.content, dict) else {}
        opened = [when for when in map(_milliseconds, (note.odate, note.pdate)) if when is not None]
        created = _milliseconds(note.tcdate) or _milliseconds(note.cdate)
        public = min(opened) if opened else created
        return cls(
            id=note.id,
            api=api,
            invitations=tuple(_texts([note.invitation] if api == 1 else note.invitations)),
            content=content if api == 1 else _unwrapped(content),
            number=note.number if isinstance(note.number, int) else None,
            signature=next(iter(_texts(note.signatures)), "").rpartition("/")[2],
            created=created,
            public_date=None if public is None else dt.datetime.fromtimestamp(public / 1000, dt.UTC).date().isoformat(),
            deleted=_milliseconds(note.ddate) is not None,
        )

    def text(self, field: str) -> str:
        """A field of its content as text without space around it; empty where there is none."""
        value = self.content.get(field)
        return value.strip() if isinstance(value, str) else ""

    @property
    def outcome(self) -> Literal["withdrawn", "desk_rejected"] | None:
        """Whether the submission was taken back or never reviewed.

        On API v2 the name of the venue it now belongs to decides: a withdrawal that was undone leaves its invitation
        behind. On API v1 a note moves to another invitation, and its venue is often empty.
        """
        venue_id = self.text("venueid").rpartition("/")[2]
        said = [venue_id, self.text("venue")]
        if self.api == 1 or not venue_id:
            said += [invitation.rpartition("/")[2] for invitation in self.invitations]
        return next((name for name, pattern in _OUTCOMES if any(map(pattern.search, said))), None)

    def refuse_unusable(self) -> None:
        """Raise if the submission cannot be used, judging by the list of submissions alone."""
        file = self.text("pdf")
        if self.deleted:
            raise UnusablePaperError("withdrawn", "deleted")
        if self.outcome is not None:
            raise UnusablePaperError(self.outcome, self.text("venue"))
        if not self.text("abstract"):
            raise UnusablePaperError("no_abstract", "its abstract is empty or not public")
        if not file:
            raise UnusablePaperError("no_paper", "it has no public PDF")
        if not file.startswith("/"):
            raise UnusablePaperError("no_paper", f"its PDF is not at OpenReview: {file[:200]}")

    def is_review(self, review_name: str) -> bool:
        """Whether it is a review by somebody the venue asked. ``review_name``: what an API v2 venue calls one."""
        if self.api == 2:
            return any(invitation.endswith(f"/-/{review_name}") for invitation in self.invitations)
        return any(invitation.lower().endswith(REVIEWS_V1) for invitation in self.invitations)


def _unwrapped(content: Any) -> dict[str, Any]:
    """The content of an API v2 note or group as plain fields. Fields without a value are left out."""
    fields = content.items() if isinstance(content, dict) else ()
    return {
        name: field["value"] for name, field in fields if isinstance(field, dict) and field.get("value") is not None
    }


def _texts(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _milliseconds(value: Any) -> int | None:
    """A time in milliseconds since 1970; None where it is no time of this calendar."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 253_402_300_800_000:
        return None
    return int(value)


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a venue has."""

    api: OpenReviewApi
    submissions: Mapping[str, _Posting]
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
        say: Callable[[str], None] = lambda _: None,
        reader: PdfReader = "pypdf",
        patience: Patience | None = None,
    ) -> None:
        """Prepare a venue such as ``ICLR.cc/2023/Conference``; nothing is requested yet.

        ``cache`` is the folder for cached replies, ``say`` reports waits, ``reader`` converts PDFs to text.
        The account is read from OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD if both are set.
        """
        _check_venue(venue)
        self._venue = venue
        self._few: set[str] = set()
        self._cache = cache
        self._bases: Mapping[Api, str] = {1: api1, 2: api2}
        self._pause = seconds_between_requests
        self._patience = patience
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

    def paper(self, name: str, *, reviews: int) -> Paper:
        """A submission with its reviews and text. ``reviews``: fewest that it needs. Raises if it cannot be used."""
        listing = self._listing()
        submission = listing.submissions.get(name)
        if submission is None:
            hint = nearest(name, listing.submissions)
            raise UserError(f"{self._venue} has no submission {name!r} among its {len(listing.submissions)}{hint}")
        submission.refuse_unusable()
        written, empty = _reviews(listing, submission)
        if len(written) < reviews:
            listing.api.forget(name, older_than_seconds=DAY_SECONDS)
            written, empty = _reviews(listing, submission)
        if len(written) < reviews:
            detail = f"{len(written)} with text, {reviews} needed" + (f"; {empty} empty" if empty else "")
            self._few.add(name)
            raise UnusablePaperError("few_reviews", detail)
        text = pdf_text(listing.api.pdf(name), reader=self._reader)
        return Paper(
            paper=name,
            title=submission.text("title"),
            abstract=submission.text("abstract"),
            text=text.text,
            reviews=tuple(written),
            public_date=submission.public_date,
            extra={
                "address": f"https://openreview.net/forum?id={quote(submission.id, safe='')}",
                "number": submission.number,
                "venue": submission.text("venue"),
                "pages": text.pages,
                "empty_reviews": empty,
            },
        )

    def forget_unreviewed(self) -> None:
        """Request papers with too few reviews again next time: their reviews may not have been public yet."""
        listing = self._listing()
        for name in sorted(self._few):
            listing.api.forget(name)

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
        names = {} if group2 is None else _unwrapped(group2.content)
        # API v2 knows the groups of all venues; those of API v1 have neither domain nor content
        if group2 is not None and (names or group2.domain):
            usual = f"{self._venue}/-/{_word(names, 'submission_name', 'Submission')}"
            found = self._all(second, [_word(names, "submission_id", usual)])
            if found:
                return _Listing(second, found, _word(names, "review_name", "Official_Review"))
        first = self._api(1)
        known = first.group(self._venue) is not None or group2 is not None
        for word in SUBMISSIONS_V1 if known else ():
            found = self._all(first, [f"{self._venue}/-/{word}"])
            if found:
                found |= self._all(first, [f"{self._venue}/-/{left}" for left in LEFT_V1])
                return _Listing(first, found)
        for api in (first, second):  # papers may become public later
            api.forget()
        raise UserError(self._nothing(known=known))

    def _all(self, api: OpenReviewApi, invitations: Iterable[str]) -> dict[str, _Posting]:
        found: dict[str, _Posting] = {}
        for invitation in invitations:
            for page in api.notes(invitation=invitation):
                found |= {note.id: _Posting.of(note, api.api) for note in page}
                self._say(f"{invitation}: {len(page)} more, {len(found)} in total")
        return found

    def _api(self, api: Api) -> OpenReviewApi:
        try:
            from goldless.apps.gre.openreview_api import OpenReviewApi, Patience  # noqa: PLC0415 - needs an extra
        except ImportError as error:
            raise PrerequisiteError(
                f"collecting from OpenReview needs other packages ({error}). Run: pip install 'goldless[gre]'"
            ) from error
        patience = self._patience or Patience()
        return OpenReviewApi(
            api, self._bases[api], cache=self._cache, pause=self._pause, patience=patience, say=self._say
        )

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


def _reviews(listing: _Listing, submission: _Posting) -> tuple[list[HumanReview], int]:
    """The reviews with text, oldest first, and the number without."""
    replies = [
        reply
        for page in listing.api.notes(forum=submission.id)
        for reply in (_Posting.of(note, listing.api.api) for note in page)
        if reply.id != submission.id and not reply.deleted and reply.is_review(listing.review_name)
    ]
    reviews = []
    for reply in sorted(replies, key=lambda reply: (reply.created or 0, reply.id)):
        sections, extra = sections_and_extra(reply.content)
        reviews.append(HumanReview(reply.id, sections, {**extra, "reviewer": reply.signature}))
    written = [review for review in reviews if says_something(review.sections)]
    return written, len(reviews) - len(written)
