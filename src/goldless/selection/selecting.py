"""Selecting: the best response to each task of a study, with more samples from a model where it is undecided.

The unit is the peer. Two candidates are compared by the differences of their scores with the same peers, which are
further samples of the same source: the question is which of the two says more about one more sample. A wrong choice
needs a false claim against the best candidate, of which there is one per rival, so alpha is divided by their number.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from goldless.arrays import FloatArray
from goldless.concurrency import side_by_side
from goldless.errors import MetricError, UserError, listed
from goldless.evidence import OPEN_KINDS
from goldless.metrics.likelihood import CONTROL
from goldless.metrics.metric import Pairing, bounds_of
from goldless.models.interface import ChatRequest, Message, unusable
from goldless.records import CallFailure, Response, Task
from goldless.reports.document import InMemory, Result, cells, written_property
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import OpenModel, Part, Spending, open_journal, open_models
from goldless.runs.options import DEFAULT_METRICS, Options, check_options
from goldless.runs.pipeline import score_study
from goldless.runs.plan import GROWTH
from goldless.signature import Signature
from goldless.statistics.additive import adjusted_for_peers
from goldless.statistics.bootstrap import ABSENT, Estimate
from goldless.statistics.deciding import ANYTIME, AT_LEAST, FIXED_SAMPLE, Bound, Tolerance, least_tasks, radius
from goldless.studies import Study, study_from_records

TOLERANCE = "1sd"


# --- the choice of one task -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """The rule by which a choice is decided."""

    alpha: float = 0.05
    """Probability of a wrong choice on a task that is called decided."""
    at_least: int = AT_LEAST
    """Common peers before anything is decided."""
    tolerance: Tolerance = field(default_factory=lambda: Tolerance(1.0, in_sd=True))
    """A rival that is better by no more than this does not matter."""
    bound: Bound = FIXED_SAMPLE
    """The kind of interval: for a number of samples that was fixed beforehand, or valid whenever one stops."""
    most: int | None = None
    """The number of samples that there can be; None: those that are there."""
    widest: float = math.inf
    """The largest difference that two scores of the metric can have."""

    def for_each(self, candidates: int) -> float:
        """Alpha of one comparison."""
        return self.alpha / max(1, (self.most or candidates) - 1)


@dataclass(frozen=True)
class Choice:
    """The chosen response to a task."""

    task: str
    chosen: str | None
    """Whose response it is; None: no response has a score."""
    text: str | None
    score: float | None
    runner_up: str | None
    """The best rival with another text; None: there is none."""
    margin: Estimate
    """By how much the chosen one is better than the runner-up, over their common peers; corrected for all rivals."""
    decided: bool
    samples: int
    """Responses that there are."""
    missing: int = 0
    """Of these, the ones without a score, and samples that a model failed to give."""


def choose(
    task: str, texts: Mapping[str, str | None], scores: Mapping[tuple[str, str], float], rule: Rule, *, failed: int = 0
) -> Choice:
    """The best of these responses; ``scores``: of a response with a peer, where there is one.

    Of equal ones the first. Responses with the same text are not rivals; None: the text is not known.
    """
    names = list(texts)
    table = np.full((len(names), len(names)), np.nan)
    place = {name: i for i, name in enumerate(names)}
    for (agent, peer), score in scores.items():
        if agent in place and peer in place and agent != peer:
            table[place[agent], place[peer]] = score
    scored = ~np.isnan(table).all(axis=1) if len(names) > 1 else np.zeros(len(names), np.bool_)
    missing = int((~scored).sum()) + failed
    if not scored.any():
        same = len(set(texts.values())) == 1 and None not in texts.values()
        chosen = names[0] if same else None
        text = None if chosen is None else texts[chosen]
        return Choice(task, chosen, text, None, None, ABSENT, same, len(names), missing)
    means = np.full(len(names), -np.inf)
    rows, columns = np.nonzero(~np.isnan(table))
    means[rows] = adjusted_for_peers(np.zeros_like(rows), rows, columns, table[rows, columns])
    best = int(means.argmax())
    mine = texts[names[best]]
    rivals = [i for i, name in enumerate(names) if i != best and (mine is None or texts[name] != mine)]
    found = {i: _compared(table, means, best, i, rule) for i in rivals}
    tolerance = rule.tolerance.of(means[scored])
    decided = all(one.low is not None and one.low > -tolerance for one in found.values())
    second = max((i for i in rivals if scored[i]), key=lambda i: means[i], default=None)
    margin = ABSENT if second is None else found[second]
    enough = margin.n >= least_tasks(rule.for_each(len(names)), rule.at_least) or not rivals
    return Choice(
        task=task,
        chosen=names[best],
        text=mine,
        score=float(means[best]),
        runner_up=None if second is None else names[second],
        margin=margin,
        decided=decided and enough,
        samples=len(names),
        missing=missing,
    )


def _compared(table: FloatArray, means: FloatArray, first: int, second: int, rule: Rule) -> Estimate:
    """The difference of two scores, its interval by the differences with common peers."""
    differences = table[first] - table[second]
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if not n:
        return ABSENT
    mean = float(means[first] - means[second])
    if n < 2:
        return Estimate(mean, None, None, n)
    alpha = rule.for_each(len(table))
    around = float(radius(float(n), float(differences.std(ddof=1)), alpha=alpha, bound=rule.bound))
    return Estimate(mean, max(mean - around, -rule.widest), min(mean + around, rule.widest), n, level=1 - alpha)


# --- samples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """A model to take more samples from, and how."""

    writer: Any
    """A specification, or the model itself."""
    most: int = 24
    """The most samples per task, those that are there included."""
    temperature: float = 1.0
    max_tokens: int = 1024
    system: str = ""
    """A system message; empty: none."""

    def request(self, task: Task, number: int) -> ChatRequest:
        told = (Message("system", self.system),) if self.system else ()
        messages = (*told, Message("user", task.prompt or ""))
        return ChatRequest(messages, max_tokens=self.max_tokens, temperature=self.temperature, seed=number)


def samples_study(cases: Iterable[tuple[str | None, Sequence[str]]]) -> Study:
    """A study of questions with their answers, all by one agent; tasks are numbered from 1."""
    numbered = [(str(number), question, answers) for number, (question, answers) in enumerate(cases, 1)]
    for _, question, answers in numbered:
        if isinstance(answers, str) or not all(isinstance(text, str) for text in answers):
            raise UserError(f"the answers to {question!r} must be a list of strings, got {answers!r}")
    tasks = [Task(task, question) for task, question, _ in numbered]
    responses = [Response(task, str(i), text) for task, _, answers in numbered for i, text in enumerate(answers, 1)]
    return study_from_records(tasks, responses, name="samples")


@dataclass
class Samples:
    """The samples of each task, by name."""

    source: Study
    texts: dict[str, dict[str, str]]
    failures: dict[str, list[CallFailure]] = field(default_factory=dict)
    """Samples that a model failed to give, by task."""
    asked: int = 0

    def study(self) -> Study:
        """A study in which every sample is an agent.

        Where a task has fewer samples than another, some are there twice: only to be another task's response, for task
        control and shuffles; they are in no pairing.
        """
        names = list(dict.fromkeys(name for texts in self.texts.values() for name in texts))
        filled = [
            Response(task, name, text)
            for task, texts in self.texts.items()
            for name, text in ({**dict(zip(names, itertools.cycle(texts.values()))), **texts} if texts else {}).items()
        ]
        tasks = [self.source.task(task) for task in self.texts]
        return study_from_records(tasks, filled, name=self.source.name)

    def pairing(self) -> Pairing:
        """Every sample with all others of its task as peers."""
        return {
            (task, name): [other for other in texts if other != name]
            for task, texts in self.texts.items()
            for name in texts
        }

    async def grow(self, writer: OpenModel, sampling: Sampling, wanted: Mapping[str, int], options: Options) -> None:
        """Ask the writer for samples until each of these tasks has been asked as often as wanted."""
        name = writer.identity.short
        jobs = []
        for task, most in wanted.items():
            # what the writer was asked before; the samples of a file are not its own
            failed, mine = len(self.failures.get(task, ())), sum(one.startswith(f"{name}#") for one in self.texts[task])
            more = most - len(self.texts[task]) - failed
            jobs += [(task, mine + failed + number) for number in range(1, more + 1)]
        done = 0

        async def one(job: tuple[str, int]) -> Any:
            nonlocal done
            task, number = job
            # as its own replicate: the journal keeps samples apart, and returns each when it is asked again
            reply = await writer.replica(number).chat.chat(sampling.request(self.source.task(task), number))
            done += 1
            options.progress(writer.progress("sampling", done, len(jobs)))
            return reply

        replies = await side_by_side(one, jobs, writer.at_once())
        for (task, number), reply in zip(jobs, replies, strict=True):
            lost = unusable(reply, "sample", sampling.max_tokens)
            if lost is None:
                self.texts[task][f"{name}#{number}"] = reply.text
            else:
                self.failures.setdefault(task, []).append(lost)
        self.asked += len(jobs)


@dataclass(frozen=True)
class Selection(Result):
    """The chosen response of every task."""

    study: str
    metric: str
    unit: str
    choices: tuple[Choice, ...]
    signature: str
    sampled: int = 0
    """Samples that were asked of a model."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Missing evidence and samples by cause."""
    spending: InMemory[tuple[Spending, ...]] = ()
    least_peers: InMemory[int] = 0
    """Common peers that a choice needs to be decided."""

    @property
    def open(self) -> int:
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)

    @written_property
    def decided(self) -> int:
        return sum(choice.decided for choice in self.choices)

    def texts(self) -> dict[str, str]:
        return {choice.task: choice.text for choice in self.choices if choice.text is not None}

    def rows(self) -> list[dict[str, Any]]:
        return [cells(choice, "margin", peers=choice.margin.n) for choice in self.choices]

    def tables(self) -> list[ReportTable]:
        return [self.table()]

    def table(self) -> ReportTable:
        rows = tuple({**row, "decided": "yes" if row["decided"] else "no"} for row in self.rows())
        same = len({choice.samples for choice in self.choices}) == 1
        columns = (
            Column("task", "task", "name"),
            Column("chosen", "chosen", "name"),
            Column("score", "score", "number", decimals=2),
            Column("runner_up", "runner-up", "name"),
            Column("margin", "margin", "signed", decimals=2),
            Column("low high", "interval", "signed interval", decimals=2),
            Column("peers", "common peers", "count", data=True),
            Column("decided", "decided"),
            Column("samples", "responses", "count", data=same),
            Column("missing", "missing", "count", data=not any(choice.missing for choice in self.choices)),
            Column("text", "text", wide=True),
        )
        notes = ["margin: the chosen response's score minus the runner-up's, with the same other responses as peers."]
        notes.append(f"{self.decided} of {len(rows)} choices are decided; the others are the best so far.")
        few = sum(not choice.decided and choice.margin.n < self.least_peers for choice in self.choices)
        if few:
            notes.append(
                f"{few} could not be: that takes {self.least_peers} peers in common, so {self.least_peers + 2} "
                "responses to a task."
            )
        if self.failures:
            lost = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items()))
            notes.append(f"Missing: {lost}.")
        title = f"Chosen by {self.metric} ({self.unit})"
        if same:
            title += f", {self.choices[0].samples:,} responses to each task"
        return ReportTable(title, columns, rows, self.signature, tuple(notes))


