"""Boards compared with others: two scorers, editions of two years, or other benchmarks (GEM, section 5 and Table 3).

Scores of different scorers or of different papers are on different scales. So ranks and correlations compare; a
difference of scores does not, and what may be compared of it is the distance to each board's own human baseline. The
paper calls the cells of its Table 3 Spearman; they are Pearson's. Both are computed here, with Kendall's tau-b.

Intervals over a handful of agents are Fisher's z: tanh(artanh r ± q se), with se = 1 / √(n - 3) for Pearson's
coefficient (Fisher, 1921), √((1 + r² / 2) / (n - 3)) for Spearman's (Bonett and Wright, 2000) and √(0.437 / (n - 4))
for Kendall's tau-b (Fieller, Hartley and Pearson, 1957). A bootstrap over 8 to 17 agents draws the same few again and
again and is too narrow there.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from goldless.apps.gre.boards import PUBLISHED_FOLDER, Board, table_board
from goldless.apps.gre.linking import ScaleLink
from goldless.apps.gre.papers import HUMAN
from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.meta_evaluation.consistency import COEFFICIENTS, FEWEST_AGENTS, Coefficient, correlations
from goldless.reports.document import write
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature

LEVEL = 0.95
LOST: Mapping[Coefficient, int] = {"pearson": 3, "spearman": 3, "kendall": 4}
"""Subtracted from the number of agents in the standard error."""
INTERVALS = (
    "Intervals are Fisher's z (with Bonett and Wright's error for Spearman, Fieller's for Kendall). They assume that "
    "agents are a random sample; models of one family are similar, so they are too optimistic."
)


def _signature(name: str, metric: str, **settings: str) -> str:
    return str(Signature(f"{name}[{metric}]", {**settings, "interval": f"fisher-z-{LEVEL:g}"}))


@dataclass(frozen=True, slots=True)
class AgentCorrelation:
    """One coefficient over agents."""

    coefficient: Coefficient
    value: float | None = None
    """None: not defined, ``note`` says why."""
    low: float | None = None
    """None: no interval, ``note`` says why."""
    high: float | None = None
    n: int = 0
    """Agents with both values."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class BoardAgreement:
    """How well two boards agree under one metric, or a board and a benchmark."""

    metric: str
    n: int
    """Agents with a score on both, the human baseline left out."""
    coefficients: tuple[AgentCorrelation, ...]
    """Pearson, Spearman, Kendall."""
    benchmark: str | None = None


