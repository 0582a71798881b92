"""Results of comparing metrics with people: accuracies, rank correlations, the ceiling, their tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from goldless.meta_evaluation.ceiling import Ceiling, RaterAgreement
from goldless.meta_evaluation.judges import Kind
from goldless.metrics.judgement_table import Convention
from goldless.metrics.label_agreement import Accuracy
from goldless.reports.document import HERE_ONLY, write
from goldless.reports.findings import Name, Said, named
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.evaluation import Evaluation
from goldless.statistics.bootstrap import Estimate, Method
from goldless.statistics.comparisons import SIGNIFICANT

Over = Literal["tasks", "responses", "agents"]
"""What a correlation is over: the responses of each task, averaged over tasks; all responses; the agents' means."""

SHOWN = {"spearman": "Spearman", "kendall_tau_b": "tau-b", "kendall_tau_a": "tau-a"}
OVER: dict[Over, str] = {"tasks": "tasks", "responses": "all", "agents": "agents"}
MANY = 20
"""With more comparisons than this, only those with the best judge are shown."""
CHANCE = 0.5
EVERYBODY = "a rater, the rest"
"""The name of the mean over raters, each compared with the others."""


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
        return {judge.name: judge for judge in self.judges}[name]

    @property
    def by_accuracy(self) -> list[JudgeAgreement]:
        """The judges, the most accurate first; those without an accuracy last."""
        return sorted(self.judges, key=lambda judge: -(judge.accuracy.accuracy or 0.0))

    # --- sentences

    def findings(self) -> Iterator[Said]:
        judges = [judge for judge in self.by_accuracy if judge.accuracy.accuracy is not None]
        if not judges:
            return
        on: Said = (" on ", Name(self.criterion)) if self.criterion else ()
        best = judges[0].accuracy
        ends = "" if best.low is None or best.high is None else f" ({best.low:.3f} to {best.high:.3f})"
        yield (
            Name(judges[0].name),
            " agrees most with people",
            *on,
            f": on {best.accuracy:.3f}{ends} of {best.used:,} pairs with a clear human preference",
            *self._not_less(judges),
            ".",
        )
        chance = [row.name for row in judges if row.accuracy.low is not None and row.accuracy.low <= CHANCE]
        if chance:
            yield (*named(chance, 6), f" {'is' if len(chance) == 1 else 'are'} not shown to be better than chance.")
        yield from self._people(judges)

    def _not_less(self, judges: Sequence[JudgeAgreement]) -> Said:
        """The judges that the best one is not shown to exceed."""
        lead = judges[0].name
        undecided: set[str] = set()
        for row in self.comparisons:
            pair = {row.first, row.second}
            if lead in pair and row.statistic == "accuracy" and (row.p_holm is None or row.p_holm >= SIGNIFICANT):
                undecided |= pair - {lead}
        order = [judge.name for judge in judges if judge.name in undecided]
        return (", not shown to exceed ", *named(order)) if order else ()

    def _people(self, judges: Sequence[JudgeAgreement]) -> Iterator[Said]:
        people = self.ceiling.accuracy
        if people is None or people.value is None:
            return
        above = [judge.name for judge in judges if (judge.accuracy.accuracy or 0.0) > people.value]
        begin = f"One person agrees with the others on {people.value:.3f} of pairs"
        if not above:
            yield (f"{begin}; no judge is above that.",)
            return
        yield (
            f"{begin}; ",
            *named(above),
            f" {'is' if len(above) == 1 else 'are'} above that. A judge can be: it is compared with what most people ",
            "prefer, and one person differs from most people more often than a steady judge does.",
        )

    # --- tables

    def tables(self, level: float) -> list[ReportTable]:
        return [
            self.judge_table(level),
            *[self.correlation_table(level)] * any(judge.correlations for judge in self.judges),
            self.ceiling_table(level),
            *[self.comparison_table(level)] * bool(self.comparisons),
        ]

    @property
    def _on(self) -> str:
        return "" if self.criterion is None else f" on {self.criterion}"

    def judge_table(self, level: float) -> ReportTable:
        columns = (
            Column("judge", "judge", "name"),
            Column("accuracy", "accuracy", "number"),
            Column("low high", _interval(level), "interval", "", 3),
            Column("by_task", "by task", "number", "-"),
            *[Column("each_order", "each order", "number", "-")]
            * any(judge.accuracy.each_order is not None for judge in self.judges),
            Column("used", "pairs", "figure"),
            Column("missing asked", "missing", "fraction", "-"),
            Column("tied", "ties", "figure", "-"),
            Column("n_tasks", "tasks", "figure", wide=True),
            Column("kind", "kind", wide=True),
        )
        labels = self.labels
        title = (
            f"Agreement with people{self._on}: {labels.decided} of {labels.pairs} pairs decided "
            f"({labels.tied} tied), {labels.raters} rater{'s' * (labels.raters != 1)}"
        )
        rows = tuple({**write(one.accuracy), "judge": one.name, "kind": one.kind} for one in self.by_accuracy)
        signatures = dict.fromkeys([self.signature, *(judge.signature for judge in self.judges)])
        return ReportTable(title, columns, rows, " || ".join(signatures), self.notes)

    def correlation_table(self, level: float) -> ReportTable:
        columns = [Column("judge", "judge", "name"), Column("over", "over")]
        for coefficient, shown in SHOWN.items():
            ends = f"{coefficient}_low {coefficient}_high"
            columns += [
                Column(coefficient, shown, "number", "-", 3),
                Column(ends, f"{level * 100:g}%", "interval", "", 2, between="…"),
            ]
        columns += [
            Column("p", "Spearman's p", "probability", "-", wide=True),
            Column("n asked", "Spearman's n", "fraction", wide=True),
            Column("undefined", "undefined", "figure", wide=True),
            Column("note", "note", absent="", wide=True),
        ]
        rows: list[dict[str, Cell]] = []
        for judge in self.judges:
            for over, shown in OVER.items():
                row: dict[str, Cell] = {"judge": judge.name}
                for one in judge.correlations:
                    if one.over == over:
                        key = one.coefficient
                        row |= write(one) if key == "spearman" else {}
                        row |= {key: one.value, f"{key}_low": one.low, f"{key}_high": one.high}
                rows.append({**row, "over": shown})
        title = (
            f"Rank correlations with the raters' medians{self._on}: mean over tasks, over all responses, over agents' "
            "means"
        )
        return ReportTable(title, tuple(columns), tuple(rows), self.signature)

    def ceiling_table(self, level: float) -> ReportTable:
        columns = (
            Column("people", "people", "name"),
            Column("accuracy", "accuracy", "number"),
            Column("accuracy_low accuracy_high", _interval(level), "interval", "", 3),
            Column("pairs", "pairs", "figure"),
            Column("spearman", "Spearman", "number", "-"),
            Column("spearman_low spearman_high", _interval(level), "interval", "", 3),
        )
        ceiling = self.ceiling
        alpha = ceiling.alpha
        rows: list[dict[str, Cell]] = []
        notes = [ceiling.note] if ceiling.note else []
        if alpha is None:
            return ReportTable(f"Human ceiling{self._on}: {ceiling.note}", columns, (), self.signature)
        people: list[tuple[str, Ceiling | RaterAgreement]] = [(EVERYBODY, ceiling)]
        for name, one in (*people, *((rater.rater, rater) for rater in ceiling.raters)):
            rows.append({"people": name, **_ends("accuracy", one.accuracy), **_ends("spearman", one.spearman)})
            rows[-1]["pairs"] = None if one.accuracy is None else one.accuracy.n
        what = "responses" if ceiling.source == "ratings" else "pairs"
        shown = "not defined" if alpha.alpha is None else f"{alpha.alpha:.3f}"
        ends = "" if alpha.low is None else f" ({alpha.low:.3f} … {alpha.high:.3f})"
        title = (
            f"Human ceiling{self._on}: Krippendorff's alpha ({alpha.measurement}) {shown}{ends}, "
            f"{alpha.n_values} {ceiling.source} of {alpha.n_units} {what}"
        )
        for labels, mean in ceiling.within.items():
            if mean.value is not None:
                ends = "" if mean.low is None else f" ({mean.low:.3f} … {mean.high:.3f})"
                said = f"alpha of {labels} within tasks, without the largest and the smallest label"
                notes.append(f"{said}: {mean.value:.4f}, mean over {mean.n} tasks{ends}")
        return ReportTable(title, columns, tuple(rows), self.signature, tuple(notes))

    def comparison_table(self, level: float) -> ReportTable:
        """One row per pair of judges and statistic; if there are many, only pairs with the most accurate judge."""
        shown, only = self.comparisons, ""
        if len(shown) > MANY:
            first = self.by_accuracy[0].name
            only = f"; only {first}, the most accurate; see JSON for all"
            shown = tuple(one for one in shown if first in {one.first, one.second})
        columns = (
            Column("statistic", "of"),
            Column("first", "first", "name"),
            Column("second", "second", "name"),
            Column("difference", "diff", "signed", "-"),
            Column("low high", _interval(level), "interval", "", 3, between="…"),
            Column("p", "p", "probability", "-"),
            Column("p_holm", "Holm", "probability", "-"),
            Column("p_pairs", "t over pairs", "probability", "-", wide=True),
            Column("n", "n", "figure"),
        )
        title = f"First minus second, on what both judged{self._on}{only}"
        return ReportTable(title, columns, tuple(map(write, shown)), self.signature)


