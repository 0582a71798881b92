"""Statistics: intervals by resampling tasks, and comparisons."""

from __future__ import annotations
