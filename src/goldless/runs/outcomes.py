"""From scores to results: a metric's leaderboard with its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.arrays import FloatArray
from goldless.audit.finding import Finding
from goldless.audit.peer_graph import graph_findings, peer_graph
from goldless.audit.scores import Ranking, score_findings
from goldless.errors import UserError, nearest
from goldless.metrics.metric import ENOUGH_PEERS, Given, Metric, OverPeers, Scores, over_peers
from goldless.reports.decisions import STOPPED_EARLY, outlook_notes
from goldless.reports.leaderboard import (
    Leaderboard,
    RaterScores,
    leaderboard_notes,
    make_leaderboard,
)
from goldless.runs.evaluation import MetricOutcome
from goldless.runs.options import Options
from goldless.signature import Signature
from goldless.statistics.additive import moved_to_scores, scores_over_tasks
from goldless.statistics.answering import Until
from goldless.statistics.bootstrap import groups_name, interval_name
from goldless.statistics.comparisons import Comparison, Pairs, all_pairs
from goldless.statistics.effects import compare_groups
from goldless.statistics.influence import most_influential
from goldless.statistics.standings import Missing, standings
from goldless.studies import Study

INFLUENTIAL = 10
"""Number of influential pairs of task and agent to list."""
_FEW = (
    f"All peers count: with fewer than {ENOUGH_PEERS + 1} agents none is left out, so two that collude can lift each "
    "other."
)
_PEERS_USED: dict[OverPeers | None, str] = {
    "but-closest": "Each response's closest peer is left out, so that no two agents can lift each other.",
    "common": _FEW,
    "own": _FEW,
}


@dataclass(frozen=True, slots=True)
class MetricScores:
    """A metric's scores of pairs and responses with its signature, before ranking."""

    metric: Metric
    scores: Scores
    signature: Signature

    @property
    def pairs(self) -> pl.DataFrame:
        """Columns of ``metrics.metric.PAIRS``, all rows in memory."""
        return self.scores.pairs

    @property
    def responses(self) -> pl.DataFrame:
        """Columns of ``metrics.metric.RESPONSES``."""
        return self.scores.responses

    @property
    def problems(self) -> Mapping[str, int]:
        """Messages of a custom metric about responses it could not score, with counts."""
        return self.scores.problems


def signature(metric: Metric, scores: Scores, given: Given, options: Options) -> Signature:
    """The signature of a metric's numbers."""
    made = {"seed": str(options.seed), "study": given.study.fingerprint[:8]}
    if scores.raters is not None:
        return Signature(metric.name, {**scores.settings, **made})
    settings = {
        **scores.settings,
        **_unsaid(metric, scores, given),
        **({} if scores.over is None else {"over": f"{scores.over}-peers"}),
        **options.told,
        "missing": "left-out",
        "interval": interval_name(options.level, _limits(metric), tails=True),
        "test": _test_name(options),
        **({"until": f"{','.join(options.until)}(tasks={_tasks(options)})"} if options.until else {}),
        "resamples": str(options.resamples),
        **groups_name(scores.responses.drop_nulls("score")["task"].n_unique()),
    }
    return Signature(metric.name, {**settings, **made})


def _tasks(options: Options) -> int:
    return len({task for task, _ in options.pairing or {}})


def _test_name(options: Options) -> str:
    if options.until:
        return f"confidence-sequence-less-skew(alpha={options.alpha:g},at-least={options.at_least})"
    which = options.compare if options.baseline is None else f"baseline-{options.baseline}"
    return f"sign-flip-max-t-less-skew({which})"


def _unsaid(metric: Metric, scores: Scores, given: Given) -> dict[str, str]:
    """Settings of the evidence that the metric itself did not put into its signature."""
    needs = metric.needs
    found: dict[str, str] = {}
    for table, wanted in (("logprobs", needs.logprobs), ("verdicts", needs.verdicts)):
        for key, value in given.evidence.described.get(table, {}).items() if wanted is not None else ():
            said = {**scores.settings, **found}
            if said.get(key, value) != value:
                found[f"{table}-{key}"] = value
            elif key not in said:
                found[key] = value
    if needs.logprobs is not None and "template" not in scores.settings:
        found["template"] = ",".join(given.evidence.logprobs["template"].unique(maintain_order=True))
    if needs.model and "peers" not in scores.settings:
        found["peers"] = given.peers_shown(scores.pairs)
    return found


def rater_scores(found: MetricScores) -> RaterScores:
    """The results of a metric that scores raters."""
    criteria = {criterion or "": one for criterion, one in (found.scores.raters or {}).items()}
    return RaterScores(found.metric.name, str(found.signature), criteria)


