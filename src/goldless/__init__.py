"""Evaluate language-model outputs where no gold standard exists.

import goldless

result = goldless.evaluate(goldless.sample_study(), metrics=["gem-raw"], scorer="embedded")
print(result.leaderboard().to_markdown())
"""

from __future__ import annotations

from goldless._version import __version__
from goldless.api import agree, bias, consistency, cost, crash_test, evaluate, explain, plan, review
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
)
from goldless.meta_evaluation.agreement import Agreement
from goldless.meta_evaluation.bias import BiasReport
from goldless.meta_evaluation.consistency import Consistency
from goldless.meta_evaluation.cost.cost_report import CostReport
from goldless.meta_evaluation.crash_test import CrashTest
from goldless.meta_evaluation.rating_card import save_crash_test
from goldless.metrics.information_map import InformationMap
from goldless.models.catalogue import open_model
from goldless.models.scripted import ScriptedModel
from goldless.reports.leaderboard import Leaderboard
from goldless.runs.evaluation import Evaluation
from goldless.runs.planning import Plan
from goldless.runs.review_results import Review
from goldless.runs.review_store import save_review
from goldless.runs.store import save_run
from goldless.studies import Study, read_study, sample_study, study_from_frame, write_study

__all__ = [
    "Agreement",
    "BiasReport",
    "BudgetError",
    "CallError",
    "CanaryError",
    "CapabilityError",
    "Consistency",
    "CostReport",
    "CrashTest",
    "Evaluation",
    "GoldlessError",
    "InformationMap",
    "Leaderboard",
    "MetricError",
    "ModelError",
    "ModelSpecError",
    "Plan",
    "PrerequisiteError",
    "Problem",
    "Review",
    "ScriptedModel",
    "Study",
    "StudyError",
    "TextTooLongError",
    "UserError",
    "__version__",
    "agree",
    "bias",
    "consistency",
    "cost",
    "crash_test",
    "evaluate",
    "explain",
    "open_model",
    "plan",
    "read_study",
    "review",
    "sample_study",
    "save_crash_test",
    "save_review",
    "save_run",
    "study_from_frame",
    "write_study",
]
