"""``goldless review`` and ``goldless jury`` by the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from itertools import permutations

import openai
import pytest

from goldless.judging.scales import SCALES

TEXTS = {t: {"ann": f"good {t}", "bob": f"poor {t}", "cy": f"bad {t}"} for t in ("t1", "t2", "t3")}


@pytest.fixture
def scripted(script_file):
    """Writes a reviewer that prefers good to poor to bad, or always says one."""

    def make(kind: str) -> str:
        order = {"good": 3, "poor": 2, "bad": 1}
        rows = []
        for by in TEXTS.values():
            for first, second in permutations(by.values(), 2):
                better = order[first.split()[0]] > order[second.split()[0]]
                message = SCALES["pairwise"].messages(first, second, prompt=None)[-1]
                rows.append({"prompt": message.content, "answer": "one" if kind == "lazy" or better else "two"})
        return f"{kind}=scripted:{script_file(rows, f'{kind}.jsonl')}"

    return make


def test_nobody_passing_has_an_exit_code_of_its_own(goldless, study_file, scripted):
    ended = goldless("review", study_file(TEXTS), "--reviewers", scripted("lazy"), "--exam", "consistency")
    assert ended.code == 4
    assert "no reviewer passed" in ended.err
    assert "Exam report" in ended.out


def test_limits_are_given_for_all_traits_or_for_one(goldless, study_file, scripted):
    asked = ("review", study_file(TEXTS), "--reviewers", scripted("honest"), "--exam", "consistency")
    for given, code in (("0.9", 0), ("consistency=1.0", 4), ("consistency=none", 0)):
        assert goldless(*asked, "--threshold", given).code == code, given


def test_a_licensed_jury_answers_the_official_client(goldless, study_file, scripted, tmp_path):
    """Issued in a review, served as its own process, asked through the openai package."""
    honest = scripted("honest")
    ended = goldless(
        "review", study_file(TEXTS), "--reviewers", honest, "--exam", "consistency", "--issue", tmp_path / "licences"
    )
    assert ended.code == 0, ended.err
    (licence,) = (tmp_path / "licences").glob("*.json")
    command = [sys.executable, "-m", "goldless", "jury", f"{licence}={honest.partition('=')[2]}", "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = _listening(server)
        content = json.dumps({"question": None, "answers": ["bad t1", "good t1"]})
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            reply = client.chat.completions.create(model="jury", messages=[{"role": "user", "content": content}])
        assert json.loads(reply.choices[0].message.content)["winner"] == 1
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)


def _listening(server: subprocess.Popen) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        line = server.stderr.readline()
        found = re.search(r"http://\S+", line)
        if found:
            return found[0].rstrip("/") if found[0].rstrip("/").endswith("/v1") else found[0].rstrip("/") + "/v1"
        if server.poll() is not None:
            break
    pytest.fail(f"the jury did not listen: {server.stderr.read()}")


def test_a_licence_that_cannot_tell_how_to_reach_its_model_asks_for_that(goldless, study_file, scripted, tmp_path):
    asked = ("review", study_file(TEXTS), "--reviewers", scripted("honest"), "--exam", "consistency")
    goldless(*asked, "--issue", tmp_path / "l")
    (licence,) = (tmp_path / "l").glob("*.json")
    ended = goldless("jury", licence)
    assert ended.code == 2
    assert "Try FILE.json=gguf:PATH" in ended.err
