"""From scores to results: each metric's leaderboard with its signature, and the evidence behind it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.audit.peer_graph import graph_findings, peer_graph
from goldless.audit.scores import AuditedRanking, score_findings
from goldless.errors import GoldlessError, MetricError
from goldless.evidence import Evidence, Schema
from goldless.grouped import mean_in_order
from goldless.judging.judges import find_critic_prompt
from goldless.metrics.metric import (
    ENOUGH_PEERS,
    PAIRS,
    RESPONSES,
    Metric,
    MetricInput,
    OverPeers,
    Scores,
    bounds_of,
    checked_scores,
    over_peers,
    pair_means,
    without_closest,
)
from goldless.records import Agent, FailureKind, Finding
from goldless.reports.decisions import STOPPED_EARLY, outlook_notes
from goldless.reports.document import InMemory
from goldless.reports.leaderboard import Leaderboard, Leaderboards, PairMeans, RaterScores, leaderboard_notes
from goldless.reports.run_record import AgentSoFar, BoardSoFar, Spending, usd_per_task
from goldless.runs.options import Options
from goldless.runs.plan import Rounds, group_members
from goldless.signature import Signature
from goldless.statistics.additive import moved_to_scores, scores_over_tasks
from goldless.statistics.answering import Until
from goldless.statistics.bootstrap import groups_name, interval_name
from goldless.statistics.effects import compare_groups
from goldless.statistics.influence import most_influential
from goldless.statistics.standings import Missing, standings
from goldless.statistics.uneven_missing import uneven_missing_notes
from goldless.studies import Study
from goldless.studies.tables import pandas_frame
from goldless.templates import FIELDS, TEMPLATES

if TYPE_CHECKING:
    # the plan takes members of groups from here
    from goldless.runs.collection import Collection

AnyScores = TypeVar("AnyScores", bound=Scores)
INFLUENTIAL = 10
"""Number of influential pairs of task and agent to list."""
_FEW = (
    f"All peers count: with fewer than {ENOUGH_PEERS + 1} agents none is left out, so two that collude can lift each "
    "other."
)
_CLOSEST = "Each response's closest peer is left out, so that no two agents can lift each other."
_FEW_DRAWN = "All peers that are drawn count: of so few none is left out, so two that collude can lift each other."
_PEERS_USED: dict[OverPeers | None, str] = {
    "but-closest": _CLOSEST,
    "drawn-but-closest": _CLOSEST,
    "drawn": _FEW_DRAWN,
    "common": _FEW,
    "own": _FEW,
}


@dataclass(frozen=True, kw_only=True)
class MetricScores(Scores):
    """A metric's scores of pairs and responses with its signature, before ranking."""

    metric: Metric
    signature: Signature


