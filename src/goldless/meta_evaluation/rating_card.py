"""The result of a crash test: the rating card with its tables and sentences, badges, and a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from goldless.files import write_text, write_whole
from goldless.meta_evaluation.perturbations.perturbation import Kind, Must, PerturbedText
from goldless.models.interface import content_hash
from goldless.reports.document import HERE_ONLY, write
from goldless.reports.findings import Name, Said, named
from goldless.reports.formats import Colour, badge_svg
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.store import save_result
from goldless.studies import Study

Rating = Literal["pass", "fail", "not shown"]
RATINGS: tuple[Rating, ...] = ("pass", "fail", "not shown")


@dataclass(frozen=True, slots=True)
class CrashResult:
    """One metric under one perturbation."""

    metric: str
    perturbation: str
    kind: Kind
    must: Must
    rating: Rating
    reason: str
    """The reason for the rating."""
    mean_before: float | None
    mean_after: float | None
    smd: float | None
    """Pooled standardised mean difference, as the paper defines it; None: not defined, ``note`` says why."""
    smd_low: float | None
    """None: no interval, ``note`` says why."""
    smd_high: float | None
    paired_d: float | None
    """Mean difference / standard deviation of the differences."""
    paired_d_low: float | None
    paired_d_high: float | None
    p: float | None
    """One-sided: that the metric does what it must; of the same distribution as the interval of ``smd``."""
    p_holm: float | None
    """Corrected for all perturbations of the metric."""
    samples: int
    """Number of pairs with both scores, or of responses if the metric scores no pairs."""
    tasks: int
    """Number of tasks with such a pair."""
    responses: int
    """Number of responses to perturb."""
    unchanged: int
    """Number of these that the perturbation did not change; they are not part of the effect."""
    not_made: int
    """Number of these that could not be perturbed."""
    missing: int
    """Samples without one of the two scores."""
    note: str | None = None
    """What there is to know about ``smd``."""


@dataclass(frozen=True, slots=True)
class CrashCard:
    """One metric under all perturbations."""

    signature: str
    perturbations: tuple[CrashResult, ...]
    KEYS = ("signature", "counts", "perturbations")

    @property
    def counts(self) -> dict[str, int]:
        return {rating: sum(one.rating == rating for one in self.perturbations) for rating in RATINGS}


@dataclass(frozen=True, slots=True)
class CrashTest:
    """The effects of perturbations on metrics."""

    study: str
    """Name of the study."""
    margin: float
    """Smaller effects count as none."""
    level: float
    responses: int
    """Number of responses that were perturbed."""
    responses_there_are: int
    """Number of eligible responses."""
    problems: Mapping[str, int]
    """Why texts, evidence or scores are missing, with counts."""
    metrics: Mapping[str, CrashCard]
    """By name, in order."""
    source: Study | None = field(default=None, metadata=HERE_ONLY)
    """The study; None: the test was read from a file."""
    perturbed: tuple[PerturbedText, ...] = field(default=(), metadata=HERE_ONLY)
    peers: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict, metadata=HERE_ONLY)
    """The agents that each perturbed response, by task and agent, was compared with."""
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)
    asked: int = field(default=0, metadata=HERE_ONLY)
    """Number of texts and pieces of evidence requested from models."""
    open: int = field(default=0, metadata=HERE_ONLY)
    """Number of these missing for a temporary cause: the same command would try them again."""

    @property
    def results(self) -> tuple[CrashResult, ...]:
        return tuple(one for card in self.metrics.values() for one in card.perturbations)

    @property
    def unscored(self) -> tuple[str, ...]:
        return tuple(
            metric
            for metric, card in self.metrics.items()
            if any(one.missing for one in card.perturbations) and not any(one.samples for one in card.perturbations)
        )

    def findings(self) -> Iterator[Said]:
        for metric, card in self.metrics.items():
            failed = [row.perturbation for row in card.perturbations if row.rating == "fail"]
            undecided = card.counts["not shown"]
            said = f" passes {card.counts['pass']} of {len(card.perturbations)} crash tests"
            fails: Said = (", fails ", *named(failed, 6)) if failed else (", fails none",)
            yield (Name(metric), said, *fails, f"; {undecided} undecided." if undecided else ".")

    def tables(self) -> list[ReportTable]:
        overview = [self.overview()] if len(self.metrics) > 1 else []
        return [*map(self.table, self.metrics), *overview]

    def table(self, metric: str) -> ReportTable:
        card = self.metrics[metric]
        results = card.perturbations
        columns = (
            NAMES,
            Column("must", "must", wide=True),
            Column("smd", "SMD", "number", decimals=2),
            Column("smd_low smd_high", f"{100 * self.level:g} %", "interval", "-", 2),
            Column("paired_d", "d", "number", "-", 2),
            Column("p", "p", "probability", "-"),
            Column("samples", "n", "count"),
            Column("tasks", "tasks", "count", wide=True),
            *([Column("unchanged", "same", "count")] if any(one.unchanged for one in results) else ()),
            *([Column("missing", "missing", "count")] if any(one.missing for one in results) else ()),
            *([Column("not_made", "not made", "count")] if any(one.not_made for one in results) else ()),
            Column("rating", "rating"),
            Column("reason", "why", wide=True),
            Column("mean_before", "mean before", "number", "-", 3, wide=True),
            Column("mean_after", "mean after", "number", "-", 3, wide=True),
        )
        return ReportTable(
            f"{metric}: {', '.join(f'{count} {rating}' for rating, count in card.counts.items())}",
            columns,
            tuple({"marked": _marked(one), **write(one)} for one in results),
            card.signature,
            notes=tuple(
                f"{one.perturbation}: {one.rating}, {one.note or one.reason}"
                for one in results
                if one.rating == "not shown" or one.smd is None
            ),
        )

    def overview(self) -> ReportTable:
        rows: dict[str, dict[str, Cell]] = {}
        for one in self.results:
            value = "" if one.smd is None else f"{one.smd:+z.2f} "
            row = rows.setdefault(one.perturbation, {"marked": _marked(one), "must": one.must})
            row[one.metric] = f"{value}{one.rating}"
        columns = (NAMES, Column("must", "must", wide=True), *(Column(name, name) for name in self.metrics))
        return ReportTable(f"Crash test on {self.study}", columns, tuple(rows.values()))

    def to_csv(self) -> str:
        rows = [
            {**write(one), "signature": card.signature} for card in self.metrics.values() for one in card.perturbations
        ]
        return ReportTable("", tuple(Column(name, name) for name in rows[0]), tuple(rows)).to_csv()

    def to_markdown(self) -> str:
        badges = [f"![crash test of {m}: {badge(card)[0]}]({badge_file(m)})" for m, card in self.metrics.items()]
        *tables, last = [table.to_markdown() for table in self.tables()]
        return "\n".join([*badges, "", last, *tables, self.reading, ""])

    @property
    def reading(self) -> str:
        return READING.format(level=100 * self.level, margin=self.margin)


READING = (
    "↓: must fall; ≤: must not rise. SMD: standardised mean difference, (mean after - mean before) / pooled standard "
    "deviation, with its {level:g} % interval from leaving each task out in turn. d: mean difference / standard "
    "deviation of the differences. p: one-sided, that the metric does what it must; of the same distribution as the "
    "interval. n: pairs, or responses if the metric scores no pairs. same: responses that the perturbation "
    "did not change; they are not part of the effect. A degradation passes if the whole interval is below 0, and "
    "otherwise fails if it is above -{margin:g}. A manipulation passes if it is below {margin:g}, and otherwise fails "
    "if it is above 0. Anything else is not shown."
)
MARKS: Mapping[Must, str] = {"fall": "↓", "not rise": "≤"}
NAMES = Column("marked", "perturbation", "name")


def _marked(result: CrashResult) -> str:
    return f"{MARKS[result.must]} {result.perturbation}"


# --- the folder ------------------------------------------------------------------------------------------------------


def badge(card: CrashCard) -> tuple[str, Colour]:
    """The text and colour of a metric's badge."""
    passed, failed, tried = card.counts["pass"], card.counts["fail"], len(card.perturbations)
    colour: Colour = "red" if failed else "green" if passed == tried else "grey"
    return f"{passed}/{tried} passed{f', {failed} failed' * bool(failed)}", colour


