"""Replacements: another text in the place of a response."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

NULL = "This response addresses the task. Everything about it appears to be in order."
"""A constant that tells nothing about any task."""
PEER_REVIEW_NULL = "This paper presents research findings. The methodology and results appear sound."
"""TVD-MI, A.2: what agent 6 always says."""


def other_tasks(tasks: Sequence[str], *, agent: str, seed: int = 0) -> dict[str, str]:
    """For each task that an agent answered another one whose response takes its place: a derangement.

    Tasks stand in a circle in the order of a hash of seed, agent and name, and each takes the next one's response. So
    the draw depends on nothing but these: another agent in the study changes nothing. One task alone has no other.
    """
    ring = sorted(set(tasks), key=lambda task: _drawn(seed, agent, task))
    return {} if len(ring) < 2 else dict(zip(ring, [*ring[1:], ring[0]], strict=True))


def _drawn(seed: int, agent: str, task: str) -> bytes:
    # lengths first, so that no two pairs of names give the same bytes
    parts = [str(seed).encode(), agent.encode(), task.encode()]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
