"""Two agents on common tasks: their runs, which agents and tasks, and their scores over the same peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.errors import GoldlessError, UserError, check_known
from goldless.files import PROGRESS_FILE
from goldless.judging.judges import find_judge
from goldless.metrics.catalogue import find_metric
from goldless.metrics.chair import panel_scores, panel_verdicts
from goldless.metrics.judgement_table import PairJudgements, ResponseRatings, judgement_arrays
from goldless.metrics.metric import ENOUGH_PEERS, PAIRS, Metric, OverPeers
from goldless.metrics.tvd_mi import Direction, peer_scores
from goldless.reports.review import ReviewReport
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.runs.review_evidence import recorded_review
from goldless.signature import Signature
from goldless.statistics.additive import PairDifferences, scores_over_tasks

OF_THE_DATA = frozenset(
    {
        *("study", "seed", "resamples", "level", "interval", "test", "missing", "noise"),
        *("evidence", "control-evidence", "logprobs-evidence", "verdicts-evidence"),
    }
)
"""Settings that follow from the data or from how intervals are made: they may differ."""
SAID = frozenset(
    {
        *("peers", "weights", "limits", "exam", "pairs", "questioners", "shuffles", "calls", "combination"),
        *("goldless", "kernel", "sharing", "layout-kernel", "prompts", "over"),
    }
)
"""Settings that may differ, but change what a score means somewhat: a warning names both values. All others, such as
the scorer, the critic's prompt or the reviewers, make another quantity."""


JUDGED = ("judge", "task", "first", "second")
"""The columns of a judge and of the response, or the two responses, that it judged."""


# --- runs and their scores -------------------------------------------------------------------------------------------


class Run(RunFolder):
    """A run folder with texts, and scores or a review; refuses any other."""

    def __init__(self, folder: Path | str) -> None:
        super().__init__(folder)
        path = self.path
        if path.is_file():
            raise UserError(f"{path} is a file; a run folder is needed. Try goldless score {path} --out runs/first")
        scored = (path / SCORES).is_file() and self.required("leaderboard") is not None
        reviewed = self.required("review") is not None
        texts = any(path.glob("responses.*")) or any((path / "responses").glob("part-*"))
        if not (scored or reviewed) and (path / PROGRESS_FILE).is_file():
            raise UserError(f"{path} is of a run that has not ended. Run its command again to resume it")
        if not (scored or reviewed) or not texts:
            is_none = "is not a run folder with scores or a review" if path.exists() else "does not exist"
            raise UserError(
                f"{path} {is_none}. Write one with goldless score STUDY --out {path}, or goldless review STUDY --out "
                f"{path}"
            )

    @cached_property
    def samples(self) -> dict[str, list[str]]:
        """The samples of each agent, in order; of one that has none, itself."""
        found: dict[str, list[str]] = {}
        for one in self.study.agents:
            for name in dict.fromkeys((one.sample_of or one.agent, one.agent)):
                found.setdefault(name, []).append(one.agent)
        return found

    @property
    def agents(self) -> tuple[str, ...]:
        """Its agents, in order; where an agent has several samples, the agent before its samples."""
        return tuple(self.samples)

    @cached_property
    def metrics(self) -> dict[str, ScoredMetric]:
        found: dict[str, ScoredMetric] = {}
        for name, board in (self.boards if (self.path / SCORES).is_file() else {}).items():
            limits = getattr(known_metric(name), "bounds", None)
            found[name] = ScoredMetric(self, name, board.unit, board.settings, limits)
        if self.review is not None and self.review.panel.reviewers:
            scale, name = find_judge(self.review.scale), f"review[{self.review.scale}]"
            unit = "win rate" if scale.pairwise else "points"
            limits, settings = (scale.lowest, scale.highest), self.review.settings
            found.setdefault(name, ScoredMetric(self, name, unit, settings, limits, self.review))
        return found

    @property
    def complete(self) -> bool:
        return all(found is None or found.complete for found in (self.leaderboard, self.review))

    def text(self, task: str, agent: str) -> str | None:
        """An agent's response to a task; several samples one after the other."""
        found = [self.study.response(task, one) for one in self.samples[agent]]
        return "\n\n".join(one.text for one in found if one is not None) or None

    def check_agent(self, agent: str) -> None:
        check_known([agent], self.agents, f"{self.name} has no agent", "Agents")


