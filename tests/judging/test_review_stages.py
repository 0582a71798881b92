"""Review stages of apps and packages: ``--debate`` names one, and one of another shape stops nothing else."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pkgutil import resolve_name

import pytest

from goldless.errors import UserError
from goldless.judging.asking import ReviewStage
from goldless.judging.review_stages import CATALOGUE, GROUP, find_review_stage
from goldless.judging.scales import PAIRWISE
from goldless.models.scripted import ScriptedModel
from goldless.plugins import added_by_apps

MODULE = """
from goldless.judging.asking import ReviewStage

class Panel(ReviewStage):
    "A stage of another package."

def stage(model, scale):
    return ReviewStage(model, scale)
"""


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch: pytest.MonkeyPatch, installed):
    """Entry points of a module beside the test: a stage, a function, and a stage with a name of ours."""
    (tmp_path / "their_stages.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    places = {"panel": "their_stages:Panel", "function": "their_stages:stage", "C1": "their_stages:Panel"}
    installed(*(EntryPoint(name, place, GROUP) for name, place in places.items()))


def test_what_apps_add_are_review_stages_that_are_constructed_like_ours():
    for name, place in added_by_apps(GROUP).items():
        assert issubclass(resolve_name(place), ReviewStage), name
        stage = find_review_stage(name)(
            ScriptedModel(answers={}), PAIRWISE, reviewer="ann", task_description="Be kind."
        )
        assert (type(stage), stage.name) == (resolve_name(place), "ann")


def test_a_stage_of_a_package_is_found_by_its_name():
    stage = find_review_stage("panel")(ScriptedModel(answers={}), PAIRWISE, reviewer="ann", task_description="")
    assert type(stage).__name__ == "Panel"


def test_an_unknown_name_is_refused_with_the_known_ones_and_a_wrong_shape_with_the_reason():
    with pytest.raises(UserError, match=r"unknown debate 'C9'.* Known: C1, C2, C3, panel"):
        find_review_stage("C9")
    with pytest.raises(UserError, match="cannot be used: a review stage must be a subclass of ReviewStage, got <func"):
        find_review_stage("function")
    assert [plugin.failure for plugin in CATALOGUE.plugins() if plugin.name == "C1"] == [
        "the name is already used by goldless itself"
    ]
