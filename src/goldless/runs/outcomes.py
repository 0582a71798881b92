"""From evidence to results: a metric's pairs, responses and leaderboard, with the line that says how they were made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from goldless.errors import MetricError, UserError, nearest
from goldless.metrics import likelihood, tvd_mi
from goldless.metrics.catalogue import Metric
from goldless.metrics.label_information import (
    CategoryLabel,
    Items,
    label_information,
    preference_labels,
    rating_labels,
)
from goldless.metrics.scores import PairScore, ResponseScore, mean_over_peers, mean_over_variants
from goldless.metrics.wins import win_scores
from goldless.preprocessing import MOST_TOKENS
from goldless.reports.leaderboard import Leaderboard, make_leaderboard
from goldless.runs.evaluation import Evidence, MetricOutcome, RaterOutcome
from goldless.runs.options import Options
from goldless.runs.recorded import evidence_hash, recorded_wins
from goldless.runs.text_scores import TextScores
from goldless.runs.wordings import Wording, by_wording
from goldless.signature import Signature
from goldless.statistics.bootstrap import FEW_TASKS
from goldless.statistics.effects import compare_groups
from goldless.statistics.influence import most_influential
from goldless.studies import Study

INFLUENTIAL = 10
"""Pairs of a task and an agent that are named, those that move a score most."""


@dataclass(frozen=True, slots=True)
class Context:
    """What results are made from and described by, beside the metric."""

    study: Study
    options: Options
    evidence: Evidence
    peers: tuple[str, ...] | None
    """The agents that served as peers of the metrics over log-probabilities; None: all."""
    partners: tuple[str, ...] | None
    """The agents that served as a critic's partners; None: all."""
    described: Mapping[str, Mapping[str, str]]
    """What the signature says of the evidence, by kind of metric."""
    texts: Mapping[str, TextScores] = field(default_factory=dict)
    """What the metrics of texts gave, by metric."""
    rewriting: bool = False
    """Whether a rewriter was asked; recorded rewrites are as they are."""


@dataclass(frozen=True, slots=True)
class MetricScores:
    """What a metric says of pairs and responses, before anything is ranked."""

    metric: Metric
    signature: Signature
    pairs: tuple[PairScore, ...]
    responses: tuple[ResponseScore, ...]
    by_wording: Mapping[Wording, Sequence[PairScore]]
    problems: Mapping[str, int] = field(default_factory=dict)
    """What a metric that is not ours said of responses it could not score, with how often."""


def metric_scores(metric: Metric, context: Context) -> MetricScores:
    """The scores of a metric that scores agents."""
    if metric.kind == "texts":
        found = context.texts[metric.name]
        return _scores(metric, context, found.pairs, found.responses, problems=found.problems)
    if metric.kind == "critic":
        pairs = list(context.evidence.contrasts) or tvd_mi.contrasts(context.evidence.verdicts)
        return _scores(metric, context, pairs, _critic_responses(metric, context, pairs))
    if metric.kind == "wins":
        rows = recorded_wins(context.study, metric.table or "")
        pairs = [
            pair
            for pair in win_scores(rows, both_orders=metric.direction == "both")
            if context.peers is None or pair.peer in context.peers
        ]
        return _scores(metric, context, pairs, mean_over_peers(pairs))
    variants = by_wording(metric, context.evidence.logprobs)
    if not variants:
        raise MetricError(_no_evidence(metric, context))
    scored = {
        wording: _paired(likelihood.pair_scores(rows, metric.log_probabilities, peers=context.peers), context)
        for wording, rows in variants.items()
    }
    pairs = mean_over_variants(list(scored.values()))
    return _scores(metric, context, pairs, mean_over_peers(pairs), scored=scored)


def _scores(
    metric: Metric,
    context: Context,
    pairs: Sequence[PairScore],
    responses: Sequence[ResponseScore],
    *,
    scored: Mapping[Wording, Sequence[PairScore]] | None = None,
    problems: Mapping[str, int] | None = None,
) -> MetricScores:
    signature = _signature(metric, context, list(scored or {}), pairs)
    return MetricScores(metric, signature, tuple(pairs), tuple(responses), scored or {}, problems or {})


def _paired(pairs: Sequence[PairScore], context: Context) -> list[PairScore]:
    """The pairs of a response with a peer it is to be held against."""
    pairing = context.options.pairing
    if pairing is None:
        return list(pairs)
    return [pair for pair in pairs if pair.peer in pairing.get((pair.task, pair.agent), ())]


def _critic_responses(metric: Metric, context: Context, pairs: Sequence[PairScore]) -> list[ResponseScore]:
    pairing = context.options.pairing
    if pairing is None:
        return tvd_mi.response_scores(pairs, direction=metric.direction, peers=context.partners)
    # a response may be the peer of one it is not itself held against: each takes its own pairs only
    mine: dict[tuple[str, str], list[PairScore]] = {}
    for pair in pairs:
        for agent, peer in ((pair.agent, pair.peer), (pair.peer, pair.agent)):
            if peer in pairing.get((pair.task, agent), ()):
                mine.setdefault((pair.task, agent), []).append(pair)
    return [
        row
        for (_, agent), own in mine.items()
        for row in tvd_mi.response_scores(own, direction=metric.direction)
        if row.agent == agent
    ]


