"""What a calibration is made of: labels on some tasks, proxies on all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import MetricError, UserError, nearest
from goldless.meta_evaluation.agreement.agreeing import label_criteria
from goldless.meta_evaluation.judges import Judge, agent_names, scoring_judge
from goldless.meta_evaluation.named_judges import Given, given_judges, recorded_judges
from goldless.meta_evaluation.score_files import run_scores
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.runs.options import Options
from goldless.statistics.prediction_powered import check_proxies
from goldless.studies import Study


@dataclass(frozen=True, slots=True, eq=False)
class LabelledData:
    """Labels and proxies by task and agent."""

    tasks: Sequence[str]
    agents: tuple[str, ...]
    labels: FloatArray
    """[tasks, agents], NaN where there is none."""
    answered: BoolArray
    proxies: FloatArray
    """[tasks, agents, proxies], complete where answered."""
    missing: FloatArray
    """[agents]: cells that were filled with the agent's mean."""
    names: tuple[str, ...]
    """Of the proxies."""

    @property
    def labelled(self) -> BoolArray:
        """Which tasks have labels."""
        return np.asarray(~np.isnan(self.labels).all(axis=1))


def label_table(study: Study, criterion: str | None) -> tuple[FloatArray, BoolArray, tuple[str, ...], str | None]:
    """Mean ratings [tasks, agents], who answered, the agents that have labels, and the criterion."""
    if not study.n_ratings:
        has = "only preferences" if study.n_preferences else "no labels"
        raise MetricError(
            f"{study.name} has {has}; calibrating needs ratings. Give --labels FILE with the columns task, agent, "
            "rater, score, or draw the first tasks to label with --next 20"
        )
    known = label_criteria(study, criterion)
    if len(known) > 1:
        listed = ", ".join("none" if name is None else name for name in known)
        raise UserError(f"labels must be of one criterion, got {listed}. Choose one with --criterion")
    names = agent_names(study)
    number, task_number = {a: i for i, a in enumerate(names)}, {t: i for i, t in enumerate(study.tasks)}
    voices: dict[tuple[int, int], dict[str, list[float]]] = {}
    for rating in study.ratings():
        if rating.criterion == known[0]:
            cell = voices.setdefault((task_number[rating.task], number[rating.agent]), {})
            cell.setdefault(rating.rater, []).append(rating.score)
    table = np.full((len(study), len(names)), np.nan)
    for place, by_rater in voices.items():
        table[place] = np.mean([np.mean(scores) for scores in by_rater.values()])
    answered = np.full(table.shape, not study.n_responses)
    for i, (_, responses) in enumerate(study):
        answered[i, [number[response.agent] for response in responses]] = True
    kept = np.flatnonzero(~np.isnan(table).all(axis=0))
    table, answered, agents = table[:, kept], answered[:, kept], tuple(names[i] for i in kept)
    _check_whole(study.tasks, agents, table, answered)
    return table, answered, agents, known[0]


def _check_whole(tasks: Sequence[str], agents: Sequence[str], table: FloatArray, answered: BoolArray) -> None:
    """Refuse tasks of which only some responses are labelled."""
    rated = ~np.isnan(table)
    partly = np.flatnonzero(rated.any(axis=1) & (answered & ~rated).any(axis=1))
    if not len(partly):
        return
    said = [
        f"{tasks[t]} (no label for {', '.join(agents[a] for a in np.flatnonzero(answered[t] & ~rated[t])[:3])})"
        for t in partly[:5]
    ]
    more = f" and {len(partly) - 5} more" if len(partly) > 5 else ""
    raise UserError(
        f"a task must be labelled for all agents or for none, got {len(partly)} partly labelled: "
        f"{', '.join(said)}{more}. Label the other responses, or leave these tasks' labels out"
    )


def proxy_judges(
    study: Study, options: Options, reviewers: Sequence[str], scale: str | None, scores: Given | None
) -> tuple[list[Judge], bool]:
    """The proxies that need no model, and whether the metrics are among them because a run folder has their scores."""
    if options.metrics and (of_raters := [metric.name for metric in _known_metrics(options) if metric.needs.labels]):
        raise MetricError(f"{of_raters[0]} scores raters, not responses, so it cannot be calibrated")
    run = None if study.path is None or not (study.path / SCORES).is_file() else study.path
    named = bool(options.metrics or reviewers or scores is not None)
    if run is None and not named:
        raise UserError(
            "nothing to calibrate. Name metrics, recorded reviewers or a file of scores, or give a run folder"
        )
    judges = [
        one
        for one in recorded_judges(study, reviewers, scale, convention="default", own_family=True)
        if one.kind != "panel"
    ] + given_judges(scores, study)
    if run is None or (named and not options.metrics):
        return judges, False
    return [*_run_judges(run, study, options.metrics), *judges], True


def _known_metrics(options: Options) -> list[Any]:
    try:
        return options.chosen_metrics()
    except MetricError:
        return []  # of a run folder: its own list says what is known


def _run_judges(run: Path, study: Study, metrics: Sequence[Any]) -> list[Judge]:
    """The metrics of a run folder, all or those named."""
    found = run_scores(RunFolder(run))
    known = [one.metric for one in found]
    for name in metrics:
        if name not in known:
            raise UserError(f"{run} has no metric {name!r}{nearest(str(name), known) or '.'} It has {', '.join(known)}")
    names = {"tasks": study.tasks, "agents": agent_names(study)}
    return [
        scoring_judge(one.metric, "metric", one.scores, signature=one.signature, **names)
        for one in found
        if not metrics or one.metric in metrics
    ]


def labelled_data(
    study: Study,
    judges: Sequence[Judge],
    table: FloatArray,
    answered: BoolArray,
    agents: tuple[str, ...],
    *,
    average: bool,
) -> LabelledData:
    """Proxies where agents answered; a missing score is the agent's mean of that proxy, which keeps estimates valid."""
    known = agent_names(study)
    columns = [known.index(agent) for agent in agents]
    proxies = np.stack([judge.response_scores.score[:, columns] for judge in judges], axis=2)
    proxies = average_of(proxies) if average else proxies
    absent = np.isnan(proxies) & answered[:, :, None]
    for a, k in itertools.product(range(len(agents)), range(proxies.shape[2])):
        there = proxies[~np.isnan(proxies[:, a, k]), a, k]
        if absent[:, a, k].any():
            # a reviewer that does not judge this agent at all has no weight there
            proxies[absent[:, a, k], a, k] = there.mean() if len(there) else 0.0
    names = [f"mean of {'+'.join(judge.name for judge in judges)}"] if average else [judge.name for judge in judges]
    check_proxies(proxies[answered], names)
    return LabelledData(
        study.tasks, agents, table, answered, proxies, absent.sum(axis=(0, 2)).astype(np.float64), tuple(names)
    )


def average_of(proxies: FloatArray) -> FloatArray:
    """The mean of the standardised proxies [tasks, agents, 1], over those that have a score of the response."""
    there = ~np.isnan(proxies)
    flat = proxies.reshape(-1, proxies.shape[2])
    spread = np.nanstd(flat, axis=0)
    scaled = (proxies - np.nanmean(flat, axis=0)) / np.where(spread > 0, spread, 1.0)
    counts = there.sum(axis=2, keepdims=True)
    sums = np.where(there, scaled, 0.0).sum(axis=2, keepdims=True)
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))
