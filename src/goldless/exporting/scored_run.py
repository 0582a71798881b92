"""A run folder as every exporter reads it: of goldless score and of goldless review."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError, nearest
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.run_folder import RunFolder

REVIEW = "peer-review"
"""The name of a review's ranking among the metrics."""


class ScoredRun(RunFolder):
    """A run folder with scores of agents."""

    @cached_property
    def ranked(self) -> dict[str, Leaderboard]:
        """The boards that have scores, by metric; the first ranking of a review is ``peer-review``."""
        found = dict(self.boards)
        for board in [] if self.review is None else [*self.review.boards.values()][:1]:
            found[REVIEW] = board
        return {name: board for name, board in found.items() if any(row.score is not None for row in board.rows)}

    @property
    def study_name(self) -> str:
        """The study's name; ``study`` if the folder does not say."""
        return super().study_name or "study"

    @property
    def made_at(self) -> str:
        """When the scores were made, in ISO 8601; empty if the folder does not say."""
        made = self.made_by.made
        return next((made[verb].at for verb in ("score", "review") if verb in made), "")

    def chosen(self, metric: str | None) -> dict[str, Leaderboard]:
        """The board of this metric, or all."""
        if metric is None:
            return self.ranked
        if metric not in self.ranked:
            advice = nearest(metric, self.ranked) or f". Metrics: {', '.join(self.ranked)}"
            raise UserError(f"--metric must be a metric of {self.path}, got {metric!r}{advice}")
        return {metric: self.ranked[metric]}

    def response_scores(self, metric: str | None = None) -> pl.DataFrame:
        """Columns metric, task, agent, score (null: missing) of these metrics; raises if the run has none."""
        wanted = [name for name in self.chosen(metric) if name != REVIEW]
        found = None if self.scores is None else self.scores.filter(pl.col("metric").is_in(wanted))
        if found is None or found.is_empty():
            raise UserError(
                f"{self.path} has no scores of single responses{'' if metric is None else f' by {metric}'}. Export a "
                "folder that goldless score --out wrote"
            )
        return found


class RunExporter:
    """An exporter of runs with scores."""

    def exports(self, thing: Any) -> bool:
        """Whether it is a run with scores."""
        return isinstance(thing, ScoredRun)


def scored_run(folder: Path) -> ScoredRun:
    """The run in a folder; raises if it has no scores of agents."""
    run = ScoredRun(folder)
    if not run.ranked:
        found = ", ".join(f"{name}.json" for name in run.results) or "; ".join(run.problems)
        raise UserError(f"{folder} has no scores of agents (found: {found}). Export a run of goldless score or review")
    return run
