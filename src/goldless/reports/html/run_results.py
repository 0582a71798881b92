"""Reads a run folder without trusting it: documents, agents, scores of responses, failed calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from goldless.errors import UserError
from goldless.files import POLARS_FAILED
from goldless.grouped import sum_in_order
from goldless.reports.documents.fields import Part, Result, Unreadable, read_document, read_rows
from goldless.reports.documents.meta_evaluation import (
    AgreementDocument,
    BiasDocument,
    CalibrationDocument,
    ConsistencyDocument,
    CostDocument,
    CrashTestDocument,
)
from goldless.reports.documents.scores import (
    AgentNote,
    EditionDocument,
    LeaderboardDocument,
    MadeByDocument,
    ProgressDocument,
    RankedMetric,
    ReviewDocument,
)
from goldless.reports.findings import REVIEW
from goldless.reports.spreadsheets import unguarded_frame
from goldless.studies.tables import PARTS

RESULTS: dict[str, type[Result]] = {
    "leaderboard": LeaderboardDocument,
    "review": ReviewDocument,
    "crash_test": CrashTestDocument,
    "agreement": AgreementDocument,
    "calibration": CalibrationDocument,
    "bias": BiasDocument,
    "cost": CostDocument,
    "consistency": ConsistencyDocument,
}
"""Documents that sections show, by file name."""
BESIDE: dict[str, type[Part]] = {"made_by": MadeByDocument, "progress": ProgressDocument, "gre": EditionDocument}
EVIDENCE = {
    "logprobs": ("log-probabilities", "scorer"),
    "control_logprobs": ("log-probabilities for task control", "scorer"),
    "verdicts": ("critic verdicts", "critic"),
    "rewrites": ("rewritten responses", "rewriter"),
    "synopses": ("synopses", "writer"),
    "judgements": ("judgements", "reviewer"),
}
"""Tables of evidence: what the rows are, and the column with the model."""


@dataclass(frozen=True, slots=True)
class Failed:
    """One cause of missing evidence in one table."""

    what: str
    """What is missing."""
    cause: str
    count: int
    model: str
    """The model in the example."""
    task: str
    example: str | None
    """The message or reply; None: nothing was stored."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunResults:
    """The content of a report; None: the folder has no such document, or it cannot be read."""

    leaderboard: LeaderboardDocument | None = None
    review: ReviewDocument | None = None
    crash_test: CrashTestDocument | None = None
    agreement: AgreementDocument | None = None
    calibration: CalibrationDocument | None = None
    bias: BiasDocument | None = None
    cost: CostDocument | None = None
    consistency: ConsistencyDocument | None = None
    made_by: MadeByDocument = field(default_factory=MadeByDocument)
    progress: ProgressDocument = field(default_factory=ProgressDocument)
    gre: EditionDocument | None = None
    agents: tuple[AgentNote, ...] = ()
    scores: pl.DataFrame | None = None
    """metric, task, agent, score of every response; None: the folder has none."""
    failed: tuple[Failed, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be read."""
    folder: Path | None = None
    """Where the texts are."""

    @property
    def boards(self) -> dict[str, RankedMetric]:
        """The metrics that rank agents, by name."""
        return {} if self.leaderboard is None else self.leaderboard.boards

    @cached_property
    def standings(self) -> dict[str, RankedMetric]:
        """All that ranks agents: the metrics, and the first ranking of the review."""
        reviewed = {} if self.review is None else self.review.boards
        first = list(reviewed.items())[:1]
        return {**self.boards, **{f"{REVIEW}{name}": board for name, board in first if board.rows}}

    @cached_property
    def all_scores(self) -> pl.DataFrame | None:
        """metric, task, agent and score under every standing: for a review, the share of the votes or mean rating."""
        found = [] if self.scores is None else [self.scores.select("metric", "task", "agent", "score")]
        reviewed = next((name for name in self.standings if name not in self.boards), None)
        if reviewed is not None and self.review is not None and self.folder is not None:
            votes = _votes(self.folder, self.review)
            found += [] if votes is None else [votes.select(pl.lit(reviewed).alias("metric"), "task", "agent", "score")]
        return pl.concat(found) if found else None

    @property
    def results(self) -> dict[str, Result]:
        """The documents with results, by file name."""
        found: dict[str, Result | None] = {name: getattr(self, name) for name in RESULTS}
        return {name: document for name, document in found.items() if document is not None}

    @property
    def study(self) -> str:
        """The study's name, from the first document that has it."""
        return next((found.study for found in (*self.results.values(), self.made_by) if found.study), "study")


def read_run(folder: Path) -> RunResults:
    """Read a run folder. Raises if it has no results at all; other problems are noted."""
    read = {name: read_document(folder / f"{name}.json", kind) for name, kind in (RESULTS | BESIDE).items()}
    agents = read_rows(folder / "agents.jsonl", AgentNote)
    problems = [str(found) for found in (*read.values(), agents) if isinstance(found, Unreadable)]
    documents = {name: found for name, found in read.items() if isinstance(found, Part)}
    if not any(name in documents or _is_object(read[name]) for name in RESULTS):
        raise UserError(
            f"{folder}: no results to report. Expected one of {', '.join(f'{name}.json' for name in RESULTS)}. "
            "Create them with goldless score --out, goldless review --out or goldless crashtest --out"
            + (f". Problems: {'; '.join(problems)}" if problems else "")
        )
    scores = _scores(folder / "response_scores.csv", problems)
    failed = tuple(row for name in EVIDENCE for row in _failed(folder, name, problems))
    return RunResults(
        agents=() if isinstance(agents, Unreadable) else agents,
        scores=scores,
        failed=failed,
        problems=(*problems, *_mixed(documents)),
        folder=folder,
        **documents,  # type: ignore[arg-type]  # each under its own name, by RESULTS and BESIDE
    )


def _is_object(found: object) -> bool:
    return isinstance(found, Unreadable) and found.is_object


def _mixed(documents: dict[str, Part]) -> Iterator[str]:
    """Results of different studies in one folder."""
    results = {name: found for name, found in documents.items() if name in RESULTS and isinstance(found, Result)}
    prints = {name: found.fingerprint for name, found in results.items() if found.fingerprint}
    if len(set(prints.values())) > 1:
        files = ", ".join(f"{name}.json {value[:8]}" for name, value in prints.items())
        yield f"the results belong to different studies, or the study changed in between: {files}"


def _scores(path: Path, problems: list[str]) -> pl.DataFrame | None:
    if not path.is_file():
        return None
    kinds = {"metric": pl.String, "task": pl.String, "agent": pl.String, "score": pl.Float64}
    try:
        frame = pl.read_csv(path, columns=list(kinds), schema_overrides=kinds)
    except (OSError, ValueError, *POLARS_FAILED) as error:
        problems.append(f"{path.name} cannot be read as metric, task, agent, score ({_first_line(error)})")
        return None
    frame = unguarded_frame(frame)
    return frame.with_columns(pl.col("score").replace([float("inf"), float("-inf"), float("nan")], None))


def _votes(folder: Path, review: ReviewDocument) -> pl.DataFrame | None:
    """task, agent and score of the reviewers that vote, weighted; None: there are no judgements to read."""
    files = evidence_files(folder, "judgements")
    weights = {row.name: row.weight or 1.0 for row in review.reviewers if row.name in review.panel.reviewers}
    try:
        frame = pl.scan_parquet(files, glob=False) if files and weights else None
        if frame is None or not {"reviewer", "format", "task", "value"} <= set(frame.collect_schema().names()):
            return None
        there = frame.filter(
            pl.col("reviewer").is_in(list(weights)) & (pl.col("format") == review.scale) & pl.col("value").is_not_null()
        )
        weight = pl.col("reviewer").replace_strict(weights, return_dtype=pl.Float64).alias("weight")
        value, columns = pl.col("value").cast(pl.Float64), there.collect_schema().names()
        sides = [
            there.filter(pl.col(name).is_not_null()).select(
                "task", pl.col(name).alias("agent"), worth.alias("v"), weight
            )
            for name, worth in (("first", value), ("second", 1 - value), ("agent", value))
            if name in columns
        ]
        share = sum_in_order(pl.col("v") * pl.col("weight")) / sum_in_order(pl.col("weight"))
        return pl.concat(sides).group_by("task", "agent", maintain_order=True).agg(share.alias("score")).collect()
    except (OSError, ValueError, *POLARS_FAILED):
        return None  # said where failed calls are counted


def evidence_files(folder: Path, table: str) -> list[Path]:
    """The Parquet files of a table of evidence in order: NAME.parquet, or the parts in the folder NAME."""
    whole = folder / f"{table}.parquet"
    return [whole] if whole.is_file() else sorted((folder / table).glob(PARTS))


def _failed(folder: Path, name: str, problems: list[str]) -> list[Failed]:
    """Missing evidence of one table by cause, each with the first example."""
    files = evidence_files(folder, name)
    if not files:
        return []
    what, whose = EVIDENCE[name]
    try:
        table = pl.scan_parquet(files, glob=False)
        columns = table.collect_schema().names()
        if "failure" not in columns:
            return []
        said = next((column for column in ("failure_message", "output", "text") if column in columns), None)
        first = [
            (pl.col(column) if column in columns else pl.lit(None, pl.String)).first().alias(alias)
            for column, alias in ((whose, "model"), ("task", "task"), (said or "", "said"))
        ]
        rows = (
            table.filter(pl.col("failure").is_not_null())
            .group_by("failure")
            .agg(pl.len().alias("count"), *first)
            .sort("count", "failure", descending=[True, False])
            .collect()
        )
    except (OSError, ValueError, *POLARS_FAILED) as error:
        problems.append(f"{name}.parquet cannot be read ({_first_line(error)})")
        return []
    return [
        Failed(what, str(r["failure"]), int(r["count"]), str(r["model"] or ""), str(r["task"] or ""), r["said"])
        for r in rows.to_dicts()
    ]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
