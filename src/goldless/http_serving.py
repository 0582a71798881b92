"""Serve a web application on a local port and shut it down cleanly."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from aiohttp import web
from yarl import URL

from goldless.errors import UserError

_SILENT = logging.getLogger("goldless.http_serving.protocol")
# the HTTP library would quote the bytes it cannot read, which may hold answers or a token
_SILENT.setLevel(logging.CRITICAL + 1)
_SILENT.propagate = False


@asynccontextmanager
async def listening_application(
    app: web.Application, *, host: str, port: int, ending_seconds: float
) -> AsyncIterator[str]:
    """Run the application during the block and yield its address. Port 0 picks a free port.

    On exit it accepts no new connections, and requests in progress get ``ending_seconds`` to finish.
    """
    runner = web.AppRunner(app, access_log=None, logger=_SILENT, shutdown_timeout=ending_seconds)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, backlog=1024).start()
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise UserError(
                f"cannot listen on {host}, port {port} ({why}). Choose another port, or 0 for a free one"
            ) from None
        yield f"http://{f'[{host}]' if ':' in host else host}:{runner.addresses[0][1]}"
    finally:
        with anyio.CancelScope(shield=True):  # bounded by the seconds above
            await runner.cleanup()


async def serve_until_told(listening: AbstractAsyncContextManager[str], ready: Callable[[str], None]) -> None:
    """Serve until cancelled, interrupted or terminated; ``ready`` is called with the address."""
    async with listening as url:
        # signals arrive in the main thread only; on Windows Ctrl-C cancels instead
        if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
            ready(url)
            await anyio.sleep_forever()
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            ready(url)
            async for _ in signals:
                return


LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine in a Host header."""


def is_local(request: web.Request) -> bool:
    """True if the request calls this machine by a local name.

    A web page whose name was made to point here must not reach it through the user's browser.
    """
    host = request.host
    if "@" in host or ("[" in host) != ("]" in host):
        return False  # a Host header has no user, but an address may have one: evil.com@127.0.0.1
    try:
        return (URL.build(scheme="http", authority=host).host or "").lower() in LOCAL_NAMES
    except ValueError:
        return False
