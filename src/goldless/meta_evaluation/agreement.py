"""Agreement: how far metrics, reviewers and external scores agree with people, and people with each other.

study → labels, files and recorded judgements checked → metrics computed → accuracy, correlations, ceiling, comparisons
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl
from scipy.special import stdtr

from goldless.arrays import FloatArray
from goldless.errors import MetricError, UserError, check_known
from goldless.meta_evaluation.ceiling import Ceiling, Measured, RaterAgreement, human_ceiling
from goldless.meta_evaluation.judges import (
    Given,
    check_unlike,
    draws_of,
    given_judges,
    metric_judges,
    recorded_judges,
    refuse_rater_metrics,
    response_scores,
    scoring_judge,
)
from goldless.metrics.judgement_table import Convention
from goldless.metrics.label_agreement import (
    Accuracy,
    Judge,
    JudgeComparison,
    Kind,
    PairCredits,
    accuracies,
    compare_all_credits,
)
from goldless.metrics.pair_labels import PairLabels
from goldless.records import Preference
from goldless.reports.document import InMemory, Result, cells, written_property
from goldless.reports.findings import Name, Said, named
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.reports.run_record import Spending
from goldless.runs.evaluation import Evaluation
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.review_evidence import what_people_said
from goldless.signature import Signature, evidence_hash
from goldless.statistics.bootstrap import Draws, Estimate, interval_name, task_intervals
from goldless.statistics.comparisons import SIGNIFICANT, all_pairs, holm, sign_flip_ps
from goldless.statistics.rank_correlation import (
    Coefficient,
    levelled,
    over_agents,
    pooled_correlations,
    rank_correlations,
)
from goldless.studies import Study
from goldless.studies.frames import NO_LABELS

Over = Literal["tasks", "responses", "agents"]
"""The scope of a correlation: the responses of each task, averaged over tasks; all responses; the agents' means."""
OVER: dict[Over, str] = {"tasks": "tasks", "responses": "all", "agents": "agents"}
COEFFICIENTS: dict[Coefficient, tuple[str, str]] = {
    "spearman": ("spearman", "Spearman"),
    "kendall-b": ("kendall_tau_b", "tau-b"),
    "kendall": ("kendall_tau_a", "tau-a"),
}
"""The key and the heading of each."""
MANY = 20
"""With more comparisons than this, only those with the best judge are shown."""
CHANCE = 0.5
EVERYBODY = "a rater, the rest"
"""The name of the mean over raters, each compared with the others."""


@dataclass(frozen=True)
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


