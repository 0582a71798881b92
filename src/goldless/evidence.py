"""Evidence: what models were asked and what they said, in columns, with everything needed to trust it.

One schema per kind of evidence. Stages append frames of these columns as replies arrive; the tables of a run folder and
the recorded tables of a study have the same ones. A value that is missing is null, and ``failure`` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from goldless.records import CallFailure, FailureKind

Schema = dict[str, pl.DataType | type[pl.DataType]]


def _texts(*names: str) -> Schema:
    return dict.fromkeys(names, pl.String)


FAILURE: Schema = _texts("failure", "failure_message")
"""Why a value is missing: its kind, and what was said; both null where it is there."""
TOKENS = "logprobs_nats"
"""The column of per-token values: kept on disk, and read only by what shows tokens."""
LOGPROBS: Schema = {
    **_texts("scorer", "template", "rewriter", "task", "target", "given", "synopsis"),
    "sum_logprob_nats": pl.Float64,
    "mean_token_logprob_nats": pl.Float64,
    "tokens": pl.Int64,
    "texts": pl.String,
    TOKENS: pl.List(pl.Float64),
    **FAILURE,
}
"""log p of the response of ``target``, given that of ``given`` (null: the marginal) and a synopsis (null: none).

``rewriter``: whose rewrites were scored; null: the responses as they are. ``texts``: a hash of the texts it is about,
by which it is known again; null: not known."""
VERDICTS: Schema = {
    **_texts("critic", "prompt", "task", "first", "second", "second_task"),
    "value": pl.Float64,
    **_texts("label", "read_from"),
    **FAILURE,
}
"""Whether the first response tells about the second, from 0 to 1; ``second_task`` is ``task`` in a matched pair."""
CONTRASTS: Schema = {**_texts("task", "first", "second"), "contrast": pl.Float64}
"""A matched verdict less the mean of its shuffled ones, where a study carries that without the verdicts."""
JUDGEMENTS: Schema = {
    **_texts("reviewer", "format", "task", "first", "second", "agent", "output"),
    "value": pl.Float64,
    **FAILURE,
}
"""What a reviewer said of one response (``agent``), or how far the first of two is better, on the scale ``format``."""
EXAMS: Schema = {
    **_texts("reviewer", "exam", "difficulty", "format", "task", "first", "second", "output"),
    "value": pl.Float64,
    "read_from": pl.String,
    "label_logprobs": pl.List(pl.Struct({"label": pl.String, "logprob_nats": pl.Float64})),
    **FAILURE,
}
"""What a reviewer said to one question of an exam; ``difficulty``: the set it is of, in the self-confidence exam."""
REWRITES: Schema = {**_texts("rewriter", "template", "task", "agent", "text"), **FAILURE}
"""A response after preprocessing; ``template``: the prompt it was made with, null: not known."""
SYNOPSES: Schema = {**_texts("writer", "task", "synopsis", "text"), **FAILURE}
"""A synopsis, by its name, that a model wrote for a task."""

TABLES: Mapping[str, Schema] = {
    "logprobs": LOGPROBS,
    "verdicts": VERDICTS,
    "critic_contrasts": CONTRASTS,
    "rewrites": REWRITES,
    "synopses": SYNOPSES,
    "judgements": JUDGEMENTS,
    "exams": EXAMS,
}
"""The tables of evidence by the names they have in a study and in a run folder."""

OPEN_KINDS: frozenset[FailureKind] = frozenset({"rate_limited", "server_error", "timeout", "connection", "budget"})
"""Failures that another run of the same command would try again."""


def empty(schema: Schema) -> pl.DataFrame:
    """A table without rows."""
    return pl.DataFrame(schema=schema)


def rows_frame(rows: Sequence[Sequence[Any]], schema: Schema) -> pl.DataFrame:
    """A table of these rows, each in the order of the schema."""
    return pl.DataFrame(rows, schema=schema, orient="row")


def number(name: str, kind: pl.DataType) -> pl.Expr:
    """A column of this type as numbers; null where a cell holds none."""
    if kind.is_numeric() or kind in {pl.Boolean, pl.String, pl.Null}:
        return pl.col(name).cast(pl.Float64, strict=False)
    return pl.lit(None, pl.Float64).alias(name)


def failure_cells(failure: CallFailure | None) -> tuple[str | None, str | None]:
    """The cells of ``FAILURE``."""
    return (None, None) if failure is None else (failure.kind, failure.message)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the metrics of a run rest on, without per-token values."""

    logprobs: pl.DataFrame = field(default_factory=lambda: empty(LOGPROBS).drop(TOKENS))
    verdicts: pl.DataFrame = field(default_factory=lambda: empty(VERDICTS))
    contrasts: pl.DataFrame = field(default_factory=lambda: empty(CONTRASTS))
    rewrites: pl.DataFrame = field(default_factory=lambda: empty(REWRITES))
    synopses: pl.DataFrame = field(default_factory=lambda: empty(SYNOPSES))
    described: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What signatures say of a table: who gave it and how."""
    with_tokens: Callable[[], pl.LazyFrame] | None = None
    """The log-probabilities with their per-token values, read from disk when asked for; None: there are none."""

    @property
    def wanted(self) -> tuple[pl.DataFrame, ...]:
        """The tables whose every row was asked for, whether it is there or missing."""
        return self.logprobs, self.verdicts, self.rewrites, self.synopses

    @property
    def asked(self) -> int:
        """How many log-probabilities, verdicts, rewrites and synopses were wanted."""
        return sum(map(len, self.wanted))

    @property
    def failures(self) -> Counter[FailureKind]:
        """Missing evidence by cause."""
        return failure_counts(*self.wanted)

    @property
    def examples(self) -> dict[FailureKind, str]:
        """One message for each cause of missing evidence."""
        found: dict[FailureKind, str] = {}
        for frame in self.wanted:
            last = frame.lazy().drop_nulls("failure").unique("failure", keep="last", maintain_order=True).collect()
            found |= dict(last.select("failure", "failure_message").iter_rows())
        return found

    @property
    def open(self) -> int:
        """How many rows are missing for a cause that may pass."""
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)


def failure_counts(*frames: pl.DataFrame) -> Counter[FailureKind]:
    """Missing rows of tables of evidence by cause."""
    found: Counter[FailureKind] = Counter()
    for frame in frames:
        counted = frame["failure"].drop_nulls().value_counts()
        found.update(dict(counted.iter_rows()))
    return found


@dataclass(frozen=True, slots=True)
class RewriteEvidence:
    """A response after preprocessing, as a rewriter gave it."""

    rewriter: str
    task: str
    agent: str
    text: str | None = None
    """None: missing, and ``failure`` says why. Never an empty string."""
    failure: CallFailure | None = None
    template: str | None = None
    """Name of the prompt it was made with; None: not known."""


@dataclass(frozen=True, slots=True)
class VerdictEvidence:
    """What a critic said of two responses, as it came: whether knowing the first tells about the second."""

    critic: str
    """Who said it, in short."""
    prompt: str
    """Name of the critic's prompt."""
    task: str
    """Task of the first response."""
    first: str
    """Agent of the first response."""
    second: str
    """Agent of the second response."""
    second_task: str
    """Task of the second response; equal to ``task``: a matched pair; another: a shuffled one."""
    value: float | None = None
    """Between 0 and 1; None: missing, and ``failure`` says why."""
    label: str | None = None
    """The label the critic gave, or its likeliest one."""
    read_from: Literal["probabilities", "label"] | None = None
    """Whether the value is the mean over the labels' probabilities, or that of the one label."""
    failure: CallFailure | None = None


