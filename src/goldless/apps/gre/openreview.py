"""A venue at OpenReview as a source of papers: its submissions, their reviews and their PDFs.

Venues live on one of two APIs: ICLR 2023 and earlier on v1, ICLR 2024 and later on v2. Submissions, reviews and
comments are all notes. API v1 gives a note one invitation and plain content; API v2 gives it several invitations and
wraps each field of its content as ``{"value": …}``.

Submissions are listed once; reviews and PDF of a paper are fetched when the paper is asked for. Final replies are kept
in one SQLite file, so an interrupted collection resumes where it stopped. Only a paper with too few reviews is asked
about again: they may not have been public yet.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, quote, urlsplit

import orjson
import requests
from requests_cache import CachedSession

from goldless._version import __version__
from goldless.apps.gre.paper_text import PdfReader, pdf_text
from goldless.apps.gre.papers import HumanReview, Paper, UnansweredError, UnusablePaperError
from goldless.apps.gre.review_form import says_something, sections_and_extra
from goldless.errors import UserError
from goldless.models.http_api.client import seconds_until

Say = Callable[[str], None]
REPLIES = "replies.sqlite"
"""File of the kept replies. Delete it to have everything requested again."""
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
"""Statuses that may pass: of a busy server, or of a gateway that has lost it."""
PAGE = 1000
"""Maximum number of notes per page."""
TOKEN_SECONDS = 7 * 24 * 60 * 60
"""How long a login holds: the longest that OpenReview allows, as a collection may take hours."""
ATTEMPTS = 6
"""At a request that a busy server does not answer."""
TIMEOUT_SECONDS = 60.0
FIRST_WAIT_SECONDS = 1.0
"""Before the second attempt; it doubles from there."""
LONGEST_WAIT_SECONDS = 300.0
"""If the server asks for a longer pause, the collection ends, to be resumed later."""
SUBMISSIONS_V1 = ("Blind_Submission", "Submission", "submission")
"""Names of submissions in API v1: double blind, single blind, and until 2017."""
LEFT_V1 = ("Withdrawn_Submission", "Desk_Rejected_Submission")
"""Names of submissions in API v1 that are no longer under review."""
REVIEWS_V1 = ("/official_review", "/official/review")
"""How invitations to review end on API v1, through the years."""
OUTCOMES: Mapping[Literal["withdrawn", "desk_rejected"], re.Pattern[str]] = {
    "withdrawn": re.compile(r"withdrawn", re.IGNORECASE),
    "desk_rejected": re.compile(r"desk[ _-]?reject", re.IGNORECASE),
}


class _BusyError(Exception):
    """A request that the server did not answer now."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class _Api:
    """One of the two APIs. Reads only; as a guest, or with the account that the environment names."""

    def __init__(self, number: Literal[1, 2], base: str, *, cache: Path, pause: float, say: Say) -> None:
        self.number, self.base = number, base.rstrip("/")
        self._pause, self._say = pause, say
        self._replies = cache / REPLIES
        self._pages: dict[str, list[str]] = {}
        """Addresses of the pages of notes about a submission."""
        with self._storing():
            # JSON, as a pickled reply in an edition from elsewhere could run code
            self._session = CachedSession(
                self._replies, serializer="json", allowable_codes=(200, 404, 410), filter_fn=_is_final
            )
        self._session.headers["User-Agent"] = f"goldless/{__version__}"
        self._token = self._login()
        if self._token:
            self._session.headers["Authorization"] = f"Bearer {self._token}"

    def group(self, name: str) -> dict[str, Any] | None:
        """The group of a venue; None if it does not exist or is not visible to us."""
        reply = self._get("groups", id=name)
        return None if reply is None else next(iter(_fields(reply)["groups"]), None)

    def notes(self, **query: str) -> Iterator[list[_Note]]:
        """All notes that match, page by page, in the order of their names."""
        seen: set[str] = set()
        after: dict[str, str] = {}
        while True:
            reply = self._get("notes", **query, sort="id", limit=str(PAGE), **after)
            assert reply is not None
            self._pages.setdefault(query.get("forum", ""), []).append(reply.url)
            found = _fields(reply)
            page = [note for note in found["notes"] if note.get("id") and note["id"] not in seen]
            if page:
                yield [_Note(note, self.number) for note in page]
            seen.update(note["id"] for note in page)
            if not page or len(seen) >= found.get("count", 0):
                return
            after = {"after": page[-1]["id"]}

    def pdf(self, note: str) -> bytes:
        """The PDF of a submission. Raises if there is none."""
        reply = self._get("pdf", id=note)
        if reply is None:
            raise UnusablePaperError("no_paper", "OpenReview has no public PDF of it")
        return reply.content

    def forget(self, forum: str | None = None) -> None:
        """Delete the kept replies about a submission, or all of them, so that they are requested again."""
        with self._storing():
            if forum is None:
                self._session.cache.clear()  # type: ignore[no-untyped-call]
            else:
                self._session.cache.delete(urls=self._pages.pop(forum, []))

    # --- requests ----------------------------------------------------------------------------------------------

    def _get(self, path: str, **query: str) -> requests.Response | None:
        """The reply to a request; None if there is no such group or PDF, or it is private."""
        address = f"{self.base}/{path}"
        for attempt in itertools.count(1):
            try:
                with self._storing():
                    return self._once(address, query)
            except _BusyError as busy:
                after = busy.retry_after
                if attempt == ATTEMPTS or after > LONGEST_WAIT_SECONDS:
                    then = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=min(after, 1e9))
                    raise UnansweredError(
                        f"{address} did not reply after {attempt} attempt{'s' * (attempt != 1)}: {busy}. Earlier "
                        "replies are cached. Run the same command again "
                        f"{f'after {then:%Y-%m-%d %H:%M:%S} UTC' if after else 'later'} to resume"
                    ) from busy
                self._say(f"{busy}; waiting before attempt {attempt + 1} of {ATTEMPTS}")
                time.sleep(max(after, self._pause, FIRST_WAIT_SECONDS * 2 ** (attempt - 1)))
        raise AssertionError("unreachable")

    def _once(self, address: str, query: Mapping[str, str]) -> requests.Response | None:
        try:
            reply = self._session.get(address, params=query, timeout=TIMEOUT_SECONDS)
        except requests.exceptions.Timeout as error:
            raise _BusyError(f"timed out after {TIMEOUT_SECONDS:g} seconds") from error
        except requests.exceptions.RequestException as error:
            raise _BusyError(f"the connection was lost ({type(error).__name__})") from error
        if not reply.from_cache:
            time.sleep(self._pause)
        status, fields = reply.status_code, _fields(reply)
        if status < 400 and _is_answer(reply):
            return reply
        name, said = (self._hidden(str(fields.get(key) or "")) for key in ("name", "message"))
        said = " ".join((said if fields else self._hidden(reply.text)).split())[:300]
        if status < 400:
            raise _BusyError(f"not a reply of OpenReview's API v{self.number}; a proxy may have answered instead")
        if status in BUSY:
            reset = (fields.get("details") or {}).get("resetTime")  # of OpenReview's rate limit
            after = seconds_until(reply.headers.get("Retry-After") or reset)
            pause = "" if after is None else f", retry after {round(after, 1):g} seconds"
            raise _BusyError(f"status {status}{pause}{f' ({said})' if said else ''}", after or 0.0)
        is_private = status == 403 and name in {"ForbiddenError", "Forbidden"}
        if _asked(reply) != "notes" and (status in {400, 404, 410} or is_private):
            return None
        shown = f"{address} returned {status}{f' {name[:60]}' if name else ''}: {said or 'no message'}"
        if status not in {401, 403}:
            raise UserError(shown)
        raise UserError(
            f"{shown}. Check that the account in OPENREVIEW_USERNAME has access"
            if self._token
            else f"{shown}. OpenReview is open to guests, but sometimes requires an account to keep bots out. Set "
            "OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD and run the same command again"
        )

    def _hidden(self, text: str) -> str:
        """A text of the server without the account's token, which it may repeat."""
        return text.replace(self._token, "…") if self._token else text

    def _login(self) -> str:
        """The token of the account in the environment; empty for a guest."""
        names = ("OPENREVIEW_USERNAME", "OPENREVIEW_PASSWORD")
        username, password = (os.environ.get(name, "") for name in names)
        if bool(username) != bool(password):
            present, absent = names if username else reversed(names)
            raise UserError(f"{present} is set, but {absent} is not. Set both, or unset both to continue as a guest")
        if not username:
            return ""
        given: Any = {"id": username, "password": password, "expiresIn": TOKEN_SECONDS}
        headers = {"User-Agent": self._session.headers["User-Agent"]}
        try:
            # a redirect could take the password to another host
            reply = requests.post(f"{self.base}/login", json=given, headers=headers, timeout=60, allow_redirects=False)
        except requests.exceptions.RequestException as error:
            problem = f"{self.base}/login did not reply ({type(error).__name__})"
            raise UnansweredError(f"{problem}. Try again later") from error
        fields = _fields(reply)
        if token := fields.get("token"):
            return str(token)
        said = str(fields.get("message") or f"status {reply.status_code}").replace(password, "…")
        raise UserError(
            f"{self.base} rejected the account in OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD: {said}. Correct both, "
            "or unset both to continue as a guest"
        )

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"{self._replies}: cannot store replies ({error}). Free some space, delete the file if it is damaged, "
                "or choose another folder"
            ) from error


