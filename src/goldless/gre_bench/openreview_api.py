"""One of OpenReview's two APIs, asked through its own client library ``openreview-py``, and its notes in one form.

The library builds the requests and reads the answers; the session inside it is ours, so that requests are paced, a busy
server is waited for, and nothing is asked for twice. Submissions, reviews and comments are all notes. API v1 gives a
note one invitation and plain content; API v2 gives it several invitations and wraps each field of its content as
``{"value": …}``.
"""

from __future__ import annotations

import datetime as dt
import importlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import orjson

from goldless._version import __version__
from goldless.errors import PrerequisiteError, UserError
from goldless.gre_bench.polite_session import (
    KeptAnswers,
    Pace,
    Patience,
    PoliteSession,
    RefusedError,
    Say,
    UnansweredError,
)

Api = Literal[1, 2]
"""Which of the two APIs."""

_OUTCOMES: tuple[tuple[Literal["withdrawn", "desk_rejected"], re.Pattern[str]], ...] = (
    ("withdrawn", re.compile(r"withdrawn", re.IGNORECASE)),
    ("desk_rejected", re.compile(r"desk[ _-]?reject", re.IGNORECASE)),
)
_FIRST_REVIEWS = ("/official_review", "/official/review")
"""How invitations to review end on API v1, through the years."""


@dataclass(frozen=True, slots=True)
class Posting:
    """A note."""

    id: str
    api: Api
    invitations: tuple[str, ...]
    """What it answers: names such as ``ICLR.cc/2024/Conference/-/Submission``."""
    content: Mapping[str, Any]
    """Fields by name, without the wrapping of API v2."""
    number: int | None = None
    signature: str = ""
    """Last part of its author's name, such as ``Reviewer_a1B2``."""
    created: int | None = None
    """When it was written, in milliseconds since 1970."""
    public_date: str | None = None
    """Day from which everybody could read it, as an ISO date in UTC."""
    deleted: bool = False

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

    def is_review(self, review_name: str) -> bool:
        """Whether it is a review by somebody the venue asked. ``review_name``: what an API v2 venue calls one."""
        if self.api == 2:
            return any(invitation.endswith(f"/-/{review_name}") for invitation in self.invitations)
        return any(invitation.lower().endswith(_FIRST_REVIEWS) for invitation in self.invitations)


def posting_of(note: Any, api: Api) -> Posting | None:
    """A note as the client gives it, in our form; none where it has no name."""
    if not isinstance(note.id, str) or not note.id:
        return None
    invitations = [note.invitation] if api == 1 else note.invitations
    content = note.content if isinstance(note.content, dict) else {}
    opened = [when for when in map(_milliseconds, (note.odate, note.pdate)) if when is not None]
    written = next((when for when in map(_milliseconds, (note.tcdate, note.cdate)) if when is not None), None)
    return Posting(
        id=note.id,
        api=api,
        invitations=tuple(_texts(invitations)),
        content=plain_content(content) if api == 2 else content,
        number=note.number if isinstance(note.number, int) else None,
        signature=next(iter(_texts(note.signatures)), "").rpartition("/")[2],
        created=written,
        public_date=_day(min(opened) if opened else written),
        deleted=_milliseconds(note.ddate) is not None,
    )


def plain_content(content: Any) -> dict[str, Any]:
    """The content of an API v2 note or group without its wrapping. Fields without a value are left out."""
    if not isinstance(content, dict):
        return {}
    return {
        name: field["value"]
        for name, field in content.items()
        if isinstance(field, dict) and field.get("value") is not None
    }


