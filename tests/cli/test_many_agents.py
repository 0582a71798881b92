"""Ten thousand agents are ranked in a gigabyte: nothing has a row, or an object, for every pair of them."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

AGENTS = 10_000
LARGEST = 2**30 if sys.platform == "darwin" else 2**20
"""A gigabyte in the unit of ``ru_maxrss``."""
MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu")


@pytest.mark.nightly
def test_ten_thousand_agents_are_compared_with_the_leader_in_a_gigabyte(tmp_path):
    chance = random.Random(0)
    words = [one + other for one in SYLLABLES for other in SYLLABLES]
    with (tmp_path / "study.jsonl").open("w") as study:
        for task in range(3):
            for agent in range(AGENTS):
                text = " ".join(chance.choices(words, k=chance.randint(5, 40)))
                study.write(json.dumps({"task": f"t{task}", "agent": f"agent {agent}", "text": text}) + "\n")
    command = [sys.executable, "-m", "goldless", "score", "study.jsonl", "--metric", "length", "--compare", "leader"]
    # in a process of its own, whose only child it is
    measured = [sys.executable, "-c", MEASURED, *command]
    done = subprocess.run(measured, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LARGEST
