"""Calls of a Ray actor that end: with a result, or because the worker is gone, silent or too slow."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from goldless._version import __version__
from goldless.errors import PrerequisiteError

BEAT_SECONDS = 10.0
"""Between two signs of life that a busy worker is asked for."""
SILENT_SECONDS = 60.0
"""A worker that gives no sign of life for this long is replaced."""


class LostError(Exception):
    """A worker that is gone or does not answer; the message continues "the worker …"."""


async def placed(actor: Any) -> None:
    """Wait until the worker runs, however long there is no room for it."""
    await _result(_beat(actor))


async def alive(actor: Any) -> None:
    """Ask a worker for a sign of life. Raises LostError if it gives none."""
    try:
        await asyncio.wait_for(_result(_beat(actor)), SILENT_SECONDS)
    except TimeoutError:
        raise LostError(f"gave no sign of life for {SILENT_SECONDS:g} seconds") from None


async def heard(actor: Any, reference: Any, limit: float) -> Any:
    """The result of a call, as long as the worker gives signs of life. Raises LostError."""
    call = asyncio.ensure_future(_result(reference))
    until = time.monotonic() + limit
    try:
        while True:
            done, _ = await asyncio.wait({call}, timeout=min(BEAT_SECONDS, limit))
            if done:
                return call.result()
            if time.monotonic() >= until:
                raise LostError(f"did not finish within {limit:g} seconds")
            await alive(actor)
    finally:
        call.cancel()


def _beat(actor: Any) -> Any:
    return actor.beat.options(concurrency_group="beat").remote()


async def _result(reference: Any) -> Any:
    try:
        return await reference
    except Exception as error:
        said = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        if any("ModuleNotFoundError" in line or "failed to import" in line for line in said):
            raise PrerequisiteError(
                f"the workers cannot import what they need ({said[-1]}). Install goldless {__version__}, and what the "
                "model needs, on every machine, in the Python that runs Ray"
            ) from error
        raise LostError(f"was lost ({said[0][:200]})") from error
