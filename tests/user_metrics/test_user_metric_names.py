"""The forms in which a metric that is not ours is named."""

from __future__ import annotations

import re

import pytest

from goldless.errors import MetricError
from goldless.user_metrics.catalogue import USER_METRICS, find_user_metric


@pytest.mark.parametrize("name", ["gem-raw", "rouge-l[reference]", "", "Python:a:b", "pythonx:a:b", "wins[table:x]"])
def test_a_name_of_another_form_is_none_of_these(name):
    assert find_user_metric(name) is None


@pytest.mark.parametrize("form", USER_METRICS)
def test_a_form_that_names_nothing_is_refused_with_the_form(form):
    with pytest.raises(MetricError, match=re.escape(f"Write {form}")):
        find_user_metric(form.partition(":")[0] + ": ")


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_is_above_zero_and_finite(limit):
    with pytest.raises(MetricError, match="timeout must be"):
        find_user_metric("command:true", timeout_seconds=limit)
