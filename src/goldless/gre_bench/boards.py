"""Boards: agents' scores under one or more metrics, from a run, a year's edition, the GEM paper's tables or a CSV.

A result made of a board names it by the board's own signature under that metric. A table that was published, or a CSV
file, has none: it is named by what it is and by a hash of its scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from goldless.errors import UserError, nearest
from goldless.gre_bench.edition import CONFIG, RUN, is_edition
from goldless.gre_bench.papers import HUMAN, is_reference
from goldless.records import Agent
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.studies.checking import Checking, Problems, Row, all_at_once, is_empty
from goldless.studies.frames import checked_agent, read_agents
from goldless.studies.tables import Source

ABOUT_AGENTS = ("agent", "group", "family", "parameters", "size_estimated", "cutoff_date", "published_as")
"""Columns that are not scores."""
SAID = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One agent of a CSV file."""

    agent: Agent
    scores: Mapping[str, float | None]
    """By metric; None: empty cell."""
    size_estimated: bool = False
    """Whether its number of parameters is an estimate."""


def read_rows(path: Path, *, about: Sequence[str] = ABOUT_AGENTS, what: str = "metric") -> list[BoardRow]:
    """The rows of ``agent, METRIC…[, parameters, size_estimated, family, group, cutoff_date]``, at least one.

    ``about``: the columns that are not scores. ``what``: name of the others in messages.
    """
    rows: list[BoardRow] = []
    with all_at_once(str(path)) as problems:
        check = Checking(path.name, problems)
        first: dict[str, int] = {}
        for line, row in _lines(path, problems):
            check.rows += 1
            columns = [column for column in row if column not in about]
            if check.rows == 1:
                _check_header(row, columns, check, what)
            found = _row(row, columns, line, check, about)
            if found is None:
                continue
            if (there := first.setdefault(found.agent.agent, line)) != line:
                check.duplicate(f"agent {found.agent.agent!r} is listed twice; first on line {there}", line)
            rows.append(found)
        check.finish()
        if not check.rows and not check.broken:
            check.add(f"no rows. The table needs one row per agent: agent, then one column per {what}")
    return rows


