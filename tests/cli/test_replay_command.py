"""A published run is recomputed from its evidence; whoever changed a number, a text or the evidence is found out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import goldless as library
from tests.support.study_files import response_rows, write_rows

TEXTS = {
    "t1": {"ann": "zarn bluk mipo tolu", "bob": "zarn bluk mipo", "cy": "quex"},
    "t2": {"ann": "vond rask", "bob": "rask vond ebbo", "cy": "quex"},
    "t3": {"ann": "lirp", "bob": "lirp", "cy": "quex"},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, toy_scorer) -> Path:
    """A run over three metrics, as it was published."""
    folder = tmp_path_factory.mktemp("replay")
    options = {"resamples": 200, "seed": 3, "journal": folder / "journal.sqlite"}
    answers = write_rows(folder / "answers.jsonl", response_rows(TEXTS))
    made = library.evaluate(answers, metrics="gem-raw+control,rouge-l,length", scorer=toy_scorer(), **options)
    return library.save_run(made, folder / "run")


@pytest.fixture
def run_folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "runs" / "toy"))


def edited(folder: Path, change) -> None:
    path = folder / "leaderboard.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_a_score_that_was_changed_is_named_and_so_is_another_version_that_made_it(goldless, run_folder):
    def change(data):
        data["metrics"]["rouge-l"]["rows"][0]["estimate"]["value"] += 0.001

    edited(run_folder, change)
    ended = goldless("replay", run_folder)
    assert ended.code == 9
    leader = json.loads((run_folder / "leaderboard.json").read_text())["metrics"]["rouge-l"]["rows"][0]["agent"]
    assert f"rouge-l: rows[{leader}].estimate.value: printed" in ended.out
    assert "1 of" in ended.err
    assert "replay with that version" not in ended.err
    made_by = run_folder / "made_by.json"
    made_by.write_text(json.dumps(json.loads(made_by.read_text()) | {"goldless": "0.2.0"}))
    assert "goldless 0.2.0 made them" in goldless("replay", run_folder).err


@pytest.mark.parametrize(
    ("table", "changed", "said"),
    [
        ("responses.parquet", pl.col("text") + " and more", "the texts are not those"),
        ("logprobs/*.parquet", pl.col("sum_logprob_nats") * 1.01, "values"),
    ],
    ids=["texts", "evidence"],
)
def test_changed_texts_and_changed_evidence_are_found(goldless, run_folder, table, changed, said):
    (path,) = run_folder.glob(table)
    pl.read_parquet(path).with_columns(changed).write_parquet(path)
    ended = goldless("replay", run_folder)
    assert ended.code == 9
    assert said in ended.err


def test_code_in_a_folder_is_never_run(goldless, run_folder, tmp_path):
    code = tmp_path / "evil.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef metric(**_): return 1.0\n")

    def change(data):
        data["metrics"][f"python:{code}:metric"] = data["metrics"].pop("length")

    edited(run_folder, change)
    ended = goldless("replay", run_folder, "--format", "json")
    assert ended.code == 0
    parts = {part["name"]: part["outcome"] for part in json.loads(ended.out)["parts"]}
    assert parts[f"python:{code}:metric"] == "not replayed"
    assert not (tmp_path / "ran").exists()


def test_a_run_of_nothing_but_metrics_with_code_of_their_own_replays_nothing(goldless, run_folder):
    def change(data):
        data["metrics"] = {"python:evil.py:metric": data["metrics"]["length"]}

    edited(run_folder, change)
    ended = goldless("replay", run_folder, "--format", "json")
    assert ended.code == 0, ended.err
    (part,) = json.loads(ended.out)["parts"]
    assert part["left_out"] == "needs code of its own, and a replay runs none"


def test_an_archive_and_an_address_are_refused_with_what_to_do(goldless, run_folder, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "run"), "zip", run_folder)
    for given in (archive, "https://example.org/run.tar.gz"):
        ended = goldless("replay", given)
        assert ended.code == 2
        assert "unpack an archive of one first" in " ".join(ended.err.split())


FUTURE, NO_LIST = ('{"metrics": {"length": {}}, "options": {' + f'"{name}": 1' + "}}" for name in ("x", "metrics"))


@pytest.mark.parametrize("content", ["", "[]", '{"metrics": 7}', '{"metrics": NaN}', FUTURE, NO_LIST])
def test_damaged_results_are_told(goldless, run_folder, content):
    (run_folder / "leaderboard.json").write_text(content)
    ended = goldless("replay", run_folder)
    assert ended.code in {0, 2}
    assert "Traceback" not in ended.err


def test_a_run_that_stopped_early_stops_again(goldless, study_file, tmp_path):
    lengths = {"ann": 9, "bob": 5, "cy": 1}
    texts = {
        f"t{task}": {agent: "word " * (words + task % 3) for agent, words in lengths.items()} for task in range(40)
    }
    arguments = ("score", study_file(texts), "--metric", "length", "--until", "best", "--resamples", "100")
    assert goldless(*arguments, "--out", tmp_path / "run").code == 0
    assert json.loads((tmp_path / "run" / "leaderboard.json").read_text())["stopped"]["decided"]
    assert json.loads(goldless("replay", tmp_path / "run", "--format", "json").out)["outcome"] == "equal"
