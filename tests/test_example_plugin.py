"""The example package is installed as a stranger would, and its metric, model and perturbation are used by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from goldless.plugins import plugins
from tests.support.paths import DOCS

PLUGIN = DOCS / "examples" / "plugin"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PLUGIN.exists(), reason="installed without the docs")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder that the package is installed into."""
    pytest.importorskip("hatchling", reason="builds the example package: pip install hatchling")
    target = tmp_path_factory.mktemp("installed")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(PLUGIN)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


@pytest.fixture
def run(installed: Path, goldless, monkeypatch):
    """Runs goldless with the package installed."""
    monkeypatch.syspath_prepend(installed)
    plugins.cache_clear()
    yield goldless
    plugins.cache_clear()


def test_what_it_adds_is_listed(run):
    listed = json.loads(run("list", "plugins", "--format", "json").out)
    text = json.dumps(listed)
    assert all(name in text for name in ("mutual-trust", "echo", "shouting", "goldless-example-plugin"))
    assert "echo:WEIGHT" in run("list", "models").out


def test_its_metric_asks_its_model_for_log_probabilities_and_verdicts(run, study_file):
    """The agent that answers another task shares no words with anybody, so both ranks put it last."""
    ended = run(
        *(
            "score",
            study_file(),
            "--metric",
            "mutual-trust",
            "--scorer",
            "echo:0.5",
            "--critic",
            "echo:0.5",
            "--format",
            "json",
        )
    )
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    board = found["metrics"]["mutual-trust"]
    assert board["unit"] == "mean rank"
    assert set(found["models"]) == {"scorer", "critic"}
    assert [row["agent"] for row in board["rows"]][-1] == "cy"
    assert "echo:0.5" in board["signature"]


def test_its_verb_is_a_command_with_its_own_options(run, study_file):
    assert "Show how long each agent's responses are." in run("--help").out
    ended = run("lengths", study_file(), "--format", "json")
    assert ended.code == 0, ended.err
    assert set(json.loads(ended.out)["characters"]) == {"ann", "bob", "cy"}
    refused = run("lengths", study_file(), "--at-least", "0")
    assert (refused.code, "--at-least must be a whole number of at least 1, got 0" in refused.err) == (2, True)


def test_its_model_refuses_a_weight_that_is_none(run, study_file):
    ended = run("score", study_file(), "--metric", "gem-raw", "--scorer", "echo:2")
    assert ended.code == 2
    assert "must have a weight between 0 and 1, got '2'" in ended.err


def test_its_perturbation_is_crash_tested(run, study_file):
    ended = run("crashtest", study_file(), "--metric", "length", "--perturbation", "shouting", "--format", "json")
    (row,) = json.loads(ended.out)["metrics"]["length"]["perturbations"]
    assert (row["perturbation"], row["kind"]) == ("shouting", "manipulation")
    assert row["mean_before"] == row["mean_after"]
