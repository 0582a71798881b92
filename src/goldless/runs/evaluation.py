"""From scores to results: each metric's leaderboard with its signature, and the evidence behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.audit.finding import Finding
from goldless.audit.peer_graph import graph_findings, peer_graph
from goldless.audit.scores import AuditedRanking, score_findings
from goldless.errors import UserError, nearest
from goldless.evidence import Evidence, Schema
from goldless.grouped import mean_in_order
from goldless.metrics.metric import (
    ENOUGH_PEERS,
    PAIRS,
    RESPONSES,
    Given,
    Metric,
    OverPeers,
    Scores,
    over_peers,
    pair_means,
    without_closest,
)
from goldless.records import Agent, FailureKind
from goldless.reports.decisions import STOPPED_EARLY, outlook_notes
from goldless.reports.document import HERE_ONLY
from goldless.reports.leaderboard import Leaderboard, Leaderboards, PairMeans, leaderboard_notes, make_leaderboard
from goldless.reports.run_record import AgentSoFar, BoardSoFar, Spending
from goldless.runs.options import Options
from goldless.signature import Signature
from goldless.statistics.additive import moved_to_scores, scores_over_tasks
from goldless.statistics.answering import Until
from goldless.statistics.bootstrap import groups_name, interval_name
from goldless.statistics.comparisons import Pairs, all_pairs
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
        return self.scores.pairs

    @property
    def responses(self) -> pl.DataFrame:
        return self.scores.responses

    @property
    def problems(self) -> Mapping[str, int]:
        return self.scores.problems

    def of_agents(self, study: Study) -> MetricScores:
        """The same for agents, from those of their samples."""
        return replace(self, scores=averaged(self.scores, study.samples))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOutcome(Leaderboard):
    """One metric's leaderboard with its scores of pairs and responses."""

    pair_table: pl.DataFrame = field(metadata=HERE_ONLY, compare=False)
    """Columns of ``metrics.metric.PAIRS``."""
    responses: pl.DataFrame = field(metadata=HERE_ONLY, compare=False)
    """Columns of ``metrics.metric.RESPONSES``."""
    agents: tuple[str, ...] = field(metadata=HERE_ONLY)
    """All agents of the study, in its order."""
    problems: Mapping[str, int] = field(default_factory=dict, metadata=HERE_ONLY)
    """Messages of a custom metric about responses it could not score, with counts."""
    KEYS = (*Leaderboard.KEYS[:-1], "matrix:pair_means")

    @property
    def leaderboard(self) -> Leaderboard:
        return self

    @property
    def pairs(self) -> pl.DataFrame:
        return self.pair_table

    @property
    def pair_means(self) -> PairMeans:
        """Mean over tasks of each agent with each peer."""
        known = {(agent, peer): score for agent, peer, score, _ in pair_means(self.pair_table).iter_rows()}
        return PairMeans(self.agents, tuple(tuple(known.get((a, peer)) for peer in self.agents) for a in self.agents))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evaluation(Leaderboards):
    """The results of one evaluation."""

    source: Study = field(metadata=HERE_ONLY)
    """The study that was evaluated."""
    evidence: Evidence = field(metadata=HERE_ONLY)
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)

    @property
    def outcomes(self) -> dict[str, MetricOutcome]:
        """The metrics that rank agents, by name."""
        return {name: found for name, found in self.metrics.items() if isinstance(found, MetricOutcome)}

    @property
    def agents(self) -> tuple[Agent, ...]:
        return self.source.agents

    def __repr__(self) -> str:
        return f"<Evaluation of {self.study!r}: {', '.join(self.metrics)}>"

    @property
    def logprobs(self) -> pl.DataFrame:
        """The log-probabilities used by the metrics, without per-token values."""
        return self.evidence.logprobs.clone()

    @property
    def rewrites(self) -> pl.DataFrame:
        """The rewrites used by the metrics."""
        return self.evidence.rewrites.clone()

    @property
    def verdicts(self) -> pl.DataFrame:
        """The critic's verdicts used by the metrics."""
        return self.evidence.verdicts.clone()

    def to_polars(self) -> pl.DataFrame:
        """Scores of all responses: metric, task, agent, score (null: missing), pairs asked and used, signature."""
        return response_frame(self.outcomes.values())

    @property
    def examples(self) -> dict[FailureKind, str]:
        """One message for each cause of missing evidence."""
        return self.evidence.examples


def response_frame(outcomes: Iterable[MetricOutcome]) -> pl.DataFrame:
    """Response scores of several metrics as one table."""
    frames = [
        one.responses.with_columns(metric=pl.lit(one.metric), signature=pl.lit(one.signature)) for one in outcomes
    ]
    return _one_table(frames, {"metric": pl.String, **RESPONSES, "signature": pl.String})


def pair_frame(outcomes: Iterable[MetricOutcome]) -> pl.DataFrame:
    """Pair scores of several metrics as one table."""
    frames = [one.pairs.with_columns(metric=pl.lit(one.metric)) for one in outcomes]
    return _one_table(frames, {"metric": pl.String, **PAIRS})


