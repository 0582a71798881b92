"""Agreement with people: how far metrics, reviewers and anybody's scores say what human labels say."""

from __future__ import annotations

from goldless.meta_evaluation.agreement.agreeing import agree
from goldless.meta_evaluation.agreement.results import Agreement

__all__ = ["Agreement", "agree"]
