"""Who may call the jury and with how much: tokens that can be replaced while it runs, local names, TLS, limits, ids."""

from __future__ import annotations

import hmac
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from aiohttp import web

from goldless.errors import PrerequisiteError, UserError
from goldless.http_serving import host_name
from goldless.jury.wire import RequestError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
HEALTH = "/healthz"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what a client may send."""

    most_bytes: int = 4 * 1024 * 1024
    """Maximum bytes of a request."""
    most_samples: int = 256
    """Answers in a request to select."""
    most_answers: int = 8
    """Maximum answers of a case; a round robin of 8 asks each juror on a pairwise scale 56 times."""
    longest_text: int = 200_000
    """Maximum characters of the question, and of each answer."""
    at_once: int = 32
    """Cases in progress; others wait."""
    waiting: int = 512
    """Waiting cases; further ones get status 429."""
    reading_seconds: float = 30.0
    """Time limit for receiving a request."""
    ending_seconds: float = 60.0
    """Time limit for cases in progress when the server is stopped."""

    def __post_init__(self) -> None:
        """Raise if a limit allows nothing."""
        for field in fields(self):
            least = {"most_answers": 2, "waiting": 0}.get(field.name, 1)
            if getattr(self, field.name) < least:
                raise UserError(f"{field.name} must be at least {least}, got {getattr(self, field.name)}")


class Tokens:
    """The tokens that open the jury, any one of them: while clients change over, the old and the new one.

    They come from an environment variable or a file, separated by white space; a file is read again on ``reread``.
    """

    def __init__(self, *, variable: str | None = None, file: Path | str | None = None) -> None:
        """Read them. Raises PrerequisiteError if there is none."""
        self._variable = variable
        self._file = None if file is None else Path(file)
        self._accepted: tuple[bytes, ...] = ()
        self.reread()

    def reread(self) -> None:
        """Read them again; if there is none now, the earlier ones stay and PrerequisiteError is raised."""
        if self._file is None:
            place, text = str(self._variable), os.environ.get(str(self._variable), "")
            advice = f"Set it to the token that clients must send: export {place}=…"
        else:
            place, advice = str(self._file), "Write the tokens that clients may send to it, one per line"
            try:
                text = self._file.read_text(encoding="utf-8")
            except (OSError, UnicodeError) as error:
                raise PrerequisiteError(f"{place}: cannot read the tokens ({error}). {advice}") from None
        found = text.split()
        if not found:
            raise PrerequisiteError(f"{place} has no token. {advice}")
        if not all(token.isascii() and token.isprintable() for token in found):
            raise PrerequisiteError(f"{place} has characters that a token cannot contain, such as é or a control code")
        self._accepted = tuple(f"Bearer {token}".encode() for token in found)

    def admit(self, authorization: str) -> bool:
        """Whether an Authorization header has one of them; compared in constant time."""
        brought = authorization.encode(errors="surrogateescape")
        return sum(hmac.compare_digest(brought, accepted) for accepted in self._accepted) > 0  # all are compared


def tls_context(certificate: Path | str | None, key: Path | str | None) -> ssl.SSLContext | None:
    """TLS with this certificate chain and key, both PEM files; None without them."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UserError("TLS needs a certificate and its key, got only one of them. Give both")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # an encrypted key would be asked for on the terminal
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{certificate}, {key}: cannot be used for TLS ({error}). Give a PEM certificate chain and its key, not "
            "encrypted"
        ) from None
    return context


def gate(tokens: Tokens | None, *, only_local_names: bool) -> Any:
    """Admit requests with a token; without tokens, only requests to this machine's local names.

    The health page is open: it says nothing but whether the jury takes cases.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == HEALTH:
            return await handler(request)
        if tokens is not None and not tokens.admit(request.headers.get("Authorization", "")):
            raise RequestError("missing or wrong bearer token", status=401, code="invalid_api_key")
        if only_local_names and host_name(request.host) not in LOCAL_NAMES:
            # a web page whose name was made to point here must not reach the jury through the user's browser
            raise RequestError("without a token this jury can only be called as 127.0.0.1 or localhost", status=403)
        return await handler(request)

    return check
