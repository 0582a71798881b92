"""Processes of this machine: which one this is, and whether another still runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import threading
from functools import cache
from pathlib import Path

ENDING = threading.Event()
"""Set while this process ends because of a signal."""


@cache
def machine() -> str:
    """A short name for this machine, and for what of its processes can be seen from here."""
    seen = platform.node()
    with contextlib.suppress(OSError):  # Linux: in two containers the same number means different processes
        seen += str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(seen.encode()).hexdigest()[:8]


def this_process() -> str:
    """The name of this process among those of all machines, such as ``1f3c70ab-4711``."""
    return f"{machine()}-{os.getpid()}"


def is_running(pid: int) -> bool:
    """True if a process of this machine runs, or cannot be asked."""
    if os.name == "nt":
        return True  # asking would end it
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it runs under another user
        return True
    return True


def has_ended(name: str) -> bool:
    """True if a process, given by name, is one of this machine and has ended."""
    where, _, pid = name.rpartition("-")
    return where == machine() and pid.isdecimal() and not is_running(int(pid))