def _one_table(frames: Iterable[pl.DataFrame], columns: Schema) -> pl.DataFrame:
    casts = [pl.col(name).cast(kind) for name, kind in columns.items()]
    return pl.concat([pl.DataFrame(schema=columns), *(frame.select(casts) for frame in frames)])


# --- signatures ----------------------------------------------------------------------------------------------------


def signature(metric: Metric, scores: Scores, given: Given, options: Options) -> Signature:
    """The signature of a metric's numbers."""
    made = {"seed": str(options.seed), "study": given.study.fingerprint[:8]}
    if scores.raters is not None:
        return Signature(metric.name, {**scores.settings, **made})
    compared = options.compare if options.baseline is None else f"baseline-{options.baseline}"
    test = f"sign-flip-max-t-less-skew({compared})"
    until = {}
    if options.until:
        test = f"confidence-sequence-less-skew(alpha={options.alpha:g},at-least={options.at_least})"
        tasks = len({task for task, _ in options.pairing or {}})
        until = {"until": f"{','.join(options.until)}(tasks={tasks})"}
    settings = {
        **scores.settings,
        **_unsaid(metric, scores, given),
        **({} if scores.over is None else {"over": f"{scores.over}-peers"}),
        **options.told,
        "missing": "left-out",
        "interval": interval_name(options.level, getattr(metric, "bounds", None), tails=True),
        "test": test,
        **until,
        "resamples": str(options.resamples),
        **groups_name(scores.responses.drop_nulls("score")["task"].n_unique()),
    }
    return Signature(metric.name, {**settings, **made})


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


# --- agents' scores ------------------------------------------------------------------------------------------------


def averaged(scores: Scores, samples: Mapping[str, str]) -> Scores:
    """Scores of agents from those of their samples: means by task; missing where no sample has a score."""
    if not samples or scores.raters is not None:
        return scores
    score = mean_in_order(pl.col("score"))
    missing = pl.when(pl.col("score").count() == 0).then(pl.col("missing").drop_nulls().first())
    of_agent = {
        name: pl.col(name).cast(pl.String).replace(list(samples), list(samples.values())) for name in ("agent", "peer")
    }

    def with_own(table: pl.DataFrame) -> pl.DataFrame:
        named = table.with_columns(**of_agent)
        return named.group_by("task", "agent", "peer", maintain_order=True).agg(score, missing).select(*PAIRS)

    def pairs(table: pl.DataFrame) -> pl.DataFrame:
        return with_own(table).filter(pl.col("agent") != pl.col("peer"))

    by_agent = scores.responses.with_columns(agent=of_agent["agent"]).group_by("task", "agent", maintain_order=True)
    responses = by_agent.agg(score, pl.col("asked", "used").sum()).select(*RESPONSES)
    by_peer = None if scores.by_peer is None else with_own(scores.by_peer)
    if by_peer is not None and scores.over is not None and scores.over != "own":
        if scores.over == "but-closest":
            by_peer = without_closest(with_own(scores.pairs))
        over = over_peers(by_peer, scores.over).select("task", "agent", over="score")
        responses = responses.join(over, on=["task", "agent"], how="left", maintain_order="left")
        responses = responses.with_columns(score=pl.coalesce("over", "score"))
    return replace(
        scores,
        responses=responses.select(*RESPONSES),
        pairs=pairs(scores.pairs),
        by_peer=None if by_peer is None else by_peer.filter(pl.col("agent") != pl.col("peer")),
        by_wording={name: pairs(frame) for name, frame in scores.by_wording.items()},
    )


def score_table(responses: pl.DataFrame, study: Study) -> FloatArray:
    """Response scores [tasks, agents], NaN where one is missing."""
    values = np.full((len(study.tasks), len(study.agents)), np.nan)
    task = responses["task"].cast(study.task_names).to_physical().to_numpy()
    agent = responses["agent"].cast(study.agent_names).to_physical().to_numpy()
    values[task, agent] = responses["score"].fill_null(np.nan).to_numpy()
    return values


def differences(found: MetricScores, agents: Study) -> Pairs:
    """The differences of all pairs of agents, task by task."""
    return all_pairs(score_table(found.responses, agents))


def metric_board(metric: Metric, scores: Scores, study: Study) -> BoardSoFar:
    """Agents' means under a metric, as its leaderboard has them, highest first."""
    agents = study.one_sample_each()
    values = score_table(averaged(scores, study.samples).responses, agents)
    means, tasks = scores_over_tasks(values), (~np.isnan(values)).sum(axis=0)
    rows = [
        AgentSoFar(agent.agent, float(mean) if n else None, int(n))
        for agent, mean, n in zip(agents.agents, means, tasks, strict=True)
    ]
    return BoardSoFar(metric.name, metric.unit, highest_first(rows))


def highest_first(rows: Iterable[AgentSoFar]) -> tuple[AgentSoFar, ...]:
    """The agents by their scores so far; those without one are last."""
    return tuple(sorted(rows, key=lambda row: (row.score is None, -(row.score or 0.0))))