@dataclass(frozen=True, kw_only=True)
class Correlation(Estimate):
    """One coefficient with its interval; ``n`` of ``asked`` were used."""

    coefficient: str
    """``spearman``, ``kendall_tau_b`` or ``kendall_tau_a``."""
    over: Over
    asked: int
    """Tasks with two rated responses or more, rated responses, or rated agents."""
    undefined: int = 0
    """Tasks on which it is not defined; they count 0 with the papers' convention. 0 for the other two kinds."""
    n_tasks: int = 0
    """Number of resampled tasks."""
    p: float | None = None
    """Two-sided, of Spearman's coefficient over responses or agents as if they were independent; trust the interval."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        return sorted(self.judges, key=lambda judge: -(judge.accuracy.share.value or 0.0))

    def sentences(self) -> Iterator[Said]:
        judges = [judge for judge in self.by_accuracy if judge.accuracy.share.value is not None]
        if not judges:
            return
        on: Said = (" on ", Name(self.criterion)) if self.criterion else ()
        lead, best = judges[0].name, judges[0].accuracy.share
        ends = "" if best.low is None or best.high is None else f" ({best.low:.3f} to {best.high:.3f})"
        share = f": on {best.value:.3f}{ends} of {best.n:,} pairs with a clear human preference"
        undecided: set[str] = set()
        for row in self.comparisons:
            if row.statistic == "accuracy" and (row.p_holm is None or row.p_holm >= SIGNIFICANT):
                undecided |= {row.first, row.second} if lead in {row.first, row.second} else set()
        order = [judge.name for judge in judges[1:] if judge.name in undecided]
        less: Said = (", not shown to exceed ", *named(order)) if order else ()
        yield (Name(lead), " agrees most with people", *on, share, *less, ".")
        chance = [row.name for row in judges if row.accuracy.share.low is None or row.accuracy.share.low <= CHANCE]
        if chance:
            yield (*named(chance, 6), f" {'is' if len(chance) == 1 else 'are'} not shown to be better than chance.")
        people = self.ceiling.accuracy
        if people is None or people.value is None:
            return
        above = [judge.name for judge in judges if (judge.accuracy.share.value or 0.0) > people.value]
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
            Column("low high", f"{level * 100:g}% interval", "interval", "", 3),
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
        rows = tuple(_accuracy_row(judge) for judge in self.by_accuracy)
        signatures = dict.fromkeys([self.signature, *(judge.signature for judge in self.judges)])
        return ReportTable(title, columns, rows, " || ".join(signatures), self.notes)

    def correlation_table(self, level: float) -> ReportTable:
        columns = [Column("judge", "judge", "name"), Column("over", "over")]
        for key, heading in COEFFICIENTS.values():
            columns += [
                Column(key, heading, "number", "-", 3),
                Column(f"{key}_low {key}_high", f"{level * 100:g}%", "interval", "", 2, between="…"),
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
                        row |= cells(one) if one.coefficient == "spearman" else {}
                        row |= _ends(one.coefficient, one)
                rows.append({**row, "over": shown})
        title = (
            f"Rank correlations with the raters' medians{self._on}: mean over tasks, over all responses, over agents' "
            "means"
        )
        return ReportTable(title, tuple(columns), tuple(rows), self.signature)

    def ceiling_table(self, level: float) -> ReportTable:
        interval = f"{level * 100:g}% interval"
        columns = (
            Column("people", "people", "name"),
            Column("accuracy", "accuracy", "number"),
            Column("accuracy_low accuracy_high", interval, "interval", "", 3),
            Column("pairs", "pairs", "figure"),
            Column("spearman", "Spearman", "number", "-"),
            Column("spearman_low spearman_high", interval, "interval", "", 3),
        )
        ceiling = self.ceiling
        alpha = ceiling.alpha
        if alpha is None:
            return ReportTable(f"Human ceiling{self._on}: {ceiling.note}", columns, (), self.signature)
        notes = [ceiling.note] if ceiling.note else []
        notes += [f"alpha: {alpha.estimate.note}"] if alpha.estimate.low is None and alpha.estimate.note else []
        people: dict[str, Ceiling | RaterAgreement] = {EVERYBODY: ceiling, **{one.rater: one for one in ceiling.raters}}
        rows = [
            {"people": name, **_ends("accuracy", one.accuracy), **_ends("spearman", one.spearman)}
            | ({} if one.accuracy is None else {"pairs": one.accuracy.n})
            for name, one in people.items()
        ]
        what = "responses" if ceiling.source == "ratings" else "pairs"
        found = alpha.estimate
        shown = "not defined" if found.value is None else f"{found.value:.3f}"
        ends = "" if found.low is None else f" ({found.low:.3f} … {found.high:.3f})"
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
            *(Column(name, name, "name") for name in ("first", "second")),
            Column("difference", "diff", "signed", "-"),
            Column("low high", f"{level * 100:g}% interval", "interval", "", 3, between="…"),
            Column("p", "p", "probability", "-"),
            Column("p_holm", "Holm", "probability", "-"),
            Column("p_pairs", "t over pairs", "probability", "-", wide=True),
            Column("n", "n", "figure"),
        )
        title = f"First minus second, on what both judged{self._on}{only}"
        rows = tuple(cells(one, "difference") for one in shown)
        return ReportTable(title, columns, rows, self.signature)


def _accuracy_row(judge: JudgeAgreement) -> dict[str, Cell]:
    accuracy = judge.accuracy
    row = cells(accuracy, "share", judge=judge.name, kind=judge.kind, missing=accuracy.missing)
    return {**row, "accuracy": accuracy.share.value, "used": accuracy.share.n}


def _ends(name: str, found: Estimate | None) -> dict[str, Cell]:
    return {} if found is None else {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


@dataclass(frozen=True, repr=False)
class Agreement(Result):
    """Agreement of metrics, reviewers and external scores with people."""

    study: str
    fingerprint: str
    convention: Convention
    level: float
    complete: bool
    """True if no calls are left for another run of the same command."""
    criteria: tuple[CriterionAgreement, ...]
    """One per criterion of the labels, or only the requested one."""
    evaluation: InMemory[Evaluation | None] = None
    """The evaluation of the computed metrics."""

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.evaluation is None else self.evaluation.warnings

    @property
    def spending(self) -> tuple[Spending, ...]:
        return () if self.evaluation is None else self.evaluation.spending

    @property
    def asked(self) -> int:
        return 0 if self.evaluation is None else self.evaluation.asked

    @property
    def open(self) -> int:
        return 0 if self.evaluation is None else self.evaluation.open

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.evaluation is None else self.evaluation.notes

    def __repr__(self) -> str:
        names = ", ".join(judge.name for judge in self.criteria[0].judges)
        return f"<Agreement of {names} with people on {self.study!r}>"

    @written_property
    def signature(self) -> str:
        return " || ".join(one.signature for one in self.criteria)

    def criterion(self, name: str | None = None) -> CriterionAgreement:
        return self.criteria[0] if name is None else {one.criterion: one for one in self.criteria}[name]

    def sentences(self) -> Iterator[Said]:
        for one in self.criteria:
            yield from one.sentences()

    def tables(self) -> list[ReportTable]:
        return [table for one in self.criteria for table in one.tables(self.level)]


# --- comparing with people -------------------------------------------------------------------------------------------


async def agree(
    study: Study,
    options: Options,
    *,
    scale: str | None = None,
    scores: Given | None = None,
    measurement: Measured = "auto",
) -> Agreement:
    """Agreement of metrics, recorded reviewers and external scores with people, and of people with each other.

    ``options.scoring.metrics`` may be empty if reviewers or scores are given. ``scores``: files with the columns metric
    (optional), task, agent, score, or scores by metric and (task, agent). ``measurement``: of Krippendorff's alpha;
    auto: ordinal up to 20 different values, else interval. Everything that can be checked for free is checked before
    any model is called.
    """
    draws_of(options)
    if not options.scoring.metrics and not options.review.reviewers and scores is None:
        raise UserError("nothing to compare with people. Give metrics, recorded reviewers, or a file of scores")
    refuse_rater_metrics(options, "compared with people")
    if scale is not None and not options.review.reviewers:
        raise UserError(f"--scale {scale} needs --reviewers. Name reviewers, or use all")
    if not study.n_ratings and not study.n_preferences:
        raise MetricError(
            f"{study.name} has no labels. Put responses.csv and labels.csv into one folder and give the folder; labels "
            "have the columns task, agent, rater, score, or task, first, second, rater, preference"
        )
    chosen = label_criteria(study, options.labels.criterion)
    how: dict[str, Any] = {"convention": options.labels.convention, "own_family": options.review.own_family}
    judges = [*recorded_judges(study, list(options.review.reviewers), scale, **how), *given_judges(scores, study)]
    check_unlike(judges)
    evaluation = await evaluate_study(study, options) if options.scoring.metrics else None
    judges = [*(judge.levelled() for judge in metric_judges(evaluation, study, only_asked=True)), *judges]
    check_unlike(judges)
    complete = evaluation is None or evaluation.complete
    found = tuple(agreement_on(study, judges, options.changed(criterion=name), measurement) for name in chosen)
    return Agreement(
        study.name, study.fingerprint, options.labels.convention, options.statistics.level, complete, found, evaluation
    )


def label_criteria(study: Study, criterion: str | None) -> list[str | None]:
    """The given criterion, or all criteria of the labels."""
    found = study.label_table["criterion"].unique(maintain_order=True).to_list()
    if criterion is None:
        return found
    check_known([criterion], [name for name in found if name is not None], "no label has the criterion", "Criteria")
    return [criterion]


def preference_agreement(
    study: Study, labels: Sequence[Preference], scores: pl.DataFrame | None, *, resamples: int, level: float
) -> CriterionAgreement | None:
    """Agreement of people and metrics on the criterion of some preferences; None: there are none.

    ``scores``: metric, task, agent, score.
    """
    if not labels:
        return None
    # only what was labelled: a large study is as quick as a small one
    labelled = study.subset(tasks=dict.fromkeys(label.task for label in labels))
    labelled = labelled.with_labels(pl.concat([NO_LABELS, pl.DataFrame(labels)], how="diagonal_relaxed"))
    names: dict[str, Any] = {"tasks": labelled.tasks, "agents": labelled.agent_list}
    judges = []
    if scores is not None:
        of_tasks = scores.filter(pl.col("task").is_in(labelled.tasks))
        for (metric,), rows in of_tasks.group_by("metric", maintain_order=True):
            judges.append(scoring_judge(str(metric), "scores", response_scores(rows), **names))
    options = Options.of(resamples=resamples, level=level, criterion=labels[0].criterion)
    return agreement_on(labelled, judges, options)


def agreement_on(
    study: Study, judges: Sequence[Judge], options: Options, measurement: Measured = "auto"
) -> CriterionAgreement:
    """The agreement of judges with the labels of the options' criterion; None: those without one."""
    criterion, draws = options.labels.criterion, draws_of(options)
    said = study.label_table.filter(pl.col("criterion").eq_missing(pl.lit(criterion)))
    people = what_people_said(study.with_labels(said), options.changed(exams=("none",)))
    assert people.labels is not None
    labels, rated, paper = people.labels, said["score"].count(), options.labels.convention != "default"
    earned = [judge.credits(labels, options.labels.convention) for judge in judges]
    correlated: list[tuple[tuple[Correlation, ...], FloatArray]] = [((), np.zeros(0))] * len(judges)
    if people.ratings is not None:
        tables = [judge.response_scores.score for judge in judges]
        correlated = correlations(tables, people.ratings, convention=options.labels.convention, draws=draws)
    by_task = np.stack([one for _, one in correlated], axis=1) if rated else None
    names: dict[str, Any] = {"tasks": study.tasks, "agents": study.agent_list}
    ceiling = human_ceiling(said, measurement=measurement, draws=draws, **names)
    about = pl.when(pl.col("agent").is_null()).then(pl.format("{} {}", "first", "second")).otherwise("agent")
    hashed = said.select("task", "rater", "criterion", about.alias("about"), pl.coalesce("score", "preference"))
    settings = {
        **({} if criterion is None else {"criterion": criterion}),
        "labels": evidence_hash(hashed.iter_rows()),
        "pairs": labels.rule,
        "alpha": measurement if ceiling.alpha is None else ceiling.alpha.measurement,
        "ties": "labels-left-out,judges-half",
        "missing": "half" if paper else "left-out",
        "undefined": "0" if paper else "left-out",
        "interval": f"{interval_name(draws['level'])};agents:percentile",
        "test": "sign-flip-holm",
        "resamples": str(draws["resamples"]),
        "seed": str(draws["seed"]),
        "study": study.fingerprint[:8],
    }
    return CriterionAgreement(
        criterion=criterion,
        labels=LabelCounts(
            raters=said["rater"].n_unique(),
            ratings=rated,
            preferences=len(said) - rated,
            pairs=labels.n_pairs,
            decided=labels.n_decided,
            tied=labels.n_ties,
            by_preference=int(labels.by_preference.sum()),
            contradicted=labels.n_contradicted,
            margin=labels.margin,
        ),
        judges=tuple(
            JudgeAgreement(judge.name, judge.kind, share, found, judge.signature)
            for judge, share, (found, _) in zip(judges, accuracies(earned, **draws), correlated, strict=True)
        ),
        comparisons=tuple(_comparisons(earned, by_task, draws)),
        ceiling=ceiling,
        notes=tuple(_notes(labels, earned, rated=bool(rated), paper=paper)),
        signature=str(Signature("agreement", settings)),
    )


