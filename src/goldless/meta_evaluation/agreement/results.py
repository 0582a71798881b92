"""Results of comparing metrics with people: accuracies, rank correlations, the ceiling, and their tables.

Rank correlations with people's ratings are within each task, over all responses, and over the agents' means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import MetricError, nearest
from goldless.meta_evaluation.agreement.ceiling import Ceiling, RaterAgreement
from goldless.meta_evaluation.judges import Kind
from goldless.meta_evaluation.resampling import agent_means
from goldless.metrics.judgement_table import Convention
from goldless.metrics.label_agreement import Accuracy
from goldless.reports.documents.tables import (
    ceiling_table,
    comparison_table,
    correlation_table,
    judge_table,
)
from goldless.reports.formats import code_line, markdown_cell
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.evaluation import Evaluation
from goldless.statistics.bootstrap import FEW_TASKS, Draws, Interval, draw_counts, task_intervals
from goldless.statistics.bootstrap import Method as IntervalMethod
from goldless.statistics.rank_correlation import (
    Coefficient,
    levelled,
    percentile_interval,
    pooled_correlations,
    rank_correlations,
)

COLUMNS = (
    *("criterion", "judge", "kind", "statistic", "over", "value", "low", "high", "n", "n_tasks", "asked", "used"),
    *("missing", "tied", "undefined", "p", "p_holm", "p_pairs", "method", "note", "signature"),
)
"""Columns of the long table, with one row per number."""
PEOPLE = "people"
Over = Literal["tasks", "responses", "agents"]
"""What a correlation is over: the responses of each task, averaged over tasks; all responses; the agents' means."""
Method = IntervalMethod | Literal["percentile"]

ORDER: tuple[Coefficient, ...] = ("spearman", "kendall-b", "kendall")
NAMES: dict[Coefficient, str] = {"spearman": "spearman", "kendall-b": "kendall_tau_b", "kendall": "kendall_tau_a"}


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """A summary of the labels."""

    raters: int
    ratings: int
    preferences: int
    pairs: int
    """Number of pairs of responses with a label."""
    decided: int
    """Number of these in which one response is better; these are tested."""
    tied: int
    """Number of ties, which are not tested."""
    by_preference: int
    """Number of decided pairs that preferences decided."""
    contradicted: int
    """Number of pairs on which ratings and preferences contradict each other; ratings decide these."""
    margin: float
    """The margin of votes by which preferences decide."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """One coefficient with its interval."""

    coefficient: str
    """``spearman``, ``kendall_tau_b`` or ``kendall_tau_a``."""
    over: Over
    value: float | None
    """None: not defined."""
    low: float | None
    high: float | None
    asked: int
    """Tasks with two rated responses or more, rated responses, or rated agents."""
    n: int
    """Number of these that were used."""
    undefined: int
    """Tasks on which it is not defined; they count 0 with the papers' convention. 0 for the other two kinds."""
    n_tasks: int
    """Number of resampled tasks."""
    method: Method | None
    note: str | None = None
    p: float | None = None
    """Two-sided, of Spearman's coefficient over responses or agents as if they were independent; trust the interval."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """One judge compared with people."""

    name: str
    kind: Kind
    accuracy: Accuracy
    correlations: tuple[Correlation, ...]
    """Empty if there are no ratings by people."""
    signature: str
    """The signature of its scores."""

    def correlation(self, coefficient: str, over: Over = "tasks") -> Correlation | None:
        """The coefficient ``spearman``, ``kendall_tau_b`` or ``kendall_tau_a``."""
        return next((c for c in self.correlations if (c.coefficient, c.over) == (coefficient, over)), None)


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """Two judges compared on what both have judged."""

    statistic: str
    """``accuracy`` on common pairs, or ``spearman``, the mean over tasks on which both have it."""
    first: str
    second: str
    difference: float | None
    """First minus second; None: nothing in common."""
    low: float | None
    high: float | None
    p: float | None
    """Two-sided, by flipping signs of tasks' differences."""
    p_holm: float | None
    """Corrected for all comparisons on this statistic (Holm)."""
    n: int
    """Common pairs, or common tasks."""
    n_tasks: int
    p_pairs: float | None = None
    """Of accuracies: by a paired t-test over pairs, as the papers print it; pairs of one task are not independent."""


