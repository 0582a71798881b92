from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goldless.errors import StudyError
from goldless.studies import read_study

GOOD = {"task": "t1", "agent": "a", "text": "fine"}


def places(found):
    return [(file, line) for file, line, _ in found]


def test_all_problems_of_all_tables_come_at_once_with_file_and_line(folder, problems):
    path = folder(
        tasks=[{"task": "t1"}, {"task": "t2"}, {"task": "t1"}],
        agents=[{"agent": "a"}, {"agent": "a"}],
        responses=[GOOD, {**GOOD, "text": " \n"}, {**GOOD, "task": "t9"}, GOOD],
        labels=[{"task": "t1", "rater": "r"}],
    )
    found = problems(path)
    assert places(found) == [
        ("tasks.jsonl", 3),
        ("agents.jsonl", 2),
        ("responses.jsonl", 2),
        ("responses.jsonl", 3),
        ("responses.jsonl", 4),
        ("labels.jsonl", 1),
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({**GOOD, "text": ""}, "text is empty"),
        ({**GOOD, "text": " \t\r\n"}, "text is blank"),
        ({**GOOD, "text": None}, "text is null"),
        ({**GOOD, "text": 5}, "text must be a string, got int 5"),
        ({**GOOD, "text": ["x"]}, "text must be a string, got list"),
        ({**GOOD, "task": ""}, "task must be a name, got an empty cell"),
        ({**GOOD, "task": None}, "task must be a name, got null"),
        ({**GOOD, "agent": "  "}, "agent must be a name, got an empty cell"),
        ({**GOOD, "agent": 1.5}, "agent must be a string or a whole number, got float 1.5"),
        ({**GOOD, "agent": True}, "agent must be a string or a whole number, got bool True"),
        ({"task": "t", "agent": "b"}, "text is null"),
    ],
)
def test_a_response_with_a_bad_cell_is_a_problem_on_its_line(folder, problems, row, words):
    found = problems(folder(responses=[GOOD, row]))
    assert len(found) == 1
    assert found[0][:2] == ("responses.jsonl", 2)
    assert words in found[0][2]


def test_a_column_that_no_row_has_is_one_problem_that_suggests_the_nearest(folder, problems):
    found = problems(folder(responses=[{"task": str(i), "agent": "a", "respnse": "x"} for i in range(50)]))
    assert len(found) == 1
    assert "no column 'text'" in found[0][2]
    assert "Did you mean 'respnse'?" in found[0][2]


def test_a_duplicate_response_names_the_line_of_the_first(folder, problems):
    rows = [GOOD, {**GOOD, "agent": "b"}, GOOD, {**GOOD, "task": "t2"}, GOOD]
    found = problems(folder(responses=rows))
    assert places(found) == [("responses.jsonl", 3), ("responses.jsonl", 5)]
    assert all("the first is on line 1" in message for *_, message in found)


def test_a_task_or_an_agent_that_its_table_does_not_list_is_reported_once_with_its_nearest(folder, problems):
    path = folder(
        tasks=[{"task": "t1"}],
        agents=[{"agent": "gpt-4"}],
        responses=[
            {"task": "t1", "agent": "gpt4", "text": "x"},
            {"task": "nowhere", "agent": "gpt-4", "text": "x"},
            {"task": "nowhere", "agent": "gpt4", "text": "x"},
        ],
    )
    found = problems(path)
    assert places(found) == [("responses.jsonl", 1), ("responses.jsonl", 2)]
    assert "agent 'gpt4' is not in agents.jsonl (2 rows from here on). Did you mean 'gpt-4'?" in found[0][2]
    assert "task 'nowhere' is not in tasks.jsonl" in found[1][2]


