"""Evaluate language-model outputs where no gold standard exists.

import goldless

result = goldless.evaluate(goldless.sample_study(), metrics=["gem-raw"], scorer="embedded")
print(result.leaderboard().to_markdown())
"""

from __future__ import annotations

from goldless._version import __version__
from goldless.api import evaluate, explain, plan, review
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
    "BudgetError",
    "CallError",
    "CanaryError",
    "CapabilityError",
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
    "evaluate",
    "explain",
    "open_model",
    "plan",
    "read_study",
    "review",
    "sample_study",
    "save_review",
    "save_run",
    "study_from_frame",
    "write_study",
]