def _interval(level: float) -> str:
    return f"{level * 100:g}% interval"


def _ends(name: str, found: Estimate | None) -> dict[str, Cell]:
    return {} if found is None else {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


@dataclass(frozen=True, slots=True, repr=False)
class Agreement:
    """How far metrics, reviewers and external scores agree with people."""

    study: str
    fingerprint: str
    convention: Convention
    level: float
    complete: bool
    """Whether no calls are left for another run of the same command."""
    criteria: tuple[CriterionAgreement, ...]
    """One per criterion of the labels, or only the requested one."""
    evaluation: Evaluation | None = field(default=None, metadata=HERE_ONLY)
    """The evaluation of the computed metrics."""
    KEYS = ("study", "fingerprint", "convention", "level", "signature", "complete", "criteria")

    def __repr__(self) -> str:
        return (
            f"<Agreement of {', '.join(judge.name for judge in self.criteria[0].judges)} with people on {self.study!r}>"
        )

    @property
    def signature(self) -> str:
        return " || ".join(one.signature for one in self.criteria)

    def criterion(self, name: str | None = None) -> CriterionAgreement:
        return self.criteria[0] if name is None else {one.criterion: one for one in self.criteria}[name]

    def findings(self) -> Iterator[Said]:
        for one in self.criteria:
            yield from one.findings()

    def tables(self) -> list[ReportTable]:
        return [table for one in self.criteria for table in one.tables(self.level)]
