"""What a metric or reviewer favours besides quality: place, length, markup, its own kind, a named agent."""

from __future__ import annotations

from goldless.meta_evaluation.bias.finding import find_bias
from goldless.meta_evaluation.bias.report import BiasReport, BiasRow, Unavailable

__all__ = ["BiasReport", "BiasRow", "Unavailable", "find_bias"]
