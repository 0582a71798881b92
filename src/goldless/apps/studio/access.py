"""Who may use the studio: a browser that was opened with its token, and for anything that writes only its own pages."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

from aiohttp import web
from yarl import URL

from goldless.apps.studio.viewer.server import Handler, RefusedError

METHODS = ("GET", "HEAD", "POST")


class Access:
    """A secret token, taken from an address once and then kept in a cookie of the browser."""

    def __init__(self, page: Callable[..., web.Response]) -> None:
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
        given = request.query.get("token")
        if given is not None and request.method in {"GET", "HEAD"}:
            return self._let_in(request, given)
        if not self._is_in(request):
            return self._outside(request)
        if request.method == "POST" and not from_own_page(request):
            raise RefusedError(403, "Only the studio's own pages may change anything.")
        return await handler(request)

    def _let_in(self, request: web.Request, given: str) -> web.Response:
        if given in self._tickets:
            self._tickets.discard(given)
        elif not (_same(given, self.token) or self._is_in(request)):
            return self._outside(request)
        # lax, as a report is sandboxed and its links to a run's pages count as those of another site; a POST of another
        # site has no cookie all the same
        response = self._page("enter.html", address=_address(request))
        response.set_cookie(_cookie(request), self._session, path="/", httponly=True, samesite="Lax")
        return response

    def _is_in(self, request: web.Request) -> bool:
        return _same(request.cookies.get(_cookie(request), ""), self._session)

    def _outside(self, request: web.Request) -> web.Response:
        if request.method not in {"GET", "HEAD"} or request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate":
            raise RefusedError(403, "The studio's token is missing.")
        return self._page("outside.html", status=403, address=_address(request))


def from_own_page(request: web.Request) -> bool:
    """Whether a browser says that a page of this server sends the request."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    own = str(URL.build(scheme=request.scheme, authority=request.host).origin())
    if site is not None:
        # pages send no referrer, so for their forms a browser writes null
        return site == "same-origin" and origin in {own, "null", None}
    return origin == own


def _cookie(request: web.Request) -> str:
    """Its name: browsers do not keep the cookies of several ports apart."""
    return f"goldless-studio-{URL.build(scheme='http', authority=request.host).port}"


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


def _address(request: web.Request) -> str:
    """The address that was asked for, without a token; never one on another server, as //NAME would be."""
    return f"/{str(request.rel_url.without_query_params('token')).lstrip('/')}"