def agent_correlations(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[AgentCorrelation, ...]:
    """Pearson, Spearman and Kendall's tau-b over the agents in both."""
    common = [agent for agent in first if agent in second]
    x, y = (np.array([[side[agent] for agent in common]], dtype=np.float64) for side in (first, second))
    return tuple(_correlation(x, y, coefficient) for coefficient in COEFFICIENTS)


def _correlation(x: FloatArray, y: FloatArray, coefficient: Coefficient) -> AgentCorrelation:
    n, lost = x.shape[1], LOST[coefficient]
    if n < FEWEST_AGENTS:
        return AgentCorrelation(coefficient, n=n, note=f"fewer than {FEWEST_AGENTS} agents in both")
    value = float(correlations(x, y, coefficient)[0])
    if math.isnan(value):
        return AgentCorrelation(coefficient, n=n, note="not defined: all agents have the same value")
    found = AgentCorrelation(coefficient, value, n=n)
    if n <= lost:
        return replace(found, note=f"no interval: n = {n}")
    if abs(value) >= 1 - 1e-12:
        return replace(found, note=f"no interval: the coefficient is {value:.0f}")
    spread = {"pearson": 1.0, "spearman": 1 + value**2 / 2, "kendall": 0.437}[coefficient]
    reach = float(ndtri((1 + LEVEL) / 2)) * math.sqrt(spread / (n - lost))
    middle = math.atanh(value)
    return replace(found, low=math.tanh(middle - reach), high=math.tanh(middle + reach))


# --- two boards ------------------------------------------------------------------------------------------------------


INCIDENTAL = frozenset({"noise", "evidence", "goldless"})
"""Parts of a signature that may differ between runs without changing the scale of scores."""
OTHER_SCALES = (
    "Scores of different scorers or papers are on different scales: compare ranks, correlations and distances to the "
    "human baseline; the change of a score alone means nothing."
)
PUBLISHED_SCORES = "published"
"""Name of the benchmark scores used in the GEM paper."""


@dataclass(frozen=True, slots=True)
class AgentChange:
    """One agent on two boards."""

    metric: str
    agent: str
    first: float
    second: float
    """On one scale with the first only if both signatures are equal."""
    first_rank: int
    """Among the agents on both boards; equal scores share the better rank."""
    second_rank: int
    first_to_human: float | None
    """Score minus that of the human baseline of its own board; None: no baseline."""
    second_to_human: float | None

    KEYS = ("*", "change", "rank_change")

    @property
    def change(self) -> float:
        return self.second - self.first

    @property
    def rank_change(self) -> int:
        """Positive if it rose."""
        return self.first_rank - self.second_rank


@dataclass(frozen=True, slots=True)
class BoardComparison:
    """Two boards, metric by metric."""

    first: str
    second: str
    agreements: tuple[BoardAgreement, ...]
    """Under the metrics that could be compared: those with enough agents on both boards."""
    changes: tuple[AgentChange, ...]
    level: float
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """Signatures of the comparison, by metric."""
    links: tuple[ScaleLink, ...] = ()
    """The second edition on the scale of the first, where they share anchors."""

    def tables(self) -> list[ReportTable]:
        """One row per metric and coefficient; and by metric, one row per agent, by its rank on the second board."""
        columns = (
            Column("metric", "metric"),
            Column("coefficient", "coefficient"),
            Column("value", "agreement", "number", decimals=3, reason="note"),
            Column("low high", f"{self.level * 100:g}%", "interval", decimals=2, reason="note"),
            Column("n", "agents", "count"),
        )
        rows = tuple({"metric": found.metric, **asdict(one)} for found in self.agreements for one in found.coefficients)
        title = f"{self.first} and {self.second}: agreement over agents"
        agreement = ReportTable(title, columns, rows, " || ".join(self.signatures.values()), self.notes)
        changes = [self._changes(found.metric) for found in self.agreements]
        return [agreement, *changes, *(link.table() for link in self.links)]

    def _changes(self, metric: str) -> ReportTable:
        rows = [write(change) for change in self.changes if change.metric == metric]
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


def compare_boards(first: Board, second: Board) -> BoardComparison:
    """Every metric that both boards have, over the agents that both have.

    A metric with too few common agents is not compared but listed in the notes; raises if that is true of all.
    """
    shared = [metric for metric in first.metrics if metric in second.metrics]
    if not shared:
        found = f"{first.name}: {', '.join(first.metrics)}; {second.name}: {', '.join(second.metrics)}"
        raise UserError(f"the boards have no metric in common ({found}). Score both with the same metric")
    common = {metric: len(first.models(metric).keys() & second.models(metric).keys()) for metric in shared}
    metrics = [metric for metric, n in common.items() if n >= FEWEST_AGENTS]
    if not metrics:
        found = ", ".join(f"{metric}: {n}" for metric, n in common.items())
        raise UserError(
            f"too few agents have a score on both {first.name} and {second.name} ({found}). A comparison needs at "
            f"least {FEWEST_AGENTS} with the same name, besides the human baseline"
        )
    same = first.name == second.name
    names = (f"{first.name} (first)", f"{second.name} (second)") if same else (first.name, second.name)
    return BoardComparison(
        *names,
        agreements=tuple(
            BoardAgreement(m, common[m], agent_correlations(first.models(m), second.models(m))) for m in metrics
        ),
        changes=tuple(change for metric in metrics for change in _changes(first, second, metric)),
        level=LEVEL,
        notes=(OTHER_SCALES, INTERVALS, *_notes(dict(zip(names, (first, second), strict=True)), common)),
        signatures={m: _signature("comparison", m, first=first.told(m), second=second.told(m)) for m in metrics},
    )


def _changes(first: Board, second: Board, metric: str) -> Iterator[AgentChange]:
    sides = first.models(metric), second.models(metric)
    humans = [None if (human := board.human(metric)) is None else human.score for board in (first, second)]
    common = [agent for agent in sides[1] if agent in sides[0]]
    for agent in common:
        first_rank, second_rank = (1 + sum(side[peer] > side[agent] for peer in common) for side in sides)
        to_human = [None if h is None else side[agent] - h for side, h in zip(sides, humans, strict=True)]
        yield AgentChange(metric, agent, sides[0][agent], sides[1][agent], first_rank, second_rank, *to_human)


def _notes(boards: Mapping[str, Board], common: Mapping[str, int]) -> Iterator[str]:
    """What is not compared, and what differs between the boards; what is true of several metrics is said once."""
    few = [f"{metric} ({n})" for metric, n in common.items() if n < FEWEST_AGENTS]
    if few:
        yield f"Not compared, because fewer than {FEWEST_AGENTS} agents have a score on both boards: {', '.join(few)}."
    about: dict[str, list[str]] = {}
    one, other = boards.values()
    for metric, n in common.items():
        for name, board, opposite in zip(boards, (one, other), (other, one), strict=True):
            if alone := [agent for agent in board.models(metric) if agent not in opposite.models(metric)]:
                about.setdefault(f"left out, because only {name} has a score: {', '.join(alone)}", []).append(metric)
        if n >= FEWEST_AGENTS:
            for said in _differences(one, other, metric):
                about.setdefault(said, []).append(metric)
    for name, board in boards.items():
        if all(board.human(metric) is None for metric in board.metrics):
            yield f"{name} has no score of {HUMAN!r}, so there is no distance to a human baseline."
        if lone := [metric for metric in board.metrics if metric not in common]:
            yield f"Not compared, because only {name} has them: {', '.join(lone)}."
        yield from (f"{name}: {note}." for note in board.notes)
    yield from (f"{', '.join(metrics)}: {said}." for said, metrics in about.items())


def _differences(first: Board, second: Board, metric: str) -> Iterator[str]:
    lines = [board.signatures.get(metric) for board in (first, second)]
    lacking = [board.name for board, line in zip((first, second), lines, strict=True) if line is None]
    if lacking:
        yield f"no signature on {' and '.join(lacking)}, so other differences are unknown"
        return
    here, there = (Signature.parse(str(line)).settings for line in lines)
    for key in {**here, **there}:
        if key not in INCIDENTAL and here.get(key) != there.get(key):
            yield f"{key} differs: {here.get(key, 'none')} and {there.get(key, 'none')}"


# --- other benchmarks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
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
        """One row per metric and benchmark, with all three coefficients."""
        interval = f"{self.level * 100:g}%"
        columns = [Column("metric", "metric"), Column("benchmark", "benchmark"), Column("n", "agents", "count")]
        for name in COEFFICIENTS:
            wide = name != "pearson"
            columns += [
                Column(name, name, "number", decimals=2, reason=f"{name}_note"),
                Column(f"{name}_low {name}_high", interval, "interval", decimals=2, reason=f"{name}_note", wide=wide),
            ]
        rows = []
        for row in self.rows:
            told: dict[str, Any] = {"metric": row.metric, "benchmark": row.benchmark, "n": row.n}
            for one in row.coefficients:
                told |= {one.coefficient: one.value}
                told |= {f"{one.coefficient}_{key}": value for key, value in asdict(one).items()}
            rows.append(told)
        title = f"{self.board} and other benchmarks ({self.scores}): correlations over agents"
        return ReportTable(title, tuple(columns), tuple(rows), " || ".join(self.signatures.values()), self.notes)


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


def correlate(board: Board, scores: Board) -> BenchmarkCorrelations:
    """Correlate every metric of the board with every benchmark, without the human baseline.

    A benchmark with fewer than three agents on the board has no value; raises if that is true of all.
    """
    names, others = ([agent.agent for agent in one.agents if agent.agent != HUMAN] for one in (board, scores))
    asked = [(metric, benchmark) for metric in board.metrics for benchmark in scores.metrics]
    found = [agent_correlations(board.models(m), scores.models(b)) for m, b in asked]
    if all(group[0].n < FEWEST_AGENTS for group in found):
        raise UserError(
            f"{len(set(names) & set(others))} agents have the same name on {board.name} and in {scores.name}, and no "
            f"benchmark has {FEWEST_AGENTS} of them. A correlation needs at least {FEWEST_AGENTS}. Use the board's "
            f"names in the column agent. Not found: {_near(names, others) or 'none'}"
        )
    rows = [BoardAgreement(m, group[0].n, group, b) for (m, b), group in zip(asked, found, strict=True)]
    cells = ((b, agent, one.score) for b, row in scores.metrics.items() for agent, one in row.items())
    told = f"{scores.name}-{evidence_hash(cells)}"
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
        signatures={m: _signature("correlation", m, board=board.told(m), benchmarks=told) for m in board.metrics},
    )


def _near(agents: Iterable[str], others: Iterable[str]) -> str:
    """The agents that are not among the others, each with the most similar names there."""
    known = list(others)
    near = {agent: difflib.get_close_matches(agent, known, n=2, cutoff=0.5) for agent in agents if agent not in known}
    return ", ".join(f"{agent} (similar: {', '.join(names) or 'none'})" for agent, names in near.items())
