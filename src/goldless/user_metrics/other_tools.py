"""Metrics written for other evaluation tools: promptfoo's assertions, DeepEval's metrics, Inspect's scorers."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import math
import os
import threading
from collections.abc import Mapping
from typing import Any

from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics.functions import CallMetric, finished, is_asynchronous
from goldless.user_metrics.scores import fields, number_score, parsed_number, shown, traceback_lines
from goldless.user_metrics.source_objects import Form, SourceObject, load_object, missing_package


def _source(place: str, name: str, *modules: str, **settings: str) -> SourceObject:
    """The object named, if the modules of its tool are installed; the tool's version is added to the settings."""
    package = modules[0].partition(".")[0]
    try:
        for module in modules:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing_package(error.name or package, name) from error
    version = getattr(importlib.import_module(package), "__version__", "unknown")
    found = load_object(place, metric=name)
    return SourceObject(found.object, {**found.settings, "shim": f"{package} {version}", **settings})


def _made(found: Any, name: str, advice: str) -> Any:
    """What the class or function returns when called without arguments."""
    try:
        return found()
    except Exception as error:
        raise MetricError(
            f"{name!r} cannot be called without arguments. {advice}:\n{traceback_lines(error)}"
        ) from error


# --- promptfoo ------------------------------------------------------------------------------------------------------


def _assertion_source(place: str, name: str) -> SourceObject:
    """The assertion; ``place`` is FILE.py or FILE.py:FUNCTION, with or without promptfoo's ``file://``."""
    place = place.removeprefix("file://")
    found = load_object(f"{place}:get_assert" if place.endswith(".py") else place, metric=name)
    return SourceObject(found.object, {**found.settings, "shim": "promptfoo"})


def promptfoo_assertion(source: SourceObject, name: str, timeout_seconds: float | None) -> CallMetric:
    """The assertion as a metric, if it takes what promptfoo passes to it."""
    function = source.object
    if not callable(function):
        raise MetricError(f"{name!r} must be a function, got {shown(function)}")
    try:
        inspect.signature(function).bind("output", {})
    except TypeError as error:
        raise MetricError(f"{name!r} cannot be called as get_assert(output, context): {error}") from error
    return CallMetric(
        name=name,
        settings=source.settings,
        call=lambda item: function(item.text, assertion_context(item)),
        read=grade,
        asynchronous=is_asynchronous(function),
        timeout_seconds=timeout_seconds,
    )


def assertion_context(item: TextItem) -> dict[str, Any]:
    """The context promptfoo passes to an assertion, as far as a study has it; other task columns become variables."""
    known = fields(item)
    own = {name: known[name] for name in ("task", "agent", "reference", "references", "synopses", "prompt")}
    variables = {**item.task.extra, **own}
    return {
        "prompt": item.task.prompt,
        "vars": variables,
        "test": {"vars": variables, "assert": [], "options": {}},
        "config": {},
        "provider": {"id": item.agent},
        "providerResponse": {"output": item.text},
        "logProbs": None,
        "trace": None,
        "metadata": {},
    }


def grade(value: Any) -> ItemScore:
    """The score in what an assertion returned: a truth value, a number, either of them as text, or a mapping.

    A threshold in promptfoo's configuration is not applied: it would turn the score into a verdict.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        if isinstance(value.get("score"), bool) or "score" not in value:
            return ItemScore(None, f"returned {shown(dict(value))}, in which 'score' is not a number")
        return number_score(value["score"])
    if isinstance(value, str):
        word = value.strip().lower()
        value = {"true": True, "false": False}.get(word, parsed_number(word))
        if value is None:
            return ItemScore(None, f"returned the text {shown(word)}, which is not a number or truth value")
    if value is None:
        return ItemScore(
            None, "returned nothing; an assertion must return a truth value, a number or {pass, score, reason}"
        )
    return ItemScore(float(value)) if isinstance(value, bool) else number_score(value)


PROMPTFOO = Form(
    "promptfoo:FILE.py[:FUNCTION]",
    "a Python assertion for promptfoo (default function: get_assert)",
    _assertion_source,
    promptfoo_assertion,
)

# --- DeepEval -------------------------------------------------------------------------------------------------------

CASES = "deepeval.test_case"
QUIET = {"_show_indicator": False, "_log_metric_to_confident": False}
"""Arguments of DeepEval's own metrics: no progress display, and no upload."""


def _deepeval_source(place: str, name: str) -> SourceObject:
    os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")  # nothing leaves the machine but the metric's own calls
    return _source(place, name, CASES)


