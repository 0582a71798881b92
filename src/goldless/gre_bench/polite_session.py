"""Polite requests to a public server: paced, patient when it is busy, and never repeated for cached replies.

A session stands in for the one inside a client library. The library's own would wait without end, print its retries and
turn a busy server's answer into an exception that no longer says how long to wait.

Replies are cached on disk, one file per reply: a line of JSON with address, status, kind of content and
length, then the body as it came. A file is written whole or not at all, so a process that is killed leaves no half
answer behind. Only what was asked and what came back is kept: no header that was sent, no cookie, no token.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from goldless.errors import UserError
from goldless.files import write_whole
from goldless.models.http_api.calls import Calling
from goldless.models.http_api.limits import seconds_until

Say = Callable[[str], None]
LogIn = Callable[[], Mapping[str, str]]
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
"""Statuses that another time may be another: a busy server, or one behind a gateway that has lost it."""
SUFFIX = ".answer"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a server answered."""

    address: str
    """What was asked for, with all parameters."""
    status: int
    content_type: str
    body: bytes


class KeptAnswers:
    """A folder of answers, found by their addresses. Delete the folder, or one file, to have it asked for anew."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is created with the first reply."""
        self.folder = folder

    def read(self, address: str, *, oldest_seconds: float = math.inf) -> KeptAnswer | None:
        """The cached reply for an address; None if there is none, or if it is damaged or too old."""
        path = self._path(address)
        with self._reported("Choose another folder"):
            try:
                if time.time() - path.stat().st_mtime > oldest_seconds:
                    return None
                head, found, body = path.read_bytes().partition(b"\n")
            except FileNotFoundError:
                return None
        try:
            data = orjson.loads(head)
            if not found or data["address"] != address or data["bytes"] != len(body):
                return None
            return KeptAnswer(address, int(data["status"]), str(data["content_type"]), body)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None

    def keep(self, answer: KeptAnswer) -> None:
        """Write a reply atomically."""
        head = {"address": answer.address, "status": answer.status, "content_type": answer.content_type}
        written = orjson.dumps(head | {"bytes": len(answer.body)}) + b"\n" + answer.body
        with self._reported("Free some space or choose another folder"):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(answer.address), lambda aside: aside.write_bytes(written))

    def forget(self, address: str) -> None:
        """Delete the cached reply for an address, if any."""
        self._path(address).unlink(missing_ok=True)

    @contextmanager
    def _reported(self, advice: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self.folder}: cannot store replies ({error.strerror}). {advice}") from error

    def _path(self, address: str) -> Path:
        """The file of an address: the last word of its path, and a hash of all of it."""
        word = re.sub(r"[^a-z]", "", urlsplit(address).path.rpartition("/")[2].lower())[:20]
        return self.folder / f"{word or 'answer'}-{hashlib.sha256(address.encode()).hexdigest()[:40]}{SUFFIX}"


class UnansweredError(UserError):
    """A server did not reply after several attempts; another run resumes from there."""


class RefusedError(UserError):
    """A server refused a request."""

    def __init__(self, message: str, *, status: int, name: str = "") -> None:
        """Store the status and the server's name of the error."""
        self.status = status
        self.name = name
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Patience(Calling):
    """How often and how long to wait for a busy server."""

    wait_initial_seconds: float = 1.0
    wait_max_seconds: float = 60.0
    timeout_seconds: float = 60.0


class Pace:
    """A minimum time between requests of all sessions."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Set the seconds between requests."""
        self._seconds = seconds
        self._clock, self._sleep = clock, sleep
        self._next = -math.inf

    def wait(self) -> None:
        """Wait for the next request's turn."""
        if (left := self._next - self._clock()) > 0:
            self._sleep(left)
        self._next = self._clock() + self._seconds