def badge_file(metric: str) -> str:
    """The file name of a metric's badge."""
    plain = re.sub(r"[^a-z0-9]+", "-", metric.lower()).strip("-")
    # names that differ only in what a file name cannot hold keep files of their own
    return f"badge_{plain if plain == metric else f'{plain[:60]}-{content_hash(metric)[:6]}'}.svg"


def save_crash_test(test: CrashTest, folder: Path | str) -> Path:
    """Write the card, its badges, and every changed text; each file is written atomically."""
    text, spending = test.to_markdown(), test.spending
    folder = save_result(
        test.source, folder, verb="crashtest", name="crash_test", data=write(test), markdown=text, spending=spending
    )
    write_text(folder / "crash_test.csv", test.to_csv())
    for old in folder.glob("badge_*.svg"):
        old.unlink()
    for metric, card in test.metrics.items():
        message, colour = badge(card)
        write_text(folder / badge_file(metric), badge_svg(f"{metric} crash test", message, colour))
    schema = {**dict.fromkeys(("task", "agent", "perturbation", "text"), pl.String), "unchanged": pl.Boolean}
    rows = [(*(getattr(one, name) for name in schema), one.failure and one.failure.kind) for one in test.perturbed]
    write_whole(
        folder / "perturbed.parquet",
        pl.DataFrame(rows, schema={**schema, "failure": pl.String}, orient="row").write_parquet,
    )
    return folder
