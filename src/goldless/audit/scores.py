"""Findings from scores beside the texts: metrics that contradict each other, or that say no more than length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.audit.texts import sampled_tasks
from goldless.records import Finding
from goldless.studies import Study

NO_MORE_THAN_LENGTH = 0.8
"""Rank correlation within tasks from which a metric says little more than length."""
LEAST_RESPONSES, LEAST_OF_TASK = 15, 3
ROUNDING = 1e-6
"""Scores that are no further apart are equal."""


@dataclass(frozen=True)
class AuditedRanking:
    """A metric's ranking, as far as it is audited."""

    metric: str
    values: FloatArray
    """[tasks, agents] in the study's order; NaN: missing."""
    better_than: Mapping[str, Sequence[str]]
    """The agents that each agent is significantly better than."""


def score_findings(study: Study, rankings: Sequence[AuditedRanking]) -> list[Finding]:
    """Findings from the metrics of one run, compared with each other."""
    compared = [ranking for ranking in rankings if ranking.metric != "length"]
    return [*_beyond_the_prompt(study.agent_list, compared), *_contradictions(compared), *_only_length(study, compared)]


def _beyond_the_prompt(agents: Sequence[str], rankings: Sequence[AuditedRanking]) -> Iterator[Finding]:
    """Agents that fall, and have nothing left, when what the prompt already says is not counted."""
    by_name = {ranking.metric: ranking for ranking in rankings}
    for name, plain in by_name.items():
        given = by_name.get(name.replace("gem-raw", "gem-s[prompt]").replace("shared-info", "shared-info[prompt]"))
        if given is None or given is plain:
            continue
        (before, had), (after, has) = (_ranked(agents, ranking) for ranking in (plain, given))
        for agent in sorted(after, key=after.__getitem__):
            if agent in had and agent not in has and before[agent] < after[agent]:
                yield Finding(
                    "prompt",
                    (agent,),
                    f"{agent} falls from rank {before[agent]} to {after[agent]} when what the prompt already says is "
                    f"not counted ({given.metric}).",
                    (plain.metric, given.metric),
                )


def _ranked(agents: Sequence[str], ranking: AuditedRanking) -> tuple[dict[str, int], set[str]]:
    """The ranks by mean score, and the agents whose mean is more than two standard errors above 0."""
    means, above = dict[str, float](), set[str]()
    for agent, column in zip(agents, ranking.values.T, strict=True):
        there = column[~np.isnan(column)]
        if len(there):
            means[agent] = float(there.mean())
        if len(there) > 1 and means[agent] > 2 * there.std(ddof=1) / np.sqrt(len(there)) + ROUNDING:
            above.add(agent)
    return {agent: place for place, agent in enumerate(sorted(means, key=lambda name: -means[name]), 1)}, above


def _contradictions(rankings: Sequence[AuditedRanking]) -> Iterator[Finding]:
    """Pairs of metrics that each find a difference significant, in opposite directions."""
    for first, second in combinations(rankings, 2):
        opposed = [
            (better, worse)
            for better, others in first.better_than.items()
            for worse in others
            if better in second.better_than.get(worse, ())
        ]
        if opposed:
            better, worse = opposed[0]
            many = f" on {len(opposed)} pairs, such as this one" * (len(opposed) > 1)
            yield Finding(
                "contradiction",
                tuple(dict.fromkeys(agent for pair in opposed for agent in pair)),
                f"{first.metric} and {second.metric} contradict each other{many}: {better} is significantly above "
                f"{worse} under {first.metric} and significantly below it under {second.metric}.",
                (first.metric, second.metric),
            )


def _only_length(study: Study, rankings: Sequence[AuditedRanking]) -> Iterator[Finding]:
    """Metrics whose order of the responses to a task is mostly that of their lengths."""
    chosen = study.response_table.filter(pl.col("task").is_in(sampled_tasks(study)))
    names = pl.col("task").cast(study.task_names), pl.col("agent").cast(study.agent_names)
    places = tuple(chosen.select(name.to_physical() for name in names).to_numpy().T)
    rows = chosen.select("task", length=pl.col("text").str.len_chars().cast(pl.Float64))
    # each response's rank among those to its task, the mean of which is the same for both
    ranks = [pl.col(name).rank().over("task") - (pl.len().over("task") + 1) / 2 for name in ("score", "length")]
    for ranking in rankings:
        scored = rows.with_columns(score=pl.Series(ranking.values[places]))
        scored = scored.filter(pl.col("score").is_not_nan()).filter(pl.len().over("task") >= LEAST_OF_TASK)
        correlation = scored.select(pl.corr(*ranks)).item() if len(scored) >= LEAST_RESPONSES else None
        if correlation is not None and correlation >= NO_MORE_THAN_LENGTH:  # NaN, where all are equal, is not
            yield Finding(
                "only-length",
                (),
                f"{ranking.metric} says little more than length: within tasks its ranks correlate {correlation:.2f} "
                "with those of the responses' lengths.",
                (ranking.metric,),
            )
