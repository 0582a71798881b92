"""Results of an edition: metrics side by side, number of reviews written, and scores on clean papers.

Results that new ones would replace are recognised by their signatures and moved to a free name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from goldless.files import write_text
from goldless.gre_bench.contamination import Clock, Scope, contamination_clock, public_dates
from goldless.gre_bench.edition import Edition
from goldless.gre_bench.edition_study import asked_source, left_out_papers, noted_draw, table_rows
from goldless.gre_bench.generated_reviews import GENERATIONS, count_reviews
from goldless.gre_bench.papers import is_person, is_reference
from goldless.gre_bench.public_results import PublicResults
from goldless.gre_bench.review_sections import noticed
from goldless.gre_bench.standing import Standing
from goldless.gre_bench.submissions import read_log
from goldless.reports.document import Unreadable
from goldless.reports.leaderboard import LeaderboardRow
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.evaluation import Evaluation
from goldless.runs.store import finish_folder
from goldless.signature import Signature
from goldless.studies import Study

REVIEW_SETTINGS = ("prompt", "max_tokens", "temperature", "truncate", "cut")
"""Settings of the reviews for signatures."""
DEMONSTRATION = (
    "DEMONSTRATION, NOT A RESULT: the papers, the human reviews and the models named invented-… were made up to show "
    "how an edition works; their ranking was built in."
)


@dataclass(frozen=True, slots=True)
class WrittenReviews:
    """The number of reviews that an agent has written."""

    agent: str
    papers: int
    written: int
    missing: Mapping[str, int]
    """Papers without a review by it, by cause."""
    flags: Mapping[str, int]
    """What was noticed in its replies, with counts."""
    shortened: int
    """Papers that were cut off for it."""


@dataclass(frozen=True, slots=True)
class EditionScores:
    """An edition's leaderboards, and notes on them."""

    name: str
    source: str
    """The venue, or the folder's name."""
    demonstration: bool
    papers: int
    left_out: Mapping[str, int]
    """Papers that could not be used, by reason."""
    written: tuple[WrittenReviews, ...]
    evaluation: Evaluation
    clock: Clock | None
    """None: no model has written reviews."""
    unlisted: tuple[str, ...] = ()
    """Models of the study that are not in the config."""
    public: PublicResults = field(default_factory=PublicResults)
    """Pre-registration, hidden instructions and submissions."""
    standing: Standing | None = None
    """How firm the ranking of the edition's own results is; None: not computed."""

    @property
    def signatures(self) -> dict[str, str]:
        """Signatures by metric."""
        return {name: outcome.signature for name, outcome in self.evaluation.outcomes.items()}

    def table(self) -> ReportTable:
        """One row per agent with all metrics, sorted by the first; agents without reviews come last."""
        boards = {name: outcome.leaderboard for name, outcome in self.evaluation.outcomes.items()}
        columns = [Column("agent", "agent"), Column("parameters", "size", "large")]
        columns.append(Column("written papers", "reviews", "fraction"))
        rows: dict[str, dict[str, Cell]] = {}
        parameters = {agent.agent: agent.parameters for agent in self.evaluation.agents}
        for metric, board in boards.items():
            columns.append(Column(metric, metric, "number", "missing", 2))
            columns.append(Column(f"{metric}_low {metric}_high", f"{board.level * 100:g}%", "interval", decimals=2))
            columns.append(Column(f"{metric}_n", "papers", "count", wide=True))
            for row in board.rows:
                rows.setdefault(row.agent, {}).update(_cells(metric, row))
        for mine in self.written:
            rows.setdefault(mine.agent, {}).update(agent=mine.agent, written=mine.written, papers=mine.papers)
            rows[mine.agent]["parameters"] = parameters.get(mine.agent)
        title = f"GRE-bench, {self.source}: {self.papers} papers"
        signature = " || ".join(self.signatures.values())
        return ReportTable(title, tuple(columns), tuple(rows.values()), signature, tuple(self._notes()))

    def tables(self) -> list[ReportTable]:
        """All tables: the metrics side by side, differences from human, the clock, its leaderboards, and the rest."""
        clock, more = self.clock, [*self.public.tables(), *([] if self.standing is None else self.standing.tables())]
        if clock is None:
            return [self.table(), *more]
        metrics = list(dict.fromkeys(row.metric for row in clock.scores))
        there = {row.scope for row in clock.scores}
        scopes: list[Scope] = [scope for scope in ("common", "own") if scope in there]
        everywhere = [clock.leaderboard(metric, "all") for metric in metrics]
        clean = [clock.leaderboard(metric, scope) for metric in metrics for scope in scopes]
        return [self.table(), *everywhere, clock.table(), *clean, *more]

    def _notes(self) -> list[str]:
        """Notes on the table of all metrics."""
        told = [DEMONSTRATION] if self.demonstration else []
        alike: dict[str, list[str]] = {}
        for metric, outcome in self.evaluation.outcomes.items():
            counts = {row.n for row in outcome.leaderboard.rows if row.score is not None}
            if len(counts) > 1:
                alike.setdefault(f"{min(counts)} to {max(counts)} of {self.papers}", []).append(metric)
        told += [
            f"{', '.join(names)}: agents have scores on different papers ({papers}), so compare their differences from "
            "human, which use the same papers, not the scores."
            for papers, names in alike.items()
        ]
        if self.unlisted:
            told.append(f"In the study, but not in edition.toml: {', '.join(self.unlisted)}.")
        return [*told, *self.public.notes, *self._counted()]

    def _counted(self) -> list[str]:
        """A sentence per agent with missing, shortened or unusually formatted reviews."""
        told = []
        for row in self.written:
            parts = [f"{n} {cause}" for cause, n in row.missing.items()]
            parts += [f"{row.shortened} papers cut off"] * bool(row.shortened)
            parts += noticed(row.flags)
            scored = {
                metric: line.n
                for metric, outcome in self.evaluation.outcomes.items()
                for line in outcome.leaderboard.rows
                if line.agent == row.agent and line.n < row.written
            }
            parts += [f"{metric} on {n} of {row.written} reviews" for metric, n in scored.items()]
            if parts:
                told.append(f"{row.agent}: {', '.join(parts)}.")
        return told

    def as_json(self) -> dict[str, Any]:
        """The content of ``gre.json``."""
        return {
            "edition": self.name,
            "source": self.source,
            "demonstration": DEMONSTRATION if self.demonstration else None,
            "papers": self.papers,
            "left_out": dict(self.left_out),
            "unlisted": list(self.unlisted),
            "signatures": self.signatures,
            "written": [{**asdict(row), "noticed": noticed(row.flags)} for row in self.written],
            "contamination": None if self.clock is None else self.clock.as_json(),
            **self.public.as_json(),
            "standing": None if self.standing is None else self.standing.as_json(),
        }


