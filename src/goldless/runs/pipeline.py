"""The pipeline: the only place that knows the order of the stages.

study → synopses → preprocessing → scoring / judging → metrics → statistics → leaderboard
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from goldless.errors import MetricError, UserError, nearest
from goldless.evidence import LogprobEvidence, SynopsisEvidence, VerdictEvidence
from goldless.judging.critic import CriticStage, reads_by_scoring
from goldless.judging.critic_prompts import find_critic_prompt
from goldless.judging.design import choose_design, chosen_pairs
from goldless.judging.shuffling import CriticQuestion, critic_questions, default_shuffles
from goldless.metrics.catalogue import Metric
from goldless.metrics.tvd_mi import contrasts_from_table
from goldless.models.cache import default_journal
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.interface import content_hash
from goldless.models.journal import Journal
from goldless.runs.collecting import Collector, with_peers
from goldless.runs.evaluation import Evaluation, Evidence
from goldless.runs.opening import OpenModel, Part, open_models, refuse_without_chat, refuse_without_scoring
from goldless.runs.options import Options, check_options
from goldless.runs.outcomes import Context, metric_outcome, rater_outcome
from goldless.runs.recorded import recorded_preprocessors, recorded_verdicts, usable_logprobs
from goldless.runs.wordings import Preprocessor, needs
from goldless.studies import Study
from goldless.synopses import PROMPTS


async def evaluate_study(study: Study, options: Options) -> Evaluation:
    """Collect what evidence is missing and compute the metrics."""
    check_options(options)
    work = plan_work(study, options)
    if options.recorded:
        found = _Found(evidence=_recorded_evidence(work), described=RECORDED_DESCRIPTION)
    elif work.asks_models:
        found = await _collect(work)
    else:
        found = _Found(evidence=Evidence())
    context = Context(study, options, found.evidence, work.peers, work.partners, found.described)
    raters = [rater_outcome(metric, study, options) for metric in work.metrics if metric.kind == "labels"]
    return Evaluation(
        study=study.name,
        fingerprint=study.fingerprint,
        agents=study.agents,
        outcomes={m.name: metric_outcome(m, context) for m in work.metrics if m.kind != "labels"},
        raters=raters[0] if raters else None,
        evidence=found.evidence,
        models={name: model.identity for name, model in found.models.items()},
        canaries=found.canaries,
        spending=tuple(model.spending for model in dict.fromkeys(found.models.values())),
        tasks_without_peers=tuple(t for t in study.tasks if len(study.responses(t)) < 2) if work.asks_models else (),
        settings={
            "template": ",".join(template.name for template in options.chosen_templates()),
            "seed": str(options.seed),
            "resamples": str(options.resamples),
        },
    )


RECORDED_DESCRIPTION = {kind: {"evidence": "recorded"} for kind in ("likelihood", "critic", "wins")}
"""What signatures say of evidence that nobody was asked for."""


# --- what is to be done --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """What the metrics ask of a study, decided before any model is opened."""

    study: Study
    options: Options
    metrics: tuple[Metric, ...]
    peers: tuple[str, ...] | None
    """Agents that serve as peers; None: all."""
    partners: tuple[str, ...] | None
    """Agents that serve as a critic's partners; None: all."""
    questions: tuple[CriticQuestion, ...]
    """What a critic is asked."""
    shuffles: int
    preprocessors: tuple[Preprocessor, ...]
    """Rewrites that the study carries."""
    rewriting: bool
    """Whether a rewriter is to be asked for more."""
    synopses: tuple[str, ...]
    """Synopses that a model is to write where the study has none."""

    @property
    def likelihood(self) -> tuple[Metric, ...]:
        """The metrics over log-probabilities."""
        return tuple(metric for metric in self.metrics if metric.kind == "likelihood")

    @property
    def critic(self) -> bool:
        """Whether a critic is asked."""
        return any(metric.kind == "critic" for metric in self.metrics)

    @property
    def asks_models(self) -> bool:
        """Whether any model is needed."""
        return not self.options.recorded and bool(self.likelihood or self.critic)

    def parts(self) -> list[Part]:
        """The models to be opened."""
        options = self.options
        found = []
        if self.likelihood:
            found.append(Part("scorer", options.scorer, "scoring"))
        if self.rewriting:
            found += [Part(f"rewriter {i}", given, "chat") for i, given in enumerate(options.rewriters, 1)]
        if self.synopses:
            found.append(Part("synopsis writer", options.synopsis_writer, "chat"))
        if self.critic:
            found.append(Part("critic", options.critic, "chat" if options.verdicts == "labels" else "both"))
        return found


