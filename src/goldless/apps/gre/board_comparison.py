"""Boards compared with others: two scorers, editions of two years, or other benchmarks (GEM, section 5 and Table 3).

Scores of different scorers or of different papers are on different scales. So ranks and correlations compare; a
difference of scores does not, and what may be compared of it is the distance to each board's own human baseline. The
paper calls the cells of its Table 3 Spearman; they are Pearson's. Both are computed here, with Kendall's tau-b.

Intervals over a handful of agents are Fisher's z: tanh(artanh r ± q se), with se = 1 / √(n - 3) for Pearson's
coefficient (Fisher, 1921), √((1 + r² / 2) / (n - 3)) for Spearman's (Bonett and Wright, 2000) and √(0.437 / (n - 4))
for Kendall's tau-b (Fieller, Hartley and Pearson, 1957). A bootstrap over 8 to 17 agents draws the same few again and
again and is too narrow there. p: two-sided, how often a random pairing of agents gives a coefficient at least as far
from 0; all pairings are tried where there are few.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from goldless.apps.gre.boards import PUBLISHED_FOLDER, Board, table_board
from goldless.apps.gre.linking import Link
from goldless.apps.gre.papers import HUMAN
from goldless.errors import UserError
from goldless.meta_evaluation.consistency import COEFFICIENTS, FEWEST_AGENTS, Coefficient, correlations
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.statistics.comparisons import holm

EXACT_AGENTS = 7
"""Up to this many agents all pairings are tried (5,040)."""
LEVEL = 0.95
PERMUTATIONS = 10_000
LOST: Mapping[Coefficient, int] = {"pearson": 3, "spearman": 3, "kendall": 4}
"""Subtracted from the number of agents in the standard error."""
INTERVALS = (
    "Intervals are Fisher's z (with Bonett and Wright's error for Spearman, Fieller's for Kendall), p from random "
    "pairings of agents. Both assume that agents are a random sample; models of one family are similar, so both are "
    "too optimistic."
)


def _signature(name: str, metric: str, seed: int, **settings: str) -> str:
    drawn = {"interval": f"fisher-z-{LEVEL:g}", "permutations": str(PERMUTATIONS), "seed": str(seed)}
    return str(Signature(f"{name}[{metric}]", {**settings, **drawn}))


@dataclass(frozen=True, slots=True)
class AgentCorrelation:
    """One coefficient over agents."""

    coefficient: Coefficient
    value: float | None = None
    """None: not defined, ``note`` says why."""
    low: float | None = None
    """None: no interval, ``note`` says why."""
    high: float | None = None
    p: float | None = None
    n: int = 0
    """Agents with both values."""
    p_holm: float | None = None
    """Corrected for all tests of the same table (Holm)."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well two boards agree under one metric, or a board and a benchmark."""

    metric: str
    n: int
    """Agents with a score on both, the human baseline left out."""
    coefficients: tuple[AgentCorrelation, ...]
    """Pearson, Spearman, Kendall."""
    benchmark: str | None = None


def agent_correlations(
    first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0
) -> tuple[AgentCorrelation, ...]:
    """Pearson, Spearman and Kendall's tau-b over the agents in both."""
    # sorted, so that the pairings do not depend on the order in which agents come
    common = sorted(agent for agent in first if agent in second)
    n = len(common)
    if n < FEWEST_AGENTS:
        note = f"fewer than {FEWEST_AGENTS} agents in both"
        return tuple(AgentCorrelation(coefficient, n=n, note=note) for coefficient in COEFFICIENTS)
    x, y = (np.array([side[agent] for agent in common], dtype=np.float64) for side in (first, second))
    # the given order first
    pairings = np.arange(n)[None]
    if n <= EXACT_AGENTS:
        pairings = np.array(list(itertools.permutations(range(n))))
    else:
        drawn = np.random.default_rng(seed).permuted(np.tile(np.arange(n), (PERMUTATIONS, 1)), axis=1)
        pairings = np.vstack([pairings, drawn])
    found = []
    for coefficient in COEFFICIENTS:
        paired = correlations(np.broadcast_to(x, pairings.shape), y[pairings], coefficient)
        value = float(paired[0])
        if math.isnan(value):
            note = "not defined: all agents have the same value"
            found.append(AgentCorrelation(coefficient, n=n, note=note))
            continue
        # a pairing that is equal but for the last digit counts as equal
        p = float(np.mean(np.abs(paired) >= abs(value) - 1e-9))
        found.append(_with_interval(AgentCorrelation(coefficient, value, p=p, n=n), value))
    return tuple(found)


