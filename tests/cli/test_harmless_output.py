"""Names from data do nothing: no formula in a spreadsheet, no control sequence or reversed text on a terminal."""

from __future__ import annotations

import csv
import io
import json
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.reports.formats import guarded, guarded_frame, unguarded
from goldless.reports.run_folder import RunFolder
from tests.support.study_files import write_rows

FORMULAS = ("=cmd|'/C calc'!A0", "@SUM(1+1)", "+1+1", "-2+3", "\uff1d1+1", "'=1")
OBEYED = "\x1b]0;owned\x07\x9b31m\u202etxt"
STARTS = ("=", "+", "-", "@", "\t", "\r", "\uff1d")


@pytest.fixture
def study(tmp_path):
    """Two tasks, agents with hostile names."""
    names = [*FORMULAS, f"bob{OBEYED}"]
    rows = [
        {"task": t, "agent": a, "text": "word " * (i + n + 1)} for n, t in enumerate("pq") for i, a in enumerate(names)
    ]
    return write_rows(tmp_path / "answers.jsonl", rows)


def scored(study, *more):
    return ("score", study, "--metric", "length", "--resamples", 200, *more)


def test_no_cell_of_any_csv_is_a_formula_and_names_are_read_back_as_they_were(goldless, study, tmp_path):
    run = tmp_path / "run"
    assert goldless(*scored(study, "--out", run)).code == 0
    files = [run / "leaderboard.csv", run / "response_scores.csv", tmp_path / "wide.csv"]
    assert goldless("export", "csv", run, "--out", files[2]).code == 0
    texts = [path.read_text() for path in files] + [goldless(*scored(study), "--format", "csv").out]
    for text in texts:
        cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
        assert "'=cmd|'/C calc'!A0" in cells
        assert [cell for cell in cells if cell.startswith(STARTS) and not cell[1:2].isdigit()] == []
    assert set(RunFolder(run).scores["agent"]) == {*FORMULAS, f"bob{OBEYED}"}
    assert goldless("agree", study, "--scores", run / "response_scores.csv").err.count("is not in") == 0


@pytest.mark.parametrize("form", ["rich", "csv", "json", "markdown", "latex"])
def test_a_terminal_gets_no_control_sequences_and_no_reversed_text(goldless, study, monkeypatch, form):
    real = sys.stdout
    monkeypatch.setattr(type(real), "isatty", lambda _: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    shown = goldless(*scored(study), "--format", form)
    assert shown.code == 0
    assert "bob" in shown.out
    assert [ch for ch in shown.out + shown.err if not ch.isprintable() and ch != "\n"] == []


def test_json_has_the_same_names_though_they_are_escaped(goldless, study):
    board = json.loads(goldless(*scored(study), "--format", "json").out)
    assert json.dumps(f"bob{OBEYED}") in json.dumps(board)


@pytest.mark.parametrize(
    ("form", "printed"),
    [("rich", [b"caf\xe9", rb"\u96ea\U0001f600"]), ("json", [rb"caf\u00e9", rb"\u96ea\ud83d\ude00"])],
)
def test_characters_that_the_output_has_no_code_for_are_escaped(goldless, study_file, monkeypatch, form, printed):
    """Snow and a face, on a terminal of western Europe."""
    study = study_file({t: {"caf\xe9": f"word {t}", "\u96ea\U0001f600": f"word {t}"} for t in "pq"})
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    ended = goldless(*scored(study), "--format", form)
    assert ended.code == 0, ended.err
    assert all(one in sys.stdout.buffer.getvalue() for one in printed)


@given(st.text(st.sampled_from("=+-@'\t\r1.ae")))
def test_guarding_can_be_undone_and_leaves_numbers_alone(text):
    assert unguarded(guarded(text)) == text
    frame = pl.DataFrame({"a": [text], "n": [-0.5]})
    assert guarded_frame(frame)["a"][0] == guarded(text)
    assert guarded_frame(guarded_frame(frame), unguarded).equals(frame)
    assert guarded("-0.5e-3") == "-0.5e-3"
