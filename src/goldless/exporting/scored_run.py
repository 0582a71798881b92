"""A run folder as every exporter reads it, and a folder as it is written: complete or not at all."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from goldless.audit.finding import listed
from goldless.comparison.pairing import known_metric
from goldless.errors import UserError, suggested
from goldless.files import filled_folder
from goldless.judging.judges import JUDGES
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.review import ReviewerResult
from goldless.reports.run_folder import RunFolder

REVIEW = "peer-review"
"""The name of a review's ranking among the metrics."""


class ScoredRun(RunFolder):
    """A run folder with scores of agents."""

    @cached_property
    def ranked(self) -> dict[str, Leaderboard]:
        """The boards that have scores, by metric; the first ranking of a review is ``peer-review``."""
        reviewed = () if self.review is None else self.review.boards.values()
        found = {**self.boards, **dict(zip((REVIEW,), reviewed, strict=False))}
        return {name: board for name, board in found.items() if any(row.score is not None for row in board.rows)}

    @property
    def study_name(self) -> str:
        """The study's name; ``study`` if the folder does not say."""
        return super().study_name or "study"

    @property
    def made_at(self) -> str:
        """The time when the scores were made, in ISO 8601; empty if the folder does not say."""
        made = self.made_by.made
        return next((made[verb].at for verb in ("score", "review") if verb in made), "")

    def chosen(self, metric: str | None) -> dict[str, Leaderboard]:
        """The board of this metric, or all."""
        if metric is None:
            return self.ranked
        if metric not in self.ranked:
            said = suggested(metric, self.ranked, "Metrics")
            raise UserError(f"--metric must be a metric of {self.path}, got {metric!r}{said}")
        return {metric: self.ranked[metric]}

    def bounds(self, metric: str) -> tuple[float, float] | None:
        """Return the least and greatest score of a metric; None if it has none or is not known."""
        if self.ranked[metric].unit == "win rate":
            return (0.0, 1.0)
        limits: tuple[float, float] | None = getattr(known_metric(metric), "bounds", None)
        return limits

    def voters(self, metric: str) -> list[ReviewerResult]:
        """Return the reviewers whose weighted votes made this ranking; none if it is not that of a review."""
        if metric != REVIEW or self.review is None:
            return []
        return [row for row in self.review.reviewers if row.passed and row.weight is not None]

    @property
    def review_question(self) -> str:
        """The words around what the reviewers were shown, or the name of a scale that is not known here."""
        if self.review is None:
            return ""
        scale = JUDGES.get(self.review.scale)
        return self.review.scale if scale is None else f"{scale.opening}\n\n{scale.closing}"

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

    @cached_property
    def agents_with_samples(self) -> list[str]:
        """The agents with several samples of a task: their scores are means over these, not of one response."""
        return sorted(set(self.study.samples.values()))

    def scores_of_single_responses(self, scores: pl.DataFrame, left_out: str) -> pl.DataFrame:
        """The scores that are there and are of one response each; warns of others, which are ``left_out``."""
        is_mean = pl.col("agent").is_in(self.agents_with_samples)
        missing = scores["score"].null_count()
        if missing:
            warnings.warn(f"{missing:,} of {scores.height:,} scores are missing and {left_out}", stacklevel=3)
        averaged = scores.filter(is_mean)["agent"].unique().sort().to_list()
        if averaged:
            warnings.warn(
                f"the scores of {listed(averaged)} are means over their samples, not of single responses, and "
                f"{left_out}. To score each sample, read the study with --repeats agents",
                stacklevel=3,
            )
        return scores.filter(~is_mean).drop_nulls("score")

    def with_texts(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of tasks and agents with prompt, text and reference; null: the task or response has none."""
        tasks = self.study.task_table.select(pl.col("task", "prompt", "reference").cast(pl.String))
        texts = self.study.response_table.select(pl.col("task", "agent", "text").cast(pl.String))
        found = rows.join(tasks, on="task", how="left", maintain_order="left")
        return found.join(texts, on=["task", "agent"], how="left", maintain_order="left")

    @staticmethod
    def write_files(folder: Path, files: Mapping[str, Iterable[str]]) -> None:
        """Write text files, given by their path in the folder and their pieces of text."""

        def fill(fresh: Path) -> None:
            for name, pieces in files.items():
                file = fresh / name
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("w", encoding="utf-8", newline="\n") as opened:
                    opened.writelines(pieces)

        filled_folder(folder, fill)

    @staticmethod
    def file_name(name: str) -> str:
        """A name that every file system takes."""
        return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "unnamed"


def _is_run(thing: Any) -> bool:
    return isinstance(thing, ScoredRun)


@dataclass(frozen=True)
class BuiltInExporter:
    """An exporter that comes with goldless."""

    description: str
    suffix: str
    write: Callable[..., Any]
    """Of what is exported and a path; its keywords are the exporter's options."""
    exports: Callable[[Any], bool] = _is_run
    is_file: Callable[[Any], bool] | None = None
    """True if one file is written of this object; False: a folder; None: the suffix tells."""


def scored_run(folder: Path) -> ScoredRun:
    """The run in a folder; raises if it has no scores of agents."""
    run = ScoredRun(folder)
    if not run.ranked:
        found = ", ".join(f"{name}.json" for name in run.results) or "; ".join(run.problems)
        raise UserError(f"{folder} has no scores of agents (found: {found}). Export a run of goldless score or review")
    return run


# --- writing ---------------------------------------------------------------------------------------------------------


def check_free(path: Path, *, folder: bool) -> None:
    """Raise if something is already there; an empty folder may be filled."""
    if path.is_dir():
        if not folder:
            raise UserError(f"--out must be a file, got the folder {path}. Add a file name")
        if any(not file.name.startswith(".") for file in path.iterdir()):
            raise UserError(f"{path} is not empty. Choose another folder")
    elif path.exists():
        raise UserError(f"{path} already exists. Choose another path")
