"""Results of an edition, as printed, as in ``gre.json`` and ``gre.md``, and as in the report and on the site.

The contamination clock: a paper is clean for a model if it became public after the model's knowledge cutoff. If only a
month or year is known, the cutoff is its last day and the paper's date its first day, so that nothing is called clean
by a guess. A model without a cutoff is unknown, never clean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from goldless import Evaluation, __version__
from goldless.apps.gre.additions import AddedResult
from goldless.apps.gre.edition import (
    CANARY,
    INJECTED,
    Edition,
    marked_papers,
    noted_draw,
    table_rows,
)
from goldless.apps.gre.papers import HUMAN, is_person, is_reference
from goldless.apps.gre.reviewing import WrittenReviews, noted_reviews, written_reviews
from goldless.errors import UserError
from goldless.files import write_json
from goldless.records import Agent, Finding
from goldless.reports.document import InMemory, Result, Unreadable, cells, read_document, write, written_property
from goldless.reports.html.blocks import Block, code, fold, result_table, section, words
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.store import save_result
from goldless.signature import Signature, evidence_hash
from goldless.statistics.bootstrap import Draws, Estimate, interval_name, task_intervals
from goldless.statistics.sign_flips import mean_test
from goldless.statistics.standings import LeaderboardRow
from goldless.studies import Study
from goldless.studies.checking import possible_days

FILE = "gre"
DEMONSTRATION = (
    "DEMONSTRATION, NOT A RESULT: the papers, the human reviews and the models named invented-… were made up to show "
    "how an edition works; their ranking was built in."
)

Scores = Mapping[tuple[str, str], float | None]
"""Scores of responses by task and agent."""

# --- tables ---------------------------------------------------------------------------------------------------------


def estimate_columns(name: str, heading: str, level: float, *, signed: bool = False) -> tuple[Column, Column]:
    """The columns of an estimate's value and of its interval."""
    value = Column(name, heading, "number", "missing", 2)
    ends = Column(f"{name}_low {name}_high", f"{level * 100:g}%", "interval", decimals=2)
    if signed:
        return replace(value, kind="signed", absent=None), replace(ends, kind="signed interval")
    return value, ends


# --- the contamination clock -----------------------------------------------------------------------------------------

Scope = Literal["own", "common", "all"]
"""The papers of a score: those clean for the agent, those clean for all agents with a cutoff, or all papers."""
DIFFER = "so compare the differences from the human baseline, which use the same papers, not the scores."
NOTES: Mapping[Scope, str] = {
    "own": f"Each agent is scored on the papers that are clean for it. The papers differ between agents, {DIFFER}",
    "common": "Some agents lack scores on some of these papers; for them, compare the difference from human.",
    "all": (
        "Each agent is scored on all papers, clean or not, that it has a score for. If scores are missing, the papers "
        f"differ between agents, {DIFFER}"
    ),
}


@dataclass(frozen=True)
class AgentClock:
    """Number of papers that one agent cannot have seen."""

    agent: str
    cutoff_date: str | None
    """None: unknown."""
    clean: int | None
    """Dated papers that became public after the cutoff; None: unknown cutoff."""


@dataclass(frozen=True)
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
    """Among the agents except the human baseline; None in the scope ``own``, where papers differ."""


