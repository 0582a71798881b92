"""The package as it is given away: built, installed into a new environment outside the clone, and run."""

from __future__ import annotations

import configparser
import contextlib
import email
import importlib.metadata
import importlib.util
import os
import sqlite3
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import goldless
from goldless.models.cache import default_journal
from tests.support.paths import ROOT

USERS_JOURNAL = default_journal()
"""Of whoever runs the tests; read only."""
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="installed without the project")


def run(*words: object, cwd: Path, **changed: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | changed
    ended = subprocess.run(list(map(str, words)), check=False, capture_output=True, text=True, cwd=cwd, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """The source distribution, built from the clone."""
    pytest.importorskip("hatchling", reason="builds the package: pip install hatchling")
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder, cwd=ROOT)
    return folder / f"goldless-{goldless.__version__}.tar.gz"


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory) -> Path:
    """The wheel, built from the unpacked source distribution as pip does it."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    source = folder / f"goldless-{goldless.__version__}"
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=source)
    return folder / f"goldless-{goldless.__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory) -> Path:
    """The commands of a new environment with the wheel; what goldless depends on is that of these tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--ignore-installed")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=folder)
    return folder / "bin"


@pytest.mark.slow
def test_the_wheel_has_types_data_and_pages_and_the_tests_are_in_the_sources_only(wheel, sdist):
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    wanted = {name for name in tracked if "__pycache__" not in name and not name.endswith(".pyc")}
    assert wanted - inside == set()
    assert "goldless/py.typed" in inside
    assert not [name for name in inside if name.startswith("tests/")]
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/conftest.py", "docs/index.md", "Makefile", "constraints.txt", "CITATION.cff", "LICENSE"} <= sources


@pytest.mark.slow
def test_the_wheel_has_the_command_and_the_plugin_for_inspect(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        found = configparser.ConfigParser()
        found.read_string(archive.read(name).decode())
    assert found["console_scripts"]["goldless"] == "goldless.cli:main"
    assert found["inspect_ai"]["goldless"] == "goldless.inspect_plugin"


@pytest.mark.slow
def test_the_package_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(archive.read(name))
    assert (said["Name"], said["Version"]) == ("goldless", goldless.__version__)
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"


@pytest.mark.nightly
def test_outside_a_clone_the_command_says_its_version(installed, tmp_path):
    assert run(installed / "goldless", "--version", cwd=tmp_path) == f"goldless {goldless.__version__}\n"
    where = run(installed / "python", "-c", "import goldless; print(goldless.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)


@pytest.mark.nightly
@pytest.mark.timeout(1800)  # some minutes of two cores, seconds after make demo
def test_outside_a_clone_the_demo_ranks_the_sample(installed, embedded_file, tmp_path):
    journal = tmp_path / "journal.sqlite"
    if USERS_JOURNAL.exists():  # what make demo computed with the same model is not computed again
        known = sqlite3.connect(f"file:{USERS_JOURNAL}?mode=ro", uri=True)
        with closing(known), closing(sqlite3.connect(journal)) as copy:
            known.backup(copy)
    said = run(installed / "goldless", "demo", "--out", "demo", "--journal", str(journal), cwd=tmp_path)
    assert "careful" in said
    rows = (tmp_path / "demo" / "leaderboard.csv").read_text(encoding="utf-8").splitlines()
    agents = [row.split(",")[2] for row in rows[1:7]]
    assert set(agents[:3]) == {"careful", "solid", "brief"}
    assert rows[1].startswith("shared-info,1,")


# --- one version, one address --------------------------------------------------------------------------------------


def address_script():
    specification = importlib.util.spec_from_file_location("address", ROOT / ".ci" / "address.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="installed without .ci")
def test_no_page_names_another_address_than_that_of_the_project():
    module = address_script()
    named = [
        (path.name, word)
        for path in module.files()
        for word in path.read_text(encoding="utf-8").replace("(", " ").replace('"', " ").split()
        if word.startswith("https://github.com/") and "/goldless" in word
    ]
    assert [(name, word) for name, word in named if not word.startswith(module.address() or "no address yet")] == []


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="installed without .ci")
def test_an_address_is_written_once_into_each_place_and_then_replaced(tmp_path):
    module = address_script()
    for path in module.files():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    for new in ("https://github.com/first/goldless", "https://github.com/second/goldless"):
        for path, text in module.with_address(tmp_path, new).items():
            path.write_text(text, encoding="utf-8")
        assert module.address(tmp_path) == new
        assert yaml.safe_load((tmp_path / "CITATION.cff").read_text(encoding="utf-8"))["repository-code"] == new
    assert [path for path in module.files(tmp_path) if "first/goldless" in path.read_text(encoding="utf-8")] == []


def test_the_citation_names_the_present_version_and_address():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == goldless.__version__
    assert len(cited["references"]) == 4


def test_the_newest_entry_of_the_changelog_is_the_present_version():
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    assert headings[0].split()[1] in {goldless.__version__, "Unreleased"}


CONSTRAINTS = ROOT / "constraints.txt"
OLDEST = "3.11.0"


@pytest.mark.skipif(not CONSTRAINTS.exists(), reason="installed without the repository")
def test_every_pinned_version_runs_on_the_oldest_python():
    pinned = [Requirement(line) for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    allowed = {}
    for pin in pinned:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # of an extra that is not installed
            found = importlib.metadata.metadata(pin.name)
            if pin.specifier.contains(found["Version"]):
                allowed[pin.name] = SpecifierSet(found.get("Requires-Python") or "")
    assert len(allowed) > 50
    assert [name for name, versions in allowed.items() if OLDEST not in versions] == []
