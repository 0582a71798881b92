"""Boards from the paper's tables, from run folders and editions, and from CSV files."""

from __future__ import annotations

import asyncio
import json

import pytest

from goldless.errors import StudyError, UserError
from goldless.gre_bench.boards import Board, BoardScore, read_board
from goldless.models.scripted import ScriptedModel
from goldless.records import Agent
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import save_run
from goldless.studies import read_study


def write_study(folder, agents):
    folder.mkdir()
    rows = [
        {"task": f"p{i}", "agent": a, "text": f"{a} on {i}, {'word ' * (i + len(a))}"} for i in range(3) for a in agents
    ]
    (folder / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = [{"agent": a, "parameters": 7e9, "family": "f", "cutoff_date": "2023-09-30"} for a in agents]
    (folder / "agents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    return folder


@pytest.fixture
def run_folder(tmp_path):
    """A scored study of a model, the human baseline and two references."""
    study = read_study(write_study(tmp_path / "study", ["model", "human", "reference1", "reference2"]))
    scorer = ScriptedModel(logprobs=lambda c, t: [-1.0 if word in c else -2.0 for word in t.split()])
    options = Options(metrics=("gem-raw",), scorer=scorer, resamples=100, journal=tmp_path / "journal")
    return save_run(asyncio.run(evaluate_study(study, options)), tmp_path / "run")


def test_table_6_reads_as_18_models_with_three_metrics_and_the_sizes_the_paper_gives():
    """Cells of Table 6 of the GEM paper: first, last and the negative one."""
    board = read_board("published:70b")
    assert list(board.metrics) == ["gem", "gem-s[abstract]", "gem-s[assw]"]
    assert {len(scores) for scores in board.metrics.values()} == {18}
    assert board.metrics["gem"]["gpt-4o-mini"] == BoardScore(16.31)
    assert board.metrics["gem-s[abstract]"]["mistral-tiny"].score == 4.11
    assert board.metrics["gem-s[assw]"]["gemini-pro"].score == -0.26
    assert board.agents["claude-3-opus"].parameters == 2000e9
    assert len(board.estimated_sizes) == 9  # marked with a tilde in the table
    assert "llama-3-8b" not in board.estimated_sizes


def test_table_7_reads_as_the_same_models_with_the_scores_of_the_8b_scorer():
    """Cells of Table 7 of the GEM paper."""
    board = read_board("published:8b")
    assert list(board.agents) == list(read_board("published:70b").agents)
    assert board.metrics["gem"]["claude-3-opus"].score == 60.94
    assert board.metrics["gem-s[assw]"]["mistral-tiny"].score == 9.94


def test_a_run_folder_reads_with_intervals_agents_and_signature_and_without_references(run_folder):
    board = read_board(run_folder)
    written = json.loads((run_folder / "leaderboard.json").read_text())["metrics"]["gem-raw"]
    row = next(row for row in written["rows"] if row["agent"] == "model")
    assert board.metrics["gem-raw"]["model"] == BoardScore(row["score"], row["low"], row["high"], 3)
    assert set(board.metrics["gem-raw"]) == set(board.agents) == {"model", "human"}
    assert board.agents["model"] == Agent("model", None, 7e9, "f", "2023-09-30")
    assert board.signatures["gem-raw"] == written["signature"]
    assert (board.name, board.level) == ("run", 0.95)
    assert list(board.models("gem-raw")) == ["model"]
    assert board.human("gem-raw") == board.metrics["gem-raw"]["human"]


def test_an_edition_is_its_run_under_the_name_of_the_edition(run_folder):
    edition = run_folder.parent
    (edition / "edition.toml").write_text("")
    board = read_board(edition)
    assert board.name == edition.name
    assert board.metrics == read_board(run_folder).metrics


def test_an_edition_without_results_says_to_score_it(tmp_path):
    (tmp_path / "edition.toml").write_text("")
    with pytest.raises(UserError, match=r"edition has no results.*Score it first"):
        read_board(tmp_path)


def test_a_csv_reads_with_blank_cells_missing_and_what_is_known_of_agents(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(
        "agent,gem,other,parameters,family,cutoff_date\na,1.5,2,7e9,f,2023-09\nreference1,1,1,,,\nhuman,,3,,,\n"
    )
    board = read_board(file)
    assert board.name == "mine"
    assert board.metrics == {"gem": {"a": BoardScore(1.5)}, "other": {"a": BoardScore(2.0), "human": BoardScore(3.0)}}
    assert board.human("gem") is None
    assert board.agents["a"] == Agent("a", None, 7e9, "f", "2023-09")


def test_an_unknown_published_board_names_the_nearest():
    with pytest.raises(UserError, match="Did you mean 'published:70b'"):
        read_board("published:70")


@pytest.mark.parametrize("made", ["nothing", "an empty folder", "a file of another kind"])
def test_what_is_no_board_is_told_with_what_would_be(tmp_path, made):
    place = tmp_path / "x.txt"
    if made == "an empty folder":
        place.mkdir()
    elif made == "a file of another kind":
        place.write_text("")
    with pytest.raises(UserError, match=r"Give a run folder .*edition.toml.*published:70b"):
        read_board(place)


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        '{"metrics": {"m": {"rows": [{"agent": "a", "score": "high", "low": 0, "high": 1, "n": 1}], "level": 0.9}}}',
    ],
)
def test_a_leaderboard_that_is_damaged_is_told_with_the_file(tmp_path, text):
    (tmp_path / "leaderboard.json").write_text(text)
    with pytest.raises(UserError, match=r"leaderboard.json (cannot be read|must be a JSON object|does not match)"):
        read_board(tmp_path)


def test_a_run_without_a_metric_of_responses_has_no_board(tmp_path):
    (tmp_path / "leaderboard.json").write_text(
        '{"metrics": {"tvd-mi[labels]": {"metric": "", "signature": "", "criteria": {}}}}'
    )
    with pytest.raises(UserError, match="no agent has a score"):
        read_board(tmp_path)


def test_a_run_folder_whose_agents_cannot_be_read_says_which_line(run_folder):
    (run_folder / "agents.jsonl").write_text('{"agent": "model", "parameters": -1}\n{"agent": ""}\n')
    with pytest.raises(
        StudyError, match=r"(?s)agents.jsonl:1: parameters must be .* got -1.*agents.jsonl:2: agent must be a name"
    ):
        read_board(run_folder)


def test_the_table_has_all_metrics_side_by_side_and_marks_what_is_missing():
    board = read_board("published:70b")
    shown = board.table()
    assert [row["agent"] for row in shown.rows][:2] == ["claude-3-opus", "claude-3-sonnet"]
    assert [column.name for column in shown.columns][3:] == ["gem", "gem-s[abstract]", "gem-s[assw]"]
    assert "estimated sizes: gpt-4o-mini" in shown.to_markdown()
    assert json.loads(json.dumps(board.as_json(), allow_nan=False))["metrics"]["gem"]["gpt-4o"]["score"] == 20.08
    lone = Board("b", {"m": {"a": BoardScore(1.0, 0.5, 1.5, 9)}}, {"a": Agent("a"), "b": Agent("b")}, level=0.9)
    assert "| b | - | - | missing | - |" in lone.table().to_markdown()
    assert "0.50 … 1.50" in lone.table().to_markdown()


def test_models_stand_highest_first_and_those_without_a_score_not_at_all():
    scores = {"low": BoardScore(1.0), "none": BoardScore(None), "high": BoardScore(2.0), "human": BoardScore(9.0)}
    board = Board("b", {"m": scores}, {name: Agent(name) for name in scores})
    assert board.models("m") == {"high": 2.0, "low": 1.0}


def test_a_board_of_invented_papers_says_so_and_one_whose_note_cannot_be_read_is_an_error(run_folder):
    (run_folder / "gre.json").write_text(json.dumps({"demonstration": "INVENTED, not a result."}))
    assert read_board(run_folder).notes == ("INVENTED, not a result",)
    (run_folder / "gre.json").write_text(json.dumps({"demonstration": None}))
    assert read_board(run_folder).notes == ()
    (run_folder / "gre.json").write_text("[]")
    with pytest.raises(UserError, match=r"gre\.json must be a JSON object"):
        read_board(run_folder)
