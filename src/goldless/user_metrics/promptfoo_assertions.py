"""``promptfoo:FILE.py[:FUNCTION]``: a Python assertion of promptfoo as a metric.

The function is called as ``get_assert(output, context)`` and returns what promptfoo takes: a truth value (1 or 0), a
number, or a mapping with ``pass``, ``score`` and ``reason``, whose score counts. A threshold of promptfoo's
configuration is not applied: it would turn the score into a verdict.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from goldless.errors import MetricError
from goldless.text_items import ItemScore, TextItem
from goldless.user_metrics.functions import is_asynchronous, scores_of
from goldless.user_metrics.item_rows import fields
from goldless.user_metrics.returned_values import number_score, parsed_number, shown
from goldless.user_metrics.source_objects import SourceObject, load_object
from goldless.user_metrics.worker import outcomes

DEFAULT_FUNCTION = "get_assert"


class PromptfooAssertion:
    """A promptfoo assertion as a metric."""

    unit = "score"
    """Whatever the assertion's numbers are in; truth values are 1 and 0."""

    @staticmethod
    def source(place: str, *, name: str) -> SourceObject:
        """Load the assertion; ``place`` is FILE.py or FILE.py:FUNCTION, with or without promptfoo's ``file://``."""
        place = place.removeprefix("file://")
        loaded = load_object(f"{place}:{DEFAULT_FUNCTION}" if place.endswith(".py") else place, metric=name)
        return loaded.with_settings(shim="promptfoo")

    def __init__(self, source: SourceObject, *, name: str, timeout_seconds: float | None = None) -> None:
        """Check that the assertion takes what promptfoo gives it."""
        if not callable(source.object):
            raise MetricError(f"{name!r} is {shown(source.object)}, not a function")
        try:
            inspect.signature(source.object).bind("output", {})
        except TypeError as error:
            raise MetricError(f"{name!r} cannot be called as {DEFAULT_FUNCTION}(output, context): {error}") from error
        self.name = name
        """As it was asked for."""
        self.settings: Mapping[str, str] = source.settings
        """Which function, and which version of its source."""
        self._function = source.object
        self._timeout_seconds = timeout_seconds

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order; what the assertion cannot score is missing, with the reason."""
        ended = await outcomes(
            [partial(self._function, item.text, assertion_context(item)) for item in items],
            name=self.name,
            asynchronous=is_asynchronous(self._function),
            timeout_seconds=self._timeout_seconds,
        )
        return scores_of(self.name, items, ended, grade)


def assertion_context(item: TextItem) -> dict[str, Any]:
    """What promptfoo tells an assertion, as far as a study knows it; the task's other columns are variables too."""
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
    """The score in what an assertion returned; promptfoo takes numbers and truth values as text too."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        if isinstance(value.get("score"), bool) or "score" not in value:
            return ItemScore(None, f"returned {shown(dict(value))}, which has no number as 'score'")
        return number_score(value["score"])
    if isinstance(value, str):
        word = value.strip().lower()
        value = {"true": True, "false": False}.get(word, parsed_number(word))
        if value is None:
            return ItemScore(None, f"returned the text {shown(word)}, which is no number and no truth value")
    if value is None:
        return ItemScore(
            None, "returned nothing; an assertion returns a truth value, a number or {pass, score, reason}"
        )
    return ItemScore(float(value)) if isinstance(value, bool) else number_score(value)
