"""Results of an edition, as printed, as in ``gre.json`` and ``gre.md``, and as in the report and on the site."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from goldless.apps.gre.contamination import Clock, contamination_clock, public_dates
from goldless.apps.gre.edition import Edition, noted_draw, table_rows
from goldless.apps.gre.hidden_instructions import Holding, holding
from goldless.apps.gre.papers import is_person, is_reference
from goldless.apps.gre.preregistration import Registered, check_registration
from goldless.apps.gre.reviewing import WrittenReviews, noted_reviews, written_reviews
from goldless.apps.gre.standing import Standing
from goldless.apps.gre.submissions import Submissions, read_log, submission_results
from goldless.audit.finding import Finding
from goldless.files import write_text
from goldless.reports.document import HERE_ONLY, Unreadable, read_document, write
from goldless.reports.html.blocks import Block, code, fold, note, result_table, section, warning, words
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.evaluation import Evaluation
from goldless.runs.store import finish_folder
from goldless.studies import Study

FILE = "gre"
DEMONSTRATION = (
    "DEMONSTRATION, NOT A RESULT: the papers, the human reviews and the models named invented-… were made up to show "
    "how an edition works; their ranking was built in."
)


@dataclass(frozen=True, slots=True)
class EditionResult:
    """An edition's leaderboards, and notes on them."""

    edition: str
    source: str
    """The venue, or the folder's name."""
    demonstration: str | None
    """That the papers are invented; None: they are not."""
    papers: int
    left_out: Mapping[str, int]
    """Papers that could not be used, by reason."""
    unlisted: tuple[str, ...]
    """Models of the study that are not in the config."""
    signatures: Mapping[str, str]
    """By metric."""
    written: tuple[WrittenReviews, ...]
    contamination: Clock | None
    """None: no model has written reviews."""
    preregistered: Registered | None = None
    injected: Holding | None = None
    """Whether scores hold under hidden instructions; None: no paper has any."""
    submissions: Submissions | None = None
    standing: Standing | None = None
    """How firm the ranking of the edition's own results is; None: they are not there."""
    boards: Mapping[str, Any] = field(default_factory=dict, metadata=HERE_ONLY)
    """Leaderboards by metric: of the evaluation, or of the run folder that the rest was read from."""

    def table(self) -> ReportTable:
        """One row per agent with all metrics, sorted by the first; agents without reviews come last."""
        columns = [Column("agent", "agent"), Column("parameters", "size", "large")]
        columns.append(Column("written papers", "reviews", "fraction"))
        rows: dict[str, dict[str, Any]] = {}
        for metric, board in self.boards.items():
            columns.append(Column(metric, metric, "number", "missing", 2))
            columns.append(Column(f"{metric}_low {metric}_high", f"{board.level * 100:g}%", "interval", decimals=2))
            columns.append(Column(f"{metric}_n", "papers", "count", wide=True))
            for row in board.rows:
                scored = {metric: row.score, f"{metric}_low": row.low, f"{metric}_high": row.high, f"{metric}_n": row.n}
                rows.setdefault(row.agent, {"agent": row.agent}).update(scored)
        for mine in self.written:
            known = {name: getattr(mine, name) for name in ("agent", "written", "papers", "parameters")}
            rows.setdefault(mine.agent, {}).update(known)
        title, signature = f"GRE-bench, {self.source}: {self.papers} papers", " || ".join(self.signatures.values())
        return ReportTable(title, tuple(columns), tuple(rows.values()), signature, tuple(self._notes()))

    def tables(self) -> list[ReportTable]:
        """All tables: the metrics side by side, differences from human, the clock, its leaderboards, and the rest."""
        parts = (self.contamination, self.injected, self.submissions, self.standing)
        return [self.table(), *(table for part in parts if part is not None for table in part.tables())]

    def _notes(self) -> Iterator[str]:
        if self.demonstration is not None:
            yield self.demonstration
        yield from uneven_notes(self.boards)
        if self.unlisted:
            yield f"In the study, but not in edition.toml: {', '.join(self.unlisted)}."
        if self.preregistered is not None:
            yield f"The edition was {self.preregistered.sentence}."
        if self.left_out:
            reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in self.left_out.items())
            yield f"Left out when collecting: {reasons}."
        for mine in self.written:
            parts = [f"{n} {cause}" for cause, n in mine.missing.items()]
            parts += [f"{mine.shortened} papers cut off"] * bool(mine.shortened) + mine.noticed
            parts += [
                f"{metric} on {row.n} of {mine.written} reviews"
                for metric, board in self.boards.items()
                for row in board.rows
                if row.agent == mine.agent and row.n < mine.written
            ]
            if parts:
                yield f"{mine.agent}: {', '.join(parts)}."

    def findings(self) -> Iterator[Finding]:
        """What a reader of the ranking must know first."""
        if self.demonstration is not None:
            yield Finding("demonstration", (), self.demonstration)
        for mine in self.written:
            if not mine.written:
                yield Finding("no-review", (mine.agent,), f"{mine.agent} has no score because it has no review.")

    def save(self, folder: Path, study: Study | None) -> None:
        """Write ``gre.json`` and ``gre.md`` into a run folder, and update its report."""
        text = json.dumps(write(self), ensure_ascii=False, indent=2, allow_nan=False)
        write_text(folder / f"{FILE}.json", f"{text}\n")
        write_text(folder / f"{FILE}.md", "\n".join(table.to_markdown() for table in self.tables()))
        finish_folder(folder, FILE, study, ())


