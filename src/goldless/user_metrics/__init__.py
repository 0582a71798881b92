"""Metrics that are not ours: somebody's function, command, promptfoo assertion, DeepEval metric or Inspect scorer."""

from __future__ import annotations
