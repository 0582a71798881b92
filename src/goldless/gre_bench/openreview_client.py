"""One of OpenReview's two APIs, asked through its own client library ``openreview-py``.

The library builds the requests and reads the answers; the session inside it is ours, so that requests are paced, a busy
server is waited for, and nothing is asked for twice.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import orjson

from goldless._version import __version__
from goldless.errors import PrerequisiteError, UserError
from goldless.gre_bench.kept_answers import KeptAnswers
from goldless.gre_bench.openreview_notes import Api, Posting, plain_content, posting_of
from goldless.gre_bench.polite_session import Pace, Patience, PoliteSession, RefusedError, Say, UnansweredError

PAGE = 1000
"""Most notes that OpenReview gives at once."""
MOST_PAGES = 3
"""So many web pages in place of PDFs, one after the other, are no fault of the papers."""
_ACCOUNT = ("OPENREVIEW_USERNAME", "OPENREVIEW_PASSWORD")
Result = TypeVar("Result")


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
        """What a venue says of itself, with its ``domain``; none where there is no such venue for us."""
        try:
            group = self._asked(lambda: self._client.get_group(name))
        except RefusedError as refusal:
            if refusal.status in {400, 404} or _is_private(refusal):
                return None
            raise
        except IndexError:  # an empty list of groups
            return None
        return plain_content(getattr(group, "content", None)) | {"domain": group.domain}

    def pages(self, **query: str) -> Iterator[list[Posting]]:
        """All notes that match, page by page, in the order of their names."""
        seen: set[str] = set()
        notes, count = self._asked(lambda: self._client.get_notes(**query, sort="id", limit=PAGE, with_count=True))
        while True:
            page = [posting for note in notes if (posting := posting_of(note, self.api)) and posting.id not in seen]
            if page:
                yield page
            seen.update(posting.id for posting in page)
            if not page or len(seen) >= count:
                return
            last = page[-1].id
            notes = self._asked(lambda: self._client.get_notes(**query, sort="id", limit=PAGE, after=last))  # noqa: B023 called at once

    def pdf(self, note: str) -> bytes | str:
        """The PDF of a submission, or why there is none."""
        try:
            data = self._asked(lambda: self._client.get_pdf(note))
            if _is_page(data):  # it may have been a passing one
                data = self._asked(lambda: self._client.get_pdf(note))
        except RefusedError as refusal:
            if refusal.status in {400, 404, 410}:
                return f"OpenReview has no PDF of it (status {refusal.status})"
            if _is_private(refusal):
                return "OpenReview does not show its PDF to us (status 403)"
            raise
        self._pages_in_a_row = self._pages_in_a_row + 1 if _is_page(data) else 0
        if self._pages_in_a_row == MOST_PAGES:
            raise UnansweredError(
                f"{self.base} answered with web pages or messages in place of {MOST_PAGES} PDFs, lastly that of "
                f"{note}. Check whether a proxy answers in its place. {self._advice()}"
            )
        return bytes(data) or "OpenReview gave an empty file"

    def forget(self) -> None:
        """Drop every kept answer that was used through this object, so that another run asks again."""
        self._session.forget()

    def forget_replies(self, forum: str) -> None:
        """Drop the kept replies to a submission, so that another run asks for them again."""
        self._session.forget(lambda address: parse_qs(urlsplit(address).query).get("forum") == [forum])

    def _asked(self, ask: Callable[[], Result]) -> Result:
        """What the library makes of an answer. Refusals that concern who asks end with advice."""
        try:
            return ask()
        except RefusedError as refusal:
            if refusal.status == 401 or (refusal.status == 403 and not _is_private(refusal)):
                raise UserError(f"{refusal}. {self._advice()}") from refusal
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UnansweredError(
                f"{self.base} answered with something that is no answer of OpenReview's API v{self.api} "
                f"({type(error).__name__}: {error}). Check the address, and whether a proxy answers in its place."
            ) from error

    def _advice(self) -> str:
        if self._session.log_in is not None:
            return "Check that the account in OPENREVIEW_USERNAME may read this."
        return (
            "OpenReview lets guests read public venues, but at times asks for an account to keep robots out: set "
            "OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD in the environment and run the same again."
        )

    def _log_in(self, kind: Any, username: str, password: str) -> Mapping[str, str]:
        openreview = importlib.import_module("openreview")
        try:
            kind.login_user(self._client, username, password)
        except (RefusedError, openreview.OpenReviewException) as error:
            raise UserError(
                f"{self.base} did not accept the account in OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD: "
                f"{str(error).replace(password, '…')}. Correct both, or unset both to ask as a guest."
            ) from error
        return {"Authorization": str(self._client.headers["Authorization"])}


def _client_class(api: Api) -> Any:
    try:
        openreview = importlib.import_module("openreview")
        return openreview.Client if api == 1 else importlib.import_module("openreview.api").OpenReviewClient
    except ImportError as error:
        raise PrerequisiteError(
            f"collecting from OpenReview needs the package openreview-py ({error}): pip install 'goldless[gre]'"
        ) from error


def _account() -> tuple[str, str] | None:
    """User name and password from the environment; none for a guest."""
    username, password = (os.environ.get(name, "") for name in _ACCOUNT)
    if bool(username) != bool(password):
        present, absent = _ACCOUNT if username else reversed(_ACCOUNT)
        raise UserError(
            f"{present} is set in the environment and {absent} is not: set both, or unset both for a guest."
        )
    return (username, password) if username else None


def _is_page(data: bytes) -> bool:
    """Whether a web page or a message came where a PDF was asked for."""
    return b"%PDF-" not in data[:1024] and data.lstrip()[:1] in {b"<", b"{"}


def _is_private(refusal: RefusedError) -> bool:
    """Whether just this is not for us, as against a demand to show who asks (``ChallengeRequiredError`` and kin)."""
    return refusal.status == 403 and refusal.name in {"ForbiddenError", "Forbidden"}


def _worth_keeping(address: str, status: int, body: bytes) -> bool:
    """Whether an answer is a final one of OpenReview's: no page of a proxy, nothing that may be different tomorrow."""
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