def _texts(values: Any) -> Iterable[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _milliseconds(value: Any) -> int | None:
    """A time in milliseconds since 1970; none where it is no time of this calendar."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 253_402_300_800_000:
        return None
    return int(value)


def _day(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).date().isoformat()


PAGE = 1000
"""Maximum number of notes per page."""
MOST_PAGES = 3
"""With this many web pages instead of PDFs in a row, the papers are not to blame."""
_ACCOUNT = ("OPENREVIEW_USERNAME", "OPENREVIEW_PASSWORD")


class OpenReviewApi:
    """One API. Reads only; as a guest, or with the account that the environment names."""

    def __init__(self, api: Api, base: str, *, answers: KeptAnswers, pace: Pace, patience: Patience, say: Say) -> None:
        """Prepare the client; nothing is asked for yet, not even a login."""
        self.api: Api = api
        self.base = base.rstrip("/")
        kind = _client_class(api)
        # The library logs in while its client is made, over a session of its own; ours does when it first has to ask.
        waiting = type(kind.__name__, (kind,), {"login_user": lambda *_, **__: None})
        try:
            self._client: Any = waiting(baseurl=self.base)
        except Exception as error:
            raise UserError(f"{self.base} cannot be used as the address of OpenReview's API v{api}: {error}") from error
        self._session = PoliteSession(
            answers,
            worth_keeping=_worth_keeping,
            pace=pace,
            patience=patience,
            user_agent=f"goldless/{__version__} {self._client.user_agent}",
            say=say,
        )
        self._client.session = self._session
        self._pages_in_a_row = 0
        account = _account()
        if account is not None:
            self._session.log_in = lambda: self._log_in(kind, *account)

    def group(self, name: str) -> Mapping[str, Any] | None:
        """The group of a venue, with its ``domain``; None if it does not exist or is not visible to us."""
        try:
            group = self._asked(partial(self._client.get_group, name))
        except RefusedError as refusal:
            if refusal.status in {400, 404} or _is_private(refusal):
                return None
            raise
        except IndexError:  # an empty list of groups
            return None
        return plain_content(getattr(group, "content", None)) | {"domain": group.domain}

    def pages(self, *, oldest_seconds: float = math.inf, **query: str) -> Iterator[list[Posting]]:
        """All notes that match, page by page, in the order of their names; what was kept longer ago is asked again."""
        seen: set[str] = set()
        ask = partial(self._client.get_notes, **query, sort="id", limit=PAGE)
        notes, count = self._asked(partial(ask, with_count=True), oldest_seconds)
        while True:
            page = [posting for note in notes if (posting := posting_of(note, self.api)) and posting.id not in seen]
            if page:
                yield page
            seen.update(posting.id for posting in page)
            if not page or len(seen) >= count:
                return
            notes = self._asked(partial(ask, after=page[-1].id), oldest_seconds)

    def pdf(self, note: str) -> bytes | str:
        """The PDF of a submission, or the reason why there is none."""
        try:
            data = self._asked(partial(self._client.get_pdf, note))
            if _is_page(data):  # it may have been a passing one
                data = self._asked(partial(self._client.get_pdf, note))
        except RefusedError as refusal:
            if refusal.status in {400, 404, 410}:
                return f"OpenReview has no PDF of it (status {refusal.status})"
            if _is_private(refusal):
                return "its PDF is not public (status 403)"
            raise
        self._pages_in_a_row = self._pages_in_a_row + 1 if _is_page(data) else 0
        if self._pages_in_a_row == MOST_PAGES:
            raise UnansweredError(
                f"{self.base} returned web pages or messages instead of {MOST_PAGES} PDFs in a row, the last for "
                f"{note}. Check whether a proxy intercepts the requests. {self._advice()}"
            )
        return bytes(data) or "OpenReview returned an empty file"

    def forget(self) -> None:
        """Delete every cached reply used through this object, so that another run requests it again."""
        self._session.forget()

    def forget_replies(self, forum: str) -> None:
        """Delete the cached replies to a submission, so that another run requests them again."""
        self._session.forget(lambda address: parse_qs(urlsplit(address).query).get("forum") == [forum])

    def _asked(self, ask: Callable[[], Any], oldest_seconds: float = math.inf) -> Any:
        """The library's result. Refusals that concern the account end with advice."""
        self._session.oldest_seconds = oldest_seconds
        try:
            return ask()
        except RefusedError as refusal:
            if refusal.status == 401 or (refusal.status == 403 and not _is_private(refusal)):
                raise UserError(f"{refusal}. {self._advice()}") from refusal
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UnansweredError(
                f"{self.base} did not return a valid reply of OpenReview's API v{self.api} "
                f"({type(error).__name__}: {error}). Check the address, and whether a proxy intercepts the requests"
            ) from error

    def _advice(self) -> str:
        if self._session.log_in is not None:
            return "Check that the account in OPENREVIEW_USERNAME has access"
        return (
            "OpenReview is open to guests, but sometimes requires an account to keep bots out. Set "
            "OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD and run the same command again"
        )

    def _log_in(self, kind: Any, username: str, password: str) -> Mapping[str, str]:
        openreview = importlib.import_module("openreview")
        try:
            kind.login_user(self._client, username, password)
        except (RefusedError, openreview.OpenReviewException) as error:
            raise UserError(
                f"{self.base} rejected the account in OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD: "
                f"{str(error).replace(password, '…')}. Correct both, or unset both to continue as a guest"
            ) from error
        return {"Authorization": str(self._client.headers["Authorization"])}


def _client_class(api: Api) -> Any:
    try:
        openreview = importlib.import_module("openreview")
        return openreview.Client if api == 1 else importlib.import_module("openreview.api").OpenReviewClient
    except ImportError as error:
        raise PrerequisiteError(
            f"collecting from OpenReview needs openreview-py ({error}). Run: pip install 'goldless[gre]'"
        ) from error


def _account() -> tuple[str, str] | None:
    """User name and password from the environment; none for a guest."""
    username, password = (os.environ.get(name, "") for name in _ACCOUNT)
    if bool(username) != bool(password):
        present, absent = _ACCOUNT if username else reversed(_ACCOUNT)
        raise UserError(f"{present} is set, but {absent} is not. Set both, or unset both to continue as a guest")
    return (username, password) if username else None


def _is_page(data: bytes) -> bool:
    """Whether it is a web page or a message instead of a PDF."""
    return b"%PDF-" not in data[:1024] and data.lstrip()[:1] in {b"<", b"{"}


def _is_private(refusal: RefusedError) -> bool:
    """Whether only this item is private, rather than a login being required (``ChallengeRequiredError`` and others)."""
    return refusal.status == 403 and refusal.name in {"ForbiddenError", "Forbidden"}


def _worth_keeping(address: str, status: int, body: bytes) -> bool:
    """Whether a reply is final: not a proxy's page, and not likely to change."""
    kind = urlsplit(address).path.rpartition("/")[2]
    if kind == "pdf":
        return status in {404, 410} or (status == 200 and b"%PDF-" in body[:1024])
    if status != 200:
        return False
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(data, dict) and isinstance(data.get(kind), list) and (kind == "notes" or bool(data[kind]))
