"""``deepeval:MODULE:OBJECT``: a metric of DeepEval, or a class or function that makes one, as a metric.

A metric object of DeepEval keeps the last score in itself, so responses are measured one after the other. DeepEval is
told to send no usage data: nothing leaves the machine but the calls the metric itself makes.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from goldless.errors import MetricError
from goldless.text_items import ItemScore, TextItem
from goldless.user_metrics.failures import traceback_lines
from goldless.user_metrics.functions import scores_of
from goldless.user_metrics.item_rows import fields
from goldless.user_metrics.returned_values import number_score, shown
from goldless.user_metrics.source_objects import SourceObject, load_object, missing_package
from goldless.user_metrics.worker import finished, outcomes

CASES = "deepeval.test_case"
QUIET = {"_show_indicator": False, "_log_metric_to_confident": False}
"""Arguments of DeepEval's own metrics: no progress display, and no upload."""


class DeepEvalMetric:
    """A DeepEval metric as a metric."""

    unit = "score"
    """Whatever the metric's numbers are in, mostly 0 to 1."""

    @staticmethod
    def source(place: str, *, name: str) -> SourceObject:
        """Load the metric, or the class or function that makes it; DeepEval itself comes first."""
        os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
        try:
            importlib.import_module(CASES)
        except ModuleNotFoundError as error:
            raise missing_package(error.name or "deepeval", name) from error
        version = getattr(importlib.import_module("deepeval"), "__version__", "unknown")
        return load_object(place, metric=name).with_settings(shim=f"deepeval {version}")

    def __init__(self, source: SourceObject, *, name: str, timeout_seconds: float | None = None) -> None:
        """Make the metric where the source is a class or function."""
        self._case = importlib.import_module(CASES).LLMTestCase
        self._metric = _made(source.object, name)
        self._busy = threading.Lock()
        self.name = name
        """As it was asked for."""
        self.settings: Mapping[str, str] = source.settings
        """Which metric, and which version of its source and of DeepEval."""
        self._timeout_seconds = timeout_seconds

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order; what the metric cannot measure is missing, with the reason."""
        ended = await outcomes(
            [partial(self._measure, item) for item in items],
            name=self.name,
            asynchronous=False,
            timeout_seconds=self._timeout_seconds,
        )
        return scores_of(self.name, items, ended, number_score)

    def _measure(self, item: TextItem) -> Any:
        case = self._case(**case_fields(item))
        with self._busy:  # two runs in one process share the object
            # what the last response left behind must not pass for this one's
            self._metric.score = None
            self._metric.error = None
            return self._found(self._returned(case))

    def _returned(self, case: Any) -> Any:
        measure = getattr(self._metric, "measure", None)
        if measure is not None:
            with contextlib.suppress(NotImplementedError):
                return finished(_call_quietly(measure, case))
        return finished(_call_quietly(self._metric.a_measure, case))

    def _found(self, returned: Any) -> Any:
        if self._metric.error:
            raise RuntimeError(str(self._metric.error))
        return returned if self._metric.score is None else self._metric.score


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


def _made(found: Any, name: str) -> Any:
    """A metric object: the one named, or what the class or function named makes without arguments."""
    metric = found
    if inspect.isclass(found) or not (hasattr(found, "measure") or hasattr(found, "a_measure")):
        if not callable(found):
            raise MetricError(
                f"{name!r} is {shown(found)}; name a DeepEval metric, or a class or function that makes one"
            )
        try:
            metric = found()
        except Exception as error:
            raise MetricError(
                f"{name!r} cannot be made without arguments; name a metric that is made already, or a function that "
                f"makes it:\n{traceback_lines(error)}"
            ) from error
    if not callable(getattr(metric, "measure", None)) and not callable(getattr(metric, "a_measure", None)):
        raise MetricError(f"{name!r} gives {shown(metric)}, which has neither measure nor a_measure")
    return metric


def _call_quietly(measure: Any, case: Any) -> Any:
    try:
        taken = inspect.signature(measure).parameters
    except (TypeError, ValueError):
        taken = {}  # type: ignore[assignment]
    return measure(case, **{name: value for name, value in QUIET.items() if name in taken})
