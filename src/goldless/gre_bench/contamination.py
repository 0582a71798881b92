"""The contamination clock: which papers a model cannot have seen, and the leaderboard on those papers only.

A paper is clean for a model if it became public after the model's knowledge cutoff. If only a month or year is known,
the cutoff is its last day and the paper's date its first day, so that nothing is called clean by a guess. A model
without a cutoff is unknown, never clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any, Literal

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.dates import first_day, last_day
from goldless.errors import UserError
from goldless.gre_bench.boards import AsJson, changed_signature
from goldless.gre_bench.papers import HUMAN, is_person
from goldless.records import Agent
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.recorded import evidence_hash
from goldless.statistics.bootstrap import interval_name, task_intervals
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
class Clock(AsJson):
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
    notes: tuple[str, ...]

    def table(self) -> ReportTable:
        """One row per agent: its cutoff and the share of papers after it."""
        columns = (
            Column("agent", "agent"),
            Column("cutoff_date", "cut-off", absent="unknown"),
            Column("clean", "papers after cutoff", "count", "unknown"),
            Column("dated", "dated", "count"),
            Column("share", "share", "number", "unknown", 2),
            Column("undated", "undated", "count"),
        )
        rows = tuple(asdict(one) for one in self.agents)
        return ReportTable("Papers published after each agent's cutoff", columns, rows, notes=self.notes)

    def leaderboard(self, metric: str, scope: Scope) -> ReportTable:
        """One row per agent, on the papers of a scope."""
        if metric not in (known := list(dict.fromkeys(row.metric for row in self.scores))):
            raise UserError(f"metric {metric!r} has no scores. Metrics with scores: {', '.join(known) or 'none'}")
        chosen = [row for row in self.scores if row.metric == metric and row.scope == scope]
        rows = [{**asdict(row), "papers": row.n + row.missing} for row in chosen]
        interval = f"{self.level * 100:g}%"
        ranked = [Column("rank", "#", "count")] if scope == "common" else []
        everywhere = (
            Column("all_score", "all papers", "number", decimals=2, wide=True),
            Column("all_n", "n", "count", wide=True),
        )
        columns = (
            *ranked,
            Column("agent", "agent"),
            Column("score", "score", "number", "missing", 2),
            Column("low high", interval, "interval", decimals=2),
            Column("difference", "minus human", "signed", decimals=2),
            Column("difference_low difference_high", interval, "signed interval", decimals=2),
            Column("n papers", "papers", "fraction"),
            Column("n_pairs", "shared with human", "count", wide=True),
            *([] if scope == "all" else everywhere),
            Column("note", "note", wide=True),
        )
        title = f"{metric} on {self._papers_of(scope)}"
        signature = self.scope_signatures[metric][scope]
        return ReportTable(title, columns, tuple(rows), signature, self._scope_notes(scope, chosen))

    def _papers_of(self, scope: Scope) -> str:
        if scope == "own":
            return "each agent's clean papers"
        return f"all {self.papers} papers" if scope == "all" else f"the {len(self.common)} papers clean for all"

    def _scope_notes(self, scope: Scope, rows: Sequence[CleanScore]) -> tuple[str, ...]:
        if scope == "all":
            return (ALL,)
        if scope == "own":
            return (OWN,) if rows else (_none_common(self),)
        notes = () if self.common else (_none_common(self),)
        return (*notes, MISSING) if any(row.missing for row in rows) else notes


def contamination_clock(
    agents: Sequence[Agent],
    paper_dates: Mapping[str, str | None],
    scores: Mapping[str, pl.DataFrame],
    *,
    signatures: Mapping[str, str] | None = None,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.90,
) -> Clock:
    """The clock of all agents except references; ``human`` is the baseline and has no cutoff.

    ``paper_dates``: of every paper by task, None where it is not known. ``scores``: of responses (task, agent, score),
    by metric. Dates are YYYY-MM-DD, YYYY-MM or YYYY.
    """
    models = [agent for agent in agents if not is_person(agent.agent)]
    cutoffs, dates = _days(models, paper_dates)
    _check_tasks(paper_dates, scores)
    clean = {
        agent: tuple(task for task, day in dates.items() if day is not None and day > cutoff)
        for agent, cutoff in cutoffs.items()
        if cutoff is not None
    }
    latest = max((cutoff for cutoff in cutoffs.values() if cutoff is not None), default=date.max)
    common = tuple(task for task, day in dates.items() if day is not None and day > latest)
    drawn = {"seed": seed, "resamples": resamples, "level": level}
    rows = [
        _scope_rows(metric, frame, tasks=dates, models=cutoffs, clean=clean, common=common, drawn=drawn)
        for metric, frame in scores.items()
    ]
    undated = tuple(task for task, day in dates.items() if day is None)
    clock = Clock(
        agents=tuple(_agent_clock(agent, clean.get(agent.agent), len(dates), len(undated)) for agent in models),
        unknown=tuple(agent for agent, cutoff in cutoffs.items() if cutoff is None),
        papers=len(dates),
        undated=undated,
        common=common,
        scores=tuple(row for some in rows for row in some),
        level=level,
        signatures=dict(signatures or {}),
        scope_signatures={},
        notes=(),
    )
    told = _scope_signatures(clock, scores, clean, {"resamples": str(resamples), "seed": str(seed)})
    return replace(clock, notes=_notes(clock), scope_signatures=told)


def public_dates(study: Study) -> dict[str, str | None]:
    """The date of every paper by task, from the column ``public_date`` of the tasks; None if it has none."""
    return {task: _written_date(study.task(task).extra.get(PUBLIC_DATE)) for task in study.tasks}


def _written_date(value: Any) -> str | None:
    if is_empty(value):
        return None
    if isinstance(value, date):
        # a datetime is a date, too, and its time says nothing here
        return date(value.year, value.month, value.day).isoformat()
    return str(value)


def _scope_signatures(
    clock: Clock, metrics: Iterable[str], clean: Mapping[str, tuple[str, ...]], drawn: Mapping[str, str]
) -> dict[str, dict[Scope, str]]:
    """Signatures by metric and scope: those of the scores, with the papers of each scope."""
    own = evidence_hash((agent, *sorted(tasks)) for agent, tasks in clean.items())
    common = evidence_hash((task,) for task in clock.common)
    papers: dict[Scope, str] = {
        "own": f"clean-own-{own}",
        "common": f"clean-common-{len(clock.common)}-{common}",
        "all": f"all-{clock.papers}",
    }
    drawn = {"interval": interval_name(clock.level, tails=True), **drawn}
    return {
        metric: {
            scope: changed_signature(metric, clock.signatures.get(metric), {**drawn, "papers": told}, without=("test",))
            for scope, told in papers.items()
        }
        for metric in metrics
    }


def _agent_clock(agent: Agent, clean: tuple[str, ...] | None, papers: int, undated: int) -> AgentClock:
    dated = papers - undated
    count = None if clean is None else len(clean)
    share = count / dated if count is not None and dated else None
    return AgentClock(agent.agent, agent.cutoff_date, dated, undated, count, share)


def _days(
    agents: Sequence[Agent], paper_dates: Mapping[str, str | None]
) -> tuple[dict[str, date | None], dict[str, date | None]]:
    """Cutoffs by agent and public dates by task. Raises with a list of all invalid dates."""
    cutoffs = {agent.agent: last_day(agent.cutoff_date) if agent.cutoff_date else None for agent in agents}
    dates = {task: first_day(given) if given else None for task, given in paper_dates.items()}
    problems = [
        f"cutoff_date of agent {agent.agent!r} is {agent.cutoff_date!r}"
        for agent in agents
        if agent.cutoff_date and cutoffs[agent.agent] is None
    ]
    problems += [
        f"public_date of task {task!r} is {given!r}"
        for task, given in paper_dates.items()
        if given and dates[task] is None
    ]
    if problems:
        shown = [*problems[:100], *([f"… and {len(problems) - 100} more"] if len(problems) > 100 else [])]
        raise UserError("\n".join([*shown, "dates must look like 2023-09-30, 2023-09 or 2023, or be empty"]))
    return cutoffs, dates


def _check_tasks(paper_dates: Mapping[str, str | None], scores: Mapping[str, pl.DataFrame]) -> None:
    strange = sorted({task for frame in scores.values() for task in frame["task"].unique()} - paper_dates.keys())
    if strange:
        shown = ", ".join(strange[:10]) + (f" and {len(strange) - 10} more" if len(strange) > 10 else "")
        raise UserError(
            f"{len(strange)} tasks have scores but no entry in paper_dates: {shown}. Give the date of every task of "
            "the study, or None if unknown"
        )


def _scope_rows(
    metric: str,
    frame: pl.DataFrame,
    *,
    tasks: Iterable[str],
    models: Iterable[str],
    clean: Mapping[str, tuple[str, ...]],
    common: tuple[str, ...],
    drawn: Mapping[str, Any],
) -> Iterator[CleanScore]:
    """One metric in every scope."""
    row = {task: place for place, task in enumerate(tasks)}
    column = {agent: place for place, agent in enumerate([*models, HUMAN])}
    known = frame.filter(pl.col("agent").is_in(list(column)) & pl.col("score").is_not_null())
    values = np.full((len(row), len(column)), np.nan)
    values[[row[task] for task in known["task"]], [column[agent] for agent in known["agent"]]] = known["score"]
    human = values[:, column[HUMAN]]

    people = (HUMAN,) if len(column) > 1 and not np.isnan(human).all() else ()
    everybody = [agent for agent in column if agent != HUMAN or people]
    scopes: dict[Scope, Mapping[str, tuple[str, ...]]] = {
        "own": clean,
        "common": dict.fromkeys((*clean, *people), common) if common else {},
        "all": dict.fromkeys(everybody, tuple(row)),
    }
    for scope, papers in scopes.items():
        places = {agent: [row[task] for task in its] for agent, its in papers.items()}
        found = [
            _clean_score(metric, scope, agent, mine=values[:, column[agent]], human=human, places=its, drawn=drawn)
            for agent, its in places.items()
        ]
        found.sort(key=_by_difference)
        yield from _ranked(found) if scope == "common" else found


def _clean_score(
    metric: str,
    scope: Scope,
    agent: str,
    *,
    mine: FloatArray,
    human: FloatArray,
    places: Sequence[int],
    drawn: Mapping[str, Any],
) -> CleanScore:
    """The score of an agent on its papers, given by their indices."""
    kept = mine[places]
    score, difference = task_intervals(np.stack([kept, kept - human[places]], axis=1), tails=True, **drawn)
    everywhere = mine[~np.isnan(mine)]
    paired = agent != HUMAN
    return CleanScore(
        metric=metric,
        scope=scope,
        agent=agent,
        rank=None,
        score=score.mean,
        low=score.low,
        high=score.high,
        n=score.n,
        missing=len(places) - score.n,
        difference=difference.mean if paired else None,
        difference_low=difference.low if paired else None,
        difference_high=difference.high if paired else None,
        n_pairs=difference.n if paired else 0,
        all_score=float(everywhere.mean()) if len(everywhere) else None,
        all_n=len(everywhere),
        note=score.note if places else "no clean paper",
    )


def _by_difference(row: CleanScore) -> tuple[bool, float, float]:
    return row.difference is None, -(row.difference or 0.0), -(row.score or 0.0)


def _ranked(rows: Sequence[CleanScore]) -> list[CleanScore]:
    """By score, highest first; the baseline has no rank, and equal scores share the better rank."""
    scores = [row.score for row in rows if row.agent != HUMAN and row.score is not None]
    ranked = []
    for row in sorted(rows, key=lambda row: (row.score is None, -(row.score or 0.0))):
        has = row.agent != HUMAN and row.score is not None
        rank = 1 + sum(other > (row.score or 0.0) for other in scores) if has else None
        ranked.append(replace(row, rank=rank))
    return ranked


def _notes(clock: Clock) -> tuple[str, ...]:
    notes = [
        "Cutoffs are those stated by the makers; a month or year counts as its last day, for a paper as its first day."
    ]
    if clock.unknown:
        notes.append(f"{len(clock.unknown)} without a cutoff, not counted as clean: {', '.join(clock.unknown)}.")
    if clock.undated:
        notes.append(
            f"{len(clock.undated)} of {clock.papers} papers have no date and are not used for clean leaderboards."
        )
    if not clock.common:
        notes.append(_none_common(clock))
    return tuple(notes)


def _none_common(clock: Clock) -> str:
    if len(clock.unknown) == len(clock.agents):
        return "No agent has a cutoff, so there is no leaderboard of clean papers."
    fewest = min(one.clean for one in clock.agents if one.clean is not None)
    who = ", ".join(f"{one.agent} ({one.cutoff_date})" for one in clock.agents if one.clean == fewest)
    return (
        "No paper became public after the cutoffs of all agents, so there is no common leaderboard. "
        f"Agents with the fewest papers after their cutoff: {who}."
    )