def edition_result(
    edition: Edition, study: Study, evaluation: Evaluation, hidden: Evaluation | None = None
) -> EditionResult:
    """The results of an edition, from the evaluation of its study, and of its papers with hidden instructions."""
    config, log, outcomes = edition.config, read_log(edition.folder), evaluation.outcomes
    draws, drawn = config.score.draws, noted_draw(study)
    agents = [agent for agent in study.agents if not is_reference(agent.agent)]
    models = [agent.agent for agent in agents if not is_person(agent.agent)]
    signatures = {name: outcome.signature for name, outcome in outcomes.items()}
    scores = {metric: outcome.responses for metric, outcome in outcomes.items()}
    written = Counter(response.agent for _, responses in study for response in responses)
    noted = noted_reviews(study).values()
    return EditionResult(
        edition=edition.name,
        source=edition.source if drawn is None else str(drawn["source"]),
        demonstration=DEMONSTRATION if config.demonstration else None,
        papers=len(study.tasks),
        left_out=dict(Counter(row["reason"] for row in table_rows(study, "left_out")).most_common()),
        unlisted=tuple(model for model in models if model not in {*config.models, *(one.name for one in log)}),
        signatures=signatures,
        written=tuple(written_reviews(agent, noted, len(study.tasks), written[agent.agent]) for agent in agents),
        contamination=contamination_clock(study.agents, public_dates(study), scores, signatures=signatures, **draws)
        if models
        else None,
        preregistered=check_registration(edition),
        injected=None if hidden is None else holding(edition.whole_study(), evaluation, hidden, draws),
        submissions=submission_results(log, study, evaluation, draws),
        boards={name: outcome.leaderboard for name, outcome in outcomes.items()},
    )


def uneven_notes(boards: Mapping[str, Any]) -> Iterator[str]:
    """Warnings of metrics under which agents have scores on different numbers of papers."""
    for metric, board in boards.items():
        if len({row.n for row in board.rows if row.score is not None}) > 1:
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
        yield warning(f"{found}.")
    if not isinstance(found, EditionResult):
        return
    yield words(f"{found.papers} papers from {found.source}. Each review is compared with the reference reviews.")
    for table in found.tables():
        yield from table_blocks(table, folded=found.contamination is not None and table in found.contamination.tables())


def table_blocks(table: ReportTable, *, folded: bool = False) -> Iterator[Block]:
    """A table with its notes and signatures; ``folded``: behind its title, where it has a signature."""
    columns = [replace(column, absent="-" if column.absent is None else column.absent) for column in table.narrow]
    blocks: list[Block] = [result_table(replace(table, columns=tuple(columns)))]
    blocks += [warning(text) if text == DEMONSTRATION else note(text) for text in table.notes]
    if table.signature:
        blocks.append(fold("Signature", tuple(map(code, table.signature.split(" || ")))))
    yield from [fold(table.title, blocks)] if folded and table.signature else blocks
