"""Boards of GRE-bench compared with each other and with other benchmarks (GEM, section 5 and tables 3, 6 and 7).

    python benchmarks/papers/gre_boards.py show published:70b
    python benchmarks/papers/gre_boards.py compare published:70b published:8b
    python benchmarks/papers/gre_boards.py correlate published:70b published

A board is the folder of an edition or a run, a CSV file ``agent, METRIC…``, or a table of the paper. Benchmarks are a
CSV file ``agent, BENCHMARK…`` or ``published``, those of the paper. Scores of different scorers are on different
scales, so only ranks and correlations compare. The cells of the paper's Table 3 are Pearson's coefficients.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from scipy.special import ndtri

from goldless.apps.gre.edition import CONFIG, RUN, is_edition
from goldless.apps.gre.papers import HUMAN, is_reference
from goldless.apps.gre.results import EditionResult, read_result, side_by_side, uneven_notes
from goldless.errors import UserError, nearest
from goldless.meta_evaluation.consistency import correlations
from goldless.records import Agent
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature, evidence_hash
from goldless.statistics.bootstrap import Estimate
from goldless.statistics.standings import LeaderboardRow
from goldless.studies.checking import all_at_once
from goldless.studies.frames import read_agents
from goldless.studies.tables import Table

ABOUT_AGENTS = ("agent", "group", "family", "parameters", "size_estimated", "cutoff_date", "published_as")
"""Columns that are not scores."""
FOLDER = Path(__file__).parent / "published"
PUBLISHED = {
    "published:70b": ("table6_llama31_70b.csv", "Table 6 of the GEM paper, scorer Llama 3.1 70B"),
    "published:8b": ("table7_llama31_8b.csv", "Table 7 of the GEM paper, scorer Llama 3.1 8B"),
}
ALLOWED = (
    f"Give a run folder (goldless score … --out FOLDER), an edition's folder (with {CONFIG}), a .csv file with the "
    f"column agent and one column per metric, or one of {', '.join(PUBLISHED)}"
)


@dataclass(frozen=True)
class Board:
    """Agents' scores by metric, without references; ``human`` is the baseline."""

    name: str
    metrics: Mapping[str, Mapping[str, LeaderboardRow]]
    """By metric, then by agent."""
    agents: tuple[Agent, ...]
    level: float | None = None
    """Confidence level of the intervals; None: no intervals."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings by metric, if known."""
    estimated_sizes: tuple[str, ...] = ()
    """Agents whose number of parameters is an estimate."""
    notes: tuple[str, ...] = ()

    def models(self, metric: str) -> dict[str, float]:
        """Scores of all agents except the baseline, highest first."""
        found = {a: s.score for a, s in self.metrics[metric].items() if a != HUMAN and s.score is not None}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def human(self, metric: str) -> LeaderboardRow | None:
        """The baseline; None if it has no score."""
        found = self.metrics[metric].get(HUMAN)
        return None if found is None or found.score is None else found

    def identifier(self, metric: str) -> str:
        """The identifier of its scores under a metric: the signature, or a name with a hash."""
        if metric in self.settings:
            return Signature.line(self.settings[metric])
        if self.name in PUBLISHED:
            return f"published:{PUBLISHED[self.name][0].partition('_')[0]}"
        return f"{self.name}-{evidence_hash((agent, one.score) for agent, one in self.metrics[metric].items())}"

    def table(self) -> ReportTable:
        """One row per agent with all metrics, sorted by the first."""
        about = (Column("family", "family"), Column("parameters", "size", "large"))
        known = {agent.agent: {"family": agent.family, "parameters": agent.parameters} for agent in self.agents}
        ranked = [
            (metric, sorted(rows.values(), key=lambda row: (row.score is None, -(row.score or 0.0))), self.level or 0.0)
            for metric, rows in self.metrics.items()
        ]
        notes = list(self.notes)
        if self.estimated_sizes:
            notes.append(f"estimated sizes: {', '.join(self.estimated_sizes)}")
        signatures = " || ".join(map(Signature.line, self.settings.values()))
        return ReportTable(self.name, *side_by_side(ranked, about, known), signatures, tuple(notes))


