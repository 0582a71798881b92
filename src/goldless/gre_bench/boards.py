"""Boards: agents' scores under one or more metrics, from a run, a year's edition, the GEM paper's tables or a CSV."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from goldless.errors import UserError, nearest
from goldless.gre_bench.board_csv import read_board_rows
from goldless.gre_bench.papers import HUMAN, is_reference
from goldless.records import Agent
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.studies.agent_table import read_agents
from goldless.studies.checking import all_at_once
from goldless.studies.tables import Source

EDITION = "edition.toml"
"""What a year's edition is told by."""
RUN = "run"
"""Where an edition keeps its results."""
PUBLISHED_FOLDER = Path(__file__).parent / "published"
PUBLISHED = {
    "published:70b": ("table6_llama31_70b.csv", "Table 6 of the GEM paper, scorer Llama 3.1 70B"),
    "published:8b": ("table7_llama31_8b.csv", "Table 7 of the GEM paper, scorer Llama 3.1 8B"),
}
ALLOWED = (
    f"a board is a run folder (goldless score … --out FOLDER), the folder of an edition (with {EDITION}), a .csv file "
    f"with agent and a column for each metric, or one of {', '.join(PUBLISHED)}"
)


@dataclass(frozen=True, slots=True)
class BoardScore:
    """One agent under one metric."""

    score: float | None
    """None: missing."""
    low: float | None = None
    """None: no interval is known."""
    high: float | None = None
    n: int | None = None
    """Tasks the score rests on; None: not known."""


@dataclass(frozen=True, slots=True)
class Board:
    """Agents' scores under each metric. References do not stand on it; ``human`` is the baseline."""

    name: str
    metrics: Mapping[str, Mapping[str, BoardScore]]
    """By metric, then by agent."""
    agents: Mapping[str, Agent]
    level: float | None = None
    """Of the intervals; None: there are none."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """How the scores were made, by metric; absent where it is not known."""
    estimated_sizes: frozenset[str] = frozenset()
    """Agents whose number of parameters is an estimate."""
    notes: tuple[str, ...] = ()

    def models(self, metric: str) -> dict[str, float]:
        """Scores of all agents that have one, but for the baseline; highest first."""
        found = {a: s.score for a, s in self.metrics[metric].items() if a != HUMAN and s.score is not None}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def human(self, metric: str) -> BoardScore | None:
        """The baseline; None: there is none, or it has no score."""
        found = self.metrics[metric].get(HUMAN)
        return None if found is None or found.score is None else found

    def missing(self, metric: str) -> tuple[str, ...]:
        """Agents on the board that have no score under this metric."""
        given = self.metrics[metric]
        return tuple(a for a in self.agents if a not in given or given[a].score is None)

    def table(self) -> ReportTable:
        """One row an agent, by its score under the first metric; the metrics beside each other."""
        columns = [Column("agent", "agent", least=8), Column("family", "family"), Column("parameters", "size", "large")]
        rows: dict[str, dict[str, Cell]] = {}
        for metric, scores in self.metrics.items():
            columns.append(Column(metric, metric, "number", "missing", 2))
            if any(score.low is not None for score in scores.values()):
                interval = f"{(self.level or 0) * 100:g}%"
                columns.append(Column(f"{metric}_low {metric}_high", interval, "interval", decimals=2))
            for name, score in sorted(scores.items(), key=lambda one: (one[1].score is None, -(one[1].score or 0.0))):
                row = rows.setdefault(name, self._known(name))
                row |= {metric: score.score, f"{metric}_low": score.low, f"{metric}_high": score.high}
        rows |= {name: self._known(name) for name in self.agents if name not in rows}
        notes = list(self.notes)
        if self.estimated_sizes:
            notes.append(f"sizes that are estimates: {', '.join(a for a in self.agents if a in self.estimated_sizes)}")
        signature = " || ".join(self.signatures.values())
        return ReportTable(self.name, tuple(columns), tuple(rows.values()), signature, tuple(notes))

    def _known(self, name: str) -> dict[str, Cell]:
        agent = self.agents[name]
        return {"agent": name, "family": agent.family, "parameters": agent.parameters}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "name": self.name,
            "level": self.level,
            "metrics": {m: {a: asdict(score) for a, score in scores.items()} for m, scores in self.metrics.items()},
            "agents": [asdict(agent) for agent in self.agents.values()],
            "estimated_sizes": sorted(self.estimated_sizes),
            "signatures": dict(self.signatures),
            "notes": list(self.notes),
        }


def read_board(source: str | Path) -> Board:
    """The board of a run folder, an edition's folder, a CSV file, or ``published:70b`` and ``published:8b``."""
    name = str(source)
    if name in PUBLISHED:
        file, told = PUBLISHED[name]
        return _csv_board(PUBLISHED_FOLDER / file, name=name, notes=(told,))
    if name.startswith("published:"):
        raise UserError(f"{name!r} was not published{nearest(name, PUBLISHED)}; {ALLOWED}")
    path = Path(source)
    if path.is_dir():
        return _edition_board(path) if (path / EDITION).is_file() else _run_board(path, name=path.resolve().name)
    if path.is_file() and path.suffix.lower() == ".csv":
        return _csv_board(path, name=path.stem)
    came = "no such file or folder" if not path.exists() else f"a file that ends in {path.suffix or 'nothing'!r}"
    raise UserError(f"{source}: {came}; {ALLOWED}")


