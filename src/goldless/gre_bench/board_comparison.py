"""Boards compared with others: two scorers, editions of two years, or other benchmarks (GEM, section 5 and Table 3).

Scores of different scorers or of different papers are on different scales. So ranks and correlations compare; a
difference of scores does not, and what may be compared of it is the distance to each board's own human baseline. The
paper calls the cells of its Table 3 Spearman; they are Pearson's. Both are computed here, with Kendall's tau-b.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from goldless.errors import UserError
from goldless.gre_bench.agent_statistics import (
    DEFAULT,
    INTERVALS,
    AgentCorrelation,
    Inference,
    agent_correlations,
    corrected,
)
from goldless.gre_bench.boards import PUBLISHED_FOLDER, AsJson, Board, table_board
from goldless.gre_bench.papers import HUMAN
from goldless.meta_evaluation.consistency import FEWEST_AGENTS
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature

INCIDENTAL = frozenset({"noise", "evidence", "goldless"})
"""Parts of a signature that may differ between runs without changing the scale of scores."""
OTHER_SCALES = (
    "Scores of different scorers or papers are on different scales: compare ranks, correlations and distances to the "
    "human baseline; the change of a score alone means nothing."
)
PUBLISHED_SCORES = "published"
"""Name of the benchmark scores used in the GEM paper."""


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """How well two boards agree under one metric."""

    metric: str
    n: int
    """Agents with a score on both, the human baseline left out."""
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
    """Second minus first: on one scale only if both signatures are equal."""
    first_rank: int
    """Among the agents on both boards; equal scores share the better rank."""
    second_rank: int
    rank_change: int
    """First rank minus second: positive if it rose."""
    first_to_human: float | None
    """Score minus that of the human baseline of its own board; None: no baseline."""
    second_to_human: float | None


@dataclass(frozen=True, slots=True)
class OnlyOnOne:
    """Agents with a score on one of the boards only."""

    metric: str
    first: tuple[str, ...]
    second: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoardComparison(AsJson):
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
    """Signatures of the comparison, by metric."""
    board_signatures: Mapping[str, Mapping[str, str]]
    """Signatures of the boards: by board, then by metric."""

    def table(self) -> ReportTable:
        """One row per metric and coefficient."""
        columns = (
            Column("metric", "metric"),
            Column("coefficient", "coefficient"),
            Column("value", "agreement", "number", decimals=3, reason="note"),
            Column("low high", f"{self.level * 100:g}%", "interval", decimals=2, reason="note"),
            Column("p", "p", "probability"),
            Column("n", "agents", "count"),
        )
        rows = tuple({"metric": found.metric, **asdict(one)} for found in self.agreements for one in found.coefficients)
        title = f"{self.first} and {self.second}: agreement over agents"
        return ReportTable(title, columns, rows, " || ".join(self.signatures.values()), self.notes)

    def change_table(self, metric: str) -> ReportTable:
        """One row per agent, by its rank on the second board."""
        rows = [asdict(change) for change in self.changes if change.metric == metric]
        if not rows:
            known = ", ".join(found.metric for found in self.agreements)
            raise UserError(f"metric {metric!r} was not compared. Compared: {known}")
        columns = [
            Column("agent", "agent"),
            Column("first_rank", "# first", "count"),
            Column("second_rank", "# second", "count"),
            Column("rank_change", "rose by", "signed", decimals=0),
            Column("first", "first", "number", decimals=2),
            Column("second", "second", "number", decimals=2),
            Column("change", "change of score", "signed", decimals=2, wide=True),
        ]
        to_human = ("first_to_human", "second_to_human")
        if all(rows[0][name] is not None for name in to_human):
            columns += [Column(name, "minus human", "signed", decimals=2) for name in to_human]
        title = f"{metric}: agents on {self.first} (first) and {self.second} (second)"
        return ReportTable(title, tuple(columns), tuple(rows), self.signatures[metric], (OTHER_SCALES,))


def compare_boards(first: Board, second: Board, inference: Inference = DEFAULT) -> BoardComparison:
    """Every metric that both boards have, over the agents that both have.

    A metric with too few common agents is not compared but listed in the notes; raises if that is true of all.
    """
    shared = [metric for metric in first.metrics if metric in second.metrics]
    common = {metric: len(first.models(metric).keys() & second.models(metric).keys()) for metric in shared}
    _check(first, second, common)
    metrics = [metric for metric, n in common.items() if n >= FEWEST_AGENTS]
    found = {metric: agent_correlations(first.models(metric), second.models(metric), inference) for metric in metrics}
    only = tuple(_only(first, second, metric) for metric in shared)
    names = _names(first, second)
    return BoardComparison(
        *names,
        agreements=tuple(MetricAgreement(metric, common[metric], group) for metric, group in found.items()),
        changes=tuple(change for metric in metrics for change in _changes(first, second, metric)),
        only=only,
        level=inference.level,
        notes=(
            OTHER_SCALES,
            INTERVALS,
            *_not_compared(common),
            *_left_out(only, names),
            *_lacking(first, second, names),
            *_differences(first, second, metrics),
        ),
        signatures={metric: _signature(first, second, metric, inference) for metric in metrics},
        board_signatures=dict(zip(names, (first.signatures, second.signatures), strict=True)),
    )


def _signature(first: Board, second: Board, metric: str, inference: Inference) -> str:
    told = {"first": first.told(metric), "second": second.told(metric), "interval": f"fisher-z-{inference.level:g}"}
    return inference.signature("comparison", metric, told)


def _only(first: Board, second: Board, metric: str) -> OnlyOnOne:
    one, other = first.models(metric), second.models(metric)
    return OnlyOnOne(metric, tuple(a for a in one if a not in other), tuple(a for a in other if a not in one))


def _names(first: Board, second: Board) -> tuple[str, str]:
    if first.name != second.name:
        return first.name, second.name
    return f"{first.name} (first)", f"{second.name} (second)"


def _check(first: Board, second: Board, common: Mapping[str, int]) -> None:
    if not common:
        found = f"{first.name}: {', '.join(first.metrics)}; {second.name}: {', '.join(second.metrics)}"
        raise UserError(f"the boards have no metric in common ({found}). Score both with the same metric")
    if all(n < FEWEST_AGENTS for n in common.values()):
        found = ", ".join(f"{metric}: {n}" for metric, n in common.items())
        raise UserError(
            f"too few agents have a score on both {first.name} and {second.name} ({found}). A comparison needs at "
            f"least {FEWEST_AGENTS} with the same name, besides the human baseline"
        )


def _changes(first: Board, second: Board, metric: str) -> list[AgentChange]:
    one, other = first.models(metric), second.models(metric)
    common = [agent for agent in other if agent in one]
    ranks = [_ranks({agent: side[agent] for agent in common}) for side in (one, other)]
    human, other_human = (None if (h := board.human(metric)) is None else h.score for board in (first, second))
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
            first_to_human=None if human is None else one[agent] - human,
            second_to_human=None if other_human is None else other[agent] - other_human,
        )
        for agent in common
    ]


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    return {agent: 1 + sum(other > score for other in scores.values()) for agent, score in scores.items()}


def _not_compared(common: Mapping[str, int]) -> list[str]:
    few = [f"{metric} ({n})" for metric, n in common.items() if n < FEWEST_AGENTS]
    note = f"Not compared, because fewer than {FEWEST_AGENTS} agents have a score on both boards: {', '.join(few)}."
    return [note] if few else []


def _left_out(only: Iterable[OnlyOnOne], names: tuple[str, str]) -> list[str]:
    told: dict[str, list[str]] = {}
    for one in only:
        for name, agents in zip(names, (one.first, one.second), strict=True):
            if agents:
                told.setdefault(f"left out, because only {name} has a score: {', '.join(agents)}", []).append(
                    one.metric
                )
    return _by_metrics(told)


def _lacking(first: Board, second: Board, names: tuple[str, str]) -> list[str]:
    notes = []
    for name, board, other in zip(names, (first, second), (second, first), strict=True):
        if all(board.human(metric) is None for metric in board.metrics):
            notes.append(f"{name} has no score of {HUMAN!r}, so there is no distance to a human baseline.")
        lone = [metric for metric in board.metrics if metric not in other.metrics]
        if lone:
            notes.append(f"Not compared, because only {name} has them: {', '.join(lone)}.")
        notes += [f"{name}: {note}." for note in board.notes]
    return notes


def _differences(first: Board, second: Board, metrics: list[str]) -> list[str]:
    """Differences between the signatures of each metric; equal differences are listed once."""
    told: dict[str, list[str]] = {}
    for metric in metrics:
        lacking = [board.name for board in (first, second) if board.signatures.get(metric) is None]
        if lacking:
            told.setdefault(f"no signature on {' and '.join(lacking)}, so other differences are unknown", []).append(
                metric
            )
            continue
        one, other = (Signature.parse(board.signatures[metric]).settings for board in (first, second))
        for key in {**one, **other}:
            if key not in INCIDENTAL and one.get(key) != other.get(key):
                what = f"{key} differs: {one.get(key, 'none')} and {other.get(key, 'none')}"
                told.setdefault(what, []).append(metric)
    return _by_metrics(told)


def _by_metrics(told: Mapping[str, list[str]]) -> list[str]:
    """Each note once, after the metrics it is about."""
    return [f"{', '.join(metrics)}: {what}." for what, metrics in told.items()]


# --- other benchmarks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BenchmarkCorrelation(MetricAgreement):
    """One metric of a board and one benchmark."""

    benchmark: str

    def as_row(self) -> dict[str, Cell]:
        """As one row of a table."""
        row: dict[str, Cell] = {"metric": self.metric, "benchmark": self.benchmark, "n": self.n}
        for one in self.coefficients:
            told = ("low", "high", "p", "p_holm", "note")
            row |= {one.coefficient: one.value, **{f"{one.coefficient}_{key}": getattr(one, key) for key in told}}
        return row


@dataclass(frozen=True, slots=True)
class BenchmarkCorrelations(AsJson):
    """A board and other benchmarks."""

    board: str
    scores: str
    rows: tuple[BenchmarkCorrelation, ...]
    level: float
    only_on_board: Mapping[str, tuple[str, ...]]
    """Agents without benchmark scores, each with the most similar names there, if any."""
    only_in_scores: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """Signatures by metric."""

    def table(self) -> ReportTable:
        """One row per metric and benchmark, with all three coefficients."""
        interval = f"{self.level * 100:g}%"
        columns = [Column("metric", "metric"), Column("benchmark", "benchmark"), Column("n", "agents", "count")]
        for name, wide in (("pearson", False), ("spearman", True), ("kendall", True)):
            columns += [
                Column(name, name, "number", decimals=2, reason=f"{name}_note"),
                Column(f"{name}_low {name}_high", interval, "interval", decimals=2, reason=f"{name}_note", wide=wide),
                Column(f"{name}_p", "p", "probability", wide=True),
                Column(f"{name}_p_holm", "p (Holm)", "probability", wide=True),
            ]
        rows = tuple(row.as_row() for row in self.rows)
        title = f"{self.board} and other benchmarks ({self.scores}): correlations over agents"
        return ReportTable(title, tuple(columns), rows, " || ".join(self.signatures.values()), self.notes)


def read_benchmark_scores(source: str | Path) -> Board:
    """Scores in other benchmarks: a CSV file ``agent, BENCHMARK…`` (blank: not given), or ``published``: GEM's own."""
    path = PUBLISHED_FOLDER / "benchmark_scores.csv" if source == PUBLISHED_SCORES else Path(source)
    if not path.is_file() or path.suffix.lower() != ".csv":
        problem = "no such file" if not path.is_file() else "not a .csv file"
        raise UserError(
            f"{source}: {problem}. Give a .csv file with the column agent and one column per benchmark, or "
            f"{PUBLISHED_SCORES!r} for the scores of the GEM paper"
        )
    name = PUBLISHED_SCORES if source == PUBLISHED_SCORES else path.stem
    return table_board(path, name=name, about=("agent",), what="benchmark")