@dataclass(frozen=True, kw_only=True)
class MetricOutcome(Leaderboard):
    """One metric's leaderboard with its scores of pairs and responses."""

    pairs: InMemory[pl.DataFrame] = field(compare=False)
    """Columns of ``metrics.metric.PAIRS``."""
    responses: InMemory[pl.DataFrame] = field(compare=False)
    """Columns of ``metrics.metric.RESPONSES``."""
    agents: InMemory[tuple[str, ...]]
    """All agents of the study, in its order."""
    problems: InMemory[Mapping[str, int]] = field(default_factory=dict)
    """Messages of a custom metric about responses it could not score, with counts."""

    @property
    def response_scores(self) -> dict[tuple[str, str], float | None]:
        """The score of each response by task and agent; None: missing."""
        rows = self.responses.select("task", "agent", "score").iter_rows()
        return {(task, agent): score for task, agent, score in rows}


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation(Leaderboards):
    """The results of one evaluation."""

    source: InMemory[Study]
    """The study that was evaluated."""
    evidence: InMemory[Evidence]
    spending: InMemory[tuple[Spending, ...]] = ()

    @property
    def outcomes(self) -> dict[str, MetricOutcome]:
        """The metrics that rank agents, by name."""
        return {name: found for name, found in self.metrics.items() if isinstance(found, MetricOutcome)}

    @property
    def agents(self) -> tuple[Agent, ...]:
        return self.source.agents

    @property
    def notes(self) -> tuple[str, ...]:
        """Missing evidence with an example of each cause, and responses that a metric could not score."""
        examples = [f"  {kind}, for example: {message}" for kind, message in self.examples.items()]
        unscored = [
            f"{outcome.metric}: {count} responses not scored: {problem}"
            for outcome in self.outcomes.values()
            for problem, count in outcome.problems.items()
        ]
        return (*super().notes, *(examples if self.failures else ()), *unscored)

    def __repr__(self) -> str:
        return f"<Evaluation of {self.study!r}: {', '.join(self.metrics)}>"

    @property
    def logprobs(self) -> pl.DataFrame:
        """Those used by the metrics, without per-token values."""
        return self.evidence.logprobs.clone()

    @property
    def rewrites(self) -> pl.DataFrame:
        return self.evidence.rewrites.clone()

    @property
    def verdicts(self) -> pl.DataFrame:
        return self.evidence.verdicts.clone()

    def to_polars(self) -> pl.DataFrame:
        """Scores of all responses: metric, task, agent, score (null: missing), pairs asked and used, signature."""
        return self.score_frame("responses")

    def to_pandas(self) -> Any:
        """The same as a pandas frame."""
        return pandas_frame(self.to_polars())

    def score_frame(self, table: Literal["responses", "pairs"]) -> pl.DataFrame:
        """Scores of responses or pairs by all metrics as one table."""
        columns: Schema = {"metric": pl.String, **(RESPONSES if table == "responses" else PAIRS)}
        if table == "responses":
            columns["signature"] = pl.String
        found = [pl.DataFrame(schema=columns)]
        for one in self.outcomes.values():
            rows: pl.DataFrame = getattr(one, table)
            named = rows.with_columns(metric=pl.lit(one.metric), signature=pl.lit(one.signature))
            found.append(named.select(pl.col(name).cast(kind) for name, kind in columns.items()))
        return pl.concat(found)

    @property
    def examples(self) -> dict[FailureKind, str]:
        return self.evidence.examples


def signature(metric: Metric, scores: Scores, data: MetricInput, options: Options) -> Signature:
    """The signature of a metric's numbers, with the settings of its evidence that it did not say itself."""
    made = {"seed": str(options.statistics.seed), "study": data.study.fingerprint[:8]}
    if scores.raters is not None:
        return Signature(metric.name, {**scores.settings, **made})
    needs, said = metric.needs, dict(scores.settings)
    for table, wanted in (("logprobs", needs.logprobs), ("verdicts", needs.verdicts)):
        for key, value in data.evidence.described.get(table, {}).items() if wanted is not None else ():
            said.setdefault(key if said.get(key, value) == value else f"{table}-{key}", value)
    if needs.logprobs is not None and "template" not in scores.settings:
        said["template"] = ",".join(data.evidence.logprobs["template"].unique(maintain_order=True))
    if needs.model and "peers" not in scores.settings:
        said["peers"] = data.peers_shown(scores.pairs)
    compared = (
        options.comparison.compare if options.comparison.baseline is None else f"baseline-{options.comparison.baseline}"
    )
    test, until = f"sign-flip-max-t-less-skew({compared})", {}
    if options.stopping.until:
        test = f"confidence-sequence-less-skew(alpha={options.stopping.alpha:g},at-least={options.stopping.at_least})"
        tasks = len({task for task, _ in options.pairing or {}})
        until = {"until": f"{','.join(options.stopping.until)}(tasks={tasks})"}
    settings = {
        **said,
        **({} if scores.averaged_over is None else {"over": f"{scores.averaged_over}-peers"}),
        **options.signature_settings,
        "missing": "left-out",
        "interval": interval_name(options.statistics.level, bounds_of(metric), tails=True),
        "test": test,
        **until,
        "resamples": str(options.statistics.resamples),
        **groups_name(scores.responses.drop_nulls("score")["task"].n_unique()),
    }
    return Signature(metric.name, {**settings, **made})


