"""The crash test: what a metric does when responses lose content, or are only dressed up (GEM, Algorithm 1).

Every response is scored as it is and after each perturbation, against the same peers. A degradation must lower the
score, a manipulation must not raise it. The effect is the standardised mean difference of the paper,
(mean after - mean before) / sqrt((variance before + variance after) / 2), over the samples that have both scores;
tasks are what is independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from goldless.errors import MetricError, UserError
from goldless.evidence import OPEN_KINDS, Evidence
from goldless.meta_evaluation.crash_design import (
    DEFAULT_REFERENCES,
    DEFAULT_RESPONSES,
    Candidates,
    choose_candidates,
    crash_study,
    needed_responses,
)
from goldless.meta_evaluation.crash_ratings import DEFAULT_MARGIN, CrashResult, Rating, crash_results
from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, find_perturbation
from goldless.meta_evaluation.perturbations.open_writer import open_writer
from goldless.meta_evaluation.perturbations.perturbation import Perturbation, PerturbedText, perturb
from goldless.models.interface import ChatModel
from goldless.runs.opening import Spending
from goldless.runs.options import Options, check_options
from goldless.runs.outcomes import MetricScores
from goldless.runs.pipeline import score_study
from goldless.signature import Signature
from goldless.studies import Study


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashOptions:
    """What is done to which responses, beside the options of the metrics."""

    perturbations: Sequence[str] = MODEL_FREE
    agents: Sequence[str] | None = None
    """Whose responses are perturbed; None: everybody's."""
    references: int | Sequence[str] = DEFAULT_REFERENCES
    """How many peers a response is held against, or which agents."""
    responses: int = DEFAULT_RESPONSES
    """Most responses that are perturbed."""
    writer: str | ChatModel | None = None
    """Chat model for the perturbations that need one."""
    margin: float = DEFAULT_MARGIN
    """An effect nearer to 0 than this counts as none."""


