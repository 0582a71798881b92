"""Samples that lm-evaluation-harness wrote; see files/README.md. Expected values are read off those files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from goldless.errors import StudyError, UserError
from goldless.studies import import_study, read_study
from tests.support.study_files import write_rows

FILES = Path(__file__).parent / "files" / "lm_eval"


def rows_of(folder, task="colours"):
    (path,) = folder.glob(f"samples_{task}_2*.jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def runs(tmp_path):
    return Path(shutil.copytree(FILES, tmp_path / "out"))


def test_a_folder_of_two_models_is_one_study():
    study = read_study(FILES)
    assert [agent.agent for agent in study.agents] == ["lab/careful", "lab/hasty"]
    assert study.tasks == ("colours/0", "colours/1", "colours/2")
    assert study.task("colours/0").prompt == "Question: Which colour has the sky on a clear day?\nAnswer:"
    assert study.task("colours/2").reference == "red"
    assert study.response("colours/0", "lab/careful").text == " Blue, as long as no cloud hides it."
    assert study.response("colours/2", "lab/hasty") is None
    imported = study.table("imported").filter(pl.col("missing") == "empty")
    ((agent, source),) = imported.select("agent", "source").rows()
    assert (agent, source.split("/")[0], source.rsplit(":", 1)[1]) == ("lab/hasty", "lab__hasty", "3")


def test_scores_are_of_the_first_filter_and_log_likelihoods_are_left_out():
    study = read_study(FILES)
    hasty = [row["exact_match"] for row in rows_of(FILES / "lab__hasty")[1] if row["filter"] == "first-word"]
    scores = study.table("scores").filter(pl.col("agent") == "lab/hasty")
    assert scores["score"].to_list() == hasty[:2]  # the third response is empty
    first, second = study.origin.notes
    assert first == "colours: scores are by the filter first-word of first-word, whole; texts are unfiltered"
    assert second.startswith("left out, log-likelihoods of given answers")


def test_a_task_of_log_likelihoods_alone_is_refused():
    with pytest.raises(StudyError, match=r"samples_colours_choice.*: only log-likelihoods of given answers, no texts"):
        read_study(rows_of(FILES / "lab__careful", "colours_choice")[0])


def test_repeats_are_samples_and_a_score_is_of_the_first(runs):
    path, rows = rows_of(runs / "lab__careful")
    write_rows(path, [row | {"resps": [[*row["resps"][0], "Again."]]} for row in rows])
    study = read_study(runs)
    assert study.samples == {"lab/careful#1": "lab/careful", "lab/careful#2": "lab/careful"}
    assert study.response("colours/1", "lab/careful#2").text == "Again."
    assert set(study.table("scores")["agent"]) == {"lab/careful#1", "lab/hasty"}
    assert read_study(runs, repeats="first").response("colours/1", "lab/careful").text == " Green."
    assert read_study(runs, repeats="agents").response("colours/1", "lab/careful#2").text == "Again."
    assert read_study(runs, repeats="tasks").response("colours/1#2", "lab/careful").text == "Again."


def test_another_prompt_or_document_is_refused_with_the_count(runs):
    path, rows = rows_of(runs / "lab__hasty")
    rows[0]["arguments"]["gen_args_0"]["arg_0"] = "Q: the sky?"
    write_rows(path, rows)
    with pytest.raises(StudyError, match=r"1 of 3 tasks have a different prompt .* such as 'colours/0' .lab__careful/"):
        read_study(runs)


def test_prompts_with_chat_templates_of_their_own_are_compared_by_document(runs):
    (results,) = (runs / "lab__hasty").glob("results*.json")
    results.write_text(json.dumps(json.loads(results.read_text()) | {"chat_template_sha": "f00"}))
    path, rows = rows_of(runs / "lab__hasty")
    for row in rows:
        row["arguments"]["gen_args_0"]["arg_0"] = f"<user>{row['arguments']['gen_args_0']['arg_0']}"
    write_rows(path, rows)
    study = read_study(runs)
    assert study.task("colours/0").prompt is None
    assert study.n_responses == 5
    write_rows(path, [row | {"doc_hash": "other"} for row in rows])
    with pytest.raises(StudyError, match="3 of 3 tasks have a different document"):
        read_study(runs)


def test_every_bad_line_and_empty_file_is_reported_at_once(runs):
    path, _ = rows_of(runs / "lab__hasty")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:50], *lines[2:5], lines[5][:-9]]))
    other, _ = rows_of(runs / "lab__careful")
    other.write_text("")
    with pytest.raises(StudyError) as refused:
        read_study(runs)
    assert [(problem.file, problem.line) for problem in refused.value.problems] == [
        (other.name, None),
        (path.name, 2),
        (path.name, 6),
    ]


def test_files_of_two_formats_are_refused():
    with pytest.raises(UserError, match=r"must be of one format, got lm_eval .lm_eval., results.json .promptfoo."):
        import_study([FILES, FILES.parent / "promptfoo" / "results.json"])
