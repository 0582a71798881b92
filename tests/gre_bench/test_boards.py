"""Boards from runs, editions, CSV files and the tables of the GEM paper."""

from __future__ import annotations

import asyncio
import json

import pytest

from goldless.apps.gre.boards import BoardScore, read_benchmark_scores, read_board
from goldless.errors import StudyError, UserError
from goldless.models.scripted import ScriptedModel
from goldless.records import Agent
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import save_run
from goldless.studies import read_study


@pytest.fixture
def run_folder(tmp_path):
    """A scored study of a model, the human baseline and two references."""
    folder, agents = tmp_path / "study", ["model", "human", "reference1", "reference2"]
    folder.mkdir()
    rows = [
        {"task": f"p{i}", "agent": a, "text": f"{a} on {i}, {'word ' * (i + len(a))}"} for i in range(3) for a in agents
    ]
    known = [{"agent": a, "parameters": 7e9, "family": "f", "cutoff_date": "2023-09-30"} for a in agents]
    for name, table in (("responses", rows), ("agents", known)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    scorer = ScriptedModel(logprobs=lambda c, t: [-1.0 if word in c else -2.0 for word in t.split()])
    options = Options(metrics=("gem-raw",), scorer=scorer, resamples=100, journal=tmp_path / "journal")
    return save_run(asyncio.run(evaluate_study(read_study(folder), options)), tmp_path / "run")


def test_tables_6_and_7_read_as_18_models_with_three_metrics_and_the_sizes_the_paper_gives():
    """Cells of Tables 6 and 7 of the GEM paper: first, last and the negative one."""
    board, other = read_board("published:70b"), read_board("published:8b")
    assert list(board.metrics) == ["gem", "gem-s[abstract]", "gem-s[assw]"]
    assert {len(scores) for scores in board.metrics.values()} == {18}
    assert board.metrics["gem"]["gpt-4o-mini"] == BoardScore(16.31)
    assert board.metrics["gem-s[abstract]"]["mistral-tiny"].score == 4.11
    assert board.metrics["gem-s[assw]"]["gemini-pro"].score == -0.26
    assert {agent.agent: agent.parameters for agent in board.agents}["claude-3-opus"] == 2000e9
    assert len(board.estimated_sizes) == 9  # marked with a tilde in the table
    assert "llama-3-8b" not in board.estimated_sizes
    assert other.agents == board.agents
    assert other.metrics["gem"]["claude-3-opus"].score == 60.94
    assert other.metrics["gem-s[assw]"]["mistral-tiny"].score == 9.94


def test_a_run_folder_reads_with_intervals_agents_and_signature_and_without_references(run_folder):
    board = read_board(run_folder)
    written = json.loads((run_folder / "leaderboard.json").read_text())["metrics"]["gem-raw"]
    row = next(row for row in written["rows"] if row["agent"] == "model")
    assert board.metrics["gem-raw"]["model"] == BoardScore(row["score"], row["low"], row["high"], 3)
    assert set(board.metrics["gem-raw"]) == {"model", "human"}
    assert board.agents == tuple(Agent(name, None, 7e9, "f", "2023-09-30") for name in ("model", "human"))
    assert board.signatures["gem-raw"] == written["signature"]
    assert (board.name, board.level) == ("run", 0.95)
    assert board.human("gem-raw") == board.metrics["gem-raw"]["human"]
    # an edition is its run under the name of the edition
    edition = run_folder.parent
    (edition / "edition.toml").write_text("")
    assert (read_board(edition).name, read_board(edition).metrics) == (edition.name, board.metrics)


def test_a_csv_reads_with_blank_cells_missing_and_what_is_known_of_agents(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(
        "agent,gem,other,parameters,family,cutoff_date\na,1.5,2,7e9,f,2023-09\nreference1,1,1,,,\nhuman,,3,,,\n"
    )
    board = read_board(file)
    assert board.name == "mine"
    assert board.metrics == {"gem": {"a": BoardScore(1.5)}, "other": {"a": BoardScore(2.0), "human": BoardScore(3.0)}}
    assert board.human("gem") is None
    assert board.agents[0] == Agent("a", None, 7e9, "f", "2023-09")


@pytest.mark.parametrize(
    ("text", "read", "told"),
    [
        (
            "agent,gem,parameters,size_estimated,cutoff_date\na,high,0,maybe,soon\n,1,,,\na,inf,1e9,no,2023\n",
            read_board,
            [
                "scores.csv:2: gem must be a finite number, got str 'high'",
                "scores.csv:2: cutoff_date must be a date such as 2023-09-30, 2023-09 or 2023, got 'soon'",
                "scores.csv:2: parameters must be a positive number such as 7e9, got 0",
                "scores.csv:3: agent must be a name, got an empty cell",
                "scores.csv:4: gem must be a finite number, got str 'inf'",
                "scores.csv:4: agent 'a' is listed twice; first on line 2",
            ],
        ),
        ("model,gem\na,1\n", read_board, ["no column 'agent'; the columns are 'model', 'gem'"]),
        ("agent,family\na,f\n", read_board, ["no metric among the columns"]),
        ("agent\na\n", read_benchmark_scores, ["no benchmark among the columns"]),
        ("agent,gem\n", read_board, ["no rows. The table needs one row per agent"]),
        ("agent,gem,\na,1,2\n", read_board, ["a column has no name in the header"]),
    ],
)
def test_everything_wrong_with_a_table_is_told_at_once(tmp_path, text, read, told):
    file = tmp_path / "scores.csv"
    file.write_text(text)
    with pytest.raises(StudyError) as error:
        read(file)
    problems = [str(problem) for problem in error.value.problems]
    assert len(problems) >= len(told)
    assert all(part in problem for part, problem in zip(told, problems, strict=False))


@pytest.mark.parametrize(
    ("files", "name", "told"),
    [
        ({}, "x", r"no such file or folder. Give a run folder .*edition.toml.*published:70b"),
        ({"x.txt": ""}, "x.txt", r"not a .csv file. Give a run folder"),
        ({"edition.toml": ""}, ".", r"no results \(leaderboard.json\). .* Score an edition with goldless gre score"),
        ({"leaderboard.json": "not json"}, ".", r"leaderboard.json cannot be read"),
        ({"leaderboard.json": '{"metrics": {}}'}, ".", "no agent has a score"),
    ],
)
def test_what_is_no_board_is_told_with_what_would_be(tmp_path, files, name, told):
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(UserError, match=told):
        read_board(tmp_path / name)
