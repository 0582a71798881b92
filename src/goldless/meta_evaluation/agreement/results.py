"""What holding metrics against people gives: frozen results, and the tables made of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from goldless.errors import MetricError, nearest
from goldless.meta_evaluation.agreement.ceiling import Ceiling, RaterAgreement
from goldless.meta_evaluation.agreement.correlations import Correlation, Over
from goldless.meta_evaluation.judges import Kind
from goldless.metrics.judgement_table import Convention
from goldless.metrics.label_agreement import Accuracy
from goldless.reports.documents.tables import (
    ceiling_table,
    comparison_table,
    correlation_table,
    judge_table,
)
from goldless.reports.formats import code_line, markdown_cell
from goldless.reports.report_table import ReportTable
from goldless.runs.evaluation import Evaluation

COLUMNS = (
    *("criterion", "judge", "kind", "statistic", "over", "value", "low", "high", "n", "n_tasks", "asked", "used"),
    *("missing", "tied", "undefined", "p", "p_holm", "method", "note", "signature"),
)
"""Of the long table: one row a number."""
PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """What people said."""

    raters: int
    ratings: int
    preferences: int
    pairs: int
    """Pairs of responses with a label."""
    decided: int
    """Of these, pairs with a better one: the test."""
    tied: int
    """Pairs without: they leave the test."""
    by_preference: int
    """Decided pairs that preferences decided."""
    contradicted: int
    """Pairs on which ratings and preferences say the opposite; ratings hold."""
    margin: float
    """Votes that preferences must be ahead by."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """One judge held against people."""

    name: str
    kind: Kind
    accuracy: Accuracy
    correlations: tuple[Correlation, ...]
    """Empty where people gave no ratings."""
    signature: str
    """How its scores were made."""

    def correlation(self, coefficient: str, over: Over = "tasks") -> Correlation | None:
        """The coefficient ``spearman``, ``kendall_tau_b`` or ``kendall_tau_a`` over that."""
        return next((c for c in self.correlations if (c.coefficient, c.over) == (coefficient, over)), None)


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """Two judges on what both have judged."""

    statistic: str
    """``accuracy`` on common pairs, or ``spearman``, the mean over tasks on which both have it."""
    first: str
    second: str
    difference: float | None
    """First less second; None: nothing in common."""
    low: float | None
    high: float | None
    p: float | None
    """Two-sided, by flipping signs of tasks' differences."""
    p_holm: float | None
    """Corrected for all comparisons on this statistic (Holm)."""
    n: int
    """Common pairs, or common tasks."""
    n_tasks: int


@dataclass(frozen=True, slots=True)
class CriterionAgreement:
    """All judges held against the labels of one criterion."""

    criterion: str | None
    """None: the labels name none."""
    labels: LabelCounts
    judges: tuple[JudgeAgreement, ...]
    comparisons: tuple[JudgeComparison, ...]
    ceiling: Ceiling
    signature: str
    """How agreement was measured on it; each judge has one of its own for how its scores were made."""
    notes: tuple[str, ...] = ()

    def judge(self, name: str) -> JudgeAgreement:
        """The judge of that name."""
        for judge in self.judges:
            if judge.name == name:
                return judge
        known = [judge.name for judge in self.judges]
        raise MetricError(f"{name!r} was not held against people{nearest(name, known)}. Held: {', '.join(known)}")

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "criterion": self.criterion,
            "labels": asdict(self.labels),
            "judges": [
                {
                    "name": judge.name,
                    "kind": judge.kind,
                    "accuracy": {**asdict(judge.accuracy), "missing": judge.accuracy.missing},
                    "correlations": [asdict(one) for one in judge.correlations],
                    "signature": judge.signature,
                }
                for judge in self.judges
            ],
            "comparisons": [asdict(one) for one in self.comparisons],
            "ceiling": asdict(self.ceiling),
            "signature": self.signature,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Agreement:
    """How far metrics, reviewers and given scores agree with people."""

    study: str
    fingerprint: str
    convention: Convention
    level: float
    criteria: tuple[CriterionAgreement, ...]
    """One for each criterion of the labels, or the one asked for."""
    evaluation: Evaluation | None = None
    """Of the metrics that were computed."""

    def __repr__(self) -> str:
        """Study and judges."""
        return (
            f"<Agreement of {', '.join(judge.name for judge in self.criteria[0].judges)} with people on {self.study!r}>"
        )

    @property
    def signature(self) -> str:
        """How agreement was measured, criterion by criterion."""
        return " || ".join(one.signature for one in self.criteria)

    def criterion(self, name: str | None = None) -> CriterionAgreement:
        """The results on a criterion; where none is named, on the first."""
        for one in self.criteria:
            if name is None or one.criterion == name:
                return one
        known = [one.criterion for one in self.criteria if one.criterion is not None]
        raise MetricError(f"no results on the criterion {name!r}{nearest(str(name), known)}")

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "study": self.study,
            "fingerprint": self.fingerprint,
            "convention": self.convention,
            "level": self.level,
            "signature": self.signature,
            "complete": self.evaluation is None or self.evaluation.complete,
            "criteria": [one.as_json() for one in self.criteria],
        }

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(self.as_json(), ensure_ascii=False, indent=2, allow_nan=False)

    def to_csv(self) -> str:
        """One row a number, with everything that number rests on."""
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for one in self.criteria:
            for row in _long_rows(one):
                writer.writerow({"criterion": one.criterion, "signature": one.signature, **row})
        return out.getvalue()

    def to_markdown(self) -> str:
        """All tables as Markdown, with notes and signatures."""
        parts: list[str] = []
        for one in self.criteria:
            parts += [f"## {markdown_cell(str(one.criterion))}\n"] * (len(self.criteria) > 1)
            for table in self._tables(one):
                parts += [f"**{markdown_cell(table.title)}**", "", *table.markdown_lines(), ""]
            parts += [f"- {markdown_cell(note)}" for note in one.notes] + [""] * bool(one.notes)
        return "\n".join([*parts, *(f"{code_line(line)}\n" for line in self.signatures())])

    def to_latex(self) -> str:
        """All tables as LaTeX."""
        return "\n".join(table.to_latex() for table in self.tables())

    def tables(self) -> list[ReportTable]:
        """All tables, criterion by criterion; notes and the judges' signatures are not in them."""
        return [table for one in self.criteria for table in self._tables(one)]

    def signatures(self) -> list[str]:
        """How agreement was measured, and how each judge's scores were made."""
        own = [one.signature for one in self.criteria]
        return list(dict.fromkeys([*own, *(judge.signature for judge in self.criteria[0].judges)]))

    def _tables(self, one: CriterionAgreement) -> list[ReportTable]:
        data = one.as_json()
        name = "" if one.criterion is None else f" on {one.criterion}"
        made = [judge_table]
        made += [correlation_table] * any(judge.correlations for judge in one.judges)
        made += [ceiling_table]
        made += [comparison_table] * bool(one.comparisons)
        return [make(data, name, level=self.level, signature=one.signature) for make in made]


