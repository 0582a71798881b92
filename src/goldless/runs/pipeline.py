"""The pipeline: the only place that knows the order of the stages.

study → synopses → preprocessing → scoring / judging → metrics → statistics → leaderboard
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goldless.errors import MetricError, UserError, nearest
from goldless.evidence import LogprobEvidence, SynopsisEvidence, VerdictEvidence
from goldless.judging.critic import CriticStage, reads_by_scoring
from goldless.judging.critic_prompts import find_critic_prompt
from goldless.judging.design import choose_design, chosen_pairs
from goldless.judging.shuffling import CriticQuestion, critic_questions, default_shuffles
from goldless.metrics.catalogue import Metric
from goldless.metrics.scores import PairScore
from goldless.models.cache import default_journal
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.interface import content_hash
from goldless.models.journal import Journal
from goldless.runs.collecting import Collector, with_peers
from goldless.runs.evaluation import Evaluation, Evidence
from goldless.runs.opening import OpenModel, Part, open_models, refuse_without_chat, refuse_without_scoring
from goldless.runs.options import Options, check_options
from goldless.runs.outcomes import Context, check_labels, group_members, metric_outcome, rater_outcome
from goldless.runs.recorded import (
    check_wins,
    evidence_hash,
    recorded_contrasts,
    recorded_preprocessors,
    recorded_verdicts,
    usable_logprobs,
)
from goldless.runs.wordings import Preprocessor, check_rewriters, needs
from goldless.studies import Study
from goldless.synopses import PROMPTS
from goldless.templates import find_template


async def evaluate_study(study: Study, options: Options) -> Evaluation:
    """Collect what evidence is missing and compute the metrics."""
    check_options(options)
    work = plan_work(study, options)
    if options.recorded:
        evidence = _recorded_evidence(work)
        found = _Found(evidence=evidence, described=_recorded_description(evidence))
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
            **({} if options.compare_groups is None else {"groups": " against ".join(options.compare_groups)}),
        },
    )


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
        found: list[Part] = []
        if not self.asks_models:
            return found
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
    for metric in metrics:
        if metric.kind == "wins":
            check_wins(study, metric.table or "")
        if metric.kind == "labels":
            check_labels(study)
    if options.compare_groups is not None:
        group_members(study, options.compare_groups)
    _warn_of_unused(options, metrics)
    peers = _peers(study, options)
    partners, questions, shuffles = _critic_work(study, options, peers, metrics)
    preprocessors, rewriting = _rewriting(study, metrics, options) if asks else ((), False)
    written = options.synopsis_writer is not None and asks
    synopses = [m.synopsis for m in metrics if written and m.synopsis in PROMPTS and _lacking(study, m.synopsis)]
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
        synopses=tuple(dict.fromkeys(name for name in synopses if name is not None)),
    )


def _warn_of_unused(options: Options, metrics: Sequence[Metric]) -> None:
    """Say which options no metric asked for uses."""
    critic = any(metric.kind == "critic" for metric in metrics)
    unused = {
        "--rewriter": options.rewriters and all(metric.text == "responses" for metric in metrics),
        "--synopsis-writer": options.synopsis_writer and all(metric.synopsis not in PROMPTS for metric in metrics),
        "--critic": options.critic != "embedded" and not critic and not options.recorded,
        "--shuffles": options.shuffles and not critic,
        "--budget-calls": options.budget_calls and not critic,
    }
    for option in [name for name, is_unused in unused.items() if is_unused]:
        warnings.warn(f"{option} is not used by {', '.join(metric.name for metric in metrics)}", stacklevel=2)


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
            f"{nearest(name, study.synopses) or '.'} Synopses there are: {', '.join(study.synopses) or 'none'}.{can}"
        )


def _lacking(study: Study, synopsis: str | None) -> bool:
    """Whether a task with peers has no such synopsis."""
    return any(synopsis not in task.synopses for task, _ in with_peers(study))


def _peers(study: Study, options: Options) -> tuple[str, ...] | None:
    agents = [agent.agent for agent in study.agents]
    if options.peers is not None:
        for name in options.peers:
            if name not in agents:
                raise UserError(f"no agent {name!r} in the study{nearest(name, agents)}")
        if not options.peers:
            raise UserError("no peer was named; leave the option out for all agents")
        return tuple(name for name in agents if name in options.peers)
    if options.panel is not None and not options.recorded:
        answered = {r.agent for _, responses in with_peers(study) for r in responses}
        agents = [name for name in agents if name in answered]
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
    most = max(1, len(answered) - 1)
    shuffles = min(options.shuffles or max(1, default_shuffles(len(answered))), most)
    agents = list(dict.fromkeys(name for names in answered.values() for name in names))
    if options.budget_calls is None:
        asked = critic_questions(answered, shuffles=shuffles, seed=options.seed, panel=peers)
    else:
        design = choose_design(len(answered), len(agents), budget_calls=options.budget_calls, shuffles=options.shuffles)
        shuffles = min(design.shuffles, most)
        asked = critic_questions(
            answered,
            shuffles=shuffles,
            seed=options.seed,
            only=chosen_pairs(list(answered), agents, design, seed=options.seed),
        )
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
    lacking = sum(len(every - set(preprocessor.rewrites)) for preprocessor in recorded)
    several = len(options.rewriters) > 1
    if options.rewriters and (not recorded or lacking or several):
        # several rewriters are compared with each other, so each makes its own
        return (() if several else tuple(recorded)), True
    if recorded:
        if lacking:
            warnings.warn(
                f"{lacking} responses have no recorded rewrite and no rewriter was named: they are missing",
                stacklevel=2,
            )
        return tuple(recorded), False
    if any(metric.text == "rewrites" for metric in wanted):
        raise MetricError("gem rewrites responses first: name a chat model with --rewriter, or use gem-raw")
    warnings.warn(
        f"{wanted[0].name}: no rewriter was named, so responses are scored as they are, style included", stacklevel=2
    )
    return (), False


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
            return _Found(evidence, models, canaries, described)
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
    settings = model.identity.settings
    return {key: settings[key] for key in ("layout", "kernel", "dialect") if key in settings}


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