def plan_work(study: Study, options: Options) -> Work:
    """What is to be done. Raises where the study cannot give a metric."""
    metrics = options.chosen_metrics()
    asks = not options.recorded and any(metric.kind in {"likelihood", "critic"} for metric in metrics)
    if asks:
        _check_peers(study)
    _check_synopses(study, metrics, options)
    peers = _peers(study, options)
    partners, questions, shuffles = _critic_work(study, options, peers, metrics)
    preprocessors, rewriting = _rewriting(study, metrics, options) if asks else ((), False)
    synopses = [m.synopsis for m in metrics if m.synopsis in PROMPTS and options.synopsis_writer is not None]
    return Work(
        study=study,
        options=options,
        metrics=tuple(metrics),
        peers=peers,
        partners=partners,
        questions=questions,
        shuffles=shuffles,
        preprocessors=preprocessors,
        rewriting=rewriting,
        synopses=tuple(dict.fromkeys(name for name in synopses if name is not None)) if asks else (),
    )


def _check_peers(study: Study) -> None:
    carries = ""
    if any(table in study.recorded for table in ("logprobs", "verdicts", "critic_contrasts")):
        carries = " It carries recorded evidence: add --recorded to compute from that alone."
    if study.n_responses == 0:
        raise MetricError(f"{study.name}: the study has no responses, so there is nothing to score.{carries}")
    answered = [agent.agent for agent in study.agents]
    if len(answered) < 2:
        raise MetricError(
            f"{study.name}: only one agent ({answered[0]}). These metrics ask what one response tells about "
            "another's, so they need a second agent: another model, a person, an earlier version. No metric of this "
            "version works on one agent alone."
        )
    if all(len(responses) < 2 for _, responses in study):
        raise MetricError(
            f"{study.name}: no task was answered by two agents, so no response has a peer to be compared with"
        )


def _check_synopses(study: Study, metrics: Sequence[Metric], options: Options) -> None:
    """Refuse a synopsis that no task has and nobody writes."""
    for metric in metrics:
        name = metric.synopsis
        if options.recorded or name is None or name in study.synopses:
            continue
        if name in PROMPTS and options.synopsis_writer is not None:
            continue
        can = " A model can write it: name one with --synopsis-writer." * (name in PROMPTS)
        raise MetricError(
            f"{metric.name}: no task has a synopsis {name!r} (a column synopsis_{name} of the tasks table)"
            f"{nearest(name, study.synopses)} Synopses there are: {', '.join(study.synopses) or 'none'}.{can}"
        )


def _peers(study: Study, options: Options) -> tuple[str, ...] | None:
    agents = [agent.agent for agent in study.agents]
    if options.peers is not None:
        for name in options.peers:
            if name not in agents:
                raise UserError(f"no agent {name!r} in the study{nearest(name, agents)}")
        if not options.peers:
            raise UserError("no peer was named; leave the option out for all agents")
        return tuple(name for name in agents if name in options.peers)
    if options.panel is not None and options.panel < len(agents):
        # by hash, so that another agent in the study changes little
        drawn = sorted(agents, key=lambda name: content_hash("panel", options.seed, name))[: options.panel]
        return tuple(name for name in agents if name in drawn)
    return None


def _critic_work(
    study: Study, options: Options, peers: tuple[str, ...] | None, metrics: Sequence[Metric]
) -> tuple[tuple[str, ...] | None, tuple[CriticQuestion, ...], int]:
    """A critic's partners and questions, and how many shuffles each matched pair has."""
    if options.recorded or not any(metric.kind == "critic" for metric in metrics):
        return peers, (), 0
    answered = {task.task: [r.agent for r in responses] for task, responses in with_peers(study)}
    shuffles = options.shuffles or max(1, default_shuffles(len(answered)))
    agents = [agent.agent for agent in study.agents]
    if options.budget_calls is None:
        asked = critic_questions(answered, shuffles=shuffles, seed=options.seed, panel=peers)
    else:
        design = choose_design(len(answered), len(agents), budget_calls=options.budget_calls, shuffles=options.shuffles)
        chosen = chosen_pairs(list(answered), agents, design, seed=options.seed)
        pairs = {task: set(pairs) for task, pairs in chosen.items()}
        shuffles = design.shuffles
        asked = [
            question
            for question in critic_questions(answered, shuffles=shuffles, seed=options.seed)
            if (question.first, question.second) in pairs.get(question.task, ())
        ]
    if not asked:
        raise MetricError(
            f"{study.name}: no two agents answered two tasks in common, so a critic has no shuffled pair to hold a "
            "matched one against. TVD-MI needs at least 2 common tasks."
        )
    return peers, tuple(asked), shuffles


