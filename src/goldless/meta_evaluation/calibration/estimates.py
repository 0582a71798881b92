"""Estimates from labels and proxies: agents' means, comparisons, corrected shares."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import UserError, nearest
from goldless.meta_evaluation.calibration.labelled_data import LabelledData
from goldless.meta_evaluation.calibration.results import CalibratedAgent, CalibratedComparison, JudgeShare
from goldless.meta_evaluation.judges import agent_names
from goldless.runs.options import Options
from goldless.statistics.bootstrap import Limits
from goldless.statistics.comparisons import SIGNIFICANT, holm
from goldless.statistics.corrected_share import corrected_share
from goldless.statistics.prediction_powered import FEWEST, PoweredMean, Round, powered_mean
from goldless.studies import Study

RANDOM = "Valid if the labelled tasks are a random draw from all tasks; --next N makes one."
UNLIKE = 0.01
"""Labelled tasks differ from the others if the smallest corrected p is below this."""


def _powered(
    labels: FloatArray, proxies: FloatArray, there: BoolArray, rounds: Sequence[Round], *, limits: Limits, level: float
) -> PoweredMean:
    """The estimate over the tasks that are there."""
    number = np.cumsum(there) - 1
    kept = [Round(number[one.task[there[one.task]]], one.chance[there[one.task]]) for one in rounds]
    kept = [one for one in kept if len(one.task)]
    return powered_mean(labels[there], proxies[there], rounds=kept, limits=limits, level=level)


def _limits(data: LabelledData) -> Limits:
    """The smallest and the largest label that anybody gave."""
    return float(np.nanmin(data.labels)), float(np.nanmax(data.labels))


def calibrated_agent(
    data: LabelledData, a: int, names: Sequence[str], rounds: Sequence[Round], level: float
) -> CalibratedAgent:
    """Estimate the mean of agent number ``a``."""
    try:
        found = _powered(
            data.labels[:, a], data.proxies[:, a], data.answered[:, a], rounds, limits=_limits(data), level=level
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
        weights=dict(zip(names, found.weights.tolist(), strict=True)),
    )


def compared_agents(
    data: LabelledData, rounds: Sequence[Round], options: Options
) -> list[tuple[CalibratedComparison, FloatArray, FloatArray]]:
    """Every pair of agents, or each with the baseline, with the differences of labels and proxies on each task."""
    if options.baseline is not None and options.baseline not in data.agents:
        hint = nearest(options.baseline, data.agents) or "."
        raise UserError(f"unknown agent {options.baseline!r}{hint} Agents with labels: {', '.join(data.agents)}")
    made = []
    lowest, highest = _limits(data)
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


def judge_shares(data: LabelledData, names: Sequence[str], level: float) -> list[JudgeShare]:
    """Corrected shares of the judges that only say 0 or 1, where labels do too."""
    if not _binary(data.labels):
        return []
    found = []
    for k, judge in enumerate(names):
        said = np.where(data.answered, data.proxies[:, :, k], np.nan)
        if not _binary(said):
            continue
        for a, agent in enumerate(data.agents):
            label, verdict = data.labels[:, a], said[:, a]
            rest = verdict[data.answered[:, a] & np.isnan(label)]
            good, bad = verdict[label == 1], verdict[label == 0]
            try:
                one = corrected_share(
                    passed=int(rest.sum()),
                    n=len(rest),
                    good_passed=int(good.sum()),
                    good=len(good),
                    bad_failed=int((1 - bad).sum()),
                    bad=len(bad),
                    level=level,
                )
            except UserError as error:
                note = f"none: {error}".split(". ")[0]
                found.append(JudgeShare(agent, judge, *(None,) * 6, len(good), len(bad), note))
                continue
            rates = (one.judged, one.sensitivity, one.specificity)
            found.append(JudgeShare(agent, judge, one.share, one.low, one.high, *rates, one.good, one.bad))
    return found


def _binary(values: FloatArray) -> bool:
    return set(np.unique(values[~np.isnan(values)]).tolist()) <= {0.0, 1.0}


def data_notes(study: Study, data: LabelledData, names: Sequence[str], rounds: Sequence[Round]) -> list[str]:
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
    for k in range(len(names)):
        by_task = np.nanmean(np.where(data.answered, data.proxies[:, :, k], np.nan), axis=1)
        inside, outside = by_task[first], by_task[~first]
        inside, outside = inside[~np.isnan(inside)], outside[~np.isnan(outside)]
        ps.append(_welch_p(inside, outside))
    for name, p in zip(names, holm(ps), strict=True):
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
