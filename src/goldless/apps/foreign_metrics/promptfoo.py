"""Python assertions of promptfoo."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics import CallMetric, MetricForm, load_object, shown, value_score


def _promptfoo_assertion(place: str, name: str) -> CallMetric:
    place = place.removeprefix("file://")
    function, settings = load_object(f"{place}:get_assert" if place.endswith(".py") else place, name)
    if not callable(function):
        raise MetricError(f"{name!r} must be a function, got {shown(function)}")
    try:
        inspect.signature(function).bind("output", {})
    except TypeError as error:
        raise MetricError(f"{name!r} cannot be called as get_assert(output, context): {error}") from error

    def asserted(item: TextItem) -> Any:
        """Called with promptfoo's context as far as a study has it; other task columns become variables."""
        variables = {**item.task.extra, **item.fields}
        del variables["response"]
        context = {
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
        return function(item.text, context)

    return CallMetric(name=name, settings={**settings, "shim": "promptfoo"}, call=asserted, read=read_assertion)


def read_assertion(value: Any) -> ItemScore:
    """The score in what an assertion returned: a truth value, a number, either of them as text, or a mapping.

    A threshold in promptfoo's configuration is not applied: it would turn the score into a verdict.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        if isinstance(value.get("score"), bool | str) or "score" not in value:
            return ItemScore(None, f"returned {shown(dict(value))}, in which 'score' is not a number")
        return value_score(value["score"], {})
    if value is None:
        return ItemScore(None, "returned nothing, not a truth value, a number or {pass, score, reason}")
    return value_score(value.strip() if isinstance(value, str) else value, {"true": 1.0, "false": 0.0})


FORM = MetricForm(
    "promptfoo:FILE.py[:FUNCTION]",
    "a Python assertion for promptfoo (default function: get_assert)",
    _promptfoo_assertion,
)
