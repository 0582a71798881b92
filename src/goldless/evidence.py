"""Evidence: what models were asked and what they replied, in columns, with everything needed to trust it.

One schema per kind of evidence. Stages append frames of these columns as replies arrive; the tables of a run folder
and the recorded tables of a study use the same schemas. A missing value is null, and ``failure`` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from goldless.records import CallFailure, FailureKind

Schema = dict[str, pl.DataType | type[pl.DataType]]


def _texts(*names: str) -> Schema:
    return dict.fromkeys(names, pl.String)


FAILURE: Schema = _texts("failure", "failure_message")
"""The reason why a value is missing: kind and message; both null if it is present."""
TOKENS = "logprobs_nats"
"""The column of per-token values: kept on disk and read only to show tokens."""
TASKS, AGENTS = ("task", "second_task", "target_task"), ("target", "given", "first", "second", "agent")
"""Columns that name tasks and agents."""
Names = Mapping[str, Literal["task", "agent"]]
Rule = tuple[pl.Expr, str]
"""The test for a fault in a row, and the sentence that says so, a format of its cells."""


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """One kind of evidence, declared once for those who write, check, read and count it."""

    columns: Schema
    rows: str = ""
    """The name of its rows, where failures are counted."""
    model: str = ""
    """The column with the model."""
    about: tuple[str, ...] = ()
    """Columns that name the response of a row, of which one is filled."""
    required: tuple[str, ...] = ()
    """Columns that a study's own table must have."""
    sources: tuple[str, ...] = ()
    """Columns that say how a value was made."""
    values: tuple[str, ...] = ()
    """Where all of these are missing, a recorded row has failed."""
    rules: tuple[Rule, ...] = ()
    """Faults that recorded values must not have."""

    @property
    def names(self) -> Names:
        """Columns with names that must be in the study."""
        known = {*TASKS, *AGENTS}
        return {name: "task" if name in TASKS else "agent" for name in self.columns if name in known}

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify a row."""
        return (*self.sources, *self.names)

    @property
    def hashed(self) -> tuple[str, ...]:
        """The columns that the hash in a signature is of."""
        return (*(name for name in self.key if name not in {"scorer", "critic", "prompt"}), *self.values)

    @property
    def pair(self) -> tuple[str, str]:
        """Two agents; rows in which they are the same are left out."""
        return ("target", "given") if "target" in self.columns else ("first", "second")

    @property
    def place(self) -> str:
        """The name of a row in messages, a format of its cells."""
        return "{target} on {task}" if "target" in self.columns else "{first} and {second} on {task}"


def between(column: str, low: int, more: str = "") -> tuple[Rule, ...]:
    """The rule that values lie between ``low`` and 1."""
    return ((~pl.col(column).is_between(low, 1), f"{column} must be between {low} and 1{more}, got {{{column}:g}}"),)


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

``rewriter``: the model whose rewrites were scored; null: the original responses. ``texts``: a hash of the texts
scored, which identifies them; null: unknown.
"""
CONTROL: Schema = {**{name: kind for name, kind in LOGPROBS.items() if name != TOKENS}, "target_task": pl.String}
"""The same for the target's response to another task, ``target_task``; ``given`` and the synopsis are of ``task``."""
VERDICTS: Schema = {
    **_texts("critic", "prompt", "task", "first", "second", "second_task"),
    "value": pl.Float64,
    **_texts("label", "read_from"),
    **FAILURE,
}
"""True if the first response is informative about the second, from 0 to 1; in a matched pair ``second_task`` is
``task``."""
CONTRASTS: Schema = {**_texts("task", "first", "second"), "contrast": pl.Float64}
"""A matched verdict minus the mean of its shuffled ones, for studies that record this without the verdicts."""
JUDGEMENTS: Schema = {
    **_texts("reviewer", "format", "task", "first", "second", "agent", "output", "mark"),
    "value": pl.Float64,
    **FAILURE,
}
"""A reviewer's rating of one response (``agent``), or preference for the first of two, on the scale ``format``."""
VERB = "verb"
"""The column of stored judgements with the verb that collected them, ``review`` or ``score``: a run folder has one
table for both."""
EXAMS: Schema = {
    **_texts("reviewer", "exam", "difficulty", "format", "task", "first", "second", "output", "mark"),
    "value": pl.Float64,
    "read_from": pl.String,
    "label_logprobs": pl.List(pl.Struct({"label": pl.String, "logprob_nats": pl.Float64})),
    **FAILURE,
}
"""A reviewer's reply to one exam question; ``difficulty``: its question set, in the self-confidence exam."""
REWRITES: Schema = {**_texts("rewriter", "template", "task", "agent", "text"), **FAILURE}
"""A response after preprocessing; ``template``: the prompt used, null: unknown."""
SYNOPSES: Schema = {**_texts("writer", "task", "synopsis", "text"), **FAILURE}
"""A named synopsis that a model wrote for a task."""

