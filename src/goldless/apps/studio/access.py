"""Access rights, and what a browser may do with the answer.

Pages are for browsers of this machine. The studio is for one that was opened with its token; anything that writes is
for its own pages only.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware
from yarl import URL

from goldless.errors import UserError, kind_and_place
from goldless.http_serving import is_local

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LOGGER = logging.getLogger("goldless.apps.studio")
READING = ("GET", "HEAD")
WRITING = (*READING, "POST")
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report has its own script. It runs in a separate origin: it cannot read the viewer's pages or send anything."""
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    # private texts: no cache between here and the reader keeps them, and none on disk
    "Cache-Control": "private, no-store",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class RefusedError(UserError):
    """A request that is rejected."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def html(text: str, status: int = 200) -> web.Response:
    """A page as a response."""
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")


def answering(page: Callable[..., str], methods: Collection[str]) -> Middleware:
    """Check the request, turn errors into a page, and set the browser's permissions for the response."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _check(request, methods)
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, a page says so
            status, message = _told(error)
            response = html(page("problem.html", status=status, message=message), status)
            if status == 405:
                response.headers["Allow"] = ", ".join(methods)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return answer


def _check(request: web.Request, methods: Collection[str]) -> None:
    if request.method not in methods:
        raise RefusedError(405, f"The method must be one of {', '.join(methods)}.")
    if not is_local(request):
        raise RefusedError(403, "This page can only be called as 127.0.0.1 or localhost.")
    site, mode = (request.headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode"))
    if site in {"cross-site", "same-site"} and mode != "navigate":
        raise RefusedError(403, "Pages of other sites may link to this one, but not load from it.")


def _told(error: Exception) -> tuple[int, str]:
    """The status and the words for what went wrong; no text of a run is logged."""
    if isinstance(error, UserError):
        return getattr(error, "status", 400), str(error)
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return 413, f"{error.text}. Score large files where they are: goldless score FILE --out RUN"
    if isinstance(error, web.HTTPException):
        return error.status, "Page not found."
    if isinstance(error, HttpProcessingError):
        return 400, "The form cannot be read. A file's name must not have control characters."
    LOGGER.error("failed to make a page: %s", kind_and_place(error))
    return 500, f"An error occurred while making this page ({kind_and_place(error)})."


class Access:
    """A secret token, taken from an address once and then kept in a cookie of the browser."""

    def __init__(self, page: Callable[..., str]) -> None:
        self.token = secrets.token_urlsafe(32)
        self._page = page
        self._session = secrets.token_urlsafe(32)
        self._tickets: set[str] = set()

    def ticket(self) -> str:
        """A token for a single use: a browser's command line can be read by other users of the machine."""
        ticket = secrets.token_urlsafe(32)
        self._tickets.add(ticket)
        return ticket

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The response, if the request may be made."""
        # browsers do not keep the cookies of several ports apart
        cookie = f"goldless-studio-{URL.build(scheme='http', authority=request.host).port}"
        # never an address on another server, as //NAME would be
        address = f"/{str(request.rel_url.without_query_params('token')).lstrip('/')}"
        inside = _same(request.cookies.get(cookie, ""), self._session)
        given = request.query.get("token") if request.method in READING else None
        if given is not None and (given in self._tickets or inside or _same(given, self.token)):
            self._tickets.discard(given)
            response = html(self._page("enter.html", address=address))
            # lax, as a report is sandboxed and its links to a run's pages count as those of another site; a POST of
            # another site has no cookie all the same
            response.set_cookie(cookie, self._session, path="/", httponly=True, samesite="Lax")
            return response
        if given is not None or not inside:
            if request.method not in READING or request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate":
                raise RefusedError(403, "The studio's token is missing.")
            return html(self._page("outside.html", address=address), 403)
        if request.method == "POST" and not from_own_page(request):
            raise RefusedError(403, "Only the studio's own pages may change anything.")
        return await handler(request)


def from_own_page(request: web.Request) -> bool:
    """True if a browser says that a page of this server sends the request."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    own = str(URL.build(scheme=request.scheme, authority=request.host).origin())
    if site is not None:
        # pages send no referrer, so for their forms a browser writes null
        return site == "same-origin" and origin in {own, "null", None}
    return origin == own


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())