@dataclass(frozen=True, slots=True)
class CrashTest:
    """What metrics did under perturbations."""

    source: Study
    """The study that was tested on."""
    results: tuple[CrashResult, ...]
    signatures: Mapping[str, str]
    """By metric."""
    perturbed: tuple[PerturbedText, ...]
    candidates: Candidates
    margin: float
    level: float
    spending: tuple[Spending, ...] = ()
    problems: Mapping[str, int] = field(default_factory=dict)
    """Why texts, evidence or scores are missing, with how often."""
    asked: int = 0
    """Texts and evidence that models were asked for."""
    open: int = 0
    """Of these, missing for a cause that may pass: the same command would try them again."""

    @property
    def study(self) -> str:
        """Name of the study."""
        return self.source.name

    def of(self, metric: str) -> tuple[CrashResult, ...]:
        """The results of one metric."""
        return tuple(result for result in self.results if result.metric == metric)

    @property
    def unscored(self) -> tuple[str, ...]:
        """Metrics that scored none of the changed responses."""
        return tuple(
            metric
            for metric in self.metrics
            if any(one.missing for one in self.of(metric)) and not any(one.samples for one in self.of(metric))
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, in order."""
        return tuple(self.signatures)

    def count(self, metric: str, rating: Rating) -> int:
        """How many perturbations a metric passed, failed, or was not shown to do either."""
        return sum(result.rating == rating for result in self.of(metric))


Perturbed = Mapping[str, tuple[Perturbation, Sequence[PerturbedText]]]
"""By name, each perturbation with what became of the responses."""


async def crash_test(study: Study, options: Options, *, crash: CrashOptions | None = None) -> CrashTest:
    """Score responses before and after perturbations with every metric, and rate what happens."""
    crash = crash or CrashOptions()
    perturbations = _check(options, crash)
    candidates = choose_candidates(
        study, agents=crash.agents, references=crash.references, most=crash.responses, seed=options.seed
    )
    perturbed, writing = await _perturbed(study, candidates, perturbations, options, crash)
    made = crash_study(study, candidates, perturbed)
    scored = await score_study(made.study, replace(options, pairing=made.pairing))
    mine = [
        (perturbation, [text for text in texts if (text.task, text.agent) in candidates.peers])
        for perturbation, texts in perturbed.values()
    ]
    settings = _settings(study, options, crash, candidates, perturbed)
    if writing:
        settings = {"perturbations": settings["perturbations"], "writer": writing[0].model, **settings}
    evidence, written = scored.collected.evidence, _written(perturbed)
    return CrashTest(
        source=study,
        results=tuple(
            result
            for scores in scored.scores.values()
            for result in crash_results(scores, mine, made.copies, options=options, margin=crash.margin)
        ),
        signatures={
            name: str(Signature(f"crash-test[{name}]", {**_metric_settings(scores), **settings}))
            for name, scores in scored.scores.items()
        },
        perturbed=tuple(text for _, texts in perturbed.values() for text in texts),
        candidates=candidates,
        margin=crash.margin,
        level=options.level,
        spending=(*writing, *scored.spending),
        problems=_problems(perturbed, scored.scores, evidence),
        asked=len(written) + evidence.asked,
        open=sum(text.failure is not None and text.failure.kind in OPEN_KINDS for text in written) + evidence.open,
    )


def _written(perturbed: Perturbed) -> list[PerturbedText]:
    """The texts that a writer was asked for."""
    return [text for perturbation, texts in perturbed.values() if perturbation.needs_writer for text in texts]


def _settings(
    study: Study, options: Options, crash: CrashOptions, candidates: Candidates, perturbed: Perturbed
) -> dict[str, str]:
    """What the signatures of all metrics say of the crash test."""
    return {
        "perturbations": "+".join(perturbed),
        "responses": f"{len(candidates.peers)}of{candidates.of}",
        "candidates": "all" if crash.agents is None else "+".join(crash.agents),
        "references": str(crash.references) if isinstance(crash.references, int) else "+".join(crash.references),
        "margin": f"{crash.margin:g}",
        "missing": "left-out",
        "interval": f"tasks-jackknife-t-{options.level:g}",
        "test": "sign-flip-holm",
        "resamples": str(options.resamples),
        "seed": str(options.seed),
        "study": study.fingerprint[:8],
    }


def _metric_settings(scores: MetricScores) -> dict[str, str]:
    """What tells a metric's numbers apart, without what the crash test does in another way than a leaderboard."""
    ours = {"peers", "missing", "interval", "test", "resamples", "seed", "study"}
    return {key: value for key, value in scores.signature.settings.items() if key not in ours}


def _check(options: Options, crash: CrashOptions) -> dict[str, Perturbation]:
    """The perturbations by name. Raises where something cannot be crash-tested."""
    check_options(options)
    if options.recorded:
        raise UserError("a crash test scores changed responses, of which nothing is recorded: leave --recorded out")
    if options.peers is not None or options.panel is not None or options.budget_calls is not None:
        raise UserError("a crash test pairs responses itself: say with --references what they are held against")
    for metric in options.chosen_metrics():
        if metric.needs.labels or metric.needs.table is not None:
            raise MetricError(
                f"{metric.name} is computed from recorded labels or comparisons, of which changed responses have none, "
                "so it cannot be crash-tested"
            )
    if not 0 <= crash.margin < 10:
        raise UserError(f"the margin is a standardised difference such as 0.2, not {crash.margin}")
    found = {name: find_perturbation(name) for name in dict.fromkeys(crash.perturbations)}
    if not found:
        raise UserError("no perturbation was named")
    needing = [name for name, perturbation in found.items() if perturbation.needs_writer]
    if needing and crash.writer is None:
        raise UserError(f"{', '.join(needing)}: written by a chat model; name one with --writer")
    return found


async def _perturbed(
    study: Study,
    candidates: Candidates,
    perturbations: Mapping[str, Perturbation],
    options: Options,
    crash: CrashOptions,
) -> tuple[Perturbed, tuple[Spending, ...]]:
    """The changed texts by perturbation, and what they cost."""
    found: dict[str, tuple[Perturbation, Sequence[PerturbedText]]] = {}
    needed = any(perturbation.needs_writer for perturbation in perturbations.values())
    async with open_writer(crash.writer if needed else None, options, to="perturb responses") as writer:
        for name, perturbation in perturbations.items():
            stage = partial(writer.tell, f"perturbing: {name}")
            texts = await perturb(
                study,
                perturbation,
                responses=needed_responses(study, candidates, perturbation),
                seed=options.seed,
                writer=writer.chat,
                at_once=writer.at_once,
                tell=stage if perturbation.needs_writer else _quiet,
            )
            found[name] = perturbation, texts
        return found, writer.spending


def _quiet(_done: int, _total: int) -> None:
    """Pure perturbations are done before anybody could look."""


def _problems(perturbed: Perturbed, scores: Mapping[str, MetricScores], evidence: Evidence) -> dict[str, int]:
    examples = evidence.examples
    found = {f"{kind}, for example: {examples[kind]}": count for kind, count in sorted(evidence.failures.items())}
    for name, (_, texts) in perturbed.items():
        for text in texts:
            if text.failure is not None:
                key = f"{name}: {text.failure.kind}: {text.failure.message}"
                found[key] = found.get(key, 0) + 1
    for metric, one in scores.items():
        for problem, count in one.problems.items():
            found[f"{metric}: {problem}"] = count
    return found