@dataclass(frozen=True, eq=False)
class ScoredMetric:
    """A metric of a run; of a review, the share of comparisons won by the panel's votes, or its mean rating."""

    run: Run
    metric: str
    unit: str
    settings: Mapping[str, str]
    """The parts of its signature."""
    limits: tuple[float, float] | None
    """The smallest and the largest score that there can be; None: there are no limits, or they are not known."""
    review: ReviewReport | None = None
    without: frozenset[str] = frozenset()
    """Reviewers that do not count, since they gave no verdict in the other run."""
    uneven: pl.DataFrame | None = None
    """The rows of ``judgements_of`` that do not count, since the reviewer gave no such verdict in the other run."""

    @cached_property
    def scores(self) -> pl.DataFrame:
        """Columns task, agent and score."""
        if self.review is None:
            return self.run.required_scores().filter(pl.col("metric") == self.metric).drop_nulls("score")
        return self._votes.group_by("task", "agent", maintain_order=True).agg(pl.col("score").mean())

    @property
    def voters(self) -> dict[str, float]:
        """The reviewers that vote, with their weights."""
        reviewers = () if self.review is None else self.review.reviewers
        voting = [reviewer for reviewer in reviewers if reviewer.name not in self.without]
        return {reviewer.name: reviewer.weight for reviewer in voting if reviewer.weight is not None}

    @property
    def silent_voters(self) -> set[str]:
        """Reviewers with a vote that gave no verdict at all."""
        values = self._judgements.value
        return {name for name, own in zip(self._judgements.reviewers, values, strict=True) if np.isnan(own).all()}

    def with_peers(self, agent: str) -> pl.DataFrame | None:
        """Columns task, peer and score, in the direction whose means are the scores; None: not stored."""
        if self.review is not None:
            return self._votes.filter(pl.col("agent") == agent) if "peer" in self._votes.columns else None
        mine = (pl.col("metric") == self.metric) & ((pl.col("agent") == agent) | (pl.col("peer") == agent))
        pairs = self.run.rows("pair_scores", lambda table: table.filter(mine).cast(pl.Schema(PAIRS)))
        if pairs.is_empty():
            return None
        direction: Direction = getattr(known_metric(self.metric), "direction", "given")
        rows = peer_scores(pairs, direction=direction, compared=lambda found: found)
        return rows.filter(pl.col("agent") == agent).drop_nulls("score")

    @cached_property
    def _judgements(self) -> PairJudgements | ResponseRatings:
        """The judgements of the reviewers that vote."""
        assert self.review is not None
        study, names, scale = self.run.study, list(self.voters), find_judge(self.review.scale)
        recorded = recorded_review(study, scale=scale, reviewers=names, convention=self.review.convention)
        table = judgement_arrays(recorded.judgements, reviewers=names, tasks=study.tasks, agents=self.run.agents)
        if self.uneven is not None:
            orders = 2 if isinstance(table, PairJudgements) else 1
            values = table.value.reshape(len(names), -1, orders)
            values[self.uneven["reviewer"].to_numpy(), self.uneven["place"].to_numpy()] = np.nan
        return table

    def judgements_of(self, compared: str) -> pl.DataFrame:
        """Return the judgements: ``JUDGED``, with "" for the compared agent, and where they are in the table.

        A comparison is one if it was made in all orders that were requested.
        """
        table = self._judgements
        agents = np.array(["" if agent == compared else agent for agent in table.agents])
        if isinstance(table, ResponseRatings):
            reviewer, task, agent = np.nonzero(~np.isnan(table.value))
            place = task * len(agents) + agent
            first = second = agents[agent]
        else:
            reviewer, place = np.nonzero(~np.isnan(table.votes(table.leans("default"))))
            task, low, high = table.task[place], agents[table.low[place]], agents[table.high[place]]
            first, second = np.where(low < high, low, high), np.where(low < high, high, low)
        judged = np.array(table.reviewers)[reviewer], np.array(table.tasks)[task], first, second
        return pl.DataFrame({**dict(zip(JUDGED, judged, strict=True)), "reviewer": reviewer, "place": place})

    @cached_property
    def _votes(self) -> pl.DataFrame:
        """The panel's verdict on every pair, from either side: task, agent, peer, score; or task, agent, score."""
        assert self.review is not None
        weights, convention, table = self.voters, self.review.convention, self._judgements
        tasks, agents = np.array(self.run.study.tasks), np.array(self.run.agents)
        if isinstance(table, ResponseRatings):
            # z-scores are relative to one run; two runs share the scale's own points
            rated = panel_scores(table, weights=weights, normalisation="raw", convention=convention).score
            task, agent = np.nonzero(~np.isnan(rated))
            return pl.DataFrame({"task": tasks[task], "agent": agents[agent], "score": rated[task, agent]})
        panel = panel_verdicts(table, weights=weights, convention=convention)
        sides = ((panel.low, panel.high, panel.verdict), (panel.high, panel.low, 1 - panel.verdict))
        votes = [
            pl.DataFrame({"task": tasks[panel.task], "agent": agents[mine], "peer": agents[other], "score": verdict})
            for mine, other, verdict in sides
        ]
        return pl.concat(votes).fill_nan(None).drop_nulls("score")


