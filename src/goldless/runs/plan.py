"""The plan of a run: the models, questions, rewrites and synopses that metrics or a review need.

Decided before any model is opened, so that everything that can be known to be wrong is said before anything is paid.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from goldless.audit.finding import listed
from goldless.audit.task_kinds import ENOUGH_TASKS, share_with_source
from goldless.audit.texts import agents_repeating_texts, repeats_prompts
from goldless.audit.truth_record import truth_record
from goldless.errors import MetricError, UserError, check_known, suggested
from goldless.judging import critic_questions as critic_work
from goldless.judging.asking import ReviewQuestion
from goldless.judging.judges import JUDGES, find_judge
from goldless.judging.scales import Scale
from goldless.metrics.label_information import check_labels
from goldless.metrics.likelihood import LikelihoodMetric, Wording
from goldless.metrics.metric import LogprobNeed, Metric, Pairing, in_both_orders
from goldless.metrics.peer_prediction import Roles, example_order
from goldless.models.interface import content_hash
from goldless.records import CallFailure
from goldless.reports.decisions import Reason, Stopped
from goldless.reports.run_record import Spending, usd_per_task
from goldless.runs.opening import Part
from goldless.runs.options import DEFAULT_METRICS, Options, check_options, check_review_options
from goldless.runs.peer_ring import DRAWN_PEERS, FEWEST_AGENTS, in_both, ring_pairing
from goldless.runs.recorded import check_wins, read_recorded, recorded_rewrites
from goldless.runs.review_evidence import People, named_reviewers, review_parts, what_people_said
from goldless.scoring import Question, WorkedExample
from goldless.statistics.answering import Until, only_question, parse_question
from goldless.statistics.bootstrap import Draws
from goldless.statistics.comparisons import Comparison
from goldless.statistics.deciding import least_tasks
from goldless.studies import Study
from goldless.templates import SYNOPSIS_PROMPTS, Template

SCORER = "scorer"
"""The part of the model that gives log-probabilities."""
SYNOPSIS_WRITER = "synopsis writer"
GROWTH = 1.2
"""Factor by which one more round increases the tasks: looking is free, and so are few rounds."""
ALL_PEERS = "all"
"""In place of names: all agents are peers, also for metrics that draw some by themselves."""
LONGEST_PROMPT = 6_000
"""Characters of a prompt that the default metrics condition on: every longer one would cost more than the responses."""
Texts = Mapping[tuple[str, str], str | CallFailure]
"""By task and agent."""


@dataclass(frozen=True)
class Preprocessor:
    """Rewrites of all responses, made by one rewriter with one template."""

    template: str | None
    """Name of the template; None: recorded, and valid for any."""
    table: pl.DataFrame
    """Columns of ``evidence.REWRITES``."""

    @property
    def name(self) -> str:
        return "+".join(sorted(self.table["rewriter"].unique()))

    def texts(self) -> dict[tuple[str, str], str | CallFailure]:
        """The rewrites, or why one is missing."""
        columns = ("task", "agent", "text", "failure", "failure_message")
        return {
            (task, agent): text or CallFailure(failure or "not_recorded", said or "")
            for task, agent, text, failure, said in self.table.select(columns).iter_rows()
        }


def recorded_preprocessors(study: Study) -> list[Preprocessor]:
    """The study's rewrites by rewriter and template; the last rewrite of a response is used."""
    rewrites = recorded_rewrites(study)
    groups = rewrites.partition_by("rewriter", "template", maintain_order=True) if len(rewrites) else []
    return [
        Preprocessor(rows["template"][0], rows.unique(("task", "agent"), keep="last", maintain_order=True))
        for rows in groups
    ]


@dataclass(frozen=True)
class WorkedExamples:
    """The other tasks that a juror is shown before it predicts a response, and who informs about whom."""

    study: Study
    number: int
    """Number shown; fewer where the agent answered fewer other tasks."""
    roles: Roles
    others: Callable[[str], Iterable[str]]
    """For a task, those that examples are taken from, in order."""
    left_out: Collection[str] = ()
    """Agents that are not predicted."""

    def of(
        self, task: str, asked: Sequence[Question], every: Texts
    ) -> tuple[list[Question], dict[str, list[WorkedExample]], dict[Any, str | CallFailure]]:
        """The questions in which one agent's first sample informs about another's second, or about no one's.

        And the examples by the agent that is predicted, the first other tasks in order that it answered; and of all
        texts, those that the examples show.
        """
        predicted, informants = self.roles.examples.keys() - set(self.left_out), self.roles.informants
        informed = {q.target for q in asked if q.target in predicted and q.given in informants}
        kept = [q for q in asked if q.target in informed and (q.given is None or q.given in informants)]
        shown = {}
        for target in dict.fromkeys(question.target for question in kept):
            first = self.roles.examples[target]
            there = (other for other in self.others(task) if self.study.response(other, first) is not None)
            shown[target] = [WorkedExample(self.study.task(t), first) for t in itertools.islice(there, self.number)]
        tasks = {example.task.task for mine in shown.values() for example in mine}
        texts = {key: every[key] for one in tasks for name in informants if (key := (one, name)) in every}
        return kept, shown, texts