@dataclass(frozen=True, slots=True)
class CriterionAgreement:
    """All judges compared with the labels of one criterion."""

    criterion: str | None
    """None: the labels have no criterion."""
    labels: LabelCounts
    judges: tuple[JudgeAgreement, ...]
    comparisons: tuple[JudgeComparison, ...]
    ceiling: Ceiling
    signature: str
    """The signature of the agreement; the scores of each judge have their own."""
    notes: tuple[str, ...] = ()

    def judge(self, name: str) -> JudgeAgreement:
        """The judge with this name."""
        for judge in self.judges:
            if judge.name == name:
                return judge
        known = [judge.name for judge in self.judges]
        raise MetricError(f"no judge {name!r}{nearest(name, known) or '.'} Judges: {', '.join(known)}")

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        data = asdict(self)
        for one, judge in zip(data["judges"], self.judges, strict=True):
            one["accuracy"]["missing"] = judge.accuracy.missing
        return data


@dataclass(frozen=True, slots=True, repr=False)
class Agreement:
    """How far metrics, reviewers and external scores agree with people."""

    study: str
    fingerprint: str
    convention: Convention
    level: float
    criteria: tuple[CriterionAgreement, ...]
    """One per criterion of the labels, or only the requested one."""
    evaluation: Evaluation | None = None
    """The evaluation of the computed metrics."""

    def __repr__(self) -> str:
        """Study and judges."""
        return (
            f"<Agreement of {', '.join(judge.name for judge in self.criteria[0].judges)} with people on {self.study!r}>"
        )

    @property
    def signature(self) -> str:
        """The signatures of the agreement, by criterion."""
        return " || ".join(one.signature for one in self.criteria)

    def criterion(self, name: str | None = None) -> CriterionAgreement:
        """The results on a criterion (default: the first)."""
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
        """One row per number, with its interval, counts and signature."""
        rows = [
            {"criterion": one.criterion, "signature": one.signature, **row}
            for one in self.criteria
            for row in _long_rows(one)
        ]
        return ReportTable("", tuple(Column(name, name) for name in COLUMNS), tuple(rows)).to_csv()

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
        """All tables, by criterion, without notes and the judges' signatures."""
        return [table for one in self.criteria for table in self._tables(one)]

    def signatures(self) -> list[str]:
        """The signatures of the agreement and of each judge's scores."""
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
        for name, value in (("accuracy_by_task", found.by_task), ("accuracy_each_order", found.each_order)):
            if value is not None:
                over = "tasks" if name == "accuracy_by_task" else "pairs"
                yield head | {
                    "statistic": name,
                    "over": over,
                    "value": value,
                    "n": found.used,
                    "n_tasks": found.n_tasks,
                }
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


# --- rank correlations with ratings ----------------------------------------------------------------------------------


def correlations(
    scores: Sequence[FloatArray], ratings: FloatArray, *, convention: Convention, draws: Draws
) -> list[tuple[tuple[Correlation, ...], FloatArray]]:
    """All coefficients of each table of scores [tasks, agents] with the ratings, and Spearman's on each task.

    A task counts if people rated at least two of its responses. If a coefficient is not defined on a task, the task is
    left out by default, and counts 0 with the papers' convention.
    """
    rated = (~np.isnan(ratings)).sum(axis=1) > 1
    by_task = [_within_tasks(table[rated], ratings[rated], convention) for table in scores]
    columns = np.concatenate([values for values, _ in by_task], axis=1)
    within = task_intervals(columns, **draws)
    labelled = ~np.isnan(ratings).all(axis=1)
    found = []
    for i, (values, undefined) in enumerate(by_task):
        own = within[i * len(ORDER) : (i + 1) * len(ORDER)]
        parts = [
            *(_of_tasks(c, one, lost, len(values)) for c, one, lost in zip(ORDER, own, undefined, strict=True)),
            *_over_responses(scores[i], ratings, draws),
            *_over_agents(scores[i][labelled], ratings[labelled], draws),
        ]
        first = np.full(len(ratings), np.nan)
        first[rated] = values[:, 0]
        found.append((tuple(parts), first))
    return found


