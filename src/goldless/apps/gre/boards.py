"""Boards: agents' scores under one or more metrics, from a run, a year's edition, the GEM paper's tables or a CSV.

A result made of a board names it by the board's own signature under that metric. A table that was published, or a CSV
file, has none: it is named by what it is and by a hash of its scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goldless.apps.gre.edition import CONFIG, RUN, is_edition
from goldless.apps.gre.paper_folder import CheckedTable
from goldless.apps.gre.papers import HUMAN, is_reference
from goldless.apps.gre.results import EditionResult, read_result, uneven_notes
from goldless.errors import UserError, nearest
from goldless.records import Agent
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.recorded import evidence_hash
from goldless.studies.checking import all_at_once, is_empty
from goldless.studies.frames import checked_agent

ABOUT_AGENTS = ("agent", "group", "family", "parameters", "size_estimated", "cutoff_date", "published_as")
"""Columns that are not scores."""
PUBLISHED_FOLDER = Path(__file__).parent / "published"
PUBLISHED = {
    "published:70b": ("table6_llama31_70b.csv", "Table 6 of the GEM paper, scorer Llama 3.1 70B"),
    "published:8b": ("table7_llama31_8b.csv", "Table 7 of the GEM paper, scorer Llama 3.1 8B"),
}
ALLOWED = (
    f"Give a run folder (goldless score … --out FOLDER), an edition's folder (with {CONFIG}), a .csv file with the "
    f"column agent and one column per metric, or one of {', '.join(PUBLISHED)}"
)


@dataclass(frozen=True, slots=True)
class BoardScore:
    """One agent under one metric."""

    score: float | None
    """None: missing."""
    low: float | None = None
    """None: no interval."""
    high: float | None = None
    n: int | None = None
    """Number of tasks behind the score; None: unknown."""


@dataclass(frozen=True, slots=True)
class Board:
    """Agents' scores by metric, without references; ``human`` is the baseline."""

    name: str
    metrics: Mapping[str, Mapping[str, BoardScore]]
    """By metric, then by agent."""
    agents: tuple[Agent, ...]
    level: float | None = None
    """Confidence level of the intervals; None: no intervals."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Signatures by metric, if known."""
    estimated_sizes: tuple[str, ...] = ()
    """Agents whose number of parameters is an estimate."""
    notes: tuple[str, ...] = ()

    def models(self, metric: str) -> dict[str, float]:
        """Scores of all agents except the baseline, highest first."""
        found = {a: s.score for a, s in self.metrics[metric].items() if a != HUMAN and s.score is not None}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def human(self, metric: str) -> BoardScore | None:
        """The baseline; None if it has no score."""
        found = self.metrics[metric].get(HUMAN)
        return None if found is None or found.score is None else found

    def told(self, metric: str) -> str:
        """What identifies its scores under a metric: the signature, or a name with a hash."""
        if metric in self.signatures:
            return self.signatures[metric]
        if self.name in PUBLISHED:
            return f"published:{PUBLISHED[self.name][0].partition('_')[0]}"
        return f"{self.name}-{evidence_hash((agent, one.score) for agent, one in self.metrics[metric].items())}"

    def table(self) -> ReportTable:
        """One row per agent with all metrics, sorted by the first."""
        columns = [Column("agent", "agent"), Column("family", "family"), Column("parameters", "size", "large")]
        known = {a.agent: {"agent": a.agent, "family": a.family, "parameters": a.parameters} for a in self.agents}
        rows: dict[str, dict[str, Any]] = {}
        for metric, scores in self.metrics.items():
            columns.append(Column(metric, metric, "number", "missing", 2))
            if any(score.low is not None for score in scores.values()):
                interval = f"{(self.level or 0) * 100:g}%"
                columns.append(Column(f"{metric}_low {metric}_high", interval, "interval", decimals=2))
            for name, score in sorted(scores.items(), key=lambda one: (one[1].score is None, -(one[1].score or 0.0))):
                row = rows.setdefault(name, known[name])
                row |= {metric: score.score, f"{metric}_low": score.low, f"{metric}_high": score.high}
        guessed = [f"estimated sizes: {', '.join(self.estimated_sizes)}"] if self.estimated_sizes else []
        signature = " || ".join(self.signatures.values())
        notes = (*self.notes, *guessed)
        return ReportTable(self.name, tuple(columns), tuple((rows | known).values()), signature, notes)


