"""Two boards held against each other: whether two scorers, or two years' editions, rank the agents alike.

Scores of different scorers or of different papers lie on different scales. So ranks and correlations compare; a
difference of scores does not, and what may be compared of it is the distance to each board's own human baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from goldless.errors import UserError
from goldless.gre_bench.agent_correlation import INTERVALS, AgentCorrelation, agent_correlations
from goldless.gre_bench.boards import Board
from goldless.gre_bench.papers import HUMAN
from goldless.gre_bench.result_signatures import board_told, result_signature, settings_of
from goldless.meta_evaluation.consistency import FEWEST_AGENTS
from goldless.reports.report_table import Column, ReportTable

INCIDENTAL = frozenset({"noise", "evidence", "goldless"})
"""Parts of a signature that differ between any two runs and put scores on no other scale."""
OTHER_SCALES = (
    "Scores of different scorers or papers lie on different scales: compare ranks, correlations and distances to the "
    "human baseline; the change of a score says nothing by itself."
)


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """How far two boards agree under one metric."""

    metric: str
    n: int
    """Agents with a score on both boards, the human baseline left out."""
    coefficients: tuple[AgentCorrelation, ...]
    """Pearson, Spearman, Kendall."""


@dataclass(frozen=True, slots=True)
class AgentChange:
    """One agent on two boards."""

    metric: str
    agent: str
    first: float
    second: float
    change: float
    """Second less first: on one scale only where both signatures are alike."""
    first_rank: int
    """Among the agents on both boards; equal scores share the better rank."""
    second_rank: int
    rank_change: int
    """First rank less second: positive, it rose."""
    first_to_human: float | None
    """Score less that of the human baseline of its own board; None: it has none."""
    second_to_human: float | None


@dataclass(frozen=True, slots=True)
class OnlyOnOne:
    """Agents with a score on one of the boards only."""

    metric: str
    first: tuple[str, ...]
    second: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoardComparison:
    """Two boards, metric by metric."""

    first: str
    second: str
    agreements: tuple[MetricAgreement, ...]
    """Under the metrics that could be compared: those with enough agents on both boards."""
    changes: tuple[AgentChange, ...]
    only: tuple[OnlyOnOne, ...]
    level: float
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """How the comparison was made, by metric that was compared."""
    board_signatures: Mapping[str, Mapping[str, str]]
    """Of the boards themselves: by board, then by metric."""

    def table(self) -> ReportTable:
        """One row a metric and a coefficient."""
        columns = (
            Column("metric", "metric"),
            Column("coefficient", "coefficient"),
            Column("value", "agreement", "number", decimals=3, reason="note"),
            Column("low high", f"{self.level * 100:g}%", "interval", decimals=2, reason="note"),
            Column("p", "p", "probability"),
            Column("n", "agents", "count"),
        )
        rows = tuple(
            {"metric": found.metric, **one.as_json()} for found in self.agreements for one in found.coefficients
        )
        title = f"{self.first} and {self.second}: agreement over agents"
        return ReportTable(title, columns, rows, " || ".join(self.signatures.values()), self.notes)

    def change_table(self, metric: str) -> ReportTable:
        """One row an agent, by its rank on the second board."""
        rows = [asdict(change) for change in self.changes if change.metric == metric]
        if not rows:
            known = ", ".join(found.metric for found in self.agreements)
            raise UserError(f"no metric {metric!r} was compared; those compared: {known}")
        both_human = rows[0]["first_to_human"] is not None and rows[0]["second_to_human"] is not None
        columns = [
            Column("agent", "agent", least=8),
            Column("first_rank", "# first", "count"),
            Column("second_rank", "# second", "count"),
            Column("rank_change", "rose by", "signed", decimals=0),
            Column("first", "first", "number", decimals=2),
            Column("second", "second", "number", decimals=2),
            Column("change", "change of score", "signed", decimals=2, wide=True),
        ]
        if both_human:
            columns += [
                Column("first_to_human", "to human", "signed", decimals=2),
                Column("second_to_human", "to human", "signed", decimals=2),
            ]
        title = f"{metric}: agents on {self.first} (first) and {self.second} (second)"
        return ReportTable(title, tuple(columns), tuple(rows), self.signatures[metric], (OTHER_SCALES,))

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "first": self.first,
            "second": self.second,
            "level": self.level,
            "agreements": [asdict(found) for found in self.agreements],
            "changes": [asdict(change) for change in self.changes],
            "only": [asdict(one) for one in self.only],
            "notes": list(self.notes),
            "signatures": dict(self.signatures),
            "board_signatures": {board: dict(by_metric) for board, by_metric in self.board_signatures.items()},
        }


def compare_boards(
    first: Board, second: Board, *, level: float = 0.95, seed: int = 0, permutations: int = 10_000
) -> BoardComparison:
    """Every metric that both boards have, over the agents that both have.

    A metric with too few common agents is told in the notes and not compared; where that is so of all, it is an error.
    """
    shared = [metric for metric in first.metrics if metric in second.metrics]
    common = {metric: len(first.models(metric).keys() & second.models(metric).keys()) for metric in shared}
    _check(first, second, common)
    metrics = [metric for metric, n in common.items() if n >= FEWEST_AGENTS]
    agreements, changes = [], []
    for metric in metrics:
        one, other = first.models(metric), second.models(metric)
        found = agent_correlations(one, other, level=level, seed=seed, permutations=permutations)
        agreements.append(MetricAgreement(metric, found[0].n, found))
        changes += _changes(first, second, metric)
    only = [_only(first, second, metric) for metric in shared]
    names = _names(first, second)
    notes = (OTHER_SCALES, INTERVALS, *_too_few(common), *_left_out(only, names), *_lacking(first, second, names))
    return BoardComparison(
        *names,
        tuple(agreements),
        tuple(changes),
        tuple(only),
        level,
        (*notes, *_differences(first, second, metrics)),
        {m: _signature(first, second, m, level=level, seed=seed, permutations=permutations) for m in metrics},
        dict(zip(names, (first.signatures, second.signatures), strict=True)),
    )


def _signature(first: Board, second: Board, metric: str, *, level: float, seed: int, permutations: int) -> str:
    told = {
        "first": board_told(first, metric),
        "second": board_told(second, metric),
        "interval": f"fisher-z-{level:g}",
    }
    return result_signature("comparison", metric, told, seed=seed, permutations=permutations)


def _only(first: Board, second: Board, metric: str) -> OnlyOnOne:
    one, other = first.models(metric), second.models(metric)
    return OnlyOnOne(metric, tuple(a for a in one if a not in other), tuple(a for a in other if a not in one))


def _names(first: Board, second: Board) -> tuple[str, str]:
    if first.name != second.name:
        return first.name, second.name
    return f"{first.name} (first)", f"{second.name} (second)"


def _check(first: Board, second: Board, common: Mapping[str, int]) -> None:
    if not common:
        told = f"{first.name}: {', '.join(first.metrics)}; {second.name}: {', '.join(second.metrics)}"
        raise UserError(f"no metric stands on both boards ({told}); score both by the same metric")
    if all(n < FEWEST_AGENTS for n in common.values()):
        told = ", ".join(f"{metric}: {n}" for metric, n in common.items())
        raise UserError(
            f"too few agents have a score on both {first.name} and {second.name} ({told}); a comparison needs at least "
            f"{FEWEST_AGENTS} of the same name, the human baseline not counted"
        )


def _changes(first: Board, second: Board, metric: str) -> list[AgentChange]:
    one, other = first.models(metric), second.models(metric)
    common = [agent for agent in other if agent in one]
    ranks = [_ranks({agent: side[agent] for agent in common}) for side in (one, other)]
    humans = [board.human(metric) for board in (first, second)]
    to_human = [None if human is None else human.score for human in humans]
    return [
        AgentChange(
            metric=metric,
            agent=agent,
            first=one[agent],
            second=other[agent],
            change=other[agent] - one[agent],
            first_rank=ranks[0][agent],
            second_rank=ranks[1][agent],
            rank_change=ranks[0][agent] - ranks[1][agent],
            first_to_human=None if to_human[0] is None else one[agent] - to_human[0],
            second_to_human=None if to_human[1] is None else other[agent] - to_human[1],
        )
        for agent in common
    ]


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    return {agent: 1 + sum(other > score for other in scores.values()) for agent, score in scores.items()}


# --- what a reader must know ---------------------------------------------------------------------------------------


def _too_few(common: Mapping[str, int]) -> list[str]:
    few = [f"{metric} ({n})" for metric, n in common.items() if n < FEWEST_AGENTS]
    if not few:
        return []
    return [f"not compared, fewer than {FEWEST_AGENTS} agents have a score on both boards: {', '.join(few)}."]


def _left_out(only: list[OnlyOnOne], names: tuple[str, str]) -> list[str]:
    told: dict[str, list[str]] = {}
    for one in only:
        for name, agents in zip(names, (one.first, one.second), strict=True):
            if agents:
                told.setdefault(f"with a score on {name} only, left out: {', '.join(agents)}", []).append(one.metric)
    return [f"{', '.join(metrics)}: {what}." for what, metrics in told.items()]


def _lacking(first: Board, second: Board, names: tuple[str, str]) -> list[str]:
    notes = []
    for name, board, other in zip(names, (first, second), (second, first), strict=True):
        if all(board.human(metric) is None for metric in board.metrics):
            notes.append(f"{name} has no score of {HUMAN!r}: there is no distance to a human baseline.")
        lone = [metric for metric in board.metrics if metric not in other.metrics]
        if lone:
            notes.append(f"on {name} only, not compared: {', '.join(lone)}.")
        notes += [f"{name}: {note}." for note in board.notes]
    return notes


def _differences(first: Board, second: Board, metrics: list[str]) -> list[str]:
    """What differs between the signatures of each metric; the same difference is told once."""
    told: dict[str, list[str]] = {}
    for metric in metrics:
        mine, theirs = first.signatures.get(metric), second.signatures.get(metric)
        if mine is None or theirs is None:
            lacking = " and ".join(b.name for b in (first, second) if b.signatures.get(metric) is None)
            told.setdefault(f"no signature on {lacking}: what else differs is not known", []).append(metric)
            continue
        one, other = (settings_of(line) for line in (mine, theirs))
        for key in {**one, **other}:
            if key not in INCIDENTAL and one.get(key) != other.get(key):
                what = f"{key} differs: {one.get(key, 'none')} against {other.get(key, 'none')}"
                told.setdefault(what, []).append(metric)
    return [f"{', '.join(which)}: {what}." for what, which in told.items()]
