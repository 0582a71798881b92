"""Scorers of Inspect as metrics: with stand-ins for its classes, and with the package itself where it is there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import anyio
import pytest

from goldless.apps.foreign_metrics.inspect import read_inspect_score
from goldless.errors import MetricError
from goldless.records import ItemScore, Task, TextItem
from goldless.user_metrics import find_user_metric

ITEMS = [
    TextItem(Task("t", "q?", reference="two words"), "ann", "two words", {"bob": "x"}),
    TextItem(Task("u", "r?"), "ann", "x y z", {"bob": "x", "cy": "y"}),
]

SCORERS = """
from types import SimpleNamespace as Score

def has_target():
    async def score(state, target):
        return Score(value="C" if target.text in state.output.completion else "I")
    return score

async def targets(state, target):
    assert state.input == {"t": "q?", "u": "r?"}[state.sample_id]
    assert [message.content for message in state.messages] == [state.input, state.output.completion]
    return Score(value=len(target))

class Object:
    async def __call__(self, state, target):
        return Score(value=state.metadata["agent"] == "ann")

instance = Object()
def failing():
    async def score(state, target):
        raise TimeoutError("no grader")
    return score
def needs(threshold): ...
def none(): ...
nothing = 3
"""


class Target(list):
    """As Inspect's: a sequence of texts, with all of them as one."""

    def __init__(self, target) -> None:
        super().__init__([target] if isinstance(target, str) else target)

    @property
    def text(self) -> str:
        return "".join(self)


class Output(SimpleNamespace):
    @classmethod
    def from_content(cls, model: str, content: str) -> Output:
        return cls(model=model, completion=content)


@pytest.fixture
def scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes the metric of a name in the file above, with stand-ins for the package."""
    parts = {
        "inspect_ai": {"__version__": "0.0"},
        "inspect_ai.model": {
            "ModelName": str,
            "ModelOutput": Output,
            "ChatMessageUser": SimpleNamespace,
            "ChatMessageAssistant": SimpleNamespace,
        },
        "inspect_ai.scorer": {"Target": Target},
        "inspect_ai.solver": {"TaskState": SimpleNamespace},
    }
    for name, content in parts.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    (tmp_path / "mine.py").write_text(SCORERS)
    return lambda name: find_user_metric(f"inspect:{tmp_path}/mine.py:{name}")


def scores(metric) -> list[ItemScore]:
    return anyio.run(metric.scores, ITEMS)


def test_a_function_that_makes_a_scorer_is_called_and_its_letters_are_numbers(scorer):
    assert scores(scorer("has_target")) == [ItemScore(1.0), ItemScore(0.0)]


def test_the_target_is_the_tasks_reference_or_else_the_peers_texts(scorer):
    metric = scorer("targets")
    assert scores(metric) == [ItemScore(1.0), ItemScore(2.0)]
    assert metric.settings["target"] == "reference, else peers"


@pytest.mark.parametrize(
    ("value", "score"),
    [
        # inspect_ai.scorer.value_to_float gives these numbers
        ("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), ("yes", 1.0), ("False", 0.0), ("0.3", 0.3),
        (True, 1.0), (False, 0.0), (3, 3.0), (0.25, 0.25),
        # one number among names
        ({"f1": 0.75}, 0.75), (["C"], 1.0),
    ],
)  # fmt: skip
def test_values_are_read_as_inspect_reads_them(value, score):
    assert read_inspect_score(SimpleNamespace(value=value)) == ItemScore(score)


@pytest.mark.parametrize("value", ["maybe", {"a": 1, "b": 2}, [], {"a": None, "b": 1}, float("inf"), "nan", object()])
def test_values_that_are_no_one_number_are_problems(value):
    found = read_inspect_score(SimpleNamespace(value=value))
    assert found.score is None
    assert found.problem


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("failing", r"(?s)none of the 2 responses could be scored.*TimeoutError: no grader"),
        ("needs", "cannot be called without arguments"),
        ("none", "which is not an Inspect scorer"),
        ("nothing", "which is not an Inspect scorer"),
    ],
)
def test_what_is_no_scorer_or_fails_on_all_is_refused(scorer, name, said):
    with pytest.raises(MetricError, match=said):
        scores(scorer(name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="inspect_ai is not installed")
def test_scorers_of_the_package_itself_give_their_scores():
    # includes: the target stands in the output. f1 with the better of the targets x and y: 2 * 1/3 * 1 / (1/3 + 1)
    assert scores(find_user_metric("inspect:inspect_ai.scorer:includes")) == [ItemScore(1.0), ItemScore(1.0)]
    assert scores(find_user_metric("inspect:inspect_ai.scorer:f1")) == [ItemScore(1.0), ItemScore(0.5)]