def _no_evidence(metric: Metric, context: Context) -> str:
    rows = context.evidence.logprobs
    synopses = sorted({str(row.synopsis) for row in rows if row.synopsis is not None})
    if metric.synopsis is not None and metric.synopsis not in synopses:
        return (
            f"{context.study.name} carries no log-probabilities given a synopsis {metric.synopsis!r}"
            f"{nearest(metric.synopsis, synopses) or '.'} Recorded synopses: {', '.join(synopses) or 'none'}."
        )
    what = "rewrites" if metric.text == "rewrites" else "responses as they are"
    return f"{context.study.name} carries no log-probabilities of {what}, which {metric.name} needs"


def metric_outcome(scores: MetricScores, context: Context) -> MetricOutcome:
    """The results of a metric: its scores, ranked."""
    options, agents = context.options, [agent.agent for agent in context.study.agents]
    values = _table(scores.responses, context.study)
    by_name = _agent_scores(scores.by_wording, scores.pairs, context.study) if len(scores.by_wording) > 1 else {}
    ranked = _ranked(context)
    board = _leaderboard(scores, context, values[:, ranked], ranked, spread=_spread(by_name, agents))
    tasks = list(context.study.tasks)
    return MetricOutcome(
        metric=scores.metric.name,
        signature=str(scores.signature),
        pairs=scores.pairs,
        responses=scores.responses,
        problems=scores.problems,
        leaderboard=board,
        by_wording=by_name,
        influence=tuple(most_influential(values, tasks, agents, INFLUENTIAL)),
        groups=None
        if options.compare_groups is None
        else compare_groups(
            values,
            *group_members(context.study, options.compare_groups),
            seed=options.seed,
            resamples=options.resamples,
            level=options.level,
        ),
    )


def _ranked(context: Context) -> list[int]:
    """Numbers of the agents that stand on the leaderboard: all, less those that a pairing has as peers only."""
    pairing = context.options.pairing
    held = None if pairing is None else {agent for _, agent in pairing}
    return [j for j, agent in enumerate(context.study.agents) if held is None or agent.agent in held]


def _table(responses: Sequence[ResponseScore], study: Study) -> npt.NDArray[np.float64]:
    """Scores [tasks, agents], NaN where one is missing."""
    values = np.full((len(study.tasks), len(study.agents)), np.nan)
    row_of = {task: i for i, task in enumerate(study.tasks)}
    column_of = {agent.agent: j for j, agent in enumerate(study.agents)}
    for r in responses:
        values[row_of[r.task], column_of[r.agent]] = math.nan if r.score is None else r.score
    return values


def _agent_scores(
    scored: Mapping[Wording, Sequence[PairScore]], pairs: Sequence[PairScore], study: Study
) -> dict[str, dict[str, float | None]]:
    """Each agent's score under each wording alone, over the pairs that all wordings have."""
    common = {(pair.task, pair.agent, pair.peer) for pair in pairs if pair.score is not None}
    found: dict[str, dict[str, float | None]] = {}
    for wording, mine in scored.items():
        values = _table(mean_over_peers([p for p in mine if (p.task, p.agent, p.peer) in common]), study)
        there = [column[~np.isnan(column)] for column in values.T]
        means = [float(column.mean()) if len(column) else None for column in there]
        found[wording.name] = dict(zip([agent.agent for agent in study.agents], means, strict=True))
    return found


def _spread(by_name: Mapping[str, Mapping[str, float | None]], agents: Sequence[str]) -> dict[str, float]:
    """Standard deviation of each agent's score between wordings."""
    found = {}
    for agent in agents:
        scores = [score for by_agent in by_name.values() if (score := by_agent[agent]) is not None]
        if len(scores) > 1:
            found[agent] = float(np.std(scores, ddof=1))
    return found


def group_members(study: Study, groups: tuple[str, str]) -> tuple[list[int], list[int]]:
    """Numbers of the agents in each of two groups. Raises where a group has none."""
    known = sorted({agent.group for agent in study.agents if agent.group is not None})
    for group in groups:
        if group not in known:
            raise UserError(
                f"no agent of {study.name} is in the group {group!r}{nearest(group, known) or '.'} "
                f"Groups in the agents table: {', '.join(known) or 'none'}."
            )
    first, second = ([j for j, agent in enumerate(study.agents) if agent.group == group] for group in groups)
    return first, second