@dataclass(frozen=True)
class Need:
    """The needs of all metrics together in one way of asking."""

    template: Template
    preprocessor: Preprocessor | None
    examples: WorkedExamples | None
    """The worked examples that are shown first."""
    wanted: list[LogprobNeed] = field(default_factory=list)
    """The needs of each metric."""

    def any(self, *flags: str) -> bool:
        """True if a metric needs all of these, such as ``control`` and ``marginals``."""
        return any(all(getattr(one, flag) for flag in flags) for one in self.wanted)

    def of_metrics(self, *, draws_peers: bool) -> Need:
        """The needs of the metrics that draw peers by themselves, or of the others."""
        return replace(self, wanted=[need for need in self.wanted if need.draws_peers == draws_peers])


@dataclass(frozen=True)
class RunPlan:
    """The plan of what metrics or a review need from a study, decided before any model is opened."""

    study: Study
    agents: Study
    """The study with one sample of each agent, which is what is ranked."""
    asked: Options
    """As given, with the default metrics spelled out."""
    options: Options
    """With the peers of each response, where agents have several samples or tasks are asked in rounds."""
    until: Until | None
    """The question that decides how many tasks are asked; None: all are."""
    reviews: bool = False
    """True if it is the plan of a review, whose only evidence is that of reviewers."""
    people: People = People()  # noqa: RUF009 - it is frozen
    """The human labels that a review is held against."""
    metrics: tuple[Metric, ...] = ()
    peers: tuple[str, ...] | None = None
    """Agents used as peers; None: all."""
    drawn_for_all: int | None = None
    """Peers drawn for each response, for every metric; ``options.pairing`` has them. None: they are not drawn."""
    ring: Pairing | None = None
    """Peers drawn for each response, for metrics that draw them by themselves; None: they draw none."""
    questions: tuple[ReviewQuestion, ...] = ()
    """Questions for the critic."""
    shuffles: int = 0
    control: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """The other tasks that task control takes for each response that is predicted, by its task and agent."""
    preprocessors: tuple[Preprocessor, ...] = ()
    """Rewrites recorded in the study."""
    rewriting: bool = False
    """True if a rewriter has to write more."""
    synopses: tuple[str, ...] = ()
    """Synopses that a model has to write."""

    def limited(self, pairing: Pairing) -> RunPlan:
        """The part of this plan that scores these responses; all that was drawn stays as it was drawn."""
        sides = in_both_orders(pairing)
        asked = (question for question in self.questions if (question.task, question.first, question.second) in sides)
        return replace(self, options=replace(self.options, pairing=pairing), questions=tuple(asked))

    def pairing(self, *, ring: bool) -> Pairing | None:
        """The peers of each response, for metrics that draw them by themselves or for others; None: ``peers``."""
        return in_both(self.options.pairing, self.ring) if ring else self.options.pairing

    def drawn_peers(self, metric: Metric) -> int | None:
        """The number of peers drawn for each response of a metric; None: they are not drawn."""
        draws = self.ring is not None and _asked(metric).draws_peers
        return self.options.scoring.drawn_peers if draws else self.drawn_for_all

    @property
    def draws(self) -> Draws:
        return {
            "seed": self.options.statistics.seed,
            "resamples": self.options.statistics.resamples,
            "level": self.options.statistics.level,
        }

    @property
    def names(self) -> dict[str, Sequence[str]]:
        return {"tasks": self.study.tasks, "agents": self.study.agent_list}

    @property
    def likelihood(self) -> tuple[Metric, ...]:
        return tuple(metric for metric in self.metrics if metric.needs.logprobs is not None)

    @property
    def jurors(self) -> dict[str, Any]:
        """The models that predict after worked examples, by the name of their part; empty: no metric needs them."""
        if not any(_asked(metric).worked_examples for metric in self.metrics):
            return {}
        jurors = self.options.scoring.jurors
        return {f"juror {i}": juror for i, juror in enumerate(jurors, 1)} or {SCORER: self.options.scoring.scorer}

    @property
    def critic(self) -> bool:
        return any(metric.needs.verdicts is not None for metric in self.metrics)

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales on which reviewers judge responses."""
        names = dict.fromkeys(metric.needs.judgements for metric in self.metrics)
        if self.reviews:
            names = {self.options.review.scale: None}
        return tuple(find_judge(name) for name in names if name is not None)

    @property
    def needs_peers(self) -> bool:
        """True if responses are compared with each other, beyond what is recorded."""
        called = not self.options.models.recorded
        return any((called and metric.needs.compares_by_model) or metric.needs.peers for metric in self.metrics)

    def parts(self) -> list[Part]:
        """The models that are needed; none where all evidence is recorded."""
        options = self.options
        if options.models.recorded:
            return []
        plain = any(not _asked(metric).worked_examples for metric in self.likelihood)
        scorers = {**({SCORER: options.scoring.scorer} if plain else {}), **self.jurors}
        found = [Part(part, given, "scoring") for part, given in scorers.items()]
        if self.rewriting:
            found += [Part(f"rewriter {i}", given, "chat") for i, given in enumerate(options.scoring.rewriters, 1)]
        if self.synopses:
            found.append(Part(SYNOPSIS_WRITER, options.scoring.synopsis_writer, "chat"))
        if self.critic:
            found.append(
                Part("critic", options.scoring.critic, "chat" if options.models.verdicts == "labels" else "both")
            )
        return found + (review_parts(options) if self.scales else [])

    def by_scorer(self, rewritten: Sequence[Preprocessor]) -> dict[str, dict[Wording, Need]]:
        """The questions to each scorer and juror, by the name of its part; a juror nothing about its own family."""
        options, wanted = self.options, dict[Wording, Need]()
        for metric in self.likelihood:
            one = _asked(metric)
            examples = None
            if one.worked_examples:
                order = example_order((task for task, _ in self.study), one.same, options.statistics.seed)
                examples = WorkedExamples(self.study, options.scoring.examples, Roles.of(self.study.agents), order)
            for template in options.scoring.chosen_templates():
                words = template.with_examples(options.scoring.examples, one.same) if one.worked_examples else template
                usable: Sequence[Preprocessor | None] = [None]
                if one.text == "rewrites" or (one.text == "rewrites if any" and rewritten):
                    # rewrites made with another prompt are used if there are none with this one
                    usable = [p for p in rewritten if p.template in {None, template.name}] or list(rewritten)
                for made in usable:
                    wording = Wording(words.name, None if made is None else made.name, one.synopsis)
                    need = Need(words, made, examples)
                    wanted.setdefault(wording, need).wanted.append(one)
                    if one.source is not None:
                        alone = replace(one, synopsis=one.source, source=None, pairs=False)
                        wanted[wording].wanted.append(replace(alone, synopsis=None))
                        given_source = replace(wording, synopsis=one.source)
                        wanted.setdefault(given_source, Need(words, made, examples)).wanted.append(alone)
        plain = {wording: need for wording, need in wanted.items() if need.examples is None}
        found = {SCORER: plain} if plain else {}
        for part, juror in self.jurors.items():
            left_out = self.study.family(options.scoring.juror_families.get(model_name(juror)))
            for wording, need in wanted.items():
                if need.examples is not None:
                    mine = replace(need, examples=replace(need.examples, left_out=left_out))
                    found.setdefault(part, {})[wording] = mine
        return found


def _asked(metric: Metric) -> LogprobNeed:
    """The log-probabilities that a metric takes; of one that takes none, the least."""
    return metric.needs.logprobs or LogprobNeed()


def _synopses(metric: Metric) -> list[str]:
    """The names of the synopses that a metric takes log-probabilities given."""
    need = _asked(metric)
    return [name for name in (need.synopsis, need.source) if name is not None]


def model_name(given: Any) -> str:
    """The name of a model that is given by a specification, or as an object."""
    return given if isinstance(given, str) else str(given.identity.short)


def with_default_metrics(study: Study, options: Options) -> Options:
    """The options with the default metrics spelled out for a study: those that its recorded evidence allows.

    Given the prompt as well where an agent repeats it.
    """
    if DEFAULT_METRICS not in [name for name in options.scoring.metrics if isinstance(name, str)]:
        return options
    metric = "shared-info"
    if options.models.recorded:
        recorded = RecordedPairs.of(study)
        prompts = recorded.given_prompt
        if not recorded.both_ways:
            metric = "gem-raw+control" if len(read_recorded(study, "control_logprobs")) else "gem-raw"
    else:
        tasks = [task for task, _ in study.with_peers()]
        short = all(0 < len((task.prompt or "").strip()) <= LONGEST_PROMPT for task in tasks)
        prompts = short and repeats_prompts(study.one_sample_each())
    given_prompt = ["shared-info[prompt]"] if prompts else []
    return options.changed(metrics=options.scoring.spelled_metrics((metric, *given_prompt, "length")))


@dataclass(frozen=True)
class RecordedPairs:
    """The pairs that the recorded log-probabilities of a study hold."""

    both_ways: bool
    """True if of any two agents each response is given the other's."""
    given_prompt: bool
    """True if responses are given others' and the prompt."""
    alone_given_prompt: bool
    """True if responses are given the prompt and nothing else."""

    @classmethod
    def of(cls, study: Study) -> RecordedPairs:
        recorded = read_recorded(study, "logprobs").select("target", "given", "synopsis").unique()
        pairs = recorded.filter(pl.col("synopsis").is_null()).select("target", "given").drop_nulls()
        turned = pairs.select(target="given", given="target")
        both_ways = bool(len(pairs)) and pairs.join(turned, on=["target", "given"], how="anti").is_empty()
        prompted = recorded.filter(pl.col("synopsis") == "prompt")["given"]
        alone = prompted.null_count()
        return cls(both_ways, given_prompt=alone < len(prompted), alone_given_prompt=alone > 0)