async def metric_scores(metric: Metric, data: MetricInput, options: Options) -> MetricScores:
    """The scores of one metric, checked, with its signature."""
    ours = type(metric).__module__.startswith("goldless.")
    try:
        found = metric.scores(data)
        made = await found if inspect.isawaitable(found) else found
    except Exception as error:
        if ours or isinstance(error, GoldlessError):
            raise
        raise MetricError(f"{metric.name}: the metric failed with {type(error).__name__}: {error}") from error
    scores = checked_scores(metric.name, made, data)
    parts = {part.name: getattr(scores, part.name) for part in fields(scores)}
    return MetricScores(**parts, metric=metric, signature=signature(metric, scores, data, options))


# --- agents' scores ------------------------------------------------------------------------------------------------


def averaged(scores: AnyScores, samples: Mapping[str, str]) -> AnyScores:
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
    if by_peer is not None and scores.averaged_over is not None and scores.averaged_over != "own":
        if scores.averaged_over.endswith("but-closest"):
            by_peer = without_closest(with_own(scores.pairs))
        over = over_peers(by_peer, scores.averaged_over).select("task", "agent", over="score")
        responses = responses.join(over, on=["task", "agent"], how="left", maintain_order="left")
        responses = responses.with_columns(score=pl.coalesce("over", "score"))
    return replace(
        scores,
        responses=responses.select(*RESPONSES),
        pairs=pairs(scores.pairs),
        shared=None if scores.shared is None else pairs(scores.shared),
        by_peer=None if by_peer is None else by_peer.filter(pl.col("agent") != pl.col("peer")),
        by_wording={name: pairs(frame) for name, frame in scores.by_wording.items()},
    )


def score_table(rows: pl.DataFrame, study: Study, value: str | pl.Expr = "score") -> FloatArray:
    """Response scores [tasks, agents], or with a column ``peer`` [tasks, agents, peers]; NaN where one is missing."""
    names = {"task": study.task_names, "agent": study.agent_names, "peer": study.agent_names}
    sides = [rows[name].cast(kind).to_physical().to_numpy() for name, kind in names.items() if name in rows.columns]
    shape = (len(study.tasks), len(study.agents), len(study.agents))
    values = np.full(shape[: len(sides)], np.nan)
    values[tuple(sides)] = rows.select(value).to_series().fill_null(np.nan).to_numpy()
    return values


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
    """The results of a metric: its scores, ranked, of all agents except those that a pairing uses only as peers.

    ``until``: the question that decided how many tasks there are.
    """
    metric, names = found.metric, study.agent_list
    paired = None if options.pairing is None or until is not None else {agent for _, agent in options.pairing}
    ranked = [j for j, name in enumerate(names) if paired is None or name in paired]
    values, by_peer = score_table(found.responses, study), _by_peer(found, study)
    limits = bounds_of(metric)
    missing = None if options.pairing is not None else _missing(found, study, values, by_peer)
    table = standings(
        values[:, ranked],
        [names[j] for j in ranked],
        # the largest table: not copied for nothing
        by_peer=by_peer if by_peer is None or len(ranked) == len(names) else by_peer[:, ranked],
        until=until,
        missing=missing,
        limits=limits,
        **options.subset("compare", "baseline", "seed", "resamples", "level"),
    )
    notes = list(leaderboard_notes(table, missing, limited=limits is not None))
    if kind_note := getattr(metric, "kind_note", ""):
        notes.append(kind_note)
    if getattr(metric, "but_closest", False):
        notes.append(_PEERS_USED[found.averaged_over])
    notes += [STOPPED_EARLY] if until is not None else outlook_notes(table.comparisons, usd_per_task)
    groups = None
    if options.comparison.compare_groups is not None:
        members = group_members(study, options.comparison.compare_groups)
        groups = compare_groups(values, *members, **options.subset("seed", "resamples", "level"))
        if until is not None:
            groups = groups.of_chosen_tasks()
        notes += groups.notes
    by_wording = _by_wording(found, study) if len(found.by_wording) > 1 else {}
    counts = found.responses.group_by(pl.col("agent").cast(pl.String)).agg(pl.col("asked", "used").sum())
    counted = {agent: {"asked": asked, "used": used} for agent, asked, used in counts.iter_rows()}
    group_of, rows = {agent.agent: agent.group for agent in study.agents}, []
    for row in table.rows:
        own = [score for by_agent in by_wording.values() if (score := by_agent[row.agent]) is not None]
        spread = float(np.std(own, ddof=1)) if len(own) > 1 else None
        count = counted.get(row.agent, {"asked": 0, "used": 0})
        rows.append(replace(row, group=group_of[row.agent], between_prompts=spread, **count))
    if missing is not None:
        notes += uneven_missing_notes(rows, missing.lowest)
    if truth_note := getattr(metric, "truth_note", ""):
        notes.append(truth_note)
    return MetricOutcome(
        metric=metric.name,
        unit=metric.unit,
        level=options.statistics.level,
        rows=tuple(rows),
        comparisons=table.comparisons,
        settings=found.signature.parts,
        notes=tuple(notes),
        groups=groups,
        group_names=None
        if options.comparison.compare_groups is None
        else " against ".join(options.comparison.compare_groups),
        summary=found.summary,
        by_wording=by_wording,
        influence=tuple(most_influential(moved_to_scores(values), list(study.tasks), names, INFLUENTIAL)),
        peer_graph=peer_graph(found.pairs if found.shared is None else found.shared, names),
        matrix=_matrix(found.pairs, tuple(names)),
        agents=tuple(names),
        pairs=found.pairs,
        responses=found.responses,
        problems=found.problems,
    )


