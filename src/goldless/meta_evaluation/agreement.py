"""Compare metrics, reviewers and external scores with people.

study → labels, files and recorded judgements checked → metrics computed → accuracy, correlations, ceiling, comparisons
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr

from goldless.arrays import FloatArray
from goldless.errors import MetricError, UserError, nearest
from goldless.meta_evaluation.agreement_results import (
    Agreement,
    Correlation,
    CriterionAgreement,
    JudgeAgreement,
    JudgeComparison,
    LabelCounts,
    Over,
)
from goldless.meta_evaluation.ceiling import Measured, human_ceiling
from goldless.meta_evaluation.judges import (
    Given,
    Judge,
    agent_names,
    check_unlike,
    draws_of,
    given_judges,
    metric_judges,
    recorded_judges,
)
from goldless.metrics.judgement_table import Convention, check_convention
from goldless.metrics.label_agreement import PairCredits, accuracies, compare_all_credits
from goldless.metrics.pair_labels import PairLabels, check_margin, pair_labels, rating_table, usual_margin
from goldless.records import Preference, Rating
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws, Estimate, interval_name, task_intervals
from goldless.statistics.comparisons import compare_all
from goldless.statistics.rank_correlation import (
    Coefficient,
    levelled,
    over_agents,
    pooled_correlations,
    rank_correlations,
)
from goldless.studies import Study

ORDER: tuple[Coefficient, ...] = ("spearman", "kendall-b", "kendall")
NAMES: dict[Coefficient, str] = {"spearman": "spearman", "kendall-b": "kendall_tau_b", "kendall": "kendall_tau_a"}


async def agree(
    study: Study,
    options: Options,
    *,
    reviewers: Sequence[str] = (),
    scale: str | None = None,
    scores: Given | None = None,
    convention: Convention = "default",
    criterion: str | None = None,
    margin: float | None = None,
    measurement: Measured = "auto",
    own_family: bool = False,
) -> Agreement:
    """How far metrics, recorded reviewers and external scores agree with people, and people with each other.

    ``options.metrics`` may be empty if reviewers or scores are given. ``scores``: files with the columns metric
    (optional), task, agent, score, or scores by metric and (task, agent). ``margin``: the margin of votes by which
    preferences decide a pair; None: 2, or 1 where pairs have fewer than three votes. ``measurement``: of Krippendorff's
    alpha; auto: ordinal up to 20 different values, else interval. Everything that can be checked for free is checked
    before any model is called.
    """
    check_convention(convention)
    draws = draws_of(options)
    if not options.metrics and not reviewers and scores is None:
        raise UserError("nothing to compare with people. Give metrics, recorded reviewers, or a file of scores")
    of_raters = [metric.name for metric in options.chosen_metrics() if metric.needs.labels] if options.metrics else []
    if of_raters:
        raise MetricError(f"{of_raters[0]} scores raters, not responses, so it cannot be compared with people")
    if scale is not None and not reviewers:
        raise UserError(f"--scale {scale} needs --reviewers. Name reviewers, or use all")
    check_margin(margin)
    if not study.n_ratings and not study.n_preferences:
        raise MetricError(
            f"{study.name} has no labels. Add a table labels with the columns task, agent, rater, score, or task, "
            "first, second, rater, preference"
        )
    chosen = label_criteria(study, criterion)
    judges = recorded_judges(study, reviewers, scale, convention=convention, own_family=own_family)
    judges += given_judges(scores, study)
    check_unlike(judges)
    evaluation = await evaluate_study(study, options) if options.metrics else None
    judges = [*(judge.levelled() for judge in metric_judges(evaluation, study, only_asked=True)), *judges]
    check_unlike(judges)
    found = tuple(
        _on_criterion(study, judges, name, convention=convention, margin=margin, measurement=measurement, draws=draws)
        for name in chosen
    )
    return Agreement(
        study=study.name,
        fingerprint=study.fingerprint,
        convention=convention,
        level=options.level,
        complete=evaluation is None or evaluation.complete,
        criteria=found,
        evaluation=evaluation,
    )


def label_criteria(study: Study, criterion: str | None) -> list[str | None]:
    """The given criterion, or all criteria of the labels."""
    found = study.label_table["criterion"].unique(maintain_order=True).to_list()
    if criterion is None:
        return found
    known = [name for name in found if name is not None]
    if criterion not in known:
        raise UserError(
            f"no label has the criterion {criterion!r}{nearest(criterion, known) or '.'} "
            f"Criteria: {', '.join(known) or 'none'}"
        )
    return [criterion]


# --- on one criterion ----------------------------------------------------------------------------------------------


def _on_criterion(
    study: Study,
    judges: Sequence[Judge],
    criterion: str | None,
    *,
    convention: Convention,
    margin: float | None,
    measurement: Measured,
    draws: Draws,
) -> CriterionAgreement:
    said = [label for label in study.labels() if label.criterion == criterion]
    ratings = [label for label in said if isinstance(label, Rating)]
    preferences = [label for label in said if isinstance(label, Preference)]
    names: Any = {"tasks": study.tasks, "agents": agent_names(study)}
    margin = usual_margin(preferences, convention=convention) if margin is None else margin
    labels = pair_labels(ratings, preferences, least_margin=margin, **names)
    earned = [judge.credits(labels, convention) for judge in judges]
    correlated: list[tuple[tuple[Correlation, ...], FloatArray]] = []
    if ratings:
        tables = [judge.response_scores.score for judge in judges]
        correlated = correlations(tables, rating_table(ratings, **names).value, convention=convention, draws=draws)
    found = tuple(
        JudgeAgreement(judge.name, judge.kind, share, correlated[i][0] if correlated else (), judge.signature)
        for i, (judge, share) in enumerate(zip(judges, accuracies(earned, **draws), strict=True))
    )
    by_task = np.stack([one for _, one in correlated], axis=1) if correlated else None
    ceiling = human_ceiling(ratings, preferences, measurement=measurement, draws=draws, **names)
    paper = convention != "default"
    hashed = [(one.task, one.rater, criterion, one.agent, one.score) for one in ratings]
    hashed += [(one.task, one.rater, criterion, f"{one.first} {one.second}", one.preference) for one in preferences]
    settings = {
        **({} if criterion is None else {"criterion": criterion}),
        "labels": evidence_hash(hashed),
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
            raters=len({label.rater for label in said}),
            ratings=len(ratings),
            preferences=len(preferences),
            pairs=labels.n_pairs,
            decided=labels.n_decided,
            tied=labels.n_ties,
            by_preference=int(labels.by_preference.sum()),
            contradicted=labels.n_contradicted,
            margin=labels.margin,
        ),
        judges=found,
        comparisons=tuple(_comparisons(earned, by_task, draws)),
        ceiling=ceiling,
        notes=tuple(_notes(labels, earned, rated=bool(ratings), paper=paper)),
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
    for c in compare_all_credits(earned, **draws):
        found = (c.difference, c.low, c.high, c.p_tasks, c.p_holm, c.n_pairs, c.n_tasks)
        yield JudgeComparison("accuracy", c.first, c.second, *found, p_pairs=c.p)
    if by_task is None or len(earned) < 2:
        return
    names = [one.name for one in earned]
    pairs = compare_all(names, by_task, seed=draws["seed"], permutations=draws["resamples"])
    differences = [by_task[:, names.index(c.first)] - by_task[:, names.index(c.second)] for c in pairs]
    for pair, i in zip(pairs, task_intervals(np.stack(differences, axis=1), **draws), strict=True):
        numbers = (pair.difference, i.low, i.high, pair.p, pair.p_holm, pair.n, pair.n)
        yield JudgeComparison("spearman", pair.first, pair.second, *numbers)


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
    by_task = [
        np.stack([rank_correlations(table[rated], ratings[rated], c) for c in ORDER], axis=1) for table in scores
    ]
    undefined = [np.isnan(values).sum(axis=0).tolist() for values in by_task]
    if convention != "default":
        by_task = [np.nan_to_num(values, nan=0.0) for values in by_task]
    every = task_intervals(np.concatenate(by_task, axis=1), **draws)
    found = []
    for i, (table, values) in enumerate(zip(scores, by_task, strict=True)):
        parts = []
        for c, one, lost in zip(ORDER, every[i * len(ORDER) :], undefined[i], strict=False):
            low, high = (None if end is None else min(1.0, max(-1.0, end)) for end in (one.low, one.high))
            note = "not defined on any task" if one.value is None else one.note
            numbers = one.value, low, high, len(values), one.n, lost, one.n
            parts.append(Correlation(NAMES[c], "tasks", *numbers, one.method, note))
        # over all responses, whatever their task: levels of tasks count too
        task = np.repeat(np.arange(len(ratings)), ratings.shape[1])
        both = ~np.isnan(table) & there
        pooled = pooled_correlations(table.ravel(), ratings.ravel(), task, **draws)
        parts += _over("responses", pooled, int(there.sum()), int(both.sum()))
        agents = over_agents(np.stack([table, ratings])[:, labelled], _coefficients, draws)
        parts += _over("agents", agents, int(there.any(axis=0).sum()), int(both.any(axis=0).sum()))
        first = np.full(len(ratings), np.nan)
        first[rated] = values[:, 0]
        found.append((tuple(parts), first))
    return found


def _over(over: Over, found: Sequence[Estimate], asked: int, used: int) -> Iterator[Correlation]:
    """``asked``: responses or agents with ratings; ``used``: those that have scores as well."""
    for c, one in zip(ORDER, found, strict=True):
        p = spearman_p(one.value, used) if c == "spearman" else None
        numbers = one.value, one.low, one.high, asked, used, 0, one.n
        yield Correlation(NAMES[c], over, *numbers, one.method, one.note, p)


def spearman_p(value: float | None, n: int) -> float | None:
    """Two-sided p of Spearman's coefficient by Student's t with n - 2 degrees of freedom; None: not defined."""
    if value is None or np.isnan(value) or n < 3:
        return None
    if abs(value) >= 1:
        return 0.0
    return float(2 * stdtr(n - 2, -abs(value) * np.sqrt((n - 2) / (1 - value**2))))


def _coefficients(first: FloatArray, second: FloatArray) -> FloatArray:
    """[coefficients, draws] of the agents' means over drawn tasks."""
    first, second = levelled(first), levelled(second)
    return np.stack([rank_correlations(first, second, coefficient) for coefficient in ORDER])