def deepeval_metric(source: SourceObject, name: str, timeout_seconds: float | None) -> CallMetric:
    """The DeepEval metric named, or what the class or function named returns, as a metric.

    It stores its last score, so responses are measured one after the other.
    """
    metric = source.object
    if inspect.isclass(metric) or not (hasattr(metric, "measure") or hasattr(metric, "a_measure")):
        if not callable(metric):
            raise MetricError(
                f"{name!r} is {shown(metric)}. Name a DeepEval metric, or a class or function that returns one"
            )
        metric = _made(metric, name, "Name a metric object, or a function that returns one")
    if not callable(getattr(metric, "measure", None)) and not callable(getattr(metric, "a_measure", None)):
        raise MetricError(f"{name!r} returns {shown(metric)}, which has neither measure nor a_measure")
    make_case = importlib.import_module(CASES).LLMTestCase
    busy = threading.Lock()  # two runs in one process share the object

    def measured(item: TextItem) -> Any:
        case = make_case(**case_fields(item))
        with busy:
            # what the last response left behind must not pass for this one's
            metric.score = metric.error = None
            returned = _measure(metric, case)
            if metric.error:
                raise RuntimeError(str(metric.error))
            return returned if metric.score is None else metric.score

    return CallMetric(name=name, settings=source.settings, call=measured, timeout_seconds=timeout_seconds)


def _measure(metric: Any, case: Any) -> Any:
    """What ``measure`` returns, or ``a_measure`` where there is no ``measure``."""
    for method in filter(callable, (getattr(metric, "measure", None), getattr(metric, "a_measure", None))):
        taken = inspect.signature(method).parameters
        with contextlib.suppress(NotImplementedError):
            return finished(method(case, **{name: value for name, value in QUIET.items() if name in taken}))
    raise NotImplementedError("neither measure nor a_measure is implemented")


def case_fields(item: TextItem) -> dict[str, Any]:
    """A response as DeepEval's test case: the expected output is the task's reference, peers are in the metadata."""
    known = fields(item)
    return {
        "input": item.task.prompt or "",
        "actual_output": item.text,
        "expected_output": item.task.reference,
        "context": list(item.task.synopses.values()) or None,
        "metadata": {name: known[name] for name in ("task", "agent", "references", "synopses")},
        "name": item.task.task,
    }


DEEPEVAL = Form(
    "deepeval:MODULE:OBJECT",
    "a DeepEval metric, or a class or function that returns one",
    _deepeval_source,
    deepeval_metric,
)

# --- Inspect --------------------------------------------------------------------------------------------------------

PARTS = ("inspect_ai.model", "inspect_ai.scorer", "inspect_ai.solver")
WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
TRUTH_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def inspect_scorer(source: SourceObject, name: str, timeout_seconds: float | None) -> CallMetric:
    """The Inspect scorer named, or what the function named returns, as a metric."""
    found = source.object
    if not callable(found):
        raise MetricError(f"{name!r} is {shown(found)}. Name an Inspect scorer, or a function that returns one")
    ready = is_asynchronous(found) and not inspect.isclass(found)
    scorer = found if ready else _made(found, name, "Write a function that returns the scorer")
    if not callable(scorer):
        raise MetricError(
            f"{name!r} returns {shown(scorer)}, which is not a scorer: async score(state, target) -> Score"
        )
    return CallMetric(
        name=name,
        settings=source.settings,
        call=lambda item: scorer(*_state_and_target(item)),
        read=read_score,
        asynchronous=True,
        timeout_seconds=timeout_seconds,
    )


def _state_and_target(item: TextItem) -> tuple[Any, Any]:
    """The response as the state of a sample after the model's answer, and the target of the sample."""
    models, scorers, solvers = map(importlib.import_module, PARTS)
    # an empty target would be found in every response
    target = scorers.Target(list(item.peers.values()) if item.task.reference is None else item.task.reference)
    prompt = item.task.prompt or ""
    known = fields(item)
    state = solvers.TaskState(
        model=models.ModelName(f"goldless/{item.agent}"),
        sample_id=item.task.task,
        epoch=1,
        input=prompt,
        messages=[models.ChatMessageUser(content=prompt), models.ChatMessageAssistant(content=item.text)],
        target=target,
        output=models.ModelOutput.from_content(model=item.agent, content=item.text),
        completed=True,
        metadata={**item.task.extra, **{name: known[name] for name in ("agent", "references", "synopses")}},
    )
    return state, target


def read_score(value: Any) -> ItemScore:
    """The score in what a scorer returned, as Inspect reads it; NaN is Inspect's mark for what was not scored."""
    if value is None:
        return ItemScore(None, "returned no score")
    if not hasattr(value, "value"):
        return ItemScore(None, f"returned {shown(value)} ({type(value).__name__}), which is not a Score")
    found = value.value
    parts = list(found.values()) if isinstance(found, Mapping) else found
    if isinstance(parts, list | tuple):
        if len(parts) != 1:
            return ItemScore(None, f"returned {len(parts)} values, {shown(found)}; a metric must return one number")
        found = parts[0]
    if isinstance(found, float) and math.isnan(found):
        why = getattr(value, "reason", None) or getattr(value, "explanation", None) or "no reason given"
        return ItemScore(None, f"not scored: {str(why)[:300]}")
    if isinstance(found, str):
        number = WORDS.get(found, TRUTH_WORDS.get(found.lower(), parsed_number(found)))
        return number_score(number) if number is not None else ItemScore(None, f"returned the value {shown(found)}")
    return ItemScore(float(found)) if isinstance(found, bool) else number_score(found)


INSPECT = Form(
    "inspect:MODULE:SCORER",
    "an Inspect scorer, or a function that returns one",
    lambda place, name: _source(place, name, *PARTS, target="reference, else peers"),
    inspect_scorer,
)
