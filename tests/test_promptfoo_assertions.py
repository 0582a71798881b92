"""Python assertions of promptfoo as metrics, as its documentation describes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from goldless.apps.foreign_metrics.promptfoo import read_assertion
from goldless.errors import MetricError
from goldless.records import ItemScore, Task, TextItem
from goldless.user_metrics import find_user_metric

ITEM = TextItem(
    Task("t", "What grows here?", reference="moss", synopses={"abstract": "a bog"}, extra={"topic": "bananas"}),
    "ann",
    "Yellow bananas",
    {"bob": "moss"},
)


@pytest.fixture
def assertion(tmp_path: Path):
    def make(text: str, function: str = "", before: str = ""):
        path = tmp_path / "assert.py"
        path.write_text(text)
        return find_user_metric(f"promptfoo:{before}{path}{function}")

    return make


def scores(metric) -> list[ItemScore]:
    return anyio.run(metric.scores, [ITEM])


def test_get_assert_is_called_with_output_and_context(assertion):
    text = (
        "def get_assert(output, context):\n"
        "    ok = context['vars']['topic'] in output.lower() and context['prompt'] == 'What grows here?'\n"
        "    return {'pass': ok, 'score': 0.6, 'reason': 'Looks good to me'}\n"
    )
    assert scores(assertion(text)) == [ItemScore(0.6)]


@dataclass
class GradingResult:
    """As promptfoo's documentation writes it."""

    pass_: bool
    score: float
    reason: str


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (True, 1.0),
        (False, 0.0),
        (0.4, 0.4),
        (7, 7.0),
        ("true", 1.0),
        ("False", 0.0),
        ("0.25", 0.25),
        ({"pass": False, "score": 0.75, "reason": ""}, 0.75),
        ({"pass_": True, "score": 0, "reason": ""}, 0.0),
        (GradingResult(pass_=True, score=0.5, reason="fine"), 0.5),
    ],
)
def test_a_result_is_read_as_promptfoo_reads_it(value, score):
    assert read_assertion(value) == ItemScore(score)


@pytest.mark.parametrize(
    "value", [None, "good", "nan", {"pass": True}, {"score": True}, {"score": "1"}, float("nan"), [1], {"score": None}]
)
def test_a_result_that_promptfoo_would_not_take_is_missing(value):
    assert read_assertion(value).score is None


def test_an_assertion_that_takes_other_arguments_is_refused(assertion):
    with pytest.raises(MetricError, match=r"cannot be called as get_assert\(output, context\)"):
        assertion("def get_assert(output): return 1")
    with pytest.raises(MetricError, match="has no 'get_assert'"):
        assertion("def other(output, context): return 1")
    with pytest.raises(MetricError, match="must be a function"):
        assertion("get_assert = 1")
