"""Calibration: agents' means on the people's scale, from labels on some tasks and proxies on all.

study → labels and proxies checked → metrics computed → estimates, comparisons, corrected shares → the next labels
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import MetricError, UserError, nearest
from goldless.meta_evaluation.agreement import label_criteria
from goldless.meta_evaluation.calibration_results import (
    CalibratedAgent,
    CalibratedComparison,
    Calibration,
    JudgeShare,
    NextLabel,
)
from goldless.meta_evaluation.judges import (
    Given,
    Judge,
    agent_names,
    check_unlike,
    draws_of,
    given_judges,
    metric_judges,
    numbers,
    recorded_judges,
    run_scores,
    scoring_judge,
)
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.statistics.bootstrap import Limits
from goldless.statistics.comparisons import SIGNIFICANT, holm
from goldless.statistics.prediction_powered import (
    FEWEST,
    PoweredMean,
    Round,
    check_counts,
    check_proxies,
    corrected_share,
    draw_by_size,
    expected_errors,
    powered_mean,
)
from goldless.studies import Study, with_labels
from goldless.studies.checking import Checking, Names, all_at_once
from goldless.studies.tables import ALLOWED, Source, is_table

RANDOM = "Valid if the labelled tasks are a random draw from all tasks; --next N makes one."
UNLIKE = 0.01
"""Labelled tasks differ from the others if the smallest corrected p is below this."""
AT_RANDOM = "Drawn at random, each task with the same chance. Label the responses of all agents to these tasks."
BY_CHANGE = (
    "Drawn with chances proportional to the expected change: the error to be expected of the prediction of a task's "
    "difference (half that of the labelled tasks with the most similar proxies, half that of all), as root mean square "
    "over the undecided comparisons, each in units of its own spread. Label the responses of all agents to these tasks."
)


async def calibrate(
    study: Study,
    options: Options,
    *,
    labels: Any = None,
    reviewers: Sequence[str] = (),
    scale: str | None = None,
    scores: Given | None = None,
    criterion: str | None = None,
    drawn: Sequence[Path | str] = (),
    next_count: int = 0,
    average: bool = False,
) -> Calibration:
    """Estimate each agent's mean label over all tasks from labels on some of them and proxies on all.

    ``labels``: a file or frame in place of the study's labels. Proxies: ``options.metrics``, of a run folder those it
    has (all by default); recorded ``reviewers`` on a ``scale``; external ``scores``. ``average``: use the mean of the
    standardised proxies as the only one. ``drawn``: files of earlier draws, with their chances. ``next_count``: how
    many tasks to draw to be labelled next; without any label, at random. Everything that can be checked for free is
    checked before any model is called.
    """
    draws_of(options)
    study = study if labels is None else with_labels(study, labels)
    first_draw = bool(next_count) and not study.n_ratings and not study.n_preferences and not drawn
    labelled = np.zeros(len(study), np.bool_)
    if not first_draw:
        table, answered, agents, criterion = label_table(study, criterion)
        labelled = np.asarray(~np.isnan(table).all(axis=1))
    rounds = read_rounds(drawn, study, labelled)
    unlabelled = int((~labelled).sum())
    if not 0 <= next_count <= unlabelled:
        raise UserError(f"--next must be from 1 to {unlabelled}, the number of tasks without labels, got {next_count}")
    found = Calibration(study.name, study.fingerprint, criterion, options.level, tasks=len(study))
    if first_draw:
        one = draw_by_size(np.ones(len(study)), next_count, seed=options.seed)
        chosen = [NextLabel(study.tasks[t], float(c), None) for t, c in zip(one.task, one.chance, strict=True)]
        settings = {"next": str(next_count), "seed": str(options.seed), "study": study.fingerprint[:8]}
        signature = str(Signature("calibration", settings))
        return replace(found, criterion=None, next_labels=tuple(chosen), rule=AT_RANDOM, signature=signature)
    judges, of_run = proxy_judges(study, options, reviewers, scale, scores)
    first = int(labelled.sum()) - sum(len(one.task) for one in rounds)
    proxies = len(judges) + (0 if of_run else len(options.metrics))
    check_counts(first, len(labelled) - first, 1 if average else proxies)
    evaluation = None
    if options.metrics and not of_run:
        evaluation = await evaluate_study(study, options)
        judges = [*metric_judges(evaluation, study), *judges]
    check_unlike(judges)
    data = labelled_data(study, judges, table, answered, agents, average=average)
    found = replace(found, evaluation=evaluation, labelled=int(labelled.sum()))
    return _estimated(found, study, options, data, judges, rounds=rounds, next_count=next_count)


def _estimated(
    found: Calibration,
    study: Study,
    options: Options,
    data: LabelledData,
    judges: Sequence[Judge],
    *,
    rounds: Sequence[Round],
    next_count: int,
) -> Calibration:
    names = data.names
    compared = compared_agents(data, rounds, options)
    chosen = []
    if next_count:
        seed = options.seed + len(rounds)
        chosen = next_labels(data.tasks, compared, data.labelled, next_count, seed=seed)
    settings = {
        **({} if found.criterion is None else {"criterion": found.criterion}),
        "labels": evidence_hash([(t, a, v) for t, row in enumerate(data.labels.tolist()) for a, v in enumerate(row)]),
        "proxies": ",".join(names),
        "estimate": "ppi++-by-task",
        "interval": f"t-{options.level:g}(exact-at-limits)",
        **({"rounds": str(len(rounds))} if rounds else {}),
        "study": study.fingerprint[:8],
    }
    notes = data_notes(study, data, rounds)
    if next_count and not chosen:
        notes.append("Every comparison is decided, so no further label would change a decision.")
    return replace(
        found,
        proxies=names,
        agents=tuple(calibrated_agent(data, a, rounds, options.level) for a in range(len(data.agents))),
        comparisons=tuple(one for one, _, _ in compared),
        shares=tuple(judge_shares(data, options.level)) if not rounds else (),
        next_labels=tuple(chosen),
        rule=BY_CHANGE if chosen else None,
        notes=tuple(notes),
        signature=" || ".join([str(Signature("calibration", settings)), *(j.signature for j in judges if j.signature)]),
    )


# --- labels and proxies ----------------------------------------------------------------------------------------------


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
        return np.asarray(~np.isnan(self.labels).all(axis=1))

    @property
    def limits(self) -> Limits:
        """The smallest and the largest label that anybody gave."""
        return float(np.nanmin(self.labels)), float(np.nanmax(self.labels))


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
    number, task_number = numbers(names), numbers(study.tasks)
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
    rated = ~np.isnan(table)
    partly = np.flatnonzero(rated.any(axis=1) & (answered & ~rated).any(axis=1))
    if len(partly):
        said = [
            f"{study.tasks[t]} (no label for "
            f"{', '.join(agents[a] for a in np.flatnonzero(answered[t] & ~rated[t])[:3])})"
            for t in partly[:5]
        ]
        more = f" and {len(partly) - 5} more" if len(partly) > 5 else ""
        raise UserError(
            f"a task must be labelled for all agents or for none, got {len(partly)} partly labelled: "
            f"{', '.join(said)}{more}. Label the other responses, or leave these tasks' labels out"
        )
    return table, answered, agents, known[0]


def proxy_judges(
    study: Study, options: Options, reviewers: Sequence[str], scale: str | None, scores: Given | None
) -> tuple[list[Judge], bool]:
    """The proxies that need no model, and whether the metrics are among them because a run folder has their scores."""
    of_raters: list[str] = []
    with contextlib.suppress(MetricError):  # of a run folder: its own list says what is known
        of_raters = [one.name for one in options.chosen_metrics() if one.needs.labels] if options.metrics else []
    if of_raters:
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
    scored = run_scores(RunFolder(run))
    known = [one.metric for one in scored]
    for name in options.metrics:
        if name not in known:
            raise UserError(f"{run} has no metric {name!r}{nearest(str(name), known) or '.'} It has {', '.join(known)}")
    names = {"tasks": study.tasks, "agents": agent_names(study)}
    of_run = [
        scoring_judge(one.metric, "metric", one.scores, signature=one.signature, **names)
        for one in scored
        if not options.metrics or one.metric in options.metrics
    ]
    return [*of_run, *judges], True


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


# --- estimates -------------------------------------------------------------------------------------------------------


def _powered(
    labels: FloatArray, proxies: FloatArray, there: BoolArray, rounds: Sequence[Round], *, limits: Limits, level: float
) -> PoweredMean:
    """The estimate over the tasks that are there."""
    number = np.cumsum(there) - 1
    kept = [Round(number[one.task[there[one.task]]], one.chance[there[one.task]]) for one in rounds]
    kept = [one for one in kept if len(one.task)]
    return powered_mean(labels[there], proxies[there], rounds=kept, limits=limits, level=level)


def calibrated_agent(data: LabelledData, a: int, rounds: Sequence[Round], level: float) -> CalibratedAgent:
    """Estimate the mean of agent number ``a``."""
    try:
        found = _powered(
            data.labels[:, a], data.proxies[:, a], data.answered[:, a], rounds, limits=data.limits, level=level
        )
    except UserError as error:
        raise UserError(f"{data.agents[a]}: {error}") from error
    return CalibratedAgent(
        agent=data.agents[a],
        mean=found.mean,
        low=found.low,
        high=found.high,
        labelled=found.n,
        unlabelled=found.unlabelled,
        labels_worth=found.labels_worth,
        label_mean=found.label_mean,
        missing=int(data.missing[a]),
        weights=dict(zip(data.names, found.weights.tolist(), strict=True)),
    )


def compared_agents(
    data: LabelledData, rounds: Sequence[Round], options: Options
) -> list[tuple[CalibratedComparison, FloatArray, FloatArray]]:
    """Every pair of agents, or each with the baseline, with the differences of labels and proxies on each task."""
    if options.baseline is not None and options.baseline not in data.agents:
        hint = nearest(options.baseline, data.agents) or "."
        raise UserError(f"unknown agent {options.baseline!r}{hint} Agents with labels: {', '.join(data.agents)}")
    made = []
    lowest, highest = data.limits
    limits = lowest - highest, highest - lowest
    for a, b in itertools.combinations(range(len(data.agents)), 2):
        first, second = (b, a) if data.agents[b] == options.baseline else (a, b)
        if options.baseline not in {None, data.agents[first]}:
            continue
        there = data.answered[:, a] & data.answered[:, b]
        labels = data.labels[:, first] - data.labels[:, second]
        proxies = np.where(there[:, None], data.proxies[:, first] - data.proxies[:, second], np.nan)
        labelled = int((there & data.labelled).sum())
        if labelled < max(FEWEST, proxies.shape[1] + 2) or there.sum() - labelled < FEWEST:
            continue
        found = _powered(labels, proxies, there, rounds, limits=limits, level=options.level)
        made.append((first, second, found, labels, proxies))
    corrected = holm([found.p for _, _, found, _, _ in made])
    alpha = SIGNIFICANT / max(1, len(made))
    compared = []
    for (first, second, found, labels, proxies), p_holm in zip(made, corrected, strict=True):
        decided = p_holm is not None and p_holm < SIGNIFICANT
        needed = None if decided else found.labels_to_decide(alpha)
        row = CalibratedComparison(
            first=data.agents[first],
            second=data.agents[second],
            difference=found.mean,
            low=found.low,
            high=found.high,
            p=found.p,
            p_holm=found.p if p_holm is None else p_holm,
            labelled=found.n,
            unlabelled=found.unlabelled,
            more_labels=None if needed is None else max(1, needed - found.n),
            tasks_needed=None if decided else found.tasks_to_decide(alpha),
            decided=decided,
        )
        compared.append((row, labels, proxies))
    return compared


# --- binary judges, notes --------------------------------------------------------------------------------------------


def judge_shares(data: LabelledData, level: float) -> list[JudgeShare]:
    """Corrected shares of the judges that only say 0 or 1, where labels do too."""

    def binary(values: FloatArray) -> bool:
        return set(np.unique(values[~np.isnan(values)]).tolist()) <= {0.0, 1.0}

    if not binary(data.labels):
        return []
    found = []
    for k, judge in enumerate(data.names):
        said = np.where(data.answered, data.proxies[:, :, k], np.nan)
        if not binary(said):
            continue
        for a, agent in enumerate(data.agents):
            label, verdict = data.labels[:, a], said[:, a]
            rest = verdict[data.answered[:, a] & np.isnan(label)]
            good, bad = verdict[label == 1], verdict[label == 0]
            one = corrected_share(
                passed=int(rest.sum()),
                n=len(rest),
                good_passed=int(good.sum()),
                good=len(good),
                bad_failed=int((1 - bad).sum()),
                bad=len(bad),
                level=level,
            )
            known = one.value is not None
            judged, hits, misses = (float(part.mean()) if known else None for part in (rest, good, 1 - bad))
            rates = (judged, hits, misses)
            found.append(JudgeShare(agent, judge, one.value, one.low, one.high, *rates, len(good), len(bad), one.note))
    return found


def data_notes(study: Study, data: LabelledData, rounds: Sequence[Round]) -> list[str]:
    """What to know about the labels and proxies of an estimate."""
    notes = [RANDOM]
    if without := [agent for agent in agent_names(study) if agent not in data.agents]:
        notes.append(f"Without labels, and so left out: {', '.join(without)}.")
    if data.missing.any():
        notes.append(
            f"{int(data.missing.sum())} scores of proxies are missing; the agent's mean of the proxy is used for them, "
            "which keeps the estimate valid."
        )
    first = data.labelled.copy()
    for one in rounds:
        first[one.task] = False
    ps = []
    for k in range(len(data.names)):
        by_task = np.nanmean(np.where(data.answered, data.proxies[:, :, k], np.nan), axis=1)
        inside, outside = by_task[first], by_task[~first]
        inside, outside = inside[~np.isnan(inside)], outside[~np.isnan(outside)]
        ps.append(_welch_p(inside, outside))
    for name, p in zip(data.names, holm(ps), strict=True):
        if p is not None and p < UNLIKE:
            notes.append(
                f"Labelled tasks differ from the others in {name} (p = {p:.2g}): they do not look like a random draw, "
                "so the estimate may be biased."
            )
    return notes


def _welch_p(first: FloatArray, second: FloatArray) -> float | None:
    """Two-sided p of equal means; None: too few values, or no spread."""
    if min(len(first), len(second)) < 2:
        return None
    parts = [(side.var(ddof=1) / len(side), len(side) - 1) for side in (first, second)]
    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return None
    degrees = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    return float(2 * stdtr(degrees, -abs(first.mean() - second.mean()) / np.sqrt(variance)))


# --- the next labels -------------------------------------------------------------------------------------------------


def next_labels(
    tasks: Sequence[str],
    compared: Sequence[tuple[CalibratedComparison, FloatArray, FloatArray]],
    labelled: BoolArray,
    count: int,
    *,
    seed: int,
) -> list[NextLabel]:
    """Tasks drawn by the expected change of the undecided comparisons, largest first; empty if all are decided.

    ``compared``: each comparison with the differences of labels [tasks] and of proxies [tasks, k].
    """
    relative, change = [], []
    for comparison, labels, proxies in compared:
        if comparison.decided:
            continue
        there = ~np.isnan(proxies).any(axis=1)
        errors = np.full(len(tasks), np.nan)
        errors[there] = expected_errors(labels[there], proxies[there])
        spread = float(np.nanstd(labels))
        change.append(errors / there.sum())
        relative.append(errors / spread if spread > 0 else errors)
    if not relative:
        return []
    drawn = draw_by_size(np.where(labelled, np.nan, _root_mean_square(relative)), count, seed=seed)
    expected = _root_mean_square(change)
    found = [NextLabel(tasks[t], float(c), float(expected[t])) for t, c in zip(drawn.task, drawn.chance, strict=True)]
    return sorted(found, key=lambda one: -(one.expected_change or 0.0))


def _root_mean_square(columns: Sequence[FloatArray]) -> FloatArray:
    """Over the comparisons that have a value; 0 where none has."""
    table = np.stack(columns)
    there = ~np.isnan(table)
    mean = np.where(there, table, 0.0) ** 2
    root: FloatArray = np.sqrt(mean.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    return root


def read_rounds(paths: Sequence[Path | str], study: Study, labelled: BoolArray) -> list[Round]:
    """Drawn tasks with their chances, in the order of the files. All of them must be labelled."""
    rounds, seen = [], set[int]()
    with all_at_once("drawn tasks") as problems:
        for path in map(Path, paths):
            if not is_table(path):
                problems.add(f"no such file; {ALLOWED}", str(path))
                continue
            names = Names(study.name)
            names.update(numbers(study.tasks))
            check = Checking(path.name, problems)
            chance: dict[int, float] = {}
            for chunk in Source(path, path.name).chunks(problems):
                check.rows += len(chunk.rows)
                for line, row in zip(chunk.lines, chunk.rows, strict=True):
                    task, value = check.name(row, "task", line), check.number(row, "chance", line)
                    if task is None or value is None or (number := names.number(task, line)) < 0:
                        continue
                    if not 0 < value <= 1:
                        check.add(f"chance must be above 0 and at most 1, got {value:g}", line)
                    if number in seen:
                        check.duplicate(f"task {task!r} was drawn before", line)
                    seen.add(number)
                    chance[number] = value
            check.finish()
            names.report_strangers("task", path.name, problems)
            rounds.append(Round(np.array(list(chance), np.int64), np.array(list(chance.values()), np.float64)))
    drawn = [number for one in rounds for number in one.task.tolist()]
    if without := [study.tasks[number] for number in drawn if not labelled[number]]:
        raise UserError(
            f"{len(without)} of the {len(drawn)} drawn tasks have no labels: {', '.join(without[:5])}"
            f"{f' and {len(without) - 5} more' * (len(without) > 5)}. Label all of them: leaving some out is a choice "
            "that biases the estimate"
        )
    return rounds
