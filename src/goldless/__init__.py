"""Evaluate language-model outputs where no gold standard exists.

import goldless

result = goldless.evaluate(goldless.sample_study(), metrics=["gem-raw"], scorer="embedded")
print(result.leaderboard().to_markdown())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from goldless._version import __version__

if TYPE_CHECKING:
    from goldless.api import (
        agree,
        bias,
        calibrate,
        compare,
        consistency,
        cost,
        crash_test,
        evaluate,
        explain,
        export,
        gate,
        plan,
        review,
        reward,
        select,
        watch,
    )
    from goldless.comparison.comparing import PairedComparison
    from goldless.comparison.gating import Gate
    from goldless.errors import (
        BudgetError,
        CallError,
        CanaryError,
        CapabilityError,
        GoldlessError,
        MetricError,
        ModelError,
        ModelSpecError,
        PrerequisiteError,
        Problem,
        StudyError,
        TextTooLongError,
        UserError,
        WaitingError,
    )
    from goldless.meta_evaluation.agreement_results import Agreement
    from goldless.meta_evaluation.bias_report import BiasReport
    from goldless.meta_evaluation.calibration_results import Calibration
    from goldless.meta_evaluation.consistency import Consistency
    from goldless.meta_evaluation.cost import CostReport
    from goldless.meta_evaluation.rating_card import CrashTest, save_crash_test
    from goldless.meta_evaluation.watching import WatchReport
    from goldless.metrics.information_map import InformationMap
    from goldless.models.catalogue import open_model
    from goldless.models.scripted import ScriptedModel
    from goldless.reports.leaderboard import Leaderboard
    from goldless.rewarding.reward import Reward
    from goldless.runs.estimate import Plan
    from goldless.runs.evaluation import Evaluation
    from goldless.runs.review_results import Review
    from goldless.runs.store import save_review, save_run
    from goldless.selection.selecting import Selection
    from goldless.studies import Study, import_study, read_study, sample_study, study_from_frame, write_study

__all__ = [
    "Agreement",
    "BiasReport",
    "BudgetError",
    "Calibration",
    "CallError",
    "CanaryError",
    "CapabilityError",
    "Consistency",
    "CostReport",
    "CrashTest",
    "Evaluation",
    "Gate",
    "GoldlessError",
    "InformationMap",
    "Leaderboard",
    "MetricError",
    "ModelError",
    "ModelSpecError",
    "PairedComparison",
    "Plan",
    "PrerequisiteError",
    "Problem",
    "Review",
    "Reward",
    "ScriptedModel",
    "Selection",
    "Study",
    "StudyError",
    "TextTooLongError",
    "UserError",
    "WaitingError",
    "WatchReport",
    "__version__",
    "agree",
    "bias",
    "calibrate",
    "compare",
    "consistency",
    "cost",
    "crash_test",
    "evaluate",
    "explain",
    "export",
    "gate",
    "import_study",
    "open_model",
    "plan",
    "read_study",
    "review",
    "reward",
    "sample_study",
    "save_crash_test",
    "save_review",
    "save_run",
    "select",
    "study_from_frame",
    "watch",
    "write_study",
]

_HOMES = {
    "goldless.api": "agree bias calibrate compare consistency cost crash_test evaluate explain export gate plan review "
    "reward select watch",
    "goldless.comparison.comparing": "PairedComparison",
    "goldless.comparison.gating": "Gate",
    "goldless.errors": "BudgetError CallError CanaryError CapabilityError GoldlessError MetricError ModelError "
    "ModelSpecError PrerequisiteError Problem StudyError TextTooLongError UserError WaitingError",
    "goldless.meta_evaluation.agreement_results": "Agreement",
    "goldless.meta_evaluation.bias_report": "BiasReport",
    "goldless.meta_evaluation.calibration_results": "Calibration",
    "goldless.meta_evaluation.consistency": "Consistency",
    "goldless.meta_evaluation.cost": "CostReport",
    "goldless.meta_evaluation.rating_card": "CrashTest save_crash_test",
    "goldless.meta_evaluation.watching": "WatchReport",
    "goldless.metrics.information_map": "InformationMap",
    "goldless.models.catalogue": "open_model",
    "goldless.models.scripted": "ScriptedModel",
    "goldless.reports.leaderboard": "Leaderboard",
    "goldless.rewarding.reward": "Reward",
    "goldless.runs.evaluation": "Evaluation",
    "goldless.runs.estimate": "Plan",
    "goldless.runs.review_results": "Review",
    "goldless.runs.store": "save_review save_run",
    "goldless.selection.selecting": "Selection",
    "goldless.studies": "Study import_study read_study sample_study study_from_frame write_study",
}
"""Where each public name is defined. Names are imported on first use, because importing them all takes seconds."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'goldless' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