def of_study_kind(metric: Metric, study: Study, options: Options) -> Metric:
    """The metric that this one is on the study: a default may depend on the kind of task."""
    if not isinstance(metric, LikelihoodMetric) or not metric.of_kind:
        return metric
    of_agents = study.one_sample_each()
    share, repeating = share_with_source(of_agents), agents_repeating_texts(of_agents)
    kind, reason = metric, "the prompts do not hold what the responses are about"
    if share >= ENOUGH_TASKS:
        if options.models.recorded and not RecordedPairs.of(study).alone_given_prompt:
            reason = "the evidence holds no log-probabilities given the prompts alone"
        else:
            kind = metric.of_kind["sources"]
            reason = f"on {share:.0%} of the tasks the prompt holds what the responses are about"
    elif len(repeating) > 1 and (not options.models.recorded or len(read_recorded(study, "control_logprobs"))):
        kind = metric.of_kind["repeated texts"]
        reason = f"{listed(repeating)} give one text to many tasks, so what agents share on other tasks does not count"
    record = truth_record(
        of_agents,
        has_sources=share >= ENOUGH_TASKS,
        uses_grounding=kind is metric.of_kind["sources"],
        repeats_texts=kind is metric.of_kind["repeated texts"],
    )
    return replace(kind, kind_note=f"{metric.name} is {kind.short_for} here: {reason}.", truth_note=record)