def metric_outcome(
    found: MetricScores, study: Study, options: Options, until: Until | None = None, usd_per_task: float | None = None
) -> MetricOutcome:
    """The results of a metric: its scores, ranked. ``until``: the question that decided how many tasks there are."""
    agents = [agent.agent for agent in study.agents]
    values = score_table(found.responses, study)
    by_wording = _agent_scores(found.scores, study) if len(found.scores.by_wording) > 1 else {}
    spread = _spread(by_wording, agents)
    board = _leaderboard(found, study, options, values, spread=spread, until=until, usd_per_task=usd_per_task)
    groups = None
    if options.compare_groups is not None:
        members = group_members(study, options.compare_groups)
        groups = compare_groups(values, *members, **options.some("seed", "resamples", "level"))
    return MetricOutcome(
        metric=board.metric,
        unit=board.unit,
        level=board.level,
        rows=board.rows,
        comparisons=board.comparisons,
        signature=board.signature,
        notes=(*board.notes, *(() if groups is None else groups.notes)),
        groups=groups,
        group_names=None if options.compare_groups is None else " against ".join(options.compare_groups),
        summary=found.scores.summary,
        by_wording=by_wording,
        influence=tuple(most_influential(moved_to_scores(values), list(study.tasks), agents, INFLUENTIAL)),
        peer_graph=peer_graph(found.scores.pairs, agents),
        agents=tuple(agents),
        pair_table=found.scores.pairs,
        responses=found.responses,
        problems=found.problems,
    )


def audit_scores(study: Study, outcomes: Mapping[str, MetricOutcome]) -> list[Finding]:
    """What the scores show beside the texts: blocks of peers, contradictions, length in disguise."""
    rankings = [
        Ranking(
            name,
            score_table(outcome.responses, study),
            {row.agent: row.better_than or () for row in outcome.rows},
        )
        for name, outcome in outcomes.items()
    ]
    alarms = [
        finding
        for name, outcome in outcomes.items()
        if outcome.peer_graph is not None
        for finding in graph_findings(name, outcome.unit, outcome.peer_graph, _ranks_shown(outcome))
    ]
    return [*alarms, *score_findings(study, rankings)]


def _ranks_shown(outcome: MetricOutcome) -> dict[str, int] | None:
    """The ranks of a leaderboard without each agent's closest peers; None: with all peers."""
    if Signature.parse(outcome.signature).settings.get("over") != "but-closest-peers":
        return None
    return {row.agent: row.rank for row in outcome.rows if row.rank is not None}


def score_table(responses: pl.DataFrame, study: Study) -> npt.NDArray[np.float64]:
    """Response scores [tasks, agents], NaN where one is missing."""
    values = np.full((len(study.tasks), len(study.agents)), np.nan)
    numbers = responses.select(
        pl.col("task").cast(study.task_names).to_physical(), pl.col("agent").cast(study.agent_names).to_physical()
    )
    values[numbers["task"].to_numpy(), numbers["agent"].to_numpy()] = responses["score"].fill_null(np.nan).to_numpy()
    return values


def _agent_scores(scores: Scores, study: Study) -> dict[str, dict[str, float | None]]:
    """Each agent's score by prompt, over the pairs that all prompts have."""
    found: dict[str, dict[str, float | None]] = {}
    keys = ["task", "agent", "peer"]
    used = scores.pairs if scores.by_peer is None else scores.by_peer
    for name, mine in scores.by_wording.items():
        shared = mine.join(used.drop_nulls("score"), on=keys, how="semi", maintain_order="left")
        responses = over_peers(shared, scores.over or "own")
        means = scores_over_tasks(score_table(responses, study))
        known = [None if np.isnan(mean) else float(mean) for mean in means]
        found[name] = dict(zip([agent.agent for agent in study.agents], known, strict=True))
    return found


def _spread(by_name: Mapping[str, Mapping[str, float | None]], agents: Sequence[str]) -> dict[str, float]:
    """Standard deviation of each agent's score between prompts."""
    found = {}
    for agent in agents:
        scores = [score for by_agent in by_name.values() if (score := by_agent[agent]) is not None]
        if len(scores) > 1:
            found[agent] = float(np.std(scores, ddof=1))
    return found


