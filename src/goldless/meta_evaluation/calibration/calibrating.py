"""Estimate agents' means on the people's scale.

study → labels and proxies checked → metrics computed → estimates, comparisons, corrected shares → the next labels
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from goldless.errors import UserError
from goldless.meta_evaluation.calibration.estimates import (
    calibrated_agent,
    compared_agents,
    data_notes,
    judge_shares,
)
from goldless.meta_evaluation.calibration.labelled_data import (
    LabelledData,
    label_table,
    labelled_data,
    proxy_judges,
)
from goldless.meta_evaluation.calibration.next_labels import (
    AT_RANDOM,
    BY_CHANGE,
    first_labels,
    next_labels,
    read_rounds,
)
from goldless.meta_evaluation.calibration.results import Calibration
from goldless.meta_evaluation.judges import Judge, metric_judges
from goldless.meta_evaluation.named_judges import Given, check_unlike
from goldless.meta_evaluation.resampling import draws_of
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature
from goldless.statistics.prediction_powered import Round, check_counts
from goldless.studies import Study, with_labels


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
    if next_count and not study.n_ratings and not study.n_preferences and not drawn:
        return _first_draw(study, options, next_count)
    table, answered, agents, criterion = label_table(study, criterion)
    labelled = np.asarray(~np.isnan(table).all(axis=1))
    rounds = read_rounds(drawn, study, labelled)
    check_next(next_count, int((~labelled).sum()))
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
    made = _estimated(study, options, data, judges, rounds=rounds, next_count=next_count, criterion=criterion)
    return replace(made, evaluation=evaluation)


def check_next(count: int, unlabelled: int) -> None:
    """Refuse a number of next labels that cannot be drawn."""
    if not 0 <= count <= unlabelled:
        raise UserError(f"--next must be from 1 to {unlabelled}, the number of tasks without labels, got {count}")


def _first_draw(study: Study, options: Options, count: int) -> Calibration:
    check_next(count, len(study))
    drawn = first_labels(study.tasks, count, seed=options.seed)
    return Calibration(
        study=study.name,
        fingerprint=study.fingerprint,
        criterion=None,
        level=options.level,
        proxies=(),
        labelled=0,
        tasks=len(study),
        agents=(),
        comparisons=(),
        shares=(),
        next_labels=tuple(drawn),
        rule=AT_RANDOM,
        notes=(),
        signature=str(
            Signature("calibration", {"next": str(count), "seed": str(options.seed), "study": study.fingerprint[:8]})
        ),
    )


def _estimated(
    study: Study,
    options: Options,
    data: LabelledData,
    judges: Sequence[Judge],
    *,
    rounds: Sequence[Round],
    next_count: int,
    criterion: str | None,
) -> Calibration:
    names = data.names
    agents = [calibrated_agent(data, a, names, rounds, options.level) for a in range(len(data.agents))]
    compared = compared_agents(data, rounds, options)
    chosen = []
    if next_count:
        seed = options.seed + len(rounds)
        chosen = next_labels(data.tasks, compared, data.labelled, next_count, seed=seed)
    settings = {
        **({} if criterion is None else {"criterion": criterion}),
        "labels": evidence_hash([(t, a, v) for t, row in enumerate(data.labels.tolist()) for a, v in enumerate(row)]),
        "proxies": ",".join(names),
        "estimate": "ppi++-by-task",
        "interval": f"t-{options.level:g}(exact-at-limits)",
        **({"rounds": str(len(rounds))} if rounds else {}),
        "study": study.fingerprint[:8],
    }
    notes = data_notes(study, data, names, rounds)
    if next_count and not chosen:
        notes.append("Every comparison is decided, so no further label would change a decision.")
    return Calibration(
        study=study.name,
        fingerprint=study.fingerprint,
        criterion=criterion,
        level=options.level,
        proxies=names,
        labelled=int(data.labelled.sum()),
        tasks=len(data.tasks),
        agents=tuple(agents),
        comparisons=tuple(one for one, _, _ in compared),
        shares=tuple(judge_shares(data, names, options.level)) if not rounds else (),
        next_labels=tuple(chosen),
        rule=BY_CHANGE if chosen else None,
        notes=tuple(notes),
        signature=" || ".join([str(Signature("calibration", settings)), *(j.signature for j in judges if j.signature)]),
    )
