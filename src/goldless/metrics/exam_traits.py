"""Traits that exams measure in a reviewer: consistency, pertinence, self-confidence, and agreement with people.

Consistency Pc is the share of pairs judged the same way in both orders, pertinence Pp the share of comparisons that
prefer a relevant answer to a well-written irrelevant one, self-confidence Ps 1 where the reviewer is surer of easy
pairs than of hard ones, else 0 (Auto-PRE, equations 2-4). The human exam is accuracy on pairs that people
labelled (PRE). Peers is accuracy as estimated from the votes of the other candidates, without labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

import numpy as np

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError
from goldless.metrics.judgement_table import NEITHER, Convention, PairJudgements, ResponseRatings
from goldless.metrics.label_agreement import reviewer_judges
from goldless.metrics.pair_labels import PairLabels
from goldless.metrics.panel_worth import FEWEST_PEERS, panel_votes, peer_estimates, shared_votes
from goldless.statistics.bootstrap import ABSENT, LEVEL, Draws, Estimate, task_intervals, task_shares

ConfidenceItem = tuple[str, float | None]
"""Task (or item), and how sure or unsure the reviewer was; None: missing."""

CONFIDENCE_LEVELS: Mapping[str, int] = {
    **{label: level for level, label in enumerate(("null", "low", "medium", "high", "expert"), start=1)},
    **{label: level for level, label in enumerate(("doubtful", "uncertain", "moderate", "confident", "absolute"), 1)},
}
"""Both sets of labels of Auto-PRE as numbers from 1 to 5, higher is surer."""
ROUNDING = 1e-12
"""Means of the same numbers in another order differ by less than this."""


@dataclass(frozen=True)
class Sureness:
    """A reviewer's confidence in the items of one set (Auto-PRE, tables 10 and 11, figure 4)."""

    unit: Literal["levels", "nats"]
    n: int
    mean: float
    sd: float
    """With n, not n - 1, as in the paper."""
    median: float


