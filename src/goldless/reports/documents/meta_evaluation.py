"""Documents about how far to trust the numbers: crash test, agreement, bias, cost, consistency."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from goldless.reports.documents.fields import EMPTY, LARGEST, Bounded, Count, Level, Number, Part, Result, Text, Texts


class PerturbationNote(Part):
    """The effect of one change to responses on a metric."""

    perturbation: Text
    must: Text = ""
    rating: Text = ""
    reason: Text | None = None
    smd: Number = None
    smd_low: Number = None
    smd_high: Number = None
    samples: Count = 0
    note: Text | None = None


class CrashCard(Part):
    """One metric in the crash test."""

    signature: Text = ""
    counts: dict[Text, Count] = EMPTY
    perturbations: tuple[PerturbationNote, ...]


class CrashTestDocument(Result):
    """``crash_test.json``."""

    margin: Annotated[float, Field(ge=0, lt=LARGEST)] = 0.0
    responses: Count = 0
    responses_there_are: Count = 0
    problems: dict[Text, Count] = EMPTY
    metrics: dict[Text, CrashCard] = EMPTY


# --- agreement with people -------------------------------------------------------------------------------------------


class LabelCountsNote(Part):
    """Counts of human labels."""

    raters: Count = 0
    ratings: Count = 0
    preferences: Count = 0
    pairs: Count = 0
    decided: Count = 0
    tied: Count = 0


class AccuracyNote(Bounded):
    """Share of decided pairs where a judge agrees with people."""

    accuracy: Number = None
    used: Count = 0
    n_tasks: Count = 0


class CorrelationNote(Bounded):
    """One rank correlation of a judge with people."""

    coefficient: Text
    over: Text
    value: Number = None


class JudgeNote(Part):
    """One judge compared with people."""

    name: Text
    kind: Text = ""
    accuracy: AccuracyNote
    correlations: tuple[CorrelationNote, ...] = ()


class AlphaNote(Bounded):
    """Krippendorff's alpha."""

    alpha: Number = None
    measurement: Text = ""
    n_units: Count = 0
    n_values: Count = 0


class ValueNote(Bounded):
    """How well people agree with each other, measured like a judge: a share of pairs, or a mean over tasks."""

    value: Number = Field(default=None, validation_alias=AliasChoices("value", "mean"))
    n: Count | None = None


class RaterNote(Part):
    """One rater compared with the others, or the mean over all raters."""

    rater: Text = "a rater, the rest"
    accuracy: ValueNote | None = None
    spearman: ValueNote | None = None


class MeanNote(Bounded):
    """A mean over tasks."""

    mean: Number = None
    n: Count = 0


class CeilingNote(RaterNote):
    """How well people agree with each other."""

    source: Text | None = None
    alpha: AlphaNote | None = None
    raters: tuple[RaterNote, ...] = ()
    within: dict[Text, MeanNote] = EMPTY
    note: Text | None = None


class JudgeComparisonNote(Bounded):
    """Two judges on what both judged."""

    statistic: Text = ""
    first: Text = ""
    second: Text = ""
    p_holm: Number = None


class CriterionNote(Part):
    """All judges compared with the labels of one criterion."""

    criterion: Text | None = None
    labels: LabelCountsNote = LabelCountsNote()
    judges: tuple[JudgeNote, ...]
    comparisons: tuple[JudgeComparisonNote, ...] = ()
    ceiling: CeilingNote = CeilingNote()
    signature: Text = ""
    notes: Texts = ()


class AgreementDocument(Result):
    """``agreement.json``."""

    criteria: tuple[CriterionNote, ...] = ()


# --- calibration to people -------------------------------------------------------------------------------------------


class CalibratedAgentNote(Bounded):
    """An agent's mean label."""

    agent: Text
    mean: Number = None


class CalibrationDocument(Result):
    """``calibration.json``."""

    labelled: Count = 0
    tasks: Count = 0
    proxies: Texts = ()
    agents: tuple[CalibratedAgentNote, ...] = ()
    comparisons: tuple[Part, ...] = ()
    shares: tuple[Part, ...] = ()
    next_labels: tuple[Part, ...] = ()


# --- bias ------------------------------------------------------------------------------------------------------------


class BiasNote(Bounded):
    """One number about one judge."""

    bias: Text
    judge: Text
    kind: Text = ""
    """reviewer, reviewers (a pair, or all), panel, metric or people."""
    measure: Text = ""
    about: Text | None = None
    value: Number = None
    neutral: Number = None
    shown: bool | None = None
    """None: undecidable."""
    pair: tuple[Text, Text] | None = None


class UnavailableNote(Part):
    """A bias that could not be measured."""

    bias: Text
    reason: Text = ""
    judges: Texts = ()


class BiasDocument(Result):
    """``bias.json``."""

    rows: tuple[BiasNote, ...] = ()
    unavailable: tuple[UnavailableNote, ...] = ()


# --- cost ------------------------------------------------------------------------------------------------------------


class CostNote(Part):
    """The cost of one model for one metric, or for all metrics of a run."""

    metrics: Texts = ()
    scaled: Part = Part()
    """Estimated cost on more tasks."""


class HeldOutNote(Part):
    """The same panel on tasks that it was not chosen on."""

    accuracy: Number = None


class PanelCostNote(Bounded):
    """A panel of reviewers with equal votes: cost, and agreement with people."""

    reviewers: Texts
    accuracy: Number = None
    usd: Number = None
    effective_votes: Number = None
    held_out: HeldOutNote = HeldOutNote()

    @property
    def name(self) -> str:
        """Its reviewers, joined."""
        return " + ".join(self.reviewers)


class PanelsNote(Part):
    """Panels by accuracy and cost."""

    by_size: tuple[PanelCostNote, ...] = ()
    frontier: tuple[PanelCostNote, ...] = ()
    search: Text = "unknown"
    unpriced: Texts = ()
    level: Level = 0.95
    note: Text | None = None
    signature: Text = ""


class CostDocument(Result):
    """``cost.json``."""

    n_tasks: Count = 0
    tasks: Count = 0
    rows: tuple[CostNote, ...] = ()
    reviewers: tuple[Part, ...] = ()
    panels: PanelsNote | None = None


# --- consistency over scorers ----------------------------------------------------------------------------------------


class ScorerAgreementNote(Bounded):
    """One correlation between a metric's scores under two scorers."""

    metric: Text
    first: Text
    second: Text
    coefficient: Text
    value: Number = None


class ConsistencyDocument(Result):
    """``consistency.json``."""

    rows: tuple[ScorerAgreementNote, ...] = ()
    signatures: dict[Text, Text] = EMPTY
