"""The Python entry points: ``goldless.evaluate`` and its kin, one for each verb of the command line."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.agreement import Agreement
from goldless.meta_evaluation.agreement import agree as agree_with_people
from goldless.meta_evaluation.bias import BiasReport, find_bias
from goldless.meta_evaluation.consistency import Consistency, scorer_consistency
from goldless.meta_evaluation.cost.cost_report import CostReport
from goldless.meta_evaluation.cost.spending import find_costs
from goldless.meta_evaluation.crash_design import DEFAULT_REFERENCES, DEFAULT_RESPONSES
from goldless.meta_evaluation.crash_ratings import DEFAULT_MARGIN
from goldless.meta_evaluation.crash_test import CrashOptions, CrashTest
from goldless.meta_evaluation.crash_test import crash_test as run_crash_test
from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE
from goldless.metrics.information_map import InformationMap
from goldless.models.interface import ChatModel, Scorer
from goldless.models.usage import Price
from goldless.runs.estimate import Plan, plan_study
from goldless.runs.evaluation import Evaluation
from goldless.runs.explaining import ExplainOptions, explain_pair
from goldless.runs.options import Options, Progress, metric_names
from goldless.runs.pipeline import evaluate_study
from goldless.runs.review_options import ReviewOptions
from goldless.runs.review_results import Review
from goldless.runs.reviewing import review_study
from goldless.studies import as_study

Result = TypeVar("Result")
BIAS_OPTIONS = ("favours", "families", "weights", "orders", "convention", "criterion", "margin", "task_description")


def evaluate(
    study: Any,
    *,
    metrics: str | Sequence[str] = "gem-raw",
    scorer: str | Scorer = "embedded",
    rewriter: str | ChatModel | Sequence[str | ChatModel] | None = None,
    synopsis_writer: str | ChatModel | None = None,
    template: str | Sequence[str] = (),
    critic: str | ChatModel = "embedded",
    critic_prompt: str = "same-source",
    verdicts: Literal["auto", "probabilities", "labels"] = "auto",
    shuffles: int | None = None,
    peers: str | Sequence[str] | None = None,
    panel: int | None = None,
    budget_calls: int | None = None,
    recorded: bool = False,
    compare_groups: tuple[str, str] | None = None,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    on_too_long: Literal["error", "skip"] = "error",
    budget_usd: float | None = None,
    price_usd_per_million: tuple[float, float] | None = None,
    journal: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """Frozen results of the metrics on a study.

    ``study``: a path, a pandas, polars or pyarrow frame with columns task, agent, text, or a Study.
    ``metrics``: one name or several, such as gem-raw, gem, gem-s[abstract], tvd-mi, mi, bartscore.
    ``scorer``: a model specification such as ``embedded``, ``gguf:PATH``, ``hf:NAME_OR_PATH``,
    ``http://HOST:PORT/v1#MODEL``, or an object with the Scorer protocol. ``rewriter``: the chat model that
    preprocesses for gem and gem-s; ``template``: the wording. Several of either are averaged over.
    ``synopsis_writer``: the chat model that writes an abstract or ASSW summary where a task has none.
    ``critic``, ``critic_prompt``, ``verdicts``, ``shuffles``, ``budget_calls``: of tvd-mi; a budget of calls chooses
    the pairs itself. ``peers``: the agents that serve as peers, or ``panel``: how many to draw; all by default.
    ``recorded``: use only evidence that the study carries and call no model. ``compare_groups``: two groups of the
    agents table. ``journal``: where replies are kept; yours by default, so that nothing is computed or paid twice.
    """
    options = Options(
        metrics=metric_names(_several(metrics)),
        scorer=scorer,
        rewriters=() if rewriter is None else _several(rewriter),
        synopsis_writer=synopsis_writer,
        templates=_several(template),
        critic=critic,
        critic_prompt=critic_prompt,
        verdicts=verdicts,
        shuffles=shuffles,
        peers=None if peers is None else _several(peers),
        panel=panel,
        budget_calls=budget_calls,
        recorded=recorded,
        compare_groups=compare_groups,
        seed=seed,
        resamples=resamples,
        level=level,
        on_too_long=on_too_long,
        budget_usd=budget_usd,
        price=None if price_usd_per_million is None else Price(*price_usd_per_million),
        journal=None if journal is None else Path(journal),
        progress=progress or (lambda _: None),
    )

    return _run(evaluate_study, study, options)


def plan(study: Any, **options: Any) -> Plan:
    """What ``evaluate`` would ask with these arguments, in calls, tokens, US dollars and seconds. Asks no server."""
    return _run(plan_study, study, _options("plan", options))


def crash_test(
    study: Any,
    *,
    perturbations: str | Sequence[str] = MODEL_FREE,
    agents: str | Sequence[str] | None = None,
    references: int | str | Sequence[str] = DEFAULT_REFERENCES,
    responses: int = DEFAULT_RESPONSES,
    writer: str | ChatModel | None = None,
    margin: float = DEFAULT_MARGIN,
    **options: Any,
) -> CrashTest:
    """What metrics do when responses lose content or are only dressed up, rated.

    ``options`` are those of ``evaluate``, ``metrics`` first of all. ``agents``: whose responses are perturbed.
    ``references``: how many peers, or which agents, a response is held against. ``writer``: a chat model for the
    perturbations that need one.
    """
    crash = CrashOptions(
        perturbations=_several(perturbations),
        agents=None if agents is None else _several(agents),
        references=references if isinstance(references, int) else _several(references),
        responses=responses,
        writer=writer,
        margin=margin,
    )
    return _run(partial(run_crash_test, crash=crash), study, _options("crash_test", options))


def agree(
    study: Any,
    *,
    reviewers: str | Sequence[str] = (),
    scale: str | None = None,
    scores: Any = None,
    convention: Literal["default", "paper"] = "default",
    criterion: str | None = None,
    **options: Any,
) -> Agreement:
    """How far metrics, recorded reviewers or given scores say what the study's human labels say.

    ``reviewers``: names whose judgements the study carries, on ``scale``. ``scores``: a file, or a mapping of metrics
    to scores by (task, agent). ``options`` are those of ``evaluate``; without ``metrics`` none is computed.
    """
    work = partial(
        agree_with_people,
        reviewers=_several(reviewers),
        scale=scale,
        scores=scores,
        convention=convention,
        criterion=criterion,
    )
    return _run(work, study, _options("agree", {"metrics": (), **options}))


def bias(study: Any, *, reviewers: str | Sequence[str] = (), scale: str = "pairwise", **options: Any) -> BiasReport:
    """What reviewers and metrics favour besides quality: place, length, markup, their own kind, an agent.

    ``options``: ``favours``, ``families``, ``weights``, ``orders``, ``convention``, ``criterion``, ``margin`` and
    ``task_description`` as in ``goldless bias``, and those of ``evaluate``; without ``metrics`` none is computed.
    """
    own = {name: options.pop(name) for name in BIAS_OPTIONS if name in options}
    work = partial(find_bias, reviewers=_several(reviewers), scale=scale, **own)
    return _run(work, study, _options("bias", {"metrics": (), **options}))


def cost(study: Any, *, tasks: int = 10_000, runs: Sequence[Path | str] = (), **options: Any) -> CostReport:
    """Calls, tokens, US dollars and seconds of metrics, on this study and on ``tasks`` tasks like its own.

    ``runs``: folders of runs whose spending is used instead of a plan. ``options`` are those of ``evaluate``.
    """
    work = partial(find_costs, tasks=tasks, runs=tuple(Path(run) for run in runs))
    return _run(work, study, _options("cost", options))


def consistency(study: Any, *, scorers: Sequence[str | Scorer], **options: Any) -> Consistency:
    """How far agents' scores agree under two or more scorers. ``options`` are those of ``evaluate``."""
    return _run(partial(scorer_consistency, scorers=tuple(scorers)), study, _options("consistency", options))