@dataclass(frozen=True)
class Trait:
    """One trait of one reviewer."""

    estimate: Estimate = ABSENT
    """Between 0 and 1; for self-confidence, the interval is that of ``difference``. ``n``: what could be used."""
    asked: int = 0
    difference: float | None = None
    """For self-confidence: how much surer the reviewer is of easy items than of hard ones, in nats or levels."""
    easy: Sureness | None = None
    hard: Sureness | None = None
    threshold: float | None = None
    """Value that a reviewer must exceed to pass; None: there is no limit."""

    @property
    def value(self) -> float | None:
        """None: not measured."""
        return self.estimate.value

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The interval of the value; two times None where the interval is one of the difference."""
        return (self.estimate.low, self.estimate.high) if self.difference is None else (None, None)


def consistency(
    judgements: PairJudgements, *, convention: Convention = "default", **draws: Unpack[Draws]
) -> dict[str, Trait]:
    """Pc of each reviewer, over the pairs it was asked about in both orders.

    By default two ties agree, a tie and a preference do not, and pairs with a missing order are left out.
    With the papers' convention a pair with a tie or a missing order counts 0.5.
    """
    asked = np.asarray(judgements.asked.all(axis=2))
    lean = np.sign(judgements.leans(convention))
    same = np.where(lean[:, :, 0] == lean[:, :, 1], 1.0, 0.0)
    if convention != "default":
        same = np.where((lean == 0).any(axis=2), NEITHER, same)
    same = np.where(asked & ~np.isnan(lean).any(axis=2), same, np.nan)
    unasked = "no pair was compared in both orders"
    return _traits(judgements.reviewers, same, judgements.task, asked, unasked=unasked, **draws)


def pertinence(
    judgements: PairJudgements, *, convention: Convention = "default", **draws: Unpack[Draws]
) -> dict[str, Trait]:
    """Pp of each reviewer, over the comparisons of "relevant" with "irrelevant", each order on its own.

    A tie counts 0.5, and with the papers' convention so does a missing judgement.
    """
    if set(judgements.agents) != {"relevant", "irrelevant"}:
        raise MetricError(f"answers of pertinence must be relevant and irrelevant, got {', '.join(judgements.agents)}")
    return share_of_right_sides(judgements, "relevant", "irrelevant", convention=convention, **draws)


def share_of_right_sides(
    judgements: PairJudgements, right: str, wrong: str, *, convention: Convention = "default", **draws: Unpack[Draws]
) -> dict[str, Trait]:
    """Return each reviewer's share of comparisons, each order on its own, that prefer the right side to the wrong one.

    A tie counts 0.5, and with the papers' convention so does a missing judgement.
    """
    if set(judgements.agents) != {right, wrong}:
        raise MetricError(
            f"the sides of an exam's pairs must be {right} and {wrong}, got {', '.join(judgements.agents)}"
        )
    right_number, wrong_number = judgements.agents.index(right), judgements.agents.index(wrong)
    low_number, high_number = sorted((right_number, wrong_number))
    exam_pairs = (judgements.low == low_number) & (judgements.high == high_number)
    direction = 1 if right_number < wrong_number else -1
    credit = (1 + np.sign(judgements.leans(convention)[:, exam_pairs]) * direction) / 2
    task = np.repeat(judgements.task[exam_pairs], 2)
    asked = judgements.asked[:, exam_pairs]
    flat = len(judgements.reviewers), len(task)
    return _traits(judgements.reviewers, credit.reshape(flat), task, asked.reshape(flat), **draws)


def worst_kind(traits_of_kinds: Mapping[str, Trait], n_kinds: int) -> Trait:
    """Return the trait of the kind on which a reviewer is least often right; absent unless all kinds were measured.

    A reviewer that is right on most kinds and misled by one is misled wherever responses look like that kind.
    """
    measured = {name: trait for name, trait in traits_of_kinds.items() if trait.value is not None}
    if len(measured) < n_kinds:
        return Trait(replace(ABSENT, note="not all kinds of planted pairs were answered"))
    name, worst = min(measured.items(), key=lambda item: (item[1].value or 0.0, item[0]))
    return replace(worst, estimate=replace(worst.estimate, note=f"the worst kind is {name}"))


def human_exam(
    judgements: PairJudgements | ResponseRatings,
    labels: PairLabels,
    *,
    questioners: Collection[str],
    convention: Convention = "default",
    **draws: Unpack[Draws],
) -> dict[str, Trait]:
    """Accuracy of each reviewer on the labelled pairs of the questioners' responses.

    Test a panel on ``labels.outside(questioners)``, so that pairs of the exam are not used again. (The papers test on
    all pairs.)
    """
    exam = labels.among(questioners).decided()
    if not exam.n_pairs:
        raise MetricError(f"no pair of {', '.join(questioners)} has a decided label. Choose other questioners")
    earned = [judge.credits(exam, convention) for judge in reviewer_judges(judgements, convention=convention)]
    credit, asked = np.stack([own.credit for own in earned]), np.stack([own.asked for own in earned])
    return _traits(judgements.reviewers, credit, exam.task, asked, **draws)


def peers(
    judgements: PairJudgements, *, convention: Convention = "default", **draws: Unpack[Draws]
) -> dict[str, Trait]:
    """Each reviewer's accuracy as the votes of all show it (Dawid and Skene), over the pairs that two or more judged.

    A ranking of the candidates: the values are too high, since reviewers share errors.
    """
    votes = shared_votes(panel_votes(judgements, judgements.reviewers, convention=convention), **draws)
    if len(votes.reviewers) < FEWEST_PEERS:
        raise MetricError(
            f"the exam peers must have at least {FEWEST_PEERS} reviewers that judged the same pairs, got "
            f"{len(votes.reviewers)} of {len(judgements.reviewers)}. Try --exam auto"
        )
    found = peer_estimates(votes, **draws)[0]
    level = draws.get("level", LEVEL)
    unmet = Estimate(level=level, note="too few pairs that another reviewer judged too")
    asked = judgements.asked.any(axis=2).sum(axis=1).tolist()
    return {name: Trait(found.get(name, unmet), pairs) for name, pairs in zip(judgements.reviewers, asked, strict=True)}


def confidence_level(label: str) -> int | None:
    """The confidence that a reviewer stated, from 1 to 5; None: unknown label."""
    return CONFIDENCE_LEVELS.get(label.strip().strip(".\"'").lower())


def self_confidence(
    easy: Sequence[ConfidenceItem],
    hard: Sequence[ConfidenceItem],
    *,
    higher_is: Literal["surer", "less sure"],
    **draws: Unpack[Draws],
) -> Trait:
    """Ps of one reviewer: 1 where its mean on easy items is surer than on hard ones, else 0.

    ``higher_is``: what higher values mean, "surer" for levels, "less sure" for -log p. ``difference`` says by how
    much, with an interval from resampling items; items of one name in both sets are drawn together.
    """
    asked = len(easy) + len(hard)
    kept = [[(item, value) for item, value in items if value is not None] for items in (easy, hard)]
    used = len(kept[0]) + len(kept[1])
    if not kept[0] or not kept[1]:
        which = "easy" if not kept[0] else "hard"
        level = draws.get("level", LEVEL)
        return Trait(Estimate(n=used, level=level, note=f"no {which} item has a reply"), asked)
    gaps = _gaps(kept[0], kept[1]) * (1.0 if higher_is == "surer" else -1.0)
    difference = float(gaps.mean())
    found, value = task_intervals(gaps[:, None], **draws)[0], 1.0 if difference > ROUNDING else 0.0
    return Trait(
        replace(found, value=value, n=used, n_tasks=len(gaps)),
        asked,
        difference=difference,
        easy=_sureness(kept[0], higher_is),
        hard=_sureness(kept[1], higher_is),
    )


def _sureness(items: Sequence[tuple[str, float]], higher_is: Literal["surer", "less sure"]) -> Sureness:
    values = np.array([value for _, value in items])
    unit: Literal["levels", "nats"] = "levels" if higher_is == "surer" else "nats"
    return Sureness(unit, len(values), float(values.mean()), float(values.std()), float(np.median(values)))


def _gaps(easy: Sequence[tuple[str, float]], hard: Sequence[tuple[str, float]]) -> FloatArray:
    """One number per item: their mean is the mean of easy minus that of hard, their spread that of the difference.

    An item's number is the difference of means, plus the item's contribution to it times the number of items.
    """
    names = {name: i for i, name in enumerate(dict.fromkeys(item for item, _ in (*easy, *hard)))}
    gaps = np.zeros(len(names))
    for items, sign in ((easy, 1.0), (hard, -1.0)):
        values = np.array([value for _, value in items], dtype=np.float64)
        code = np.array([names[item] for item, _ in items], dtype=np.int64)
        parts = np.bincount(code, weights=values - values.mean(), minlength=len(names)) / len(values)
        gaps += sign * (values.mean() + len(names) * parts)
    return gaps


def _traits(
    reviewers: Sequence[str],
    values: FloatArray,
    task: IntArray,
    asked: BoolArray,
    *,
    unasked: str = "no comparison was requested",
    **draws: Unpack[Draws],
) -> dict[str, Trait]:
    """The mean of each reviewer's row of values [reviewers, items] as a trait."""
    return {
        reviewer: Trait(share if own.any() else replace(share, note=unasked), int(own.sum()))
        for reviewer, share, own in zip(reviewers, task_shares(values, task, **draws), asked, strict=True)
    }