def _signature(metric: Metric, context: Context, wordings: Sequence[Wording], pairs: Sequence[PairScore]) -> Signature:
    options = context.options
    rewriters = list(dict.fromkeys(w.rewriter for w in wordings if w.rewriter is not None))
    writers = dict.fromkeys(row.writer for row in context.evidence.synopses if row.synopsis == metric.synopsis)
    # the usual limit is not said: signatures made before it could be another stay as they were
    limited = context.rewriting and options.rewrite_max_tokens != MOST_TOKENS
    asked = {
        **({"rewriter": ",".join(rewriters)} if rewriters else {}),
        **({"rewrite-max-tokens": str(options.rewrite_max_tokens)} if rewriters and limited else {}),
        "template": ",".join(dict.fromkeys(w.template for w in wordings)),
        "synopsis": metric.synopsis or "none",
        **({"written-by": "+".join(writers)} if writers else {}),
    }
    peers = context.partners if metric.kind == "critic" else context.peers
    direction = {"direction": metric.direction} if metric.kind == "critic" else {}
    theirs = metric.pairs or metric.items
    against: dict[str, str] = {"against": metric.against}
    if metric.against == "peers":
        against = {"peers": _peers_shown(peers, pairs, context)}
    settings = {
        **({} if theirs is None else theirs.settings),
        **(asked if wordings else {}),
        **({"evidence": f"recorded-{_pairs_hash(pairs)}"} if metric.kind == "wins" else {}),
        **context.described.get(metric.kind, {}),
        **direction,
        **against,
        **options.told,
        "missing": "left-out",
        "interval": f"tasks-bootstrap-t-{options.level:g}(t-under-{FEW_TASKS})",
        "test": "sign-flip-holm",
        "resamples": str(options.resamples),
        "seed": str(options.seed),
        "study": context.study.fingerprint[:8],
    }
    scorer = {"scorer": settings.pop("scorer")} if "scorer" in settings else {}
    return Signature(metric.name, {**scorer, **settings})


def _peers_shown(peers: Sequence[str] | None, pairs: Sequence[PairScore], context: Context) -> str:
    """Who served as peer; of recorded evidence that does not hold every ordered pair, only that can be said."""
    if peers is not None:
        return "+".join(peers)
    if context.options.pairing is not None:
        always = set(map(tuple, context.options.pairing.values()))
        return "+".join(always.pop()) if len(always) == 1 else "as-paired"
    if not context.options.recorded or not pairs:
        return "all"
    agents: dict[str, set[str]] = {}
    for pair in pairs:
        agents.setdefault(pair.task, set()).update((pair.agent, pair.peer))
    return "all" if len(pairs) == sum(len(names) * (len(names) - 1) for names in agents.values()) else "as-recorded"


def _pairs_hash(pairs: Sequence[PairScore]) -> str:
    return evidence_hash((pair.task, pair.agent, pair.peer, pair.score) for pair in pairs)


def _leaderboard(
    scores: MetricScores,
    context: Context,
    values: npt.NDArray[np.float64],
    ranked: Sequence[int],
    *,
    spread: Mapping[str, float],
) -> Leaderboard:
    agents = [context.study.agents[j].agent for j in ranked]
    asked, used = dict.fromkeys(agents, 0), dict.fromkeys(agents, 0)
    for r in scores.responses:
        if r.agent in asked:
            asked[r.agent] += r.asked
            used[r.agent] += r.used
    options = context.options
    return make_leaderboard(
        values,
        agents,
        metric=scores.metric.name,
        unit=scores.metric.unit,
        signature=str(scores.signature),
        asked=asked,
        used=used,
        groups={agent.agent: agent.group for agent in context.study.agents if agent.agent in asked},
        between_prompts=spread,
        seed=options.seed,
        resamples=options.resamples,
        level=options.level,
    )


def check_labels(study: Study) -> None:
    """Raise where the study has no labels."""
    if not study.n_preferences and not study.n_ratings:
        raise MetricError(f"{study.name} has no labels table, which tvd-mi[labels] is computed from")


def rater_outcome(metric: Metric, study: Study, options: Options) -> RaterOutcome:
    """How much the raters' labels tell about each other's: preferences by their sign, else ratings by their value."""
    check_labels(study)
    labels = preference_labels(study.preferences()) if study.n_preferences else rating_labels(study.ratings())
    items = {criterion: _items(rows) for criterion, rows in labels.items()}
    found = {
        criterion: label_information(rows, items=items[criterion], permutations=options.resamples, seed=options.seed)
        for criterion, rows in labels.items()
    }
    settings = {
        "categories": "sign" if study.n_preferences else "values",
        "items": "+".join(sorted(set(items.values()))),
        "labels": evidence_hash((c, r.rater, r.item, r.category) for c, rows in labels.items() for r in rows),
        "null": "permutation",
        "permutations": str(options.resamples),
        "seed": str(options.seed),
        "study": study.fingerprint[:8],
    }
    return RaterOutcome(metric.name, str(Signature(metric.name, settings)), found)


def _items(labels: Sequence[CategoryLabel]) -> Items:
    """On which items raters are held together: those all of them labelled, where that is most; else pair by pair."""
    raters = {label.rater for label in labels}
    by_item: dict[tuple[str, ...], set[str]] = {}
    for label in labels:
        by_item.setdefault(label.item, set()).add(label.rater)
    shared = [found for found in by_item.values() if len(found) > 1]
    return "complete" if 2 * sum(found == raters for found in shared) >= len(shared) > 0 else "pairwise"
