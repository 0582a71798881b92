"""The plan of a run: the models, questions, rewrites and synopses that the metrics need.

Decided before any model is opened, so that everything that can be known to be wrong is said before anything is paid.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from goldless.audit.texts import repeats_prompts
from goldless.errors import MetricError, UserError, nearest
from goldless.judging.critic_questions import (
    CriticQuestion,
    choose_design,
    chosen_pairs,
    critic_questions,
    default_shuffles,
    other_tasks,
)
from goldless.judging.judges import JUDGES, find_judge
from goldless.judging.scales import Scale
from goldless.metrics.label_information import check_labels
from goldless.metrics.likelihood import Wording
from goldless.metrics.metric import Metric, Pairing
from goldless.metrics.peer_prediction import Roles, example_order
from goldless.models.interface import content_hash
from goldless.runs.collection import Control, Need, Preprocessor, preprocessors, with_peers
from goldless.runs.opening import Part
from goldless.runs.options import DEFAULT_METRICS, Options
from goldless.runs.outcomes import group_members
from goldless.runs.recorded import check_wins, recorded_control, recorded_rewrites
from goldless.runs.reviewers import named_reviewers, review_parts
from goldless.runs.rounds import asked_until
from goldless.runs.samples import samples_apart
from goldless.statistics.answering import Until
from goldless.studies import Study
from goldless.synopses import PROMPTS


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What the metrics need from a study, decided before any model is opened."""

    study: Study
    options: Options
    metrics: tuple[Metric, ...]
    peers: tuple[str, ...] | None
    """Agents used as peers; None: all."""
    questions: tuple[CriticQuestion, ...]
    """Questions for the critic."""
    shuffles: int
    control: Control
    """The other tasks that task control takes for each response that is predicted."""
    preprocessors: tuple[Preprocessor, ...]
    """Rewrites recorded in the study."""
    rewriting: bool
    """Whether a rewriter has to write more."""
    synopses: tuple[str, ...]
    """Synopses that a model has to write."""
    until: Until | None = None
    """The question that decides how many tasks are asked; None: all are."""

    def limited(self, pairing: Pairing) -> RunPlan:
        """The part of this plan that scores these responses; all that was drawn stays as it was drawn."""

        def wanted(agent: str, peer: str, task: str) -> bool:
            return peer in pairing.get((task, agent), ())

        asked = (q for q in self.questions if wanted(q.first, q.second, q.task) or wanted(q.second, q.first, q.task))
        return replace(self, options=replace(self.options, pairing=pairing), questions=tuple(asked))

    @property
    def likelihood(self) -> tuple[Metric, ...]:
        """The metrics over log-probabilities."""
        return tuple(metric for metric in self.metrics if metric.needs.logprobs is not None)

    @property
    def jurors(self) -> dict[str, Any]:
        """The models that predict after worked examples, by the name of their part; empty: no metric needs them."""
        if not any(_worked(metric) for metric in self.metrics):
            return {}
        jurors = self.options.jurors
        return {f"juror {i}": juror for i, juror in enumerate(jurors, 1)} or {SCORER: self.options.scorer}

    def by_scorer(self, wanted: Mapping[Wording, Need]) -> dict[str, dict[Wording, Need]]:
        """What each scorer and juror is asked, by the name of its part; a juror nothing about its own family."""
        plain = {wording: need for wording, need in wanted.items() if need.examples is None}
        found = {SCORER: plain} if plain else {}
        for part, juror in self.jurors.items():
            left_out = self.study.family(self.options.juror_families.get(model_name(juror)))
            for wording, need in wanted.items():
                if need.examples is not None:
                    mine = replace(need, examples=replace(need.examples, left_out=left_out))
                    found.setdefault(part, {})[wording] = mine
        return found

    @property
    def critic(self) -> bool:
        """Whether a critic is needed."""
        return any(metric.needs.verdicts is not None for metric in self.metrics)

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales on which reviewers rate responses."""
        names = dict.fromkeys(metric.needs.judgements for metric in self.metrics)
        return tuple(find_judge(name) for name in names if name is not None)

    @property
    def asks_models(self) -> bool:
        """Whether any model is needed."""
        return not self.options.recorded and any(metric.needs.model for metric in self.metrics)

    @property
    def needs_peers(self) -> bool:
        """Whether responses are compared with each other, beyond what is recorded."""
        called = not self.options.recorded
        return any((called and metric.needs.compares) or metric.needs.peers for metric in self.metrics)

    def parts(self) -> list[Part]:
        """The models to open."""
        options = self.options
        found: list[Part] = []
        if not self.asks_models:
            return found
        if not all(map(_worked, self.likelihood)):
            found.append(Part(SCORER, options.scorer, "scoring"))
        found += [
            Part(part, juror, "scoring") for part, juror in self.jurors.items() if part not in {p.name for p in found}
        ]
        if self.rewriting:
            found += [Part(f"rewriter {i}", given, "chat") for i, given in enumerate(options.rewriters, 1)]
        if self.synopses:
            found.append(Part(SYNOPSIS_WRITER, options.synopsis_writer, "chat"))
        if self.critic:
            found.append(Part("critic", options.critic, "chat" if options.verdicts == "labels" else "both"))
        if self.scales:
            found += review_parts(options)
        return found


SCORER = "scorer"
"""The part of the model that gives log-probabilities."""
SYNOPSIS_WRITER = "synopsis writer"
LONGEST_PROMPT = 6_000
"""Characters of a prompt that the default metrics condition on: every longer one would cost more than the responses."""


def with_default_metrics(study: Study, options: Options) -> Options:
    """The options with the default metrics spelled out for a study: those it can give.

    Two agents tell as much about each other: of both directions nothing would be left to compare. Given the prompt as
    well where an agent repeats it.
    """
    if DEFAULT_METRICS not in [name for name in options.metrics if isinstance(name, str)]:
        return options
    both = len(study.one_sample_each().agents) > 2
    if options.recorded:
        recorded = recorded_control(study)
        control, prompts = bool(recorded["synopsis"].null_count()), "prompt" in recorded["synopsis"].to_list()
        both &= control and _both_directions(recorded)
    else:
        tasks = [task for task, _ in with_peers(study)]
        control = len(tasks) > 1
        short = all(0 < len((task.prompt or "").strip()) <= LONGEST_PROMPT for task in tasks)
        prompts = control and short and repeats_prompts(study.one_sample_each())
        if not both:
            options.say(
                "Two agents tell equally much about each other, so shared-info would be the same for both: one "
                "direction is compared, how much each response makes the other's more predictable."
            )
    return replace(options, metrics=options.metrics_for(control=control, prompts=prompts, both=both))


def _both_directions(recorded: pl.DataFrame) -> bool:
    """Whether of all pairs of agents each was predicted given the other."""
    pairs = recorded.select("target", "given").drop_nulls().unique()
    return not len(pairs.join(pairs, left_on=["target", "given"], right_on=["given", "target"], how="anti"))


def plan_run(study: Study, options: Options, metrics: Sequence[Metric] | None = None) -> RunPlan:
    """Plan a run. Raises if the study does not have what a metric needs; None: the metrics of the options."""
    metrics = options.chosen_metrics() if metrics is None else metrics
    agents = study.one_sample_each()
    options = samples_apart(study, options)
    asks = not options.recorded and any(metric.needs.compares for metric in metrics)
    if asks:
        _check_peers(study)
    _check_reviews(options, metrics)
    _check_synopses(study, metrics, options)
    _check_jurors(study, options, metrics)
    for metric in metrics:
        if metric.needs.table is not None:
            check_wins(study, metric.needs.table)
        if metric.needs.labels:
            check_labels(study)
    if options.compare_groups is not None:
        group_members(agents, options.compare_groups)
    if options.baseline is not None and options.baseline not in (names := [agent.agent for agent in agents.agents]):
        advice = nearest(options.baseline, names) or f". Agents: {', '.join(names)}"
        raise UserError(f"--baseline must be an agent of the study, got {options.baseline!r}{advice}")
    until = asked_until(options, [agent.agent for agent in agents.agents])
    _warn_of_unused(options, metrics)
    peers = _peers(study, options)
    questions, shuffles = _critic_work(study, options, peers, metrics)
    known, rewriting = _rewriting(study, metrics, options) if asks else ((), False)
    written = options.synopsis_writer is not None and asks
    synopses = [name for m in metrics if written and (name := _synopsis(m)) in PROMPTS and _lacking(study, name)]
    return RunPlan(
        study=study,
        options=options,
        metrics=tuple(metrics),
        peers=peers,
        questions=questions,
        shuffles=shuffles,
        control=_control(study, options, metrics),
        preprocessors=known,
        rewriting=rewriting,
        synopses=tuple(dict.fromkeys(name for name in synopses if name is not None)),
        until=until,
    )


def _check_reviews(options: Options, metrics: Sequence[Metric]) -> None:
    """Reject ratings without reviewers, and scales that compare two responses."""
    for metric in [metric for metric in metrics if metric.needs.judgements is not None]:
        if find_judge(str(metric.needs.judgements)).pairwise:
            single = ", ".join(name for name, scale in JUDGES.items() if not scale.pairwise)
            raise UserError(
                f"{metric.name}: the scale must rate single responses ({single}), got {metric.needs.judgements}. "
                "For comparisons use goldless review"
            )
        if not options.recorded and not options.reviewers:
            raise UserError(f"{metric.name} needs reviewers. Name one or more chat models with --reviewers")
        taken = {SCORER, "critic", SYNOPSIS_WRITER} & set(named_reviewers(options.reviewers))
        if taken:
            raise UserError(f"a reviewer must not be called {min(taken)!r}. Try --reviewers judge={min(taken)}")


def _warn_of_unused(options: Options, metrics: Sequence[Metric]) -> None:
    """Warn about options that no requested metric uses."""
    critic = any(metric.needs.verdicts is not None for metric in metrics)
    unused = {
        "--rewriter": options.rewriters and not any(map(_rewritten, metrics)),
        "--synopsis-writer": options.synopsis_writer and all(_synopsis(metric) not in PROMPTS for metric in metrics),
        "--critic": options.critic != "embedded" and not critic and not options.recorded,
        "--shuffles": options.shuffles and not critic,
        "--budget-calls": options.budget_calls and not critic,
        "--reviewers": options.reviewers and not any(metric.needs.judgements for metric in metrics),
        "--juror": options.jurors and not options.recorded and not any(map(_worked, metrics)),
        "--control-tasks": options.control_tasks != Options().control_tasks and not any(map(_controlled, metrics)),
    }
    for option in [name for name, is_unused in unused.items() if is_unused]:
        warnings.warn(f"{option} is not used by {', '.join(metric.name for metric in metrics)}", stacklevel=2)


def _synopsis(metric: Metric) -> str | None:
    """The synopsis that a metric conditions on."""
    return None if metric.needs.logprobs is None else metric.needs.logprobs.synopsis


def _rewritten(metric: Metric) -> bool:
    """Whether a metric uses rewrites."""
    return metric.needs.logprobs is not None and metric.needs.logprobs.text != "responses"


def _controlled(metric: Metric) -> bool:
    """Whether what two agents share on other tasks is taken off."""
    return metric.needs.logprobs is not None and metric.needs.logprobs.control


def _worked(metric: Metric) -> bool:
    """Whether a metric is asked after worked examples, of jurors."""
    return metric.needs.logprobs is not None and metric.needs.logprobs.worked_examples


def model_name(given: Any) -> str:
    """The name of a model that is given by a specification, or as an object."""
    return given if isinstance(given, str) else str(given.identity.short)


def _check_jurors(study: Study, options: Options, metrics: Sequence[Metric]) -> None:
    """Refuse a family of no juror, and say who is predicted by the very response that informs."""
    worked = [metric for metric in metrics if _worked(metric)]
    if not worked or options.recorded:
        return
    names = list(map(model_name, options.jurors or (options.scorer,)))
    for name in options.juror_families:
        if name not in names:
            advice = nearest(name, names) or f". Jurors: {', '.join(names)}"
            raise UserError(f"--juror-family: no juror {name!r}{advice}")
    if len(set(names)) < len(names):
        raise UserError(f"--juror must name different models, got {', '.join(names)}")
    for metric in worked:
        if metric.needs.logprobs is not None and metric.needs.logprobs.same is not None:
            example_order((task for task, _ in study), metric.needs.logprobs.same, options.seed)
    roles = Roles.of(study.agents)
    if single := roles.single:
        who = "every agent" if len(single) == len(roles.examples) else ", ".join(single)
        options.say(
            f"{worked[0].name}: {who} has one response to a task, which informs about others and is predicted from "
            "theirs. With a second, independent response (column sample) the first informs and the second is predicted"
        )


def _check_peers(study: Study) -> None:
    carries = ""
    if any(table in study.recorded for table in ("logprobs", "verdicts", "critic_contrasts")):
        carries = ". It has recorded evidence; add --recorded to use it without calling models"
    if study.n_responses == 0:
        raise MetricError(f"{study.name}: the study has no responses, so there is nothing to score{carries}")
    answered = [agent.agent for agent in study.agents]
    if len(answered) < 2:
        raise MetricError(
            f"{study.name}: only one agent ({answered[0]}). These metrics compare the responses of agents, so they "
            "need a second agent: another model, a person, an earlier version. With one agent, length works, and with "
            "a reference column rouge-l[reference], bleu[reference] and bertscore[reference]"
        )
    if all(len(responses) < 2 for _, responses in study):
        raise MetricError(
            f"{study.name}: no task has responses of two agents, so no response has a peer to compare it with"
        )


def _check_synopses(study: Study, metrics: Sequence[Metric], options: Options) -> None:
    """Reject a synopsis that no task has and no model writes."""
    for metric in metrics:
        name = _synopsis(metric)
        if options.recorded or name is None or any(task.synopsis(name) for task, _ in study):
            continue
        if name in PROMPTS and options.synopsis_writer is not None:
            continue
        can = ". A model can write it; choose one with --synopsis-writer" * (name in PROMPTS)
        raise MetricError(
            f"{metric.name}: no task has a synopsis {name!r} (a column synopsis_{name} or {name} of the tasks table)"
            f"{nearest(name, study.synopses) or '.'} Known synopses: {', '.join(study.synopses) or 'none'}{can}"
        )


def _lacking(study: Study, synopsis: str | None) -> bool:
    """Whether a task with peers has no such synopsis."""
    return any(synopsis is not None and task.synopsis(synopsis) is None for task, _ in with_peers(study))


def _peers(study: Study, options: Options) -> tuple[str, ...] | None:
    agents = [agent.agent for agent in study.agents]
    if options.peers is not None:
        for name in options.peers:
            if name not in agents:
                raise UserError(f"no agent {name!r} in the study{nearest(name, agents)}")
        if not options.peers:
            raise UserError("--peers must name at least one agent. Leave it out to use all agents")
        return tuple(name for name in agents if name in options.peers)
    if options.peer_sample is not None and not options.recorded:
        answered = {r.agent for _, responses in with_peers(study) for r in responses}
        agents = [name for name in agents if name in answered]
    if options.peer_sample is not None and options.peer_sample < len(agents):
        # by hash, so that another agent in the study changes little
        drawn = sorted(agents, key=lambda name: content_hash("panel", options.seed, name))[: options.peer_sample]
        return tuple(name for name in agents if name in drawn)
    return None


def _critic_work(
    study: Study, options: Options, peers: tuple[str, ...] | None, metrics: Sequence[Metric]
) -> tuple[tuple[CriticQuestion, ...], int]:
    """The questions for the critic, and the number of shuffles per matched pair."""
    if options.recorded or not any(metric.needs.verdicts is not None for metric in metrics):
        return (), 0
    answered = {task.task: [r.agent for r in responses] for task, responses in with_peers(study)}
    most = max(1, len(answered) - 1)
    shuffles = min(options.shuffles or max(1, default_shuffles(len(answered))), most)
    agents = list(dict.fromkeys(name for names in answered.values() for name in names))
    if options.pairing is not None:
        asked = critic_questions(answered, shuffles=shuffles, seed=options.seed, only=_both_ways(options.pairing))
    elif options.budget_calls is None:
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
            f"{study.name}: no two agents have two tasks in common, so there are no shuffled pairs to compare matched "
            "ones with. TVD-MI needs at least 2 common tasks"
        )
    return tuple(asked), shuffles


def _control(study: Study, options: Options, metrics: Sequence[Metric]) -> Control:
    """The other tasks for each response, by derangements of the tasks that its agent answered.

    An agent's draw depends on the seed, its name and its tasks alone: another agent in the study changes none, and all
    who are compared with it are compared on the same other tasks.
    """
    controlled = [metric for metric in metrics if _controlled(metric)]
    if options.recorded or not controlled:
        return {}
    tasks_of: dict[str, list[str]] = {}
    for task, responses in with_peers(study):
        for response in responses:
            tasks_of.setdefault(response.agent, []).append(task.task)
    most = max(map(len, tasks_of.values())) - 1
    if most < 1:
        raise MetricError(
            f"{controlled[0].name} needs at least 2 tasks that two agents answered, got 1: it takes off what responses "
            f"share on other tasks. Try {getattr(controlled[0], 'without_control', 'one without +control')}"
        )
    if most < options.control_tasks:
        warnings.warn(
            f"--control-tasks {options.control_tasks}: no response has more than {most} other "
            f"task{'s' * (most > 1)}, so {most} {'is' if most == 1 else 'are'} used",
            stacklevel=2,
        )
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for agent, tasks in tasks_of.items():
        drawn = other_tasks(tasks, options.control_tasks, content_hash("control", options.seed, agent))
        found |= {(task, agent): tuple(others) for task, others in drawn.items()}
    return found


def _both_ways(pairing: Mapping[tuple[str, str], Sequence[str]]) -> dict[str, set[tuple[str, str]]]:
    """Ordered pairs by task: each response with its peers, in both orders."""
    found: dict[str, set[tuple[str, str]]] = {}
    for (task, agent), peers in pairing.items():
        found.setdefault(task, set()).update(pair for peer in peers for pair in ((agent, peer), (peer, agent)))
    return found


def _rewriting(study: Study, metrics: Sequence[Metric], options: Options) -> tuple[tuple[Preprocessor, ...], bool]:
    """The recorded rewrites, and whether more are needed."""
    wanted = [metric for metric in metrics if _rewritten(metric)]
    if not wanted:
        return (), False
    recorded = preprocessors(recorded_rewrites(study))
    every = {(r.task, r.agent) for _, responses in with_peers(study) for r in responses}
    lacking = sum(len(every - set(p.table.select("task", "agent").iter_rows())) for p in recorded)
    several = len(options.rewriters) > 1
    if options.rewriters and (not recorded or lacking or several):
        # several rewriters are compared with each other, so each makes its own
        return (() if several else tuple(recorded)), True
    if recorded:
        if lacking:
            warnings.warn(
                f"{lacking} responses have no recorded rewrite and count as missing. Choose a rewriter with --rewriter",
                stacklevel=2,
            )
        return tuple(recorded), False
    if any(m.needs.logprobs is not None and m.needs.logprobs.text == "rewrites" for m in wanted):
        raise MetricError("gem rewrites responses first. Choose a chat model with --rewriter, or use gem-raw")
    styled = [metric.name for metric in wanted if not _controlled(metric)]
    if styled:
        warnings.warn(
            f"{styled[0]}: there is no rewriter, so the original responses are scored, including their style",
            stacklevel=2,
        )
    return (), False
