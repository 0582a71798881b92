"""How to review: the options of a peer review, checked before anything is opened."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from goldless.errors import UserError, nearest
from goldless.judging.asking import Verdicts
from goldless.judging.debate import find_debate
from goldless.judging.judges import find_judge
from goldless.judging.scales import Scale
from goldless.metrics.chair import Normalisation
from goldless.metrics.judgement_table import Convention
from goldless.metrics.qualification import Combination, Threshold, Weighting
from goldless.models.usage import Price
from goldless.runs.options import Progress

ExamName = Literal["none", "human", "consistency", "pertinence", "self-confidence", "auto"]
TRAITS: Mapping[ExamName, tuple[str, ...]] = {
    "none": (),
    "human": ("human exam",),
    "consistency": ("consistency",),
    "pertinence": ("pertinence",),
    "self-confidence": ("self-confidence",),
    "auto": ("consistency", "pertinence", "self-confidence"),
}
"""What each exam measures."""
HUMAN_THRESHOLD = 0.6
AUTO_EXAM_THRESHOLD = 0.55
"""PRE's fixed limit of consistency, and ours where one candidate alone has no mean to be held against."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewOptions:
    """How to review."""

    reviewers: Sequence[Any] | Mapping[str, Any] = ()
    """``SPEC``, ``NAME=SPEC``, a model, or names with either; with recorded evidence names, none: all there are."""
    scale: str = "pairwise"
    exams: Sequence[ExamName] = ("none",)
    questioners: Sequence[str] | None = None
    """Agents whose responses the human exam is made of; None: three drawn by the seed."""
    overlap: bool = False
    """Test on the human exam's pairs as well, as the papers do."""
    exam_items: int | None = 100
    """Most pairs, or tasks, of an automatic exam; None: all."""
    relevant: str | None = None
    irrelevant: str | None = None
    """Agents of the pertinence exam; None: the one that answered most, as both."""
    changer: Any = None
    """Chat model that changes questions for the pertinence exam and answers the changed ones; None: the study's own."""
    easy: tuple[str, str] | None = None
    hard: tuple[str, str] | None = None
    """Agents of the self-confidence exam; None: by the candidates' own first comparisons."""
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    """By trait; what is not named has its usual one."""
    combination: Combination = "all"
    weighting: Weighting | None = None
    """None: the usual one of the exam."""
    weight_from: str | None = None
    """The trait that a weight by one trait comes from; None: the first one."""
    criterion: str | None = None
    """Of the labels, where they have several."""
    margin: float | None = None
    """Votes that people's preferences must be ahead by; None: 2, or 1 where pairs have fewer than three votes."""
    fusion: Normalisation | None = None
    """Of ratings; None: z, or raw with the papers' convention."""
    convention: Convention = "default"
    own_family: bool = False
    """Let a reviewer judge agents of its own family."""
    families: Mapping[str, str] = field(default_factory=dict)
    """Of reviewers, by name."""
    task_description: str = ""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """A task description of its own for a reviewer, by name."""
    task_kind: str = ""
    """What is judged, in a few words, for licences."""
    licences: Sequence[Path] = ()
    """Files or folders of licences, instead of an exam."""
    issue_to: Path | None = None
    """Folder for the licences of those who pass."""
    debate: str | None = None
    """Each reviewer is a debate of this kind among copies of its model (C1, C2, C3); None: it is asked alone."""
    verdicts: Verdicts = "auto"
    recorded: bool = False
    seed: int = 0
    resamples: int = 10_000
    level: float = 0.95
    budget_usd: float | None = None
    price: Price | None = None
    journal: Path | None = None
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    @property
    def chosen_scale(self) -> Scale:
        """The scale."""
        return find_judge(self.scale)

    @property
    def traits(self) -> tuple[str, ...]:
        """What the exams measure, each once."""
        return tuple(dict.fromkeys(trait for exam in self.exams for trait in TRAITS[exam]))

    @property
    def overlapping(self) -> bool:
        """Whether the human exam's pairs are tested on as well."""
        return self.overlap or self.convention == "paper"

    @property
    def judges_own_family(self) -> bool:
        """Whether a reviewer judges agents of its own family."""
        return self.own_family or self.convention == "paper"

    def usual_thresholds(self, candidates: int) -> dict[str, Threshold]:
        """The limit of each trait, as named or as usual.

        Automatic traits are held against the mean over the candidates; where there is one candidate, or with the
        papers' convention and consistency alone (PRE), against 0.55. Self-confidence is passed or not.
        """
        alone = candidates < 2 or (self.convention == "paper" and self.traits == ("consistency",))
        usual: dict[str, Threshold] = {
            "human exam": HUMAN_THRESHOLD,
            "consistency": AUTO_EXAM_THRESHOLD if alone else "mean",
            "pertinence": AUTO_EXAM_THRESHOLD if alone else "mean",
            "self-confidence": 0.0,
        }
        return {trait: self.thresholds.get(trait, usual[trait]) for trait in self.traits}

    @property
    def usual_weighting(self) -> Weighting:
        """How votes are weighed, as named or as usual: PRE's logit, Auto-PRE's mean of traits, else equal."""
        if self.weighting is not None:
            return self.weighting
        if self.traits == ("human exam",):
            return "trait" if self.convention == "paper" else "logit"
        return "mean of traits" if len(self.traits) > 1 else "equal"


