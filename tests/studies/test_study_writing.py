from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import UserError
from goldless.studies import Study, read_study, study_from_frame, write_study
from tests.support.study_files import study_folder

FORMATS = ["jsonl", "csv", "parquet"]

nasty = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("\r\n\0\t\"',;\\\ufeff\u2028\u0085\x1b{}[]")), min_size=1
).filter(lambda text: not text.isspace())
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | nasty, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(nasty, inner, max_size=2)
)
own = {"task", "prompt", "reference"}
columns = nasty.filter(lambda name: name not in own and not name.startswith("synopsis_"))


@st.composite
def tables(draw, extra):
    """Tasks, agents, responses and labels that go together."""
    names = draw(st.lists(nasty, min_size=1, max_size=4, unique=True))
    agents = draw(st.lists(nasty, min_size=2, max_size=3, unique=True))
    other = draw(st.lists(columns, max_size=2, unique=True))
    optional = st.none() | nasty
    tasks = [
        {"task": name, "prompt": draw(optional), "reference": draw(optional), "synopsis_x": draw(optional)}
        | {column: draw(extra) for column in other}
        for name in names
    ]
    asked = [(task, agent) for task in names for agent in agents]
    answered = draw(st.lists(st.sampled_from(asked), min_size=1, unique=True))
    number = st.floats(allow_nan=False, allow_infinity=False)
    labels = [
        {"task": task, "agent": agent, "rater": draw(nasty), "score": draw(number), "criterion": draw(optional)}
        for task, agent in answered[:3]
    ]
    return {
        "tasks": tasks,
        "agents": [
            {"agent": a, "group": draw(optional), "parameters": draw(st.none() | st.integers(1, 9))} for a in agents
        ],
        "responses": [{"task": task, "agent": agent, "text": draw(nasty)} for task, agent in answered],
        "labels": labels,
    }


@pytest.mark.parametrize("suffix", FORMATS)
@given(data=st.data())
def test_a_study_comes_back_as_it_was_from_every_format(suffix, data):
    content = data.draw(tables(values if suffix == "jsonl" else nasty))
    with tempfile.TemporaryDirectory() as folder:
        study = read_study(study_folder(Path(folder) / "in", **content))
        again = read_study(write_study(study, Path(folder) / "out", format=suffix))
        assert list(again) == list(study)
        assert again.agents == study.agents
        assert list(again.labels()) == list(study.labels())
        assert again.fingerprint == study.fingerprint
        responses = {(row["task"], row["agent"]): row["text"] for row in content["responses"]}
        assert {(r.task, r.agent): r.text for _, rs in again for r in rs} == responses


@pytest.mark.parametrize("suffix", FORMATS)
@given(data=st.data())
def test_other_columns_of_any_type_keep_the_fingerprint_in_every_format(suffix, data):
    content = data.draw(tables(values))
    with tempfile.TemporaryDirectory() as folder:
        study = read_study(study_folder(Path(folder) / "in", **content))
        again = read_study(write_study(study, Path(folder) / "out", format=suffix))
        assert again.fingerprint == study.fingerprint


def test_recorded_evidence_is_written_as_it_was_recorded(folder, tmp_path):
    rows = [{"task": t, "agent": "a", "text": "x"} for t in ("t", "u")]
    judgements = b'{"reviewer": "r", "task": "t", "agent": "a", "output": "5"}\n'
    source = folder(responses=rows, judgements=judgements, mine_csv="task,value\nt,1\nu,2\n")
    path = write_study(read_study(source), tmp_path / "out", format="parquet")
    assert (path / "judgements.jsonl").read_bytes() == judgements
    part = read_study(write_study(read_study(source).subset(tasks=["u"]), tmp_path / "part"))
    assert part.table("mine").rows() == [("u", 2)]
    assert part.table("judgements").height == 0


def test_a_folder_that_is_not_empty_is_not_overwritten_unless_asked_for(folder, tmp_path):
    study = read_study(folder(responses=[{"task": "t", "agent": "a", "text": "new"}]))
    old = folder(name="old", responses=[{"task": "t", "agent": "a", "text": "old"}], more_csv="x\n1\n")
    with pytest.raises(UserError, match="not empty"):
        write_study(study, old)
    assert read_study(old).response("t", "a").text == "old"
    write_study(study, old, overwrite=True)
    assert read_study(old).response("t", "a").text == "new"
    assert read_study(old).recorded == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "study"]


def test_a_folder_that_holds_more_than_a_study_is_never_overwritten(folder):
    study = read_study(folder(responses=[{"task": "t", "agent": "a", "text": "new"}]))
    home = folder(name="home", responses=[{"task": "t", "agent": "a", "text": "old"}])
    (home / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"thesis\.tex"):
        write_study(study, home, overwrite=True)
    assert (home / "thesis.tex").read_text() == "years of work"


def test_a_file_in_the_way_and_an_unknown_format_are_errors(folder, tmp_path):
    study = read_study(folder(responses=[{"task": "t", "agent": "a", "text": "x"}]))
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        write_study(study, tmp_path / "file")
    with pytest.raises(UserError, match="'jsonl', 'csv' or 'parquet'"):
        write_study(study, tmp_path / "out", format="xlsx")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_writing_that_fails_leaves_nothing_behind(tmp_path, monkeypatch, suffix):
    frame = pl.DataFrame({"task": [f"t{i}" for i in range(50)], "agent": ["a"] * 50, "text": ["x"] * 50})
    study = study_from_frame(frame)

    def failing(self, name):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Study, "rows" if suffix != "parquet" else "table", failing)
    with pytest.raises(OSError, match="No space left"):
        write_study(study, tmp_path / "out", format=suffix)
    assert list(tmp_path.iterdir()) == []
