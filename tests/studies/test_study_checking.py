"""Problems of a study: each with its file and line, and what is allowed; all at once, and never blamed on another."""

from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goldless.errors import StudyError
from goldless.studies import read_study
from goldless.studies.checking import Problems

GOOD = {"task": "t1", "agent": "a", "text": "fine"}
RATED = {"task": "t1", "rater": "r", "agent": "a", "score": 1}
COMPARED = {"task": "t1", "rater": "r", "first": "a", "second": "b", "preference": 1}
ANSWERED = [GOOD, {**GOOD, "agent": "b"}, {"task": "t2", "agent": "b", "text": "x"}]
LATIN = b'{"task": "t1", "agent": "a", "text": "x"}\n{"task": "t2", "agent": "a", "text": "caf\xe9"}\n'
CONVERT = "if the file is in Windows-1252, convert it: iconv -f WINDOWS-1252 -t UTF-8 "

BAD_CELLS = {
    "responses": [
        ({**GOOD, "text": 5}, "text must be a string, got int 5"),
        ({**GOOD, "text": ["x"]}, "text must be a string, got list"),
        ({**GOOD, "task": ""}, "task must be a name, got an empty cell"),
        ({**GOOD, "task": None}, "task must be a name, got null"),
        ({**GOOD, "agent": "  "}, "agent must be a name, got an empty cell"),
        ({**GOOD, "agent": 1.5}, "agent must be a string or a whole number, got float 1.5"),
        ({**GOOD, "agent": True}, "agent must be a string or a whole number, got bool True"),
    ],
    "labels": [
        ({"task": "t1", "rater": "r"}, "neither a rating nor a preference"),
        ({**RATED, "first": "a"}, "both a rating and a preference"),
        ({**RATED, "score": "good"}, "score must be a finite number, got str 'good'"),
        ({**RATED, "score": True}, "score must be a finite number, got bool True"),
        ({**RATED, "score": "nan"}, "score must be a finite number, got str 'nan'"),
        ({**RATED, "score": None}, "score must be a finite number, got an empty cell"),
        ({**RATED, "rater": ""}, "rater must be a name, got an empty cell"),
        ({**COMPARED, "second": "a"}, "'a' is compared with itself"),
        ({**COMPARED, "preference": "inf"}, "preference must be a finite number, got str 'inf'"),
        ({**COMPARED, "second": None}, "second must be a name, got an empty cell"),
        ({**RATED, "task": "t2"}, "no such response"),
        ({**COMPARED, "task": "t2", "first": "b", "second": "a"}, "agent 'a' to task 't2'"),
        ({**RATED, "task": "t7"}, "task 't7' is not in responses.jsonl"),
    ],
    "agents": [
        ({"agent": "a", "parameters": "7B"}, "parameters must be a finite number, got str '7B'"),
        ({"agent": "a", "parameters": -1}, "parameters must be a positive number such as 7e9, got -1"),
        *(
            ({"agent": "a", "cutoff_date": d}, f"got {d!r}")
            for d in ("last year", "2023-02-30", "20230930", "２０２３")
        ),
        ({"agent": "a", "group": {"x": 1}}, "group must be a string or a whole number, got dict"),
    ],
}
SOUND = {"responses": GOOD, "labels": RATED, "agents": {"agent": "b"}}


@pytest.mark.parametrize(("table", "row", "words"), [(t, *case) for t, cases in BAD_CELLS.items() for case in cases])
def test_a_row_with_a_bad_cell_is_one_problem_on_its_line(folder, problems, table, row, words):
    tables = {"responses": ANSWERED, table: [SOUND[table], row]}
    ((file, line, message),) = problems(folder(**tables))
    assert (file, line) == (f"{table}.jsonl", 2)
    assert words in message


