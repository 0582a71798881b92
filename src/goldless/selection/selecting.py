"""Selecting: the best response to each task of a study, with more samples from a model where it is undecided."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from goldless.errors import MetricError, UserError
from goldless.evidence import OPEN_KINDS
from goldless.metrics.likelihood import CONTROL
from goldless.reports.document import HERE_ONLY, write
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.evaluation import MetricScores
from goldless.runs.opening import Part, Spending, open_journal, open_models, refuse_without_chat
from goldless.runs.options import DEFAULT_METRICS, Options, check_options
from goldless.runs.pipeline import score_study
from goldless.runs.rounds import GROWTH
from goldless.selection.choosing import Choice, Rule, choose
from goldless.selection.samples import Samples, Sampling
from goldless.signature import Signature
from goldless.statistics.deciding import ANYTIME, Tolerance, least_tasks
from goldless.studies import Study

TOLERANCE = "1sd"
COLUMNS = (
    Column("task", "task", "name"),
    Column("chosen", "chosen", "name"),
    Column("score", "score", "number", decimals=2),
    Column("runner_up", "runner-up", "name"),
    Column("margin", "margin", "signed", decimals=2),
    Column("low high", "interval", "signed interval", decimals=2),
    Column("peers", "peers", "count"),
    Column("decided", "decided"),
    Column("samples", "samples", "count"),
    Column("missing", "missing", "count"),
    Column("text", "text", wide=True),
)


@dataclass(frozen=True, slots=True)
class Selection:
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
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)
    KEYS = ("study", "metric", "unit", "decided", "sampled", "choices", "missing:failures", "signature")

    @property
    def open(self) -> int:
        return sum(count for kind, count in self.failures.items() if kind in OPEN_KINDS)

    @property
    def decided(self) -> int:
        return sum(choice.decided for choice in self.choices)

    def texts(self) -> dict[str, str]:
        return {choice.task: choice.text for choice in self.choices if choice.text is not None}

    def rows(self) -> list[dict[str, Any]]:
        return [write(choice) for choice in self.choices]

    def table(self) -> ReportTable:
        rows = tuple({**row, "decided": "yes" if row["decided"] else "no"} for row in self.rows())
        notes = [f"{self.decided} of {len(rows)} choices are decided; the others are the best so far."]
        if self.failures:
            lost = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items()))
            notes.append(f"Missing: {lost}.")
        return ReportTable(f"Chosen by {self.metric} ({self.unit})", COLUMNS, rows, self.signature, tuple(notes))


async def select_responses(
    study: Study, options: Options, *, tolerance: str | float = TOLERANCE, sampling: Sampling | None = None
) -> Selection:
    """Choose the most informative response to each task among all of its responses, whoever gave them.

    Every response is scored with all others as peers. With ``sampling``, a model is asked for more samples of the tasks
    that are not decided yet.
    """
    allowed = Tolerance.parse(tolerance)
    tasks = study.n_tasks_with_peers if sampling is None else len(study.tasks)
    options = replace(options, metrics=_metric(options, tasks), own_samples=True)
    if tasks > 1 and CONTROL in str(options.metrics[0]):
        options = replace(options, control_tasks=min(options.control_tasks, tasks - 1))
    _check(study, options, sampling)
    samples = Samples.of(study)
    if sampling is None:
        return await _selected(samples, study, options, Rule(options.alpha, options.at_least, allowed))
    rule = Rule(options.alpha, options.at_least, allowed, ANYTIME, sampling.most)
    async with (
        open_journal(options.journal, options.occasion) as journal,
        open_models([Part("writer", sampling.writer, "chat")], options, journal) as models,
    ):
        refuse_without_chat(models["writer"], "give samples")
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


def _metric(options: Options, tasks: int) -> tuple[Any, ...]:
    """The metric as named; the default one has task control where there are other tasks."""
    if list(options.metrics) != [DEFAULT_METRICS]:
        return tuple(options.metrics)
    return ("gem-raw+control" if tasks > 1 else "gem-raw",)


def _check(study: Study, options: Options, sampling: Sampling | None) -> None:
    metrics = check_options(options)
    if len(metrics) != 1:
        raise UserError(f"select chooses by one metric, got {', '.join(m.name for m in metrics)}. Name one")
    need = metrics[0].needs
    if not (need.compares or need.peers) or (need.logprobs is not None and need.logprobs.worked_examples):
        raise MetricError(
            f"{metrics[0].name} does not compare each response with all others, so it cannot select. Try "
            "gem-raw+control, gem-s[prompt]+control, tvd-mi or rouge-l"
        )
    if sampling is None:
        if not options.recorded and not study.n_tasks_with_peers:
            raise UserError(
                f"{study.name}: no task has two responses to choose from. Add samples, or name a model that gives them "
                "with --sampler"
            )
        return
    if options.recorded:
        raise UserError("--sampler asks a model for samples, which have no recorded evidence. Leave out --recorded")
    if sampling.most < 3:
        raise UserError(f"--most must be at least 3, so that two samples have a common peer, got {sampling.most}")
    lacking = [task.task for task, _ in study if not (task.prompt or "").strip()]
    if lacking:
        some = ", ".join(lacking[:5]) + f" and {len(lacking) - 5} more" * (len(lacking) > 5)
        raise UserError(f"a model is asked with the task's prompt, but {some} has none. Add a column prompt")


async def _selected(samples: Samples, study: Study, options: Options, rule: Rule) -> Selection:
    """Score all samples that there are, and choose."""
    if options.recorded:
        scored = await score_study(study, options)
    else:
        scored = await score_study(samples.study(), replace(options, pairing=samples.pairing()))
    (found,) = scored.scores.values()
    by_task = _scores(found)
    failures = scored.evidence.failures + samples.failures_by_kind
    return Selection(
        study=study.name,
        metric=found.metric.name,
        unit=found.metric.unit,
        choices=tuple(
            choose(
                task,
                {**_unknown(by_task.get(task, {})), **texts},
                by_task.get(task, {}),
                rule,
                failed=len(samples.failures.get(task, ())),
            )
            for task, texts in samples.texts.items()
        ),
        signature=_signature(found, rule),
        sampled=samples.asked,
        failures={str(kind): count for kind, count in failures.items()},
        spending=scored.spending,
    )


def _scores(found: MetricScores) -> dict[str, dict[tuple[str, str], float]]:
    """By task, the scores of responses with each peer that are not missing."""
    by_peer = found.scores.pairs if found.scores.by_peer is None else found.scores.by_peer
    by_task: dict[str, dict[tuple[str, str], float]] = {}
    for task, agent, peer, score in by_peer.select("task", "agent", "peer", "score").iter_rows():
        if score is not None:
            by_task.setdefault(str(task), {})[str(agent), str(peer)] = score
    return by_task


def _unknown(scores: Mapping[tuple[str, str], float]) -> dict[str, None]:
    """The responses that evidence is recorded of, in a study that may not have their texts."""
    return dict.fromkeys(agent for agent, _ in scores)


def _signature(found: MetricScores, rule: Rule) -> str:
    """How the metric's numbers were made, and when a choice is decided."""
    ours = {"interval", "test", "resamples", "missing"}
    settings = {key: value for key, value in found.signature.settings.items() if key not in ours}
    limits = f"alpha={rule.alpha:g},at-least={rule.at_least},tolerance={rule.tolerance}"
    settings["decided"] = f"{rule.bound.name.replace(' ', '-')}({limits})"
    return str(Signature(f"select[{found.metric.name}]", settings))
