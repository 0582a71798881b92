"""Watching: fixed anchors asked again, and whether the judge or the system changed."""

from __future__ import annotations

from goldless.meta_evaluation.watching.results import WatchReport
from goldless.meta_evaluation.watching.watching import watch, watched

__all__ = ["WatchReport", "watch", "watched"]
