"""The scores of a run folder as they are compared: one per response under each metric, and with each peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.errors import GoldlessError, UserError, nearest
from goldless.files import POLARS_FAILED
from goldless.judging.judges import find_judge
from goldless.metrics.catalogue import find_metric
from goldless.metrics.chair import PanelVerdicts, panel_scores, panel_verdicts
from goldless.metrics.judgement_table import Convention, pair_judgements, response_ratings
from goldless.metrics.metric import Metric
from goldless.metrics.tvd_mi import Direction, peer_scores
from goldless.reports.documents.fields import Part, Unreadable, read_document
from goldless.reports.documents.scores import LeaderboardDocument, ReviewDocument
from goldless.reports.html.run_results import evidence_files
from goldless.reports.spreadsheets import unguarded_frame
from goldless.runs.review_evidence import recorded_review
from goldless.runs.review_outcome import shares_by_agent
from goldless.studies import Study, read_study

SCORES = "response_scores.csv"
COLUMNS = {"metric": pl.String, "task": pl.String, "agent": pl.String, "score": pl.Float64}
Document = TypeVar("Document", bound=Part)


class Scored(Protocol):
    """One metric of a run."""

    @property
    def metric(self) -> str:
        """Its name."""

    @property
    def unit(self) -> str:
        """The unit of its scores."""

    @property
    def signature(self) -> str:
        """How the scores were made."""

    @property
    def limits(self) -> tuple[float, float] | None:
        """The smallest and the largest score that there can be; None: there are no limits, or they are not known."""

    @property
    def table(self) -> FloatArray:
        """The scores [tasks, agents] of the run, NaN where there is none."""

    def with_peers(self, agent: str) -> FloatArray | None:
        """The scores [tasks, agents] of an agent with each peer, NaN where there is none; None: there are none."""


PAIRS = {**dict.fromkeys(("metric", "task", "agent", "peer"), pl.String()), "score": pl.Float64()}
"""Columns of the table of pairs that are read."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder: its study, and what was computed."""

    folder: Path
    name: str
    """As messages call it."""
    study: Study
    board: LeaderboardDocument | None
    review: ReviewDocument | None

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in order."""
        return tuple(self.study.tasks)

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Its agents, in order; where an agent has several samples, the agent before its samples."""
        return tuple(
            dict.fromkeys(name for one in self.study.agents for name in (one.sample_of or one.agent, one.agent))
        )

    @cached_property
    def samples(self) -> dict[str, tuple[str, ...]]:
        """The samples of each agent; of one that has none, itself."""
        return {
            agent: tuple(one.agent for one in self.study.agents if agent in {one.agent, one.sample_of})
            for agent in self.agents
        }

    @cached_property
    def metrics(self) -> dict[str, Scored]:
        """Its metrics that score responses, by name; a review is ``review[SCALE]``."""
        boards = {} if self.board is None else self.board.boards
        found: dict[str, Scored] = {
            name: ScoredMetric(self, name, board.unit, board.signature) for name, board in boards.items()
        }
        if self.review is not None and self.review.panel.reviewers:
            name = f"review[{self.review.scale}]"
            found.setdefault(name, ReviewedMetric(self, name, self.review))
        return found

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be collected."""
        return all(found is None or found.complete for found in (self.board, self.review))

    def text(self, task: str, agent: str) -> str | None:
        """An agent's response to a task; several samples one after the other."""
        found = [self.study.response(task, one) for one in self.samples[agent]]
        return "\n\n".join(one.text for one in found if one is not None) or None


def read_run(folder: Path | str) -> Run:
    """Read a run folder; refuses one that has neither scores nor a review, or no texts."""
    path = Path(folder)
    board = _document(path, "leaderboard", LeaderboardDocument) if (path / SCORES).is_file() else None
    review = _document(path, "review", ReviewDocument)
    texts = any(path.glob("responses.*")) or any((path / "responses").glob("part-*"))
    if (board is None and review is None) or not texts:
        raise UserError(
            f"{path} is not a run folder with scores or a review. Write one with goldless score STUDY --out {path}, "
            f"or goldless review STUDY --out {path}"
        )
    return Run(path, path.resolve().name, read_study(path), board, review)


def _document(folder: Path, name: str, kind: type[Document]) -> Document | None:
    found = read_document(folder / f"{name}.json", kind)
    if isinstance(found, Unreadable):
        raise UserError(f"{folder}: {found}")
    return found


def check_agent(run: Run, agent: str) -> None:
    """Refuse an agent that is not in the run."""
    if agent not in run.agents:
        raise UserError(
            f"unknown agent {agent!r} in {run.name}{nearest(agent, run.agents) or '.'} Agents: {', '.join(run.agents)}"
        )