@dataclass(frozen=True, slots=True)
class JudgementEvidence:
    """What a reviewer said of one response, or of two, as it came."""

    reviewer: str
    """Who said it."""
    scale: str
    """Name of the scale it was asked on, such as ``pairwise`` or ``5-level``."""
    task: str
    first: str
    """The agent that was rated, or the one shown first."""
    second: str | None = None
    """The agent shown second; None: one response was rated."""
    output: str | None = None
    """The reply as the model wrote it."""
    value: float | None = None
    """A rating; of two responses, how far the first is better: 1 it is, 0 the second is, 0.5 neither, and anything
    between where it was read from probabilities. None: missing, and ``failure`` says why."""
    read_from: Literal["probabilities", "label"] | None = None
    label_logprobs: Mapping[str, float] | None = None
    """log p of each label in nats, normalised over the labels, where the model gives them."""
    failure: CallFailure | None = None


@dataclass(frozen=True, slots=True)
class SynopsisEvidence:
    """A synopsis that a model wrote for a task, as it came."""

    writer: str
    task: str
    synopsis: str
    """Its name."""
    text: str | None = None
    """None: missing, and ``failure`` says why."""
    failure: CallFailure | None = None


@dataclass(frozen=True, slots=True)
class GenerationEvidence:
    """What a model wrote for a task."""

    writer: str
    """Who wrote, in short."""
    task: str
    reply: str | None = None
    """As the model wrote it, also where it cannot be used; None: nothing came."""
    failure: CallFailure | None = None
    """Why the text is missing."""
    finish: str | None = None
    """How the reply ended: ``stop``, or ``length`` where it was cut at its limit."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    """What the call was charged for, when it was made; None: nothing came, or nobody said."""
    characters_cut: int = 0
    """Of the task's material, at its end, so that it fits."""

    @property
    def text(self) -> str | None:
        """What can be used; None: missing, and ``failure`` says why."""
        return self.reply if self.failure is None else None


def verdicts_frame(rows: Sequence[VerdictEvidence]) -> pl.DataFrame:
    """Verdicts as a table."""
    names = [name for name in VERDICTS if name not in FAILURE]
    return rows_frame([(*(getattr(r, n) for n in names), *failure_cells(r.failure)) for r in rows], VERDICTS)


def judgements_frame(rows: Sequence[JudgementEvidence]) -> pl.DataFrame:
    """Judgements as a table; of a rated response the agent has a column of its own."""
    return rows_frame(
        [
            (
                row.reviewer,
                row.scale,
                row.task,
                None if row.second is None else row.first,
                row.second,
                row.first if row.second is None else None,
                row.output,
                row.value,
                *failure_cells(row.failure),
            )
            for row in rows
        ],
        JUDGEMENTS,
    )


def judgement_rows(table: pl.DataFrame) -> list[JudgementEvidence]:
    """Judgements one by one, where single ones are looked at."""
    return [
        JudgementEvidence(
            reviewer=row["reviewer"],
            scale=row["format"],
            task=row["task"],
            first=row["agent"] if row["second"] is None else row["first"],
            second=row["second"],
            output=row["output"],
            value=row["value"],
            failure=None if row["failure"] is None else CallFailure(row["failure"], row["failure_message"] or ""),
        )
        for row in table.select(*JUDGEMENTS).iter_rows(named=True)
    ]


def rewrites_frame(rows: Sequence[RewriteEvidence]) -> pl.DataFrame:
    """Rewrites as a table."""
    return rows_frame(
        [(r.rewriter, r.template, r.task, r.agent, r.text, *failure_cells(r.failure)) for r in rows], REWRITES
    )


def synopses_frame(rows: Sequence[SynopsisEvidence]) -> pl.DataFrame:
    """Written synopses as a table."""
    return rows_frame([(r.writer, r.task, r.synopsis, r.text, *failure_cells(r.failure)) for r in rows], SYNOPSES)
