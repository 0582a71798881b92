"""The Python entry points: ``goldless.evaluate`` and its siblings, one per command-line verb."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypedDict, TypeVar, Unpack

import anyio

from goldless.comparison.comparing import PairedComparison, compare_runs
from goldless.comparison.gating import Gate, gate_runs
from goldless.exporting.catalogue import export as export_to
from goldless.meta_evaluation.agreement import agree as agree_with_people
from goldless.meta_evaluation.agreement_results import Agreement
from goldless.meta_evaluation.bias import find_bias
from goldless.meta_evaluation.bias_report import BiasReport
from goldless.meta_evaluation.calibration import calibrate as calibrate_to_people
from goldless.meta_evaluation.calibration_results import Calibration
from goldless.meta_evaluation.consistency import Consistency, scorer_consistency
from goldless.meta_evaluation.cost import CostReport, find_costs
from goldless.meta_evaluation.crash_test import DEFAULT_MARGIN, DEFAULT_REFERENCES, DEFAULT_RESPONSES, CrashOptions
from goldless.meta_evaluation.crash_test import crash_test as run_crash_test
from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE
from goldless.meta_evaluation.rating_card import CrashTest
from goldless.meta_evaluation.watching import GUARD, WatchReport
from goldless.meta_evaluation.watching import watch as ask_anchors
from goldless.metrics.information_map import InformationMap
from goldless.models.interface import ChatModel, Scorer
from goldless.rewarding.reward import DEFAULT_METRIC, Missing, Reward
from goldless.runs.estimate import Plan, plan_study
from goldless.runs.evaluation import Evaluation
from goldless.runs.explaining import ExplainOptions, explain_pair
from goldless.runs.option_forms import from_arguments, several
from goldless.runs.options import CALLING, DETECTION, REVIEWING, SCORING, STOPPING, Options
from goldless.runs.pipeline import evaluate_study, review_study
from goldless.runs.progress import Progress
from goldless.runs.review_results import Review
from goldless.runs.store import save_review, save_run
from goldless.selection.samples import Sampling, samples_study
from goldless.selection.selecting import TOLERANCE, Selection, select_responses
from goldless.studies import as_study

RATING = (*SCORING, "reviewers")
"""Scoring with metrics that reviewers may give."""
EVALUATING = (*RATING, STOPPING)
"""The same, asking no more tasks than needed."""
SELECTING = (*SCORING, "alpha", "at_least")
"""Scoring, to choose responses."""
REWARDING = (
    *("metrics", "scorer", "templates", "control_tasks", "seed", "budget_usd", "price", "journal"),
    *CALLING,
)
"""How a scorer is asked for rewards."""
PLANNING = (*RATING, DETECTION, "alpha", "at_least")
"""Scoring, before it is paid for."""

Result = TypeVar("Result")
Model = str | ChatModel


class Arguments(TypedDict, total=False):
    """Arguments that every function takes; ``Options`` declares their meaning, defaults and allowed values."""

    recorded: bool
    verdicts: Literal["auto", "probabilities", "labels"]
    seed: int
    resamples: int
    level: float
    budget_usd: float | None
    price_usd_per_million: tuple[float, float] | None
    batch: bool
    on: str | None
    journal: Path | str | None
    timeout_seconds: float | None
    max_retries: int | None
    max_in_flight: int | None
    progress: Callable[[Progress], None] | None


class Scoring(Arguments, total=False):
    """Arguments of functions that score."""

    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]]
    scorer: str | Scorer
    rewriter: Model | Sequence[Model] | None
    rewrite_max_tokens: int
    synopsis_writer: Model | None
    template: str | Sequence[str]
    peers: str | Sequence[str] | None
    peer_sample: int | None
    control_tasks: int
    own_samples: bool
    juror: str | Scorer | Sequence[str | Scorer]
    juror_families: Mapping[str, str]
    examples: int
    on_too_long: Literal["error", "skip"]
    metric_timeout_seconds: float | None
    critic: Model
    critic_prompt: str
    shuffles: int | None
    budget_calls: int | None
    compare_groups: tuple[str, str] | None
    rater_groups: Mapping[str, str]
    baseline: str | None
    compare: Literal["all", "leader"]
    over_peers: Literal["common", "own"]


class Rating(Scoring, total=False):
    """Arguments of functions whose metrics may be given by reviewers, such as ``review[5-level]``."""

    reviewers: Model | Sequence[Model] | Mapping[str, Model]


class Evaluating(Rating, total=False):
    """Arguments of ``evaluate``, which may stop early."""

    until: str | Sequence[str]
    alpha: float
    at_least: int


class Selecting(Scoring, total=False):
    """Arguments of ``select``."""

    alpha: float
    at_least: int


class Rewarding(TypedDict, total=False):
    """Arguments of ``reward`` that it shares with ``evaluate``."""

    scorer: str | Scorer
    template: str
    control_tasks: int
    seed: int
    budget_usd: float | None
    price_usd_per_million: tuple[float, float] | None
    journal: Path | str | None
    timeout_seconds: float | None
    max_retries: int | None
    max_in_flight: int | None


class Planning(Rating, total=False):
    """Arguments of ``plan``."""

    detect: float | None
    alpha: float
    at_least: int


class Reviewing(Arguments, total=False):
    """Arguments of ``review``."""

    reviewers: Model | Sequence[Model] | Mapping[str, Model]
    scale: str
    orders: Literal["both", "one-random"]
    task_description: str
    descriptions: Mapping[str, str]
    families: Mapping[str, str]
    own_family: bool
    debate: str | None
    fusion: Literal["z", "raw"] | None
    exams: str | Sequence[str]
    thresholds: Mapping[str, float | Literal["mean"] | None]
    sweep: str | Sequence[str | float]
    combination: Literal["all", "any"]
    weighting: Literal["equal", "mean of traits", "trait", "logit"] | None
    weight_from: str | None
    questioners: str | Sequence[str] | None
    overlap: bool
    exam_items: int | None
    relevant: str | None
    irrelevant: str | None
    changer: Model | None
    easy: tuple[str, str] | None
    hard: tuple[str, str] | None
    licences: Path | str | Sequence[Path | str]
    issue_to: Path | str | None
    task_kind: str
    criterion: str | None
    margin: float | None
    convention: Literal["default", "paper", "pre", "auto-pre"]
    until: str | Sequence[str]
    alpha: float
    at_least: int


def evaluate(study: Any, **options: Unpack[Evaluating]) -> Evaluation:
    """Score a study with the metrics and return frozen results.

    - ``study``: a path, a pandas, polars or pyarrow frame with columns task, agent, text, or a Study.
    - ``metrics``: one name or several, such as gem-raw, gem, gem-s[abstract], tvd-mi, mi, bartscore.
    - ``scorer``: a model specification such as ``embedded``, ``gguf:PATH``, ``hf:NAME_OR_PATH``,
      ``http://HOST:PORT/v1#MODEL``, or an object with the Scorer protocol.
    - ``rewriter``: the chat model that preprocesses for gem and gem-s; several are averaged over.
    - ``template``: the prompt wording; several are averaged over.
    - ``recorded``: use only the evidence in the study and call no model.
    - ``journal``: where replies are kept; the user's journal by default, so that nothing is paid for twice.

    The other arguments are the options of ``goldless score``.
    """
    return _run(evaluate_study, study, from_arguments(Options, "evaluate", EVALUATING, options))


def plan(study: Any, **options: Unpack[Planning]) -> Plan:
    """Estimate the calls, tokens, US dollars and seconds of ``evaluate`` with these arguments. Calls no server."""
    return _run(plan_study, study, from_arguments(Options, "plan", PLANNING, options))


def crash_test(
    study: Any,
    *,
    perturbations: str | Sequence[str] = MODEL_FREE,
    agents: str | Sequence[str] | None = None,
    references: int | str | Sequence[str] = DEFAULT_REFERENCES,
    responses: int = DEFAULT_RESPONSES,
    writer: Model | None = None,
    margin: float = DEFAULT_MARGIN,
    **options: Unpack[Rating],
) -> CrashTest:
    """Stress-test metrics: scores should fall where content is lost, and not rise where only the style changes.

    - ``agents``: whose responses are perturbed.
    - ``references``: the number of peers, or the agents, that a response is compared with.
    - ``writer``: a chat model for the perturbations that need one.
    - ``options``: those of ``evaluate``; ``metrics`` is required.
    """
    crash = CrashOptions(
        perturbations=several(perturbations),
        agents=None if agents is None else several(agents),
        references=references if isinstance(references, int) else several(references),
        responses=responses,
        writer=writer,
        margin=margin,
    )
    return _run(partial(run_crash_test, crash=crash), study, from_arguments(Options, "crash_test", RATING, options))


def select(
    study: Any,
    *,
    tolerance: str | float = TOLERANCE,
    sampler: Model | None = None,
    most: int = 24,
    temperature: float = 1.0,
    max_tokens: int = 1024,
    system: str = "",
    **options: Unpack[Selecting],
) -> Selection:
    """Choose the most informative response to each task among all of its responses, and say whether that is decided.

    - ``study``: as in ``evaluate``, or a mapping of questions to lists of answers.
    - ``tolerance``: a response that is better by no more than this does not matter: in the metric's unit or, such as
      ``0.5sd``, in standard deviations of the responses' scores on the task.
    - ``sampler``: a chat model that is asked for more samples while a task is undecided, up to ``most`` per task, with
      ``temperature``, ``max_tokens`` and the ``system`` message.
    - ``options``: those of ``evaluate``; one metric, gem-raw+control by default.
    """
    chosen = from_arguments(Options, "select", SELECTING, options)
    sampling = None
    if sampler is not None:
        sampling = Sampling(writer=sampler, most=most, temperature=temperature, max_tokens=max_tokens, system=system)
    source = samples_study(study.items()) if isinstance(study, Mapping) else study
    return _run(partial(select_responses, tolerance=tolerance, sampling=sampling), source, chosen)


def reward(
    metric: str = DEFAULT_METRIC,
    *,
    reference: str = "reference",
    bank: Iterable[Any] | None = None,
    answer: Callable[[str], str] | None = None,
    missing: Missing = "none",
    **options: Unpack[Rewarding],
) -> Reward:
    """A reward function for GRPO: what a completion says about references that the policy does not see.

    - ``metric``: gem-s[COLUMN] or gem-raw, with +control or without.
    - ``reference``: the column of the data set with a reference, or a list of them, for each prompt.
    - ``bank``: references of other tasks for +control, such as the whole column (default: those in the same batch).
    - ``answer``: takes the part of a completion that counts, such as what follows the reasoning (default: all).
    - ``missing``: the reward of a completion that cannot be scored: none, or the mean of its group.
    - ``options``: ``scorer``, ``control_tasks``, ``journal`` and others of ``evaluate``.
    """
    chosen = from_arguments(Options, "reward", REWARDING, {"metrics": metric, **options})
    return Reward(chosen, reference=reference, bank=bank, answer=answer, missing=missing)


def agree(
    study: Any,
    *,
    reviewers: str | Sequence[str] = (),
    scale: str | None = None,
    scores: Any = None,
    convention: Literal["default", "paper", "pre", "auto-pre"] = "default",
    criterion: str | None = None,
    **options: Unpack[Scoring],
) -> Agreement:
    """Measure how well metrics, recorded reviewers or given scores agree with the study's human labels.

    - ``reviewers``: names whose judgements are in the study, on ``scale``.
    - ``scores``: a file, or a mapping of metrics to scores by (task, agent).
    - ``options``: those of ``evaluate``; without ``metrics`` none is computed.
    """
    work = partial(
        agree_with_people,
        reviewers=several(reviewers),
        scale=scale,
        scores=scores,
        convention=convention,
        criterion=criterion,
    )
    return _run(work, study, from_arguments(Options, "agree", SCORING, {"metrics": (), **options}))


def calibrate(
    study: Any,
    *,
    labels: Any = None,
    reviewers: str | Sequence[str] = (),
    scale: str | None = None,
    scores: Any = None,
    criterion: str | None = None,
    drawn: Sequence[Path | str] = (),
    next_count: int = 0,
    average: bool = False,
    **options: Unpack[Scoring],
) -> Calibration:
    """Estimate agents' mean labels over all tasks from labels on some of them and metrics or reviewers on all.

    - ``study``: a study or a run folder, whose metrics are used by default.
    - ``labels``: a file or frame with task, agent, rater, score; None: the study's own.
    - ``scores``: a file, or a mapping of metrics to scores by (task, agent).
    - ``next_count``: how many tasks to draw to be labelled next; ``drawn``: files of earlier draws.
    - ``average``: use the mean of the standardised proxies as the only one.
    - ``options``: those of ``evaluate``; without ``metrics`` none is computed.
    """
    work = partial(
        calibrate_to_people,
        labels=labels,
        reviewers=several(reviewers),
        scale=scale,
        scores=scores,
        criterion=criterion,
        drawn=drawn,
        next_count=next_count,
        average=average,
    )
    return _run(work, study, from_arguments(Options, "calibrate", SCORING, {"metrics": (), **options}))


def watch(
    anchors: Any,
    folder: Path | str,
    *,
    reviewers: Model | Sequence[Model] = (),
    scale: str = "5-level",
    stream: Path | str | None = None,
    alpha: float = 0.05,
    guard: int = GUARD,
    repeats: int | None = None,
    restart: bool = False,
    **options: Unpack[Scoring],
) -> WatchReport:
    """Ask a judge or scorer fixed anchors again, past the journal, and report whether it or the system changed.

    The judge is one of ``reviewers`` on a ``scale``, or the scorer or critic behind one of ``metrics``.

    - ``folder``: where the occasions are kept.
    - ``stream``: scores of the system since the last occasion, a file or a run folder.
    - ``alpha``: the rate of false alarms, however long it runs.

    The other arguments are the options of ``goldless watch``.
    """
    named = {"metrics": (), **options, "reviewers": reviewers, "scale": scale}
    chosen = from_arguments(Options, "watch", (*SCORING, "reviewers", "scale"), named)
    settings: dict[str, Any] = {"alpha": alpha, "guard": guard, "repeats": repeats, "restart": restart}
    return _run(partial(ask_anchors, folder=folder, stream=stream, **settings), anchors, chosen)


def bias(
    study: Any,
    *,
    favours: Sequence[str | tuple[str, str]] = (),
    weights: Mapping[str, float] | None = None,
    orders: Literal["each", "together"] = "each",
    **options: Any,
) -> BiasReport:
    """Measure what reviewers and metrics favour besides quality: position, length, markup, their own family, one agent.

    ``options``: ``reviewers``, ``scale``, ``families``, ``convention``, ``criterion``, ``margin`` and
    ``task_description`` as in ``goldless bias``, and those of ``evaluate``; without ``metrics`` none is computed.
    """
    names = ("reviewers", "scale", "families", "task_description", "convention", "criterion", "margin")
    chosen = from_arguments(Options, "bias", (*SCORING, *names), {"metrics": (), **options})
    work = partial(find_bias, favours=favours, weights=weights, orders=orders)
    return _run(work, study, chosen)


def cost(study: Any, *, tasks: int = 10_000, runs: Sequence[Path | str] = (), **options: Unpack[Scoring]) -> CostReport:
    """Estimate calls, tokens, US dollars and seconds per metric, on this study and on ``tasks`` similar tasks.

    ``runs``: run folders whose actual usage replaces the plan. ``options`` are those of ``evaluate``.
    """
    work = partial(find_costs, tasks=tasks, runs=tuple(Path(run) for run in runs))
    return _run(work, study, from_arguments(Options, "cost", SCORING, options))


def consistency(study: Any, *, scorers: Sequence[str | Scorer], **options: Unpack[Scoring]) -> Consistency:
    """Measure how well agents' scores agree under two or more scorers. ``options`` are those of ``evaluate``."""
    chosen = from_arguments(Options, "consistency", SCORING, options)
    return _run(partial(scorer_consistency, scorers=tuple(scorers)), study, chosen)


