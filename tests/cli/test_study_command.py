"""``goldless study check`` and ``show``."""

from __future__ import annotations

import json

import pytest

RESPONSES = [
    {"task": "t1", "agent": "[bold]a", "text": "four"},
    {"task": "t1", "agent": "b", "text": "sixsix \x1b[31mred"},
]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Writes rows as a study; gives its path."""
    monkeypatch.setenv("COLUMNS", "200")

    def write(rows):
        path = tmp_path / "responses.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def test_check_prints_problems_of_every_kind_on_standard_error_and_exits_with_2(goldless, study):
    ended = goldless("study", "check", study({"task": "t1", "agent": f"a{i}", "text": ""} for i in range(150)))
    assert (ended.code, ended.out) == (2, "")
    first, *lines = ended.err.splitlines()
    assert first.endswith("responses.jsonl: 150 problems")
    assert sum(line.startswith("  responses.jsonl:") for line in lines) == 11
    assert lines[10].startswith("  responses.jsonl: … and 140 more like this: text is empty")


def test_show_does_not_let_a_response_steer_the_terminal(goldless, study):
    shown = goldless("study", "show", study(RESPONSES)).out
    assert "sixsix" in shown
    assert "\x1b" not in shown