# --- leaderboards --------------------------------------------------------------------------------------------------


def metric_outcome(
    found: MetricScores, study: Study, options: Options, until: Until | None = None, usd_per_task: float | None = None
) -> MetricOutcome:
    """The results of a metric: its scores, ranked. ``until``: the question that decided how many tasks there are."""
    agents = [agent.agent for agent in study.agents]
    values = score_table(found.responses, study)
    by_wording = _agent_scores(found.scores, study) if len(found.scores.by_wording) > 1 else {}
    board = _leaderboard(found, study, options, values, by_wording, until=until, usd_per_task=usd_per_task)
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
        peer_graph=peer_graph(found.pairs, agents),
        agents=tuple(agents),
        pair_table=found.pairs,
        responses=found.responses,
        problems=found.problems,
    )


def _agent_scores(scores: Scores, study: Study) -> dict[str, dict[str, float | None]]:
    """Each agent's score by prompt, over the pairs that all prompts have."""
    found: dict[str, dict[str, float | None]] = {}
    used = scores.pairs if scores.by_peer is None else scores.by_peer
    for name, mine in scores.by_wording.items():
        keys = ["task", "agent", "peer"]
        shared = mine.join(used.drop_nulls("score"), on=keys, how="semi", maintain_order="left")
        means = scores_over_tasks(score_table(over_peers(shared, scores.over or "own"), study))
        known = [None if np.isnan(mean) else float(mean) for mean in means]
        found[name] = dict(zip([agent.agent for agent in study.agents], known, strict=True))
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
    values: FloatArray,
    by_wording: Mapping[str, Mapping[str, float | None]],
    *,
    until: Until | None,
    usd_per_task: float | None,
) -> Leaderboard:
    """The leaderboard over all agents, except those that a pairing uses only as peers."""
    paired = None if options.pairing is None or until is not None else {agent for _, agent in options.pairing}
    ranked = [j for j, agent in enumerate(study.agents) if paired is None or agent.agent in paired]
    agents = [study.agents[j].agent for j in ranked]
    counts = found.responses.group_by(pl.col("agent").cast(pl.String)).agg(pl.col("asked", "used").sum())
    by_peer, limits = _by_peer(found, study), getattr(found.metric, "bounds", None)
    missing = None if options.pairing is not None else _missing(found, study, values, by_peer)
    table = standings(
        values[:, ranked],
        agents,
        # the largest table: not copied for nothing
        by_peer=by_peer if by_peer is None or len(ranked) == len(study.agents) else by_peer[:, ranked],
        until=until,
        missing=missing,
        limits=limits,
        **options.some("compare", "baseline", "seed", "resamples", "level"),
    )
    scores = {a: [s for by_agent in by_wording.values() if (s := by_agent[a]) is not None] for a in agents}
    return make_leaderboard(
        table,
        metric=found.metric.name,
        unit=found.metric.unit,
        level=options.level,
        signature=str(found.signature),
        asked=dict(counts.select("agent", "asked").iter_rows()),
        used=dict(counts.select("agent", "used").iter_rows()),
        groups={study.agents[j].agent: study.agents[j].group for j in ranked},
        between_prompts={a: float(np.std(mine, ddof=1)) for a, mine in scores.items() if len(mine) > 1},
        notes=[
            *leaderboard_notes(table, missing, limited=limits is not None),
            *([_PEERS_USED[found.scores.over]] if getattr(found.metric, "but_closest", False) else []),
            *([STOPPED_EARLY] if until is not None else outlook_notes(table.comparisons, usd_per_task)),
        ],
    )


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


def _missing(found: MetricScores, study: Study, values: FloatArray, by_peer: FloatArray | None) -> Missing | None:
    """What missing scores are taken to be in the worst case: the metric's limits, or the range of its scores."""
    used = score_table(found.responses.with_columns(score=pl.col("used") / pl.col("asked")), study)
    share = np.where(np.isnan(values), 0.0, np.nan_to_num(used))
    scored = ~np.isnan(values).all(axis=1)
    if not scored.any() or (share[scored] == 1).all():
        return None
    observed = values if by_peer is None or np.isnan(by_peer).all() else by_peer
    lowest, highest = getattr(found.metric, "bounds", None) or (float(np.nanmin(observed)), float(np.nanmax(observed)))
    return Missing(share, lowest, highest)


def audit_scores(agents: Study, outcomes: Mapping[str, MetricOutcome]) -> list[Finding]:
    """What the scores show beside the texts: blocks of peers, contradictions, length in disguise."""
    rankings, alarms = [], []
    for name, one in outcomes.items():
        beaten = {row.agent: row.better_than or () for row in one.rows}
        rankings.append(AuditedRanking(name, score_table(one.responses, agents), beaten))
        if one.peer_graph is not None:
            ranks = None  # they are with all peers
            if Signature.parse(one.signature).settings.get("over") == "but-closest-peers":
                ranks = {row.agent: row.rank for row in one.rows if row.rank is not None}
            alarms += graph_findings(name, one.unit, one.peer_graph, ranks)
    return [*alarms, *score_findings(agents, rankings)]