def plan_run(study: Study, options: Options) -> RunPlan:
    """Plan a run. Raises if the options exclude each other, or the study does not have what a metric needs."""
    asked = with_default_metrics(study, options)
    metrics = [of_study_kind(metric, study, asked) for metric in check_options(asked)]
    agents = study.one_sample_each()
    asked = with_drawn_peers(study, asked, metrics)
    options, drawn_for_all = peers_drawn_for_all(study, samples_apart(study, asked))
    called = not options.models.recorded and any(metric.needs.compares_by_model for metric in metrics)
    _check_metrics(study, options, metrics, called=called)
    names = agents.agent_list
    if options.comparison.compare_groups is not None:
        group_members(agents, options.comparison.compare_groups)
    if options.comparison.baseline is not None:
        check_known([options.comparison.baseline], names, "--baseline must be an agent of the study, got", "Agents")
    until = _until(options, names)
    _warn_of_unused(options, metrics)
    peers = _named_peers(study.agent_list, options)
    questions, shuffles = _critic_work(study, options, peers, metrics)
    known, rewriting = _rewriting(study, metrics, options) if called else ((), False)
    writes = called and options.scoring.synopsis_writer is not None
    written = [name for metric in metrics if writes for name in _synopses(metric)]
    lacking = [
        n for n in written if n in SYNOPSIS_PROMPTS and any(task.synopsis(n) is None for task, _ in study.with_peers())
    ]
    return RunPlan(
        study=study,
        agents=agents,
        asked=asked,
        options=options,
        until=until,
        metrics=tuple(metrics),
        peers=peers,
        drawn_for_all=drawn_for_all,
        ring=_default_ring(study, options),
        questions=questions,
        shuffles=shuffles,
        control=_control(study, options, metrics),
        preprocessors=known,
        rewriting=rewriting,
        synopses=tuple(dict.fromkeys(lacking)),
    )