def _within_tasks(scores: FloatArray, ratings: FloatArray, convention: Convention) -> tuple[FloatArray, list[int]]:
    """[tasks, coefficients], and on how many tasks each is not defined."""
    values = np.stack([rank_correlations(scores, ratings, coefficient) for coefficient in ORDER], axis=1)
    undefined = np.isnan(values).sum(axis=0).tolist()
    return (np.nan_to_num(values, nan=0.0) if convention != "default" else values), undefined


def _of_tasks(coefficient: Coefficient, found: Interval, undefined: int, asked: int) -> Correlation:
    note = "not defined on any task" if found.mean is None else found.note
    return Correlation(
        NAMES[coefficient],
        "tasks",
        found.mean,
        _held(found.low),
        _held(found.high),
        asked=asked,
        n=found.n,
        undefined=undefined,
        n_tasks=found.n,
        method=found.method,
        note=note,
    )


def _over_responses(scores: FloatArray, ratings: FloatArray, draws: Draws) -> list[Correlation]:
    """Over all responses, whatever their task: levels of tasks count too."""
    task = np.repeat(np.arange(len(ratings)), ratings.shape[1])
    asked, both = int(np.sum(~np.isnan(ratings))), int(np.sum(~np.isnan(scores + ratings)))
    found = pooled_correlations(scores.ravel(), ratings.ravel(), task, **draws)
    return [
        Correlation(
            *(NAMES[c], "responses", one.mean, one.low, one.high, asked, both, 0, one.n, one.method, one.note),
            p=spearman_p(one.mean, both) if c == "spearman" else None,
        )
        for c, one in zip(ORDER, found, strict=True)
    ]


def _over_agents(scores: FloatArray, ratings: FloatArray, draws: Draws) -> list[Correlation]:
    """Over the agents' means on what is both scored and rated; intervals are percentiles over resampled tasks."""
    tables = np.stack([scores, ratings])
    there: BoolArray = np.asarray(~np.isnan(tables).any(axis=0))
    counts = int((~np.isnan(ratings)).any(axis=0).sum()), int(there.any(axis=0).sum()), int(there.any(axis=1).sum())
    whole = _agent_coefficients(tables, np.ones((1, len(ratings))))[:, 0]
    blocks = draw_counts(len(ratings), seed=draws["seed"], resamples=draws["resamples"])
    drawn = np.concatenate([_agent_coefficients(tables, block) for block in blocks], axis=1)
    return [_of_agents(c, float(whole[k]), drawn[k], draws["level"], counts) for k, c in enumerate(ORDER)]


def _of_agents(
    coefficient: Coefficient, value: float, drawn: FloatArray, level: float, counts: tuple[int, int, int]
) -> Correlation:
    """``counts``: agents rated, of these scored too, and tasks."""
    asked, used, tasks = counts
    low, high, note = None, None, f"no interval: n = {tasks}"
    if np.isnan(value):
        note = "not defined: fewer than two agents, or all means equal"
    elif tasks >= 2:
        low, high, told = percentile_interval(drawn, level=level)
        few = f"only {tasks} tasks: the interval is too narrow" if tasks < FEW_TASKS and low is not None else None
        note = "; ".join(part for part in (few, told) if part)
    return Correlation(
        NAMES[coefficient],
        "agents",
        None if np.isnan(value) else value,
        low,
        high,
        asked=asked,
        n=used,
        undefined=0,
        n_tasks=tasks,
        method=None if low is None else "percentile",
        note=note or None,
        p=spearman_p(value, used) if coefficient == "spearman" else None,
    )


def spearman_p(value: float | None, n: int) -> float | None:
    """Two-sided p of Spearman's coefficient by Student's t with n - 2 degrees of freedom; None: not defined."""
    if value is None or np.isnan(value) or n < 3:
        return None
    if abs(value) >= 1:
        return 0.0
    return float(2 * stdtr(n - 2, -abs(value) * np.sqrt((n - 2) / (1 - value**2))))


def _agent_coefficients(tables: FloatArray, counts: FloatArray) -> FloatArray:
    """[coefficients, draws] of the agents' means over drawn tasks."""
    first, second = map(levelled, agent_means(tables, counts))
    return np.stack([rank_correlations(first, second, coefficient) for coefficient in ORDER])


def _held(end: float | None) -> float | None:
    return None if end is None else min(1.0, max(-1.0, end))