def test_a_broken_tasks_table_is_not_blamed_on_the_responses(folder, problems):
    found = problems(folder(tasks='{"task": "t1"\n', responses=[GOOD]))
    assert places(found) == [("tasks.jsonl", 1)]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ({"task": "t1", "rater": "r"}, "neither a rating nor a preference"),
        ({"task": "t1", "rater": "r", "agent": "a", "score": 1, "first": "a"}, "both a rating and a preference"),
        ({"task": "t1", "rater": "r", "agent": "a", "score": "good"}, "score must be a finite number, got str 'good'"),
        ({"task": "t1", "rater": "r", "agent": "a", "score": True}, "score must be a finite number, got bool True"),
        ({"task": "t1", "rater": "r", "agent": "a", "score": "nan"}, "score must be a finite number, got str 'nan'"),
        ({"task": "t1", "rater": "r", "agent": "a", "score": None}, "score must be a finite number, got an empty cell"),
        ({"task": "t1", "rater": "", "agent": "a", "score": 1}, "rater must be a name, got an empty cell"),
        ({"task": "t1", "rater": "r", "first": "a", "second": "a", "preference": 1}, "'a' is compared with itself"),
        (
            {"task": "t1", "rater": "r", "first": "a", "second": "b", "preference": "inf"},
            "preference must be a finite number, got str 'inf'",
        ),
        (
            {"task": "t1", "rater": "r", "first": "a", "second": None, "preference": 1},
            "second must be a name, got an empty cell",
        ),
        ({"task": "t2", "rater": "r", "agent": "a", "score": 1}, "no such response"),
        ({"task": "t2", "rater": "r", "first": "b", "second": "a", "preference": 1}, "agent 'a' to task 't2'"),
        ({"task": "t7", "rater": "r", "agent": "a", "score": 1}, "task 't7' is not in responses.jsonl"),
    ],
)
def test_a_label_that_cannot_be_used_is_a_problem_on_its_line(folder, problems, label, words):
    good = {"task": "t1", "rater": "r", "agent": "a", "score": 1}
    responses = [GOOD, {**GOOD, "agent": "b"}, {"task": "t2", "agent": "b", "text": "x"}]
    found = problems(folder(responses=responses, labels=[good, label]))
    assert len(found) == 1
    assert found[0][:2] == ("labels.jsonl", 2)
    assert words in found[0][2]


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ({"agent": "a", "parameters": "7B"}, "parameters must be a finite number, got str '7B'"),
        ({"agent": "a", "parameters": -1}, "parameters must be a positive number such as 7e9, got -1"),
        ({"agent": "a", "cutoff_date": "last year"}, "got 'last year'"),
        ({"agent": "a", "group": {"x": 1}}, "group must be a string or a whole number, got dict"),
        ({"name": "a"}, "no column 'agent'; the columns are 'name'"),
    ],
)
def test_an_agent_with_a_bad_cell_is_a_problem(folder, problems, agent, words):
    found = problems(folder(agents=[agent], responses=[GOOD]))
    assert len(found) == 1
    assert words in found[0][2]


def test_lines_that_are_not_json_objects_are_reported_beside_each_other(folder, problems):
    text = f'{json.dumps(GOOD)}\n{{"task": \n\n[1]\n{{"task": "t2", "agent": "a", "text": NaN}}\n'
    found = problems(folder(responses=text.encode()))
    assert places(found) == [("responses.jsonl", line) for line in (2, 4, 5)]
    assert "not JSON" in found[0][2]
    assert "must be a JSON object, got list [1]" in found[1][2]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_bytes_that_are_not_utf8_are_named_with_line_and_offset(folder, problems, suffix):
    lines = {
        "jsonl": [b'{"task": "t1", "agent": "a", "text": "x"}', b'{"task": "t2", "agent": "a", "text": "caf\xe9"}'],
        "csv": [b"task,agent,text", b"t1,a,caf\xe9"],
    }[suffix]
    data = b"\n".join(lines) + b"\n"
    found = problems(folder(**{f"responses_{suffix}": data}))
    file = f"responses.{suffix}"
    assert found[0] == (file, 2, f"byte 0xe9 at offset {data.index(0xE9)} is not UTF-8")
    assert found[1][2].endswith(f"convert it: iconv -f WINDOWS-1252 -t UTF-8 {file} > utf8-{file}")
    assert len(found) == 2


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_utf16_is_one_problem_however_many_lines_there_are(folder, problems, suffix):
    found = problems(folder(**{f"responses_{suffix}": ("task,agent,text\n" + "t,a,x\n" * 9).encode("utf-16")}))
    assert len(found) == 1
    assert "UTF-16" in found[0][2]