def plan_review(study: Study, options: Options) -> RunPlan:
    """Plan a review. Raises if the options exclude each other, or an exam needs labels that are not there."""
    check_review_options(options)
    until = _until(options, study.agent_list)
    return RunPlan(study, study, options, options, until, reviews=True, people=what_people_said(study, options))


def _until(options: Options, agents: Sequence[str]) -> Until | None:
    """The question of a run; None: all tasks are asked. Raises if it cannot be asked of these agents."""
    if not options.stopping.until:
        return None
    return Until(
        parse_question(only_question(options.stopping.until), agents), options.stopping.alpha, options.stopping.at_least
    )


# --- what can be known to be wrong -----------------------------------------------------------------------------------


def _check_metrics(study: Study, options: Options, metrics: Sequence[Metric], *, called: bool) -> None:
    """Refuse metrics that the study and the options cannot give; ``called``: models compare its responses."""
    if called:
        _check_peers(study)
    for metric in metrics:
        if metric.needs.extra is not None:
            metric.needs.extra.check(metric.name)
        if metric.needs.judgements is not None:
            _check_reviews(metric, options)
        if not options.models.recorded:
            _check_synopsis(study, metric, options)
        if metric.needs.table is not None:
            check_wins(study, metric.needs.table)
        if metric.needs.labels:
            check_labels(study)
    worked = [metric for metric in metrics if _asked(metric).worked_examples]
    if worked and not options.models.recorded:
        _check_jurors(study, options, worked)


def _check_reviews(metric: Metric, options: Options) -> None:
    """Refuse ratings without reviewers, and a scale that compares two responses."""
    if find_judge(str(metric.needs.judgements)).pairwise:
        single = ", ".join(name for name, scale in JUDGES.items() if not scale.pairwise)
        raise UserError(
            f"{metric.name}: the scale must rate single responses ({single}), got {metric.needs.judgements}. "
            "For comparisons use goldless review"
        )
    if not options.models.recorded and not options.review.reviewers:
        raise UserError(f"{metric.name} needs reviewers. Name one or more chat models with --reviewers")
    taken = {SCORER, "critic", SYNOPSIS_WRITER} & set(named_reviewers(options.review.reviewers))
    if taken:
        raise UserError(f"a reviewer must not be called {min(taken)!r}. Try --reviewers judge={min(taken)}")


def _warn_of_unused(options: Options, metrics: Sequence[Metric]) -> None:
    """Warn about options that no requested metric uses."""
    critic, needs = any(metric.needs.verdicts is not None for metric in metrics), list(map(_asked, metrics))
    unused = {
        "--rewriter": options.scoring.rewriters and all(need.text == "responses" for need in needs),
        "[writer=MODEL]": options.scoring.synopsis_writer
        and all(need.synopsis not in SYNOPSIS_PROMPTS for need in needs),
        "--critic": options.scoring.critic != "embedded" and not critic and not options.models.recorded,
        "[calls=N]": options.scoring.budget_calls and not critic,
        "--reviewers": options.review.reviewers and not any(metric.needs.judgements for metric in metrics),
        "[control=N]": options.scoring.control_tasks != Options().scoring.control_tasks
        and not any(n.control for n in needs),
    }
    for option in [name for name, is_unused in unused.items() if is_unused]:
        warnings.warn(f"{option} is not used by {', '.join(metric.name for metric in metrics)}", stacklevel=2)


def _check_jurors(study: Study, options: Options, worked: Sequence[Metric]) -> None:
    """Refuse a family of no juror, and say who is predicted by the very response that informs."""
    names = list(map(model_name, options.scoring.jurors or (options.scoring.scorer,)))
    check_known(options.scoring.juror_families, names, "peer-prediction[family=JUROR=FAMILY]: no juror", "Jurors")
    if len(set(names)) < len(names):
        raise UserError(f"jurors of peer-prediction must be different models, got {', '.join(names)}")
    for metric in worked:
        if _asked(metric).same is not None:
            example_order((task for task, _ in study), _asked(metric).same, options.statistics.seed)
    roles = Roles.of(study.agents)
    if single := roles.single:
        who = "every agent" if len(single) == len(roles.examples) else ", ".join(single)
        options.say(
            f"{worked[0].name}: {who} has one response to a task, which informs about others and is predicted from "
            "theirs. With a second, independent response (column sample) the first informs and the second is predicted"
        )