PERTURBED: Schema = {
    **_texts("perturbation", "task", "agent", "copy", "text"),
    "unchanged": pl.Boolean,
    **_texts("failure", "message"),
}
"""A response after a perturbation. ``copy``: the name of the agent that gives the new text, the strategy's own for a
strategy. ``unchanged``: the text is the same, ignoring white space. A missing text has the kind of its failure."""

_LOGPROB_VALUES = ("sum_logprob_nats", "mean_token_logprob_nats")
_OF_LOGPROBS = EvidenceTable(
    *(LOGPROBS, "log-probabilities", "scorer", ("target",)),
    required=("task", "target"),
    sources=("scorer", "template", "rewriter", "synopsis"),
    values=_LOGPROB_VALUES,
    rules=(
        # in half precision the log-probability of a certain token can be slightly above zero
        (pl.max_horizontal(*_LOGPROB_VALUES, "highest") > 1e-2, "a log-probability must not be above 0"),
        (
            (pl.col("tokens") < 1) | (pl.col("tokens") % 1 != 0),
            "tokens must be a whole number of at least 1, got {tokens:g}",
        ),
    ),
)
_OF_CONTROL = replace(
    _OF_LOGPROBS,
    columns=CONTROL,
    rows="log-probabilities for task control",
    required=(*_OF_LOGPROBS.required, "target_task"),
)
_OF_VERDICTS = EvidenceTable(
    *(VERDICTS, "critic verdicts", "critic", ("first",)),
    required=("task", "first", "second", "second_task", "value"),
    sources=("critic", "prompt"),
    values=("value",),
    rules=between("value", 0, ", or empty if missing"),
)
_OF_CONTRASTS = EvidenceTable(
    CONTRASTS, required=("task", "first", "second", "contrast"), rules=between("contrast", -1)
)
_OF_JUDGEMENTS = EvidenceTable(
    *(JUDGEMENTS, "judgements", "reviewer", ("first", "agent")),
    required=("reviewer", "task", "output"),
    sources=("reviewer", "format"),
)
TABLES: Mapping[str, EvidenceTable] = {
    "judgements": _OF_JUDGEMENTS,
    "exams": EvidenceTable(EXAMS, required=("reviewer", "exam")),
    "rewrites": EvidenceTable(REWRITES, "rewritten responses", "rewriter", ("agent",), ("task", "agent", "text")),
    "logprobs": _OF_LOGPROBS,
    "control_logprobs": _OF_CONTROL,
    "verdicts": _OF_VERDICTS,
    "critic_contrasts": _OF_CONTRASTS,
    "synopses": EvidenceTable(SYNOPSES, "synopses", "writer"),
    "perturbed": EvidenceTable(PERTURBED, "perturbed responses", "writer", ("agent",)),
}
"""The evidence by its name in a study and in a run folder; what a crash test perturbed, it counts itself."""

OPEN_KINDS: frozenset[FailureKind] = frozenset({"rate_limited", "server_error", "timeout", "connection", "budget"})
"""Failures that a rerun of the same command would retry."""


def empty(schema: Schema) -> pl.DataFrame:
    """A table without rows."""
    return pl.DataFrame(schema=schema)


def of_verb(judgements: pl.LazyFrame, verb: str) -> pl.LazyFrame:
    """The judgements that a verb collected; of a scale on which it collected none, all."""
    if VERB not in judgements.collect_schema():
        return judgements
    own = pl.col(VERB).eq_missing(pl.lit(verb))
    return judgements.filter(own | ~own.any().over("format"))


def of_other_verbs(judgements: pl.LazyFrame, verb: str) -> pl.LazyFrame:
    """The judgements that other verbs collected."""
    if VERB not in judgements.collect_schema():
        return judgements.clear()
    return judgements.filter(pl.col(VERB) != verb)


def rows_frame(rows: Sequence[Sequence[Any]], schema: Schema) -> pl.DataFrame:
    """A table of these rows, each in schema order."""
    return pl.DataFrame(rows, schema=schema, orient="row")


def number(name: str, kind: pl.DataType) -> pl.Expr:
    """A column of this type as numbers; null where a cell has none."""
    if kind.is_numeric() or kind in {pl.Boolean, pl.String, pl.Null}:
        return pl.col(name).cast(pl.Float64, strict=False)
    return pl.lit(None, pl.Float64).alias(name)


def failure_cells(failure: CallFailure | None) -> tuple[str | None, str | None]:
    """The cells of ``FAILURE``."""
    return (None, None) if failure is None else (failure.kind, failure.message)