def correlate(board: Board, scores: Board, inference: Inference = DEFAULT) -> BenchmarkCorrelations:
    """Correlate every metric of the board with every benchmark, without the human baseline.

    A benchmark with fewer than three agents on the board has no value; raises if that is true of all.
    """
    on_board = _unmatched([agent for agent in board.agents if agent != HUMAN], scores.agents)
    in_scores = _unmatched(scores.agents, board.agents)
    asked = [(metric, benchmark) for metric in board.metrics for benchmark in scores.metrics]
    found = [agent_correlations(board.models(m), scores.models(b), inference) for m, b in asked]
    if all(group[0].n < FEWEST_AGENTS for group in found):
        raise UserError(_too_few(board, scores, on_board))
    told = {
        "benchmarks": f"{scores.name}-{_hash(scores)}",
        "interval": f"fisher-z-{inference.level:g}",
        "test": f"pairings-holm-over-{len(asked)}",
    }
    sides = {f"only on {board.name}": on_board, f"only in {scores.name}": in_scores}
    return BenchmarkCorrelations(
        board=board.name,
        scores=scores.name,
        rows=tuple(
            BenchmarkCorrelation(metric, group[0].n, group, benchmark)
            for (metric, benchmark), group in zip(asked, corrected(found), strict=True)
        ),
        level=inference.level,
        only_on_board=on_board,
        only_in_scores=in_scores,
        notes=(
            INTERVALS,
            f"p (Holm) is corrected for the {len(asked)} cells of one coefficient.",
            *(f"Left out, {where}: {_near(agents)}." for where, agents in sides.items() if agents),
        ),
        signatures={m: inference.signature("correlation", m, {"board": board.told(m), **told}) for m in board.metrics},
    )


def _hash(scores: Board) -> str:
    return evidence_hash(
        (benchmark, agent, one.score) for benchmark, row in scores.metrics.items() for agent, one in row.items()
    )


def _unmatched(agents: Iterable[str], others: Iterable[str]) -> dict[str, tuple[str, ...]]:
    known = list(others)
    near = {agent: difflib.get_close_matches(agent, known, n=2, cutoff=0.5) for agent in agents if agent not in known}
    return {agent: tuple(names) for agent, names in near.items()}


def _near(unmatched: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{agent} (similar: {', '.join(names) or 'none'})" for agent, names in unmatched.items())


def _too_few(board: Board, scores: Board, on_board: Mapping[str, tuple[str, ...]]) -> str:
    common = len([agent for agent in scores.agents if agent in board.agents and agent != HUMAN])
    return (
        f"{common} agents have the same name on {board.name} and in {scores.name}, and no benchmark has "
        f"{FEWEST_AGENTS} of them. A correlation needs at least {FEWEST_AGENTS}. Use the board's names in the "
        f"column agent. Not found: {_near(on_board) or 'none'}"
    )