def _with_interval(found: AgentCorrelation, value: float) -> AgentCorrelation:
    lost = LOST[found.coefficient]
    if found.n <= lost:
        return replace(found, note=f"no interval: n = {found.n}")
    if abs(value) >= 1 - 1e-12:
        return replace(found, note=f"no interval: the coefficient is {value:.0f}")
    spread = {"pearson": 1.0, "spearman": 1 + value**2 / 2, "kendall": 0.437}[found.coefficient]
    reach = float(ndtri((1 + LEVEL) / 2)) * math.sqrt(spread / (found.n - lost))
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
class BoardComparison:
    """Two boards, metric by metric."""

    first: str
    second: str
    agreements: tuple[Agreement, ...]
    """Under the metrics that could be compared: those with enough agents on both boards."""
    changes: tuple[AgentChange, ...]
    level: float
    notes: tuple[str, ...]
    signatures: Mapping[str, str]
    """Signatures of the comparison, by metric."""
    links: tuple[Link, ...] = ()
    """The second edition on the scale of the first, where they share anchors."""

    def tables(self) -> list[ReportTable]:
        """One row per metric and coefficient; and by metric, one row per agent, by its rank on the second board."""
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
        agreement = ReportTable(title, columns, rows, " || ".join(self.signatures.values()), self.notes)
        changes = [self._changes(found.metric) for found in self.agreements]
        return [agreement, *changes, *(link.table() for link in self.links)]

    def _changes(self, metric: str) -> ReportTable:
        rows = [asdict(change) for change in self.changes if change.metric == metric]
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


def compare_boards(first: Board, second: Board, *, seed: int = 0) -> BoardComparison:
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
            Agreement(m, common[m], agent_correlations(first.models(m), second.models(m), seed=seed)) for m in metrics
        ),
        changes=tuple(change for metric in metrics for change in _changes(first, second, metric)),
        level=LEVEL,
        notes=(OTHER_SCALES, INTERVALS, *_notes(dict(zip(names, (first, second), strict=True)), common)),
        signatures={m: _signature("comparison", m, seed, first=first.told(m), second=second.told(m)) for m in metrics},
    )


def _changes(first: Board, second: Board, metric: str) -> Iterator[AgentChange]:
    one, other = first.models(metric), second.models(metric)
    common = [agent for agent in other if agent in one]
    human, other_human = (None if (h := board.human(metric)) is None else h.score for board in (first, second))
    for agent in common:
        rank, later = (1 + sum(side[peer] > side[agent] for peer in common) for side in (one, other))
        yield AgentChange(
            metric=metric,
            agent=agent,
            first=one[agent],
            second=other[agent],
            change=other[agent] - one[agent],
            first_rank=rank,
            second_rank=later,
            rank_change=rank - later,
            first_to_human=None if human is None else one[agent] - human,
            second_to_human=None if other_human is None else other[agent] - other_human,
        )


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
    rows: tuple[Agreement, ...]
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
                Column(f"{name}_p", "p", "probability", wide=True),
                Column(f"{name}_p_holm", "p (Holm)", "probability", wide=True),
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


def correlate(board: Board, scores: Board, *, seed: int = 0) -> BenchmarkCorrelations:
    """Correlate every metric of the board with every benchmark, without the human baseline.

    A benchmark with fewer than three agents on the board has no value; raises if that is true of all.
    """
    names, others = ([agent.agent for agent in one.agents if agent.agent != HUMAN] for one in (board, scores))
    asked = [(metric, benchmark) for metric in board.metrics for benchmark in scores.metrics]
    found = [agent_correlations(board.models(m), scores.models(b), seed=seed) for m, b in asked]
    if all(group[0].n < FEWEST_AGENTS for group in found):
        raise UserError(
            f"{len(set(names) & set(others))} agents have the same name on {board.name} and in {scores.name}, and no "
            f"benchmark has {FEWEST_AGENTS} of them. A correlation needs at least {FEWEST_AGENTS}. Use the board's "
            f"names in the column agent. Not found: {_near(names, others) or 'none'}"
        )
    # Holm's correction is over the cells of one coefficient
    corrected = zip(*(holm([one.p for one in column]) for column in zip(*found, strict=True)), strict=True)
    rows = []
    for (metric, benchmark), group, ps in zip(asked, found, corrected, strict=True):
        coefficients = tuple(replace(one, p_holm=p) for one, p in zip(group, ps, strict=True))
        rows.append(Agreement(metric, group[0].n, coefficients, benchmark))
    cells = ((b, agent, one.score) for b, row in scores.metrics.items() for agent, one in row.items())
    told = {
        "benchmarks": f"{scores.name}-{evidence_hash(cells)}",
        "test": f"pairings-holm-over-{len(asked)}",
    }
    left_out = {f"only on {board.name}": _near(names, others), f"only in {scores.name}": _near(others, names)}
    return BenchmarkCorrelations(
        board=board.name,
        scores=scores.name,
        rows=tuple(rows),
        level=LEVEL,
        notes=(
            *(f"{note}." for note in board.notes),
            INTERVALS,
            f"p (Holm) is corrected for the {len(asked)} cells of one coefficient.",
            *(f"Left out, {where}: {agents}." for where, agents in left_out.items() if agents),
        ),
        signatures={m: _signature("correlation", m, seed, board=board.told(m), **told) for m in board.metrics},
    )


def _near(agents: Iterable[str], others: Iterable[str]) -> str:
    """The agents that are not among the others, each with the most similar names there."""
    known = list(others)
    near = {agent: difflib.get_close_matches(agent, known, n=2, cutoff=0.5) for agent in agents if agent not in known}
    return ", ".join(f"{agent} (similar: {', '.join(names) or 'none'})" for agent, names in near.items())