def _matrix(pairs: pl.DataFrame, agents: tuple[str, ...]) -> PairMeans:
    """Mean over tasks of each agent with each peer; empty where the metric scores no pairs."""
    if pairs.is_empty():
        return PairMeans()
    means = {(agent, peer): score for agent, peer, score, _ in pair_means(pairs).iter_rows()}
    return PairMeans(agents, tuple(tuple(means.get((agent, peer)) for peer in agents) for agent in agents))


def _by_wording(scores: Scores, study: Study) -> dict[str, dict[str, float | None]]:
    """Each agent's score by prompt, over the pairs that all prompts have."""
    found: dict[str, dict[str, float | None]] = {}
    used = scores.pairs if scores.by_peer is None else scores.by_peer
    for name, mine in scores.by_wording.items():
        shared = mine.join(used.drop_nulls("score"), on=["task", "agent", "peer"], how="semi", maintain_order="left")
        means = scores_over_tasks(score_table(over_peers(shared, scores.averaged_over or "own"), study))
        known = [None if np.isnan(mean) else float(mean) for mean in means]
        found[name] = dict(zip(study.agent_list, known, strict=True))
    return found


def _by_peer(scores: Scores, study: Study) -> FloatArray | None:
    """Scores [tasks, agents, peers], NaN where one is missing; None where response scores are not over peers."""
    rows = scores.by_peer
    if rows is None or not rows.height:
        return None
    table = score_table(rows, study)
    met = np.isin(study.agent_names.categories.to_numpy(), rows["peer"].cast(pl.String).unique().to_numpy())
    np.einsum("tii->ti", table)[:] = np.nan  # an agent is no peer of its own
    return table if met.all() else table[:, :, met]


