"""The contamination clock: which papers a model cannot have seen, and the leaderboard on those papers only.

A paper is clean for a model if it became public after the model's knowledge cutoff. If only a month or year is known,
the cutoff is its last day and the paper's date its first day, so that nothing is called clean by a guess. A model
without a cutoff is unknown, never clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Literal, Unpack

import numpy as np
import polars as pl

from goldless.apps.gre.estimates import estimate_cells, estimate_columns
from goldless.apps.gre.papers import HUMAN, is_person
from goldless.dates import first_day, last_day
from goldless.errors import UserError
from goldless.records import Agent
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws, Estimate, interval_name, task_intervals
from goldless.studies import Study
from goldless.studies.checking import is_empty

Scope = Literal["own", "common", "all"]
"""Which papers: those clean for the agent, those clean for all agents with a cutoff, or all papers."""
PUBLIC_DATE = "public_date"
"""The column of the tasks table."""
DIFFER = "so compare the differences from the human baseline, which use the same papers, not the scores."
NOTES: Mapping[Scope, str] = {
    "own": f"Each agent is scored on the papers that are clean for it. The papers differ between agents, {DIFFER}",
    "common": "Some agents lack scores on some of these papers; for them, compare the difference from human.",
    "all": (
        "Each agent is scored on all papers, clean or not, that it has a score for. If scores are missing, the papers "
        f"differ between agents, {DIFFER}"
    ),
}
STATED = "Cutoffs are those stated by the makers; a month or year counts as its last day, for a paper as its first day."


@dataclass(frozen=True, slots=True)
class AgentClock:
    """Number of papers that one agent cannot have seen."""

    agent: str
    cutoff_date: str | None
    """None: unknown."""
    clean: int | None
    """Dated papers that became public after the cutoff; None: unknown cutoff."""


@dataclass(frozen=True, slots=True)
class CleanScore:
    """One agent under one metric on clean papers, or, in the scope ``all``, on all of them."""

    metric: str
    scope: Scope
    agent: str
    score: Estimate
    """On the papers of the scope."""
    difference: Estimate
    """Score minus that of the human baseline on the same papers."""
    missing: int
    """Papers of the scope without a score."""
    rank: int | None = None
    """By score among the agents except the human baseline; only in the scope ``common``, with equal papers."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Cutoffs of agents and dates of papers, and scores on clean papers."""

    agents: tuple[AgentClock, ...]
    papers: int
    undated: tuple[str, ...]
    """Papers without a date: neither clean nor seen."""
    common: tuple[str, ...]
    """Papers that are clean for all agents with a cutoff."""
    level: float
    leaderboards: tuple[CleanScore, ...] = ()
    scope_signatures: Mapping[str, Mapping[Scope, str]] = field(default_factory=dict)
    """Signatures of the leaderboards, including the papers: by metric, then by scope."""

    def rows(self, metric: str, scope: Scope) -> list[CleanScore]:
        """The leaderboard of a metric on the papers of a scope."""
        return [row for row in self.leaderboards if (row.metric, row.scope) == (metric, scope)]

    def tables(self) -> list[ReportTable]:
        """The leaderboards on all papers, the agents with their cutoffs, and the leaderboards on clean papers."""
        columns = (
            Column("agent", "agent"),
            Column("cutoff_date", "cut-off", absent="unknown"),
            Column("clean dated", "papers after cutoff", "fraction", "unknown"),
        )
        rows = tuple({**asdict(one), "dated": self.papers - len(self.undated)} for one in self.agents)
        boards = list(dict.fromkeys((row.metric, row.scope) for row in self.leaderboards))
        return [
            *(self._leaderboard(metric, scope) for metric, scope in boards if scope == "all"),
            ReportTable("Papers published after each agent's cutoff", columns, rows, notes=self.notes),
            *(self._leaderboard(metric, scope) for metric, scope in boards if scope != "all"),
        ]

    def _leaderboard(self, metric: str, scope: Scope) -> ReportTable:
        rows = self.rows(metric, scope)
        columns = (
            *[Column("rank", "#", "count")] * (scope == "common"),
            Column("agent", "agent"),
            *estimate_columns("score", "score", self.level),
            *estimate_columns("difference", "minus human", self.level, signed=True),
            Column("n papers", "papers", "fraction"),
            Column("difference_n", "shared with human", "count", wide=True),
        )
        papers = {
            "own": "each agent's clean papers",
            "common": f"the {len(self.common)} papers clean for all",
            "all": f"all {self.papers} papers",
        }[scope]
        cells = tuple(
            estimate_cells(score=row.score, difference=row.difference)
            | {"agent": row.agent, "rank": row.rank, "n": row.score.n, "papers": row.score.n + row.missing}
            for row in rows
        )
        notes = (NOTES[scope],) if scope != "common" or any(row.missing for row in rows) else ()
        return ReportTable(f"{metric} on {papers}", columns, cells, self.scope_signatures[metric][scope], notes)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [STATED]
        if unknown := [one.agent for one in self.agents if one.clean is None]:
            notes.append(f"{len(unknown)} without a cutoff, not counted as clean: {', '.join(unknown)}.")
        if self.undated:
            lacking = f"{len(self.undated)} of {self.papers} papers"
            notes.append(f"{lacking} have no date and are not used for clean leaderboards.")
        if len(unknown) == len(self.agents):
            notes.append("No agent has a cutoff, so there is no leaderboard of clean papers.")
        elif not self.common:
            fewest = min(one.clean for one in self.agents if one.clean is not None)
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
    clean = {agent: [task for task, day in dated.items() if day > cutoff] for agent, cutoff in known.items()}
    latest = max(known.values(), default=date.max)
    common = tuple(task for task, day in dated.items() if day > latest)
    rows: list[CleanScore] = []
    for metric, frame in scores.items():
        scored = {(task, agent): score for task, agent, score in frame.select("task", "agent", "score").iter_rows()}
        people = [HUMAN] if models and any(scored.get((task, HUMAN)) is not None for task in dates) else []
        scopes: dict[Scope, Mapping[str, Sequence[str]]] = {
            "common": dict.fromkeys([*clean, *people], common) if common else {},
            "own": clean,
            "all": dict.fromkeys([*models, *people], tuple(dates)),
        }
        for scope, papers in scopes.items():
            found = []
            for agent, tasks in papers.items():
                mine, human = ([scored.get((task, who)) for task in tasks] for who in (agent, HUMAN))
                values = np.array([mine, human], dtype=np.float64).reshape(2, -1)
                apart = values[0] - values[1] if agent != HUMAN else np.full(len(tasks), np.nan)
                score, difference = task_intervals(np.stack([values[0], apart], axis=1), tails=True, **draws)
                found.append(CleanScore(metric, scope, agent, score, difference, len(tasks) - score.n))
            rows += _ordered(found, scope)
    return Clock(
        agents=tuple(
            AgentClock(name, cutoff, len(clean[name]) if name in clean else None) for name, cutoff in models.items()
        ),
        papers=len(dates),
        undated=tuple(task for task in dates if task not in dated),
        common=common,
        leaderboards=tuple(rows),
        level=draws["level"],
        scope_signatures={m: _signatures(signatures[m], clean, common, len(dates), draws) for m in scores},
    )


