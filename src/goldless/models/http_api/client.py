"""One HTTP session to one server: addresses, timeouts, JSON, and errors as types."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import aiohttp
import orjson
from yarl import URL

from goldless.models.http_api.failures import (
    ApiKey,
    AttemptError,
    invalid_json,
    status_failure,
    transport_failure,
)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait."""

    connect_seconds: float = 10.0
    """For a connection."""
    total_seconds: float = 600.0
    """For a whole reply."""


class Client:
    """Sends one request at a time for whoever asks; knows nothing of retries or concurrency."""

    def __init__(self, base_url: str, key: ApiKey, *, timeouts: Timeouts) -> None:
        """``base_url`` ends in ``/v1`` as a rule; native routes of a server are asked beside it."""
        self.base_url = base_url.rstrip("/")
        self.key = key
        self._root = self.base_url.removesuffix("/v1")
        self._timeouts = timeouts
        self._proxy = proxy_for(URL(self.base_url))
        self._session: aiohttp.ClientSession | None = None
        self._addresses: dict[str, URL] = {}

    def address(self, route: str) -> URL:
        """The full address of ``/v1/…`` or of a native route such as ``/tokenize``."""
        known = self._addresses.get(route)
        if known is None:
            base = f"{self.base_url}{route[3:]}" if route.startswith("/v1/") else f"{self._root}{route}"
            known = self._addresses[route] = URL(base)
        return known

    async def get(self, route: str) -> Any:
        """The decoded reply. Raises AttemptError."""
        return await self._send("GET", route, None)

    async def post(self, route: str, body: bytes) -> Any:
        """The decoded reply to a JSON body. Raises AttemptError."""
        return await self._send("POST", route, body)

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(self, method: str, route: str, body: bytes | None) -> Any:
        session = self._session or self._open()
        url = self.address(route)
        try:
            async with session.request(method, url, data=body, allow_redirects=False, proxy=self._proxy) as response:
                status, headers = response.status, response.headers
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The library's exceptions carry the request headers, the key among them: the chain ends here.
            raise transport_failure(error, url=str(url), key=self.key) from None
        if status != 200:
            raise status_failure(status, content, headers, url=str(url), key=self.key)
        return self._decoded(content, headers, url)

    def _decoded(self, content: bytes, headers: Mapping[str, str], url: URL) -> Any:
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError:
            raise invalid_json(content, url=str(url), key=self.key) from None
        if isinstance(data, dict) and data.get("error") and "choices" not in data:
            # Some gateways answer 200 and put the failure of the model behind them into the body.
            raise self._hidden_failure(data["error"], content, headers, url)
        return data

    def _hidden_failure(self, error: Any, content: bytes, headers: Mapping[str, str], url: URL) -> AttemptError:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 400
        return status_failure(status, content, headers, url=str(url), key=self.key)

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            # The limiter decides how many calls there are; a second limit here would hide from it.
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(
                total=self._timeouts.total_seconds, sock_connect=self._timeouts.connect_seconds
            ),
            headers={"Content-Type": "application/json", "User-Agent": "goldless", **self.key.headers()},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._session


def proxy_for(url: URL) -> str | None:
    """The proxy the environment names for this address, or None; this machine is always reached directly.

    ``trust_env`` would ask on every call, and would read passwords from .netrc.
    """
    host = url.host or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(url.scheme)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
