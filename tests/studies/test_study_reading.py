from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import goldless
from goldless.errors import StudyError, UserError
from goldless.records import Agent, Preference, Rating, Response, Task
from goldless.studies import Study, as_study, read_study, sample_study, study_from_frame

ROWS = [
    {"task": "t2", "agent": "b", "text": "two b"},
    {"task": "t1", "agent": "b", "text": "one b"},
    {"task": "t2", "agent": "a", "text": "two a"},
]


def test_tasks_and_agents_come_in_order_of_first_appearance_without_their_tables(folder):
    study = read_study(folder(responses=ROWS))
    assert study.tasks == ("t2", "t1")
    assert study.agents == (Agent("b"), Agent("a"))
    assert study.responses("t2") == (Response("t2", "b", "two b"), Response("t2", "a", "two a"))


def test_tasks_and_agents_come_in_order_of_their_tables(folder):
    study = read_study(
        folder(
            tasks=[{"task": "t1"}, {"task": "t2"}, {"task": "t3"}],
            agents=[{"agent": "a", "group": "g", "parameters": 7e9}, {"agent": "b", "cutoff_date": "2023-09-30"}],
            responses=ROWS,
        )
    )
    assert study.tasks == ("t1", "t2", "t3")
    assert study.agents == (Agent("a", "g", 7e9), Agent("b", cutoff_date="2023-09-30"))
    assert [response.agent for response in study.responses("t2")] == ["a", "b"]
    assert study.responses("t3") == ()
    assert study.n_responses == 3


def test_columns_of_a_task_go_to_prompt_reference_synopses_and_extra(folder):
    study = read_study(
        folder(
            tasks=[
                {"task": "t1", "prompt": "p", "reference": "r", "synopsis_abstract": "s", "year": 2016, "tags": ["x"]},
                {"task": "t2", "prompt": None, "synopsis_abstract": None, "year": None},
            ],
            responses=ROWS,
        )
    )
    assert study.task("t1") == Task("t1", "p", "r", {"abstract": "s"}, {"year": 2016, "tags": ["x"]})
    assert study.task("t2") == Task("t2")
    assert study.synopses == ("abstract",)


def test_an_empty_cell_is_absent_in_every_format(folder):
    for name, files in {
        "csv": {"tasks_csv": "task,prompt,synopsis_x,note\nt1,,,\nt2,p,,\n"},
        "jsonl": {"tasks": [{"task": "t1", "prompt": "", "synopsis_x": "", "note": ""}, {"task": "t2", "prompt": "p"}]},
    }.items():
        study = read_study(folder(name=name, responses=ROWS, **files))
        assert [study.task(task) for task in study.tasks] == [Task("t1"), Task("t2", "p")]
        assert study.synopses == ()


def test_a_byte_order_mark_is_passed_over(folder):
    bom = b"\xef\xbb\xbf"
    study = read_study(folder(tasks_csv=bom + b"task\nt1\nt2\n", responses=bom + json.dumps(ROWS[0]).encode()))
    assert study.tasks == ("t1", "t2")
    assert study.n_responses == 1


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_a_csv_file_without_commas_is_one_problem(folder, problems, mark, name):
    text = f"task{mark}agent{mark}text\nt1{mark}a{mark}x, y\n"
    told = f"the columns are separated by {name}. Save the table with commas"
    assert [(line, message) for _, line, message in problems(folder(responses_csv=text))] == [(1, told)]


def test_csv_lines_are_counted_by_line_feeds_also_inside_quotes(folder, problems):
    text = 'task,agent,text\r\nt1,a,"one\ntwo\r\nthree\rstill three"\r\nt2,a,\r\n\r\nt3,a,"x"\r\n'
    study = read_study(folder(responses_csv=text))
    assert study.empty_responses.rows() == [("t2", "a", 5)]
    assert study.response("t1", "a").text == "one\ntwo\r\nthree\rstill three"


def test_labels_are_ratings_and_preferences(folder):
    labels = "task,agent,first,second,rater,score,preference,criterion\nt2,b,,,r1,4,,style\nt2,,b,a,7,,-0.5,\n"
    study = read_study(folder(responses=ROWS, labels_csv=labels))
    assert list(study.ratings()) == [Rating("t2", "b", "r1", 4.0, "style")]
    assert list(study.preferences()) == [Preference("t2", "b", "a", "7", -0.5)]
    assert (study.n_ratings, study.n_preferences) == (1, 1)


