"""The viewer and the studio, for tests that look at them from outside: over HTTP, and in a thread for browsers."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import anyio
import pytest
from yarl import URL

from goldless.apps.studio.server import listening
from goldless.apps.studio.site import Site


@contextmanager
def served(site: Site) -> Iterator[str]:
    """Serve a site in a thread of its own; its address."""
    address: list[str] = []
    ready, end = threading.Event(), threading.Event()

    async def run() -> None:
        async with listening(site) as url:
            address.append(url)
            ready.set()
            await anyio.to_thread.run_sync(end.wait)

    thread = threading.Thread(target=anyio.run, args=(run,))
    thread.start()
    try:
        assert ready.wait(30)
        yield address[0]
    finally:
        end.set()
        thread.join()


class Client:
    """Asks as a browser does, with the cookies that it was given."""

    def __init__(self, session, url: str, site: Site) -> None:
        self.session, self.url, self.site = session, url, site

    async def ask(self, path="", *, method="GET", status=200, data=None, **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        address = URL(self.url + path, encoded=True)
        async with self.session.request(method, address, headers=names, data=data, allow_redirects=False) as answer:
            text = await answer.text()
            assert answer.status == status, text
            return text, answer.headers

    async def get(self, path="", status=200) -> str:
        return (await self.ask(path, status=status))[0]

    async def post(self, path, data, status=303) -> str:
        """As a page of the studio does; the address that it leads to, or the page."""
        own = {"Origin": self.url.rstrip("/"), "Sec_Fetch_Site": "same-origin"}
        text, headers = await self.ask(path, method="POST", status=status, data=data, **own)
        return headers.get("Location", "").lstrip("/") or text


@asynccontextmanager
async def asking(site: Site) -> AsyncIterator[Client]:
    """A client of a site that is served."""
    jar = aiohttp.CookieJar(unsafe=True)  # one that keeps cookies of addresses without a name
    async with listening(site) as url, aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Client(session, url, site)


def tab_to(page, matches: str) -> None:
    """Press Tab until the focus is on what matches."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches({json.dumps(matches)})"):
            return
    pytest.fail(f"the keyboard does not reach {matches}")
