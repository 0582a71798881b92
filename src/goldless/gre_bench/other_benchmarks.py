"""How a board goes with other benchmarks: correlations over the agents that have a score in both (GEM, Table 3).

The paper calls the cells of its Table 3 Spearman; they are Pearson's. Both stand here, with Kendall's tau-b.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.gre_bench.agent_correlation import INTERVALS, AgentCorrelation, agent_correlations, corrected
from goldless.gre_bench.board_csv import read_benchmark_rows
from goldless.gre_bench.boards import PUBLISHED_FOLDER, Board
from goldless.gre_bench.papers import HUMAN
from goldless.gre_bench.result_signatures import board_told, result_signature
from goldless.meta_evaluation.consistency import FEWEST_AGENTS
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.recorded import evidence_hash

PUBLISHED_SCORES = "published"
"""Names the scores that the GEM paper's authors correlated with."""


@dataclass(frozen=True, slots=True)
class BenchmarkScores:
    """Agents' scores in other benchmarks."""

    name: str
    benchmarks: Mapping[str, Mapping[str, float]]
    """By benchmark, then by agent; an agent whose score is not given is absent."""
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkCorrelation:
    """One metric of a board against one benchmark."""

    metric: str
    benchmark: str
    n: int
    """Agents with a score in both."""
    coefficients: tuple[AgentCorrelation, ...]
    """Pearson, Spearman, Kendall."""

    def as_row(self) -> dict[str, Cell]:
        """As one row of a table."""
        row: dict[str, Cell] = {"metric": self.metric, "benchmark": self.benchmark, "n": self.n}
        for one in self.coefficients:
            values = one.as_json()
            row |= {one.coefficient: one.value}
            row |= {f"{one.coefficient}_{key}": values[key] for key in ("low", "high", "p", "p_holm", "note")}
        return row


@dataclass(frozen=True, slots=True)
class Unmatched:
    """An agent that stands on one side only."""

    agent: str
    nearest: tuple[str, ...]
    """The most similar names on the other side; none where no name is near."""


@dataclass(frozen=True, slots=True)
class BenchmarkCorrelations:
    """A board against other benchmarks."""

    board: str
    scores: str
    rows: tuple[BenchmarkCorrelation, ...]
    level: float
    only_on_board: tuple[Unmatched, ...]
    only_in_scores: tuple[Unmatched, ...]
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """How the correlations were made, by metric."""

    def table(self) -> ReportTable:
        """One row a metric and a benchmark, the three coefficients beside each other."""
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

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "board": self.board,
            "scores": self.scores,
            "level": self.level,
            "rows": [
                {
                    "metric": row.metric,
                    "benchmark": row.benchmark,
                    "n": row.n,
                    "coefficients": [one.as_json() for one in row.coefficients],
                }
                for row in self.rows
            ],
            "only_on_board": {one.agent: list(one.nearest) for one in self.only_on_board},
            "only_in_scores": {one.agent: list(one.nearest) for one in self.only_in_scores},
            "notes": list(self.notes),
            "signatures": dict(self.signatures),
        }


def read_benchmark_scores(source: str | Path) -> BenchmarkScores:
    """The scores of a CSV file ``agent, BENCHMARK…`` (blank: not given), or ``published``: those of the GEM paper."""
    path = PUBLISHED_FOLDER / "benchmark_scores.csv" if source == PUBLISHED_SCORES else Path(source)
    if not path.is_file() or path.suffix.lower() != ".csv":
        came = "no such file" if not path.is_file() else f"ends in {path.suffix or 'nothing'!r}"
        raise UserError(
            f"{source}: {came}; scores in other benchmarks are a .csv file with the columns agent and one for each "
            f"benchmark, or {PUBLISHED_SCORES!r} for those of the GEM paper"
        )
    rows = read_benchmark_rows(path)
    benchmarks = {
        benchmark: {row.agent.agent: score for row in rows if (score := row.scores[benchmark]) is not None}
        for benchmark in rows[0].scores
    }
    name = PUBLISHED_SCORES if source == PUBLISHED_SCORES else path.stem
    return BenchmarkScores(name, benchmarks, tuple(row.agent.agent for row in rows))


def correlate(
    board: Board, scores: BenchmarkScores, *, level: float = 0.95, seed: int = 0, permutations: int = 10_000
) -> BenchmarkCorrelations:
    """Every metric of the board against every benchmark. The human baseline is no model and does not take part.

    A benchmark with fewer than three agents on the board is shown without a value; where that is so of all, it is an
    error.
    """
    models = [agent for agent in board.agents if agent != HUMAN]
    on_board = _unmatched(models, scores.agents)
    in_scores = _unmatched(scores.agents, board.agents)
    asked = [(metric, benchmark) for metric in board.metrics for benchmark in scores.benchmarks]
    found = [
        agent_correlations(
            board.models(metric), scores.benchmarks[benchmark], level=level, seed=seed, permutations=permutations
        )
        for metric, benchmark in asked
    ]
    if all(group[0].n < FEWEST_AGENTS for group in found):
        raise UserError(_too_few(board, scores, on_board))
    rows = tuple(
        BenchmarkCorrelation(metric, benchmark, group[0].n, group)
        for (metric, benchmark), group in zip(asked, corrected(found), strict=True)
    )
    notes = (
        INTERVALS,
        f"p (Holm) is corrected for the {len(rows)} cells of one coefficient.",
        *_told(f"on {board.name} only", on_board),
        *_told(f"in {scores.name} only", in_scores),
    )
    told = {
        "benchmarks": f"{scores.name}-{_hash(scores)}",
        "interval": f"fisher-z-{level:g}",
        "test": f"pairings-holm-over-{len(rows)}",
    }
    signatures = {
        metric: result_signature(
            "correlation", metric, {"board": board_told(board, metric), **told}, seed=seed, permutations=permutations
        )
        for metric in board.metrics
    }
    return BenchmarkCorrelations(board.name, scores.name, rows, level, on_board, in_scores, notes, signatures)


def _hash(scores: BenchmarkScores) -> str:
    return evidence_hash(
        (benchmark, agent, score) for benchmark, row in scores.benchmarks.items() for agent, score in row.items()
    )


def _unmatched(
    agents: tuple[str, ...] | list[str], others: tuple[str, ...] | Mapping[str, Any]
) -> tuple[Unmatched, ...]:
    known = list(others)
    return tuple(
        Unmatched(agent, tuple(difflib.get_close_matches(agent, known, n=2, cutoff=0.5)))
        for agent in agents
        if agent not in others
    )


def _told(where: str, unmatched: tuple[Unmatched, ...]) -> list[str]:
    if not unmatched:
        return []
    return [f"left out, {where}: {_names(unmatched)}."]


def _names(unmatched: tuple[Unmatched, ...]) -> str:
    return ", ".join(f"{one.agent} (near: {', '.join(one.nearest) or 'none'})" for one in unmatched)


def _too_few(board: Board, scores: BenchmarkScores, on_board: tuple[Unmatched, ...]) -> str:
    common = len([agent for agent in scores.agents if agent in board.agents and agent != HUMAN])
    return (
        f"{common} agents have the same name on {board.name} and in {scores.name}, and no benchmark has "
        f"{FEWEST_AGENTS} of them; a correlation needs at least {FEWEST_AGENTS}. Write the board's names into the "
        f"column agent. Not found: {_names(on_board) or 'none'}"
    )
