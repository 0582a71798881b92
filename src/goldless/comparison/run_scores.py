"""The scores of a run folder as they are compared: one per response under each metric, and with each peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

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
from goldless.reports.review import ReviewReport
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.runs.review_evidence import recorded_review
from goldless.runs.review_outcome import shares_by_agent

PAIRS = {**dict.fromkeys(("metric", "task", "agent", "peer"), pl.String()), "score": pl.Float64()}
"""Columns of the table of pairs that are read."""


class Run(RunFolder):
    """A run folder with texts, and scores or a review."""

    @cached_property
    def tasks(self) -> tuple[str, ...]:
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
        boards = self.boards if (self.path / SCORES).is_file() else {}
        found: dict[str, Scored] = {
            name: ScoredMetric(self, name, board.unit, board.signature) for name, board in boards.items()
        }
        if self.review is not None and self.review.panel.reviewers:
            name = f"review[{self.review.scale}]"
            found.setdefault(name, ReviewedMetric(self, name, self.review))
        return found

    @property
    def complete(self) -> bool:
        return all(found is None or found.complete for found in (self.leaderboard, self.review))

    def text(self, task: str, agent: str) -> str | None:
        """An agent's response to a task; several samples one after the other."""
        found = [self.study.response(task, one) for one in self.samples[agent]]
        return "\n\n".join(one.text for one in found if one is not None) or None


def open_run(folder: Path | str) -> Run:
    """A run folder; refuses one that has neither scores nor a review, or no texts."""
    run = Run(folder)
    path = run.path
    if path.is_file():
        raise UserError(f"{path} is a file; a run folder is needed. Try goldless score {path} --out runs/first")
    scored = (path / SCORES).is_file() and run.required("leaderboard") is not None
    reviewed = run.required("review") is not None
    texts = any(path.glob("responses.*")) or any((path / "responses").glob("part-*"))
    if not (scored or reviewed) or not texts:
        raise UserError(
            f"{path} is not a run folder with scores or a review. Write one with goldless score STUDY --out {path}, "
            f"or goldless review STUDY --out {path}"
        )
    return run


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
        """The smallest and the largest score that there can be; None: there are no limits, or they are not known."""
        return getattr(self._known, "bounds", None)

    @cached_property
    def _known(self) -> Metric | None:
        try:
            return find_metric(self.metric)
        except GoldlessError:
            return None

    @cached_property
    def table(self) -> FloatArray:
        """The scores [tasks, agents] of the run, NaN where there is none."""
        return self._placed(self.run.required_scores().filter(pl.col("metric") == self.metric), "agent")

    def with_peers(self, agent: str) -> FloatArray | None:
        """The scores [tasks, agents] with each peer, in the direction whose means are the scores; None: not stored."""
        mine = (pl.col("metric") == self.metric) & ((pl.col("agent") == agent) | (pl.col("peer") == agent))
        typed = [pl.col(name).cast(kind) for name, kind in PAIRS.items()]
        try:
            table = self.run.scan("pair_scores")
            pairs = None if table is None else table.with_columns(typed).filter(mine).collect()
        except (OSError, *POLARS_FAILED) as error:
            file, why = self.run.files("pair_scores")[0], str(error).splitlines()[0]
            raise UserError(f"{file}: cannot be read ({why}). Score the study again") from error
        if pairs is None or pairs.is_empty():
            return None
        direction: Direction = getattr(self._known, "direction", "given")
        rows = peer_scores(pairs, direction=direction, compared=lambda found: found)
        return self._placed(rows.filter(pl.col("agent") == agent), "peer")

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
    review: ReviewReport

    @property
    def unit(self) -> str:
        return "win rate" if self.meets else "points"

    @property
    def limits(self) -> tuple[float, float]:
        scale = find_judge(self.review.scale)
        return (0.0, 1.0) if self.meets else (scale.lowest, scale.highest)

    @property
    def signature(self) -> str:
        return self.review.signature

    @property
    def meets(self) -> bool:
        """True if responses were compared in pairs."""
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
        return self.review.convention

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


Scored = ScoredMetric | ReviewedMetric
"""One metric of a run."""