def _check_peers(study: Study) -> None:
    advice = "Add a table of responses, such as responses.csv with the columns task, agent and text"
    if any(table in study.recorded for table in ("logprobs", "verdicts", "critic_contrasts")):
        advice = "It has recorded evidence; add --recorded to use it without calling models"
    if study.n_responses == 0:
        raise MetricError(f"{study.name}: the study has no responses, so there is nothing to score. {advice}")
    answered = study.agent_list
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


def _check_synopsis(study: Study, metric: Metric, options: Options) -> None:
    """Refuse a synopsis that no task has and no model writes."""
    for name in _synopses(metric):
        if any(task.synopsis(name) for task, _ in study):
            continue
        if name in SYNOPSIS_PROMPTS and options.scoring.synopsis_writer is not None:
            continue
        can = f". A model can write it: gem-s[{name},writer=MODEL]" * (name in SYNOPSIS_PROMPTS)
        raise MetricError(
            f"{metric.name}: no task has a synopsis {name!r} (a column synopsis_{name} or {name} of the tasks table)"
            f"{suggested(name, study.synopses, 'Known synopses')}{can}"
        )


# --- who is compared with whom -------------------------------------------------------------------------------------


def samples_apart(study: Study, options: Options) -> Options:
    """The options with a pairing in which no response has a sample of its own agent as a peer, unless asked for."""
    if not study.samples or options.pairing is not None or options.models.recorded:
        return options
    if options.scoring.budget_calls is not None:
        raise UserError("tvd-mi[calls=N] must be left out where agents have several samples. Try --peers N")
    of = {agent.agent: agent.sample_of or agent.agent for agent in study.agents}
    agents = list(dict.fromkeys(of.values()))
    peers = _named_peers(agents, options) or agents
    pairing = {}
    for task, responses in study:
        there = [response.agent for response in responses]
        for agent in there:
            others = [peer for peer in there if peer != agent and of[peer] in peers]
            pairing[task.task, agent] = [p for p in others if options.scoring.own_samples or of[p] != of[agent]]
    told = {
        "samples": "averaged,own-as-peers" if options.scoring.own_samples else "averaged",
        "peers": "all" if len(peers) == len(agents) else "+".join(sorted(peers)),
    }
    drawn = options.scoring.peers if isinstance(options.scoring.peers, int) else None
    return options.changed(pairing=pairing, peers=drawn, signature_settings={**options.signature_settings, **told})


def group_members(study: Study, groups: tuple[str, str]) -> tuple[list[int], list[int]]:
    """Indices of the agents in each of two groups. Raises if a group is empty."""
    known = sorted({agent.group for agent in study.agents if agent.group is not None})
    check_known(groups, known, f"no agent of {study.name} is in the group", "Groups in the agents table")
    first, second = ([j for j, agent in enumerate(study.agents) if agent.group == group] for group in groups)
    return first, second


def _named_peers(agents: Sequence[str], options: Options) -> tuple[str, ...] | None:
    """The agents that are named as peers; None: all."""
    named = options.scoring.peers
    if named is None or isinstance(named, int) or _means_all(named, agents):
        return None
    check_known(named, agents, "--peers must be agents of the study, got", "Agents")
    if not named:
        raise UserError("--peers must name at least one agent. Leave it out to use all agents")
    return tuple(name for name in agents if name in named)


def _means_all(named: Sequence[str], agents: Sequence[str]) -> bool:
    """True for ``--peers all`` where no agent has that name."""
    return list(named) == [ALL_PEERS] and ALL_PEERS not in agents


def with_drawn_peers(study: Study, options: Options, metrics: Sequence[Metric]) -> Options:
    """The options with the number of peers that metrics draw by themselves where there are many agents.

    Recorded evidence is used as it is: what has been paid for is not left out.
    """
    agents = {study.samples.get(r.agent, r.agent) for _, responses in study.with_peers() for r in responses}
    drawn = options.scoring.drawn_peers
    chosen = options.models.recorded or options.pairing is not None or options.scoring.peers is not None
    if drawn is None and not chosen and len(agents) >= FEWEST_AGENTS:
        drawn = DRAWN_PEERS
    if not any(_asked(metric).draws_peers for metric in metrics) or (drawn is not None and drawn >= len(agents) - 1):
        drawn = None
    return options.changed(drawn_peers=drawn)


def _default_ring(study: Study, options: Options) -> Pairing | None:
    drawn = options.scoring.drawn_peers
    return None if drawn is None else ring_pairing(study, drawn, options.statistics.seed)


