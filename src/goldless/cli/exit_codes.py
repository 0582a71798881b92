"""How a command ends, besides 0; the quickstart explains them to users."""

from __future__ import annotations

NOTHING = 1
"""A model cannot be used, or nothing could be scored or measured."""
WRONG_INPUT = 2
INCOMPLETE = 3
"""The same command goes on where this one stopped."""
NOBODY_PASSED = 4
METRIC_FAILED = 5
INTERRUPTED = 130
