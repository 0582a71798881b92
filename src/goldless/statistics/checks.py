"""Checks of arguments that many statistics take."""

from __future__ import annotations

import numpy as np

from goldless.arrays import FloatArray
from goldless.errors import UserError


def check_level(level: float) -> None:
    """Refuse a confidence level that is not between 0 and 1."""
    if not 0 < level < 1:
        raise UserError(f"level must be between 0 and 1, got {level}. Try 0.95")


def check_seed(seed: int) -> None:
    """Refuse a negative seed."""
    if seed < 0:
        raise UserError(f"seed must be a whole number of at least 0, got {seed}")


def check_resamples(resamples: int, *, at_least: int = 1) -> None:
    """Refuse too few resamples."""
    if resamples < at_least:
        raise UserError(f"resamples must be at least {at_least}, got {resamples}. Try 10000")


def check_finite(scores: FloatArray, name: str = "scores") -> None:
    """Refuse infinite scores; NaN marks a missing one."""
    if np.isinf(scores).any():
        raise UserError(f"{name} must be finite numbers, or NaN where one is missing, got an infinite score")


def check_score_table(scores: FloatArray, name: str = "scores") -> None:
    """Refuse anything but a table [tasks, agents] of finite numbers and NaN."""
    if scores.ndim != 2:
        raise UserError(f"{name} must be a table [tasks, agents], got shape {scores.shape}")
    check_finite(scores, name)
