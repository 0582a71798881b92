"""An event loop in a thread of its own: what is opened there stays open between calls from anywhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Found = TypeVar("Found")


class Background:
    """Runs async work, one call after the other or side by side, always in the same loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # a daemon: a program that does not close it ends all the same
        self._thread = threading.Thread(target=self._work, name="goldless", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def begin(self, work: Coroutine[Any, Any, Found]) -> Future[Found]:
        """Start work; may be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Run work to its end; it is cancelled where waiting for it is interrupted."""
        begun = self.begin(work)
        try:
            return begun.result()
        except BaseException:
            begun.cancel()
            raise

    def stop(self) -> None:
        """End the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
