"""The contamination clock: which papers a model cannot have seen, and the leaderboard on those papers only.

A paper is clean for a model if it became public after the model's knowledge cutoff. If only a month or year is known,
the cutoff is its last day and the paper's date its first day, so that nothing is called clean by a guess. A model
without a cutoff is unknown, never clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Literal, Unpack

import numpy as np
import polars as pl

from goldless.apps.gre.papers import HUMAN, is_person
from goldless.arrays import BoolArray, FloatArray
from goldless.dates import first_day, last_day
from goldless.errors import UserError
from goldless.records import Agent
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws, interval_name, task_intervals
from goldless.studies import Study
from goldless.studies.checking import is_empty

Scope = Literal["own", "common", "all"]
"""Which papers: those clean for the agent, those clean for all agents with a cutoff, or all papers."""
PUBLIC_DATE = "public_date"
"""The column of the tasks table."""
OWN = (
    "Each agent is scored on the papers that are clean for it. The papers differ between agents, so compare the "
    "differences from the human baseline, which use the same papers, not the scores."
)
ALL = (
    "Each agent is scored on all papers, clean or not, that it has a score for. If scores are missing, the papers "
    "differ between agents, so compare the differences from the human baseline, which use the same papers, not the "
    "scores."
)
MISSING = "Some agents lack scores on some of these papers; for them, compare the difference from human."
STATED = "Cutoffs are those stated by the makers; a month or year counts as its last day, for a paper as its first day."


@dataclass(frozen=True, slots=True)
class AgentClock:
    """Number of papers that one agent cannot have seen."""

    agent: str
    cutoff_date: str | None
    """None: unknown."""
    dated: int
    """Papers with a date."""
    undated: int
    """Papers without one: neither clean nor seen."""
    clean: int | None
    """Dated papers that became public after the cutoff; None: unknown cutoff."""
    share: float | None
    """Share of dated papers that are clean; None: unknown cutoff, or no paper has a date."""


@dataclass(frozen=True, slots=True)
class CleanScore:
    """One agent under one metric on clean papers, or, in the scope ``all``, on all of them."""

    metric: str
    scope: Scope
    agent: str
    rank: int | None
    """Rank by score among the agents except the human baseline; only in the scope ``common``, with equal papers."""
    score: float | None
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    n: int
    """Papers of the scope with a score."""
    missing: int
    """Papers of the scope without one."""
    difference: float | None
    """Score minus that of the human baseline on the same papers; None: no paper has both."""
    difference_low: float | None
    difference_high: float | None
    n_pairs: int
    """Papers of the scope with both scores."""
    all_score: float | None
    """On all papers, clean or not."""
    all_n: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """Cutoffs of agents and dates of papers, and scores on clean papers."""

    agents: tuple[AgentClock, ...]
    unknown: tuple[str, ...]
    """Agents without a cutoff, which are not on leaderboards of clean papers."""
    papers: int
    undated: tuple[str, ...]
    common: tuple[str, ...]
    """Papers that are clean for all agents with a cutoff."""
    scores: tuple[CleanScore, ...]
    level: float
    signatures: Mapping[str, str]
    """Signatures of the scores on all papers, by metric."""
    scope_signatures: Mapping[str, Mapping[Scope, str]]
    """Signatures of the leaderboards, including the papers: by metric, then by scope."""

    KEYS = ("*", "notes")

    def rows(self, metric: str, scope: Scope) -> list[CleanScore]:
        """The leaderboard of a metric on the papers of a scope."""
        return [row for row in self.scores if (row.metric, row.scope) == (metric, scope)]

    def signature(self, metric: str, scope: Scope) -> str:
        """The signature of a leaderboard; empty: it has none, as in a file that was changed."""
        return self.scope_signatures.get(metric, {}).get(scope, "")

    def tables(self) -> list[ReportTable]:
        """The leaderboards on all papers, the agents with their cutoffs, and the leaderboards on clean papers."""
        metrics = list(dict.fromkeys(row.metric for row in self.scores))
        columns = (
            Column("agent", "agent"),
            Column("cutoff_date", "cut-off", absent="unknown"),
            Column("clean", "papers after cutoff", "count", "unknown"),
            Column("dated", "dated", "count"),
            Column("share", "share", "number", "unknown", 2),
            Column("undated", "undated", "count"),
        )
        title = "Papers published after each agent's cutoff"
        clean: list[Scope] = ["common", "own"]
        return [
            *(self._leaderboard(metric, "all") for metric in metrics),
            ReportTable(title, columns, tuple(map(asdict, self.agents)), notes=self.notes),
            *(self._leaderboard(m, scope) for m in metrics for scope in clean if self.rows(m, scope)),
        ]

    def _leaderboard(self, metric: str, scope: Scope) -> ReportTable:
        rows = self.rows(metric, scope)
        interval = f"{self.level * 100:g}%"
        everywhere = (
            Column("all_score", "all papers", "number", decimals=2, wide=True),
            Column("all_n", "n", "count", wide=True),
        )
        columns = (
            *[Column("rank", "#", "count")] * (scope == "common"),
            Column("agent", "agent"),
            Column("score", "score", "number", "missing", 2),
            Column("low high", interval, "interval", decimals=2),
            Column("difference", "minus human", "signed", decimals=2),
            Column("difference_low difference_high", interval, "signed interval", decimals=2),
            Column("n papers", "papers", "fraction"),
            Column("n_pairs", "shared with human", "count", wide=True),
            *(everywhere if scope != "all" else ()),
            Column("note", "note", wide=True),
        )
        papers, notes = {
            "own": ("each agent's clean papers", (OWN,)),
            "common": (f"the {len(self.common)} papers clean for all", (MISSING,) * any(row.missing for row in rows)),
            "all": (f"all {self.papers} papers", (ALL,)),
        }[scope]
        cells = tuple({**asdict(row), "papers": row.n + row.missing} for row in rows)
        return ReportTable(f"{metric} on {papers}", columns, cells, self.signature(metric, scope), notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read the dates, and whose or which are not known."""
        notes = [STATED]
        if self.unknown:
            notes.append(f"{len(self.unknown)} without a cutoff, not counted as clean: {', '.join(self.unknown)}.")
        if self.undated:
            lacking = f"{len(self.undated)} of {self.papers} papers"
            notes.append(f"{lacking} have no date and are not used for clean leaderboards.")
        if len(self.unknown) == len(self.agents):
            notes.append("No agent has a cutoff, so there is no leaderboard of clean papers.")
        elif not self.common:
            fewest = min((one.clean for one in self.agents if one.clean is not None), default=None)
            who = ", ".join(f"{one.agent} ({one.cutoff_date})" for one in self.agents if one.clean == fewest)
            notes.append(
                "No paper became public after the cutoffs of all agents, so there is no common leaderboard. "
                f"Agents with the fewest papers after their cutoff: {who}."
            )
        return tuple(notes)