def text_cells(written: str | CallFailure) -> tuple[str | None, str | None, str | None]:
    """The cells of a text that a model wrote, and of why it is missing."""
    return (None, *failure_cells(written)) if isinstance(written, CallFailure) else (written, None, None)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence behind a run's metrics, without per-token values."""

    logprobs: pl.DataFrame = field(default_factory=lambda: empty(LOGPROBS).drop(TOKENS))
    control: pl.DataFrame = field(default_factory=lambda: empty(CONTROL))
    verdicts: pl.DataFrame = field(default_factory=lambda: empty(VERDICTS))
    contrasts: pl.DataFrame = field(default_factory=lambda: empty(CONTRASTS))
    rewrites: pl.DataFrame = field(default_factory=lambda: empty(REWRITES))
    synopses: pl.DataFrame = field(default_factory=lambda: empty(SYNOPSES))
    judgements: pl.DataFrame = field(default_factory=lambda: empty(JUDGEMENTS))
    described: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The description of a table in signatures: its source and settings."""
    with_tokens: Callable[[], pl.LazyFrame] | None = None
    """The log-probabilities with their per-token values, read from disk on demand; None: there are none."""

    @property
    def wanted(self) -> tuple[pl.DataFrame, ...]:
        """The tables in which every row was requested, present or missing."""
        return self.logprobs, self.control, self.verdicts, self.rewrites, self.synopses, self.judgements

    @property
    def asked(self) -> int:
        return sum(map(len, self.wanted))

    @property
    def failures(self) -> Counter[FailureKind]:
        return failure_counts(*self.wanted)

    @property
    def examples(self) -> dict[FailureKind, str]:
        """The last message of each cause for which rows are missing."""
        found: dict[FailureKind, str] = {}
        for frame in self.wanted:
            last = frame.drop_nulls("failure").unique("failure", keep="last", maintain_order=True)
            found |= dict(last.select("failure", "failure_message").iter_rows())
        return found

    @property
    def open(self) -> int:
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)


def failure_counts(*frames: pl.DataFrame) -> Counter[FailureKind]:
    """Missing rows of evidence tables by cause."""
    found: Counter[FailureKind] = Counter()
    for frame in frames:
        counted = frame["failure"].drop_nulls().value_counts().sort("failure")
        found.update(dict(counted.iter_rows()))
    return found


def is_open(failure: CallFailure | None) -> bool:
    """True if a rerun of the same command would ask again."""
    return failure is not None and failure.kind in OPEN_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictReply:
    """The outcome of one question to a reviewer or a critic."""

    value: float | None = None
    """A rating; for two responses, the preference for the first: 1 the first is better, 0 the second, 0.5 a tie,
    and anything between if read from probabilities; of a critic, whether the first is informative about the second.
    None: missing, and ``failure`` says why.
    """
    label: str | None = None
    """The label of this value, or the likeliest one."""
    text: str | None = None
    """The model's last reply as it wrote it, if any."""
    mark: str | None = None
    """The mark that the verdict had to carry; None: the question had none."""
    read_from: Literal["probabilities", "label"] | None = None
    label_logprobs: Mapping[str, float] | None = None
    """log p of each label in nats, normalised over the labels, where the model returns them."""
    failure: CallFailure | None = None
    unclear: bool = False
    """True if there was a reply, but without the labels' probabilities."""


@dataclass(frozen=True, slots=True)
class JudgementEvidence(VerdictReply):
    """A reviewer's judgement of one response, or of two, or a critic's verdict on two, as received."""

    reviewer: str
    """The reviewer's name, or the critic's short name."""
    scale: str
    """Name of the scale, such as ``pairwise`` or ``5-level``, or of the critic's prompt."""
    task: str
    first: str
    """The agent that was rated, or the one shown first."""
    second: str | None = None
    """The agent shown second; None: one response was rated."""
    second_task: str | None = None
    """Of a critic's verdict: equal to ``task``: a matched pair; different: a shuffled one."""

    @property
    def output(self) -> str | None:
        """The reply, or the label where it was chosen without one."""
        return self.label if self.text is None else self.text


def verdicts_frame(rows: Sequence[JudgementEvidence]) -> pl.DataFrame:
    """A critic's verdicts as a table."""
    names = ("reviewer", "scale", "task", "first", "second", "second_task", "value", "label", "read_from")
    return rows_frame([(*(getattr(r, n) for n in names), *failure_cells(r.failure)) for r in rows], VERDICTS)


def judgements_frame(rows: Sequence[JudgementEvidence]) -> pl.DataFrame:
    """Judgements as a table; the agent of a rated response has its own column."""
    found = []
    for row in rows:
        sides = (None, None, row.first) if row.second is None else (row.first, row.second, None)
        found.append(
            (row.reviewer, row.scale, row.task, *sides, row.output, row.mark, row.value, *failure_cells(row.failure))
        )
    return rows_frame(found, JUDGEMENTS)


def exams_frame(exam: str, answers: Sequence[JudgementEvidence], difficulty: str | None = None) -> pl.DataFrame:
    """Answers to the questions of an exam as a table; ``difficulty``: their set in the self-confidence exam."""
    rows = []
    for row in answers:
        nats = row.label_logprobs
        told = None if nats is None else [{"label": label, "logprob_nats": value} for label, value in nats.items()]
        asked = row.reviewer, exam, difficulty, row.scale, row.task, row.first, row.second
        rows.append((*asked, row.output, row.mark, row.value, row.read_from, told, *failure_cells(row.failure)))
    return rows_frame(rows, EXAMS)