def test_a_study_may_hold_recorded_evidence_alone(folder):
    study = read_study(
        folder(
            contrasts_csv="task,first,second,contrast\n01,x,y,0.5\n02,y,x,1\n",
            exams=[{"reviewer": "r", "exam": "e", "task": "01", "first": "relevant", "second": "irrelevant"}],
        )
    )
    assert study.tasks == ("01", "02")
    assert [agent.agent for agent in study.agents] == ["x", "y"]
    assert study.table("contrasts").to_dicts() == [
        {"task": "01", "first": "x", "second": "y", "contrast": 0.5},
        {"task": "02", "first": "y", "second": "x", "contrast": 1.0},
    ]


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "pyarrow": pa.Table.from_pylist,
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_frame_of_any_kind_gives_the_study_of_the_file(folder, make):
    labels = [{"task": "t1", "agent": "b", "rater": "r", "score": 3}]
    tasks = [{"task": "t1", "prompt": "p"}, {"task": "t2", "prompt": None}]
    agents = [{"agent": "a", "group": "g"}, {"agent": "b", "group": None}]
    study = study_from_frame(make(ROWS), tasks=make(tasks), agents=make(agents), labels=make(labels))
    file = read_study(folder(responses=ROWS, tasks=tasks, agents=agents, labels=labels))
    assert list(study) == list(file)
    assert study.agents == file.agents
    assert list(study.labels()) == list(file.labels())
    assert study.fingerprint == file.fingerprint
    assert study.path is None


def test_problems_of_a_frame_give_the_row():
    with pytest.raises(StudyError, match=r"row:2: task must be a name"):
        study_from_frame(pl.DataFrame({"task": ["t", ""], "agent": ["a", "a"], "text": ["x", "y"]}))


def test_a_study_may_come_as_path_frame_or_study(folder):
    path = folder(responses=ROWS)
    study = read_study(path)
    assert as_study(study) is study
    assert isinstance(as_study(str(path)), Study)
    assert as_study(path).fingerprint == as_study(pl.DataFrame(ROWS)).fingerprint == study.fingerprint


def test_what_is_no_study_says_what_is_allowed():
    with pytest.raises(UserError, match=r"path, a pandas.* frame, or a list of dictionaries, got a builtins\.int"):
        as_study(3)


def test_a_pandas_column_of_mixed_types_is_read_cell_by_cell_as_in_a_file(folder):
    rows = [{"task": "t", "agent": "a", "text": "x"}, {"task": 1, "agent": "a", "text": "y"}]
    assert as_study(pd.DataFrame(rows, dtype=object)).tasks == read_study(folder(responses=rows)).tasks == ("t", "1")
    with pytest.raises(StudyError, match=r"row:2: text must be a string, got int 5"):
        as_study(pd.DataFrame([rows[0], {**rows[1], "text": 5}], dtype=object))


def test_a_missing_cell_of_pandas_is_null_whatever_stands_for_it(folder):
    tasks = pd.DataFrame(
        {
            "task": ["t1", "t2"],
            "prompt": ["p", float("nan")],
            "reference": ["r", pd.NA],
            "asked_at": pd.to_datetime(["2026-01-02", None]),
            "year": [2016.0, float("nan")],
        }
    )
    study = study_from_frame(pd.DataFrame(ROWS), tasks=tasks)
    assert study.task("t1") == Task("t1", "p", "r", {}, {"asked_at": "2026-01-02T00:00:00", "year": 2016.0})
    assert study.task("t2") == Task("t2")


# --- the sample study that ships with the package --------------------------------------------------------------------


def test_it_ships_inside_the_package_with_its_licence_and_what_it_is():
    folder = sample_study()
    assert folder.is_relative_to(Path(goldless.__file__).parent)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "Licence" in readme
    assert "invented" in readme


def test_two_raters_rated_every_response():
    raters = {}
    for rating in read_study(sample_study()).ratings():
        raters.setdefault(rating.rater, []).append((rating.task, rating.agent))
    assert len(raters) == 2
    assert all(len(set(rated)) == len(rated) == 84 for rated in raters.values())
