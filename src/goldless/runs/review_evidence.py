"""The judgements and exam answers a review rests on: recorded in a study, or as they came from reviewers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from goldless.errors import MetricError, UserError, nearest
from goldless.evidence import JudgementEvidence
from goldless.judging.exams.answers import ExamAnswer
from goldless.judging.scales import Scale, find_scale
from goldless.metrics.exam_traits import ConfidenceItem, confidence_levels, uncertainties
from goldless.metrics.judgement_parsing import read_pairwise, read_rating
from goldless.metrics.judgement_table import Convention
from goldless.records import CallFailure
from goldless.studies import Study

PAIRWISE = "pairwise"
UNPARSABLE = CallFailure("unparsable", "the recorded output holds no verdict of the scale", attempts=0)
OWN_FAMILY = CallFailure("rejected", "an agent of the reviewer's own family", attempts=0)


@dataclass(frozen=True, slots=True)
class ReviewEvidence:
    """Everything a review rests on."""

    reviewers: tuple[str, ...]
    judgements: tuple[JudgementEvidence, ...]
    """On the scale of the review."""
    comparisons: tuple[JudgementEvidence, ...]
    """Pairwise, for the consistency exam; the judgements themselves where their scale is pairwise."""
    pertinence: tuple[JudgementEvidence, ...] = ()
    """Of "relevant" and "irrelevant" answers."""
    confidence: Mapping[str, ConfidenceAnswers] | None = None
    """By reviewer."""
    answers: tuple[ExamAnswer, ...] = ()
    """Exam answers as they came."""


@dataclass(frozen=True, slots=True)
class ConfidenceAnswers:
    """How sure a reviewer was of easy and of hard pairs."""

    easy: tuple[ConfidenceItem, ...]
    hard: tuple[ConfidenceItem, ...]
    by_labels: bool
    """Whether higher is surer: levels from 1 to 5; else uncertainties in nats."""


# --- recorded ------------------------------------------------------------------------------------------------------


def recorded_review(study: Study, *, scale: Scale, reviewers: Sequence[str], convention: Convention) -> ReviewEvidence:
    """The judgements and exam answers that the study carries."""
    table = study.table("judgements")
    if table is None:
        raise MetricError(
            f"{study.name} carries no judgements (a table judgements): leave --recorded out to ask reviewers"
        )
    missing = [name for name in ("reviewer", "format", "task", "output") if name not in table.columns]
    if missing:
        raise MetricError(f"{study.name}: the table judgements lacks {', '.join(missing)}")
    formats = table["format"].unique().to_list()
    if scale.name not in formats:
        raise MetricError(
            f"{study.name} carries no judgements on the scale {scale.name}; it has {', '.join(sorted(formats))}"
        )
    known = table.filter(pl.col("format") == scale.name)["reviewer"].unique(maintain_order=True).to_list()
    for name in reviewers:
        if name not in known:
            raise UserError(
                f"{study.name} carries no judgements of {name!r} on the scale {scale.name}"
                f"{nearest(name, known) or '.'} Reviewers: {', '.join(known)}."
            )
    names = tuple(reviewers or known)
    judgements = _judgements(table, scale, names, convention)
    comparisons = judgements
    if not scale.pairwise:
        comparisons = _judgements(table, find_scale(PAIRWISE), names, convention) if PAIRWISE in formats else ()
    exams = study.table("exams")
    return ReviewEvidence(
        reviewers=names,
        judgements=judgements,
        comparisons=comparisons,
        pertinence=() if exams is None else _pertinence(exams, names, convention),
        confidence=None if exams is None else _confidence(exams, names),
    )


def _judgements(
    table: pl.DataFrame, scale: Scale, reviewers: Sequence[str], convention: Convention
) -> tuple[JudgementEvidence, ...]:
    rows = table.filter((pl.col("format") == scale.name) & pl.col("reviewer").is_in(list(reviewers)))
    read = _reader(scale, convention)
    found = []
    for row in rows.iter_rows(named=True):
        first = row.get("first") if scale.pairwise else row.get("agent")
        if first is None or (scale.pairwise and row.get("second") is None):
            raise MetricError(
                f"the table judgements has a row of {row['reviewer']} on {row['task']} that names no agent"
            )
        second = row["second"] if scale.pairwise else None
        found.append(_judgement(row, scale.name, first, second, read))
    return tuple(found)


def _judgement(
    row: Mapping[str, Any], scale: str, first: str, second: str | None, read: Callable[[str | None], float | None]
) -> JudgementEvidence:
    failure = None if row.get("failure") is None else CallFailure(row["failure"], "recorded as failed")
    value = row.get("value") if failure is None and row.get("value") is not None else read(row.get("output"))
    return JudgementEvidence(
        reviewer=row["reviewer"],
        scale=scale,
        task=row["task"],
        first=first,
        second=second,
        output=row.get("output"),
        value=None if failure is not None else value,
        read_from=None if value is None else "label",
        failure=failure or (UNPARSABLE if value is None else None),
    )


def _reader(scale: Scale, convention: Convention) -> Callable[[str | None], float | None]:
    """Reads an output, each different one once."""
    known: dict[str | None, float | None] = {}

    def published(output: str | None) -> float | None:
        if scale.pairwise:
            return read_pairwise(output, convention="paper")
        return read_rating(output, lowest=scale.lowest, highest=scale.highest, convention="paper")

    def read(output: str | None) -> float | None:
        if output not in known:
            known[output] = (
                published(output) if convention == "paper" else None if output is None else scale.read(output)
            )
        return known[output]

    return read


def _pertinence(exams: pl.DataFrame, reviewers: Sequence[str], convention: Convention) -> tuple[JudgementEvidence, ...]:
    rows = exams.filter((pl.col("exam") == "pertinence") & pl.col("reviewer").is_in(list(reviewers)))
    read = _reader(find_scale(PAIRWISE), convention)
    return tuple(_judgement(row, PAIRWISE, row["first"], row["second"], read) for row in rows.iter_rows(named=True))


def _confidence(exams: pl.DataFrame, reviewers: Sequence[str]) -> dict[str, ConfidenceAnswers]:
    """Levels of confidence by label (exam self-confidence-label: difficulty, item, label)."""
    if not {"difficulty", "label"} <= set(exams.columns):
        return {}
    rows = exams.filter(pl.col("exam").str.starts_with("self-confidence") & pl.col("reviewer").is_in(list(reviewers)))
    found = {}
    for name in rows["reviewer"].unique(maintain_order=True):
        sets = {}
        for difficulty in ("easy", "hard"):
            some = rows.filter((pl.col("reviewer") == name) & (pl.col("difficulty") == difficulty))
            items = some["item"].to_list() if "item" in some.columns else some["task"].to_list()
            sets[difficulty] = tuple(confidence_levels(zip(map(str, items), some["label"].to_list(), strict=True)))
        found[name] = ConfidenceAnswers(sets["easy"], sets["hard"], by_labels=True)
    return found


# --- as it came from reviewers -------------------------------------------------------------------------------------


def confidence_of(answers: Iterable[ExamAnswer]) -> dict[str, ConfidenceAnswers]:
    """How sure each reviewer was, from its answers to the self-confidence exam."""
    by_reviewer: dict[str, list[ExamAnswer]] = {}
    for answer in answers:
        if answer.exam == "self-confidence":
            by_reviewer.setdefault(answer.evidence.reviewer, []).append(answer)
    found = {}
    for name, own in by_reviewer.items():
        by_labels = all(answer.evidence.label_logprobs is None for answer in own)
        sets: dict[str, tuple[ConfidenceItem, ...]] = {}
        for difficulty in ("easy", "hard"):
            rows = [answer.evidence for answer in own if answer.difficulty == difficulty]
            levels = [(row.task, row.value) for row in rows]
            sets[difficulty] = tuple(levels if by_labels else uncertainties(rows))
        found[name] = ConfidenceAnswers(sets["easy"], sets["hard"], by_labels)
    return found


def without_own_family(
    judgements: Iterable[JudgementEvidence], families: Mapping[str, str], agents: Mapping[str, str]
) -> tuple[JudgementEvidence, ...]:
    """The judgements, those on an agent of the reviewer's own family left out.

    ``families``: of reviewers; one that is not named is of its own name. ``agents``: families of agents, likewise.
    """
    return tuple(
        row
        for row in judgements
        if families.get(row.reviewer, row.reviewer)
        not in {agents.get(agent, agent) for agent in (row.first, row.second) if agent is not None}
    )


def renamed(rows: Iterable[JudgementEvidence], name: str) -> tuple[JudgementEvidence, ...]:
    """The rows under another scale's name."""
    return tuple(replace(row, scale=name) for row in rows)