def _lines(path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
    for chunk in Source(path, path.name).chunks(problems):
        yield from zip(chunk.lines, chunk.rows, strict=True)


def _check_header(row: Row, columns: Sequence[str], check: Checking, what: str) -> None:
    if any(not column.strip() for column in row):
        check.add("a column has no name in the header", 1)
    if not columns:
        check.add(f"no {what} among the columns ({', '.join(row)}). Add one column per {what}", 1)


def _row(row: Row, columns: Sequence[str], line: int, check: Checking, about: Sequence[str]) -> BoardRow | None:
    scores = {column: _score(row, column, line, check) for column in columns}
    if "parameters" not in about:
        name = check.name(row, "agent", line)
        return None if name is None else BoardRow(Agent(name), scores)
    name, agent = checked_agent(row, line, check)
    said = str(row.get("size_estimated") or "").strip().lower()
    if said not in SAID:
        check.add(f"size_estimated must be yes or no, got {said!r}", line)
    return None if name is None else BoardRow(agent, scores, SAID.get(said, False))


def _score(row: Row, column: str, line: int, check: Checking) -> float | None:
    value = row.get(column)
    return None if is_empty(value) or str(value).isspace() else check.number(row, column, line)


class AsJson:
    """A result that can be written as plain data."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return to_jsonable_python(self)  # type: ignore[no-any-return]


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
    agents: Mapping[str, Agent]
    level: float | None = None
    """Confidence level of the intervals; None: no intervals."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Signatures by metric, if known."""
    estimated_sizes: frozenset[str] = frozenset()
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
            notes.append(f"estimated sizes: {', '.join(a for a in self.agents if a in self.estimated_sizes)}")
        signature = " || ".join(self.signatures.values())
        return ReportTable(self.name, tuple(columns), tuple(rows.values()), signature, tuple(notes))

    def _known(self, name: str) -> dict[str, Cell]:
        agent = self.agents[name]
        return {"agent": name, "family": agent.family, "parameters": agent.parameters}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        others = {"agents": list(self.agents.values()), "estimated_sizes": sorted(self.estimated_sizes)}
        plain = {one.name: getattr(self, one.name) for one in fields(self)} | others
        return to_jsonable_python(plain)  # type: ignore[no-any-return]


def read_board(source: str | Path) -> Board:
    """The board of a run folder, an edition's folder, a CSV file, or ``published:70b`` and ``published:8b``."""
    name = str(source)
    if name in PUBLISHED:
        file, note = PUBLISHED[name]
        return table_board(PUBLISHED_FOLDER / file, name=name, notes=(note,))
    if name.startswith("published:"):
        raise UserError(f"unknown board {name!r}{nearest(name, PUBLISHED) or '.'} {ALLOWED}")
    path = Path(source)
    if path.is_dir():
        return _edition_board(path) if is_edition(path) else _run_board(path, name=path.resolve().name)
    if path.is_file() and path.suffix.lower() == ".csv":
        return table_board(path, name=path.stem)
    problem = "no such file or folder" if not path.exists() else "not a .csv file"
    raise UserError(f"{source}: {problem}. {ALLOWED}")


# --- from a run ----------------------------------------------------------------------------------------------------


def _edition_board(folder: Path) -> Board:
    if not (folder / RUN / "leaderboard.json").is_file():
        raise UserError(
            f"{folder}: the edition has no results (no {RUN}/leaderboard.json). Score it first with goldless gre score"
        )
    return _run_board(folder / RUN, name=folder.resolve().name)


def _run_board(folder: Path, *, name: str) -> Board:
    file = folder / "leaderboard.json"
    if not file.is_file():
        raise UserError(f"{folder}: the folder has neither {file.name} nor {CONFIG}. {ALLOWED}")
    run = RunFolder(folder)
    run.required("leaderboard")
    run.required("gre")
    metrics = {
        metric: {
            row.agent: BoardScore(row.score, row.low, row.high, row.n)
            for row in board.rows
            if not is_reference(row.agent)
        }
        for metric, board in run.boards.items()
    }
    if not any(metrics.values()):
        raise UserError(f"{file}: no agent has a score. Score the study with a metric that scores responses")
    notes = [] if run.gre is None or run.gre.demonstration is None else [run.gre.demonstration.removesuffix(".")]
    if run.leaderboard is not None and not run.leaderboard.complete:
        notes.append("the run is incomplete; run it again to collect what is missing")
    return Board(
        name,
        metrics,
        _agents(folder, metrics),
        max(board.level for board in run.boards.values()),
        {metric: board.signature for metric, board in run.boards.items()},
        notes=(*notes, *_uneven(metrics)),
    )


def _uneven(metrics: Mapping[str, Mapping[str, BoardScore]]) -> list[str]:
    """A sentence about the metrics where agents have scores on different numbers of papers."""
    alike: dict[str, list[str]] = {}
    for metric, scores in metrics.items():
        counts = {agent: score.n for agent, score in scores.items() if score.score is not None}
        most = max((n for n in counts.values() if n is not None), default=0)
        fewer = [f"{agent} {n}" for agent, n in counts.items() if n is not None and n < most]
        if fewer:
            alike.setdefault(f"{', '.join(fewer)}, the others {most}", []).append(metric)
    return [
        f"{', '.join(names)}: agents have scores on different papers ({counts}), so scores and distances to the human "
        "baseline are not comparable; the differences printed by goldless gre score use the same papers"
        for counts, names in alike.items()
    ]


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


def table_board(path: Path, *, name: str, notes: tuple[str, ...] = (), **columns: Any) -> Board:
    """The board in a CSV file; ``columns``: which are scores and what they are called, for ``read_rows``."""
    rows = [row for row in read_rows(path, **columns) if not is_reference(row.agent.agent)]
    if not rows:
        raise UserError(f"{path}: only references, which are not ranked. Add the agents' scores")
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


def changed_signature(
    metric: str, line: str | None, settings: Mapping[str, str], *, without: Collection[str] = ()
) -> str:
    """A metric's signature with changed, added or removed settings; None if it has no signature."""
    before = Signature.parse(line or "").settings
    known = {key: told for key, told in before.items() if key not in {"goldless", *without}}
    return str(Signature(metric, {**known, **settings}))
