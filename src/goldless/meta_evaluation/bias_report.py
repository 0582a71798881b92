"""The bias report: every measured bias with its interval, what could not be measured, and the tables of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from goldless.meta_evaluation.judges import Kind
from goldless.reports.document import HERE_ONLY, write
from goldless.reports.findings import Name, Said
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.opening import Spending
from goldless.statistics.bootstrap import FEW_TASKS, Method

Bias = Literal["position", "length", "format", "self-preference", "family preference", "favour rate"]
JudgeKind = Kind | Literal["people", "reviewers"]
NO_SPREAD = "no interval: all tasks give the same value"
STAR = "*: with at least ten tasks, the interval excludes the value of no bias"
COLUMNS = (
    *("bias", "judge", "kind", "measure", "about", "value", "low", "high", "neutral", "shown", "asked", "used"),
    *("missing", "ties", "n_tasks", "level", "method", "note"),
)
"""The fields of a number, in this order."""


@dataclass(frozen=True, slots=True)
class BiasRow:
    """One number about one judge."""

    bias: Bias
    judge: str
    kind: JudgeKind
    measure: str
    """What the value is, in words."""
    value: float | None
    """None: not defined, ``note`` says why."""
    low: float | None
    """Interval from resampling tasks; None: ``note`` says why."""
    high: float | None
    neutral: float | None
    """The value of a judge without this bias; None: not known, for example because better responses may be longer."""
    asked: int
    """Number of pairs, verdicts or responses that the measure is about."""
    used: int
    n_tasks: int
    level: float
    ties: int = 0
    """Number of those used that found neither better."""
    about: str | None = None
    """The agents it is about, if given."""
    method: Method | None = None
    note: str | None = None
    pair: tuple[str, str] | None = None
    """For a preference gap: the two reviewers."""
    KEYS = (*COLUMNS, "pair")

    @property
    def missing(self) -> int:
        """Requested but not used: unparsable, refused, or without a score."""
        return self.asked - self.used

    @property
    def shown(self) -> bool | None:
        """Whether the interval excludes the neutral value.

        None: there is no interval or no neutral value, or there are fewer than ten tasks, too few to trust it.
        """
        if self.neutral is None or self.low is None or self.high is None or self.n_tasks < FEW_TASKS:
            return None
        return not self.low <= self.neutral <= self.high


@dataclass(frozen=True, slots=True)
class Unavailable:
    """What could not be measured, and why."""

    bias: Bias
    reason: str
    judges: tuple[str, ...] = ()
    """The judges concerned; empty: all."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of what was requested from a judge is present."""

    judge: str
    kind: JudgeKind
    of: str
    """What is counted: judgements, or responses scored."""
    asked: int
    used: int
    KEYS = ("*", "missing")

    @property
    def missing(self) -> int:
        """Unparsable, refused, failed or without a score."""
        return self.asked - self.used


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
    """Weights of the panel's vote; empty: there is no panel."""
    metrics: tuple[str, ...]
    labels: Mapping[str, int]
    """Labelled pairs: all, decided, tied; empty: no labels."""
    coverage: tuple[Coverage, ...]
    rows: tuple[BiasRow, ...]
    unavailable: tuple[Unavailable, ...]
    notes: tuple[str, ...]
    complete: bool
    """Whether no calls are left for another run of the same command."""
    signature: str
    review_signature: str | None = None
    """Of the reviewers' judgements; None: there are none."""
    metric_signatures: Mapping[str, str] = field(default_factory=dict)
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)
    open: int = field(default=0, metadata=HERE_ONLY)
    """Number of pieces of evidence missing for a temporary cause: run again."""

    def of(self, bias: Bias) -> tuple[BiasRow, ...]:
        """The rows of one bias."""
        return tuple(row for row in self.rows if row.bias == bias)

    def row(self, bias: Bias, judge: str, measure: str, about: str | None = None) -> BiasRow:
        """One number; raises ``KeyError`` if there is none."""
        for row in self.of(bias):
            if (row.judge, row.measure) == (judge, measure) and about in {None, row.about}:
                return row
        raise KeyError((bias, judge, measure, about))

    @property
    def gaps(self) -> dict[tuple[str, str], BiasRow]:
        """The preference gaps, by both orders of every pair of reviewers."""
        rows = [(row.pair, row) for row in self.of("self-preference") if row.pair is not None]
        return {pair: row for (one, other), row in rows for pair in ((one, other), (other, one))}

    def findings(self) -> Iterator[Said]:
        kind = "reviewer" if any(row.kind == "reviewer" for row in self.rows) else "metric"
        judges = {row.judge for row in self.rows if row.kind == kind}
        tested = [row for row in self.rows if row.judge in judges and None not in (row.neutral, row.value)]
        if not tested:
            yield ("No bias could be tested.",)
            return
        yield (f"{len({row.judge for row in tested if row.shown})} of {len(judges)} {kind}s show a bias.",)
        parts: list[str | Name] = []
        for bias in dict.fromkeys(row.bias for row in tested):
            rows = [row for row in tested if row.bias == bias]
            shown = [row for row in rows if row.shown]
            whose = len({row.judge for row in rows})
            parts += ["; "] * bool(parts)
            if shown:
                worst = max(shown, key=lambda row: abs((row.value or 0.0) - (row.neutral or 0.0)))
                parts += [f"{bias}: {len({row.judge for row in shown})} of {whose}, most ", Name(worst.judge)]
                parts.append(f" ({worst.measure} {worst.value:.3f}, unbiased {worst.neutral:g})")
            else:
                parts.append(f"{bias}: none of {whose}")
        yield (*parts, ".")

    def to_csv(self) -> str:
        made = {name: f"{self.signature} {own}" for name, own in self.metric_signatures.items()}
        rows = tuple({**write(row), "signature": made.get(row.judge, self.signature)} for row in self.rows)
        return ReportTable("", tuple(Column(name, name) for name in (*COLUMNS, "signature")), rows).to_csv()

    def tables(self) -> list[ReportTable]:
        columns = (
            Column("judge", "judge", "name"),
            Column("of", ""),
            *(Column(name, name, "figure") for name in ("asked", "used", "missing")),
        )
        signatures = [self.signature, self.review_signature, *self.metric_signatures.values()]
        signed = " || ".join(filter(None, signatures))
        tables = [ReportTable("Coverage", columns, tuple(map(write, self.coverage)), signed)]
        for bias in get_args(Bias):
            tables += self.measure_tables(self.of(bias))
        if len(self.gaps) > 2:
            tables.append(self.gap_table())
        return [*tables, self.unavailable_table()] if self.unavailable else tables

    def unavailable_table(self) -> ReportTable:
        columns = (Column("bias", "bias"), Column("judges", "judges", absent="all"), Column("reason", "reason"))
        rows = tuple({**write(one), "judges": ", ".join(one.judges) or None} for one in self.unavailable)
        return ReportTable("Not measured", columns, rows)

    def gap_table(self) -> ReportTable:
        """One row and one column per reviewer; a star: the interval excludes 0."""
        names = {name: f"with {name}" for name, _ in self.gaps}
        rows: dict[str, dict[str, Cell]] = {name: {"PG": name} for name in names}
        for (one, other), row in self.gaps.items():
            rows[one][names[other]] = None if row.value is None else f"{row.value:+.4f}{'*' * bool(row.shown)}"
        columns = (Column("PG", "PG", "name"), *(Column(key, name, "figure") for name, key in names.items()))
        title = "Preference gaps as a matrix"
        return ReportTable(title, columns, tuple(rows.values()), self.signature, _star(self.gaps.values()))

    def measure_tables(self, rows: Iterable[BiasRow]) -> list[ReportTable]:
        """The rows of one bias, one table per measure."""
        groups: dict[tuple[str, str | None], list[BiasRow]] = {}
        for row in rows:
            groups.setdefault((row.measure, row.about if row.bias == "favour rate" else None), []).append(row)
        return [self._table(group, about) for (_, about), group in groups.items()]

    def _table(self, rows: Sequence[BiasRow], about: str | None) -> ReportTable:
        """One measure; ``about``: what all its rows are about."""
        named = about is None and any(row.about for row in rows)
        signed = rows[0].neutral == 0.0
        columns = (
            Column("judge", "judge", "name"),
            *[Column("about", "family", "name", "")] * named,
            Column("value", "value", "signed" if signed else "number", "missing"),
            Column("low high", f"{self.level * 100:g}% interval", "signed interval" if signed else "interval", "-"),
            Column("used", "n", "figure"),
            Column("missing asked", "missing", "fraction"),
            Column("ties", "ties", "figure"),
            Column("n_tasks", "tasks", "figure"),
            Column("remark", "", absent=""),
        )
        remarks = ((("*" * bool(row.shown)), row.note) for row in rows)
        values = tuple(
            {**write(row), "remark": " ".join(filter(None, said)) or None}
            for row, said in zip(rows, remarks, strict=True)
        )
        bias, neutral = rows[0].bias.capitalize(), rows[0].neutral
        title = f"{bias}: {rows[0].measure}" if about is None else f"{bias} of {about}: {rows[0].measure}"
        if neutral is not None:
            title += f" (no bias: {neutral:g})"
        return ReportTable(title, columns, values, self.signature, _star(rows))


def _star(rows: Iterable[BiasRow]) -> tuple[str, ...]:
    return (STAR,) if any(row.shown for row in rows) else ()