def peers_drawn_for_all(study: Study, options: Options) -> tuple[Options, int | None]:
    """The options with the peers of each response where a number of them is to be drawn, and that number."""
    if not isinstance(options.scoring.peers, int):
        return options, None
    drawn, agents = options.scoring.peers, study.one_sample_each().agent_list
    if str(drawn) in agents:
        warnings.warn(f"{drawn} peers are drawn; --peers '{drawn},' names an agent", stacklevel=2)
    options = options.changed(peers=None)
    if drawn >= len(agents) - 1:
        return options, None
    pairing = in_both(options.pairing, ring_pairing(study, drawn, options.statistics.seed))
    return options.changed(pairing=pairing), drawn


def _critic_work(
    study: Study, options: Options, peers: tuple[str, ...] | None, metrics: Sequence[Metric]
) -> tuple[tuple[ReviewQuestion, ...], int]:
    """The questions for the critic, and the number of shuffles per matched pair."""
    if options.models.recorded or not any(metric.needs.verdicts is not None for metric in metrics):
        return (), 0
    answered = {task.task: [r.agent for r in responses] for task, responses in study.with_peers()}
    most = max(1, len(answered) - 1)
    shuffles = min(options.scoring.shuffles or max(1, critic_work.default_shuffles(len(answered))), most)
    only = None
    if options.pairing is not None:
        only, peers = in_both_orders(options.pairing), None
    elif options.scoring.budget_calls is not None:
        agents = list(dict.fromkeys(name for names in answered.values() for name in names))
        design = critic_work.choose_design(
            len(answered), len(agents), budget_calls=options.scoring.budget_calls, shuffles=options.scoring.shuffles
        )
        shuffles = min(design.shuffles, most)
        chosen = critic_work.chosen_pairs(list(answered), agents, design, seed=options.statistics.seed)
        only, peers = {(task, *pair) for task, pairs in chosen.items() for pair in pairs}, None
    asked = critic_work.critic_questions(
        answered, shuffles=shuffles, seed=options.statistics.seed, panel=peers, only=only
    )
    if not asked:
        raise MetricError(
            f"{study.name}: no two agents have two tasks in common, so there are no shuffled pairs to compare matched "
            "ones with. TVD-MI needs at least 2 common tasks"
        )
    return tuple(asked), shuffles


def _control(study: Study, options: Options, metrics: Sequence[Metric]) -> dict[tuple[str, str], Sequence[str]]:
    """The other tasks for each response, by derangements of the tasks that its agent answered.

    An agent's draw depends on the seed, its name and its tasks alone: another agent in the study changes none, and all
    who are compared with it are compared on the same other tasks.
    """
    controlled = [metric for metric in metrics if _asked(metric).control]
    if options.models.recorded or not controlled:
        return {}
    tasks_of: dict[str, list[str]] = {}
    for task, responses in study.with_peers():
        for response in responses:
            tasks_of.setdefault(response.agent, []).append(task.task)
    most = max(map(len, tasks_of.values())) - 1
    if most < 1:
        raise MetricError(
            f"{controlled[0].name} needs at least 2 tasks that two agents answered, got 1: it takes off what responses "
            f"share on other tasks. Try {getattr(controlled[0], 'without_control', 'one without +control')}"
        )
    if most < options.scoring.control_tasks:
        warnings.warn(
            f"{options.scoring.control_tasks} control tasks: no response has more than {most} other "
            f"task{'s' * (most > 1)}, so {most} {'is' if most == 1 else 'are'} used",
            stacklevel=2,
        )
    return {
        (task, agent): tuple(others)
        for agent, tasks in tasks_of.items()
        for task, others in critic_work.other_tasks(
            tasks, options.scoring.control_tasks, content_hash("control", options.statistics.seed, agent)
        ).items()
    }


def _rewriting(study: Study, metrics: Sequence[Metric], options: Options) -> tuple[tuple[Preprocessor, ...], bool]:
    """The recorded rewrites, and whether more are needed."""
    wanted = [metric for metric in metrics if _asked(metric).text != "responses"]
    if not wanted:
        return (), False
    recorded = tuple(recorded_preprocessors(study))
    every = {(r.task, r.agent) for _, responses in study.with_peers() for r in responses}
    lacking = sum(len(every - set(p.table.select("task", "agent").iter_rows())) for p in recorded)
    several = len(options.scoring.rewriters) > 1
    if options.scoring.rewriters and (not recorded or lacking or several):
        # several rewriters are compared with each other, so each makes its own
        return (() if several else recorded), True
    # a default that conditions on the prompt is about the responses as they are
    styled = [m.name for m in wanted if not _asked(m).control and not getattr(m, "short_for", "")]
    if not recorded and any(_asked(metric).text == "rewrites" for metric in wanted):
        raise MetricError("gem rewrites responses first. Choose a chat model with --rewriter, or use gem-raw")
    if lacking:
        warnings.warn(
            f"{lacking} responses have no recorded rewrite and count as missing. Choose a rewriter with --rewriter",
            stacklevel=2,
        )
    elif not recorded and styled:
        warnings.warn(
            f"{styled[0]}: there is no rewriter, so the original responses are scored, including their style",
            stacklevel=2,
        )
    return recorded, False


