"""``inspect:MODULE:SCORER``: a scorer of Inspect, or a function that makes one, as a metric.

Values are read as Inspect reads them: C is 1, P one half, I and N (no answer) are 0, truth values are 1 and 0. NaN is
Inspect's mark for what was not scored: missing. A mapping or list counts where it holds one value.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from goldless.errors import MetricError
from goldless.text_items import ItemScore, TextItem
from goldless.user_metrics.failures import traceback_lines
from goldless.user_metrics.functions import is_asynchronous, scores_of
from goldless.user_metrics.item_rows import fields
from goldless.user_metrics.returned_values import number_score, parsed_number, shown
from goldless.user_metrics.source_objects import SourceObject, load_object, missing_package
from goldless.user_metrics.worker import outcomes

PARTS = ("inspect_ai.model", "inspect_ai.scorer", "inspect_ai.solver")
WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
TRUTH_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class InspectScorer:
    """An Inspect scorer as a metric."""

    unit = "score"
    """Whatever the scorer's numbers are in; C, P, I and N are 1, 0.5, 0 and 0."""

    @staticmethod
    def source(place: str, *, name: str) -> SourceObject:
        """Load the scorer, or the function that makes it; Inspect itself comes first."""
        try:
            for part in PARTS:
                importlib.import_module(part)
        except ModuleNotFoundError as error:
            raise missing_package(error.name or "inspect_ai", name) from error
        version = getattr(importlib.import_module("inspect_ai"), "__version__", "unknown")
        loaded = load_object(place, metric=name)
        return loaded.with_settings(shim=f"inspect_ai {version}", target="reference, else peers")

    def __init__(self, source: SourceObject, *, name: str, timeout_seconds: float | None = None) -> None:
        """Make the scorer where the source is a function that makes one."""
        self._model, self._scorer, self._solver = map(importlib.import_module, PARTS)
        self._score = _made(source.object, name)
        self.name = name
        """As it was asked for."""
        self.settings: Mapping[str, str] = source.settings
        """Which scorer, which version of its source and of Inspect, and what its target is."""
        self._timeout_seconds = timeout_seconds

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order; what the scorer cannot score is missing, with the reason."""
        ended = await outcomes(
            [partial(self._call, item) for item in items],
            name=self.name,
            asynchronous=True,
            timeout_seconds=self._timeout_seconds,
        )
        return scores_of(self.name, items, ended, read_score)

    def _call(self, item: TextItem) -> Any:
        target = self._scorer.Target(_target(item))
        return self._score(self._state(item, target), target)

    def _state(self, item: TextItem, target: Any) -> Any:
        """The response as the state of a sample after the model has answered."""
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


def read_score(value: Any) -> ItemScore:
    """The score in what a scorer returned: its ``value``, as Inspect reads it."""
    if value is None:
        return ItemScore(None, "returned no score")
    if not hasattr(value, "value"):
        return ItemScore(None, f"returned {shown(value)} ({type(value).__name__}), which is no Score")
    found = value.value
    parts = list(found.values()) if isinstance(found, Mapping) else found
    if isinstance(parts, list | tuple):
        if len(parts) != 1:
            return ItemScore(None, f"returned {len(parts)} values, {shown(found)}; a metric gives one number")
        found = parts[0]
    if isinstance(found, float) and math.isnan(found):
        why = getattr(value, "reason", None) or getattr(value, "explanation", None) or "no reason given"
        return ItemScore(None, f"not scored: {str(why)[:300]}")
    if isinstance(found, str):
        number = WORDS.get(found, TRUTH_WORDS.get(found.lower(), parsed_number(found)))
        return number_score(number) if number is not None else ItemScore(None, f"returned the value {shown(found)}")
    return ItemScore(float(found)) if isinstance(found, bool) else number_score(found)


def _target(item: TextItem) -> str | list[str]:
    # an empty target would be found in every response
    return list(item.peers.values()) if item.task.reference is None else item.task.reference


def _made(found: Any, name: str) -> Any:
    """A scorer: the one named, or what the function named makes without arguments."""
    scorer = found
    if not callable(found):
        raise MetricError(f"{name!r} is {shown(found)}; name an Inspect scorer, or a function that makes one")
    if inspect.isclass(found) or not is_asynchronous(found):
        try:
            scorer = found()
        except Exception as error:
            raise MetricError(
                f"{name!r} cannot be made without arguments; write a function of yours that makes it:\n"
                f"{traceback_lines(error)}"
            ) from error
    if not callable(scorer):
        raise MetricError(f"{name!r} makes {shown(scorer)}, which is no scorer: async score(state, target) -> Score")
    return scorer
