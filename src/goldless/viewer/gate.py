"""The gate of the server: who may ask, in which way, and what a browser may do with the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from yarl import URL

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1"})
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report brings its own script. It runs in an origin of its own: it cannot read the viewer's pages, nor send."""
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


class RefusedError(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the status."""
        self.status = status
        super().__init__(message)


def check_request(request: web.Request) -> None:
    """Refuse what writes, what comes by another name, and what another site's page loads."""
    if request.method not in {"GET", "HEAD"}:
        raise RefusedError(405, "The viewer only shows: GET and HEAD are answered, nothing else.")
    if host_name(request.host) not in LOCAL_NAMES:
        # a web page whose name was made to point to this machine must not read runs through the user's browser
        raise RefusedError(403, "The viewer is called as 127.0.0.1 or localhost only.")
    site, mode = (request.headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode"))
    if site in {"cross-site", "same-site"} and mode != "navigate":
        raise RefusedError(403, "Pages of other sites may link to the viewer, but not load from it.")


def from_own_page(request: web.Request) -> bool:
    """Whether the request comes from a page of the viewer, or from no browser: only then is anything computed."""
    return request.headers.get("Sec-Fetch-Site", "none") in {"same-origin", "none"}


def host_name(host: str) -> str:
    """The name in a Host header, without its port; empty where it is none."""
    try:
        return (URL.build(scheme="http", authority=host).host or "").lower()
    except ValueError:
        return ""