def _long_rows(one: CriterionAgreement) -> Iterator[dict[str, Any]]:
    for judge in one.judges:
        head = {"judge": judge.name, "kind": judge.kind, "signature": judge.signature}
        found = judge.accuracy
        said = {"statistic": "accuracy", "over": "pairs", "value": found.accuracy, "n": found.used}
        yield {**_cells(found), **head, **said, "missing": found.missing}
        for c in judge.correlations:
            yield {**_cells(c), **head, "statistic": c.coefficient, "used": c.n, "missing": c.asked - c.n}
    yield from _ceiling_rows(one.ceiling)
    for pair in one.comparisons:
        over = "pairs" if pair.statistic == "accuracy" else "tasks"
        said = {"judge": f"{pair.first} - {pair.second}", "kind": "comparison", "over": over, "value": pair.difference}
        yield {**_cells(pair), **said}


def _ceiling_rows(ceiling: Ceiling) -> Iterator[dict[str, Any]]:
    head = {"judge": PEOPLE, "kind": "ceiling", "note": ceiling.note}
    alpha = ceiling.alpha
    if alpha is None:
        yield head | {"statistic": "krippendorff_alpha"}
        return
    yield {
        **_cells(alpha),
        **head,
        "statistic": f"krippendorff_alpha_{alpha.measurement}",
        "over": "responses" if ceiling.source == "ratings" else "pairs",
        "value": alpha.alpha,
        "n": alpha.n_units,
        "used": alpha.n_values,
        "missing": alpha.unpaired,
    }
    everybody = [RaterAgreement(PEOPLE, ceiling.accuracy, ceiling.spearman)] if ceiling.accuracy is not None else []
    for rater in (*everybody, *ceiling.raters):
        whole, named = rater.accuracy is ceiling.accuracy, {**head, "judge": rater.rater}
        tied = {"tied": ceiling.tied} if whole else {}
        yield {**_ends(rater.accuracy), **named, "statistic": "accuracy", "over": "pairs", **tied}
        if rater.spearman is not None:
            found, undefined = rater.spearman, {"undefined": ceiling.undefined} if whole else {}
            numbers = {**_ends(found), "value": found.mean, "n_tasks": found.n}
            yield {**numbers, **named, "statistic": "spearman", "over": "tasks", **undefined}


def _cells(record: Any) -> dict[str, Any]:
    """What a record says under the names of the columns."""
    return {name: value for name, value in asdict(record).items() if name in COLUMNS}


def _ends(record: Any) -> dict[str, Any]:
    """Value and interval alone."""
    return {name: value for name, value in _cells(record).items() if name in {"value", "low", "high", "n", "n_tasks"}}