def _rewriting(study: Study, metrics: Sequence[Metric], options: Options) -> tuple[tuple[Preprocessor, ...], bool]:
    """The rewrites that the study carries, and whether more are to be made."""
    wanted = [metric for metric in metrics if metric.text != "responses"]
    if not wanted:
        return (), False
    recorded = recorded_preprocessors(study)
    every = {(r.task, r.agent) for _, responses in with_peers(study) for r in responses}
    lacking = not recorded or any(every - set(preprocessor.rewrites) for preprocessor in recorded)
    several = len(options.rewriters) > 1
    if options.rewriters and (lacking or several):
        # several rewriters are compared with each other, so each makes its own
        return (() if several else tuple(recorded)), True
    if lacking and any(metric.text == "rewrites" for metric in wanted):
        raise MetricError("gem rewrites responses first: name a chat model with --rewriter, or use gem-raw")
    if lacking:
        warnings.warn(
            f"{wanted[0].name}: no rewriter was named, so responses are scored as they are, style included",
            stacklevel=2,
        )
        return (), False
    return tuple(recorded), False


# --- doing it ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """Evidence, who gave it, and what signatures say of it."""

    evidence: Evidence
    models: Mapping[str, OpenModel] = field(default_factory=dict)
    canaries: CanaryReport | None = None
    described: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


async def _collect(work: Work) -> _Found:
    """Everything the metrics need, asked of models as far as it is not there."""
    options = work.options
    journal = Journal(options.journal or default_journal())
    try:
        async with open_models(work.parts(), options, journal) as models:
            _check_parts(work, models)
            collector = Collector(work.study, options)
            canaries = await check_scorer(models["scorer"].model, journal) if work.likelihood else None
            stage = await _critic_stage(work, models, journal) if work.critic else None
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
            return _Found(evidence, models, canaries, _description(work, models, canaries, stage))
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


async def _critic_stage(work: Work, models: Mapping[str, OpenModel], journal: Journal) -> CriticStage:
    critic, options = models["critic"], work.options
    scoring = reads_by_scoring(critic.model.capabilities, options.verdicts)
    if scoring:
        await check_scorer(critic.model, journal)
    if critic.identity.provider == "embedded":
        warnings.warn(
            "the embedded model is too small to be a critic: expect TVD-MI near 0 for everybody. "
            "Name a larger one with --critic.",
            stacklevel=2,
        )
    prompt = find_critic_prompt(options.critic_prompt)
    return CriticStage(critic.scorer if scoring else critic.chat, prompt, options.verdicts)


async def _preprocess(work: Work, collector: Collector, models: Mapping[str, OpenModel]) -> Sequence[Preprocessor]:
    """All rewrites: recorded ones, what they lack made by the rewriter, or each of several rewriters' own."""
    if not work.rewriting:
        return work.preprocessors
    rewriters = [model for name, model in models.items() if name.startswith("rewriter")]
    known = [preprocessor.rewrites for preprocessor in work.preprocessors] or [{}]
    return [
        await collector.rewrite(rewriter, template, rewrites)
        for rewriter in rewriters
        for template in work.options.chosen_templates()
        for rewrites in known
    ]


def _description(
    work: Work, models: Mapping[str, OpenModel], canaries: CanaryReport | None, stage: CriticStage | None
) -> dict[str, dict[str, str]]:
    """What signatures say of the evidence, by kind of metric."""
    described: dict[str, dict[str, str]] = {}
    if canaries is not None:
        identity = models["scorer"].identity
        described["likelihood"] = {
            "scorer": identity.short,
            **{key: identity.settings[key] for key in ("layout", "kernel", "dialect") if key in identity.settings},
            "positions": models["scorer"].scorer.positions,
            "noise": f"{canaries.noise_nats:.0e}nats",
        }
    if stage is not None:
        described["critic"] = {
            "critic": models["critic"].identity.short,
            "prompt": stage.prompt.name,
            "verdicts": stage.reading,
            "shuffles": f"off-diagonal-{work.shuffles}",
            **({} if work.options.budget_calls is None else {"calls": str(len(work.questions))}),
        }
    return described


# --- from what the study carries -----------------------------------------------------------------------------------


def _recorded_evidence(work: Work) -> Evidence:
    """The evidence that the study carries for the metrics. Raises where it carries none."""
    study, scorer = work.study, work.options.scorer
    logprobs: list[LogprobEvidence] = []
    if work.likelihood:
        logprobs = usable_logprobs(study, list(work.likelihood), scorer if isinstance(scorer, str) else None)
    if not work.critic:
        return Evidence(logprobs=tuple(logprobs))
    verdicts = recorded_verdicts(study)
    table = study.table("critic_contrasts")
    if not verdicts and table is None:
        raise MetricError(
            f"{study.name} carries no verdicts of a critic (a table verdicts or critic_contrasts), which tvd-mi needs. "
            "Leave --recorded out to ask a critic."
        )
    contrasts = [] if verdicts or table is None else contrasts_from_table(table)
    return Evidence(logprobs=tuple(logprobs), verdicts=tuple(verdicts), contrasts=tuple(contrasts))
