"""Two agents on common tasks: which agents, which tasks, and their scores over the same peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goldless.arrays import BoolArray, FloatArray
from goldless.comparison.run_scores import Run, Scored, check_agent
from goldless.errors import UserError, nearest
from goldless.metrics.metric import ENOUGH_PEERS, OverPeers
from goldless.signature import Signature
from goldless.statistics.additive import scores_over_tasks

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


def differing_settings(first: str, second: str, names: tuple[str, str]) -> list[str]:
    """Warnings about two signatures of one metric; raises where the scores are not comparable.

    ``names``: of the two runs.
    """
    one, two = (Signature.parse(line).parts for line in (first, second))
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


@dataclass(frozen=True, slots=True)
class Side:
    """An agent of a run."""

    run: Run
    agent: str


@dataclass(frozen=True, slots=True)
class Sides:
    """The two that are compared: the first is the one before the change, the second the one after it."""

    first: Side
    second: Side

    @property
    def one_run(self) -> bool:
        return self.first.run is self.second.run

    @property
    def names(self) -> tuple[str, str]:
        """Names that tell the two apart."""
        first, second = self.first, self.second
        if first.agent != second.agent:
            return first.agent, second.agent
        return f"{first.agent} ({first.run.name})", f"{second.agent} ({second.run.name})"


def find_sides(runs: Sequence[Run], agents: Sequence[str]) -> Sides:
    """The two agents: as named, or the only two that can be meant.

    Two runs: one name is meant in both; without names, the agent whose responses changed, or that only one run has.
    """
    if len(runs) == 1:
        return _of_one_run(runs[0], agents)
    first, second = runs
    if len(agents) > 2:
        raise UserError(f"--agents must be one or two agents, got {len(agents)}: {', '.join(agents)}")
    one, two = (agents[0], agents[-1]) if agents else _changed(first, second)
    check_agent(first, one)
    check_agent(second, two)
    return Sides(Side(first, one), Side(second, two))


def _of_one_run(run: Run, agents: Sequence[str]) -> Sides:
    for agent in agents:
        check_agent(run, agent)
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
    tasks = [task for task in first.tasks if task in set(second.tasks)]
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


# --- metrics and tasks -----------------------------------------------------------------------------------------------


def common_metrics(sides: Sides, names: Sequence[str]) -> list[str]:
    """The metrics that both runs have, or those named; refuses a name that one lacks."""
    first, second = sides.first.run, sides.second.run
    known = [name for name in first.metrics if name in second.metrics]
    if not known:
        has = "; ".join(f"{run.name} has {', '.join(run.metrics) or 'none'}" for run in dict.fromkeys((first, second)))
        raise UserError(f"the runs have no metric in common: {has}. Score both with the same metric")
    for name in names:
        if name not in known:
            lacking = [run.name for run in dict.fromkeys((first, second)) if name not in run.metrics]
            raise UserError(
                f"no metric {name!r} in {' and '.join(lacking)}{nearest(name, known) or '.'} "
                f"Metrics: {', '.join(known)}"
            )
    return list(names or known)


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """The scores of two agents on their common tasks, over the same peers where scores are over peers.

    Of one run, their means are the scores of its leaderboard.
    """

    metric: str
    unit: str
    tasks: tuple[str, ...]
    first: FloatArray
    second: FloatArray
    """[tasks], no NaN"""
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
    """The smallest and the largest score that there can be, where known."""

    @property
    def differences(self) -> FloatArray:
        return self.second - self.first

    @property
    def difference_limits(self) -> tuple[float, float] | None:
        """The smallest and the largest difference that there can be, where known."""
        return None if self.limits is None else (self.limits[0] - self.limits[1], self.limits[1] - self.limits[0])


def paired_scores(sides: Sides, metric: str) -> Paired:
    """The two agents under a metric that both runs have."""
    both = sides.first, sides.second
    runs = sides.first.run, sides.second.run
    scored = runs[0].metrics[metric], runs[1].metrics[metric]
    warnings: list[str] = []
    if not sides.one_run:
        warnings += differing_settings(scored[0].signature, scored[1].signature, (runs[0].name, runs[1].name))
    tasks = _common_tasks(*runs, warnings)
    rows = [[number[task] for task in tasks] for number in ({t: i for i, t in enumerate(run.tasks)} for run in runs)]
    columns = [
        one.table[mine, side.run.agents.index(side.agent)] for one, side, mine in zip(scored, both, rows, strict=True)
    ]
    own = np.stack(columns, axis=1)
    unanswered = own[np.isnan(own[:, 1]) & ~np.isnan(own[:, 0]), 0]
    if sides.one_run:
        levels, peers = _of_the_board(sides, scored[0], own), _over(scored[0])
        names = tuple(agent for agent in runs[0].agents if agent not in {side.agent for side in both})
    else:
        levels, peers, names = _over_peers(sides, scored, tasks, rows, own)
        if peers == "own":
            warnings.append(
                f"{metric}: the runs share too few peers with the same responses, so each agent is scored over its "
                "own. A score over other peers is another quantity: score both agents in one study"
            )
    if not all(run.complete for run in runs):
        warnings.append("a run is incomplete: run its command again to collect what is missing")
    there: BoolArray = np.asarray(~np.isnan(levels).any(axis=1))
    return Paired(
        metric=metric,
        unit=scored[0].unit,
        tasks=tuple(task for task, used in zip(tasks, there, strict=True) if used),
        first=levels[there, 0],
        second=levels[there, 1],
        peers=peers,
        peer_names=names,
        left_out=int((~there).sum()),
        unanswered=unanswered,
        signature=" || ".join(dict.fromkeys(one.signature for one in scored)),
        warnings=tuple(warnings),
        limits=scored[0].limits,
    )


def _common_tasks(first: Run, second: Run, warnings: list[str]) -> list[str]:
    """The tasks of both runs with the same prompt."""
    known = set(second.tasks)
    common = [task for task in first.tasks if task in known]
    same = [task for task in common if first.study.task(task).prompt == second.study.task(task).prompt]
    if len(same) < len(common):
        warnings.append(f"{len(common) - len(same)} common tasks have another prompt in {second.name} and are left out")
    if not same:
        raise UserError(
            f"{first.name} and {second.name} have no common task"
            f"{' with the same prompt' * bool(common)}: compare runs of the same tasks"
        )
    return same


def _of_the_board(sides: Sides, scored: Scored, own: FloatArray) -> FloatArray:
    """The two agents of one run, moved so that their means are the scores of its leaderboard."""
    places = [sides.first.run.agents.index(side.agent) for side in (sides.first, sides.second)]
    there = ~np.isnan(own).any(axis=1)
    return own + scores_over_tasks(scored.table)[places] - own[there].mean(axis=0) if there.any() else own


def _over(scored: Scored) -> OverPeers | None:
    """The peers the scores are over, by their signature."""
    said = Signature.parse(scored.signature).settings.get("over", "")
    known: tuple[OverPeers, ...] = ("common", "but-closest")
    return next((one for one in known if said.startswith(one)), "own" if said else None)


def _over_peers(
    sides: Sides, scored: tuple[Scored, Scored], tasks: Sequence[str], rows: list[list[int]], own: FloatArray
) -> tuple[FloatArray, OverPeers | None, tuple[str, ...]]:
    """Means over the peers that both have; over each agent's own where these are few.

    A peer is common on a task where it gave the same response in both runs. Where both runs leave out the closest peer
    of each response, so does the comparison.
    """
    first, second = scored[0].with_peers(sides.first.agent), scored[1].with_peers(sides.second.agent)
    if first is None or second is None:
        return own, None if first is None and second is None else "own", ()
    runs = sides.first.run, sides.second.run
    names = [agent for agent in runs[0].agents if agent in runs[1].agents]
    columns = [[run.agents.index(agent) for agent in names] for run in runs]
    found = np.stack([first[np.ix_(rows[0], columns[0])], second[np.ix_(rows[1], columns[1])]])
    shared: BoolArray = np.asarray(~np.isnan(found).any(axis=0))
    for i, j in zip(*np.nonzero(shared), strict=True):
        shared[i, j] = runs[0].text(tasks[i], names[j]) == runs[1].text(tasks[i], names[j])
    counts = shared.sum(axis=1)
    sums = np.where(shared, found, 0.0).sum(axis=2).T
    over: OverPeers = "common"
    if all(_over(one) == "but-closest" for one in scored):
        over, many = "but-closest", counts >= ENOUGH_PEERS
        sums = sums - np.where(many[:, None], np.where(shared, found, -np.inf).max(axis=2, initial=-np.inf).T, 0.0)
        counts = counts - many
    if 2 * int((counts > 0).sum()) <= int((~np.isnan(own).any(axis=1)).sum()):
        return own, "own", ()
    common = np.full(own.shape, np.nan)
    np.divide(sums, counts[:, None], out=common, where=counts[:, None] > 0)
    return common, over, tuple(name for name, used in zip(names, np.asarray(shared.any(axis=0)), strict=True) if used)