def known_metric(name: str) -> Metric | None:
    """The metric with this name; None: it is a custom one."""
    try:
        return find_metric(name)
    except GoldlessError:
        return None


# --- which agents ----------------------------------------------------------------------------------------------------


class Side(NamedTuple):
    """An agent of a run."""

    run: Run
    agent: str


class Sides(NamedTuple):
    """The two that are compared: the first is the one before the change, the second the one after it."""

    first: Side
    second: Side

    @property
    def runs(self) -> tuple[Run, ...]:
        """One run, or that of each agent."""
        return tuple(dict.fromkeys(side.run for side in self))

    @property
    def names(self) -> tuple[str, str]:
        """Names that tell the two apart."""
        first, second = self
        if first.agent != second.agent:
            return first.agent, second.agent
        return f"{first.agent} ({first.run.name})", f"{second.agent} ({second.run.name})"

    def common_metrics(self, names: Sequence[str]) -> list[str]:
        """The metrics that both runs have, or those named; refuses a name that one lacks."""
        known = [name for name in self.first.run.metrics if name in self.second.run.metrics]
        if not known:
            has = "; ".join(f"{run.name} has {', '.join(run.metrics) or 'none'}" for run in self.runs)
            raise UserError(f"the runs have no metric in common: {has}. Score both with the same metric")
        for name in names:
            lacking = " and ".join(run.name for run in self.runs if name not in run.metrics)
            check_known([name], known, f"{lacking} has no metric", "Metrics")
        return list(names or known)


def open_sides(folders: Sequence[Path | str], agents: Sequence[str]) -> Sides:
    """The two agents, from one folder or two: as named, or the only two that can be meant.

    Two runs: one name is meant in both; without names, the agent whose responses changed, or that only one run has.
    """
    if len(folders) not in {1, 2}:
        raise UserError(f"one run folder or two must be given, got {len(folders)}")
    paths = [Path(folder) for folder in folders]
    if len(paths) == 2 and paths[0].resolve() == paths[1].resolve():
        raise UserError(
            f"the two run folders must differ, got {paths[0]} twice. For two agents of one run: --agents A,B"
        )
    runs = [Run(path) for path in paths]
    if len(runs) == 1:
        return _of_one_run(runs[0], agents)
    if len(agents) > 2:
        raise UserError(f"--agents must be one or two agents, got {len(agents)}: {', '.join(agents)}")
    named = (agents[0], agents[-1]) if agents else _changed(*runs)
    for run, agent in zip(runs, named, strict=True):
        run.check_agent(agent)
    return Sides(*map(Side, runs, named))