async def select_responses(
    study: Study, options: Options, *, tolerance: str | float = TOLERANCE, sampling: Sampling | None = None
) -> Selection:
    """Choose the most informative response to each task among all of its responses, whoever gave them.

    Every response is scored with all others as peers. With ``sampling``, a model is asked for more samples of the tasks
    that are not decided yet.
    """
    allowed = Tolerance.parse(tolerance)
    tasks = study.n_tasks_with_peers if sampling is None else len(study.tasks)
    if list(options.scoring.metrics) == [DEFAULT_METRICS]:  # with task control where there are other tasks
        options = options.changed(metrics=("gem-raw+control" if tasks > 1 else "gem-raw",))
    options = options.changed(own_samples=True)
    if tasks > 1 and CONTROL in str(options.scoring.metrics[0]):
        options = options.changed(control_tasks=min(options.scoring.control_tasks, tasks - 1))
    _check(study, options, sampling)
    samples = Samples(study, {task.task: {r.agent: r.text for r in responses} for task, responses in study})
    if sampling is None:
        return await _selected(
            samples, study, options, Rule(options.stopping.alpha, options.stopping.at_least, allowed)
        )
    rule = Rule(options.stopping.alpha, options.stopping.at_least, allowed, ANYTIME, sampling.most)
    async with (
        open_journal(options.models.journal, options.occasion) as journal,
        open_models([Part("writer", sampling.writer, "chat")], options, journal) as models,
    ):
        models["writer"].require_chat("give samples")
        wanted = min(sampling.most, least_tasks(rule.for_each(0), rule.at_least) + 2)
        open_tasks = list(samples.texts)
        while True:
            await samples.grow(models["writer"], sampling, dict.fromkeys(open_tasks, wanted), options)
            found = await _selected(samples, study, options, rule)
            open_tasks = [choice.task for choice in found.choices if not choice.decided]
            options.say(f"{wanted} samples: {found.decided} of {len(found.choices)} tasks are decided")
            if not open_tasks or wanted == sampling.most:
                return replace(found, spending=(models["writer"].spending, *found.spending))
            wanted = min(sampling.most, math.ceil(wanted * GROWTH))


