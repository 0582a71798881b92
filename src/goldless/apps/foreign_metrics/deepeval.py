"""Metrics of DeepEval."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from typing import Any

from goldless.records import TextItem
from goldless.user_metrics import CallMetric, MetricForm, import_tool, load_instance

_SHOWN_OR_SENT = ("_show_indicator", "_log_metric_to_confident")
"""Arguments of DeepEval's own metrics that are set to False: no progress display, and no upload."""
_measuring = threading.Lock()  # two runs in one process share a metric, which stores its last score


def _deepeval_metric(place: str, name: str) -> CallMetric:
    """The DeepEval metric named, or what the class or function named returns, as a metric.

    It stores its last score, so responses are measured one after the other.
    """
    os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")  # nothing leaves the machine but the metric's own calls
    shim, cases = import_tool("deepeval", name, "test_case")
    metric, settings = load_instance(
        place, name, "a DeepEval metric with measure", lambda found: hasattr(found, "measure")
    )
    taken = inspect.signature(metric.measure).parameters
    quiet = {name: False for name in _SHOWN_OR_SENT if name in taken}

    def measured(item: TextItem) -> Any:
        known = item.fields
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
            try:
                returned = metric.measure(case, **quiet)
            except NotImplementedError:  # it can only be awaited
                returned = asyncio.run(metric.a_measure(case))
            if metric.error:
                raise RuntimeError(str(metric.error))
            return returned if metric.score is None else metric.score

    return CallMetric(name=name, settings={**settings, "shim": shim}, call=measured)


FORM = MetricForm(
    "deepeval:MODULE:OBJECT", "a DeepEval metric, or a class or function that returns one", _deepeval_metric
)