# --- metrics ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoredMetric:
    """A metric of a score run, read from its tables."""

    run: Run
    metric: str
    unit: str
    signature: str

    @property
    def limits(self) -> tuple[float, float] | None:
        """As the metric declares them."""
        return getattr(self._known, "bounds", None)

    @cached_property
    def _known(self) -> Metric | None:
        try:
            return find_metric(self.metric)
        except GoldlessError:
            return None

    @cached_property
    def _rows(self) -> pl.DataFrame:
        path = self.run.folder / SCORES
        try:
            rows = pl.read_csv(path, schema_overrides=COLUMNS).select(*COLUMNS)
        except (OSError, *POLARS_FAILED) as error:
            raise UserError(f"{path}: cannot be read ({error}). Score the study again") from error
        return unguarded_frame(rows).filter(pl.col("metric") == self.metric)

    @cached_property
    def table(self) -> FloatArray:
        """The scores of all agents."""
        return self._placed(self._rows, "agent")

    def with_peers(self, agent: str) -> FloatArray | None:
        """The stored pair scores, in the direction whose means are the scores."""
        files = evidence_files(self.run.folder, "pair_scores")
        if not files:
            return None
        mine = (pl.col("metric") == self.metric) & ((pl.col("agent") == agent) | (pl.col("peer") == agent))
        try:
            typed = [pl.col(name).cast(kind) for name, kind in PAIRS.items()]
            pairs = pl.scan_parquet(files, glob=False).with_columns(typed).filter(mine).collect()
        except (OSError, *POLARS_FAILED) as error:
            why = str(error).splitlines()[0]
            raise UserError(f"{files[0]}: cannot be read ({why}). Score the study again") from error
        if pairs.is_empty():
            return None
        rows = peer_scores(pairs, direction=self._direction, compared=lambda found: found)
        return self._placed(rows.filter(pl.col("agent") == agent), "peer")

    @property
    def _direction(self) -> Direction:
        return getattr(self._known, "direction", "given")

    def _placed(self, rows: pl.DataFrame, column: str) -> FloatArray:
        """[tasks, agents]: the scores by task and by the agent in this column."""
        table = np.full((len(self.run.tasks), len(self.run.agents)), np.nan)
        task = {name: number for number, name in enumerate(self.run.tasks)}
        agent = {name: number for number, name in enumerate(self.run.agents)}
        for one, other, score in rows.drop_nulls("score").select("task", column, "score").iter_rows():
            if one in task and other in agent:
                table[task[one], agent[other]] = score
        return table


@dataclass(frozen=True, eq=False)
class ReviewedMetric:
    """A review: the share of comparisons won by the panel's votes, or its mean rating."""

    run: Run
    metric: str
    review: ReviewDocument

    @property
    def unit(self) -> str:
        """What its scores are."""
        return "win rate" if self.meets else "points"

    @property
    def limits(self) -> tuple[float, float]:
        """Shares, or the ends of the scale."""
        scale = find_judge(self.review.scale)
        return (0.0, 1.0) if self.meets else (scale.lowest, scale.highest)

    @property
    def signature(self) -> str:
        """How the judgements were made."""
        return self.review.signature

    @property
    def meets(self) -> bool:
        """Whether responses were compared in pairs."""
        return find_judge(self.review.scale).pairwise

    @cached_property
    def weights(self) -> dict[str, float]:
        """The reviewers that vote, with their weights."""
        return {one.name: one.weight for one in self.review.reviewers if one.weight is not None}

    @cached_property
    def judgements(self) -> pl.DataFrame:
        """The panel's judgements, columns of ``evidence.JUDGEMENTS``."""
        scale, voters = find_judge(self.review.scale), list(self.weights)
        return recorded_review(self.run.study, scale=scale, reviewers=voters, convention=self._convention).judgements

    @property
    def _convention(self) -> Convention:
        return getattr(self.review, "convention", None) or "default"

    @cached_property
    def _verdicts(self) -> PanelVerdicts:
        table = pair_judgements(self.judgements, reviewers=list(self.weights), **self._names)
        return panel_verdicts(table, weights=self.weights, convention=self._convention)

    @cached_property
    def table(self) -> FloatArray:
        """The share of its comparisons that each agent won on each task, or its rating."""
        if self.meets:
            return shares_by_agent(self._verdicts).score
        # z-scores are relative to one run; two runs share the scale's own points
        table = response_ratings(self.judgements, reviewers=list(self.weights), **self._names)
        return panel_scores(table, weights=self.weights, normalisation="raw", convention=self._convention).score

    @property
    def _names(self) -> dict[str, Sequence[str]]:
        return {"tasks": self.run.tasks, "agents": self.run.agents}

    def with_peers(self, agent: str) -> FloatArray | None:
        """The panel's verdict against each other agent."""
        if not self.meets:
            return None
        number, panel = self.run.agents.index(agent), self._verdicts
        table = np.full((len(self.run.tasks), len(self.run.agents)), np.nan)
        for mine, other, verdict in (
            (panel.low, panel.high, panel.verdict),
            (panel.high, panel.low, 1 - panel.verdict),
        ):
            own = mine == number
            table[panel.task[own], other[own]] = verdict[own]
        return table
