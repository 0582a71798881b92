"""A venue at OpenReview as a source of papers: its submissions, their reviews and their PDFs.

Venues live on one of two APIs: ICLR 2023 and earlier on v1, ICLR 2024 and later on v2. Submissions, reviews and
comments are all notes. API v1 gives a note one invitation and plain content; API v2 gives it several invitations and
wraps each field of its content as ``{"value": …}``.

Final replies are kept in one SQLite file, so an interrupted collection resumes where it stopped. Only a paper with too
few reviews is asked about again: they may not have been public yet.
"""

from __future__ import annotations

import datetime as dt
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

from goldless import __version__
from goldless.apps.gre.paper_text import pdf_text
from goldless.apps.gre.papers import HumanReview, Paper, Reason, UnansweredError, UnusablePaperError
from goldless.apps.gre.review_form import says_something, sections_and_extra
from goldless.errors import UserError
from goldless.models.http_api.client import seconds_until

Say = Callable[[str], None]
REPLIES = "replies.sqlite"
"""File of the kept replies. Delete it to have everything requested again."""
AGENT = f"goldless/{__version__}"
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
"""Statuses that may pass: of a busy server, or of a gateway that has lost it."""
ATTEMPTS = 6
TIMEOUT_SECONDS = 60.0
FIRST_WAIT_SECONDS = 1.0
"""Before the second attempt; it doubles from there."""
LONGEST_WAIT_SECONDS = 300.0
"""If the server asks for a longer pause, the collection ends, to be resumed later."""
ACCOUNT = ("OPENREVIEW_USERNAME", "OPENREVIEW_PASSWORD")
SUBMISSIONS_V1 = ("Blind_Submission", "Submission", "submission")
"""Names of submissions in API v1: double blind, single blind, and until 2017."""
LEFT_V1 = ("Withdrawn_Submission", "Desk_Rejected_Submission")
"""Names of submissions in API v1 that are no longer under review."""
REVIEWS_V1 = ("/official_review", "/official/review")
"""Endings of invitations to review on API v1, through the years."""
OUTCOMES: Mapping[Reason, re.Pattern[str]] = {
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
        with self._storing():
            # JSON, as a pickled reply in an edition from elsewhere could run code
            self._session = CachedSession(
                self._replies, serializer="json", allowable_codes=(200, 404, 410), filter_fn=_is_final
            )
        self._session.headers["User-Agent"] = AGENT
        self._token = self._login()
        if self._token:
            self._session.headers["Authorization"] = f"Bearer {self._token}"

    def _login(self) -> str:
        """The token of the account in the environment; empty for a guest."""
        username, password = (os.environ.get(name, "") for name in ACCOUNT)
        if bool(username) != bool(password):
            present, absent = ACCOUNT if username else reversed(ACCOUNT)
            raise UserError(f"{present} is set, but {absent} is not. Set both, or unset both to continue as a guest")
        if not username:
            return ""
        # a login lasts a week, the longest that OpenReview allows; a redirect could take the password to another host
        given: Any = {"id": username, "password": password, "expiresIn": 7 * 24 * 60 * 60}
        named = {"User-Agent": AGENT}
        try:
            reply = requests.post(f"{self.base}/login", json=given, headers=named, timeout=60, allow_redirects=False)
        except requests.exceptions.RequestException as error:
            raise UnansweredError(f"{self.base}/login did not reply ({type(error).__name__}). Try later") from error
        fields = _fields(reply)
        if token := fields.get("token"):
            return str(token)
        said = str(fields.get("message") or f"status {reply.status_code}").replace(password, "…")
        raise UserError(
            f"{self.base} rejected the account in {' and '.join(ACCOUNT)}: {said}. Correct both, or unset both to "
            "continue as a guest"
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

    def get(self, path: str, **query: str) -> requests.Response | None:
        """The reply to a request; None if there is no such group or PDF, or it is private."""
        address, attempt = f"{self.base}/{path}", 1
        while True:
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
                attempt += 1
                self._say(f"{busy}; waiting before attempt {attempt} of {ATTEMPTS}")
                time.sleep(max(after, self._pause, FIRST_WAIT_SECONDS * 2 ** (attempt - 2)))

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
        if status < 400:
            if _is_answer(reply):
                return reply
            raise _BusyError(f"not a reply of OpenReview's API v{self.number}; a proxy may have answered instead")
        name, said = str(fields.get("name") or ""), str(fields.get("message") or "") if fields else reply.text
        if self._token:  # a server may repeat it
            name, said = (text.replace(self._token, "…") for text in (name, said))
        said = " ".join(said.split())[:300]
        if status in BUSY:
            reset = (fields.get("details") or {}).get("resetTime")  # of OpenReview's rate limit
            after = seconds_until(reply.headers.get("Retry-After") or reset)
            pause = "" if after is None else f", retry after {round(after, 1):g} seconds"
            raise _BusyError(f"status {status}{pause}{f' ({said})' if said else ''}", after or 0.0)
        is_private = status == 403 and name in {"ForbiddenError", "Forbidden"}
        if _asked(reply) != "notes" and (status in {400, 404, 410} or is_private):
            return None
        advice = ""
        if status in {401, 403}:
            advice = (
                f". Check that the account in {ACCOUNT[0]} has access"
                if self._token
                else ". OpenReview is open to guests, but sometimes requires an account to keep bots out. Set "
                f"{' and '.join(ACCOUNT)} and run the same command again"
            )
        raise UserError(f"{address} returned {status}{f' {name[:60]}' if name else ''}: {said or 'no message'}{advice}")

    def group(self, name: str) -> dict[str, Any] | None:
        """The group of a venue; None if it does not exist or is not visible to us."""
        reply = self.get("groups", id=name)
        return None if reply is None else next(iter(_fields(reply)["groups"]), None)

    def notes(self, **query: str) -> Iterator[tuple[str, list[_Note]]]:
        """All notes that match, page by page with its address, in the order of their names."""
        seen: set[str] = set()
        after: dict[str, str] = {}
        while True:
            reply = self.get("notes", **query, sort="id", limit="1000", **after)
            assert reply is not None
            found = _fields(reply)
            page = [note for note in found["notes"] if note.get("id") and note["id"] not in seen]
            seen.update(note["id"] for note in page)
            yield reply.url, [_Note(note, self.number) for note in page]
            if not page or len(seen) >= found.get("count", 0):
                return
            after = {"after": page[-1]["id"]}

    def forget(self, addresses: list[str] | None = None) -> None:
        """Delete the kept replies of these addresses, or all of them, so that they are requested again."""
        with self._storing():
            if addresses is None:
                self._session.cache.clear()  # type: ignore[no-untyped-call]
            else:
                self._session.cache.delete(urls=addresses)


def _is_final(reply: requests.Response) -> bool:
    """True if a reply may be kept, as it is not likely to change. Takes the token out of it."""
    for redirect in reply.history:  # requests-cache takes the token out of the last request only
        redirect.request.headers.pop("Authorization", None)
    if reply.status_code != 200:
        return _asked(reply) == "pdf"
    return _is_answer(reply) and (_asked(reply) != "groups" or bool(_fields(reply)["groups"]))


def _is_answer(reply: requests.Response) -> bool:
    """True if a reply is what was asked for, and not the page or message of a proxy."""
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
        """A field of its content without space around it; empty where it has no text."""
        value = self.content.get(field)
        return value.strip() if isinstance(value, str) else ""

    @property
    def outcome(self) -> Reason | None:
        """True if the submission was taken back or never reviewed.

        On API v2 the name of the venue it now belongs to decides: a withdrawal that was undone leaves its invitation
        behind. On API v1 a note moves to another invitation, and its venue is often empty.
        """
        venue_id = self.text("venueid").rpartition("/")[2]
        said = [venue_id, self.text("venue")]
        if self.api == 1 or not venue_id:
            said += [invitation.rpartition("/")[2] for invitation in self.invitations]
        return next((name for name, pattern in OUTCOMES.items() if any(map(pattern.search, said))), None)

    def is_review(self, review_name: str) -> bool:
        """True if it is a review by somebody the venue asked. ``review_name``: what an API v2 venue calls one."""
        if self.api == 2:
            return any(one.endswith(f"/-/{review_name}") for one in self.invitations)
        return any(one.lower().endswith(REVIEWS_V1) for one in self.invitations)


def _plain(content: Any, api: Literal[1, 2]) -> dict[str, Any]:
    """The content of a note or group as plain fields; on API v2, those without a value are left out."""
    if api == 1:
        return content or {}
    values = {name: field.get("value") for name, field in (content or {}).items()}
    return {name: value for name, value in values.items() if value is not None}


class OpenReviewVenue:
    """A venue such as ``ICLR.cc/2023/Conference``; a PaperSource.

    ``cache``: folder for replies. ``say`` reports waits.
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
        self._say = say
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

    def _list(self) -> _Api:
        """List the submissions, from API v2 if the venue is there, else from v1. Raises UserError if there are none."""
        second = _Api(2, self._bases[2], **self._how)
        group = second.group(self.name)
        names = _plain(group.get("content"), 2) if group else {}
        # API v2 knows the groups of all venues; those of API v1 have neither domain nor content
        if group and (names or group.get("domain")):
            usual = f"{self.name}/-/{names.get('submission_name') or 'Submission'}"
            self._review_name = names.get("review_name") or self._review_name
            if self._add(second, names.get("submission_id") or usual):
                return second
        first = _Api(1, self._bases[1], **self._how)
        known = group is not None or first.group(self.name) is not None
        if known and any(self._add(first, f"{self.name}/-/{word}") for word in SUBMISSIONS_V1):
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

    def _add(self, api: _Api, invitation: str) -> bool:
        """Add the submissions under an invitation; says whether there are any now."""
        for _, page in api.notes(invitation=invitation):
            self._submissions |= {note.id: note for note in page}
            if page:
                self._say(f"{invitation}: {len(page)} more, {len(self._submissions)} in total")
        return bool(self._submissions)

    def paper(self, name: str, *, reviews: int) -> Paper:
        """A submission with its reviews and text. ``reviews``: fewest that it needs. Raises if it cannot be used."""
        self.papers()
        submission, api = self._submissions[name], self._api
        assert api is not None
        if submission.deleted or submission.outcome is not None:
            raise UnusablePaperError(submission.outcome or "withdrawn", submission.text("venue") or "deleted")
        if not submission.text("abstract"):
            raise UnusablePaperError("no_abstract", "its abstract is empty or not public")
        if not submission.text("pdf").startswith("/"):
            raise UnusablePaperError(
                "no_paper", f"its PDF is not at OpenReview: {submission.text('pdf')[:200] or 'none'}"
            )
        pages = dict(api.notes(forum=name))
        found = []
        for note in sorted((note for page in pages.values() for note in page), key=lambda one: (one.created, one.id)):
            if note.id != name and not note.deleted and note.is_review(self._review_name):
                sections, extra = sections_and_extra(note.content)
                found.append(HumanReview(note.id, sections, {**extra, "reviewer": note.signature}))
        written = tuple(review for review in found if says_something(review.sections))
        empty = len(found) - len(written)
        if len(written) < reviews:
            api.forget(list(pages))
            detail = f"{len(written)} with text, {reviews} needed" + (f"; {empty} empty" if empty else "")
            raise UnusablePaperError("few_reviews", detail)
        reply = api.get("pdf", id=name)
        if reply is None:
            raise UnusablePaperError("no_paper", "OpenReview has no public PDF of it")
        text, count = pdf_text(reply.content)
        columns = {
            "title": submission.text("title"),
            "synopsis_abstract": submission.text("abstract"),
            "public_date": submission.public_date,
            "address": f"https://openreview.net/forum?id={quote(name, safe='')}",
            "number": submission.number,
            "venue": submission.text("venue"),
            "pages": count,
            "empty_reviews": empty,
        }
        return Paper(name, text, columns, written)