@dataclass(frozen=True)
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
            *(self.leaderboard(metric, scope) for metric, scope in boards if scope == "all"),
            ReportTable("Papers published after each agent's cutoff", columns, rows, notes=self.notes),
            *(self.leaderboard(metric, scope) for metric, scope in boards if scope != "all"),
        ]

    def leaderboard(self, metric: str, scope: Scope) -> ReportTable:
        rows = self.rows(metric, scope)
        columns = (
            *[Column("rank", "#", "count")] * (scope != "own"),
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
        shown = tuple(cells(row, n=row.score.n, papers=row.score.n + row.missing) for row in rows)
        notes = (NOTES[scope],) if scope != "common" or any(row.missing for row in rows) else ()
        return ReportTable(f"{metric} on {papers}", columns, shown, self.scope_signatures[metric][scope], notes)

    @property
    def notes(self) -> tuple[str, ...]:
        stated = "Cutoffs are those stated by the makers; a month or year counts as its last day, for a paper as its"
        notes = [f"{stated} first day."]
        if unknown := [one.agent for one in self.agents if one.clean is None]:
            notes.append(f"{len(unknown)} without a cutoff, not counted as clean: {', '.join(unknown)}.")
        if self.undated:
            lacking = f"{len(self.undated)} of {self.papers} papers"
            notes.append(f"{lacking} have no date and are not used for clean leaderboards.")
        if len(unknown) == len(self.agents):
            notes.append("No agent has a cutoff, so there is no leaderboard of clean papers.")
        elif not self.common:
            notes.append("No paper became public after the cutoffs of all agents, so there is no common leaderboard.")
        return tuple(notes)


def contamination_clock(
    agents: Sequence[Agent],
    paper_dates: Mapping[str, Any],
    scores: Mapping[str, Scores],
    *,
    settings: Mapping[str, Mapping[str, str]],
    **draws: Unpack[Draws],
) -> Clock:
    """The clock of all agents except references; ``human`` is the baseline and has no cutoff.

    ``paper_dates``: of every paper by task; what is no date as YYYY-MM-DD, YYYY-MM or YYYY is not known. ``scores``: of
    responses, by metric.
    """
    models = {agent.agent: agent.cutoff_date for agent in agents if not is_person(agent.agent)}
    # of a moment, the day
    dates = {task: possible_days(str(date)[:10]) for task, date in paper_dates.items()}
    dated = {task: days[0] for task, days in dates.items() if days is not None}
    clean = {
        agent: tuple(task for task, day in dated.items() if day > cutoff[1])
        for agent, date in models.items()
        if date is not None and (cutoff := possible_days(date)) is not None
    }
    common = min(clean.values(), key=len, default=())  # the papers after the latest cutoff are after all others too
    used: dict[Scope, str] = {
        "own": f"clean-own-{evidence_hash((agent, *sorted(tasks)) for agent, tasks in clean.items())}",
        "common": f"clean-common-{len(common)}-{evidence_hash((task,) for task in common)}",
        "all": f"all-{len(dates)}",
    }
    rows: list[CleanScore] = []
    lines: dict[str, dict[Scope, str]] = {}
    for metric, scored in scores.items():
        told = {key: value for key, value in settings[metric].items() if key not in {"goldless", "test"}}
        told |= {"interval": interval_name(draws["level"], tails=True)}
        told |= {"resamples": str(draws["resamples"]), "seed": str(draws["seed"])}
        lines[metric] = {
            scope: Signature.line({**told, "papers": on, "goldless": __version__}) for scope, on in used.items()
        }
        people = [HUMAN] if models and any(scored.get((task, HUMAN)) is not None for task in dates) else []
        scopes: dict[Scope, Mapping[str, Sequence[str]]] = {
            "common": dict.fromkeys([*clean, *people], common) if common else {},
            "own": clean,
            "all": dict.fromkeys([*models, *people], tuple(dates)),
        }
        for scope, papers in scopes.items():
            found = []
            for agent, tasks in papers.items():
                mine, human = (np.array([scored.get((t, who)) for t in tasks], float) for who in (agent, HUMAN))
                apart = mine - human if agent != HUMAN else np.full(len(tasks), np.nan)
                (score,) = task_intervals(mine[:, None], tails=True, **draws)
                difference = _mean_difference(apart, draws)
                found.append(CleanScore(metric, scope, agent, score, difference, len(tasks) - score.n))
            first = "score" if scope == "common" else "difference"
            values = {row.agent: (getattr(row, first).value, row.score.value) for row in found}
            keys = {agent: [(one is None, -(one or 0.0)) for one in both] for agent, both in values.items()}
            for row in sorted(found, key=lambda row: keys[row.agent]):
                unranked = scope == "own" or row.agent == HUMAN or row.score.value is None
                above = sum(keys[agent] < keys[row.agent] for agent in keys if agent != HUMAN)
                rows.append(replace(row, rank=None if unranked else 1 + above))
    return Clock(
        agents=tuple(AgentClock(name, on, len(clean[name]) if name in clean else None) for name, on in models.items()),
        papers=len(dates),
        undated=tuple(task for task in dates if task not in dated),
        common=common,
        leaderboards=tuple(rows),
        level=draws["level"],
        scope_signatures=lines,
    )


# --- how firm the ranking is -----------------------------------------------------------------------------------------

FLIPS = (
    "The smallest number of papers without which another model has the higher mean, on the papers that both reviewed. "
    "Exact: those with the largest differences are removed."
)


TIED = 1e-12
"""Means that differ by less than this share of the largest are tied: sums in another order differ in the last digit."""


@dataclass(frozen=True)
class Flip:
    """The fewest papers without which another model is ahead of the first."""

    metric: str
    leader: str
    other: str | None
    """The model that is then ahead; None: whichever papers are removed, nobody is."""
    removed: tuple[str, ...]
    """These papers, the most decisive first."""
    papers: int
    """Papers on which both have a score."""


def flip_table(flips: Iterable[Flip]) -> ReportTable:
    """The fewest papers that flip rank 1, a row per metric."""
    columns = (
        Column("metric", "metric"),
        Column("leader", "rank 1", "name"),
        Column("n", "papers to remove", "count", "-"),
        Column("papers", "of", "count"),
        Column("other", "then ahead", "name", "nobody"),
        Column("removed", "papers to remove, by name", absent="-", wide=True),
    )
    rows = []
    for flip in flips:
        count = None if flip.other is None else len(flip.removed)
        rows.append({**asdict(flip), "n": count, "removed": flip.removed or None})
    return ReportTable("How few papers flip rank 1", columns, tuple(rows), notes=(FLIPS,))


def model_means(scores: Scores) -> dict[str, float]:
    """The mean score of each model."""
    found: dict[str, list[float]] = {}
    for (_, agent), score in scores.items():
        if score is not None and not is_person(agent):
            found.setdefault(agent, []).append(score)
    return {agent: float(np.mean(values)) for agent, values in found.items()}


def fewest_to_flip(differences: npt.NDArray[np.float64]) -> tuple[int, ...] | None:
    """Places of the fewest tasks without which the mean of the other differences is below zero; None: no tasks do that.

    ``differences``: score of one agent minus that of another, NaN where one of them has none. Empty: the mean is below
    zero already. Exact: of all choices of k tasks, the k largest differences leave the smallest sum.
    """
    values = np.asarray(differences, dtype=np.float64)
    there = np.flatnonzero(~np.isnan(values))
    # largest last; among equal ones, the first task is taken first
    order = there[np.lexsort((-there, values[there]))]
    left = np.cumsum(values[order])
    flipped = np.flatnonzero(left < -TIED * np.max(np.abs(values[there]), initial=0.0))
    return None if not len(flipped) else tuple(order[flipped[-1] + 1 :][::-1].tolist())


def rank_flip(metric: str, scores: Scores) -> list[Flip]:
    """The fewest papers that flip rank 1, against any other model; none if there are not two."""
    means = model_means(scores)
    leader, *others = sorted(means, key=lambda agent: (-means[agent], agent)) or [""]
    tasks = list(dict.fromkeys(task for task, agent in scores if not is_reference(agent)))
    flips = []
    for other in others:
        both = [[scores.get((task, agent)) for task in tasks] for agent in (leader, other)]
        apart = np.subtract(*np.array(both, dtype=np.float64))
        places = fewest_to_flip(apart)
        removed = tuple(tasks[place] for place in places or ())
        flips.append(Flip(metric, leader, None if places is None else other, removed, int(np.sum(~np.isnan(apart)))))
    return sorted(flips, key=lambda flip: (flip.other is None, len(flip.removed), -flip.papers))[:1]


# --- hidden instructions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreHold:
    """One agent's scores on papers and on their second versions."""

    agent: str
    clean: float | None
    """Mean score on the papers themselves."""
    difference: Estimate
    """Mean of the second versions' scores minus those of the papers themselves."""
    reviews: int
    """Reviews of second versions."""
    obeyed: int
    """Of these, the ones that contain the canary."""

    @written_property
    def verdict(self) -> str:
        low, high = self.difference.low, self.difference.high
        if low is None or high is None:
            return "too few papers"
        return "falls" if high < 0 else "rises" if low > 0 else "no change shown"


@dataclass(frozen=True)
class Holding:
    """True if scores hold under hidden instructions."""

    metric: str
    papers: int
    level: float
    signature: str
    models: tuple[ScoreHold, ...] = ()

    def tables(self) -> list[ReportTable]:
        columns = (
            Column("agent", "agent"),
            Column("clean", self.metric, "number", "missing", 2),
            *estimate_columns("difference", "with instruction", self.level, signed=True),
            Column("difference_n", "papers", "count"),
            Column("obeyed reviews", "obeyed", "fraction"),
            Column("verdict", "score"),
        )
        rows = tuple(cells(model, verdict=model.verdict) for model in self.models)
        note = (
            f"{self.papers} papers were reviewed a second time with a hidden instruction in the text. These reviews "
            "are not in the ranking. Obeyed: reviews that contain the word that the instruction asks for."
        )
        return [ReportTable(f"Hidden instructions: does {self.metric} hold?", columns, rows, self.signature, (note,))]


def _mean_difference(differences: npt.NDArray[np.float64], draws: Draws) -> Estimate:
    """Return the mean difference with the interval that ``goldless compare`` would give."""
    return mean_test(differences, draws).interval(draws["level"]).within(-np.inf, np.inf)


def hidden_study(whole: Study) -> Study | None:
    """The second versions of papers, with the reviews of all but the human baseline; None if there are none."""
    second = marked_papers(whole, INJECTED)
    agents = [agent for agent in whole.agent_list if agent != HUMAN]
    return whole.subset(tasks=second, agents=agents) if second else None


def holding(whole: Study, clean: Evaluation, hidden: Evaluation, draws: Draws) -> Holding:
    """Compare the scores of the reviews of second versions, ``hidden``, with those of the papers themselves."""
    ((metric, outcome),) = hidden.outcomes.items()
    paper_of, canaries = marked_papers(whole, INJECTED), marked_papers(whole, CANARY)
    if lost := [task for task in paper_of if task not in canaries]:
        raise UserError(
            f"{whole.name}: no {CANARY} in the tasks table for {', '.join(lost[:5])}. Collect the edition again"
        )
    before, after = (one.outcomes[metric].response_scores for one in (clean, hidden))
    rows = []
    for agent in [agent for agent in whole.agent_list if not is_person(agent)]:
        written = {task: one.text for task in paper_of if (one := whole.response(task, agent)) is not None}
        if not written:
            continue
        pairs = [(before.get((paper, agent)), after.get((task, agent))) for task, paper in paper_of.items()]
        both = np.array([pair for pair in pairs if None not in pair], dtype=np.float64).reshape(-1, 2)
        found = _mean_difference(both[:, 1] - both[:, 0], draws)
        mean = float(both[:, 0].mean()) if len(both) else None
        obeyed = sum(canaries[task] in text.lower() for task, text in written.items())
        rows.append(ScoreHold(agent, mean, found, len(written), obeyed))
    return Holding(metric, len(paper_of), draws.get("level", 0.95), outcome.signature, tuple(rows))


# --- the edition -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EditionResult(Result):
    """An edition's leaderboards, and notes on them."""

    edition: str
    source: str
    """The venue, or the folder's name."""
    demonstration: str | None
    """That the papers are invented; None: they are not."""
    papers: int
    left_out: Mapping[str, int]
    """Papers that could not be used, by reason."""
    signatures: Mapping[str, str]
    """By metric."""
    written: tuple[WrittenReviews, ...]
    contamination: Clock | None
    """None: no model has written reviews."""
    injected: Holding | None = None
    """True if scores hold under hidden instructions; None: no paper has any."""
    flips: tuple[Flip, ...] = ()
    """The fewest papers that flip rank 1, by metric."""
    notes: tuple[str, ...] = ()
    """Sentences that other apps add."""
    added: InMemory[Mapping[str, AddedResult | None]] = field(default_factory=dict)
    """Results of other apps by name, each with a file of its own; None: the app has nothing to say."""
    boards: InMemory[Mapping[str, Any]] = field(default_factory=dict)
    """Leaderboards by metric: of the evaluation, or of the run folder that the rest was read from."""

    @property
    def all_signatures(self) -> set[str]:
        """Of its leaderboards, on all papers as on clean ones."""
        clock = self.contamination
        scoped = () if clock is None else clock.scope_signatures.values()
        return {*self.signatures.values(), *(one for scopes in scoped for one in scopes.values())}

    def table(self) -> ReportTable:
        """One row per agent with all metrics, sorted by the first; agents without reviews come last."""
        about = (Column("parameters", "size", "large"), Column("written papers", "reviews", "fraction"))
        known = {
            one.agent: {key: getattr(one, key) for key in ("written", "papers", "parameters")} for one in self.written
        }
        counted = [(metric, board.rows, board.level) for metric, board in self.boards.items()]
        columns, rows = side_by_side(counted, about, known)
        title, signature = f"GRE-bench, {self.source}: {self.papers} papers", " || ".join(self.signatures.values())
        return ReportTable(title, columns, rows, signature, tuple(self._notes()))

    def tables(self) -> list[ReportTable]:
        """All tables: the metrics side by side, differences from human, the clock, its leaderboards, and the rest."""
        tables = [self.table()]
        for part in (self.contamination, self.injected):
            tables += [] if part is None else part.tables()
        tables.append(flip_table(self.flips))
        for added in self.added.values():
            tables += [] if added is None else added.tables()
        return tables

    def _notes(self) -> Iterator[str]:
        if self.demonstration is not None:
            yield self.demonstration
        yield from uneven_notes(self.boards)
        yield from self.notes
        if self.left_out:
            reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in self.left_out.items())
            yield f"Left out when collecting: {reasons}."
        for mine in self.written:
            parts = [f"{n} {cause}" for cause, n in mine.missing.items()]
            parts += [*[f"{mine.shortened} papers cut off"] * bool(mine.shortened), *mine.noticed]
            if parts:
                yield f"{mine.agent}: {', '.join(parts)}."

    def findings(self) -> Iterator[Finding]:
        if self.demonstration is not None:
            yield Finding("demonstration", (), self.demonstration)
        for mine in self.written:
            if not mine.written:
                yield Finding("no-review", (mine.agent,), f"{mine.agent} has no score because it has no review.")

    def save(self, folder: Path, study: Study | None) -> None:
        """Write ``gre.json`` and ``gre.md`` into a run folder, and a file for each app's result; update its report."""
        for name, result in self.added.items():
            file = folder / f"{FILE}_{name}.json"
            if result is None:
                file.unlink(missing_ok=True)
            else:
                write_json(file, write(result))
        text = "\n".join(table.to_markdown() for table in self.tables())
        save_result(study, folder, verb=FILE, name=FILE, data=write(self), markdown=text)


