"""Metrics written for other evaluation tools: promptfoo's assertions, DeepEval's metrics, Inspect's scorers.

``promptfoo:FILE.py[:FUNCTION]``: the function is called as ``get_assert(output, context)`` and returns what promptfoo
accepts: a truth value (1 or 0), a number, or a mapping with ``pass``, ``score`` and ``reason``, whose score counts. A
threshold in promptfoo's configuration is not applied: it would turn the score into a verdict.

``deepeval:MODULE:OBJECT``: a metric object stores its last score, so responses are measured one after the
other. DeepEval is configured to send no usage data: nothing leaves the machine but the calls the metric itself makes.

``inspect:MODULE:SCORER``: values are read as Inspect reads them: C is 1, P one half, I and N (no answer) are 0, truth
values are 1 and 0. NaN is Inspect's mark for what was not scored: missing. A mapping or list counts if it has one
value.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import math
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics.calls import CallMetric, finished, is_asynchronous
from goldless.user_metrics.scores import fields, number_score, parsed_number, shown, traceback_lines
from goldless.user_metrics.source_objects import Form, SourceObject, load_object, missing_package


def _of_package(modules: Sequence[str], place: str, name: str) -> SourceObject:
    """The object named, if its tool is installed; the tool's version is added to the settings."""
    package = modules[0].partition(".")[0]
    try:
        for module in modules:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing_package(error.name or package, name) from error
    version = getattr(importlib.import_module(package), "__version__", "unknown")
    return load_object(place, metric=name).with_settings(shim=f"{package} {version}")


def _made(found: Any, name: str, advice: str) -> Any:
    """What the class or function returns when called without arguments."""
    try:
        return found()
    except Exception as error:
        raise MetricError(
            f"{name!r} cannot be called without arguments. {advice}:\n{traceback_lines(error)}"
        ) from error


# --- promptfoo ------------------------------------------------------------------------------------------------------

DEFAULT_FUNCTION = "get_assert"


def _assertion_source(place: str, name: str) -> SourceObject:
    """The assertion; ``place`` is FILE.py or FILE.py:FUNCTION, with or without promptfoo's ``file://``."""
    place = place.removeprefix("file://")
    loaded = load_object(f"{place}:{DEFAULT_FUNCTION}" if place.endswith(".py") else place, metric=name)
    return loaded.with_settings(shim="promptfoo")


def promptfoo_assertion(source: SourceObject, name: str, timeout_seconds: float | None) -> CallMetric:
    """The assertion as a metric, if it takes what promptfoo passes to it."""
    function = source.object
    if not callable(function):
        raise MetricError(f"{name!r} must be a function, got {shown(function)}")
    try:
        inspect.signature(function).bind("output", {})
    except TypeError as error:
        raise MetricError(f"{name!r} cannot be called as {DEFAULT_FUNCTION}(output, context): {error}") from error
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
    """The score in what an assertion returned; promptfoo also accepts numbers and truth values as text."""
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
    os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    return _of_package([CASES], place, name)


def deepeval_metric(source: SourceObject, name: str, timeout_seconds: float | None) -> CallMetric:
    """The metric, or what the class or function returns, as a metric."""
    call = _Measuring(_deepeval_object(source.object, name))
    return CallMetric(name=name, settings=source.settings, call=call, timeout_seconds=timeout_seconds)


class _Measuring:
    """Responses measured by one DeepEval object."""

    def __init__(self, metric: Any) -> None:
        self._case = importlib.import_module(CASES).LLMTestCase
        self._metric = metric
        self._busy = threading.Lock()

    def __call__(self, item: TextItem) -> Any:
        case = self._case(**case_fields(item))
        with self._busy:  # two runs in one process share the object
            # what the last response left behind must not pass for this one's
            self._metric.score = None
            self._metric.error = None
            returned = self._returned(case)
            if self._metric.error:
                raise RuntimeError(str(self._metric.error))
            return returned if self._metric.score is None else self._metric.score

    def _returned(self, case: Any) -> Any:
        measure = getattr(self._metric, "measure", None)
        if measure is not None:
            with contextlib.suppress(NotImplementedError):
                return finished(_call_quietly(measure, case))
        return finished(_call_quietly(self._metric.a_measure, case))


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


def _deepeval_object(found: Any, name: str) -> Any:
    """The DeepEval metric named, or what the class or function named returns without arguments."""
    metric = found
    if inspect.isclass(found) or not (hasattr(found, "measure") or hasattr(found, "a_measure")):
        if not callable(found):
            raise MetricError(
                f"{name!r} is {shown(found)}. Name a DeepEval metric, or a class or function that returns one"
            )
        metric = _made(found, name, "Name a metric object, or a function that returns one")
    if not callable(getattr(metric, "measure", None)) and not callable(getattr(metric, "a_measure", None)):
        raise MetricError(f"{name!r} returns {shown(metric)}, which has neither measure nor a_measure")
    return metric


def _call_quietly(measure: Any, case: Any) -> Any:
    try:
        taken = inspect.signature(measure).parameters
    except (TypeError, ValueError):
        taken = {}  # type: ignore[assignment]
    return measure(case, **{name: value for name, value in QUIET.items() if name in taken})


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


def _inspect_source(place: str, name: str) -> SourceObject:
    return _of_package(PARTS, place, name).with_settings(target="reference, else peers")


def inspect_scorer(source: SourceObject, name: str, timeout_seconds: float | None) -> CallMetric:
    """The scorer, or what the function returns, as a metric."""
    return CallMetric(
        name=name,
        settings=source.settings,
        call=_Scoring(_scorer(source.object, name)),
        read=read_score,
        asynchronous=True,
        timeout_seconds=timeout_seconds,
    )


class _Scoring:
    """Responses scored by one Inspect scorer."""

    def __init__(self, score: Any) -> None:
        self._model, self._scorer, self._solver = map(importlib.import_module, PARTS)
        self._score = score

    def __call__(self, item: TextItem) -> Any:
        # an empty target would be found in every response
        wanted = list(item.peers.values()) if item.task.reference is None else item.task.reference
        target = self._scorer.Target(wanted)
        return self._score(self._state(item, target), target)

    def _state(self, item: TextItem, target: Any) -> Any:
        """The response as the state of a sample after the model's answer."""
        prompt = item.task.prompt or ""
        known = fields(item)
        return self._solver.TaskState(
            model=self._model.ModelName(f"goldless/{item.agent}"),
            sample_id=item.task.task,
            epoch=1,
            input=prompt,
            messages=[
                self._model.ChatMessageUser(content=prompt),
                self._model.ChatMessageAssistant(content=item.text),
            ],
            target=target,
            output=self._model.ModelOutput.from_content(model=item.agent, content=item.text),
            completed=True,
            metadata={**item.task.extra, **{name: known[name] for name in ("agent", "references", "synopses")}},
        )


def _scorer(found: Any, name: str) -> Any:
    """The scorer named, or what the function named returns without arguments."""
    if not callable(found):
        raise MetricError(f"{name!r} is {shown(found)}. Name an Inspect scorer, or a function that returns one")
    ready = is_asynchronous(found) and not inspect.isclass(found)
    scorer = found if ready else _made(found, name, "Write a function that returns the scorer")
    if not callable(scorer):
        raise MetricError(
            f"{name!r} returns {shown(scorer)}, which is not a scorer: async score(state, target) -> Score"
        )
    return scorer


def read_score(value: Any) -> ItemScore:
    """The score in what a scorer returned: its ``value``, as Inspect reads it."""
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
    "inspect:MODULE:SCORER", "an Inspect scorer, or a function that returns one", _inspect_source, inspect_scorer
)
