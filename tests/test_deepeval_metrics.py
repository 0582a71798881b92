"""Metrics of DeepEval as metrics: with a stand-in for its test case, and with the package itself where it is there."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from goldless.errors import MetricError, PrerequisiteError
from goldless.records import ItemScore, Task, TextItem
from goldless.user_metrics import find_user_metric

ITEMS = [
    TextItem(Task("t", "q?", reference="two words", synopses={"abstract": "s"}), "ann", "two words", {"bob": "x"}),
    TextItem(Task("u"), "ann", "one", {"bob": "x"}),
]

METRICS = """
class Words:
    threshold = 0.5
    score = None
    error = None
    def measure(self, test_case, _show_indicator=True):
        assert not _show_indicator
        self.score = len(test_case.actual_output.split())
        return self.score

class Awaited:
    def measure(self, test_case):
        raise NotImplementedError
    async def a_measure(self, test_case):
        return len(test_case.actual_output.split())

class Expecting(Words):
    def measure(self, test_case):
        if test_case.expected_output is None:
            raise ValueError("'expected_output' cannot be None")
        self.score = 1.0

class Failing(Words):
    def measure(self, test_case):
        if not test_case.input:
            self.error = "no input"
        return 1.0

class Named:
    def __init__(self, name):
        pass

words = Words()
nothing = 3
def make(): return Words()
def broken(): return 3
"""


class Case:
    """As DeepEval's LLMTestCase: it takes its fields by name and refuses none it does not know."""

    def __init__(self, *, input, actual_output, expected_output, context, metadata, name) -> None:  # noqa: A002
        self.input, self.actual_output, self.expected_output = input, actual_output, expected_output
        self.context, self.metadata, self.name = context, metadata, name


@pytest.fixture
def deepeval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes the metric of a name in the file above, with a stand-in for the package."""
    package, cases = ModuleType("deepeval"), ModuleType("deepeval.test_case")
    package.__version__, cases.LLMTestCase = "0.0", Case
    monkeypatch.setitem(sys.modules, "deepeval", package)
    monkeypatch.setitem(sys.modules, "deepeval.test_case", cases)
    monkeypatch.delenv("DEEPEVAL_TELEMETRY_OPT_OUT", raising=False)
    (tmp_path / "mine.py").write_text(METRICS)
    yield lambda name: find_user_metric(f"deepeval:{tmp_path}/mine.py:{name}")
    os.environ.pop("DEEPEVAL_TELEMETRY_OPT_OUT", None)


def scores(metric) -> list[ItemScore]:
    return anyio.run(metric.scores, ITEMS)


@pytest.mark.parametrize("name", ["words", "Words", "make", "Awaited"])
def test_a_metric_a_class_and_a_function_that_makes_one_give_the_same(deepeval, name):
    assert scores(deepeval(name)) == [ItemScore(2.0), ItemScore(1.0)]


def test_what_a_metric_cannot_measure_is_missing_with_its_reason(deepeval):
    assert scores(deepeval("Expecting")) == [
        ItemScore(1.0),
        ItemScore(None, "ValueError: 'expected_output' cannot be None"),
    ]
    assert scores(deepeval("Failing"))[1] == ItemScore(None, "RuntimeError: no input")


def test_deepeval_is_told_to_send_no_usage_data(deepeval):
    deepeval("words")
    assert os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] == "YES"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Named", "cannot be called without arguments"),
        ("nothing", "which is not a DeepEval metric"),
        ("broken", "returns 3, which is not a DeepEval metric with measure"),
    ],
)
def test_what_is_no_metric_is_refused(deepeval, name, said):
    with pytest.raises(MetricError, match=said):
        deepeval(name)


def test_without_the_package_the_command_that_installs_it_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepeval", None)
    monkeypatch.setitem(sys.modules, "deepeval.test_case", None)
    with pytest.raises(PrerequisiteError, match="pip install deepeval"):
        find_user_metric("deepeval:mine:words")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(importlib.util.find_spec("deepeval") is None, reason="DeepEval is not installed")
def test_a_metric_of_the_package_itself_gives_its_score(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes into the current folder
    # ExactMatchMetric: 1 where output and expected output are equal; without an expected output it raises
    found = scores(find_user_metric("deepeval:deepeval.metrics:ExactMatchMetric"))
    assert found[0] == ItemScore(1.0)
    assert "expected_output" in found[1].problem
