"""A perturbation of another package is used by name like ours; one that is broken is told and stops nothing else."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest

from goldless.errors import UserError
from goldless.meta_evaluation.perturbations.catalogue import CATALOGUE, find_perturbation

MODULE = """
from goldless.meta_evaluation.perturbations import Perturbation, Setting, of_text


def prompted(setting: Setting):
    return lambda response: f"{setting.study.task(response.task).prompt} {response.text}"


SHOUT = Perturbation("shout", "manipulation", "a test", "all in capitals", of_text(str.upper)).with_form(
    "twice", of_text(lambda text: f"{text.upper()} {text.upper()}"), description="the same, said twice"
)
FIRST = Perturbation("first-word", "degradation", "a test", "one word is left", of_text(lambda t: t.split()[0]))
PROMPTED = Perturbation("prompted", "manipulation", "a test", "behind the task's prompt", prompted, scope="everybody")
FAILING = Perturbation("failing", "degradation", "a test", "cannot be made", of_text(lambda text: text[10_000]))
NUMBER = Perturbation("number", "degradation", "a test", "gives no text", of_text(len))
COMMA = Perturbation("one,two", "degradation", "a test", "two names", of_text(str.upper))
"""
NAMES = {
    "shout": "SHOUT",
    "first-word": "FIRST",
    "prompted": "PROMPTED",
    "failing": "FAILING",
    "number": "NUMBER",
    "comma": "COMMA",
    "text": "MODULE_DOC",
    "praise": "FIRST",
}
TEXTS = {f"t{i}": {agent: f"{agent} says {i} things. And more." for agent in ("ann", "bob")} for i in range(4)}


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch: pytest.MonkeyPatch, installed):
    """Entry points of a module beside the test."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "their_changes.py").write_text(f"MODULE_DOC = 'text'\n{MODULE}")
    monkeypatch.syspath_prepend(folder)
    installed(*(EntryPoint(name, f"their_changes:{of}", "goldless.perturbations") for name, of in NAMES.items()))


def test_a_crash_test_uses_it_by_name(goldless, study_file):
    names = "shout,shout[twice],first-word,prompted"
    ended = goldless(
        *("crashtest", study_file(TEXTS), "--metric", "length", "--perturbation", names, "--format", "json"),
        *("--resamples", "100", "--fail-on", "never"),
    )
    assert ended.code == 0
    told = json.loads(ended.out)["metrics"]["length"]
    rows = {row["perturbation"]: row for row in told["perturbations"]}
    assert {name: (row["must"], row["samples"]) for name, row in rows.items()} == {
        "shout": ("not rise", 8),
        "shout[twice]": ("not rise", 8),
        "first-word": ("fall", 8),
        "prompted": ("not rise", 8),
    }
    # "ann says 1 things. And more." has six words
    assert [rows[name]["mean_after"] for name in rows] == [6.0, 12.0, 1.0, 7.0]
    assert "|perturbations:shout+shout[twice]+first-word+prompted|" in told["signature"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("failing", "failing failed on the response of 'ann' to task 't0': IndexError: string index out of range"),
        ("number", "number must return a text or a CallFailure for the response of 'ann' to task 't0', got 28"),
    ],
)
def test_one_that_cannot_be_made_ends_with_2_and_its_name(goldless, study_file, tmp_path, name, said):
    ended = goldless("crashtest", study_file(TEXTS), "--write", tmp_path / "new", "--perturbation", name)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert not (tmp_path / "new").exists()


def test_what_has_another_shape_or_our_name_is_told_and_an_unknown_name_is_answered_with_theirs_too():
    failures = {plugin.name: plugin.failure for plugin in CATALOGUE.plugins()}
    assert failures["text"] == "a perturbation must be a Perturbation, got str"
    assert failures["comma"] == "a perturbation's name must be a word without any of [ ] , ~, got 'one,two'"
    assert failures["praise"] == "the name is already used by goldless itself"
    assert failures["shout"] is None
    assert find_perturbation("praise").description == "between generic praise"
    with pytest.raises(UserError, match=r"unknown perturbation 'shoot'. Did you mean 'shout'\?.* first-word,"):
        find_perturbation("shoot")