def contamination_clock(
    agents: Sequence[Agent],
    paper_dates: Mapping[str, str | None],
    scores: Mapping[str, pl.DataFrame],
    *,
    signatures: Mapping[str, str],
    **draws: Unpack[Draws],
) -> Clock:
    """The clock of all agents except references; ``human`` is the baseline and has no cutoff.

    ``paper_dates``: of every paper by task, None where it is not known. ``scores``: of responses (task, agent, score),
    by metric. Dates are YYYY-MM-DD, YYYY-MM or YYYY.
    """
    models = {agent.agent: agent.cutoff_date for agent in agents if not is_person(agent.agent)}
    cutoffs = {name: _day(last_day, given, f"cutoff_date of agent {name!r}") for name, given in models.items()}
    dates = {task: _day(first_day, given, f"public_date of task {task!r}") for task, given in paper_dates.items()}
    dated = {task: day for task, day in dates.items() if day is not None}
    known = {agent: cutoff for agent, cutoff in cutoffs.items() if cutoff is not None}
    clean = {agent: tuple(task for task, day in dated.items() if day > cutoff) for agent, cutoff in known.items()}
    latest = max(known.values(), default=date.max)
    common = tuple(task for task, day in dated.items() if day > latest)
    papers: dict[Scope, str] = {
        "own": f"clean-own-{evidence_hash((agent, *sorted(tasks)) for agent, tasks in clean.items())}",
        "common": f"clean-common-{len(common)}-{evidence_hash((task,) for task in common)}",
        "all": f"all-{len(dates)}",
    }
    level = draws["level"]
    drawn = {"interval": interval_name(level, tails=True)} | {key: str(draws[key]) for key in ("resamples", "seed")}
    rows: list[CleanScore] = []
    for metric, frame in scores.items():
        scored = {(task, agent): score for task, agent, score in frame.select("task", "agent", "score").iter_rows()}
        values = {
            agent: np.array([scored.get((task, agent)) for task in dates], dtype=np.float64)
            for agent in (*models, HUMAN)
        }
        people = [HUMAN] if models and not np.isnan(values[HUMAN]).all() else []
        scopes: dict[Scope, Mapping[str, tuple[str, ...]]] = {
            "own": clean,
            "common": dict.fromkeys([*clean, *people], common) if common else {},
            "all": dict.fromkeys([*models, *people], tuple(dates)),
        }
        for scope, tasks in scopes.items():
            found = [
                _clean_score((metric, scope, agent), values, np.isin(list(dates), its), draws)
                for agent, its in tasks.items()
            ]
            rows += (
                _ranked(found)
                if scope == "common"
                else sorted(found, key=lambda row: (row.difference is None, -(row.difference or 0), -(row.score or 0)))
            )
    return Clock(
        agents=tuple(
            AgentClock(
                name,
                cutoff,
                len(dated),
                len(dates) - len(dated),
                len(clean[name]) if name in clean else None,
                len(clean[name]) / len(dated) if name in clean and dated else None,
            )
            for name, cutoff in models.items()
        ),
        unknown=tuple(agent for agent in cutoffs if agent not in known),
        papers=len(dates),
        undated=tuple(task for task in dates if task not in dated),
        common=common,
        scores=tuple(rows),
        level=level,
        signatures=dict(signatures),
        scope_signatures={
            metric: {scope: _signature(signatures[metric], metric, drawn, told) for scope, told in papers.items()}
            for metric in scores
        },
    )


