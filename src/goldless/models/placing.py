"""The task that a call is about: a fleet sends all calls of a task to one server, whose prefix cache is then warm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TASK: ContextVar[str] = ContextVar("task", default="")
"""Empty: unknown. It is not part of a call, and changes no reply."""


@contextmanager
def about(task: str) -> Iterator[None]:
    """Calls in this block are about this task."""
    before = TASK.set(task)
    try:
        yield
    finally:
        TASK.reset(before)