def _options(verb: str, given: Mapping[str, Any]) -> Options:
    """The options of metrics from the arguments of ``evaluate``."""
    rest = dict(given)
    price, journal, rewriter = (rest.pop(name, None) for name in ("price_usd_per_million", "journal", "rewriter"))
    settings = {
        "metrics": metric_names(_several(rest.pop("metrics", "gem-raw"))),
        "templates": _several(rest.pop("template", ())),
        "rewriters": () if rewriter is None else _several(rewriter),
        "price": None if price is None else Price(*price),
        "journal": None if journal is None else Path(journal),
        **rest,
    }
    known = {field.name for field in dataclasses.fields(Options)}
    for name in settings:
        if name not in known:
            raise UserError(f"{verb} takes the arguments of evaluate; {name!r} is none of them{nearest(name, known)}")
    return Options(**settings)


def review(study: Any, *, reviewers: Any = (), **options: Any) -> Review:
    """A peer review: reviewers sit an exam, those who pass judge, their weighted votes rank the agents.

    ``reviewers``: specifications, ``NAME=SPEC``, models, a mapping of names to either, or with ``recorded=True`` names.
    ``options`` are the fields of ``ReviewOptions``, such as ``scale``, ``exams``, ``questioners``, ``convention``.
    """
    given: Any = reviewers if isinstance(reviewers, Mapping) else _several(reviewers)
    if isinstance(options.get("exams"), str):
        options["exams"] = tuple(part.strip() for part in options["exams"].split(","))
    known = {field.name for field in dataclasses.fields(ReviewOptions)}
    for name in options:
        if name not in known:
            raise UserError(f"review takes {', '.join(sorted(known))}; {name!r} is none of them{nearest(name, known)}")
    return _run(review_study, study, ReviewOptions(reviewers=given, **options))


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
    """The information map of one pair: which of the agent's sentences make which of the peer's predictable."""
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


def _run(work: Callable[[Any, Any], Awaitable[Result]], study: Any, options: Any) -> Result:
    """The result of work on a study; in a thread of its own where an event loop is running, as in a notebook."""

    def run() -> Result:
        return anyio.run(work, as_study(study), options)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    return _in_thread(run)


def _several(given: Any) -> tuple[Any, ...]:
    """One thing, or a sequence of them, as a tuple."""
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)


def _in_thread(work: Callable[[], Result]) -> Result:
    """The result of work done in a thread of its own."""
    outcome: list[Result | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - handed on to the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=run, name="goldless")
    thread.start()
    thread.join()
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result
