"""Files as people have them: chats in place of texts, other names of columns, a folder with one table of answers."""

from __future__ import annotations

import json

import polars as pl
import pytest

from goldless.errors import StudyError
from goldless.records import Response, Task
from goldless.studies import read_study, study_from_frame
from tests.support.study_files import write_rows


def chat(*said):
    return [{"role": role, "content": text} for role, text in said]


ASKED = chat(("user", "Why?"), ("assistant", "Because."))
LONG = chat(("system", "Be brief."), ("user", "Why?"), ("assistant", "So."), ("user", "Really?"), ("assistant", "Yes."))
SHAREGPT = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because."}]
PARTS = chat(("user", [{"type": "text", "text": "Why?"}]), ("assistant", [{"type": "text", "text": "Because."}]))


@pytest.mark.parametrize(
    "given", [ASKED, json.dumps(ASKED), SHAREGPT, PARTS], ids=["list", "json", "sharegpt", "parts"]
)
def test_a_chat_is_its_last_answer_and_the_turns_before_are_the_prompt(tmp_path, given):
    study = read_study(write_rows(tmp_path / "chats.jsonl", [{"task": "t", "agent": "a", "text": given}]))
    assert list(study) == [(Task("t", "Why?"), (Response("t", "a", "Because."),))]
    assert "texts are chats" in study.origin.notes[-1]


def test_earlier_turns_keep_their_roles_and_a_prompt_of_its_own_is_kept(tmp_path):
    rows = [{"task": "t", "agent": "a", "messages": LONG}, {"task": "u", "agent": "a", "messages": LONG, "prompt": "p"}]
    study = read_study(write_rows(tmp_path / "chats.jsonl", rows))
    assert study.response("t", "a").text == "Yes."
    assert study.task("t").prompt == "system: Be brief.\n\nuser: Why?\n\nassistant: So.\n\nuser: Really?"
    assert study.task("u").prompt == "p"


def test_chats_in_parquet_and_frames_are_read_too(tmp_path):
    frame = pl.DataFrame([{"task": "t", "agent": "a", "text": ASKED}])
    frame.write_parquet(tmp_path / "chats.parquet")
    for study in (read_study(tmp_path / "chats.parquet"), study_from_frame(frame)):
        assert (study.response("t", "a").text, study.task("t").prompt) == ("Because.", "Why?")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (chat(("user", "Why?")), "2: text must be a response, got a chat without a turn of the assistant"),
        (["Because."], r"2: text must be a string, got list \['Because.'\]"),
        ({"answer": "Because."}, "2: text must be a string, got dict"),
    ],
)
def test_what_is_no_response_is_refused_and_never_scored_as_json(tmp_path, text, said):
    rows = [{"id": "t", "model": "a", "output": "fine"}, {"id": "t", "model": "b", "output": text}]
    path = write_rows(tmp_path / "odd.jsonl", rows)
    for options in ({}, {"columns": {"task": "id", "agent": "model", "text": "output"}}):
        with pytest.raises(StudyError, match=said):
            read_study(path, **options)


@pytest.mark.parametrize(
    ("header", "task"),
    [
        ("id,model,response,question", "1"),
        ("Question,Model Name,answer,category", "Why?"),
        ("question,reply,who", "Why?"),
    ],
)
def test_other_common_names_of_columns_are_taken_with_a_note(tmp_path, header, task, goldless):
    names = {"id": "1", "question": "Why?", "Question": "Why?", "model": "a", "Model Name": "a", "who": "a"}
    row = ",".join(names.get(column, "x") for column in header.split(","))
    (tmp_path / "answers.csv").write_text(f"{header}\n{row}\n")
    study = read_study(tmp_path / "answers.csv")
    assert list(study) == [(Task(task, "Why?"), (Response(task, "a", "x"),))]
    assert "note: answers.csv: columns are read as task=" in goldless("study", "check", tmp_path / "answers.csv").err


@pytest.mark.parametrize("header", ["task,agent,text", "id,model,output"])
def test_a_folder_with_one_table_of_responses_under_another_name_is_read(tmp_path, header):
    (tmp_path / "answers.csv").write_text(f"{header}\nt,a,x\n")
    study = read_study(tmp_path)
    assert study.response("t", "a").text == "x"
    assert "answers.csv" in study.origin.notes[0]


def test_a_folder_with_several_tables_of_responses_says_what_to_do(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"task,agent,text\nt,{name},x\n")
    with pytest.raises(StudyError, match=r"no table named responses, but a\.csv, b\.csv have task, agent and text"):
        read_study(tmp_path)