def board_metric(board: Board, metric: str) -> Mapping[str, BoardScore]:
    """The scores under one metric; an error that names those there are, where it is none of them."""
    if metric not in board.metrics:
        known = ", ".join(board.metrics)
        raise UserError(f"{board.name} has no metric {metric!r}{nearest(metric, board.metrics)}; it has {known}")
    return board.metrics[metric]


# --- from a run ----------------------------------------------------------------------------------------------------


def _edition_board(folder: Path) -> Board:
    if not (folder / RUN / "leaderboard.json").is_file():
        raise UserError(f"{folder}: an edition without results ({RUN}/leaderboard.json is not there); score it first")
    return _run_board(folder / RUN, name=folder.resolve().name)


def _run_board(folder: Path, *, name: str) -> Board:
    file = folder / "leaderboard.json"
    if not file.is_file():
        raise UserError(f"{folder}: a folder without {file.name} and without {EDITION}; {ALLOWED}")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        # what is computed from labels has raters and no rows of agents
        boards = {str(m): b for m, b in found["metrics"].items() if "rows" in b}
        metrics = {metric: _rows(board["rows"]) for metric, board in boards.items()}
        levels = {float(board["level"]) for board in boards.values()}
        signatures = {metric: str(board["signature"]) for metric, board in boards.items()}
        complete = bool(found.get("complete", True))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file}: cannot be read as a leaderboard ({error!r}); score the study again") from error
    if not any(metrics.values()):
        raise UserError(f"{file}: holds no agent with a place on a board; score the study by a metric of responses")
    agents = _agents(folder, metrics)
    notes = [] if complete else ["the run is incomplete: run it again to ask for what is missing"]
    notes += _uneven(metrics)
    return Board(name, metrics, agents, max(levels), signatures, notes=(*_demonstration(folder), *notes))


def _uneven(metrics: Mapping[str, Mapping[str, BoardScore]]) -> list[str]:
    """A sentence for the metrics under which agents stand on different numbers of papers."""
    alike: dict[str, list[str]] = {}
    for metric, scores in metrics.items():
        counts = {agent: score.n for agent, score in scores.items() if score.score is not None}
        most = max((n for n in counts.values() if n is not None), default=0)
        fewer = [f"{agent} {n}" for agent, n in counts.items() if n is not None and n < most]
        if fewer:
            alike.setdefault(f"{', '.join(fewer)}, the others {most}", []).append(metric)
    return [
        f"{', '.join(names)}: agents stand on different papers ({told}), so their scores and distances to the human "
        "baseline are not of the same papers; the differences that goldless gre score prints are"
        for told, names in alike.items()
    ]


def _demonstration(folder: Path) -> list[str]:
    """That the numbers of an edition are invented, in the words of its results."""
    file = folder / "gre.json"
    if not file.is_file():
        return []
    try:
        told = json.loads(file.read_text(encoding="utf-8")).get("demonstration")
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{file}: cannot be read as an edition's results ({error!r}); score it again") from error
    return [] if told is None else [str(told).removesuffix(".")]


def _rows(rows: list[dict[str, Any]]) -> dict[str, BoardScore]:
    numbers = ((str(row["agent"]), row["score"], row["low"], row["high"], row["n"]) for row in rows)
    return {
        agent: BoardScore(_number(score), _number(low), _number(high), int(n))
        for agent, score, low, high, n in numbers
        if not is_reference(agent)
    }


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} stands where a number is needed")
    return float(value)


def _agents(folder: Path, metrics: Mapping[str, Mapping[str, BoardScore]]) -> dict[str, Agent]:
    """All agents of the board with what is known of them."""
    listed: dict[str, Agent] = {}
    file = folder / "agents.jsonl"
    if file.is_file():
        with all_at_once(str(folder)) as problems:
            listed = {agent.agent: agent for agent in read_agents(Source(file, file.name), problems).records()}
    names = dict.fromkeys([*listed, *(agent for scores in metrics.values() for agent in scores)])
    return {name: listed.get(name) or Agent(name) for name in names if not is_reference(name)}


# --- from a table --------------------------------------------------------------------------------------------------


def _csv_board(path: Path, *, name: str, notes: tuple[str, ...] = ()) -> Board:
    rows = [row for row in read_board_rows(path) if not is_reference(row.agent.agent)]
    if not rows:
        raise UserError(f"{path}: holds references only, which do not stand on a board; give the agents' scores")
    metrics = {
        metric: {row.agent.agent: BoardScore(row.scores[metric]) for row in rows if row.scores[metric] is not None}
        for metric in rows[0].scores
    }
    return Board(
        name,
        metrics,
        {row.agent.agent: row.agent for row in rows},
        estimated_sizes=frozenset(row.agent.agent for row in rows if row.size_estimated),
        notes=notes,
    )