def group_members(study: Study, groups: tuple[str, str]) -> tuple[list[int], list[int]]:
    """Indices of the agents in each of two groups. Raises if a group is empty."""
    known = sorted({agent.group for agent in study.agents if agent.group is not None})
    for group in groups:
        if group not in known:
            raise UserError(
                f"no agent of {study.name} is in the group {group!r}{nearest(group, known) or '.'} "
                f"Groups in the agents table: {', '.join(known) or 'none'}"
            )
    first, second = ([j for j, agent in enumerate(study.agents) if agent.group == group] for group in groups)
    return first, second


def _leaderboard(
    found: MetricScores,
    study: Study,
    options: Options,
    values: npt.NDArray[np.float64],
    *,
    spread: Mapping[str, float],
    until: Until | None,
    usd_per_task: float | None,
) -> Leaderboard:
    """The leaderboard over all agents, except those that a pairing uses only as peers."""
    paired = None if options.pairing is None or until is not None else {agent for _, agent in options.pairing}
    ranked = [j for j, agent in enumerate(study.agents) if paired is None or agent.agent in paired]
    agents = [study.agents[j].agent for j in ranked]
    counts = found.responses.group_by(pl.col("agent").cast(pl.String)).agg(pl.col("asked", "used").sum())
    by_peer = _by_peer(found, study)
    missing = None if options.pairing is not None else _missing(found, study, values, by_peer)
    table = standings(
        values[:, ranked],
        agents,
        # the largest table: not copied for nothing
        by_peer=by_peer if by_peer is None or len(ranked) == len(study.agents) else by_peer[:, ranked],
        until=until,
        missing=missing,
        limits=_limits(found.metric),
        **options.some("compare", "baseline", "seed", "resamples", "level"),
    )
    return make_leaderboard(
        table,
        metric=found.metric.name,
        unit=found.metric.unit,
        level=options.level,
        signature=str(found.signature),
        asked=dict(counts.select("agent", "asked").iter_rows()),
        used=dict(counts.select("agent", "used").iter_rows()),
        groups={agent.agent: agent.group for agent in study.agents if paired is None or agent.agent in paired},
        between_prompts=spread,
        notes=[
            *leaderboard_notes(table, missing, limited=_limits(found.metric) is not None),
            *([_PEERS_USED[found.scores.over]] if getattr(found.metric, "but_closest", False) else []),
            *([STOPPED_EARLY] if until is not None else outlook_notes(table.comparisons, usd_per_task)),
        ],
    )


def answer(found: MetricScores, study: Study, until: Until) -> list[Comparison]:
    """The comparisons of a question by a metric's scores, without ranking."""
    return until.compare([agent.agent for agent in study.agents], differences(found, study))


def differences(found: MetricScores, study: Study) -> Pairs:
    """The differences of all pairs of agents, task by task."""
    return all_pairs(score_table(found.responses, study))


def _by_peer(found: MetricScores, study: Study) -> FloatArray | None:
    """Scores [tasks, agents, peers], NaN where one is missing; None where response scores are not over peers."""
    rows, agents = found.scores.by_peer, len(study.agents)
    if rows is None or not rows.height:
        return None
    table: FloatArray = np.full((len(study.tasks), agents, agents), np.nan)
    met = np.zeros(agents, np.bool_)
    task = rows["task"].cast(study.task_names).to_physical().to_numpy()
    agent, peer = (rows[side].cast(study.agent_names).to_physical().to_numpy() for side in ("agent", "peer"))
    table[task, agent, peer] = rows["score"].fill_null(np.nan).to_numpy()
    met[peer] = True
    np.einsum("tii->ti", table)[:] = np.nan  # an agent is no peer of its own
    return table if met.all() else table[:, :, met]


def _share_used(found: MetricScores, study: Study) -> FloatArray:
    """The share of the pairs of each response that were scored: [tasks, agents], 0 where there is no response."""
    rows = found.responses.with_columns(score=pl.col("used") / pl.col("asked"))
    return np.nan_to_num(score_table(rows, study))


def _limits(metric: Metric) -> tuple[float, float] | None:
    """The smallest and the largest score that a metric can give; None: it has no limits, or does not say."""
    return getattr(metric, "bounds", None)


def _missing(found: MetricScores, study: Study, values: FloatArray, by_peer: FloatArray | None) -> Missing | None:
    """What missing scores are taken to be in the worst case: the metric's limits, or the range of its scores."""
    share = np.where(np.isnan(values), 0.0, _share_used(found, study))
    scored = ~np.isnan(values).all(axis=1)
    if not scored.any() or (share[scored] == 1).all():
        return None
    observed = values if by_peer is None or np.isnan(by_peer).all() else by_peer
    lowest, highest = _limits(found.metric) or (float(np.nanmin(observed)), float(np.nanmax(observed)))
    return Missing(share, lowest, highest)
