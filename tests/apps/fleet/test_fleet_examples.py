"""The scripts of the pages on fleets: whether they can be read by what runs them."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib

import pytest
import typer.main
import yaml

from goldless.apps.fleet.cluster import parse_place
from goldless.cli.main import app
from tests.support.paths import ROOT

FILES = ROOT / "docs" / "examples" / "fleet"
pytestmark = pytest.mark.skipif(not FILES.exists(), reason="installed without the docs")


def check_command(words: list[str]) -> None:
    """A verb and options that exist, and a place that is one."""
    verb = typer.main.get_command(app).get_command(None, words[1])
    known = {name for parameter in verb.params for name in parameter.opts}
    assert known.issuperset(word for word in words if word.startswith("--"))
    parse_place(words[words.index("--on") + 1])


def test_the_slurm_script_is_bash_and_runs_a_command_that_exists():
    script = FILES / "slurm.sh"
    subprocess.run(["bash", "-n", script], check=True)
    (command,) = re.findall(r"goldless score .*", script.read_text())
    check_command(shlex.split(command))


def test_the_kubernetes_file_is_a_ray_job_of_the_version_that_is_tested():
    job = yaml.safe_load((FILES / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    assert f"ray=={spec['rayVersion']}" in (ROOT / "constraints.txt").read_text().splitlines()
    pods = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    for pod in (one["template"]["spec"] for one in pods):
        assert pod["containers"][0]["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]
    words = shlex.split(job["spec"]["entrypoint"])
    check_command(words[words.index("goldless") :])


def test_the_uv_script_names_extras_that_exist():
    text = (FILES / "score_on_ray.py").read_text()
    header = "\n".join(re.findall(r"^# (?!/)(.*)$", text.split("# ///\n")[0], flags=re.MULTILINE))
    (needed,) = tomllib.loads(header)["dependencies"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"\[(.*)\]", needed)[0].split(",")) <= set(extras)
