"""The scores of a run folder, as every exporter reads them: of goldless score and of goldless review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from goldless.errors import UserError, nearest
from goldless.reports.documents.scores import AgentScore, RankedMetric, ReviewDocument
from goldless.reports.html.run_results import RESULTS, RunResults, read_run
from goldless.signature import Signature
from goldless.studies import Study, read_study

REVIEW = "peer-review"
"""The name of a review's ranking among the metrics."""


@dataclass(frozen=True)
class ScoredRun:
    """A run folder with scores of agents."""

    folder: Path
    results: RunResults
    boards: Mapping[str, RankedMetric]
    """By metric; that of a review is ``peer-review``."""

    @cached_property
    def study(self) -> Study:
        """Tasks and responses of the run."""
        return read_study(self.folder)

    @property
    def made_at(self) -> str:
        """When the scores were made, in ISO 8601; empty if the folder does not say."""
        made = self.results.made_by.made
        return next((made[verb].at for verb in ("score", "review") if verb in made), "")

    def chosen(self, metric: str | None) -> dict[str, RankedMetric]:
        """The board of this metric, or all."""
        if metric is None:
            return dict(self.boards)
        if metric not in self.boards:
            advice = nearest(metric, self.boards) or f". Metrics: {', '.join(self.boards)}"
            raise UserError(f"--metric must be a metric of {self.folder}, got {metric!r}{advice}")
        return {metric: self.boards[metric]}

    def response_scores(self, metric: str | None = None) -> pl.DataFrame:
        """Columns metric, task, agent, score (null: missing) of these metrics; raises if the run has none."""
        wanted = [name for name in self.chosen(metric) if name != REVIEW]
        scores = self.results.scores
        found = None if scores is None else scores.filter(pl.col("metric").is_in(wanted))
        if found is None or found.is_empty():
            raise UserError(
                f"{self.folder} has no scores of single responses{'' if metric is None else f' by {metric}'}. Export a "
                "folder that goldless score --out wrote"
            )
        return found


def is_run(folder: Path) -> bool:
    """Whether a folder has results."""
    return folder.is_dir() and any((folder / f"{name}.json").is_file() for name in RESULTS)


def scored_run(folder: Path) -> ScoredRun:
    """Read a run folder; raises if it has no scores of agents."""
    results = read_run(folder)
    boards = dict(results.boards)
    if results.review is not None:
        boards |= dict(_rankings(results.review))
    boards = {name: board for name, board in boards.items() if any(row.score is not None for row in board.rows)}
    if not boards:
        found = ", ".join(f"{name}.json" for name in results.results) or "; ".join(results.problems)
        raise UserError(f"{folder} has no scores of agents (found: {found}). Export a run of goldless score or review")
    return ScoredRun(folder, results, boards)


def _rankings(review: ReviewDocument) -> Iterator[tuple[str, RankedMetric]]:
    level = float(Signature.parse(review.signature).settings.get("level", review.level))
    for name, ranking in list(review.rankings.items())[:1]:
        rows = tuple(
            AgentScore(**row.cells(n=row.n_tasks, missing=row.missing, better_than=None)) for row in ranking.agents
        )
        unit = ranking.unit if ranking.unit != "score" else name
        yield (
            REVIEW,
            RankedMetric(unit=unit, level=level, rows=rows, signature=review.signature, notes=ranking.notes),
        )