def review(study: Any, **options: Unpack[Reviewing]) -> Review:
    """Run a peer review: reviewers take an exam, those who pass judge, and their weighted votes rank the agents.

    ``reviewers``: specifications, ``NAME=SPEC``, models, a mapping of names to either, or with ``recorded=True`` names.
    The other arguments are the options of ``goldless review``.
    """
    return _run(review_study, study, from_arguments(Options, "review", REVIEWING, options))


def explain(
    study: Any,
    *,
    task: str,
    agent: str,
    peer: str,
    scorer: str | Scorer = "embedded",
    template: str = "general",
    synopsis: str | None = None,
    text: Literal["responses", "rewrites"] = "responses",
    journal: Path | str | None = None,
) -> InformationMap:
    """Map the information in one pair: which of the agent's sentences make which of the peer's predictable.

    - ``agent``: whose response is known; ``peer``: whose response is predicted.
    - ``synopsis``: a text of the task that is given as well, such as prompt or abstract.
    - ``text``: the responses, or their recorded rewrites.
    """
    options = ExplainOptions(
        task=task,
        agent=agent,
        peer=peer,
        scorer=scorer,
        template=template,
        synopsis=synopsis,
        text=text,
        journal=None if journal is None else Path(journal),
    )
    return _run(explain_pair, study, options)