def _of_one_run(run: Run, agents: Sequence[str]) -> Sides:
    for agent in agents:
        run.check_agent(agent)
    chosen = tuple(agents) or (run.agents if len(run.agents) == 2 else ())
    if len(chosen) != 2:
        given = f"got {len(agents)}" if agents else f"{run.name} has {len(run.agents)}"
        raise UserError(
            f"two agents of {run.name} must be named, {given}. Try --agents {','.join(run.agents[:2])}. "
            f"Agents: {', '.join(run.agents)}"
        )
    if chosen[0] == chosen[1]:
        raise UserError(f"an agent cannot be compared with itself, got {chosen[0]} twice. Name two agents")
    return Sides(Side(run, chosen[0]), Side(run, chosen[1]))


def _changed(first: Run, second: Run) -> tuple[str, str]:
    """The agent that differs between two runs."""
    tasks = set(first.study.tasks) & set(second.study.tasks)
    changed = [
        agent
        for agent in first.agents
        if agent in second.agents and any(first.text(task, agent) != second.text(task, agent) for task in tasks)
    ]
    only = [[a for a in mine.agents if a not in other.agents] for mine, other in ((first, second), (second, first))]
    if len(changed) == 1 and not any(only):
        return changed[0], changed[0]
    if not changed and len(only[0]) == len(only[1]) == 1:
        return only[0][0], only[1][0]
    what = f"{len(changed)} agents have other responses in {second.name}" if changed else "no agent changed"
    if any(only):
        what += f"; only in {first.name}: {', '.join(only[0]) or 'none'}; only in {second.name}: {', '.join(only[1])}"
    raise UserError(f"which agents to compare is unclear: {what}. Name them with --agents A,B")


# --- their scores ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Paired:
    """The scores of two agents on their common tasks, over the same peers where scores are over peers.

    Of one run, their means are the scores of its leaderboard, and their differences those that it tests.
    """

    metric: str
    unit: str
    tasks: tuple[str, ...]
    first: FloatArray
    second: FloatArray
    """[tasks], no NaN"""
    differences: FloatArray
    """[tasks]: second minus first."""
    peers: OverPeers | None
    """Peers in common, or each agent's own; None: not a matter of peers."""
    peer_names: tuple[str, ...]
    """Peers in common; empty: each has its own, or there are none."""
    left_out: int
    """Common tasks on which one has no score."""
    unanswered: FloatArray
    """The first agent's scores on the tasks on which only the second has none."""
    signature: str
    warnings: tuple[str, ...]
    limits: tuple[float, float] | None = None
    """The smallest and the largest difference that there can be, where known."""


def paired_scores(sides: Sides, metric: str) -> Paired:
    """The two agents under a metric that both runs have."""
    first, second = sides
    warnings: list[str] = []
    scored = _of_common_reviewers((first.run.metrics[metric], second.run.metrics[metric]), warnings)
    scored = _of_common_judgements(scored, sides, warnings)
    if len(sides.runs) == 2:
        names = first.run.name, second.run.name
        warnings += differing_settings(scored[0].settings, scored[1].settings, names)
    own = pl.DataFrame({"task": _common_tasks(first.run, second.run, warnings)}, schema={"task": pl.String})
    for one, side, column in zip(scored, sides, ("first", "second"), strict=True):
        mine = one.scores.filter(pl.col("agent") == side.agent).select("task", pl.col("score").alias(column))
        own = own.join(mine, on="task", how="left", maintain_order="left")
    if len(sides.runs) == 1:
        levels, peers = _of_the_board(sides, scored[0], own), _over(scored[0])
        common = tuple(agent for agent in first.run.agents if agent not in {first.agent, second.agent})
    else:
        levels, peers, common = _over_peers(sides, scored, own)
        if peers == "own":
            warnings.append(
                f"{metric}: the runs share too few peers with the same responses, so each agent is scored over its "
                "own. A score over other peers is another quantity: score both agents in one study"
            )
    if not all(run.complete for run in sides.runs):
        warnings.append("a run is incomplete: run its command again to collect what is missing")
    if "difference" not in levels.columns:
        levels = levels.with_columns(difference=pl.col("second") - pl.col("first"))
    there, limits = levels.drop_nulls(["first", "second"]), scored[0].limits
    return Paired(
        metric=metric,
        unit=scored[0].unit,
        tasks=tuple(there["task"]),
        first=there["first"].to_numpy(),
        second=there["second"].to_numpy(),
        differences=there["difference"].to_numpy(),
        peers=peers,
        peer_names=common,
        left_out=len(levels) - len(there),
        unanswered=own.filter(pl.col("second").is_null())["first"].drop_nulls().to_numpy(),
        signature=" || ".join(dict.fromkeys(Signature.line(metric.settings) for metric in scored)),
        warnings=tuple(warnings),
        limits=None if limits is None else (limits[0] - limits[1], limits[1] - limits[0]),
    )


