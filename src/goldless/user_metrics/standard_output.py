"""Standard output is for results: what somebody's code prints goes to standard error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


class _Divided:
    """Standard output for the thread that owns it, standard error for all others while it is in force.

    Others may put something over it and give it back later (a progress bar does), so that it may stay where it is
    after its time; then it is standard output for all.
    """

    def __init__(self, output: IO[str]) -> None:
        self._output = output
        self._owner = threading.get_ident()
        self.in_force = True

    def write(self, text: str) -> int:
        """Write to where this thread's output goes."""
        elsewhere = self.in_force and threading.get_ident() != self._owner
        return (sys.stderr if elsewhere else self._output).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


@contextmanager
def other_threads_to_standard_error() -> Iterator[None]:
    """What other threads print meanwhile goes to standard error."""
    kept = sys.stdout
    divided = _Divided(kept)
    sys.stdout = divided
    try:
        yield
    finally:
        divided.in_force = False
        if sys.stdout is divided:
            sys.stdout = kept
