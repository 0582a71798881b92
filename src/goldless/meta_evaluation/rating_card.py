"""The results of a crash test and the rating card: as tables, plain data, a badge, and a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from goldless.files import write_text, write_whole
from goldless.meta_evaluation.perturbations.perturbation import Kind, Must, PerturbedText
from goldless.models.interface import content_hash
from goldless.reports.formats import Colour, badge_svg
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.store import check_writable, finish_folder
from goldless.statistics.effects import EffectSize
from goldless.studies import Study

Rating = Literal["pass", "fail", "not shown"]
RATINGS: tuple[Rating, ...] = ("pass", "fail", "not shown")
Key = tuple[str, str]
"""Task and agent."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The responses to perturb, with the peers each is compared with."""

    peers: Mapping[Key, tuple[str, ...]]
    of: int
    """Number of eligible responses."""

    @property
    def references(self) -> tuple[Key, ...]:
        """The responses used as peers, each once."""
        return tuple(dict.fromkeys((task, peer) for (task, _), peers in self.peers.items() for peer in peers))


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
    smd: EffectSize
    """Pooled, as the paper defines it."""
    paired: EffectSize
    """Mean difference / standard deviation of the differences."""
    p: float | None
    """One-sided: that the metric does what it must; of the same distribution as the interval of ``smd``."""
    p_holm: float | None
    """Corrected for all perturbations of the metric."""
    samples: int
    """Number of pairs with both scores, or of responses if the metric scores no pairs."""
    responses: int
    """Number of responses to perturb."""
    unchanged: int
    """Number of these that the perturbation did not change; they are not part of the effect."""
    not_made: int
    """Number of these that could not be perturbed."""
    missing: int
    """Samples without one of the two scores."""


