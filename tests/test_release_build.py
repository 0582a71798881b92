"""The release is built and uploaded by code that is named by its hash, so that nobody can replace it."""

from __future__ import annotations

import re

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.paths import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
REQUIREMENTS = GITHUB / "release-requirements.txt"
pytestmark = pytest.mark.skipif(not GITHUB.exists(), reason="installed without the project")


def release_requirements() -> dict[str, list[str]]:
    """The hashes of each requirement."""
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    requirements = [line.split() for line in "\n".join(lines).replace("\\\n", " ").splitlines()]
    return {requirement: options for requirement, *options in requirements}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it(workflow):
    actions = [line.strip() for line in workflow.read_text().splitlines() if re.search(r"\buses:", line)]
    foreign = [line for line in actions if "uses: ./" not in line]
    assert foreign
    for line in foreign:
        assert re.fullmatch(r"- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_an_action_has_one_pin_in_all_workflows():
    pins = {line for workflow in WORKFLOWS for line in re.findall(r"uses: ([^.\s]\S+@\S+ # \S+)", workflow.read_text())}
    assert len({pin.split("@")[0] for pin in pins}) == len(pins)


def test_every_requirement_of_the_release_has_one_version_and_a_hash():
    requirements = release_requirements()
    assert {"build", "hatchling", "twine"} <= {Requirement(text).name for text in requirements}
    for text, options in requirements.items():
        (specifier,) = Requirement(text).specifier
        assert specifier.operator == "==", text
        assert options, text
        for option in options:
            assert re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", option), text


def test_the_package_is_built_with_nothing_but_these_requirements():
    steps = yaml.safe_load((GITHUB / "workflows" / "tests.yml").read_text())["jobs"]["package"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == [
        "pip install --require-hashes --only-binary :all: --requirement .github/release-requirements.txt",
        "python -m build --no-isolation --outdir dist",
        "python -m twine check --strict dist/*",
    ]


def test_the_pinned_build_backend_is_one_that_the_project_allows():
    project = (ROOT / "pyproject.toml").read_text()
    (backend,) = re.findall(r'requires = \["(hatchling[^"]*)"\]', project)
    (pinned,) = [Requirement(text) for text in release_requirements() if text.startswith("hatchling==")]
    (specifier,) = pinned.specifier
    assert Requirement(backend).specifier.contains(Version(specifier.version))
