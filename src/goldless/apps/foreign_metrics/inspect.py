"""Scorers of Inspect."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from goldless.records import ItemScore, TextItem
from goldless.user_metrics import CallMetric, MetricForm, import_tool, load_instance, shown, value_score

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Words that Inspect reads as numbers."""


def _inspect_scorer(place: str, name: str) -> CallMetric:
    shim, models, scorers, solvers = import_tool("inspect_ai", name, "model", "scorer", "solver")
    what = "an Inspect scorer: async score(state, target) -> Score"
    scorer, settings = load_instance(place, name, what, inspect.iscoroutinefunction)

    def scored(item: TextItem) -> Any:
        """The response is the state of a sample after the model's answer."""
        # an empty target would be found in every response
        target = scorers.Target(list(item.peers.values()) if item.task.reference is None else item.task.reference)
        prompt, known = item.task.prompt or "", item.fields
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

    settings |= {"shim": shim, "target": "reference, else peers"}
    return CallMetric(name=name, settings=settings, call=scored, read=read_inspect_score)


def read_inspect_score(value: Any) -> ItemScore:
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
    return value_score(found, _GRADES)


FORM = MetricForm("inspect:MODULE:SCORER", "an Inspect scorer, or a function that returns one", _inspect_scorer)