def edition_result(
    edition: Edition, study: Study, evaluation: Evaluation, hidden: Evaluation | None = None
) -> EditionResult:
    """The results of an edition, from the evaluation of its study, and of its papers with hidden instructions."""
    config, outcomes = edition.config, evaluation.outcomes
    draws, drawn = config.score.draws, noted_draw(study)
    agents = [agent for agent in study.agents if not is_reference(agent.agent)]
    models = [agent.agent for agent in agents if not is_person(agent.agent)]
    signatures = {name: outcome.signature for name, outcome in outcomes.items()}
    settings = {name: outcome.settings for name, outcome in outcomes.items()}
    scores = {metric: outcome.response_scores for metric, outcome in outcomes.items()}
    dates = {task: study.task(task).extra.get("public_date") for task in study.tasks}
    written = Counter(response.agent for _, responses in study for response in responses)
    noted = noted_reviews(study).values()
    return EditionResult(
        edition=edition.name,
        source=edition.source if drawn is None else str(drawn["source"]),
        demonstration=DEMONSTRATION if config.demonstration else None,
        papers=len(study.tasks),
        left_out=dict(Counter(str(row.get("reason")) for row in table_rows(study, "left_out")).most_common()),
        signatures=signatures,
        written=tuple(written_reviews(agent, noted, len(study.tasks), written[agent.agent]) for agent in agents),
        contamination=contamination_clock(study.agents, dates, scores, settings=settings, **draws) if models else None,
        injected=None if hidden is None else holding(edition.whole_study(), evaluation, hidden, draws),
        flips=tuple(flip for metric, score in scores.items() for flip in rank_flip(metric, score)),
        boards=dict(outcomes),
    )