def _cells(metric: str, row: LeaderboardRow) -> dict[str, Cell]:
    return {metric: row.score, f"{metric}_low": row.low, f"{metric}_high": row.high, f"{metric}_n": row.n}


def edition_scores(edition: Edition, study: Study, evaluation: Evaluation) -> EditionScores:
    """The results of an edition, from the evaluation of its study."""
    config = edition.config
    models = [agent.agent for agent in study.agents if not is_person(agent.agent)]
    submitted = {one.name for one in read_log(edition.folder)}
    outcomes = evaluation.outcomes
    clock = contamination_clock(
        study.agents,
        public_dates(study),
        {name: outcome.responses for name, outcome in outcomes.items()},
        signatures={name: outcome.signature for name, outcome in outcomes.items()},
        seed=config.score.seed,
        resamples=config.score.resamples,
        level=config.score.level,
    )
    drawn, collect = noted_draw(study), config.collect
    asked = edition.folder.resolve().name if collect is None else asked_source(collect, edition.folder)
    return EditionScores(
        name=edition.folder.resolve().name,
        source=asked if drawn is None else str(drawn["source"]),
        demonstration=config.demonstration,
        papers=len(study.tasks),
        left_out=dict(Counter(paper.reason for paper in left_out_papers(study)).most_common()),
        written=written_reviews(study),
        evaluation=evaluation,
        clock=clock if models else None,
        unlisted=tuple(model for model in models if model not in {*config.models, *submitted}),
    )