# --- rounds: tasks in a random order that the seed fixes, some more each time, until a question is decided ----------


class Rounds:
    """The responses that are scored so far, by task and agent, with the peers of each."""

    def __init__(self, plan: RunPlan, until: Until) -> None:
        study, options = plan.study, plan.options
        agents = study.agent_list
        # recorded evidence may be of any agent on any task
        given = {task.task: agents if options.models.recorded else [r.agent for r in rs] for task, rs in study}
        # by hash, so that a further task changes the order of no other two
        order = sorted(given, key=lambda task: content_hash("until", options.statistics.seed, task))
        self.until, self.samples = until, study.samples
        self.agents = list(dict.fromkeys(self.samples.get(agent, agent) for agent in agents))
        self.answered = {task: given[task] for task in order if len(given[task]) > 1}
        self.pairing: dict[tuple[str, str], tuple[str, ...]] = {}
        self.tasks = 0
        self.comparisons: Sequence[Comparison] = ()
        self.stopped: Reason | None = None
        self._plan = plan

    def _peers_of(self, task: str, agent: str) -> tuple[str, ...]:
        pairing, peers = self._plan.options.pairing, self._plan.peers
        if pairing is not None:
            return tuple(pairing.get((task, agent), ()))
        return tuple(name for name in self.answered[task] if name != agent and (peers is None or name in peers))

    def pairings(self) -> Iterator[dict[tuple[str, str], tuple[str, ...]]]:
        """The peers to score with in each round, by task and agent, until a look at the scores says to stop."""
        first = least_tasks(self.until.alpha / self.until.question.tests(len(self.agents)), self.until.at_least)
        while self.stopped is None:
            more = max(first, math.ceil(self.tasks * GROWTH)) - self.tasks
            # for the agents that are still open; all others stay their peers
            open_ = set(self.until.open(self.agents, self.comparisons))
            for task in list(self.answered)[self.tasks : self.tasks + more]:
                mine = [agent for agent in self.answered[task] if self.samples.get(agent, agent) in open_]
                self.pairing |= {(task, agent): self._peers_of(task, agent) for agent in mine}
            self.tasks = min(len(self.answered), self.tasks + more)
            yield dict(self.pairing)

    def look(self, comparisons: Sequence[Comparison], *, over_budget: bool) -> None:
        """Take note of the comparisons so far, and whether to stop."""
        self.comparisons = comparisons
        if not self.until.open(self.agents, comparisons):
            self.stopped = "decided"
        elif over_budget:
            self.stopped = "budget"
        elif self.tasks == len(self.answered):
            self.stopped = "all tasks"

    @property
    def answer(self) -> str:
        """The answer known so far."""
        return f"{self.tasks} of {len(self.answered)} tasks: {self.until.answer(self.agents, self.comparisons)}"

    def scored(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of responses that are scored, by their columns task and agent."""
        keys = pl.DataFrame(list(self.pairing), schema=dict.fromkeys(("task", "agent"), pl.String), orient="row")
        text = [pl.col(name).cast(pl.String) for name in ("task", "agent")]
        return rows.join(keys, left_on=text, right_on=["task", "agent"], how="semi", maintain_order="left")

    def result(self, by: str, spending: Sequence[Spending]) -> Stopped:
        """Where the run stopped."""
        asked = Counter(agent for _, agent in {(task, self.samples.get(one, one)) for task, one in self.pairing})
        return Stopped(
            question=self.until.question.text,
            alpha=self.until.alpha,
            at_least=self.until.at_least,
            by=by,
            tasks=self.tasks,
            tasks_there=len(self.answered),
            reason=self.stopped or "all tasks",
            answer=self.until.answer(self.agents, self.comparisons),
            open=tuple(self.until.open(self.agents, self.comparisons)),
            tasks_of={agent: asked[agent] for agent in self.agents},
            comparisons=tuple(self.until.matter(self.agents, self.comparisons)),
            usd_per_task=usd_per_task(spending, self.tasks),
        )