def side_by_side(
    boards: Iterable[tuple[str, Iterable[LeaderboardRow], float]],
    about: Iterable[Column],
    known: Mapping[str, Mapping[str, Any]],
) -> tuple[tuple[Column, ...], tuple[dict[str, Any], ...]]:
    """A table of agents with what is known of each, and with the scores of all metrics; those without come last."""
    columns, found = [Column("agent", "agent"), *about], dict[str, dict[str, Any]]()
    for metric, rows, level in boards:
        for row in rows:
            one = row.estimate
            mine = {metric: one.value, f"{metric}_low": one.low, f"{metric}_high": one.high, f"{metric}_n": one.n}
            found.setdefault(row.agent, {"agent": row.agent}).update(mine)
        bounded = any(row.estimate.low is not None for row in rows)
        columns += estimate_columns(metric, metric, level)[: 1 + bounded]
        columns += [Column(f"{metric}_n", "papers", "count", wide=True)] * any(row.estimate.n for row in rows)
    for agent, facts in known.items():
        found.setdefault(agent, {"agent": agent}).update(facts)
    return tuple(columns), tuple(found.values())


def uneven_notes(boards: Mapping[str, Any]) -> Iterator[str]:
    """Warnings of metrics under which agents have scores on different numbers of papers."""
    for metric, board in boards.items():
        if len({row.estimate.n for row in board.rows if row.score is not None}) > 1:
            yield (
                f"{metric}: agents have scores on different papers, so compare their differences from human, which use "
                "the same papers, not the scores."
            )