def check_review_options(options: ReviewOptions) -> None:
    """Refuse what no study could be reviewed with."""
    find_judge(options.scale)
    if options.debate is not None:
        find_debate(options.debate)
    _check_exams(options)
    _check_choices(options)
    _check_reviewers(options)
    if options.resamples < 100:
        raise UserError(f"{options.resamples} resamples are too few for an interval; give at least 100")
    if options.seed < 0:
        raise UserError(f"a seed is a whole number that is not negative, not {options.seed}")


def _check_exams(options: ReviewOptions) -> None:
    for exam in options.exams:
        if exam not in TRAITS:
            raise UserError(f"unknown exam {exam!r}{nearest(exam, TRAITS) or '.'} Exams: {', '.join(TRAITS)}.")
    if not options.exams or ("none" in options.exams and len(options.exams) > 1):
        raise UserError(f"name the exams to be passed, or none alone; {', '.join(options.exams) or 'nothing'} came")
    for trait in options.thresholds:
        if trait not in options.traits:
            known = ", ".join(options.traits) or "nothing"
            raise UserError(f"a threshold for {trait!r} came, but the exams measure {known}")
        limit = options.thresholds[trait]
        if isinstance(limit, float) and not math.isfinite(limit):
            raise UserError(f"the limit of {trait} is a finite number, mean or none, not {limit}")
    if options.weighting not in {None, "equal"} and not options.traits:
        raise UserError(f"weights by {options.weighting} come from an exam: name one, or leave the weights out")
    if options.weight_from is not None and options.weight_from not in options.traits:
        raise UserError(f"weights are to come from {options.weight_from!r}, but the exams measure {options.traits}")
    if (options.easy is None) != (options.hard is None):
        raise UserError("name the agents of the easy and of the hard set, or of neither")


def _check_choices(options: ReviewOptions) -> None:
    for name, value, allowed in (
        ("convention", options.convention, get_args(Convention)),
        ("combination", options.combination, get_args(Combination)),
        ("fusion", options.fusion or "z", get_args(Normalisation)),
        ("weighting", options.weighting or "equal", get_args(Weighting)),
        ("verdicts", options.verdicts, get_args(Verdicts)),
    ):
        if value not in allowed:
            raise UserError(f"{name} is one of {', '.join(allowed)}, not {value!r}")


def _check_reviewers(options: ReviewOptions) -> None:
    if options.licences and tuple(options.exams) != ("none",):
        raise UserError("licences stand for an exam that was passed: leave the exam out, or the licences")
    if options.recorded and (options.licences or options.issue_to):
        raise UserError("licences are for reviewers that are asked; recorded judgements have none")
    if options.debate is not None and (options.licences or options.issue_to is not None):
        raise UserError("a licence is for one model asked alone, not for a debate: leave one of the two out")
    if options.issue_to is not None and not options.traits:
        raise UserError("a licence says which exam was passed: name one with --exam")
    if not options.recorded and not options.reviewers:
        raise UserError("name at least one reviewer, such as openai:MODEL, NAME=http://HOST:PORT/v1#MODEL or embedded")
