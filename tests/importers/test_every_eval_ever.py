"""Every Eval Ever: a file that follows its published schema 0.3.0, written by hand because no tool here writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goldless.errors import StudyError
from goldless.studies import read_study

FILE = Path(__file__).parent / "files" / "every_eval_ever" / "colours_samples.jsonl"


def test_single_turns_conversations_and_errors():
    study = read_study(FILE)
    assert study.origin.importer == "every_eval_ever"
    assert study.tasks == ("colours/0", "colours/1", "colours/2")
    assert study.task("colours/1").prompt == "Which colour has fresh grass?"
    assert study.task("colours/2").reference == "red"
    assert study.response("colours/0", "lab/hasty").text == "blue"
    assert study.response("colours/2", "lab/careful").text == "Red."  # the last turn, without its reasoning
    assert study.response("colours/2", "lab/hasty") is None
    assert study.table("imported")["message"].drop_nulls().to_list() == ["timeout"]
    assert study.table("scores").filter(agent="lab/hasty")["score"].to_list() == [1.0, 1.0]
    assert study.origin.notes == ("2 samples have several references; the first is used",)


def test_aggregates_have_no_responses(tmp_path):
    path = tmp_path / "uuid.json"
    path.write_text(json.dumps({"evaluation_id": "x", "source_metadata": {}, "evaluation_results": []}))
    with pytest.raises(StudyError, match=r"aggregate results without responses. Give the .jsonl"):
        read_study(path)
