"""An event loop whose clock jumps to the next timer when there is nothing else to do: hours pass at once.

A test takes it with an ``anyio_backend`` of ``VIRTUAL_TIME``. Servers must run in the same loop, as work of other
threads takes no time on this clock.
"""

from __future__ import annotations

import asyncio
import selectors


class _Jumping(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout if timeout is None else min(timeout, 0.001))  # what is on its way arrives
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


VIRTUAL_TIME = ("asyncio", {"loop_factory": VirtualLoop})