def export(source: Any, path: Path | str, *, exporter: str, **options: Any) -> Path:
    """Write scores or a study in another tool's format and return the path: the formats of ``goldless export``.

    - ``source``: a run folder, a study, or the result of ``evaluate`` or ``review``.
    - ``options``: those of the format, such as ``metric``, ``margin``, ``dataset``, ``task_id`` and ``logs``.
    """
    if not isinstance(source, Evaluation | Review):
        return export_to(source, path, exporter=exporter, **options)
    with TemporaryDirectory(prefix="goldless-") as folder:
        save = save_run if isinstance(source, Evaluation) else save_review
        save(source, Path(folder) / "run")  # type: ignore[arg-type]  # each saves its own kind
        return export_to(Path(folder) / "run", path, exporter=exporter, **options)


def compare(
    *runs: Path | str,
    agents: str | Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> PairedComparison:
    """Compare two agents on common tasks: the second minus the first. Calls no model.

    - ``runs``: one run folder, or two, before and after a change.
    - ``agents``: the two, in this order; one name is meant in both runs.
    - ``metrics``: those of the runs to compare (default: all that both have).
    """
    named = several(agents), several(metrics)
    return compare_runs(runs, agents=named[0], metrics=named[1], seed=seed, resamples=resamples, level=level)


GATING = (
    "reviewers",
    "critic",
    "seed",
    "resamples",
    "level",
    "verdicts",
    "budget_usd",
    "price",
    "on",
    "journal",
    *CALLING,
)
"""Options of a gate."""


class Gating(TypedDict, total=False):
    """Further arguments of ``gate``: how a judge is asked again, and how intervals are computed."""

    reviewers: Model | Sequence[Model] | Mapping[str, Model]
    critic: Model
    verdicts: Literal["auto", "probabilities", "labels"]
    seed: int
    resamples: int
    level: float
    budget_usd: float | None
    price_usd_per_million: tuple[float, float] | None
    on: str | None
    journal: Path | str | None
    timeout_seconds: float | None
    max_retries: int | None
    max_in_flight: int | None
    progress: Callable[[Progress], None] | None


def gate(
    *runs: Path | str,
    margin: str | float,
    baseline: str | None = None,
    candidate: str | None = None,
    metric: str | None = None,
    alpha: float = 0.05,
    aa: int | None = None,
    repeats: Path | str | Sequence[Path | str] = (),
    uncertified: bool = False,
    **options: Unpack[Gating],
) -> Gate:
    """Decide whether a candidate may replace the baseline: SHIP, BLOCK or INCONCLUSIVE.

    - ``runs``: one run folder with both agents, or that of the baseline and that of the candidate.
    - ``margin``: how much worse the candidate may be, in the metric's unit or, such as ``0.2sd``, in standard
      deviations of the baseline's scores.
    - ``aa``: ask the run's judge this many verdicts a second time.
    - ``repeats``: run folders with the same questions asked a second time.
    - ``uncertified``: decide although the judge was never asked twice.
    """
    chosen = from_arguments(Options, "gate", GATING, options)
    work = partial(
        gate_runs,
        runs,
        chosen,
        baseline=baseline,
        candidate=candidate,
        metric=metric,
        margin=margin,
        alpha=alpha,
        aa=aa,
        repeats=several(repeats),
        uncertified=uncertified,
    )
    return _in_loop(work)


def _run(work: Callable[[Any, Any], Awaitable[Result]], study: Any, options: Any) -> Result:
    """Run work on a study."""

    async def run() -> Result:
        return await work(as_study(study), options)

    return _in_loop(run)


def _in_loop(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run work to its end; in a separate thread where an event loop is already running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="goldless") as threads:
        return threads.submit(anyio.run, work).result()
