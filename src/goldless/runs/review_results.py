"""Results of a review: reviewers with their exam, the panel's agreement with people, and the ranking of agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from goldless.evidence import EXAMS, OPEN_KINDS, empty, failure_counts
from goldless.judging.licences import Licence
from goldless.metrics.exam_traits import Trait
from goldless.metrics.label_agreement import Accuracy, RankAgreement
from goldless.metrics.panel_worth import PanelWorth
from goldless.metrics.ranking import Ranking
from goldless.records import FailureKind
from goldless.runs.evaluation import StudyResult
from goldless.runs.opening import Spending
from goldless.runs.rounds import Stopped, stopped_as_json
from goldless.statistics.bootstrap import Share
from goldless.statistics.comparisons import Comparison


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well a reviewer or a panel agrees with people."""

    accuracy: Accuracy
    """On pairs with a human preference."""
    spearman: RankAgreement | None
    """Over agents, averaged over tasks; None if there are no ratings."""
    kendall_tau_a: RankAgreement | None
    panel_difference: float | None = None
    """Of a reviewer: accuracy of the panel minus its own, on the pairs that both judged."""
    panel_p_pairs: float | None = None
    """p of that difference by a paired t-test over pairs, as the papers print it."""

    def as_json(self) -> dict[str, Any]:
        """The numbers by name, as plain data."""
        found = self.accuracy
        return {
            "accuracy": found.accuracy,
            "accuracy_low": found.low,
            "accuracy_high": found.high,
            "n_pairs": found.n_pairs,
            "pairs_used": found.used,
            "pairs_tied": found.tied,
            "spearman": None if self.spearman is None else self.spearman.mean,
            "kendall_tau_a": None if self.kendall_tau_a is None else self.kendall_tau_a.mean,
            "accuracy_by_task": found.by_task,
            "accuracy_each_order": found.each_order,
            "panel_difference": self.panel_difference,
            "panel_p_pairs": self.panel_p_pairs,
        }


@dataclass(frozen=True, slots=True)
class ReviewerResult:
    """One reviewer: its exam, its vote, its agreement with people."""

    name: str
    model: str | None
    """Short name of the model; None: recorded."""
    traits: Mapping[str, Trait]
    thresholds: Mapping[str, float | None]
    passed: bool
    why: str
    weight: float | None
    """Weight of its vote; None: no vote."""
    agreement: Agreement | None
    """None: no labels, or no judgements."""
    asked: int
    used: int
    first_shown: Share | None = None
    """How far it prefers the response shown first, one half: not at all; None: it rates single responses."""

    def as_json(self) -> dict[str, Any]:
        """The reviewer as plain data."""
        traits = {
            name: {
                "value": trait.value,
                "low": trait.low,
                "high": trait.high,
                "n": trait.used,
                "asked": trait.asked,
                "threshold": self.thresholds.get(name),
                "difference": trait.difference,
                "note": trait.note,
                **({} if trait.easy is None else {"easy": asdict(trait.easy)}),
                **({} if trait.hard is None else {"hard": asdict(trait.hard)}),
            }
            for name, trait in self.traits.items()
        }
        return {
            "name": self.name,
            "model": self.model,
            "traits": traits,
            "passed": self.passed,
            "why": self.why,
            "weight": self.weight,
            "asked": self.asked,
            "used": self.used,
            "missing": self.asked - self.used,
            **({} if self.first_shown is None else {"first_shown": _share(self.first_shown)}),
            **({} if self.agreement is None else self.agreement.as_json()),
        }


def _share(found: Share) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}


@dataclass(frozen=True, slots=True)
class SweepCell:
    """The panel at one limit and with one kind of weights."""

    limit: float | str | None
    weights: str
    reviewers: tuple[str, ...]
    """Those who pass."""
    agreement: Agreement | None
    """None: no reviewer passes."""

    def as_json(self) -> dict[str, Any]:
        """The cell as plain data."""
        head = {"limit": self.limit, "weights": self.weights, "reviewers": list(self.reviewers)}
        return head | ({} if self.agreement is None else self.agreement.as_json())