def _of_common_reviewers(
    scored: tuple[ScoredMetric, ScoredMetric], warnings: list[str]
) -> tuple[ScoredMetric, ScoredMetric]:
    """Return both metrics without the reviewers that gave no verdict in one of two reviews.

    Reviewers differ in level, so one that counts in one run alone would move all differences.
    """
    first, second = scored
    if first.run is second.run or first.review is None or second.review is None:
        return scored
    silent = {one.run.name: one.silent_voters for one in scored}
    for run_name, reviewers in silent.items():
        if reviewers:
            warnings.append(f"no verdict in {run_name}, so left out of both runs: {', '.join(sorted(reviewers))}")
    without = frozenset[str]().union(*silent.values())
    if without >= {*first.voters} or without >= {*second.voters}:
        return scored
    return replace(first, without=without), replace(second, without=without)


def _of_common_judgements(
    scored: tuple[ScoredMetric, ScoredMetric], sides: Sides, warnings: list[str]
) -> tuple[ScoredMetric, ScoredMetric]:
    """Return two reviews without what a reviewer judged in one of them alone, where others judged it in both.

    Reviewers differ in level and spread, so a response with other reviewers than its counterpart would differ from it.
    """
    if scored[0].run is scored[1].run or scored[0].review is None or scored[1].review is None:
        return scored
    judged = [one.judgements_of(side.agent) for one, side in zip(scored, sides, strict=True)]
    even = []
    for metric, mine, other in zip(scored, judged, reversed(judged), strict=True):
        uneven = mine.join(other, on=JUDGED[1:], how="semi").join(other, on=JUDGED, how="anti")
        even.append(replace(metric, uneven=uneven))
        if len(uneven):
            reviewers = ", ".join(sorted(uneven["judge"].unique()))
            warnings.append(
                f"{len(uneven):,} judgements in {metric.run.name} are left out, since their reviewers ({reviewers}) "
                "gave none of the same responses in the other run"
            )
    return even[0], even[1]


def differing_settings(first: Mapping[str, str], second: Mapping[str, str], names: tuple[str, str]) -> list[str]:
    """Warnings about the settings of one metric in two runs; raises where the scores are not comparable.

    ``names``: of the two runs.
    """
    one, two = dict(first), dict(second)
    for found in (one, two):
        if "verdicts" in found:  # how many were read in which way is no setting
            found["verdicts"] = "probabilities" if "probabilities" in found["verdicts"] else "labels"
    warned: list[str] = []
    refused: list[str] = []
    # recorded evidence does not say everything that the run that made it said
    recorded = any(found.get("evidence", "").startswith("recorded") for found in (one, two))
    for key in (key for key in dict.fromkeys((*one, *two)) if not recorded or {key} <= one.keys() & two.keys()):
        values = [found.get(key, "none") for found in (one, two)]
        if key in OF_THE_DATA or values[0] == values[1]:
            continue
        said = " and ".join(f"{value} in {name}" for value, name in zip(values, names, strict=True))
        (warned if key in SAID else refused).append(f"{key} is {said}")
    if refused:
        raise UserError(
            f"the runs are not comparable: {'; '.join(refused)}. Compute both with the same metric, model and settings"
        )
    return [f"the runs differ: {line}" for line in warned]


