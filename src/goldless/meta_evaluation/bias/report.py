"""What was found: every measured bias with its interval, what could not be measured, and the tables of both."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from goldless.meta_evaluation.bias.preference import GAP
from goldless.meta_evaluation.bias.rows import Bias, BiasRow, Coverage, Unavailable
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

    def cells(self) -> list[list[str]]:
        """Header and rows; a star: the interval lies beside 0."""
        rows = ([one, *(self._cell(one, other) for other in self.reviewers)] for one in self.reviewers)
        return [["PG", *self.reviewers], *rows]

    def _cell(self, one: str, other: str) -> str:
        row = self.gaps.get((one, other))
        if row is None or row.value is None:
            return "-"
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
        for title, lines in self._tables():
            parts += [f"### {title}", "", *_markdown(lines), ""]
        parts += [_markdown_cell(STAR), ""]
        if self.unavailable:
            parts += ["Not measured:", "", *(f"- {_markdown_cell(line)}" for line in self.unavailable_lines()), ""]
        return "\n".join([*parts, *(f"`{line}`" for line in self.signatures()), ""])

    def to_rich(self) -> RenderableType:
        """One table a measure for the terminal, then what is not available; the signatures are printed below it."""
        parts: list[RenderableType] = [_rich(title, lines) for title, lines in self._tables()]
        parts.append(_text(STAR))
        if self.unavailable:
            parts.append(_text("Not measured:"))
            parts += [_text(f"  {line}") for line in self.unavailable_lines()]
        return Group(*parts)

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

    def _tables(self) -> list[tuple[str, list[list[str]]]]:
        """Title and cells of every table: coverage, each measure, the preference gaps as a square."""
        cover = [["judge", "", "asked", "used", "missing"]]
        cover += [[one.judge, one.of, str(one.asked), str(one.used), str(one.missing)] for one in self.coverage]
        tables = [("What is there", cover)]
        for bias in get_args(Bias):
            groups: dict[tuple[str, str | None], list[BiasRow]] = {}
            for row in self.of(bias):
                groups.setdefault((row.measure, row.about if bias == "favour rate" else None), []).append(row)
            for (measure, about), rows in groups.items():
                tables.append((_title(bias, measure, about, rows[0].neutral), self._cells(rows, about)))
        matrix = self.gap_matrix()
        if matrix is not None and len(matrix.reviewers) > 2:
            tables.append(("Preference gaps as a square", matrix.cells()))
        return tables

    def _cells(self, rows: list[BiasRow], about: str | None) -> list[list[str]]:
        named = about is None and any(row.about for row in rows)
        wide = f"{self.level * 100:g}% interval"
        table = [["judge", *["family"] * named, "value", wide, "n", "missing", "ties", "tasks", ""]]
        for row in rows:
            signed = row.neutral == 0.0
            bounded = row.low is not None
            interval = f"{_number(row.low, signed=signed)} … {_number(row.high, signed=signed)}" if bounded else "-"
            table.append(
                [
                    row.judge,
                    *[row.about or ""] * named,
                    _number(row.value, signed=signed),
                    interval,
                    str(row.used),
                    f"{row.missing}/{row.asked}",
                    str(row.ties),
                    str(row.n_tasks),
                    " ".join(part for part in ("*" * bool(row.shown), row.note) if part),
                ]
            )
        return table


def _title(bias: Bias, measure: str, about: str | None, neutral: float | None) -> str:
    name = f"{bias.capitalize()}: {measure}" if about is None else f"{bias.capitalize()} of {about}: {measure}"
    return name if neutral is None else f"{name} (no bias: {neutral:g})"


def _number(value: float | None, *, signed: bool) -> str:
    if value is None:
        return "missing"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


def _markdown(lines: list[list[str]]) -> list[str]:
    header, *rest = lines
    table = ["| " + " | ".join(map(_markdown_cell, header)) + " |", "|" + " --- |" * len(header)]
    return [*table, *("| " + " | ".join(map(_markdown_cell, line)) + " |" for line in rest)]


def _markdown_cell(text: str) -> str:
    """The text on one line, its bars and HTML taken literally."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("*", "\\*")


def _rich(title: str, lines: list[list[str]]) -> Table:
    table = Table(title=_text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    header, *rest = lines
    for place, name in enumerate(header):
        words = place == 0 or name in {"family", ""}
        table.add_column(_text(name), justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for line in rest:
        table.add_row(*map(_text, line))
    return table


def _text(cell: str) -> Text:
    # a name may hold what a terminal takes for a command
    return Text("".join(ch for ch in cell if ch.isprintable()))
