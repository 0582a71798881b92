"""A metric's name says what is scored, given what, in which direction."""

from __future__ import annotations

import pytest

from goldless.errors import MetricError
from goldless.metrics.catalogue import METRICS, find_metric


@pytest.mark.parametrize("form", METRICS)
def test_every_form_that_is_listed_is_known(form):
    name = form.replace("COLUMN", "abstract").replace("TABLE", "with_context")
    metric = find_metric(name)
    assert metric.name == name
    assert metric.unit


def test_gem_s_names_its_synopsis_with_or_without_the_columns_prefix():
    assert find_metric("gem-s[abstract]").synopsis == "abstract"
    assert find_metric("gem-s[synopsis_abstract]").synopsis == "abstract"


@pytest.mark.parametrize("name", ["gem-s[]", "gem[abstract]", "tvd-mi[both]", "judge", "mi[x]", "", "gem-s[a"])
def test_what_is_not_a_metric_is_refused_with_what_is_meant_or_all_that_are(name):
    with pytest.raises(MetricError, match=r"unknown metric.*goldless list metrics describes all") as caught:
        find_metric(name)
    assert "Did you mean" in str(caught.value) or all(form in str(caught.value) for form in METRICS)


def test_gem_s_without_a_synopsis_asks_for_one():
    with pytest.raises(MetricError, match=r"needs the name of a synopsis. Try gem-s\[abstract\]"):
        find_metric("gem-s")
