"""What an edition says: the metrics side by side, how many reviews agents wrote, and on which papers they are clean."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from goldless.files import write_text
from goldless.gre_bench.contamination import Clock, Scope, contamination_clock, public_dates
from goldless.gre_bench.edition import Edition
from goldless.gre_bench.noted_draw import asked_source, noted_draw
from goldless.gre_bench.papers import is_person, is_reference
from goldless.gre_bench.review_sections import noticed
from goldless.metrics.metric import response_rows
from goldless.reports.leaderboard import LeaderboardRow
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.evaluation import Evaluation
from goldless.runs.store import finish_folder
from goldless.studies import Study

REVIEW_SETTINGS = ("prompt", "max_tokens", "temperature", "truncate", "cut")
"""What signatures say of how reviews were asked for."""
DEMONSTRATION = (
    "DEMONSTRATION, NOT A RESULT: the papers, the human reviews and the models called invented-… were made up to show "
    "how an edition is made; the order in which they come out was written into them."
)


@dataclass(frozen=True, slots=True)
class WrittenReviews:
    """How far an agent came with its reviews."""

    agent: str
    papers: int
    written: int
    missing: Mapping[str, int]
    """Papers without a review of it, by cause."""
    flags: Mapping[str, int]
    """What was noticed in reading its replies, with how often."""
    shortened: int
    """Papers whose end it was not shown."""


@dataclass(frozen=True, slots=True)
class EditionScores:
    """An edition's leaderboards, and what a reader of them must know."""

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
    """None: no model has reviewed."""
    unlisted: tuple[str, ...] = ()
    """Models of the study that the config does not name."""

    @property
    def signatures(self) -> dict[str, str]:
        """How the numbers were made, by metric."""
        return {name: outcome.signature for name, outcome in self.evaluation.outcomes.items()}

    def table(self) -> ReportTable:
        """Agents by the first metric, with every metric beside the others; last those without any review."""
        boards = {name: outcome.leaderboard for name, outcome in self.evaluation.outcomes.items()}
        columns = [Column("agent", "agent", least=8), Column("parameters", "size", "large")]
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
        """All that people read: the metrics side by side, differences to human, the clock, and its leaderboards."""
        clock = self.clock
        if clock is None:
            return [self.table()]
        metrics = list(dict.fromkeys(row.metric for row in clock.scores))
        there = {row.scope for row in clock.scores}
        scopes: list[Scope] = [scope for scope in ("common", "own") if scope in there]
        everywhere = [clock.leaderboard(metric, "all") for metric in metrics]
        clean = [clock.leaderboard(metric, scope) for metric in metrics for scope in scopes]
        return [self.table(), *everywhere, clock.table(), *clean]

    def _notes(self) -> list[str]:
        """What a reader of the metrics side by side must know."""
        told = [DEMONSTRATION] if self.demonstration else []
        alike: dict[str, list[str]] = {}
        for metric, outcome in self.evaluation.outcomes.items():
            counts = {row.n for row in outcome.leaderboard.rows if row.score is not None}
            if len(counts) > 1:
                alike.setdefault(f"{min(counts)} to {max(counts)} of {self.papers}", []).append(metric)
        told += [
            f"{', '.join(names)}: agents stand on different papers ({papers}), so compare their differences to human, "
            "which are taken on the same papers, not the scores."
            for papers, names in alike.items()
        ]
        if self.unlisted:
            told.append(f"Not among the models of edition.toml, but in the study: {', '.join(self.unlisted)}.")
        return [*told, *self._counted()]

    def _counted(self) -> list[str]:
        """A sentence for each agent that has reviews missing, shortened or oddly formed."""
        told = []
        for row in self.written:
            parts = [f"{n} {cause}" for cause, n in row.missing.items()]
            parts += [f"{row.shortened} papers cut to fit"] * bool(row.shortened)
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
        """What stands in ``gre.json`` beside the run's own results."""
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
        }


def _cells(metric: str, row: LeaderboardRow) -> dict[str, Cell]:
    return {metric: row.score, f"{metric}_low": row.low, f"{metric}_high": row.high, f"{metric}_n": row.n}


def edition_scores(edition: Edition, study: Study, evaluation: Evaluation) -> EditionScores:
    """What an edition says, from the evaluation of its study."""
    config = edition.config
    models = [agent.agent for agent in study.agents if not is_person(agent.agent)]
    outcomes = evaluation.outcomes
    clock = contamination_clock(
        study.agents,
        public_dates(study),
        {name: response_rows(outcome.responses) for name, outcome in outcomes.items()},
        signatures={name: outcome.signature for name, outcome in outcomes.items()},
        seed=config.score.seed,
        resamples=config.score.resamples,
        level=config.score.level,
    )
    drawn, collect = noted_draw(study), config.collect
    asked = edition.folder.resolve().name if collect is None else asked_source(collect, edition.folder)
    left = study.table("left_out")
    return EditionScores(
        name=edition.folder.resolve().name,
        source=asked if drawn is None else str(drawn["source"]),
        demonstration=config.demonstration,
        papers=len(study.tasks),
        left_out={} if left is None else dict(Counter(left["reason"].to_list()).most_common()),
        written=written_reviews(study),
        evaluation=evaluation,
        clock=clock if models else None,
        unlisted=tuple(model for model in models if model not in config.models),
    )


def written_reviews(study: Study) -> tuple[WrittenReviews, ...]:
    """How many papers each agent but the references reviewed, and why it did not review the others."""
    written = Counter(response.agent for _, responses in study for response in responses)
    table = study.table("generations")
    noted = [] if table is None else table.to_dicts()
    found = []
    for agent in study.agents:
        if is_reference(agent.agent):
            continue
        mine = [row for row in noted if row["agent"] == agent.agent]
        missing = Counter(str(row["failure"]) for row in mine if row["failure"])
        open_tasks = len(study.tasks) - written[agent.agent] - sum(missing.values())
        flags = Counter(flag for row in mine for flag in row["flags"] or ())
        found.append(
            WrittenReviews(
                agent.agent,
                len(study.tasks),
                written[agent.agent],
                {**missing, **({"not there": open_tasks} if open_tasks > 0 else {})},
                dict(flags),
                sum(bool(row.get("characters_cut")) for row in mine),
            )
        )
    return tuple(found)


def reviews_told(study: Study, *, demonstration: bool = False) -> dict[str, str]:
    """What signatures say of reviews: how models were asked for them, of several ways all; if they are invented."""
    table = study.table("generations")
    lines = [] if table is None else table["settings"].drop_nulls().unique(maintain_order=True).to_list()
    ways = [dict(part.split(":", 1) for part in line.split("|")[1:] if ":" in part) for line in lines]
    told = {name: "+".join(dict.fromkeys(way[name] for way in ways if name in way)) for name in REVIEW_SETTINGS}
    invented = {"demonstration": "invented"} if demonstration else {}
    return invented | {f"review-{name}".replace("_", "-"): values for name, values in told.items() if values}


def save_scores(scores: EditionScores, folder: Path) -> None:
    """Write ``gre.json`` and ``gre.md`` into a run folder, and its report anew."""
    write_text(folder / "gre.json", json.dumps(scores.as_json(), ensure_ascii=False, indent=2, allow_nan=False) + "\n")
    write_text(folder / "gre.md", "\n".join(table.to_markdown() for table in scores.tables()))
    finish_folder(folder, "gre", scores.evaluation.source, ())