def _notes(labels: PairLabels, earned: Sequence[PairCredits], *, rated: bool, paper: bool) -> Iterator[str]:
    if not labels.n_decided:
        yield "no pair of responses has a decided label, so there is no accuracy"
    if not rated:
        yield "people compared responses but rated none, so there are no correlations with ratings"
    for one in earned:
        asked = int(one.asked.sum())
        if labels.n_decided and asked < labels.n_decided:
            yield f"{one.name} does not judge {labels.n_decided - asked} of {labels.n_decided} decided pairs"
        missing = asked - int(np.sum(~np.isnan(one.credit)))
        if missing and not paper:
            yield f"{one.name}: {missing} of {asked} pairs are missing and left out"


def _comparisons(earned: Sequence[PairCredits], by_task: FloatArray | None, draws: Draws) -> Iterator[JudgeComparison]:
    """Accuracies on common pairs, and Spearman's coefficients on the tasks on which both judges have one."""
    yield from compare_all_credits(earned, **draws)
    if by_task is None or len(earned) < 2:
        return
    names, pairs = [one.name for one in earned], all_pairs(by_task)
    ps = sign_flip_ps(pairs.differences, seed=draws["seed"], permutations=draws["resamples"])
    counts = np.sum(~np.isnan(pairs.differences), axis=0)
    intervals = task_intervals(by_task[:, pairs.first] - by_task[:, pairs.second], **draws)
    for column, (interval, p, corrected) in enumerate(zip(intervals, ps, holm(ps), strict=True)):
        n = int(counts[column])
        value = float(np.nanmean(pairs.differences[:, column])) if n else None
        found = replace(interval.within(-2.0, 2.0), value=value, n_tasks=n)
        first, second = names[pairs.first[column]], names[pairs.second[column]]
        yield JudgeComparison("spearman", first, second, found, p, corrected)