def _is_final(reply: requests.Response) -> bool:
    """Whether a reply may be kept, as it is not likely to change. Takes the token out of it."""
    for redirect in reply.history:  # requests-cache takes the token out of the last request only
        redirect.request.headers.pop("Authorization", None)
    if reply.status_code != 200:
        return _asked(reply) == "pdf"
    return _is_answer(reply) and (_asked(reply) != "groups" or bool(_fields(reply)["groups"]))


def _is_answer(reply: requests.Response) -> bool:
    """Whether a reply is what was asked for, and not the page or message of a proxy."""
    kind = _asked(reply)
    if kind == "pdf":
        return b"%PDF-" in reply.content[:1024] or reply.content.lstrip()[:1] not in {b"<", b"{"}
    return isinstance(_fields(reply).get(kind), list)


def _asked(reply: requests.Response) -> str:
    """The last part of the address that was asked for."""
    return urlsplit((reply.history[0] if reply.history else reply).url).path.rpartition("/")[2]


def _fields(reply: requests.Response) -> dict[str, Any]:
    """The fields of a JSON object; none where it is something else."""
    try:
        data = orjson.loads(reply.content)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


# --- notes -----------------------------------------------------------------------------------------------------------


class _Note:
    """A note of either API."""

    def __init__(self, note: Mapping[str, Any], api: Literal[1, 2]) -> None:
        self.id, self.api, self.number = str(note["id"]), api, note.get("number")
        self.content = _plain(note.get("content"), api)
        self.invitations: list[str] = (note.get("invitations") if api == 2 else [note.get("invitation") or ""]) or []
        self.signature = next(iter(note.get("signatures") or ()), "").rpartition("/")[2]
        self.deleted = bool(note.get("ddate"))
        self.created: int = note.get("tcdate") or note.get("cdate") or 0
        public = min((note[name] for name in ("odate", "pdate") if note.get(name)), default=self.created)
        self.public_date = dt.datetime.fromtimestamp(public / 1000, dt.UTC).date().isoformat() if public else None

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
        return next((name for name, pattern in OUTCOMES.items() if any(map(pattern.search, said))), None)

    def refuse_unusable(self) -> None:
        """Raise if the submission cannot be used, judging by the list of submissions alone."""
        file = self.text("pdf")
        if self.deleted:
            raise UnusablePaperError("withdrawn", "deleted")
        if self.outcome is not None:
            raise UnusablePaperError(self.outcome, self.text("venue"))
        if not self.text("abstract"):
            raise UnusablePaperError("no_abstract", "its abstract is empty or not public")
        if not file.startswith("/"):
            raise UnusablePaperError("no_paper", f"its PDF is not at OpenReview: {file[:200] or 'none'}")

    def is_review(self, review_name: str) -> bool:
        """Whether it is a review by somebody the venue asked. ``review_name``: what an API v2 venue calls one."""
        if self.api == 2:
            return any(one.endswith(f"/-/{review_name}") for one in self.invitations)
        return any(one.lower().endswith(REVIEWS_V1) for one in self.invitations)