@dataclass(frozen=True, slots=True)
class CrashTest:
    """The effects of perturbations on metrics."""

    source: Study
    """The name of the study."""
    results: tuple[CrashResult, ...]
    signatures: Mapping[str, str]
    """By metric."""
    perturbed: tuple[PerturbedText, ...]
    candidates: Candidates
    margin: float
    level: float
    spending: tuple[Spending, ...] = ()
    problems: Mapping[str, int] = field(default_factory=dict)
    """Why texts, evidence or scores are missing, with counts."""
    asked: int = 0
    """Number of texts and pieces of evidence requested from models."""
    open: int = 0
    """Number of these missing for a temporary cause: the same command would try them again."""

    @property
    def study(self) -> str:
        """Name of the study."""
        return self.source.name

    def of(self, metric: str) -> tuple[CrashResult, ...]:
        """The results of one metric."""
        return tuple(result for result in self.results if result.metric == metric)

    @property
    def unscored(self) -> tuple[str, ...]:
        """Metrics that scored no changed response."""
        return tuple(
            metric
            for metric in self.metrics
            if any(one.missing for one in self.of(metric)) and not any(one.samples for one in self.of(metric))
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, in order."""
        return tuple(self.signatures)

    def count(self, metric: str, rating: Rating) -> int:
        """The number of perturbations with this rating for a metric."""
        return sum(result.rating == rating for result in self.of(metric))


# --- the card --------------------------------------------------------------------------------------------------------

READING = (
    "↓: must fall; ≤: must not rise. SMD: standardised mean difference, (mean after - mean before) / pooled standard "
    "deviation, with its {level:g} % interval from leaving each task out in turn. d: mean difference / standard "
    "deviation of the differences. p: one-sided, that the metric does what it must; of the same distribution as the "
    "interval. n: pairs, or responses if the metric scores no pairs. same: responses that the perturbation "
    "did not change; they are not part of the effect. A degradation passes if the whole interval is below 0, and "
    "otherwise fails if it is above -{margin:g}. A manipulation passes if it is below {margin:g}, and otherwise fails "
    "if it is above 0. Anything else is not shown."
)
EFFECTS = {"smd": "smd", "paired": "paired_d"}
"""Fields of a result that are effects, with their column names."""
MARKS: Mapping[Must, str] = {"fall": "↓", "not rise": "≤"}


def reading(test: CrashTest) -> str:
    """How to read the card."""
    return READING.format(level=100 * test.level, margin=test.margin)


def metric_table(test: CrashTest, metric: str) -> ReportTable:
    """The results of one metric, one row per perturbation."""
    results = test.of(metric)
    columns = (
        NAMES,
        Column("must", "must", wide=True),
        Column("smd", "SMD", "number", decimals=2),
        Column("smd_low smd_high", f"{100 * test.level:g} %", "interval", decimals=2),
        Column("paired_d", "d", "number", decimals=2),
        Column("p", "p", "probability"),
        Column("samples", "n", "count"),
        Column("tasks", "tasks", "count", wide=True),
        *([Column("unchanged", "same", "count")] if any(result.unchanged for result in results) else ()),
        *([Column("missing", "missing", "count")] if any(result.missing for result in results) else ()),
        *([Column("not_made", "not made", "count")] if any(result.not_made for result in results) else ()),
        Column("rating", "rating"),
    )
    counts = ", ".join(f"{test.count(metric, rating)} {rating}" for rating in RATINGS)
    return ReportTable(
        f"{metric}: {counts}",
        columns,
        tuple({"marked": _marked(one), **_row(one)} for one in results),
        test.signatures[metric],
        notes=tuple(
            f"{one.perturbation}: {one.rating}, {one.smd.note or one.reason}"
            for one in results
            if one.rating == "not shown" or one.smd.value is None
        ),
    )


NAMES = Column("marked", "perturbation")


def _marked(result: CrashResult) -> str:
    return f"{MARKS[result.must]} {result.perturbation}"


def overview_table(test: CrashTest) -> ReportTable:
    """All metrics side by side: effect and rating of each perturbation."""
    by_key = {(result.metric, result.perturbation): result for result in test.results}
    rows: list[Mapping[str, Cell]] = []
    for result in test.of(test.metrics[0]):
        cells: dict[str, Cell] = {"marked": _marked(result), "must": result.must}
        for metric in test.metrics:
            one = by_key[metric, result.perturbation]
            value = "" if one.smd.value is None else f"{one.smd.value:+.2f} "
            cells[metric] = f"{value}{one.rating}"
        rows.append(cells)
    columns = (NAMES, Column("must", "must", wide=True))
    return ReportTable(
        f"Crash test on {test.study}", (*columns, *(Column(name, name) for name in test.metrics)), tuple(rows)
    )


def card_tables(test: CrashTest) -> list[ReportTable]:
    """The tables of all metrics, then, if there are several, all side by side."""
    overview = [overview_table(test)] if len(test.metrics) > 1 else []
    return [*(metric_table(test, metric) for metric in test.metrics), *overview]


def _row(result: CrashResult) -> dict[str, Cell]:
    """The result with its effects flat."""
    row: dict[str, Cell] = {}
    for name, value in asdict(result).items():
        if name in EFFECTS:
            row[EFFECTS[name]] = value["value"]
            row |= {f"{EFFECTS[name]}_{end}": value[end] for end in ("low", "high")}
        else:
            row[name] = value
        if name == "samples":
            row["tasks"] = result.smd.n
    return {**row, "note": result.smd.note}


def card_json(test: CrashTest) -> dict[str, Any]:
    """The crash test as plain data. Nothing in it depends on when or how fast it ran."""
    return {
        "study": test.study,
        "margin": test.margin,
        "level": test.level,
        "responses": len(test.candidates.peers),
        "responses_there_are": test.candidates.of,
        "problems": dict(test.problems or {}),
        "metrics": {
            metric: {
                "signature": test.signatures[metric],
                "counts": {rating: test.count(metric, rating) for rating in RATINGS},
                "perturbations": [_row(result) for result in test.of(metric)],
            }
            for metric in test.metrics
        },
    }


def card_csv(test: CrashTest) -> str:
    """One row per metric and perturbation."""
    names = list(_row(test.results[0]))
    rows = [{**_row(result), "signature": test.signatures[result.metric]} for result in test.results]
    return ReportTable("", tuple(Column(name, name) for name in (*names, "signature")), tuple(rows)).to_csv()


def badge(test: CrashTest, metric: str) -> tuple[str, Colour]:
    """The text and colour of a metric's badge."""
    passed, failed = test.count(metric, "pass"), test.count(metric, "fail")
    colour: Colour = "red" if failed else "green" if passed == len(test.of(metric)) else "grey"
    return f"{passed}/{len(test.of(metric))} passed{f', {failed} failed' * bool(failed)}", colour


def badge_file(metric: str) -> str:
    """The file name of a metric's badge."""
    plain = re.sub(r"[^a-z0-9]+", "-", metric.lower()).strip("-")
    # names that differ only in what a file name cannot hold keep files of their own
    return f"badge_{plain if plain == metric else f'{plain[:60]}-{content_hash(metric)[:6]}'}.svg"


def card_markdown(test: CrashTest) -> str:
    """The whole card as Markdown, starting with one badge per metric."""
    badges = [f"![crash test of {m}: {badge(test, m)[0]}]({badge_file(m)})" for m in test.metrics]
    *tables, last = [table.to_markdown() for table in card_tables(test)]
    overview_first = [last, *tables] if tables else [last]
    return "\n".join([*badges, "", *overview_first, reading(test), ""])


def save_crash_test(test: CrashTest, folder: Path | str) -> Path:
    """Write the card, its badges, and every changed text; each file is written atomically."""
    folder = Path(folder)
    check_writable(folder, test.source)
    write_text(folder / "crash_test.json", json.dumps(card_json(test), ensure_ascii=False, indent=2) + "\n")
    write_text(folder / "crash_test.md", card_markdown(test))
    write_text(folder / "crash_test.csv", card_csv(test))
    for old in folder.glob("badge_*.svg"):
        old.unlink()
    for metric in test.metrics:
        message, colour = badge(test, metric)
        write_text(folder / badge_file(metric), badge_svg(f"{metric} crash test", message, colour))
    names = ("task", "agent", "perturbation", "text")
    schema = {**dict.fromkeys(names, pl.String), "unchanged": pl.Boolean, "failure": pl.String}
    rows = [
        {**{name: getattr(one, name) for name in schema}, "failure": one.failure and one.failure.kind}
        for one in test.perturbed
    ]
    write_whole(folder / "perturbed.parquet", pl.DataFrame(rows, schema=schema).write_parquet)
    return finish_folder(folder, "crashtest", test.source, test.spending)
