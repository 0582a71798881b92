"""Metrics: pure functions from evidence to scores."""

from __future__ import annotations