def test_csv_rows_that_do_not_fit_the_header_or_never_end_are_problems(folder, problems):
    found = problems(folder(responses_csv='task,agent,text\nt1,a,one, two\nt2,a\nt3,a,fine\nt4,a,"open\nand on\n'))
    assert places(found) == [("responses.csv", line) for line in (2, 3, 5)]
    assert "4 cells, but the header has 3" in found[0][2]
    assert "never closed" in found[2][2]


def test_a_folder_in_which_nothing_names_a_task_is_a_problem(folder, problems):
    found = problems(folder(agents=[{"agent": "a"}]))
    assert [message for *_, message in found] == ["no table names a task. A study needs at least one"]


def test_a_path_that_holds_no_study_says_what_is_allowed(folder, problems, tmp_path):
    (tmp_path / "notes.xlsx").write_bytes(b"x")
    for path in (tmp_path / "absent", tmp_path / "notes.xlsx", folder(name="bare")):
        found = problems(path)
        assert len(found) == 1
        assert ".jsonl, .csv, .tsv or .parquet" in found[0][2]


def test_one_table_in_two_files_is_a_problem(folder, problems):
    found = problems(folder(tasks_csv="task\nt1\n", tasks=[{"task": "t1"}], responses=[GOOD]))
    assert [(file, message) for file, _, message in found] == [
        ("tasks.jsonl", "table is already in tasks.csv. Keep one file per table")
    ]


def test_a_known_table_with_a_foreign_ending_or_a_misspelt_name_is_not_passed_over(folder, problems):
    path = folder(tasks=[{"task": "t1"}], response=[GOOD], labels_json="[]")
    found = problems(path)
    assert [file for file, *_ in found] == ["labels.json", "response.jsonl"]
    assert "Did you mean 'responses'?" in found[1][2]


def test_two_prompts_for_one_task_in_a_single_file_are_a_problem(tmp_path, problems):
    rows = [{**GOOD, "prompt": "p"}, {**GOOD, "agent": "b"}, {**GOOD, "agent": "c", "prompt": "q"}]
    path = tmp_path / "one.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = problems(path)
    assert places(found) == [("one.jsonl", 3)]
    assert "prompt of task 't1' differs from line 1" in found[0][2]


def test_recorded_evidence_with_a_bad_line_or_without_a_column_is_a_problem(folder, problems):
    path = folder(responses=[GOOD], judgements='{"reviewer": "r"\n', rewrites=[{"task": "t1", "agent": "a"}])
    pl.DataFrame({"task": ["t1"], "traget": ["a"]}).write_parquet(path / "logprobs.parquet")
    found = problems(path)
    assert places(found) == [("judgements.jsonl", 1), ("rewrites.jsonl", None), ("logprobs.parquet", None)]
    assert "Did you mean 'traget'?" in found[2][2]


def test_ten_problems_of_a_kind_are_shown_and_the_others_counted(folder):
    rows = [GOOD] + [{"task": "t1", "agent": f"a{i}", "text": ""} for i in range(10_050)] + [{**GOOD, "text": 5}]
    with pytest.raises(StudyError, match="10,051 problems") as caught:
        read_study(folder(responses=rows))
    assert [problem.line for problem in caught.value.problems] == [*range(2, 12), None, 10_052]
    assert caught.value.problems[10].message.startswith("… and 10,040 more like this: text is empty")


def test_parquet_texts_that_are_not_utf8_are_a_problem_also_in_recorded_tables(folder, problems, tmp_path):
    damaged = pa.array([b"caf\xe9"], pa.binary()).cast(pa.string(), safe=False)
    table = pa.table({"task": ["t1"], "agent": ["a"], "text": damaged})
    pq.write_table(table, tmp_path / "one.parquet")
    assert [(file, message.split(":")[0]) for file, _, message in problems(tmp_path / "one.parquet")] == [
        ("one.parquet", "cannot be read")
    ]
    path = folder(responses=[GOOD])
    pq.write_table(table, path / "mine.parquet")
    with pytest.raises(StudyError, match=r"mine\.parquet: cannot be read"):
        read_study(path).table("mine")


def test_a_file_that_is_not_parquet_is_a_problem(folder, problems, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"not parquet at all")
    found = problems(tmp_path / "x.parquet")
    assert len(found) == 1
    assert found[0][0] == "x.parquet"
    assert "cannot be read" in found[0][2]
