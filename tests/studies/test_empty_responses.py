"""An empty answer in a table is a missing response: counted, with its row."""

from __future__ import annotations

import polars as pl
import pytest

import goldless as package
from goldless.studies import read_study, study_from_frame

TABLE = "task,agent,text\nt1,a,fine\nt1,b,\nt2,a, \nt2,b,good\n"


@pytest.mark.parametrize("nothing", ["", " \t\n", "\u3000", None])
def test_an_empty_blank_or_null_text_is_no_response_but_names_its_task_and_agent(nothing):
    rows = [{"task": "t1", "agent": "a", "text": "fine"}, {"task": "t2", "agent": "b", "text": nothing}]
    study = study_from_frame(rows)
    assert study.tasks == ("t1", "t2")
    assert [agent.agent for agent in study.agents] == ["a", "b"]
    assert study.n_responses == 1
    assert study.empty_responses.rows() == [("t2", "b", 2)]


def test_a_row_of_json_without_the_column_is_a_missing_response_too(folder):
    study = read_study(folder(responses=[{"task": "t1", "agent": "a", "text": "fine"}, {"task": "t1", "agent": "b"}]))
    assert study.empty_responses.rows() == [("t1", "b", 2)]


def test_empty_responses_are_counted_with_their_rows_and_at_most_ten_are_shown():
    rows = [{"task": f"t{i}", "agent": "a", "text": "" if i else "fine"} for i in range(13)]
    note = study_from_frame(rows).empty_responses_note
    assert note.startswith("12 responses are empty, so they are missing: row 2 (a on t1), row 3 (a on t2)")
    assert note.endswith("row 11 (a on t10) and 2 more")
    assert study_from_frame(rows[:2]).empty_responses_note == "1 response is empty, so it is missing: row 2 (a on t1)"
    assert study_from_frame(rows[:1]).empty_responses_note is None


def test_a_check_names_them_and_ends_with_1_and_a_score_goes_on(goldless, tmp_path):
    file = tmp_path / "answers.csv"
    file.write_text(TABLE)
    checked = goldless("study", "check", file)
    assert checked.code == 1
    assert "2 responses are empty, so they are missing: row 3 (b on t1), row 4 (a on t2)" in checked.err
    assert "incomplete, 2 tasks, 2 agents, 2 responses (2 missing)" in checked.out
    scored = goldless("score", file, "--metric", "length")
    assert scored.code == 0
    assert "2 responses are empty" in scored.err


def test_an_empty_response_is_not_the_shortest():
    """Lengths 1 and 3 words; the empty answers of b count as nothing."""
    frame = pl.DataFrame(
        {"task": ["t1", "t1", "t2", "t2"], "agent": ["a", "b"] * 2, "text": ["one", "", "x y z", "q r"]}
    )
    rows = package.evaluate(frame, metrics=["length"]).leaderboard("length").rows
    assert {row.agent: row.used for row in rows} == {"a": 2, "b": 1}