BROKEN = {
    "every table at once": (
        {
            "tasks": [{"task": "t1"}, {"task": "t2"}, {"task": "t1"}],
            "agents": [{"agent": "a"}, {"agent": "a"}],
            "responses": [GOOD, {**GOOD, "text": 5}, {**GOOD, "task": "t9"}, GOOD],
            "labels": [{"task": "t1", "rater": "r"}],
        },
        [
            ("tasks.jsonl", 3, "task 't1' is already on line 1"),
            ("agents.jsonl", 2, "agent 'a' is already on line 1"),
            ("responses.jsonl", 2, "text must be a string, got int 5"),
            ("responses.jsonl", 3, "task 't9' is not in tasks.jsonl"),
            ("responses.jsonl", 4, "a second response of agent 'a' to task 't1'; the first is on line 1"),
            ("labels.jsonl", 1, "neither a rating nor a preference"),
        ],
    ),
    "a column that no row has": (
        {"responses": [{"task": str(i), "agent": "a", "respnse": "x"} for i in range(50)]},
        [("responses.jsonl", None, "no column 'text'; the columns are 'task', 'agent', 'respnse'. Did you mean 'resp")],
    ),
    "no tasks": (
        {"tasks": [{"x": 1}], "responses": [GOOD]},
        [("tasks.jsonl", None, "no column 'task'; the columns are")],
    ),
    "no agents": ({"agents": [{"name": "a"}], "responses": [GOOD]}, [("agents.jsonl", None, "no column 'agent'; the")]),
    "names that no table lists": (
        {
            "tasks": [{"task": "t1"}],
            "agents": [{"agent": "gpt-4"}],
            "responses": [{**GOOD, "task": task, "agent": "gpt4"} for task in ("t1", "nowhere")],
        },
        [
            ("responses.jsonl", 1, "agent 'gpt4' is not in agents.jsonl (2 rows from here on). Did you mean 'gpt-4'?"),
            ("responses.jsonl", 2, "task 'nowhere' is not in tasks.jsonl"),
        ],
    ),
    "tasks that cannot be read": (
        {"tasks": '{"task": "t1"\n', "responses": [GOOD]},
        [("tasks.jsonl", 1, "not JSON: ")],
    ),
    "lines that are no objects": (
        {"responses": f'{json.dumps(GOOD)}\n{{"task": \n\n[1]\n{{"task": "t2", "agent": "a", "text": 5}}\n'},
        [
            ("responses.jsonl", 2, "not JSON: "),
            ("responses.jsonl", 4, "a line must be a JSON object, got list [1]"),
            ("responses.jsonl", 5, "text must be a string, got int 5"),
        ],
    ),
    "bytes that are not UTF-8": (
        {"responses": LATIN},
        [
            ("responses.jsonl", 2, f"byte 0xe9 at offset {LATIN.index(0xE9)} is not UTF-8"),
            ("responses.jsonl", None, f"{CONVERT}responses.jsonl > utf8-responses.jsonl"),
        ],
    ),
    "bytes of a CSV that are not UTF-8": (
        {"responses_csv": b"task,agent,text\nt1,a,caf\xe9\n"},
        [("responses.csv", 2, "byte 0xe9 at offset 24 is not UTF-8"), ("responses.csv", None, CONVERT)],
    ),
    "UTF-16": (
        {"responses_csv": ("task,agent,text\n" + "t,a,x\n" * 9).encode("utf-16")},
        [("responses.csv", 1, "the file must be UTF-8, got UTF-16. Convert it: iconv -f UTF-16")],
    ),
    "UTF-16 in JSONL": (
        {"responses": (json.dumps(GOOD) + "\n").encode("utf-16")},
        [("responses.jsonl", 1, "the file")],
    ),
    "rows that do not fit the header or never end": (
        {"responses_csv": 'task,agent,text\nt1,a,one, two\nt2,a\nt3,a,fine\nt4,a,"open\nand on\n'},
        [
            ("responses.csv", 2, "4 cells, but the header has 3"),
            ("responses.csv", 3, "2 cells, but the header has 3"),
            ("responses.csv", 5, "the quote opened in this row is never closed"),
        ],
    ),
    "nothing names a task": (
        {"agents": [{"agent": "a"}]},
        [("", None, "no table names a task. A study needs at least one")],
    ),
    "one table in two files": (
        {"tasks_csv": "task\nt1\n", "tasks": [{"task": "t1"}], "responses": [GOOD]},
        [("tasks.jsonl", None, "table is already in tasks.csv. Keep one file per table")],
    ),
    "a foreign ending and a misspelt name": (
        {"tasks": [{"task": "t1"}], "response": [GOOD], "labels_json": "[]"},
        [
            ("labels.json", None, "cannot be read; a table must be a .jsonl, .csv, .tsv or .parquet file"),
            ("response.jsonl", None, "'response' is not a table name. Did you mean 'responses'?"),
        ],
    ),
    "two prompts for one task": (
        {"responses": [{**GOOD, "prompt": "p"}, {**GOOD, "agent": "b"}, {**GOOD, "agent": "c", "prompt": "q"}]},
        [("responses.jsonl", 3, "prompt of task 't1' differs from line 1. A task has one prompt")],
    ),
    "recorded evidence": (
        {
            "responses": [GOOD],
            "judgements": '{"reviewer": "r"\n',
            "rewrites": [{"task": "t1", "agent": "a"}],
            "logprobs_csv": "task,traget\nt1,a\n",
        },
        [
            ("judgements.jsonl", 1, "not JSON"),
            ("rewrites.jsonl", None, "no column 'text'"),
            ("logprobs.csv", None, "no column 'target'; the columns are 'task', 'traget'. Did you mean 'traget'?"),
        ],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_problem_is_told_with_its_file_and_line(folder, problems, name):
    files, expected = BROKEN[name]
    found = problems(folder(**files))
    assert [(file, line) for file, line, _ in found] == [(file, line) for file, line, _ in expected]
    for (*_, message), (*_, words) in zip(found, expected, strict=True):
        assert message.startswith(words) or words in message


def test_a_path_that_holds_no_study_says_what_is_allowed(folder, problems, tmp_path):
    (tmp_path / "notes.xlsx").write_bytes(b"x")
    for path in (tmp_path / "absent", tmp_path / "notes.xlsx"):
        ((*_, message),) = problems(path)
        assert "a table must be a .jsonl, .json, .csv, .tsv or .parquet file" in message
    ((*_, message),) = problems(folder(name="bare"))
    assert "Put the responses into responses.csv, with the columns task, agent and text" in message
    assert ".jsonl, .csv, .tsv or .parquet" in message, "in a folder a .json file is no table"


def test_ten_problems_of_a_kind_are_shown_and_the_others_counted(folder):
    rows = [GOOD] + [{"task": "t1", "agent": f"a{i}", "text": 5} for i in range(10_050)] + [{**GOOD, "agent": 1.5}]
    with pytest.raises(StudyError, match="10,051 problems") as caught:
        read_study(folder(responses=rows))
    assert [problem.line for problem in caught.value.problems] == [*range(2, 12), None, 10_052]
    assert caught.value.problems[10].message.startswith("… and 10,040 more like this: text must be a string")


def test_parquet_that_is_none_or_holds_other_bytes_is_a_problem_also_in_recorded_tables(folder, problems, tmp_path):
    damaged = pa.array([b"caf\xe9"], pa.binary()).cast(pa.string(), safe=False)
    table = pa.table({"task": ["t1"], "agent": ["a"], "text": damaged})
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "none.parquet").write_bytes(b"not parquet at all")
    for name in ("one.parquet", "none.parquet"):
        ((file, _, message),) = problems(tmp_path / name)
        assert (file, message.split(":")[0]) == (name, "cannot be read")
    path = folder(responses=[GOOD])
    pq.write_table(table, path / "mine.parquet")
    with pytest.raises(StudyError, match=r"mine\.parquet: cannot be read"):
        read_study(path).table("mine")
    pl.DataFrame({"task": ["t1"], "traget": ["a"]}).write_parquet(path / "logprobs.parquet")
    assert "Did you mean 'traget'?" in problems(path)[0][2]


def test_advice_about_a_file_without_problems_of_its_own_is_said_last():
    problems = Problems()
    problems.add("is empty", "labels.csv")
    problems.advice["responses.csv"] = "convert it"
    assert [(one.file, one.message) for one in problems.error("toy").problems] == [
        ("labels.csv", "is empty"),
        ("responses.csv", "convert it"),
    ]