def read_board(source: str | Path) -> Board:
    """The board of a run folder, an edition's folder, a CSV file, or ``published:70b`` and ``published:8b``."""
    name, path = str(source), Path(source)
    if name in PUBLISHED:
        file, note = PUBLISHED[name]
        return replace(table_board(FOLDER / file), name=name, notes=(note,))
    if is_edition(path):
        return _run_board(path / RUN, path.resolve().name)
    if path.is_dir():
        return _run_board(path, path.resolve().name)
    if path.is_file() and path.suffix.lower() == ".csv":
        return table_board(path)
    if name.startswith("published:"):
        raise UserError(f"unknown board {name!r}{nearest(name, PUBLISHED) or '.'} {ALLOWED}")
    raise UserError(f"{source}: {'not a .csv file' if path.exists() else 'no such file or folder'}. {ALLOWED}")


def _run_board(folder: Path, name: str) -> Board:
    run = RunFolder(folder)
    if run.required("leaderboard") is None:
        raise UserError(f"{folder}: no results (leaderboard.json). {ALLOWED}. Score an edition with goldless gre score")
    boards, result = run.boards, read_result(run)
    metrics = {m: {r.agent: r for r in board.rows if not is_reference(r.agent)} for m, board in boards.items()}
    if not any(metrics.values()):
        raise UserError(f"{folder}: no agent has a score. Score the study with a metric that scores responses")
    notes = []
    if isinstance(result, EditionResult) and result.demonstration is not None:
        notes.append(result.demonstration)
    elif result is not None and not isinstance(result, EditionResult):
        raise UserError(f"{folder}: {result}")
    if run.leaderboard is not None and not run.leaderboard.complete:
        notes.append("the run is incomplete; run it again to collect what is missing")
    notes += uneven_notes(boards)
    agents = tuple(agent for agent in run.agent_notes if not is_reference(agent.agent))
    settings = {metric: board.settings for metric, board in boards.items()}
    level = max(board.level for board in boards.values())
    return Board(name, metrics, agents, level, settings, notes=tuple(note.removesuffix(".") for note in notes))


def table_board(path: Path, *, about: Iterable[str] = ABOUT_AGENTS, what: str = "metric") -> Board:
    """The board in a table ``agent, METRIC…[, parameters, size_estimated, family, group, cutoff_date]``.

    ``about``: the columns that are not scores. ``what``: name of the others in messages.
    """
    with all_at_once(str(path)) as problems:
        table = Table(path, problems)
        table.frame = table.frame.with_columns(pl.col(pl.String).str.strip_chars())
        columns = [column for column in table.columns if column not in about]
        if table.rows and not columns:
            table.add(f"no {what} among the columns ({', '.join(table.columns)}). Add one column per {what}", 1)
        elif not table.rows and not table.broken:
            table.add(f"no rows. The table needs one row per agent: agent, then one column per {what}")
        if "" in columns:
            table.add("a column has no name in the header", 1)
        numbers: dict[str, Any] = dict.fromkeys(columns, "optional_number")
        rows = table.read({"agent": "optional_name", "size_estimated": "optional_text", **numbers}).to_dicts()
        agents = read_agents(table)[0] if table.rows else {}
    agents = {name: agent for name, agent in agents.items() if not is_reference(name)}
    if not agents:
        raise UserError(f"{path}: only references, which are not ranked. Add the agents' scores")
    metrics: dict[str, dict[str, LeaderboardRow]] = {column: {} for column in columns}
    for name, row in [(row["agent"], row) for row in rows if row["agent"] in agents]:
        for metric in [column for column in columns if row[column] is not None]:
            metrics[metric][name] = LeaderboardRow(None, name, estimate=Estimate(row[metric]))
    guessed = [row["agent"] for row in rows if str(row["size_estimated"]).lower() in {"yes", "true", "1"}]
    return Board(path.stem, metrics, tuple(agents.values()), estimated_sizes=tuple(guessed))


# --- correlations over agents ----------------------------------------------------------------------------------------

LEVEL = 0.95
FEWEST_AGENTS = 3
"""Fewer have no correlation."""
Coefficient = Literal["pearson", "spearman", "kendall"]
LOST: Mapping[Coefficient, int] = {"pearson": 3, "spearman": 3, "kendall": 4}
"""Subtracted from the number of agents in the standard error."""
INTERVALS = (
    "Intervals are Fisher's z (with Bonett and Wright's error for Spearman, Fieller's for Kendall). They assume that "
    "agents are a random sample; models of one family are similar, so they are too optimistic."
)


def _signature(name: str, metric: str, **settings: str) -> str:
    return str(Signature(f"{name}[{metric}]", {**settings, "interval": f"fisher-z-{LEVEL:g}"}))


@dataclass(frozen=True)
class AgentCorrelation(Estimate):
    """One coefficient over agents; ``n`` of them have both values."""

    coefficient: Coefficient = "pearson"


