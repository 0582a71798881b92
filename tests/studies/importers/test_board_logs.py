"""Importers of MT-Bench, Arena-Hard, votes of Arena, HELM, lighteval, AlpacaEval and Every Eval Ever.

None of these tools can run here: but for the recorded outputs of AlpacaEval, files are made after their published
schemas (those of board_files.py, the card of arena-human-preference-140k, Every Eval Ever 0.3.0). Every expected value
is read off the file.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import goldless
from goldless.errors import StudyError
from goldless.studies import import_study, read_study
from tests.support.board_files import arena_hard, helm_run, lighteval, mt_bench


def texts(study):
    return {(r.task, r.agent): r.text for task in study.tasks for r in study.responses(task)}


# --- MT-Bench ------------------------------------------------------------------------------------------------------


def test_mt_bench_turns_are_tasks(tmp_path):
    study = goldless.read_study(mt_bench(tmp_path))
    assert texts(study) == {
        ("81/1", "m-1"): "A long text.",
        ("81/1", "m-2"): "Another.",
        ("81/2", "m-1"): "Text.",
        ("81/2", "m-2"): "An.",
    }
    assert (study.task("81/2").prompt, study.task("81/2").reference) == ("Write.\n\nShorter.", "D.")
    assert study.task("81/1").extra["category"] == "writing"


def test_mt_bench_judgments_come_along_and_failed_ones_are_missing(tmp_path):
    study = goldless.read_study(mt_bench(tmp_path))
    found = study.table("judgements").select("task", "agent", "reviewer", "format", "value").rows()
    assert found == [("81/1", "m-1", "gpt-4", "10-level", 7.0)]
    # in the second game model_2 is shown first, and it won
    assert study.table("judge_gpt-4").rows() == [
        ("81/1", "m-1", "m-2", 1.0),
        ("81/1", "m-2", "m-1", 1.0),
        ("81/2", "m-1", "m-2", 0.5),
    ]


# --- Arena ---------------------------------------------------------------------------------------------------------


def test_arena_hard_answers_and_games(tmp_path):
    study = goldless.read_study(arena_hard(tmp_path / "a"))
    assert texts(study) == {("u1", "base"): "base proof", ("u1", "new"): "new proof"}
    assert study.task("u1").prompt == "Prove it."
    # in the first game the baseline is A
    assert study.table("judge_gpt").rows() == [("u1", "base", "new", 1.0), ("u1", "new", "base", 0.5)]


@pytest.mark.parametrize(
    ("label", "won"),
    [
        *((label, 1.0) for label in ("A>>B", "A>B", "B<A", "B<<A")),
        *((label, 0.5) for label in ("A=B", "B=A")),
        *((label, 0.0) for label in ("B>A", "B>>A", "A<B", "A<<B")),
    ],
)
def test_arena_hard_games_are_read_by_all_labels_of_its_own_table(tmp_path, label, won):
    """The labels are those of LABEL_TO_SCORE in Arena-Hard's show_result.py."""
    folder = arena_hard(tmp_path / "a")
    (judged,) = folder.glob("model_judgment/*.jsonl")
    judged.write_text(judged.read_text().replace("A>>B", label))
    assert goldless.read_study(folder).table("judge_gpt")["first_wins"].to_list() == [won, 0.5]


def test_votes_of_arena_are_peoples_preferences(tmp_path):
    def vote(number, winner, a="m-1", b="m-2"):
        def talk(model):
            return [
                {"role": "user", "content": [{"type": "text", "text": f"question {number}"}]},
                {"role": "assistant", "content": [{"type": "text", "text": f"{model} says {number}"}]},
            ]

        shown = {"conversation_a": talk(a), "conversation_b": talk(b), "language": "en"}
        return {"id": f"v{number}", "model_a": a, "model_b": b, "winner": winner, **shown}

    rows = [vote(1, "model_b"), vote(2, "both_bad"), vote(3, "model_a", b="m-1"), vote(4, "?")]
    path = tmp_path / "votes.parquet"
    pl.DataFrame(rows).write_parquet(path)
    study = goldless.read_study(path)
    assert texts(study)["v1", "m-2"] == "m-2 says 1"
    assert study.task("v1").prompt == "question 1"
    assert [(p.task, p.first, p.second, p.preference) for p in study.preferences()] == [
        ("v1", "m-1", "m-2", -1.0),
        ("v2", "m-1", "m-2", 0.0),
    ]
    assert study.task("v2").extra["both_bad"] == "true"


# --- HELM ----------------------------------------------------------------------------------------------------------


