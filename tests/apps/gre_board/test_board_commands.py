"""A public board by the command line: registered, reviewed by a program, submitted to."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from goldless.apps.gre.edition import open_edition
from tests.support.study_files import write_rows

AGENT = """
import json, sys

paper = json.load(sys.stdin)["messages"][-1]["content"]
if "p2" in paper:
    sys.exit("no tools today")
print("<summary>", paper, "</summary>")
"""


@pytest.fixture
def board(goldless, collected):
    """A registered edition of two papers."""
    ended = goldless("gre", "submit", collected, "--preregister")
    assert ended.code == 0, ended.err
    assert "unchanged" in ended.err
    return collected


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "FILE.jsonl, --name, --team missing"),
        (("r.jsonl", "--team", "Lab"), "--name missing: a submission needs FILE.jsonl, --name and --team"),
        (("r.jsonl", "--preregister"), "--preregister submits no reviews, got FILE.jsonl"),
        (("--preregister", "--name", "a", "--team", "b"), "got --name, --team"),
    ],
)
def test_a_submission_without_its_parts_or_with_a_registration_is_told(goldless, collected, words, told):
    ended = goldless("gre", "submit", collected, *words)
    assert ended.code == 2
    assert told in " ".join(ended.err.split())
    assert not (collected / "preregistration.json").exists()


def test_a_program_reviews_and_one_that_fails_leaves_its_review_open(goldless, board, tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    command = f"agent=command:{shlex.join([sys.executable, str(tmp_path / 'agent.py')])}"
    ended = goldless("gre", "review", board, "--models", command, "--journal", tmp_path / "j.sqlite")
    said = " ".join(ended.err.split())
    assert ended.code == 3, said
    assert "the program exited with status 1; standard error ends with: no tools today" in said
    assert "preregistered" in said
    study = open_edition(board).study()
    assert study.response("p1", "agent").text.startswith("Summary:\n\nThe whole of paper p1")
    assert study.response("p2", "agent") is None
    (tmp_path / "agent.py").write_text(AGENT.replace("sys.exit", "print"))
    again = goldless("gre", "review", board, "--journal", tmp_path / "j.sqlite")
    assert again.code == 0, again.err
    assert open_edition(board).study().response("p2", "agent") is not None


def test_a_submission_is_counted_and_a_bad_one_is_told_of_in_one_message(goldless, board, tmp_path):
    papers = [json.loads(line) for line in (board / "papers.jsonl").read_text().splitlines()]
    write_rows(tmp_path / "r.jsonl", [{"paper": paper["paper"], "text": paper["abstract"]} for paper in papers[:1]])
    ended = goldless("gre", "submit", board, tmp_path / "r.jsonl", "--name", "first", "--team", "Lab")
    assert ended.code == 0, ended.err
    assert "submission 1: 1 reviews" in ended.err
    assert "papers without a review: 1" in ended.err
    ended = goldless("gre", "submit", board, tmp_path / "r.jsonl", "--name", "<script>", "--team", "Lab")
    assert ended.code == 2
    assert "--name must be 1 to 64 letters" in " ".join(ended.err.split())
    assert "submitted as first by Lab" in " ".join(ended.err.split())
