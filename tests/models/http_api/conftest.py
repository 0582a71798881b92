from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from typing import Any

import pytest

from goldless.models.catalogue import ANY_SERVER
from goldless.models.http_api import CallSettings, HttpModel, client, service_model
from goldless.models.interface import Use
from tests.support.servers.loopback import Behaviour, LoopbackServer

FAST = CallSettings(timeout_seconds=60.0, retries=3, patience_seconds=0.0, wait_seconds=0.01)


@pytest.fixture
def serve() -> Iterator[Callable[..., LoopbackServer]]:
    """Starts a server of the given behaviour, and stops it at the end."""
    with ExitStack() as stack:
        yield lambda **behaviour: stack.enter_context(LoopbackServer(Behaviour(**behaviour)))


@pytest.fixture
async def serve_here(anyio_backend: object) -> AsyncIterator[Callable[..., Awaitable[LoopbackServer]]]:
    """Starts a server in the loop of the test, whose clock may be virtual, and stops it at the end."""
    async with AsyncExitStack() as stack:
        yield lambda **behaviour: stack.enter_async_context(LoopbackServer(Behaviour(**behaviour)))


@pytest.fixture
async def connect(anyio_backend: object, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., HttpModel]]:
    """Makes a model on a server, and closes it at the end; further options are fields of ``calling``."""
    monkeypatch.setattr(client, "CONNECT_SECONDS", 60.0)  # on a busy machine
    async with AsyncExitStack() as stack:

        def make(
            server: LoopbackServer | str,
            name: str = "toy",
            *,
            use: Use = "both",
            calling: CallSettings = FAST,
            **limits: Any,
        ) -> HttpModel:
            url = server if isinstance(server, str) else server.url
            model = service_model(
                ANY_SERVER, f"{url}#{name}" if name else url, use=use, calling=replace(calling, **limits)
            )
            stack.push_async_callback(model.aclose)
            return model

        yield make