def test_helm_runs_of_two_models_are_one_study(tmp_path):
    helm_run(tmp_path / "runs" / "one", "org/m-1", ["First.", "Second."])
    helm_run(tmp_path / "runs" / "two", "org/m-2", ["Uno.", None])
    study = goldless.read_study(tmp_path / "runs")
    assert texts(study) == {
        ("open_qa:subset=a/id0", "org/m-1"): "First.",
        ("open_qa:subset=a/id0", "org/m-2"): "Uno.",
        ("open_qa:subset=a/id1", "org/m-1"): "Second.",
    }
    first = study.task("open_qa:subset=a/id0")
    assert (first.prompt, first.reference) == ("P0", "answer 0")
    assert study.table("scores").select("agent", "metric", "score").rows() == [
        ("org/m-1", "f1_score", 0.25),
        ("org/m-2", "f1_score", 0.25),
    ]
    assert study.table("imported").filter(pl.col("missing").is_not_null())["missing"].to_list() == ["error"]


def test_helm_texts_that_were_taken_out_are_missing_and_never_read(tmp_path):
    helm_run(tmp_path / "run", "m-1", ["[encrypted_text_0]", "[redacted]"])
    with pytest.raises(StudyError, match="no response among 2 samples: encrypted 2"):
        goldless.read_study(tmp_path / "run")


# --- lighteval -----------------------------------------------------------------------------------------------------


def test_lighteval_details_by_model(tmp_path):
    study = goldless.read_study(lighteval(tmp_path / "out"))
    # several responses of one model are its samples
    assert texts(study) == {
        ("custom|ask|0/0", "m-2#1"): "no",
        ("custom|ask|0/0", "m-2#2"): "no.",
        ("custom|ask|0/0", "org/m-1#1"): "yes",
        ("custom|ask|0/0", "org/m-1#2"): "yes.",
    }
    task = study.task("custom|ask|0/0")
    assert (task.prompt, task.reference) == ("Is it?", "false")


# --- AlpacaEval ----------------------------------------------------------------------------------------------------

ROW = {"instruction": "Name a colour.", "output_1": "Red.", "generator_1": "base", "output_2": "Blue.", "dataset": "d"}
ROW |= {"generator_2": "mine", "annotator": "judge/v1", "preference": 1.25}


def test_recorded_outputs_and_annotations_of_alpaca_eval_are_one_study(recorded):
    folder = recorded / "formats" / "alpaca_eval"
    paths = [folder / name for name in ("vicuna-7b_annotations.json", "gpt4_model_outputs.json")]
    rows = json.loads(paths[0].read_text())
    study = import_study([*paths, folder / "vicuna-7b_model_outputs.json"])
    assert (len(study.tasks), study.n_responses) == (120, 360)
    assert {agent.agent for agent in study.agents} == {"gpt4_1106_preview", "vicuna-7b", "gpt4"}
    votes = study.table("judge_weighted_alpaca_eval_gpt4_turbo")
    assert votes["first_wins"].sum() == pytest.approx(sum(2 - float(row["preference"]) for row in rows))
    assert study.task(votes["task"][0]).prompt == rows[0]["instruction"]


def test_a_preference_between_1_and_2_is_the_probability_of_the_second(tmp_path, goldless):
    path = tmp_path / "annotations.json"
    missing = {**ROW, "instruction": "Name a way.", "preference": None}
    path.write_text(json.dumps([ROW, missing]))
    study = read_study(path)
    assert study.table("judge_judge_v1").drop("task").rows() == [("base", "mine", 0.75)]
    assert study.origin.notes == ("1 comparisons without a preference are missing",)
    assert dict(study.task(study.tasks[0]).extra) == {"dataset": "d"}
    done = goldless("score", path, "--metric", "judge[judge_v1]", "--recorded")
    assert "read as alpaca_eval: 2 tasks, 2 agents, 4 responses" in done.err


# --- Every Eval Ever -----------------------------------------------------------------------------------------------

FILE = Path(__file__).parent / "files" / "every_eval_ever" / "colours_samples.jsonl"


def test_single_turns_conversations_and_errors_of_every_eval_ever():
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


def test_aggregates_of_every_eval_ever_have_no_responses(tmp_path):
    path = tmp_path / "uuid.json"
    path.write_text(json.dumps({"evaluation_id": "x", "source_metadata": {}, "evaluation_results": []}))
    with pytest.raises(StudyError, match=r"aggregate results without responses. Give the .jsonl"):
        read_study(path)
