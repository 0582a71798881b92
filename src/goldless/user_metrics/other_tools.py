"""Metrics written for other evaluation tools: promptfoo's assertions, DeepEval's metrics, Inspect's scorers."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics.functions import (
    CallMetric,
    fields,
    finished,
    is_asynchronous,
    load_object,
    made,
    missing_package,
    number_score,
    parsed_number,
    shown,
)


def _tool(package: str, name: str, *modules: str) -> tuple[str, *tuple[Any, ...]]:
    """The name and version of another tool, if it is installed, and modules of it."""
    try:
        found = [importlib.import_module(f"{package}.{module}") for module in modules]
    except ModuleNotFoundError as error:
        raise missing_package(error.name or package, name) from error
    return f"{package} {getattr(importlib.import_module(package), '__version__', 'unknown')}", *found


def _object(place: str, name: str, what: str, is_one: Callable[[Any], bool]) -> tuple[Any, dict[str, str]]:
    """The tool's object at a place, or what the class or function there returns, and its settings."""
    found, settings = load_object(place, name)
    if not callable(found) and not is_one(found):
        raise MetricError(f"{name!r} is {shown(found)}. Name {what}, or a class or function that returns one")
    if inspect.isclass(found) or not is_one(found):
        found = made(found, name, "Name an object, or write a function that returns one")
        if not is_one(found):
            raise MetricError(f"{name!r} returns {shown(found)}, which is not {what}")
    return found, settings


def _value_score(value: Any, words: Mapping[str, float]) -> ItemScore:
    """The score in a number, a truth value, either of them as text, or a word with a known value."""
    if isinstance(value, str):
        number = words.get(value, words.get(value.lower(), parsed_number(value)))
        return ItemScore(None, f"returned the text {shown(value)}") if number is None else number_score(number)
    return ItemScore(float(value)) if isinstance(value, bool) else number_score(value)


# --- promptfoo ------------------------------------------------------------------------------------------------------


def promptfoo_assertion(place: str, name: str, timeout_seconds: float | None) -> CallMetric:
    """The assertion at FILE.py or FILE.py:FUNCTION, with or without promptfoo's ``file://``, as a metric."""
    place = place.removeprefix("file://")
    function, settings = load_object(f"{place}:get_assert" if place.endswith(".py") else place, name)
    if not callable(function):
        raise MetricError(f"{name!r} must be a function, got {shown(function)}")
    try:
        inspect.signature(function).bind("output", {})
    except TypeError as error:
        raise MetricError(f"{name!r} cannot be called as get_assert(output, context): {error}") from error
    return CallMetric(
        name=name,
        settings={**settings, "shim": "promptfoo"},
        call=lambda item: function(item.text, _assertion_context(item)),
        read=grade,
        asynchronous=is_asynchronous(function),
        timeout_seconds=timeout_seconds,
    )


def _assertion_context(item: TextItem) -> dict[str, Any]:
    """The context promptfoo passes to an assertion, as far as a study has it; other task columns become variables."""
    variables = {**item.task.extra, **fields(item)}
    del variables["response"]
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
    if value is None:
        return ItemScore(None, "returned nothing, not a truth value, a number or {pass, score, reason}")
    return _value_score(value.strip() if isinstance(value, str) else value, {"true": 1.0, "false": 0.0})


# --- DeepEval -------------------------------------------------------------------------------------------------------

QUIET = {"_show_indicator": False, "_log_metric_to_confident": False}
"""Arguments of DeepEval's own metrics: no progress display, and no upload."""
_measuring = threading.Lock()  # two runs in one process share a metric, which stores its last score


def deepeval_metric(place: str, name: str, timeout_seconds: float | None) -> CallMetric:
    """The DeepEval metric named, or what the class or function named returns, as a metric.

    It stores its last score, so responses are measured one after the other.
    """
    os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")  # nothing leaves the machine but the metric's own calls
    shim, cases = _tool("deepeval", name, "test_case")

    what = "a DeepEval metric with measure or a_measure"
    metric, settings = _object(place, name, what, lambda found: bool({"measure", "a_measure"} & set(dir(found))))
    measure = getattr(metric, "measure", None) or metric.a_measure
    taken = inspect.signature(measure).parameters

    def measured(item: TextItem) -> Any:
        known = fields(item)
        case = cases.LLMTestCase(
            input=item.task.prompt or "",
            actual_output=item.text,
            expected_output=item.task.reference,
            context=list(item.task.synopses.values()) or None,
            metadata={name: known[name] for name in ("task", "agent", "references", "synopses")},
            name=item.task.task,
        )
        with _measuring:
            # what the last response left behind must not pass for this one's
            metric.score = metric.error = None
            returned = finished(measure(case, **{key: QUIET[key] for key in QUIET if key in taken}))
            if metric.error:
                raise RuntimeError(str(metric.error))
            return returned if metric.score is None else metric.score

    return CallMetric(name=name, settings={**settings, "shim": shim}, call=measured, timeout_seconds=timeout_seconds)


# --- Inspect --------------------------------------------------------------------------------------------------------

WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def inspect_scorer(place: str, name: str, timeout_seconds: float | None) -> CallMetric:
    """The Inspect scorer named, or what the function named returns, as a metric."""
    shim, models, scorers, solvers = _tool("inspect_ai", name, "model", "scorer", "solver")
    what = "an Inspect scorer: async score(state, target) -> Score"
    scorer, settings = _object(place, name, what, is_asynchronous)

    def scored(item: TextItem) -> Any:
        """The response is the state of a sample after the model's answer."""
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
        return scorer(state, target)

    return CallMetric(
        name=name,
        settings={**settings, "shim": shim, "target": "reference, else peers"},
        call=scored,
        read=read_score,
        asynchronous=True,
        timeout_seconds=timeout_seconds,
    )


def read_score(value: Any) -> ItemScore:
    """The score in what a scorer returned, as Inspect reads it; NaN is Inspect's mark for what was not scored."""
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
    return _value_score(found, WORDS)
