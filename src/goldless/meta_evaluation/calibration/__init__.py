"""Calibration: agents' means on the people's scale from few labels."""

from __future__ import annotations

from goldless.meta_evaluation.calibration.calibrating import calibrate
from goldless.meta_evaluation.calibration.results import Calibration

__all__ = ["Calibration", "calibrate"]