def _plain(content: Any, api: Literal[1, 2]) -> dict[str, Any]:
    """The content of a note or group as plain fields; on API v2, those without a value are left out."""
    if api == 1:
        return content or {}
    values = {name: field.get("value") for name, field in (content or {}).items()}
    return {name: value for name, value in values.items() if value is not None}


# --- the venue -------------------------------------------------------------------------------------------------------


class OpenReviewVenue:
    """A venue such as ``ICLR.cc/2023/Conference``; a PaperSource.

    ``cache``: folder for replies. ``say`` reports waits, ``reader`` converts PDFs to text.
    """

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
    ) -> None:
        if not venue or venue.startswith(("http:", "https:")) or venue != venue.strip("/") or len(venue.split()) != 1:
            inside = parse_qs(urlsplit(venue).query).get("id", ["ICLR.cc/2023/Conference"])[0]
            raise UserError(
                "--venue must be a name with parts separated by '/', as after 'id=' in the address of the "
                f"venue's page, got {venue!r}. Try {inside!r}"
            )
        self.name = venue
        self._bases = {1: api1, 2: api2}
        self._how: dict[str, Any] = {"cache": cache, "pause": seconds_between_requests, "say": say}
        self._say, self._reader = say, reader
        self._review_name = "Official_Review"
        self._api: _Api | None = None
        self._submissions: dict[str, _Note] = {}

    def papers(self) -> list[str]:
        """Sorted names of all submissions, including withdrawn and desk-rejected ones."""
        if self._api is None:
            self._api = self._list()
            left = Counter(one.outcome for one in self._submissions.values())
            self._say(
                f"{self.name}: {len(self._submissions)} submissions ({left['withdrawn']} withdrawn, "
                f"{left['desk_rejected']} desk-rejected)"
            )
        return sorted(self._submissions)

    def paper(self, name: str, *, reviews: int) -> Paper:
        """A submission with its reviews and text. ``reviews``: fewest that it needs. Raises if it cannot be used."""
        self.papers()
        submission, api = self._submissions[name], self._api
        assert api is not None
        submission.refuse_unusable()
        replies = [note for page in api.notes(forum=name) for note in page if note.id != name and not note.deleted]
        found = []
        for reply in sorted(replies, key=lambda reply: (reply.created, reply.id)):
            if reply.is_review(self._review_name):
                sections, extra = sections_and_extra(reply.content)
                found.append(HumanReview(reply.id, sections, {**extra, "reviewer": reply.signature}))
        written = tuple(review for review in found if says_something(review.sections))
        empty = len(found) - len(written)
        if len(written) < reviews:
            api.forget(name)
            detail = f"{len(written)} with text, {reviews} needed" + (f"; {empty} empty" if empty else "")
            raise UnusablePaperError("few_reviews", detail)
        text, pages = pdf_text(api.pdf(name), reader=self._reader)
        columns = {
            "title": submission.text("title"),
            "synopsis_abstract": submission.text("abstract"),
            "public_date": submission.public_date,
            "address": f"https://openreview.net/forum?id={quote(name, safe='')}",
            "number": submission.number,
            "venue": submission.text("venue"),
            "pages": pages,
            "empty_reviews": empty,
        }
        return Paper(name, text, columns, written)

    def _list(self) -> _Api:
        """List the submissions, from API v2 if the venue is there, else from v1. Raises UserError if there are none."""
        second = _Api(2, self._bases[2], **self._how)
        group = second.group(self.name)
        names = _plain(group.get("content"), 2) if group else {}
        # API v2 knows the groups of all venues; those of API v1 have neither domain nor content
        if group and (names or group.get("domain")):
            usual = f"{self.name}/-/{names.get('submission_name') or 'Submission'}"
            self._add(second, names.get("submission_id") or usual)
            if self._submissions:
                self._review_name = names.get("review_name") or self._review_name
                return second
        first = _Api(1, self._bases[1], **self._how)
        known = group is not None or first.group(self.name) is not None
        for word in SUBMISSIONS_V1 if known else ():
            self._add(first, f"{self.name}/-/{word}")
            if self._submissions:
                for left in LEFT_V1:
                    self._add(first, f"{self.name}/-/{left}")
                return first
        first.forget()  # papers may become public later
        asked = f"looked in {self._bases[2]} (API v2) and {self._bases[1]} (API v1)"
        raise UserError(
            f"OpenReview shows no submissions of {self.name!r} ({asked}). Its papers may not be public yet, or belong "
            "to a group below it, such as …/Conference or …/Workshop/NAME"
            if known
            else f"OpenReview has no public venue {self.name!r} ({asked}). Use what follows 'id=' in the address of "
            "its page, such as ICLR.cc/2023/Conference. Names are case-sensitive"
        )

    def _add(self, api: _Api, invitation: str) -> None:
        for page in api.notes(invitation=invitation):
            self._submissions |= {note.id: note for note in page}
            self._say(f"{invitation}: {len(page)} more, {len(self._submissions)} in total")