def _common_tasks(first: Run, second: Run, warnings: list[str]) -> list[str]:
    """The tasks of both runs with the same prompt."""
    known = set(second.study.tasks)
    common = [task for task in first.study.tasks if task in known]
    same = [task for task in common if first.study.task(task).prompt == second.study.task(task).prompt]
    if len(same) < len(common):
        warnings.append(f"{len(common) - len(same)} common tasks have another prompt in {second.name} and are left out")
    if not same:
        raise UserError(
            f"{first.name} and {second.name} have no common task"
            f"{' with the same prompt' * bool(common)}: compare runs of the same tasks"
        )
    return same


def _of_the_board(sides: Sides, scored: ScoredMetric, own: pl.DataFrame) -> pl.DataFrame:
    """The two agents of one run, moved so that their means are the scores of its leaderboard, and their differences."""
    there = own.drop_nulls(["first", "second"])
    if there.is_empty():
        return own
    board = scored.scores.pivot("agent", index="task", values="score", aggregate_function="last")
    agents = [name for name in board.columns if name != "task"]
    values = board.select(agents).to_numpy()
    places = [np.array([agents.index(side.agent)]) for side in sides]
    differences = PairDifferences(values)(places[1], places[0])[:, 0]
    own = own.join(board.select("task", difference=differences), on="task", how="left", maintain_order="left")
    scores = dict(zip(agents, scores_over_tasks(values).tolist(), strict=True))
    return own.with_columns(
        pl.col(column) + (scores[side.agent] - there[column].to_numpy().mean())
        for side, column in zip(sides, ("first", "second"), strict=True)
    )


def _over(scored: ScoredMetric) -> OverPeers | None:
    """The peers the scores are over, by its settings."""
    said = scored.settings.get("over", "")
    known: tuple[OverPeers, ...] = ("common", "but-closest")
    return next((one for one in known if said.startswith(one)), "own" if said else None)


def _over_peers(
    sides: Sides, scored: tuple[ScoredMetric, ScoredMetric], own: pl.DataFrame
) -> tuple[pl.DataFrame, OverPeers | None, tuple[str, ...]]:
    """Means over the peers that both have; over each agent's own where these are few.

    A peer is common on a task where it gave the same response in both runs. Where both runs leave out the closest peer
    of each response, so does the comparison.
    """
    first, second = (one.with_peers(side.agent) for one, side in zip(scored, sides, strict=True))
    if first is None or second is None:
        return own, None if first is None and second is None else "own", ()
    before, after = sides.first.run, sides.second.run
    names = [agent for agent in before.agents if agent in after.agents]
    shared = first.select("task", "peer", first="score").join(
        second.select("task", "peer", second="score"), on=["task", "peer"]
    )
    shared = shared.filter(pl.col("peer").is_in(names), pl.col("task").is_in(own["task"].to_list()))
    pairs = shared.select("task", "peer").iter_rows()
    same = [before.text(task, peer) == after.text(task, peer) for task, peer in pairs]
    shared = shared.filter(pl.Series(same, dtype=pl.Boolean))
    over: OverPeers = "but-closest" if all(_over(one) == "but-closest" for one in scored) else "common"
    dropped = pl.lit(over == "but-closest") & (pl.len() >= ENOUGH_PEERS)
    means = shared.group_by("task").agg(
        (pl.col(column).sum() - pl.when(dropped).then(pl.col(column).max()).otherwise(0.0)) / (pl.len() - dropped)
        for column in ("first", "second")
    )
    if 2 * len(means) <= len(own.drop_nulls(["first", "second"])):
        return own, "own", ()
    met = set(shared["peer"])
    levels = own.select("task").join(means, on="task", how="left", maintain_order="left")
    return levels, over, tuple(name for name in names if name in met)