@dataclass(frozen=True, slots=True, repr=False)
class Review(StudyResult):
    """The results of one review."""

    scale: str
    exams: tuple[str, ...]
    convention: str
    signature: str
    reviewers: tuple[ReviewerResult, ...]
    nobody: str | None
    """Why there is no panel, with the reviewers closest to passing; None if there is one."""
    panel: Agreement | None
    """None: no panel, or no labels."""
    rankings: tuple[Ranking, ...]
    """The first one is the ranking; empty: no panel."""
    judgements: pl.DataFrame
    """Columns of ``evidence.JUDGEMENTS``."""
    answers: pl.DataFrame = field(default_factory=lambda: empty(EXAMS))
    """Columns of ``evidence.EXAMS``."""
    licences: tuple[Licence, ...] = ()
    """Issued now."""
    spending: tuple[Spending, ...] = ()
    notes: tuple[str, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    """Labelled pairs: all, decided, tied, tested on."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the reviewers: task description, individual descriptions, how verdicts were read."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the results depend on besides evidence, for a replay."""
    worth: PanelWorth | None = None
    """What the panel is worth; None: no panel."""
    sweep: tuple[SweepCell, ...] = ()
    """The panel at other limits and weights, if requested."""
    comparisons: tuple[Comparison, ...] = ()
    """Pairs of agents by the first ranking: decided, or about how many more tasks it would take."""
    stopped: Stopped | None = None
    """Where it stopped, and what is decided; None: it was not to stop early."""

    def __repr__(self) -> str:
        """Study, scale and panel, without the evidence."""
        return f"<Review of {self.study!r} on {self.scale}; panel: {', '.join(self.voters) or 'none'}>"

    @property
    def voters(self) -> tuple[str, ...]:
        """Reviewers with a vote."""
        return tuple(r.name for r in self.reviewers if r.passed and r.weight is not None)

    @property
    def failures(self) -> Counter[FailureKind]:
        """Missing judgements and exam answers by cause."""
        return failure_counts(self.judgements, self.answers)

    @property
    def open(self) -> int:
        """Number missing for a temporary cause; 0 if no model was called."""
        return sum(n for kind, n in self.failures.items() if kind in OPEN_KINDS) if self.spending else 0


def review_as_json(review: Review) -> dict[str, Any]:
    """The review as plain data: what ``--json`` prints."""
    return {
        "study": review.study,
        "fingerprint": review.fingerprint,
        "scale": review.scale,
        "exams": list(review.exams),
        "convention": review.convention,
        "signature": review.signature,
        "reviewers": [reviewer.as_json() for reviewer in review.reviewers],
        "nobody_passed": review.nobody,
        "panel": {
            "reviewers": list(review.voters),
            "weights": {r.name: r.weight for r in review.reviewers if r.name in review.voters},
            **({} if review.panel is None else review.panel.as_json()),
            "worth": None if review.worth is None else review.worth.as_json(),
        },
        "ranking": [asdict(agent) for agent in review.rankings[0].agents] if review.rankings else [],
        "rankings": {ranking.name: _ranking(ranking) for ranking in review.rankings},
        "comparisons": [asdict(one) for one in review.comparisons],
        **({} if review.stopped is None else {"until": stopped_as_json(review.stopped)}),
        "labels": dict(review.labels),
        "settings": dict(review.settings),
        "options": dict(review.options),
        **({"sweep": [cell.as_json() for cell in review.sweep]} if review.sweep else {}),
        "failures": dict(sorted(review.failures.items())),
        "complete": review.complete,
        "notes": list(review.notes),
    }


def _ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "unit": ranking.unit,
        "agents": [asdict(agent) for agent in ranking.agents],
        "notes": list(ranking.notes),
    }
