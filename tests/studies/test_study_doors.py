"""Importers and exporters: ours, and those of installed packages."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint

import pytest

from goldless.errors import StudyError, UserError
from goldless.exporting.catalogue import export
from goldless.records import Response, Task
from goldless.studies import import_study, read_study
from tests.support.paths import DOCS

TOY = "#toy\nt1|?|What is red?\nt1|a|blood\nt1|b|a rose\nt2|?|What is blue?\nt2|a|the sea\nt2|b|a violet\n"


@pytest.fixture
def doors(monkeypatch, installed):
    """Makes the objects of the toy plugin look like those of an installed package."""

    def make(importers: tuple[str, ...] = (), exporters: tuple[str, ...] = ()) -> None:
        installed(
            *(EntryPoint(name, f"tests.studies.toy_plugin:{name}", "goldless.importers") for name in importers),
            *(EntryPoint(name, f"tests.studies.toy_plugin:{name}", "goldless.exporters") for name in exporters),
        )

    return make


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "answers.toy"
    path.write_text(TOY)
    return path


def test_a_file_that_a_plugin_recognises_is_a_study(doors, toy):
    doors(["importer"])
    study = read_study(toy)
    assert study.name == "answers"
    assert study.task("t1") == Task("t1", "What is red?")
    assert study.response("t2", "b") == Response("t2", "b", "a violet")
    assert study.table("notes")["task"].to_list() == ["t1"] * 3 + ["t2"] * 3
    assert study.scan("notes").collect().height == 6


def test_problems_of_an_importer_and_of_its_rows_come_at_once_with_their_lines(doors, toy, problems):
    doors(["importer"])
    toy.write_text(TOY + "broken\nt1|a|again\nt3||x\n")
    assert sorted((line, re.split("[;.] ", message)[0]) for _, line, message in problems(toy)) == [
        (8, "1 cells"),
        (9, "a second response of agent 'a' to task 't1'"),
        (10, "agent must be a name, got an empty cell"),
    ]


def test_an_importer_that_fails_is_named_and_one_that_cannot_tell_is_passed_over(doors, toy):
    doors(["stumbling", "importer"])
    assert read_study(toy).n_responses == 4
    doors(["greedy"])
    with pytest.raises(UserError, match="the importer 'greedy' failed: KeyError"):
        read_study(toy)


def test_two_importers_that_recognise_one_file_are_told_apart_by_name(doors, toy):
    doors(["greedy", "importer"])
    with pytest.raises(UserError, match="several importers: greedy, importer"):
        read_study(toy)
    assert read_study(toy, importer="importer", upper=True).response("t1", "a").text == "BLOOD"


def test_several_files_are_read_together(doors, toy):
    doors(["importer"])
    other = toy.with_name("more.toy")
    other.write_text("#toy\nt1|c|a fire\n")
    study = import_study([toy, other])
    assert [agent.agent for agent in study.agents] == ["a", "b", "c"]
    with pytest.raises(UserError, match="one folder or one file, got 2 paths"):
        import_study([toy, other], importer="study")
    with pytest.raises(UserError, match="at least one"):
        import_study([])


def test_an_unknown_or_broken_importer_is_an_error_that_says_why(doors, toy):
    doors(["importer", "nothing"])
    with pytest.raises(UserError, match=r"unknown import format 'import'. Did you mean 'importer'\? Formats: study, "):
        read_study(toy, importer="import")
    with pytest.raises(UserError, match="'nothing' from the package unknown cannot be used: an importer must have"):
        read_study(toy, importer="nothing")


def test_a_plugin_writes_a_study(doors, toy, tmp_path):
    doors(["importer"], ["exporter"])
    made = export(toy, tmp_path / "out.txt", exporter="exporter")
    assert made.read_text() == "#toy\nt1|a|blood\nt1|b|a rose\nt2|a|the sea\nt2|b|a violet\n"
    with pytest.raises(UserError, match="exists"):
        export(toy, made, exporter="exporter")


def test_what_no_exporter_writes_is_an_error_that_lists_them(doors, toy, tmp_path):
    doors(["importer"])
    with pytest.raises(UserError, match=r"unknown export format 'cvs'. Did you mean 'csv'\? Formats: jsonl, csv, "):
        export(read_study(toy), tmp_path / "out", exporter="cvs")
    with pytest.raises(UserError, match="does not write a dict"):
        export({}, tmp_path / "out", exporter="csv")


def test_the_importer_in_the_docs_reads_its_files(tmp_path, monkeypatch, installed):
    page = (DOCS / "study_format.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (code,) = (block for block in blocks if "class Toy" in block)
    (tmp_path / "documented_toy.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(EntryPoint("toy", "documented_toy:toy", "goldless.importers"))
    (tmp_path / "answers.toy").write_text("t1|a|blood\nt1|b|a rose\nbroken\n")
    with pytest.raises(StudyError, match=r"answers\.toy:3: a line must have 3 cells, got 1"):
        read_study(tmp_path / "answers.toy")
    (tmp_path / "answers.toy").write_text("t1|a|blood\nt1|b|a rose\n")
    assert read_study(tmp_path / "answers.toy").response("t1", "b").text == "a rose"