class _BusyError(Exception):
    """One attempt that another may do better than."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class PoliteSession:
    """``get`` and ``post`` as an HTTP session of ``requests`` has them, over kept answers."""

    def __init__(
        self,
        answers: KeptAnswers,
        *,
        worth_keeping: Callable[[str, int, bytes], bool],
        pace: Pace,
        patience: Patience,
        user_agent: str,
        say: Say,
    ) -> None:
        """Ask through ``requests``. ``worth_keeping``: whether an answer (address, status, body) is one to keep."""
        self._requests = importlib.import_module("requests")
        self._session = self._requests.Session()
        self._answers = answers
        self._worth_keeping = worth_keeping
        self._pace = pace
        self._patience = patience
        self._user_agent = user_agent
        self._say = say
        self._authorization: dict[str, str] | None = None
        self._used: set[str] = set()
        self.oldest_seconds = math.inf
        """A kept answer that is older is asked for again."""
        self.log_in: LogIn | None = None
        """Called before the first request that is really sent; gives the headers that show who asks."""

    def get(self, url: str, *, params: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The answer, kept or new. Raises RefusedError where it is no, UnansweredError where there is none."""
        address = str(self._requests.Request("GET", url, params=params).prepare().url)
        self._used.add(address)
        kept = self._answers.read(address, oldest_seconds=self.oldest_seconds)
        if kept is None:
            response = self._with_login(address, headers or {})
            content_type = response.headers.get("Content-Type", "")
            kept = KeptAnswer(address, response.status_code, content_type, response.content)
            if self._worth_keeping(address, kept.status, kept.body) and not any(
                # a server may repeat the token that it was shown
                token.encode() in kept.body
                for token in self._tokens()
            ):
                self._answers.keep(kept)
        if kept.status >= 400:
            raise self._refusal(kept)
        return self._response(kept)

    def forget(self, which: Callable[[str], bool] = lambda _: True) -> None:
        """Drop kept answers to what this session was asked for: all, or those to the addresses that are meant."""
        for address in filter(which, self._used):
            self._answers.forget(address)

    def post(self, url: str, *, json: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The answer to a request whose answer is never kept, such as a login."""
        response = self._insist("POST", url, json=json, headers=headers or {})
        if response.status_code >= 400:
            raise self._refusal(KeptAnswer(url, response.status_code, "", response.content))
        return response

    def _with_login(self, address: str, headers: Mapping[str, str]) -> Any:
        """The answer to a request that shows who asks; where a token has run out, after one more login."""
        for fresh in (False, True):
            if self.log_in is not None and (fresh or self._authorization is None):
                self._authorization = dict(self.log_in())
            response = self._insist("GET", address, headers={**headers, **(self._authorization or {})})
            if response.status_code != 401 or self.log_in is None:
                break
        return response

    def _insist(self, method: str, address: str, **options: Any) -> Any:
        """The answer, asked for as often as it takes to get one."""
        patience, made = self._patience, 0
        while True:
            made += 1
            try:
                return self._once(method, address, **options)
            except _BusyError as busy:
                asks_too_much = (busy.retry_after or 0.0) > patience.longest_retry_after_seconds
                if made > patience.retries or asks_too_much:
                    raise UnansweredError(
                        f"{_shown(address)} did not reply after {made} attempt{'s' * (made != 1)}: {busy}. Earlier "
                        f"replies are cached. Run the same command again {_when(busy.retry_after)} to resume"
                    ) from busy
                wait = patience.wait_seconds(made, busy.retry_after)
                self._say(f"{busy}; waiting before attempt {made + 1} of {patience.retries + 1}")
            time.sleep(wait)

    def _once(self, method: str, address: str, *, headers: Mapping[str, str], **options: Any) -> Any:
        self._pace.wait()
        errors = self._requests.exceptions
        try:
            response = self._session.request(
                method,
                address,
                headers={**headers, "User-Agent": self._user_agent},
                timeout=self._patience.timeout_seconds,
                **options,
            )
        except errors.SSLError as error:
            raise UnansweredError(f"{_shown(address)}: the connection is not secure ({error})") from error
        except errors.Timeout as error:
            raise _BusyError(f"timed out after {self._patience.timeout_seconds:g} seconds") from error
        except (errors.ConnectionError, errors.ChunkedEncodingError, errors.ContentDecodingError) as error:
            raise _BusyError(f"the connection was lost ({type(error).__name__})") from error
        except errors.RequestException as error:
            raise UserError(f"{_shown(address)}: invalid request: {error}") from error
        if response.status_code in BUSY:
            stated = seconds_until(response.headers.get("Retry-After"))
            after = _until_reset(response.content) if stated is None else stated
            # What answers a login may repeat the password.
            said = self._message(response.content)[1] if method == "GET" else ""
            raise _BusyError(
                f"status {response.status_code}{_pause(after)}{f' ({said})' if said else ''}", retry_after=after
            )
        return response

    def _response(self, kept: KeptAnswer) -> Any:
        """A kept answer in the form the client library expects."""
        response = self._requests.Response()
        response.status_code, response.url = kept.status, kept.address
        response.headers["Content-Type"] = kept.content_type
        response.raw = io.BytesIO(kept.body)
        return response

    def _tokens(self) -> list[str]:
        shown = (value.removeprefix("Bearer ").strip() for value in (self._authorization or {}).values())
        return [token for token in shown if token]

    def _refusal(self, kept: KeptAnswer) -> RefusedError:
        """The error for a status of 400 and above, in the server's words."""
        name, said = self._message(kept.body)
        said = said or self._short(kept.body.decode(errors="replace"))
        return RefusedError(
            f"{_shown(kept.address)} returned {kept.status}{f' {name[:60]}' if name else ''}: {said or 'no message'}",
            status=kept.status,
            name=name,
        )

    def _message(self, body: bytes) -> tuple[str, str]:
        """The server's name of an error and its message; empty if there is none."""
        data = _fields(body)
        return str(data.get("name") or ""), self._short(str(data.get("message") or ""))

    def _short(self, said: str) -> str:
        """One line that may be shown."""
        said = " ".join(said.split())
        for token in self._tokens():
            said = said.replace(token, "…")
        return said[:300]


def _fields(body: bytes) -> Mapping[str, Any]:
    """The fields of a JSON object; none where it is something else."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


def _until_reset(body: bytes) -> float | None:
    """Seconds until OpenReview's rate limit resets, as stated in its reply."""
    try:
        then = datetime.fromisoformat(_fields(body)["details"]["resetTime"])
    except (KeyError, TypeError, ValueError):
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _pause(after: float | None) -> str:
    return "" if after is None else f", retry after {round(after, 1):g} seconds"


def _when(after: float | None) -> str:
    """When to try again."""
    try:
        then = datetime.now(UTC) + timedelta(seconds=after or 0.0)
    except OverflowError:
        return "later"
    return f"after {then:%Y-%m-%d %H:%M:%S} UTC" if after else "later"


def _shown(address: str) -> str:
    """An address without its parameters, which may be long."""
    return address.partition("?")[0]