def _missing(found: MetricScores, study: Study, values: FloatArray, by_peer: FloatArray | None) -> Missing | None:
    """Worst-case values of missing scores: the metric's limits, or the range of its scores."""
    used = score_table(found.responses, study, pl.col("used") / pl.col("asked"))
    share = np.where(np.isnan(values), 0.0, np.nan_to_num(used))
    scored = ~np.isnan(values).all(axis=1)
    if not scored.any() or (share[scored] == 1).all():
        return None
    observed = values if by_peer is None or np.isnan(by_peer).all() else by_peer
    lowest, highest = bounds_of(found.metric) or (float(np.nanmin(observed)), float(np.nanmax(observed)))
    return Missing(share, lowest, highest)


def audit_scores(agents: Study, outcomes: Mapping[str, MetricOutcome]) -> list[Finding]:
    """Findings from the scores, beside the texts: blocks of peers, contradictions, length in disguise."""
    rankings, alarms = [], []
    for name, one in outcomes.items():
        beaten = {row.agent: row.better_than or () for row in one.rows}
        rankings.append(AuditedRanking(name, score_table(one.responses, agents), beaten))
        if one.peer_graph is not None:
            ranks = None  # they are with all peers
            if str(one.settings.get("over")).endswith("but-closest-peers"):
                ranks = {row.agent: row.rank for row in one.rows if row.rank is not None}
            alarms += graph_findings(name, one.unit, one.peer_graph, ranks)
    return [*alarms, *score_findings(agents, rankings)]


# --- the whole evaluation ------------------------------------------------------------------------------------------


def evaluation_result(
    collected: Collection,
    evidence: Evidence,
    scores: Mapping[str, MetricScores],
    seen: Sequence[Finding],
    rounds: Rounds | None,
) -> Evaluation:
    """The results of an evaluation. ``seen``: findings of the texts; ``rounds``: those of a run that stopped early."""
    plan, models, spending = collected.plan, collected.models, collected.spending
    study, options = plan.study, plan.asked
    stopped = None if rounds is None else rounds.result(plan.metrics[0].name, spending)
    ranking = options if stopped is None else plan.options
    price = usd_per_task(spending, study.n_tasks_with_peers if stopped is None else stopped.tasks)
    metrics: dict[str, MetricOutcome | RaterScores] = {}
    for name, one in scores.items():
        if one.raters is None:
            metrics[name] = metric_outcome(averaged(one, study.samples), plan.agents, ranking, plan.until, price)
        else:
            criteria = {criterion or "": found for criterion, found in one.raters.items()}
            metrics[name] = RaterScores(name, one.signature.parts, criteria)
    outcomes = {name: one for name, one in metrics.items() if isinstance(one, MetricOutcome)}
    open_ = evidence.open if models else 0
    templates, prompts = options.scoring.chosen_templates(), {}
    if plan.critic and not options.models.recorded:
        words = find_critic_prompt(options.scoring.critic_prompt)
        prompts[words.name] = f"{words.opening}\n\n{words.closing_explained or words.closing}"
    return Evaluation(
        source=study,
        study=study.name,
        fingerprint=study.fingerprint,
        metrics=metrics,
        findings=(*seen, *audit_scores(plan.agents, outcomes)),
        evidence=evidence,
        asked=evidence.asked,
        open=open_,
        complete=open_ == 0,
        failures=dict(sorted(evidence.failures.items())),
        models={name: model.identity for name, model in models.items()},
        canaries=next((one for part, one in collected.canaries.items() if part != "critic"), None),
        spending=spending,
        tasks_without_peers=tuple(t for t in study.tasks if len(study.responses(t)) < 2) if plan.needs_peers else (),
        settings={
            "template": ",".join(template.name for template in templates),
            "seed": str(options.statistics.seed),
            "resamples": str(options.statistics.resamples),
            **(
                {}
                if options.comparison.compare_groups is None
                else {"groups": " against ".join(options.comparison.compare_groups)}
            ),
        },
        options=plan.options.of_results(),
        stopped=stopped,
        prompts=prompts,
        templates={
            one.name: {part: getattr(one, part) for part in FIELDS}
            for one in templates
            if plan.likelihood and one.name not in TEMPLATES
        },
    )