def _check(study: Study, options: Options, sampling: Sampling | None) -> None:
    metrics = check_options(options)
    if len(metrics) != 1:
        raise UserError(f"select chooses by one metric, got {', '.join(m.name for m in metrics)}. Name one")
    need = metrics[0].needs
    if not (need.compares_by_model or need.peers) or (need.logprobs is not None and need.logprobs.worked_examples):
        raise MetricError(
            f"{metrics[0].name} does not compare each response with all others, so it cannot select. Try "
            "gem-raw+control, gem-s[prompt]+control, tvd-mi or rouge-l"
        )
    if sampling is None:
        if not options.models.recorded and not study.n_tasks_with_peers:
            raise UserError(
                f"{study.name}: no task has two responses to choose from. Add samples, or name a model that gives them "
                "with --sampler"
            )
        return
    if options.models.recorded:
        raise UserError("--sampler asks a model for samples, which have no recorded evidence. Leave out --recorded")
    if sampling.most < 3:
        raise UserError(f"--most must be at least 3, so that two samples have a common peer, got {sampling.most}")
    lacking = [task.task for task, _ in study if not (task.prompt or "").strip()]
    if lacking:
        raise UserError(f"a model is asked with the task's prompt, but {listed(lacking)} has none. Add a column prompt")


async def _selected(samples: Samples, study: Study, options: Options, rule: Rule) -> Selection:
    """Score all samples that there are, and choose."""
    if options.models.recorded:
        scored = await score_study(study, options)
    else:
        scored = await score_study(samples.study(), replace(options, pairing=samples.pairing()))
    (found,) = scored.scores.values()
    by_peer = found.pairs if found.by_peer is None else found.by_peer
    by_task: dict[str, dict[tuple[str, str], float]] = {}
    for task, agent, peer, score in by_peer.select("task", "agent", "peer", "score").drop_nulls("score").iter_rows():
        by_task.setdefault(str(task), {})[str(agent), str(peer)] = score
    # how the metric's numbers were made, and when a choice is decided
    ours = {"interval", "test", "resamples", "missing"}
    settings = {key: value for key, value in found.signature.settings.items() if key not in ours}
    limits = f"alpha={rule.alpha:g},at-least={rule.at_least},tolerance={rule.tolerance}"
    settings["decided"] = f"{rule.bound.name.replace(' ', '-')}({limits})"
    failures = scored.evidence.failures + Counter(one.kind for lost in samples.failures.values() for one in lost)
    if bounds := bounds_of(found.metric):
        rule = replace(rule, widest=bounds[1] - bounds[0])
    return Selection(
        study=study.name,
        metric=found.metric.name,
        unit=found.metric.unit,
        choices=tuple(
            choose(
                task,
                # evidence may be recorded of responses whose texts the study does not have
                {**texts, **dict.fromkeys(agent for agent, _ in by_task.get(task, {}) if agent not in texts)},
                by_task.get(task, {}),
                rule,
                failed=len(samples.failures.get(task, ())),
            )
            for task, texts in samples.texts.items()
        ),
        signature=str(Signature(f"select[{found.metric.name}]", settings)),
        sampled=samples.asked,
        failures={str(kind): count for kind, count in failures.items()},
        spending=scored.spending,
        least_peers=rule.at_least,
    )