def _day(read: Callable[[str], date | None], given: str | None, whose: str) -> date | None:
    found = read(given) if given else None
    if given and found is None:
        raise UserError(f"{whose} must look like 2023-09-30, 2023-09 or 2023, or be empty, got {given!r}")
    return found


def _signature(line: str, metric: str, drawn: Mapping[str, str], papers: str) -> str:
    """The signature of the scores, with other draws and papers, and without a test."""
    known = {key: told for key, told in Signature.parse(line).settings.items() if key not in {"goldless", "test"}}
    return str(Signature(metric, {**known, **drawn, "papers": papers}))


def public_dates(study: Study) -> dict[str, str | None]:
    """The date of every paper by task, from the column ``public_date`` of the tasks; None if it has none."""
    found = {task: study.task(task).extra.get(PUBLIC_DATE) for task in study.tasks}
    # a datetime is a date, too, and its time says nothing here
    return {
        task: None if is_empty(value) else f"{value:%Y-%m-%d}" if isinstance(value, date) else str(value)
        for task, value in found.items()
    }


def _clean_score(
    whose: tuple[str, Scope, str], values: Mapping[str, FloatArray], kept: BoolArray, draws: Draws
) -> CleanScore:
    """The score of an agent, by metric, scope and name, on the papers that are kept."""
    mine, agent = values[whose[-1]], whose[-1]
    pairs = mine - values[HUMAN] if agent != HUMAN else np.full_like(mine, np.nan)
    score, difference = task_intervals(np.stack([mine[kept], pairs[kept]], axis=1), tails=True, **draws)
    everywhere = mine[~np.isnan(mine)]
    return CleanScore(
        *whose,
        rank=None,
        score=score.value,
        low=score.low,
        high=score.high,
        n=score.n,
        missing=int(kept.sum()) - score.n,
        difference=difference.value,
        difference_low=difference.low,
        difference_high=difference.high,
        n_pairs=difference.n,
        all_score=float(everywhere.mean()) if len(everywhere) else None,
        all_n=len(everywhere),
        note=score.note if kept.any() else "no clean paper",
    )


def _ranked(rows: Sequence[CleanScore]) -> Iterator[CleanScore]:
    """By score, highest first; the baseline has no rank, and equal scores share the better rank."""
    scores = [row.score for row in rows if row.agent != HUMAN and row.score is not None]
    for row in sorted(rows, key=lambda row: (row.score is None, -(row.score or 0), row.difference is None)):
        score = None if row.agent == HUMAN else row.score
        yield replace(row, rank=None if score is None else 1 + sum(other > score for other in scores))
