"""One of OpenReview's two APIs, asked through its own client library over a session that caches replies.

``requests-cache`` keeps every final reply in one SQLite file, without the token of an account, so that an interrupted
collection resumes without asking again. What is not there is sent through an adapter that keeps a distance between
requests and waits for a busy server with ``tenacity``.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import openreview
import orjson
import requests
import tenacity
from requests.adapters import HTTPAdapter
from requests_cache import CachedSession

from goldless._version import __version__
from goldless.apps.gre.paper_text import UnusablePaperError
from goldless.apps.gre.papers import UnansweredError
from goldless.errors import UserError
from goldless.models.http_api.limits import seconds_until

Api = Literal[1, 2]
"""Which of the two APIs."""
Say = Callable[[str], None]
REPLIES = "replies.sqlite"
"""File of the cached replies. Delete it to have everything requested again."""
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
"""Statuses that may pass: of a busy server, or of a gateway that has lost it."""
ACCOUNT = ("OPENREVIEW_USERNAME", "OPENREVIEW_PASSWORD")
PAGE = 1000
"""Maximum number of notes per page."""
TOKEN_SECONDS = 7 * 24 * 60 * 60
"""How long a login holds: the longest that OpenReview allows, as a collection may take hours."""
MOST_PAGES = 3
"""With this many web pages instead of PDFs in a row, the papers are not to blame."""


class RefusedError(UserError):
    """The server refused a request."""

    def __init__(self, message: str, *, status: int, name: str) -> None:
        self.status = status
        self.name = name
        """The server's name of the error."""
        super().__init__(message)

    @property
    def is_private(self) -> bool:
        """Whether only this item is private, rather than a login being required (``ChallengeRequiredError``)."""
        return self.status == 403 and self.name in {"ForbiddenError", "Forbidden"}


