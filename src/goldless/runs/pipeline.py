"""The pipeline: the only place that knows the order of the stages.

study → synopses → preprocessing → scoring / judging → metrics → statistics → leaderboard
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goldless.errors import MetricError
from goldless.evidence import LogprobEvidence, SynopsisEvidence, VerdictEvidence
from goldless.judging.critic import CriticStage, reads_by_scoring
from goldless.judging.critic_prompts import find_critic_prompt
from goldless.metrics.embedding_similarity import SentenceSimilarity
from goldless.metrics.scores import PairScore
from goldless.models.cache import default_journal
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.journal import Journal
from goldless.models.local_weights.sharing import sharing_word
from goldless.runs.collecting import Collector
from goldless.runs.evaluation import Evaluation, Evidence
from goldless.runs.opening import OpenModel, Spending, open_models, refuse_without_chat, refuse_without_scoring
from goldless.runs.options import Options, check_options
from goldless.runs.outcomes import Context, MetricScores, metric_outcome, metric_scores, rater_outcome
from goldless.runs.recorded import (
    evidence_hash,
    recorded_contrasts,
    recorded_verdicts,
    usable_logprobs,
)
from goldless.runs.text_scores import text_items, text_scores
from goldless.runs.trained_scorer import training_notes
from goldless.runs.wordings import Preprocessor, check_rewriters, needs
from goldless.runs.work import Work, plan_work
from goldless.studies import Study
from goldless.templates import TEMPLATES, find_template


@dataclass(frozen=True, slots=True)
class Found:
    """Evidence, who gave it, and what signatures say of it."""

    evidence: Evidence
    models: Mapping[str, OpenModel] = field(default_factory=dict)
    canaries: CanaryReport | None = None
    described: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scored:
    """What the metrics say of responses, before anything is ranked."""

    context: Context
    scores: Mapping[str, MetricScores]
    """By metric; without those that score no agents."""
    found: Found

    @property
    def spending(self) -> tuple[Spending, ...]:
        """What the calls of each model came to."""
        return tuple(model.spending for model in dict.fromkeys(self.found.models.values()))


async def score_study(study: Study, options: Options) -> Scored:
    """Collect what evidence is missing and compute the metrics' scores of pairs and responses."""
    check_options(options)
    return await _scored(plan_work(study, options))


async def evaluate_study(study: Study, options: Options) -> Evaluation:
    """Collect what evidence is missing, compute the metrics and rank the agents."""
    check_options(options)
    work = plan_work(study, options)
    scored = await _scored(work)
    found = scored.found
    raters = [rater_outcome(metric, study, options) for metric in work.metrics if metric.kind == "labels"]
    return Evaluation(
        source=study,
        outcomes={name: metric_outcome(scores, scored.context) for name, scores in scored.scores.items()},
        raters=raters[0] if raters else None,
        evidence=found.evidence,
        models={name: model.identity for name, model in found.models.items()},
        canaries=found.canaries,
        spending=scored.spending,
        tasks_without_peers=tuple(t for t in study.tasks if len(study.responses(t)) < 2) if work.needs_peers else (),
        settings={
            "template": ",".join(template.name for template in options.chosen_templates()),
            "seed": str(options.seed),
            "resamples": str(options.resamples),
            **({} if options.compare_groups is None else {"groups": " against ".join(options.compare_groups)}),
        },
        prompts=_critic_words(options) if work.critic and not options.recorded else {},
        templates={t.name: t for t in options.chosen_templates() if t.name not in TEMPLATES} if work.likelihood else {},
    )


def _critic_words(options: Options) -> dict[str, str]:
    prompt = find_critic_prompt(options.critic_prompt)
    return {
        prompt.name: "\n\n".join((prompt.opening, prompt.ask, f"{prompt.explain or prompt.decide}{prompt.formats}"))
    }


async def _scored(work: Work) -> Scored:
    study, options = work.study, work.options
    if options.recorded:
        evidence = _recorded_evidence(work)
        found = Found(evidence=evidence, described=_recorded_description(evidence))
    elif work.asks_models:
        found = await _collect(work)
    else:
        found = Found(evidence=Evidence())
    for metric in work.texts:
        if isinstance(metric.pairs, SentenceSimilarity):
            metric.pairs.fetch(options.say)
    items = list(text_items(study, work.peers, options.pairing)) if work.texts else []
    texts = {metric.name: await text_scores(metric, items) for metric in work.texts}
    context = Context(study, options, found.evidence, work.peers, work.partners, found.described, texts, work.rewriting)
    scores = {m.name: metric_scores(m, context) for m in work.metrics if m.kind != "labels"}
    return Scored(context, scores, found)


