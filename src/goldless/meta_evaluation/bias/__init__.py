"""Bias: what a metric or reviewer favours besides quality: position, length, markup, its own family, a given agent."""

from __future__ import annotations

from goldless.meta_evaluation.bias.finding import find_bias
from goldless.meta_evaluation.bias.report import BiasReport, BiasRow, Unavailable

__all__ = ["BiasReport", "BiasRow", "Unavailable", "find_bias"]