# --- rank correlations -----------------------------------------------------------------------------------------------


def correlations(
    scores: Sequence[FloatArray], ratings: FloatArray, *, convention: Convention, draws: Draws
) -> list[tuple[tuple[Correlation, ...], FloatArray]]:
    """All coefficients of each table of scores [tasks, agents] with the ratings, and Spearman's on each task.

    A task counts if people rated at least two of its responses. If a coefficient is not defined on a task, the task is
    left out by default, and counts 0 with the papers' convention.
    """
    there = ~np.isnan(ratings)
    rated, labelled = there.sum(axis=1) > 1, there.any(axis=1)
    by_task = [_coefficients(table[rated], ratings[rated]).T for table in scores]
    undefined = [np.isnan(values).sum(axis=0).tolist() for values in by_task]
    if convention != "default":
        by_task = [np.nan_to_num(values, nan=0.0) for values in by_task]
    every = iter(task_intervals(np.concatenate(by_task, axis=1), **draws))
    task = np.repeat(np.arange(len(ratings)), ratings.shape[1])
    found = []
    for table, values, lost in zip(scores, by_task, undefined, strict=True):
        parts = []
        for (key, _), count in zip(COEFFICIENTS.values(), lost, strict=True):
            one = next(every)
            if one.value is None:
                one = replace(one, note="not defined on any task")
            one = replace(one.within(-1.0, 1.0), n_tasks=one.n)
            parts.append(Correlation(**asdict(one), coefficient=key, over="tasks", asked=len(values), undefined=count))
        # over all responses, whatever their task: levels of tasks count too
        both = ~np.isnan(table) & there
        pooled = pooled_correlations(table.ravel(), ratings.ravel(), task, **draws)
        parts += _over("responses", pooled, int(there.sum()), int(both.sum()))
        means = np.stack([table, ratings])[:, labelled]
        agents = over_agents(means, lambda one, other: _coefficients(levelled(one), levelled(other)), draws)
        parts += _over("agents", agents, int(there.any(axis=0).sum()), int(both.any(axis=0).sum()))
        first = np.full(len(ratings), np.nan)
        first[rated] = values[:, 0]
        found.append((tuple(parts), first))
    return found


def _over(over: Over, found: Sequence[Estimate], asked: int, used: int) -> Iterator[Correlation]:
    """``asked``: responses or agents with ratings; ``used``: those that have scores as well."""
    for (key, _), one in zip(COEFFICIENTS.values(), found, strict=True):
        p = spearman_p(one.value, used) if key == "spearman" else None
        whole = replace(one, n=used, n_tasks=one.n)
        yield Correlation(**asdict(whole), coefficient=key, over=over, asked=asked, p=p)


def spearman_p(value: float | None, n: int) -> float | None:
    """Two-sided p of Spearman's coefficient by Student's t with n - 2 degrees of freedom; None: not defined."""
    if value is None or np.isnan(value) or n < 3:
        return None
    if abs(value) >= 1:
        return 0.0
    return float(2 * stdtr(n - 2, -abs(value) * np.sqrt((n - 2) / (1 - value**2))))


def _coefficients(first: FloatArray, second: FloatArray) -> FloatArray:
    """[coefficients, rows] of two tables."""
    return np.stack([rank_correlations(first, second, coefficient) for coefficient in COEFFICIENTS])