# --- doing it ------------------------------------------------------------------------------------------------------


async def _collect(work: Work) -> Found:
    """Everything the metrics need, asked of models as far as it is not there."""
    options = work.options
    journal = Journal(options.journal or default_journal())
    try:
        async with open_models(work.parts(), options, journal) as models:
            _check_parts(work, models)
            _warn_of_training(work, models)
            collector = Collector(work.study, options)
            canaries = await check_scorer(models["scorer"].model, journal) if work.likelihood else None
            stage, noise = await _critic_stage(work, models, journal) if work.critic else (None, None)
            synopses: dict[tuple[str, str], SynopsisEvidence] = {}
            if work.synopses:
                synopses = await collector.write_synopses(models["synopsis writer"], work.synopses)
            preprocessors = await _preprocess(work, collector, models)
            logprobs: list[LogprobEvidence] = []
            if work.likelihood:
                wanted = needs(work.likelihood, options.chosen_templates(), preprocessors)
                logprobs = await collector.score(models["scorer"], wanted, work.peers, synopses)
            verdicts: list[VerdictEvidence] = []
            if stage is not None:
                verdicts = await collector.judge(models["critic"], stage, work.questions)
            evidence = Evidence(
                logprobs=tuple(logprobs),
                verdicts=tuple(verdicts),
                rewrites=tuple(row for p in preprocessors for row in p.rewrites.values()),
                synopses=tuple(synopses.values()),
            )
            described = _description(work, models, canaries, stage=stage, verdicts=verdicts, critic_noise=noise)
            return Found(evidence, models, canaries, described)
    finally:
        journal.close()


def _check_parts(work: Work, models: Mapping[str, OpenModel]) -> None:
    """Refuse a model that cannot play its part, before anything is asked."""
    if work.likelihood:
        refuse_without_scoring(models["scorer"], [metric.name for metric in work.likelihood])
    for name, model in models.items():
        if name.startswith("rewriter"):
            refuse_without_chat(model, "rewrite responses for gem")
        if name == "synopsis writer":
            refuse_without_chat(model, "write synopses")


def _warn_of_training(work: Work, models: Mapping[str, OpenModel]) -> None:
    """Say where a scorer was trained for other words than it is asked with, or on tasks that it is to score."""
    if work.likelihood:
        for note in training_notes(models["scorer"].model, work.options.chosen_templates(), work.study):
            warnings.warn(note, stacklevel=2)


async def _critic_stage(
    work: Work, models: Mapping[str, OpenModel], journal: Journal
) -> tuple[CriticStage, float | None]:
    """How the critic is asked, and the noise of its log-probabilities where it is read by them."""
    critic, options = models["critic"], work.options
    scoring = reads_by_scoring(critic.model.capabilities, options.verdicts)
    noise = (await check_scorer(critic.model, journal)).noise_nats if scoring else None
    if critic.identity.provider == "embedded":
        warnings.warn(
            "the embedded model is too small to be a critic: expect TVD-MI near 0 for everybody. "
            "Name a larger one with --critic.",
            stacklevel=2,
        )
    prompt = find_critic_prompt(options.critic_prompt)
    return CriticStage(critic.scorer if scoring else critic.chat, prompt, options.verdicts), noise


async def _preprocess(work: Work, collector: Collector, models: Mapping[str, OpenModel]) -> Sequence[Preprocessor]:
    """All rewrites: recorded ones, what they lack made by the rewriter, or each of several rewriters' own."""
    if not work.rewriting:
        return work.preprocessors
    rewriters = [model for name, model in models.items() if name.startswith("rewriter")]
    check_rewriters([model.identity.short for model in rewriters])
    known = [preprocessor.rewrites for preprocessor in work.preprocessors] or [{}]
    return [
        await collector.rewrite(rewriter, template, rewrites)
        for rewriter in rewriters
        for template in work.options.chosen_templates()
        for rewrites in known
    ]


def _identity_settings(model: OpenModel) -> dict[str, str]:
    """What signatures say of how a model computes."""
    settings = model.identity.settings
    told = {key: settings[key] for key in ("layout", "kernel", "dialect", "dtype") if key in settings}
    sharing = sharing_word(settings)
    return told if sharing is None else {**told, "sharing": sharing}


