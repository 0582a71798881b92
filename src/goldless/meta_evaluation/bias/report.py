"""What was found: every measured bias with its interval, what could not be measured, and the tables of both."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from goldless.meta_evaluation.bias.preferences import GAP
from goldless.meta_evaluation.bias.rows import Bias, BiasRow, Coverage, Unavailable
from goldless.reports.formats import code_line, markdown_cell
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.opening import Spending

STAR = "*: the interval, over ten tasks or more, does not hold the value of no bias"
COLUMNS = (
    "bias",
    "judge",
    "kind",
    "measure",
    "about",
    "value",
    "low",
    "high",
    "neutral",
    "shown",
    "asked",
    "used",
    "missing",
    "ties",
    "n_tasks",
    "level",
    "method",
    "note",
)


@dataclass(frozen=True, slots=True)
class GapMatrix:
    """Preference gaps as a square; the same on both sides of the diagonal."""

    reviewers: tuple[str, ...]
    gaps: Mapping[tuple[str, str], BiasRow]
    """By both orders of every pair."""

    def table(self, signature: str = "") -> ReportTable:
        """One row and one column a reviewer; a star: the interval lies beside 0."""
        names = {name: f"with {name}" for name in self.reviewers}
        rows = tuple({"PG": one, **{names[other]: self._cell(one, other) for other in names}} for one in names)
        columns = (Column("PG", "PG"), *(Column(key, name, "figure") for name, key in names.items()))
        return ReportTable("Preference gaps as a square", columns, rows, signature, _star(self.gaps.values()))

    def _cell(self, one: str, other: str) -> str | None:
        row = self.gaps.get((one, other))
        if row is None or row.value is None:
            return None
        return f"{row.value:+.4f}{'*' if row.shown else ''}"


@dataclass(frozen=True, slots=True)
class BiasReport:
    """The biases of reviewers, their panel and metrics on one study."""

    study: str
    fingerprint: str
    scale: str
    convention: str
    orders: str
    level: float
    reviewers: tuple[str, ...]
    weights: Mapping[str, float]
    """Of the panel's vote; empty: there is no panel."""
    metrics: tuple[str, ...]
    labels: Mapping[str, int]
    """Labelled pairs: all, decided, tied; empty: no labels."""
    coverage: tuple[Coverage, ...]
    rows: tuple[BiasRow, ...]
    unavailable: tuple[Unavailable, ...]
    signature: str
    review_signature: str | None = None
    """Of the judgements that were asked for now."""
    metric_signatures: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    spending: tuple[Spending, ...] = ()
    open: int = 0
    """Evidence missing for a cause that may pass: run again."""

    def of(self, bias: Bias) -> tuple[BiasRow, ...]:
        """The rows of one bias."""
        return tuple(row for row in self.rows if row.bias == bias)

    def row(self, bias: Bias, judge: str, measure: str, about: str | None = None) -> BiasRow:
        """One number; ``KeyError`` where it is not there."""
        for row in self.of(bias):
            if (row.judge, row.measure) == (judge, measure) and about in {None, row.about}:
                return row
        raise KeyError((bias, judge, measure, about))

    @property
    def complete(self) -> bool:
        """Whether another run of the same command would find nothing left to ask."""
        return self.open == 0

    def gap_matrix(self) -> GapMatrix | None:
        """The preference gaps as a square; None: there are none."""
        gaps: dict[tuple[str, str], BiasRow] = {}
        names: dict[str, None] = {}
        for row in self.of("self-preference"):
            if row.measure == GAP and row.pair is not None:
                one, other = row.pair
                gaps[one, other] = gaps[other, one] = row
                names |= {one: None, other: None}
        return GapMatrix(tuple(names), gaps) if gaps else None

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "study": self.study,
            "fingerprint": self.fingerprint,
            "scale": self.scale,
            "convention": self.convention,
            "orders": self.orders,
            "level": self.level,
            "reviewers": list(self.reviewers),
            "weights": dict(self.weights),
            "metrics": list(self.metrics),
            "labels": dict(self.labels),
            "coverage": [asdict(one) | {"missing": one.missing} for one in self.coverage],
            "rows": [{name: getattr(row, name) for name in COLUMNS} | {"pair": row.pair} for row in self.rows],
            "unavailable": [asdict(one) for one in self.unavailable],
            "notes": list(self.notes),
            "complete": self.complete,
            "signature": self.signature,
            "review_signature": self.review_signature,
            "metric_signatures": dict(self.metric_signatures),
        }

    def to_csv(self) -> str:
        """Comma-separated values; the signature is the last column of every row, so that no row travels without it."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*COLUMNS, "signature"])
        for row in self.rows:
            writer.writerow([*(getattr(row, name) for name in COLUMNS), self._signature(row)])
        return out.getvalue()

    def to_markdown(self) -> str:
        """One Markdown table a measure, what is not available, and the signatures."""
        parts = []
        for table in self.tables():
            parts += [f"### {markdown_cell(table.title)}", "", *table.markdown_lines(), ""]
        parts += [markdown_cell(STAR), ""]
        if self.unavailable:
            parts += ["Not measured:", "", *(f"- {markdown_cell(line)}" for line in self.unavailable_lines()), ""]
        return "\n".join([*parts, *map(code_line, self.signatures()), ""])

    def to_latex(self) -> str:
        """One LaTeX table a measure."""
        return "\n".join(table.to_latex() for table in self.tables())

    def signatures(self) -> list[str]:
        """How everything was made, one line each."""
        review = [] if self.review_signature is None else [self.review_signature]
        return [self.signature, *review, *self.metric_signatures.values()]

    def unavailable_lines(self) -> list[str]:
        """What could not be measured, one line each."""
        lines = []
        for one in self.unavailable:
            who = f" of {', '.join(one.judges)}" if one.judges else ""
            lines.append(f"{one.bias}{who}: {one.reason}")
        return lines

    def _signature(self, row: BiasRow) -> str:
        return f"{self.signature} {self.metric_signatures.get(row.judge, '')}".strip()

    def tables(self) -> list[ReportTable]:
        """Coverage, each measure, the preference gaps as a square."""
        columns = (
            Column("judge", "judge"),
            Column("of", ""),
            *(Column(name, name, "figure") for name in ("asked", "used", "missing")),
        )
        rows = tuple({**asdict(one), "missing": one.missing} for one in self.coverage)
        tables = [ReportTable("What is there", columns, rows, self.signature)]
        for bias in get_args(Bias):
            groups: dict[tuple[str, str | None], list[BiasRow]] = {}
            for row in self.of(bias):
                groups.setdefault((row.measure, row.about if bias == "favour rate" else None), []).append(row)
            tables += [self._table(rows, about) for (_, about), rows in groups.items()]
        matrix = self.gap_matrix()
        if matrix is not None and len(matrix.reviewers) > 2:
            tables.append(matrix.table(self.signature))
        return tables

    def _table(self, rows: Sequence[BiasRow], about: str | None) -> ReportTable:
        """One measure; ``about``: what all its rows are about."""
        named = about is None and any(row.about for row in rows)
        signed = rows[0].neutral == 0.0
        columns = (
            Column("judge", "judge"),
            *[Column("about", "family", absent="")] * named,
            Column("value", "value", "signed" if signed else "number", "missing"),
            Column("low high", f"{self.level * 100:g}% interval", "signed interval" if signed else "interval"),
            Column("used", "n", "figure"),
            Column("missing asked", "missing", "fraction"),
            Column("ties", "ties", "figure"),
            Column("n_tasks", "tasks", "figure"),
            Column("remark", "", absent=""),
        )
        values = tuple({**{name: getattr(row, name) for name in COLUMNS}, "remark": _remark(row)} for row in rows)
        title = _title(rows[0].bias, rows[0].measure, about, rows[0].neutral)
        return ReportTable(title, columns, values, self.signature, _star(rows))


def _star(rows: Iterable[BiasRow]) -> tuple[str, ...]:
    return (STAR,) if any(row.shown for row in rows) else ()


def _remark(row: BiasRow) -> Cell:
    return " ".join(part for part in ("*" * bool(row.shown), row.note) if part) or None


def _title(bias: Bias, measure: str, about: str | None, neutral: float | None) -> str:
    name = f"{bias.capitalize()}: {measure}" if about is None else f"{bias.capitalize()} of {about}: {measure}"
    return name if neutral is None else f"{name} (no bias: {neutral:g})"
