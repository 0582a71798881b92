"""Statistics over tasks: intervals, comparisons, effect sizes, influence."""

from __future__ import annotations