@dataclass(frozen=True)
class BoardAgreement:
    """Agreement of two boards under one metric, or of a board and a benchmark."""

    metric: str
    n: int
    """Agents with a score on both, the human baseline left out."""
    coefficients: tuple[AgentCorrelation, ...]
    """Pearson, Spearman, Kendall."""
    benchmark: str | None = None


def agent_correlations(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[AgentCorrelation, ...]:
    """Pearson, Spearman and Kendall's tau-b over the agents in both, with Fisher's z: tanh(artanh r ± q se).

    se = 1 / √(n - 3) for Pearson (Fisher, 1921), √((1 + r² / 2) / (n - 3)) for Spearman (Bonett and Wright, 2000) and
    √(0.437 / (n - 4)) for Kendall (Fieller, Hartley and Pearson, 1957). A bootstrap over 8 to 17 agents is too narrow.
    """
    common = [agent for agent in first if agent in second]
    n, found = len(common), []
    x, y = (np.array([[side[agent] for agent in common]], dtype=np.float64) for side in (first, second))
    for coefficient, lost in LOST.items():
        value = math.nan if n < FEWEST_AGENTS else float(correlations(x, y, coefficient)[0])
        note = low = high = None
        if n < FEWEST_AGENTS:
            note = f"fewer than {FEWEST_AGENTS} agents in both"
        elif math.isnan(value):
            note = "not defined: all agents have the same value"
        elif n <= lost:
            note = f"no interval: n = {n}"
        elif abs(value) >= 1 - 1e-12:
            note = f"no interval: the coefficient is {value:.0f}"
        else:
            spread = {"pearson": 1.0, "spearman": 1 + value**2 / 2, "kendall": 0.437}[coefficient]
            reach = float(ndtri((1 + LEVEL) / 2)) * math.sqrt(spread / (n - lost))
            low, high = (math.tanh(math.atanh(value) + side * reach) for side in (-1, 1))
        known = None if math.isnan(value) else value
        found.append(AgentCorrelation(known, low, high, n, LEVEL, note, coefficient=coefficient))
    return tuple(found)


# --- two boards ------------------------------------------------------------------------------------------------------

OTHER_SCALES = "Scores of different scorers or papers are on different scales: compare ranks and correlations."


@dataclass(frozen=True)
class BoardComparison:
    """Two boards, metric by metric."""

    first: str
    second: str
    agreements: tuple[BoardAgreement, ...]
    """Under the metrics with enough agents on both boards."""
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """By metric."""

    def table(self) -> ReportTable:
        """One row per metric and coefficient."""
        columns = (
            Column("metric", "metric"),
            Column("coefficient", "coefficient"),
            Column("value", "agreement", "number", decimals=3, reason="note"),
            Column("low high", f"{LEVEL * 100:g}%", "interval", decimals=2, reason="note"),
            Column("n", "agents", "count"),
        )
        rows = []
        for agreement in self.agreements:
            rows += [{"metric": agreement.metric, **asdict(found)} for found in agreement.coefficients]
        title = f"{self.first} and {self.second}: agreement over agents"
        return ReportTable(title, columns, tuple(rows), " || ".join(self.signatures.values()), self.notes)


def compare_boards(first: Board, second: Board) -> BoardComparison:
    """Every metric that both boards have, over the agents that both have. Raises if all have too few of them."""
    shared = [metric for metric in first.metrics if metric in second.metrics]
    common = {metric: len(first.models(metric).keys() & second.models(metric).keys()) for metric in shared}
    metrics = [metric for metric, n in common.items() if n >= FEWEST_AGENTS]
    counts = ", ".join(f"{metric}: {n}" for metric, n in common.items()) or "no metric in common"
    if not metrics:
        sides = " and ".join(f"{board.name} ({', '.join(board.metrics)})" for board in (first, second))
        raise UserError(
            f"too few agents have a score on both {sides}: {counts}. A comparison needs at least {FEWEST_AGENTS} with "
            "the same name under the same metric, besides the human baseline"
        )
    agreements = [
        BoardAgreement(metric, common[metric], agent_correlations(first.models(metric), second.models(metric)))
        for metric in metrics
    ]
    notes = [OTHER_SCALES, INTERVALS, f"Agents with a score on both: {counts}."]
    notes += [f"{board.name}: {note}." for board in (first, second) for note in board.notes]
    signatures = {
        metric: _signature("comparison", metric, first=first.identifier(metric), second=second.identifier(metric))
        for metric in metrics
    }
    return BoardComparison(first.name, second.name, tuple(agreements), tuple(notes), signatures)


# --- other benchmarks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BenchmarkCorrelations:
    """A board and other benchmarks."""

    board: str
    scores: str
    rows: tuple[BoardAgreement, ...]
    level: float
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """Signatures by metric."""

    def table(self) -> ReportTable:
        interval = f"{self.level * 100:g}%"
        columns = [Column("metric", "metric"), Column("benchmark", "benchmark"), Column("n", "agents", "count")]
        for name in LOST:
            wide = name != "pearson"
            columns += [
                Column(name, name, "number", decimals=2, reason=f"{name}_note"),
                Column(f"{name}_low {name}_high", interval, "interval", decimals=2, reason=f"{name}_note", wide=wide),
            ]
        rows = []
        for row in self.rows:
            told: dict[str, Any] = {"metric": row.metric, "benchmark": row.benchmark, "n": row.n}
            for one in row.coefficients:
                told[one.coefficient] = one.value
                told |= {f"{one.coefficient}_{key}": value for key, value in asdict(one).items()}
            rows.append(told)
        title = f"{self.board} and other benchmarks ({self.scores}): correlations over agents"
        return ReportTable(title, tuple(columns), tuple(rows), " || ".join(self.signatures.values()), self.notes)


def read_benchmark_scores(source: str | Path) -> Board:
    """Scores in other benchmarks: a CSV file ``agent, BENCHMARK…`` (blank: not given), or ``published``: GEM's own."""
    if str(source) == "published":
        return replace(
            table_board(FOLDER / "benchmark_scores.csv", about=("agent",), what="benchmark"), name="published"
        )
    path = Path(source)
    if not path.is_file() or path.suffix.lower() != ".csv":
        raise UserError(
            f"{source}: {'not a .csv file' if path.is_file() else 'no such file'}. Give a .csv file with the column "
            "agent and one column per benchmark, or 'published' for the scores of the GEM paper"
        )
    return table_board(path, about=("agent",), what="benchmark")


def correlate(board: Board, scores: Board) -> BenchmarkCorrelations:
    """Correlate every metric of the board with every benchmark, without the human baseline.

    A benchmark with fewer than three agents on the board has no value; raises if that is true of all.
    """
    names, others = ([agent.agent for agent in one.agents if agent.agent != HUMAN] for one in (board, scores))
    rows = []
    for metric in board.metrics:
        for benchmark in scores.metrics:
            found = agent_correlations(board.models(metric), scores.models(benchmark))
            rows.append(BoardAgreement(metric, found[0].n, found, benchmark))
    if all(row.n < FEWEST_AGENTS for row in rows):
        raise UserError(
            f"{len(set(names) & set(others))} agents have the same name on {board.name} and in {scores.name}, and no "
            f"benchmark has {FEWEST_AGENTS} of them. A correlation needs at least {FEWEST_AGENTS}. Use the board's "
            f"names in the column agent. Not found: {_near(names, others) or 'none'}"
        )
    every = ((b, agent, one.score) for b, row in scores.metrics.items() for agent, one in row.items())
    told = f"{scores.name}-{evidence_hash(every)}"
    left_out = {f"only on {board.name}": _near(names, others), f"only in {scores.name}": _near(others, names)}
    return BenchmarkCorrelations(
        board=board.name,
        scores=scores.name,
        rows=tuple(rows),
        level=LEVEL,
        notes=(
            *(f"{note}." for note in board.notes),
            INTERVALS,
            *(f"Left out, {where}: {agents}." for where, agents in left_out.items() if agents),
        ),
        signatures={m: _signature("correlation", m, board=board.identifier(m), benchmarks=told) for m in board.metrics},
    )


def _near(agents: Iterable[str], others: Iterable[str]) -> str:
    """The agents that are not among the others, each with the most similar names there."""
    known = list(others)
    near = {agent: difflib.get_close_matches(agent, known, n=2, cutoff=0.5) for agent in agents if agent not in known}
    return ", ".join(f"{agent} (similar: {', '.join(names) or 'none'})" for agent, names in near.items())


def main(verb: str, board: str, second: str = "") -> None:
    """Print a board, the agreement of two, or the correlations of one with other benchmarks."""
    result: Board | BoardComparison | BenchmarkCorrelations = read_board(board)
    if verb == "compare":
        result = compare_boards(read_board(board), read_board(second))
    elif verb == "correlate":
        result = correlate(read_board(board), read_benchmark_scores(second))
    print(result.table().to_markdown())


if __name__ == "__main__":
    main(*sys.argv[1:])
