"""The judgements and exam answers a review rests on: recorded in a study, or as they came from reviewers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    for column in ("reviewer", "format", "task"):
        if table[column].null_count():
            raise MetricError(f"{study.name}: the table judgements has rows without a {column}")
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
    _check_names(study, table)
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


def _check_names(study: Study, table: pl.DataFrame) -> None:
    """Refuse judgements on tasks or agents that the study does not have."""
    agents = {agent.agent for agent in study.agents}
    for column, known in (("task", set(study.tasks)), ("first", agents), ("second", agents), ("agent", agents)):
        if column in table.columns:
            strange = sorted(set(table[column].cast(pl.String).drop_nulls().unique()) - known)
            if strange:
                raise MetricError(
                    f"{study.name}: the table judgements names in {column} what the study does not have: "
                    f"{', '.join(strange[:5])}{' …' * (len(strange) > 5)}"
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
        found.append(_judgement(row, scale, first, second, read))
    return tuple(found)


def _judgement(
    row: Mapping[str, Any], scale: Scale, first: str, second: str | None, read: Callable[[str | None], float | None]
) -> JudgementEvidence:
    failure = None if row.get("failure") is None else CallFailure(row["failure"], "recorded as failed")
    value = _value(row.get("value"), scale)
    if value is None:
        value = read(row.get("output"))
    return JudgementEvidence(
        reviewer=row["reviewer"],
        scale=scale.name,
        task=row["task"],
        first=first,
        second=second,
        output=row.get("output"),
        value=None if failure is not None else value,
        read_from=None if value is None else "label",
        failure=failure or (UNPARSABLE if value is None else None),
    )


def _value(value: Any, scale: Scale) -> float | None:
    """A recorded value that the scale has; None: there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if scale.lowest <= value <= scale.highest else None


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
    scale = find_scale(PAIRWISE)
    read = _reader(scale, convention)
    if len(rows) and not {"task", "first", "second", "output"} <= set(rows.columns):
        raise MetricError("the table exams has pertinence answers without task, first, second and output")
    return tuple(_judgement(row, scale, row["first"], row["second"], read) for row in rows.iter_rows(named=True))


def _confidence(exams: pl.DataFrame, reviewers: Sequence[str]) -> dict[str, ConfidenceAnswers]:
    """How sure reviewers were: levels by label or value, or log-probabilities of the labels."""
    rows = exams.filter(pl.col("exam").str.starts_with("self-confidence") & pl.col("reviewer").is_in(list(reviewers)))
    if not len(rows) or "difficulty" not in rows.columns:
        return {}
    found = {}
    for name in rows["reviewer"].unique(maintain_order=True):
        own = [row for row in rows.iter_rows(named=True) if row["reviewer"] == name]
        by_labels = not any(_logprobs(row) for row in own)
        sets = {}
        for difficulty in ("easy", "hard"):
            some = [row for row in own if row["difficulty"] == difficulty]
            sets[difficulty] = tuple((_item(row), _sureness(row, by_labels=by_labels)) for row in some)
        found[name] = ConfidenceAnswers(sets["easy"], sets["hard"], by_labels=by_labels)
    return found


def _item(row: Mapping[str, Any]) -> str:
    return str(row.get("item") if row.get("item") is not None else row.get("task"))


def _logprobs(row: Mapping[str, Any]) -> list[float]:
    return [value for value in (row.get("label_logprobs") or {}).values() if value is not None]


def _sureness(row: Mapping[str, Any], *, by_labels: bool) -> float | None:
    """A level from 1 to 5, or the uncertainty in nats; None: not known."""
    if not by_labels:
        logprobs = _logprobs(row)
        return -max(logprobs) if logprobs else None
    for told in (row.get("label"), row.get("value")):
        if isinstance(told, int | float) and math.isfinite(told):
            return float(told)
        if isinstance(told, str):
            return confidence_levels([("", told)])[0][1]
    return None


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


def reviewer_family(name: str, model: str | None, families: Mapping[str, str], agents: Mapping[str, str]) -> str:
    """A reviewer's family: as named; else that of the agent of its name or its model's name; else its own name.

    ``agents``: the family of each agent, its own name where it has none.
    """
    for known in (name, model or name):
        if known in families:
            return families[known]
    return next((agents[known] for known in (name, model or name) if known in agents), name)


def without_own_family(
    judgements: Iterable[JudgementEvidence], families: Mapping[str, str], agents: Mapping[str, str]
) -> tuple[JudgementEvidence, ...]:
    """The judgements, those on an agent of the reviewer's own family left out."""
    rows = list(judgements)
    own = {name: reviewer_family(name, None, families, agents) for name in {row.reviewer for row in rows}}
    return tuple(
        row
        for row in rows
        if own[row.reviewer] not in {agents.get(agent, agent) for agent in (row.first, row.second) if agent is not None}
    )
