"""``goldless crashtest``: what it prints, writes, and ends with."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap

import pytest

QUICK = ("--resamples", 200)


@pytest.mark.parametrize(("fail_on", "code"), [("fail", 5), ("never", 0)])
def test_what_ends_with_five_can_be_chosen(goldless, fail_on, code):
    asked = ("--metric", "length", "--perturbation", "elongation", "--fail-on", fail_on)
    assert goldless("crashtest", "sample", *asked, *QUICK).code == code


def test_a_result_that_is_not_shown_fails_only_where_asked_for(goldless):
    asked = ("--metric", "bleu", "--perturbation", "deletion")
    assert goldless("crashtest", "sample", *asked, *QUICK).code == 0
    assert goldless("crashtest", "sample", *asked, "--fail-on", "not-shown", *QUICK).code == 5


# --- metrics that are not ours -------------------------------------------------------------------------------------


def script(tmp_path, body):
    path = tmp_path / "metric.py"
    path.write_text(textwrap.dedent(body))
    return "command:" + shlex.join([sys.executable, str(path)])


def crash(goldless, metric, *more):
    return goldless("crashtest", "sample", "--metric", metric, "--perturbation", "elongation", *more, *QUICK)


def test_a_command_that_counts_characters_fails_elongation(goldless, tmp_path):
    metric = script(
        tmp_path,
        """
        import json, sys
        for line in sys.stdin:
            print(len(json.loads(line)["response"]))
        """,
    )
    ended = crash(goldless, metric)
    assert ended.code == 5
    assert "fail" in ended.out


def test_a_metric_that_is_not_ours_can_be_scored_too(goldless, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def words(response): return len(response.split())\n")
    ended = goldless("score", "sample", "--metric", "python:mine.py:words,length", "--json", *QUICK)
    boards = json.loads(ended.out)["metrics"]
    mine, ours = (
        {row["agent"]: row["score"] for row in boards[name]["rows"]} for name in ("python:mine.py:words", "length")
    )
    assert mine == ours
