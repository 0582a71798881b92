"""Compare metrics, reviewers and external scores with people.

study → labels, files and recorded judgements checked → metrics computed → accuracy, correlations, ceiling, comparisons
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.errors import MetricError, UserError, nearest
from goldless.judging.scales import find_scale
from goldless.meta_evaluation.agreement.ceiling import Measured, human_ceiling
from goldless.meta_evaluation.agreement.results import (
    Agreement,
    Correlation,
    CriterionAgreement,
    JudgeAgreement,
    JudgeComparison,
    LabelCounts,
    correlations,
)
from goldless.meta_evaluation.judges import (
    Judge,
    Scores,
    agent_names,
    judgement_arrays,
    judgements_hash,
    metric_judges,
    recorded_scales,
    reviewer_judges,
    scoring_judge,
)
from goldless.meta_evaluation.resampling import draws_of
from goldless.meta_evaluation.score_files import GivenScores, check_given, read_score_files
from goldless.metrics.chair import usual_fusion
from goldless.metrics.judgement_table import Convention, check_convention
from goldless.metrics.label_agreement import PairCredits, accuracies, compare_all_credits
from goldless.metrics.pair_labels import PairLabels, check_margin, pair_labels, rating_table, usual_margin
from goldless.records import Preference, Rating
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.recorded import evidence_hash
from goldless.runs.review_evidence import recorded_review, without_own_family
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws, interval_name, task_intervals
from goldless.statistics.comparisons import compare_all
from goldless.statistics.rank_correlation import levelled
from goldless.studies import Study

Given = str | Path | Sequence[str | Path] | Mapping[str, Scores]


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
    _check_named(options, reviewers, scale, scores)
    _check_labels(study, margin)
    chosen = _criteria(study, criterion)
    judges = _recorded_judges(study, reviewers, scale, convention=convention, own_family=own_family)
    judges += [_given_judge(one, study) for one in _given(scores, study)]
    _check_unlike(judges)
    evaluation = await evaluate_study(study, options) if options.metrics else None
    judges = [*map(_levelled, metric_judges(evaluation, study, only_asked=True)), *judges]
    _check_unlike(judges)
    found = tuple(
        _on_criterion(study, judges, name, convention=convention, margin=margin, measurement=measurement, draws=draws)
        for name in chosen
    )
    return Agreement(
        study=study.name,
        fingerprint=study.fingerprint,
        convention=convention,
        level=options.level,
        criteria=found,
        evaluation=evaluation,
    )


# --- what is held against people -----------------------------------------------------------------------------------


def _check_named(options: Options, reviewers: Sequence[str], scale: str | None, scores: Given | None) -> None:
    """Refuse what no agreement could be measured with."""
    if not options.metrics and not reviewers and scores is None:
        raise UserError("nothing to compare with people. Give metrics, recorded reviewers, or a file of scores")
    of_raters = [metric.name for metric in options.chosen_metrics() if metric.needs.labels] if options.metrics else []
    if of_raters:
        raise MetricError(f"{of_raters[0]} scores raters, not responses, so it cannot be compared with people")
    if scale is not None and not reviewers:
        raise UserError(f"--scale {scale} needs --reviewers. Name reviewers, or use all")


def _check_labels(study: Study, margin: float | None) -> None:
    """Refuse a study without labels."""
    check_margin(margin)
    if not study.n_ratings and not study.n_preferences:
        raise MetricError(
            f"{study.name} has no labels. Add a table labels with the columns task, agent, rater, score, or task, "
            "first, second, rater, preference"
        )


def _criteria(study: Study, criterion: str | None) -> list[str | None]:
    """The given criterion, or all criteria of the labels."""
    found = list(dict.fromkeys(label.criterion for label in study.labels()))
    if criterion is None:
        return found
    known = [name for name in found if name is not None]
    if criterion not in known:
        raise UserError(
            f"no label has the criterion {criterion!r}{nearest(criterion, known) or '.'} "
            f"Criteria: {', '.join(known) or 'none'}"
        )
    return [criterion]


def _given(scores: Given | None, study: Study) -> list[GivenScores]:
    if scores is None:
        return []
    if isinstance(scores, Mapping):
        return [check_given(name, one, study) for name, one in scores.items()]
    return read_score_files([scores] if isinstance(scores, str | Path) else list(scores), study)


def _levelled(judge: Judge) -> Judge:
    """Scores that differ only by rounding are equal."""
    scores = judge.response_scores
    return replace(judge, scores=replace(scores, score=levelled(scores.score)))


def _given_judge(given: GivenScores, study: Study) -> Judge:
    """External scores."""
    rows = [(task, agent, score) for (task, agent), score in sorted(given.scores.items())]
    settings = {"scores": f"given-{evidence_hash(rows)}", **({"file": given.file} if given.file else {})}
    signature = Signature(given.metric, {**settings, "study": study.fingerprint[:8]})
    names = {"tasks": study.tasks, "agents": agent_names(study)}
    return _levelled(scoring_judge(given.metric, "scores", given.scores, signature=str(signature), **names))


def _recorded_judges(
    study: Study, reviewers: Sequence[str], scale: str | None, *, convention: Convention, own_family: bool
) -> list[Judge]:
    """Recorded reviewers, each alone, and their equal vote where they are several; ``all``: every one on the scale.

    By default judgements on agents of a reviewer's own family are left out, as in a review; the papers keep them.
    """
    if not reviewers:
        return []
    wanted = [] if "all" in reviewers else list(dict.fromkeys(reviewers))
    chosen = find_scale(_scale(study, scale))
    evidence = recorded_review(study, scale=chosen, reviewers=wanted, convention=convention)
    rows = evidence.judgements
    own_family = own_family or convention != "default"
    if not own_family:
        rows = without_own_family(rows, {}, {agent.agent: agent.family or agent.agent for agent in study.agents})
    said = set(rows["reviewer"])
    heard = [name for name in evidence.reviewers if name in said]
    if not heard:
        raise MetricError(
            "the given reviewers judged only agents of their own family. Add --own-family to count these judgements"
        )
    table = judgement_arrays(study, rows, heard, pairwise=chosen.pairwise)
    settings = {
        "scale": chosen.name,
        "own-family": "judged" if own_family else "left-out",
        "missing": "left-out" if convention == "default" else "0.5" if chosen.pairwise else "0",
        "study": study.fingerprint[:8],
    }
    fusion = "vote" if chosen.pairwise else usual_fusion(convention)
    of_panel = {"reviewers": ",".join(heard), "fusion": fusion}
    found = []
    for judge in reviewer_judges(table, convention=convention):
        own = rows if judge.kind == "panel" else rows.filter(pl.col("reviewer") == judge.name)
        evidence_settings = {**settings, "evidence": f"recorded-{judgements_hash(own)}"}
        described = {**of_panel, **evidence_settings} if judge.kind == "panel" else evidence_settings
        found.append(replace(judge, signature=str(Signature(judge.name, described))))
    return found


def _scale(study: Study, scale: str | None) -> str:
    """The scale named, or the only one that judgements are on."""
    if scale is not None:
        return scale
    known = list(recorded_scales(study))
    if len(known) == 1:
        return known[0]
    raise UserError(f"choose the scale of the judgements with --scale. {study.name} has {', '.join(known) or 'none'}")


def _check_unlike(judges: Sequence[Judge]) -> None:
    """Raise where two judges have one name."""
    names = [judge.name for judge in judges]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UserError(
            f"names of metrics, reviewers and scores must be unique, got {', '.join(map(repr, twice))} more than once. "
            "Rename one in the column metric of its file, or leave one out"
        )


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
    ratings = [label for label in study.ratings() if label.criterion == criterion]
    preferences = [label for label in study.preferences() if label.criterion == criterion]
    tasks, agents = study.tasks, [agent.agent for agent in study.agents]
    margin = usual_margin(preferences, convention=convention) if margin is None else margin
    labels = pair_labels(ratings, preferences, tasks=tasks, agents=agents, least_margin=margin)
    earned = [judge.credits(labels, convention) for judge in judges]
    table = rating_table(ratings, tasks=tasks, agents=agents) if ratings else None
    correlated: list[tuple[tuple[Correlation, ...], FloatArray]] = []
    if table is not None:
        tables = [judge.response_scores.score for judge in judges]
        correlated = correlations(tables, table.value, convention=convention, draws=draws)
    shares = accuracies(earned, **draws)
    found = tuple(
        JudgeAgreement(judge.name, judge.kind, share, correlated[i][0] if correlated else (), judge.signature)
        for i, (judge, share) in enumerate(zip(judges, shares, strict=True))
    )
    by_task = np.stack([one for _, one in correlated], axis=1) if correlated else None
    ceiling = human_ceiling(ratings, preferences, tasks=tasks, agents=agents, measurement=measurement, draws=draws)
    return CriterionAgreement(
        criterion=criterion,
        labels=_counts(ratings, preferences, labels),
        judges=found,
        comparisons=(*_compared(earned, draws), *_compared_ranks([j.name for j in judges], by_task, draws)),
        ceiling=ceiling,
        notes=_notes(labels, earned, convention, rated=table is not None),
        signature=str(
            Signature(
                "agreement",
                {
                    **({} if criterion is None else {"criterion": criterion}),
                    "labels": _hash([*ratings, *preferences]),
                    "pairs": labels.rule,
                    "alpha": measurement if ceiling.alpha is None else ceiling.alpha.measurement,
                    **_settings(study, convention, draws),
                },
            )
        ),
    )


def _counts(ratings: Sequence[Rating], preferences: Sequence[Preference], labels: PairLabels) -> LabelCounts:
    return LabelCounts(
        raters=len({label.rater for label in ratings} | {label.rater for label in preferences}),
        ratings=len(ratings),
        preferences=len(preferences),
        pairs=labels.n_pairs,
        decided=labels.n_decided,
        tied=labels.n_ties,
        by_preference=int(labels.by_preference.sum()),
        contradicted=labels.n_contradicted,
        margin=labels.margin,
    )


def _notes(
    labels: PairLabels, earned: Sequence[PairCredits], convention: Convention, *, rated: bool
) -> tuple[str, ...]:
    notes = []
    if not labels.n_decided:
        notes.append("no pair of responses has a decided label, so there is no accuracy")
    if not rated:
        notes.append("people compared responses but rated none, so there are no correlations with ratings")
    for one in earned:
        asked = int(one.asked.sum())
        if labels.n_decided and asked < labels.n_decided:
            notes.append(f"{one.name} does not judge {labels.n_decided - asked} of {labels.n_decided} decided pairs")
        missing = asked - int(np.sum(~np.isnan(one.credit)))
        if missing and convention == "default":
            notes.append(f"{one.name}: {missing} of {asked} pairs are missing and left out")
    return tuple(notes)


def _compared(earned: Sequence[PairCredits], draws: Draws) -> list[JudgeComparison]:
    found = compare_all_credits(earned, **draws)
    return [
        JudgeComparison(
            *("accuracy", c.first, c.second, c.difference, c.low, c.high, c.p_tasks, c.p_holm, c.n_pairs, c.n_tasks),
            p_pairs=c.p,
        )
        for c in found
    ]


def _compared_ranks(names: Sequence[str], by_task: FloatArray | None, draws: Draws) -> list[JudgeComparison]:
    """Spearman's coefficients on the tasks on which both judges have one."""
    if by_task is None or len(names) < 2:
        return []
    pairs = compare_all(names, by_task, seed=draws["seed"], permutations=draws["resamples"])
    number = {name: i for i, name in enumerate(names)}
    differences = np.stack([by_task[:, number[c.first]] - by_task[:, number[c.second]] for c in pairs], axis=1)
    intervals = task_intervals(differences, **draws)
    return [
        JudgeComparison("spearman", c.first, c.second, c.difference, i.low, i.high, c.p, c.p_holm, c.n, c.n)
        for c, i in zip(pairs, intervals, strict=True)
    ]


def _hash(labels: Sequence[Rating | Preference]) -> str:
    """A hash of these labels."""
    return evidence_hash(
        [
            (label.task, label.rater, label.criterion, label.agent, label.score)
            if isinstance(label, Rating)
            else (label.task, label.rater, label.criterion, f"{label.first} {label.second}", label.preference)
            for label in labels
        ]
    )


def _settings(study: Study, convention: Convention, draws: Draws) -> dict[str, str]:
    """What the signatures of all criteria have in common."""
    paper = convention != "default"
    return {
        "ties": "labels-left-out,judges-half",
        "missing": "half" if paper else "left-out",
        "undefined": "0" if paper else "left-out",
        "interval": f"{interval_name(draws['level'])};agents:percentile",
        "test": "sign-flip-holm",
        "resamples": str(draws["resamples"]),
        "seed": str(draws["seed"]),
        "study": study.fingerprint[:8],
    }