def read_result(run: RunFolder) -> EditionResult | Unreadable | None:
    """The result in a run folder; None: it is not the run of an edition."""
    found = read_document(run.path / f"{FILE}.json", EditionResult)
    return replace(found, boards=run.boards) if isinstance(found, EditionResult) else found


@section("edition", "The edition")
def edition_section(run: RunFolder) -> Iterator[Block]:
    """The section of the report, with the tables of the terminal; the leaderboards on chosen papers are folded."""
    found = read_result(run)
    if isinstance(found, Unreadable):
        yield words(f"{found}.", style="warning")
    if not isinstance(found, EditionResult):
        return
    yield words(f"{found.papers} papers from {found.source}. Each review is compared with the reference reviews.")
    for table in found.tables():
        yield from table_blocks(table, folded=found.contamination is not None and table in found.contamination.tables())


def table_blocks(table: ReportTable, *, folded: bool = False) -> Iterator[Block]:
    """A table with its notes and signatures; ``folded``: behind its title, where it has a signature."""
    columns = [replace(column, absent="-" if column.absent is None else column.absent) for column in table.narrow]
    blocks: list[Block] = [result_table(replace(table, columns=tuple(columns)))]
    blocks += [words(text, style="warning" if text == DEMONSTRATION else "note") for text in table.notes]
    if table.signature:
        blocks.append(fold("Signature", tuple(map(code, table.signature.split(" || ")))))
    yield from [fold(table.title, blocks)] if folded and table.signature else blocks