def read_board(source: str | Path) -> Board:
    """The board of a run folder, an edition's folder, a CSV file, or ``published:70b`` and ``published:8b``."""
    name, path = str(source), Path(source)
    if name in PUBLISHED:
        file, note = PUBLISHED[name]
        return table_board(PUBLISHED_FOLDER / file, name=name, notes=(note,))
    if path.is_dir():
        return _run_board(path / RUN if is_edition(path) else path, path.resolve().name)
    if path.is_file() and path.suffix.lower() == ".csv":
        return table_board(path, name=path.stem)
    if name.startswith("published:"):
        raise UserError(f"unknown board {name!r}{nearest(name, PUBLISHED) or '.'} {ALLOWED}")
    raise UserError(f"{source}: {'not a .csv file' if path.exists() else 'no such file or folder'}. {ALLOWED}")


def _run_board(folder: Path, name: str) -> Board:
    run = RunFolder(folder)
    if run.required("leaderboard") is None:
        raise UserError(f"{folder}: no results (leaderboard.json). {ALLOWED}. Score an edition with goldless gre score")
    metrics = {
        metric: {r.agent: BoardScore(r.score, r.low, r.high, r.n) for r in board.rows if not is_reference(r.agent)}
        for metric, board in run.boards.items()
    }
    if not any(metrics.values()):
        raise UserError(f"{folder}: no agent has a score. Score the study with a metric that scores responses")
    result, notes = read_result(run), []
    if result is not None and not isinstance(result, EditionResult):
        raise UserError(f"{folder}: {result}")
    if result is not None and result.demonstration is not None:
        notes.append(result.demonstration.removesuffix("."))
    if run.leaderboard is not None and not run.leaderboard.complete:
        notes.append("the run is incomplete; run it again to collect what is missing")
    notes += [note.removesuffix(".") for note in uneven_notes(run.boards)]
    listed = {agent.agent: agent for agent in run.agent_notes}
    names = dict.fromkeys([*listed, *(agent for scores in metrics.values() for agent in scores)])
    return Board(
        name,
        metrics,
        tuple(listed.get(name) or Agent(name) for name in names if not is_reference(name)),
        max(board.level for board in run.boards.values()),
        {metric: board.signature for metric, board in run.boards.items()},
        notes=tuple(notes),
    )


def table_board(
    path: Path, *, name: str, notes: Iterable[str] = (), about: Sequence[str] = ABOUT_AGENTS, what: str = "metric"
) -> Board:
    """The board in a table ``agent, METRIC…[, parameters, size_estimated, family, group, cutoff_date]``.

    ``about``: the columns that are not scores. ``what``: name of the others in messages.
    """
    agents: dict[str, Agent] = {}
    metrics: dict[str, dict[str, BoardScore]] = {}
    estimated = []
    with all_at_once(str(path)) as problems:
        check = CheckedTable(path, problems)
        for line, row in check.lines(f"The table needs one row per agent: agent, then one column per {what}"):
            columns = [column for column in row if column not in about]
            if not metrics and not columns:
                check.add(f"no {what} among the columns ({', '.join(row)}). Add one column per {what}", 1)
            if not metrics and "" in row:
                check.add("a column has no name in the header", 1)
            filled = [column for column in columns if not (is_empty(row[column]) or str(row[column]).isspace())]
            scores = {column: check.number(row, column, line) for column in filled}
            for column in columns:
                metrics.setdefault(column, {})
            agent_name, agent = checked_agent(row, line, check)
            if agent_name is None or not check.names(row, line, "agent") or is_reference(agent_name):
                continue
            agents[agent_name] = agent
            estimated += [agent_name] * (str(row.get("size_estimated")).lower() in {"yes", "true", "1"})
            for metric, score in scores.items():
                metrics[metric][agent_name] = BoardScore(score)
    if not agents:
        raise UserError(f"{path}: only references, which are not ranked. Add the agents' scores")
    return Board(name, metrics, tuple(agents.values()), estimated_sizes=tuple(estimated), notes=tuple(notes))
