"""How far metrics agree with the labels so far, and raters with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from goldless.meta_evaluation.ceiling import Ceiling, human_ceiling
from goldless.meta_evaluation.judges import scoring_judge
from goldless.metrics.label_agreement import Accuracy, accuracies
from goldless.metrics.pair_labels import pair_labels, usual_margin
from goldless.records import Preference
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study

DRAWS: Draws = {"seed": 0, "resamples": 500, "level": 0.95}
"""Fewer than a report has, since they are drawn again with every label."""


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """What the labels say so far."""

    labels: int
    raters: int
    pairs: int
    decided: int
    """Pairs in which one response is better, by the votes of all raters."""
    metrics: tuple[Accuracy, ...]
    """Highest first."""
    ceiling: Ceiling


def label_agreement(study: Study, labels: Sequence[Preference], scores: pl.DataFrame | None) -> LabelAgreement | None:
    """Agreement on one criterion; None: there are no labels. ``scores``: metric, task, agent, score."""
    if not labels:
        return None
    # only what was labelled: a large study is as quick as a small one
    tasks, agents = list(dict.fromkeys(label.task for label in labels)), [agent.agent for agent in study.agents]
    voted = pair_labels([], labels, tasks=tasks, agents=agents, least_margin=usual_margin(labels))
    found: list[Accuracy] = []
    if voted.n_decided and scores is not None:
        known: dict[str, dict[tuple[str, str], float | None]] = {}
        rows = scores.filter(pl.col("task").is_in(tasks)).select("metric", "task", "agent", "score")
        for metric, task, agent, score in rows.iter_rows():
            known.setdefault(metric, {})[task, agent] = score
        judges = [scoring_judge(name, "scores", some, tasks=tasks, agents=agents) for name, some in known.items()]
        found = accuracies([judge.credits(voted, "default") for judge in judges], **DRAWS)
    return LabelAgreement(
        labels=len(labels),
        raters=len({label.rater for label in labels}),
        pairs=voted.n_pairs,
        decided=voted.n_decided,
        metrics=tuple(sorted(found, key=lambda one: (one.accuracy is None, -(one.accuracy or 0.0)))),
        ceiling=human_ceiling([], labels, tasks=tasks, agents=agents, draws=DRAWS),
    )
