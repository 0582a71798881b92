"""The contamination clock of a run folder: its agents, its tasks' dates and its response scores, read back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError
from goldless.gre_bench.boards import EDITION, RUN
from goldless.gre_bench.contamination import Clock, contamination_clock
from goldless.meta_evaluation.run_scores import SCHEMA, SCORES
from goldless.metrics.scores import ResponseScore
from goldless.studies import Study, read_study
from goldless.studies.cells import is_empty

PUBLIC_DATE = "public_date"
"""The column of the tasks table."""


def run_clock(folder: Path | str, *, seed: int = 0, resamples: int = 10_000, level: float = 0.90) -> Clock:
    """The clock of a run folder, or of an edition's. No model is asked.

    Dates of papers are the column ``public_date`` of its tasks, cut-offs ``cutoff_date`` of its agents.
    """
    folder = Path(folder)
    run = folder / RUN if (folder / EDITION).is_file() else folder
    if not (run / SCORES).is_file():
        raise UserError(f"{run}: no run folder, {SCORES} is not there; goldless score STUDY --out {run} writes one")
    study = read_study(run)
    scores, signatures = read_response_scores(run)
    return contamination_clock(
        study.agents, public_dates(study), scores, signatures=signatures, seed=seed, resamples=resamples, level=level
    )


def public_dates(study: Study) -> dict[str, str | None]:
    """The date of every paper by task, from the column ``public_date`` of the tasks; None where it has none."""
    return {task: _date(study.task(task).extra.get(PUBLIC_DATE)) for task in study.tasks}


def read_response_scores(folder: Path) -> tuple[dict[str, Sequence[ResponseScore]], dict[str, str]]:
    """The response scores of a run folder and their signatures, by metric."""
    try:
        frame = pl.read_csv(folder / SCORES, schema_overrides=SCHEMA).select(*SCHEMA)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(
            f"{folder / SCORES}: cannot be read as {', '.join(SCHEMA)} ({error}); score the study again"
        ) from error
    scores: dict[str, list[ResponseScore]] = {}
    signatures: dict[str, str] = {}
    for row in frame.iter_rows(named=True):
        response = ResponseScore(row["task"], row["agent"], row["score"], row["asked"], row["used"])
        scores.setdefault(row["metric"], []).append(response)
        signatures[row["metric"]] = row["signature"]
    return dict(scores), signatures


def _date(value: Any) -> str | None:
    if is_empty(value):
        return None
    if isinstance(value, date):
        # a datetime is a date, too, and its time says nothing here
        return date(value.year, value.month, value.day).isoformat()
    return str(value)