class _BusyError(Exception):
    """An attempt that failed for a reason that may pass."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Patience:
    """Retries of a request that a busy server did not answer."""

    retries: int = 5
    timeout_seconds: float = 60.0
    wait_initial_seconds: float = 1.0
    """Wait before the second attempt; it doubles from there."""
    wait_max_seconds: float = 60.0
    longest_retry_after_seconds: float = 300.0
    """If the server requests a longer pause, the collection ends, to be resumed later."""


class OpenReviewApi:
    """One API. Reads only; as a guest, or with the account that the environment names."""

    def __init__(self, api: Api, base: str, *, cache: Path, pause: float, patience: Patience, say: Say) -> None:
        """Prepare the client, and log in where there is an account. ``pause``: seconds between requests."""
        self.api: Api = api
        self.base = base.rstrip("/")
        self._account = _account()
        kind = openreview.Client if api == 1 else openreview.api.OpenReviewClient
        try:
            self._client: Any = kind(self.base, *(self._account or ()), tokenExpiresIn=TOKEN_SECONDS)
        except Exception as error:
            raise self._unusable(error) from error
        self._replies = cache / REPLIES
        try:
            # JSON, as a pickled reply in an edition from elsewhere could run code
            self._session = _Session(
                self._replies, serializer="json", allowable_codes=(200, 404, 410), filter_fn=_is_final
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unstorable(error) from error
        adapter = _PatientAdapter(pause=pause, patience=patience, say=say)
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, adapter)
        self._client.session = self._session
        self._client.headers["User-Agent"] = f"goldless/{__version__} {self._client.user_agent}"
        self._pages_in_a_row = 0

    def group(self, name: str) -> Any:
        """The group of a venue; None if it does not exist or is not visible to us."""
        try:
            return self._asked("get_group", name)
        except RefusedError as refusal:
            if refusal.status in {400, 404} or refusal.is_private:
                return None
            raise
        except IndexError:  # an empty list of groups
            return None

    def notes(self, **query: str) -> Iterator[list[Any]]:
        """All notes that match, page by page, in the order of their names."""
        seen: set[str] = set()
        ask = partial(self._asked, "get_notes", **query, sort="id", limit=PAGE)
        notes, count = ask(with_count=True)
        while True:
            page = [note for note in notes if isinstance(note.id, str) and note.id and note.id not in seen]
            if page:
                yield page
            seen.update(note.id for note in page)
            if not page or len(seen) >= count:
                return
            notes = ask(after=page[-1].id)

    def pdf(self, note: str) -> bytes:
        """The PDF of a submission. Raises if there is none."""
        try:
            data: bytes = self._asked("get_pdf", note)
            if _is_page(data):  # it may have been a passing one
                data = self._asked("get_pdf", note)
        except RefusedError as refusal:
            if refusal.status in {400, 404, 410}:
                detail = f"OpenReview has no PDF of it (status {refusal.status})"
                raise UnusablePaperError("no_paper", detail) from refusal
            if refusal.is_private:
                raise UnusablePaperError("no_paper", "its PDF is not public (status 403)") from refusal
            raise
        self._pages_in_a_row = self._pages_in_a_row + 1 if _is_page(data) else 0
        if self._pages_in_a_row == MOST_PAGES:
            raise UnansweredError(
                f"{self.base} returned web pages or messages instead of {MOST_PAGES} PDFs in a row, the last for "
                f"{note}. Check whether a proxy intercepts the requests. {self._advice()}"
            )
        return data

    def forget(self, forum: str | None = None, *, older_than_seconds: float = 0.0) -> None:
        """Delete the cached replies to what was asked here, so that they are requested again.

        ``forum``: only those about this submission. ``older_than_seconds``: only those that are older.
        """
        latest = datetime.now(UTC) - timedelta(seconds=older_than_seconds)
        for address, created in [*self._session.used.items()]:
            about = parse_qs(urlsplit(address).query).get("forum")
            if (forum is None or about == [forum]) and created <= latest:
                self._session.cache.delete(urls=[address])

    def _asked(self, method: str, *args: Any, **query: Any) -> Any:
        """The result of one of the client's methods. Refusals that concern the account end with advice."""
        try:
            return getattr(self._client, method)(*args, **query)
        except RefusedError as refusal:
            if refusal.status == 401 or (refusal.status == 403 and not refusal.is_private):
                raise UserError(f"{refusal}. {self._advice()}") from refusal
            raise
        except sqlite3.Error as error:
            raise self._unstorable(error) from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UnansweredError(
                f"{self.base} did not return a valid reply of OpenReview's API v{self.api} "
                f"({type(error).__name__}: {error}). Check the address, and whether a proxy intercepts the requests"
            ) from error

    def _unstorable(self, error: Exception) -> UserError:
        return UserError(
            f"{self._replies}: cannot store replies ({error}). Free some space, delete the file if it is damaged, or "
            "choose another folder"
        )

    def _advice(self) -> str:
        if self._account:
            return "Check that the account in OPENREVIEW_USERNAME has access"
        return (
            "OpenReview is open to guests, but sometimes requires an account to keep bots out. Set "
            "OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD and run the same command again"
        )

    def _unusable(self, error: Exception) -> UserError:
        if self._account is None:
            return UserError(f"{self.base} cannot be used as the address of OpenReview's API v{self.api}: {error}")
        return UserError(
            f"{self.base} rejected the account in OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD: "
            f"{str(error).replace(self._account[1], '…')}. Correct both, or unset both to continue as a guest"
        )


