"""The ways of computing a prefix tree."""

from __future__ import annotations

from typing import Literal

Sharing = Literal["auto", "packed", "cached"]
"""``packed``: many branches in one sequence under a tree mask; ``cached``: node by node, each under the keys and values
of its path; ``auto``: the faster one on the device."""
