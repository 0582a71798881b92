"""Agreement with people: how far metrics, reviewers and external scores agree with human labels."""

from __future__ import annotations

from goldless.meta_evaluation.agreement.agreeing import agree
from goldless.meta_evaluation.agreement.results import Agreement

__all__ = ["Agreement", "agree"]
