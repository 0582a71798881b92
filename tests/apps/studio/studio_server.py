"""The viewer and the studio, for tests that look at them from outside: over HTTP, and in a thread for browsers."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import anyio
import pytest
from yarl import URL

from goldless.apps.studio.maps import ShownMap
from goldless.apps.studio.server import listening
from goldless.apps.studio.site import Site, Studio
from goldless.metrics.information_map import make_information_map
from goldless.sentences import split_sentences


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


class Visit:
    """A page in a browser, and everything it said and asked for."""

    def __init__(self, page, url: str, site: Site | None = None) -> None:
        self.page, self.url, self.site = page, url, site
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text} {message.location}"))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append("dialog") or dialog.dismiss())
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: str = ""):
        self.page.goto(self.url + path)
        return self.page


@contextmanager
def visiting(browser, site: Site) -> Iterator[Visit]:
    """A visit to a site that is served, let in by the token of a studio; it says nothing and asks nobody else."""
    with served(site) as url:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        visit = Visit(context.new_page(), url, site)
        if isinstance(site, Studio):
            visit.open(f"?token={site.access.token}").wait_for_url(url)
        yield visit
        context.close()
        assert visit.said == []
        assert all(address.startswith(url) for address in visit.asked)


def axe_faults(page, **options) -> list[tuple[str, str]]:
    """What axe finds on a page, which must not stick out of its window."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), page.url
    found = axe.run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [(fault["id"], fault["nodes"][0]["html"]) for fault in found]


def known_map(candidate: str, peer: str, pieces: Sequence[str], **nats: Sequence[float]) -> ShownMap:
    """A map of two texts with these log-probabilities."""
    made = make_information_map(
        task="t",
        agent="a",
        peer="b",
        agent_text=candidate,
        agent_sentences=split_sentences(candidate),
        peer_sentences=split_sentences(peer),
        pieces=pieces,
        **{f"{name}_nats": values for name, values in nats.items()},
    )
    return ShownMap(made)


def tab_to(page, matches: str) -> None:
    """Press Tab until the focus is on what matches."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches({json.dumps(matches)})"):
            return
    pytest.fail(f"the keyboard does not reach {matches}")
