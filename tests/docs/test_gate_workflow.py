"""The GitHub Actions workflow of the gate's page: its steps are run in a shell, with a toy server as the judge."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from tests.docs.page_blocks import BLOCK, free_port
from tests.support.paths import DOCS

PAGE = DOCS / "gate.md"
GH = '#!/bin/sh\necho "$@" > gh.txt\ncat "$5" >> gh.txt\n'
"""Stands for the command that comments on a pull request."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PAGE.exists(), reason="installed without the docs")]


@pytest.fixture
def judge():
    """The address of a careful judge on this machine."""
    port = free_port()
    server = subprocess.Popen([sys.executable, DOCS / "examples" / "toy_server.py", port])
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1#careful"
    finally:
        server.kill()
        server.wait()


def blocks() -> dict[str, str]:
    return {block["title"]: block["body"] for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}


def test_the_workflow_blocks_the_pull_request_and_says_so(judge, tmp_path):
    shutil.copy(DOCS / "examples" / "bot.py", tmp_path)
    (job,) = yaml.safe_load(blocks()[".github/workflows/gate.yml"])["jobs"].values()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in {"pip": "#!/bin/sh\n", "gh": GH}.items():  # nothing is installed or sent here
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    path = os.pathsep.join(map(str, (tools, Path(sys.executable).parent, os.environ["PATH"])))
    given = {"JUDGE": judge, "PR": "17", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "PATH": path}
    assert {"JUDGE", "PR"} <= set(job["env"])
    codes = {}
    for step in job["steps"]:
        if "run" in step and (step.get("if") == "always()" or not any(codes.values())):
            shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            codes[step.get("name", "install")] = subprocess.run(
                shell, cwd=tmp_path, env={**os.environ, **given}, capture_output=True, check=False
            ).returncode
    assert codes == {"install": 0, "Answer with both versions": 0, "Judge": 0, "Gate": 6, "Show the verdict": 0}
    assert "BLOCK: v2 in place of v1" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    said = (tmp_path / "gh.txt").read_text(encoding="utf-8")
    assert said.startswith("pr comment 17 --body-file gate.md\n")
    assert "0 of 60 verdicts flipped" in said
    suite = ET.parse(tmp_path / "gate.xml").getroot().find("testsuite")
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