class _Session(CachedSession):
    """A session with cached replies that raises RefusedError for a status of 400 and above."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.used: dict[str, datetime] = {}
        """Age of the last reply to each address that was asked for."""

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> Any:
        reply = super().send(request, *args, **options)
        created = getattr(reply, "created_at", None) or datetime.now(UTC)
        self.used[str(request.url)] = created if created.tzinfo else created.replace(tzinfo=UTC)
        if reply.status_code < 400:
            return reply
        name, said = _error(reply)
        token = str(request.headers.get("Authorization", "")).removeprefix("Bearer ")
        said = said.replace(token, "…") if token else said
        shown = f"{reply.status_code}{f' {name[:60]}' if name else ''}: {said or 'no message'}"
        raise RefusedError(f"{_shown(request)} returned {shown}", status=reply.status_code, name=name)


class _PatientAdapter(HTTPAdapter):
    """Sends requests at a distance from each other, and retries while the server is busy."""

    def __init__(self, *, pause: float, patience: Patience, say: Say) -> None:
        super().__init__()
        self._pause = pause
        self._patience = patience
        self._say = say
        self._next = 0.0

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        patience = self._patience
        usual = tenacity.wait_exponential(patience.wait_initial_seconds, patience.wait_max_seconds)
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda error: (
                    isinstance(error, _BusyError) and (error.retry_after or 0.0) <= patience.longest_retry_after_seconds
                )
            ),
            wait=lambda state: max(_failure(state).retry_after or 0.0, usual(state)),
            stop=tenacity.stop_after_attempt(patience.retries + 1),
            before_sleep=lambda state: self._say(
                f"{_failure(state)}; waiting before attempt {state.attempt_number + 1} of {patience.retries + 1}"
            ),
            reraise=True,
        )
        try:
            return retrying(self._once, request, **options)
        except _BusyError as busy:
            made = retrying.statistics["attempt_number"]
            raise UnansweredError(
                f"{_shown(request)} did not reply after {made} attempt{'s' * (made != 1)}: {busy}. Earlier "
                f"replies are cached. Run the same command again {_when(busy.retry_after)} to resume"
            ) from busy

    def _once(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + self._pause
        timeout = self._patience.timeout_seconds
        try:
            reply = super().send(request, **{**options, "timeout": timeout})
            content = reply.content  # read here, so that a connection that is lost on the way is retried
        except requests.exceptions.SSLError as error:
            raise UnansweredError(f"{_shown(request)}: the connection is not secure ({error})") from error
        except requests.exceptions.Timeout as error:
            raise _BusyError(f"timed out after {timeout:g} seconds") from error
        except requests.exceptions.RequestException as error:
            raise _BusyError(f"the connection was lost ({type(error).__name__})") from error
        if reply.status_code not in BUSY:
            return reply
        after = seconds_until(reply.headers.get("Retry-After"))
        if after is None:
            after = _until_reset(content)
        pause = "" if after is None else f", retry after {round(after, 1):g} seconds"
        said = _error(reply)[1]
        raise _BusyError(f"status {reply.status_code}{pause}{f' ({said})' if said else ''}", retry_after=after)


def _account() -> tuple[str, str] | None:
    """User name and password from the environment; None for a guest."""
    username, password = (os.environ.get(name, "") for name in ACCOUNT)
    if bool(username) != bool(password):
        present, absent = ACCOUNT if username else reversed(ACCOUNT)
        raise UserError(f"{present} is set, but {absent} is not. Set both, or unset both to continue as a guest")
    return (username, password) if username else None


def _failure(state: tenacity.RetryCallState) -> Any:
    return state.outcome.exception() if state.outcome is not None else None


def _is_page(data: bytes) -> bool:
    """Whether it is a web page or a message instead of a PDF."""
    return b"%PDF-" not in data[:1024] and data.lstrip()[:1] in {b"<", b"{"}


def _is_final(reply: requests.Response) -> bool:
    """Whether a reply may be cached: not a proxy's page, and not likely to change."""
    asked = reply.history[0] if reply.history else reply
    kind = urlsplit(asked.url).path.rpartition("/")[2]
    if kind == "pdf":
        return reply.status_code in {404, 410} or (reply.status_code == 200 and b"%PDF-" in reply.content[:1024])
    found = _fields(reply.content).get(kind)
    return reply.status_code == 200 and isinstance(found, list) and (kind == "notes" or bool(found))


def _fields(body: bytes) -> Mapping[str, Any]:
    """The fields of a JSON object; none where it is something else."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


def _error(reply: requests.Response) -> tuple[str, str]:
    """The server's name of an error, if any, and its message on one line."""
    fields = _fields(reply.content)
    said = str(fields.get("message") or "") if fields else reply.content.decode(errors="replace")
    return str(fields.get("name") or ""), " ".join(said.split())[:300]


def _until_reset(body: bytes) -> float | None:
    """Seconds until OpenReview's rate limit resets, as stated in its reply."""
    try:
        then = datetime.fromisoformat(_fields(body)["details"]["resetTime"])
    except (KeyError, TypeError, ValueError):
        return None
    return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())


def _when(after: float | None) -> str:
    """When to try again."""
    try:
        then = datetime.now(UTC) + timedelta(seconds=after or 0.0)
    except OverflowError:
        return "later"
    return f"after {then:%Y-%m-%d %H:%M:%S} UTC" if after else "later"


def _shown(request: requests.PreparedRequest) -> str:
    """The address without its parameters, which may be long."""
    return str(request.url).partition("?")[0]
