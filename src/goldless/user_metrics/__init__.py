"""Custom metrics: a Python function, a command, a promptfoo assertion, a DeepEval metric or an Inspect scorer."""

from __future__ import annotations