def _day(read: Callable[[str], date | None], given: str | None, whose: str) -> date | None:
    found = read(given) if given else None
    if given and found is None:
        raise UserError(f"{whose} must look like 2023-09-30, 2023-09 or 2023, or be empty, got {given!r}")
    return found


def _ordered(rows: Sequence[CleanScore], scope: Scope) -> list[CleanScore]:
    """By difference, highest first; on common papers by score, with ranks, and equal scores share the better rank."""
    if scope != "common":
        return sorted(rows, key=lambda row: (*_last(row.difference), *_last(row.score)))
    scores = [row.score.value for row in rows if row.agent != HUMAN and row.score.value is not None]
    found = []
    for row in sorted(rows, key=lambda row: (*_last(row.score), row.difference.value is None)):
        score = None if row.agent == HUMAN else row.score.value
        found.append(replace(row, rank=None if score is None else 1 + sum(other > score for other in scores)))
    return found


def _last(one: Estimate) -> tuple[bool, float]:
    return one.value is None, -(one.value or 0.0)


def _signatures(
    line: str, clean: Mapping[str, Sequence[str]], common: Sequence[str], papers: int, draws: Draws
) -> dict[Scope, str]:
    """The signature of the scores by scope, with other draws and papers, and without a test."""
    given = Signature.parse(line)
    settings = {key: told for key, told in given.settings.items() if key not in {"goldless", "test"}}
    settings |= {"interval": interval_name(draws["level"], tails=True)}
    settings |= {"resamples": str(draws["resamples"]), "seed": str(draws["seed"])}
    used: dict[Scope, str] = {
        "own": f"clean-own-{evidence_hash((agent, *sorted(tasks)) for agent, tasks in clean.items())}",
        "common": f"clean-common-{len(common)}-{evidence_hash((task,) for task in common)}",
        "all": f"all-{papers}",
    }
    return {scope: str(Signature(given.metric, {**settings, "papers": told})) for scope, told in used.items()}


def public_dates(study: Study) -> dict[str, str | None]:
    """The date of every paper by task, from the column ``public_date`` of the tasks; None if it has none."""
    found = {task: study.task(task).extra.get(PUBLIC_DATE) for task in study.tasks}
    # a datetime is a date, too, and its time says nothing here
    return {
        task: None if is_empty(value) else f"{value:%Y-%m-%d}" if isinstance(value, date) else str(value)
        for task, value in found.items()
    }