def _description(
    work: Work,
    models: Mapping[str, OpenModel],
    canaries: CanaryReport | None,
    *,
    stage: CriticStage | None,
    verdicts: Sequence[VerdictEvidence],
    critic_noise: float | None,
) -> dict[str, dict[str, str]]:
    """What signatures say of the evidence, by kind of metric."""
    described: dict[str, dict[str, str]] = {}
    if canaries is not None:
        identity = models["scorer"].identity
        described["likelihood"] = {
            "scorer": identity.short,
            **_identity_settings(models["scorer"]),
            "positions": models["scorer"].scorer.positions,
            "noise": f"{canaries.noise_nats:.0e}nats",
        }
    if stage is not None:
        described["critic"] = {
            "critic": models["critic"].identity.short,
            "prompt": stage.prompt.name,
            **_identity_settings(models["critic"]),
            "verdicts": _reading(stage.reading, verdicts),
            **({} if critic_noise is None else {"noise": f"{critic_noise:.0e}nats"}),
            "shuffles": f"off-diagonal-{work.shuffles}",
            **({} if work.options.budget_calls is None else {"calls": str(len(work.questions))}),
        }
    return described


# --- from what the study carries -----------------------------------------------------------------------------------


def _recorded_evidence(work: Work) -> Evidence:
    """The evidence that the study carries for the metrics. Raises where it carries none."""
    study, options = work.study, work.options
    logprobs: list[LogprobEvidence] = []
    if work.likelihood:
        templates = [find_template(name).name for name in options.templates]
        logprobs = usable_logprobs(study, list(work.likelihood), _name(options.scorer), templates)
    if not work.critic:
        return Evidence(logprobs=tuple(logprobs))
    verdicts = recorded_verdicts(study, _name(options.critic), options.critic_prompt)
    contrasts = [] if verdicts else recorded_contrasts(study)
    _check_directions(work, contrasts)
    if not verdicts and not contrasts:
        raise MetricError(
            f"{study.name} carries no verdicts of a critic (a table verdicts or critic_contrasts), which tvd-mi needs. "
            "Leave --recorded out to ask a critic."
        )
    return Evidence(logprobs=tuple(logprobs), verdicts=tuple(verdicts), contrasts=tuple(contrasts))


def _check_directions(work: Work, contrasts: Sequence[PairScore]) -> None:
    """Refuse both directions where the study carries one."""
    found = {(pair.agent, pair.peer) for pair in contrasts}
    both = [metric.name for metric in work.metrics if metric.kind == "critic" and metric.direction == "both"]
    if found and both and not any((peer, agent) in found for agent, peer in found):
        raise MetricError(
            f"{work.study.name} carries contrasts of each pair in one direction only; {both[0]} is the mean of both. "
            "Use tvd-mi[given] or tvd-mi[about]."
        )


def _name(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _recorded_description(evidence: Evidence) -> dict[str, dict[str, str]]:
    """What signatures say of recorded evidence: whose it is, and a hash that tells two tables apart."""
    described: dict[str, dict[str, str]] = {}
    if evidence.logprobs:
        rows = [
            (r.template, r.rewriter, r.synopsis, r.task, r.target, r.given, r.sum_nats, r.mean_nats)
            for r in evidence.logprobs
        ]
        scorers = dict.fromkeys(row.scorer for row in evidence.logprobs)
        described["likelihood"] = {"scorer": "+".join(scorers), "evidence": f"recorded-{evidence_hash(rows)}"}
    if evidence.verdicts:
        verdicts = [(r.task, r.first, r.second, r.second_task, r.value) for r in evidence.verdicts]
        matched = sum(row.matched for row in evidence.verdicts)
        described["critic"] = {
            "critic": evidence.verdicts[0].critic,
            "prompt": evidence.verdicts[0].prompt,
            "verdicts": _reading("recorded", evidence.verdicts),
            "shuffles": f"off-diagonal-{(len(verdicts) - matched) / max(1, matched):g}",
            "evidence": f"recorded-{evidence_hash(verdicts)}",
        }
    if evidence.contrasts:
        contrasts = [(p.task, p.agent, p.peer, p.score) for p in evidence.contrasts]
        described["critic"] = {"evidence": f"recorded-contrasts-{evidence_hash(contrasts)}"}
    return described


def _reading(name: str, verdicts: Sequence[VerdictEvidence]) -> str:
    """How verdicts were read, with how many of them in the other way."""
    read = Counter(row.read_from for row in verdicts if row.read_from is not None)
    if name == "recorded":
        return "+".join(f"{kind}-{count}" for kind, count in sorted(read.items())) or name
    return f"{name}+label-{read['label']}" if name != "labels" and read["label"] else name
