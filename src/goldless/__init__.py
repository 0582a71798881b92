"""Evaluate language-model outputs where no gold standard exists.

import goldless

result = goldless.evaluate(goldless.sample_study(), metrics=["gem-raw"], scorer="embedded")
print(result.leaderboard().to_markdown())
"""

from __future__ import annotations

import importlib
from typing import Any

from goldless._version import __version__  # noqa: F401 - public

_HOMES = {
    "goldless.api": "agree bias calibrate compare consistency cost crash_test evaluate explain export gate load plan "
    "review reward select",
    "goldless.comparison.comparing": "PairedComparison",
    "goldless.comparison.gating": "Gate",
    "goldless.errors": "BudgetError CallError CanaryError CapabilityError GoldlessError MetricError ModelError "
    "ModelSpecError PrerequisiteError Problem StudyError TextTooLongError UserError WaitingError",
    "goldless.meta_evaluation.agreement": "Agreement",
    "goldless.meta_evaluation.bias": "BiasReport",
    "goldless.meta_evaluation.calibration": "Calibration",
    "goldless.meta_evaluation.consistency": "Consistency",
    "goldless.meta_evaluation.cost": "CostReport",
    "goldless.meta_evaluation.crash_test": "CrashTest save_crash_test",
    "goldless.metrics.information_map": "InformationMap",
    "goldless.models.catalogue": "open_model",
    "goldless.models.scripted": "ScriptedModel",
    "goldless.reports.leaderboard": "Leaderboard",
    "goldless.rewarding.reward": "Reward",
    "goldless.runs.evaluation": "Evaluation",
    "goldless.runs.estimate": "Plan",
    "goldless.runs.review_outcome": "Review",
    "goldless.runs.store": "save_review save_run",
    "goldless.selection.selecting": "Selection",
    "goldless.studies": "Study import_study read_study sample_study study_from_frame write_study",
}
"""Modules that define the public names. Names are imported on first use, because importing them all takes seconds."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(["__version__", *_HOME_OF])  # noqa: PLE0605 - type checkers read __init__.pyi


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'goldless' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
