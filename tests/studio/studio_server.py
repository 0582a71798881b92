"""The studio in a thread of its own, for tests that look at it from outside."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from goldless.apps.studio.server import listening
from goldless.apps.studio.studio import Studio


@contextmanager
def served(root: Path, journal: Path) -> Iterator[tuple[Studio, str]]:
    """The studio and its address."""
    studio = Studio(root, journal=journal)
    address: list[str] = []
    ready, end = threading.Event(), threading.Event()

    async def run() -> None:
        async with listening(studio) as url:
            address.append(url)
            ready.set()
            await anyio.to_thread.run_sync(end.wait)

    thread = threading.Thread(target=anyio.run, args=(run,))
    thread.start()
    try:
        assert ready.wait(30)
        yield studio, address[0]
    finally:
        end.set()
        thread.join()


def tab_to(page, matches: str) -> None:
    """Press Tab until the focus is on what matches."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches({json.dumps(matches)})"):
            return
    pytest.fail(f"the keyboard does not reach {matches}")
