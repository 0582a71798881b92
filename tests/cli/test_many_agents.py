"""Ten thousand agents are ranked in a gigabyte: nothing has a row, or an object, for every pair of them."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys

import pytest

AGENTS = 10_000
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
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_maxrss < 1_000_000, "kilobytes; that of the largest child so far"
    assert after.ru_utime - before.ru_utime < 60, "about 25 on a free core"