def written_reviews(study: Study) -> tuple[WrittenReviews, ...]:
    """The number of papers that each agent except the references reviewed, and why others are missing."""
    written = Counter(response.agent for _, responses in study for response in responses)
    noted = table_rows(study, GENERATIONS)
    found = []
    for agent in [agent.agent for agent in study.agents if not is_reference(agent.agent)]:
        counts = count_reviews(row for row in noted if row["agent"] == agent)
        unasked = len(study.tasks) - written[agent] - sum(counts.missing.values())
        missing = {**counts.missing, **({"not there": unasked} if unasked > 0 else {})}
        flags = dict(counts.flags)
        found.append(WrittenReviews(agent, len(study.tasks), written[agent], missing, flags, counts.shortened))
    return tuple(found)


def reviews_told(study: Study, *, demonstration: bool = False) -> dict[str, str]:
    """Settings of the reviews for signatures: how they were written, and whether they are invented."""
    table = study.table("generations")
    lines = [] if table is None else table["settings"].drop_nulls().unique(maintain_order=True).to_list()
    ways = [Signature.parse(line).settings for line in lines]
    told = {name: "+".join(dict.fromkeys(way[name] for way in ways if name in way)) for name in REVIEW_SETTINGS}
    invented = {"demonstration": "invented"} if demonstration else {}
    return invented | {f"review-{name}".replace("_", "-"): values for name, values in told.items() if values}


def save_scores(scores: EditionScores, folder: Path) -> None:
    """Write ``gre.json`` and ``gre.md`` into a run folder, and update its report."""
    write_text(folder / "gre.json", json.dumps(scores.as_json(), ensure_ascii=False, indent=2, allow_nan=False) + "\n")
    write_text(folder / "gre.md", "\n".join(table.to_markdown() for table in scores.tables()))
    finish_folder(folder, "gre", scores.evaluation.source, ())


def would_lose(folder: Path, scores: EditionScores) -> bool:
    """Whether the run folder has results that would be lost if these were written into it.

    They are there again where every leaderboard of before comes with the same signature, on all papers as on clean
    ones; a file of leaderboards that cannot be read is kept as well.
    """
    evaluation = scores.evaluation
    run = RunFolder(folder)
    if run.made_by.fingerprint not in {"", evaluation.fingerprint}:
        return True
    if any(isinstance(run.read(name), Unreadable) for name in ("leaderboard", "gre")):
        return True
    if run.leaderboard is not None and not run.leaderboard.metrics:
        return True
    new = {outcome.signature for outcome in evaluation.outcomes.values()}
    if evaluation.raters is not None:
        new.add(evaluation.raters.signature)
    if scores.clock is not None:
        new.update(line for lines in scores.clock.scope_signatures.values() for line in lines.values())
    old = set() if run.leaderboard is None else {metric.signature for metric in run.leaderboard.metrics.values()}
    if run.gre is not None and (clock := run.gre.contamination) is not None:
        old |= {clock.scope_signatures.get(row.get("metric"), {}).get(row.get("scope"), "") for row in clock.scores}
    return not old <= new


def free_name(folder: Path) -> Path:
    """A free name next to the folder: its name with the study's hash, and a number if that is taken."""
    name = f"{folder.name}-{(RunFolder(folder).made_by.fingerprint or 'before')[:8]}"
    found, number = folder.with_name(name), 1
    while found.exists():
        number += 1
        found = folder.with_name(f"{name}-{number}")
    return found
