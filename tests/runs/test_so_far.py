"""Agents' means while evidence arrives: right at every look, equal to the leaderboard at the end, and cheap."""

from __future__ import annotations

import json
import re
import threading
from itertools import count

import anyio
import polars as pl
import pytest

import goldless
from goldless.files import PROGRESS_FILE
from goldless.models.scripted import ScriptedModel
from goldless.reports.document import read_document
from goldless.reports.run_record import AgentSoFar, BoardSoFar, RunProgress
from goldless.runs import evaluation, progress
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study, review_study, score_study
from goldless.runs.progress import Progress, ProgressFile

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no rewriter")

TASKS = 4
WORTH = {"ann": 3, "bob": 2, "cy": 1}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at every piece of evidence."""
    monkeypatch.setattr(progress, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(progress, "SHARE_OF_TIME", 1e9)


def study():
    rows = [
        {"task": f"t{t}", "agent": agent, "text": " ".join([f"w{t}", *["more"] * worth])}
        for t in range(TASKS)
        for agent, worth in WORTH.items()
    ]
    return goldless.study_from_frame(pl.DataFrame(rows))


def scorer() -> ScriptedModel:
    return ScriptedModel(logprobs=lambda context, target: [-1.0 - (word not in context) for word in target.split()])


def seen(work, tmp_path, **options):
    boards: list[list[BoardSoFar]] = []
    given = Options.of(journal=tmp_path / "j.sqlite", resamples=200, so_far=boards.append, **options)
    return anyio.run(work, study(), given), boards


def shown(board: BoardSoFar) -> list[tuple[str, float | None, int]]:
    return [(row.agent, row.score, row.tasks) for row in board.rows]


@pytest.mark.usefixtures("always")
def test_means_follow_the_tasks_and_the_last_look_is_the_leaderboard(tmp_path):
    result, boards = seen(evaluate_study, tmp_path, metrics=("gem-raw",), scorer=scorer())
    # one look at each task, and one when the metric is computed at the end
    assert [[row.tasks for row in looked[0].rows] for looked in boards] == [[n] * 3 for n in (1, 2, 3, 4, 4)]
    board = result.leaderboard()
    final = [(row.agent, pytest.approx(row.score), row.estimate.n) for row in board.rows]
    assert shown(boards[-1][0]) == shown(boards[-2][0]) == final
    assert (boards[0][0].metric, boards[0][0].unit) == ("gem-raw", board.unit)
    by_task = result.outcomes["gem-raw"].responses.filter(pl.col("task").is_in(["t0", "t1"]))
    means = dict(by_task.group_by("agent").agg(pl.col("score").mean()).iter_rows())
    assert {agent: score for agent, score, _ in shown(boards[1][0])} == pytest.approx(means)


@pytest.mark.usefixtures("always")
def test_a_review_is_seen_while_reviewers_answer(tmp_path):
    def longer(request) -> str:
        first, second = re.findall(r"^(#{12,})\n(.*?)\n\1$", request.messages[-1].content, re.DOTALL | re.MULTILINE)
        return "one" if len(first[1]) > len(second[1]) else "two"

    reviewers = {"r": ScriptedModel(answers=longer, name="r")}
    result, boards = seen(review_study, tmp_path, reviewers=reviewers, exams=("none",))
    assert len(boards) > TASKS
    final = [(row.agent, row.score, row.n_tasks) for row in result.ranking]
    # ann is longest and beats both, bob beats cy
    assert shown(boards[-1][0]) == shown(boards[-2][0]) == final == [("ann", 1.0, 4), ("bob", 0.5, 4), ("cy", 0.0, 4)]


@pytest.mark.usefixtures("always")
def test_a_look_that_fails_ends_no_run_and_part_of_another_verb_is_not_told(tmp_path, monkeypatch: pytest.MonkeyPatch):
    _, told = seen(score_study, tmp_path, metrics=("gem-raw",), scorer=scorer())
    assert told == []
    whole = evaluation.metric_board
    calls = count()
    monkeypatch.setattr(
        "goldless.runs.evaluation.metric_board",
        lambda *given: whole(*given) if next(calls) == TASKS else 1 / 0,
    )
    result, boards = seen(evaluate_study, tmp_path, metrics=("gem-raw",), scorer=scorer())
    assert len(boards) == 1
    assert result.complete


# --- the file that says how far a run is -----------------------------------------------------------------------------


def test_a_stage_is_recorded_when_it_begins_however_soon_after_the_one_before(tmp_path):
    with ProgressFile(tmp_path, "score", lambda _: None) as tell:
        for stage in ("scoring", "judging"):
            tell(Progress(stage, 0, 24, 0, None))
            found = json.loads((tmp_path / PROGRESS_FILE).read_text())
            assert (found["stage"], found["done"], found["total"]) == (stage, 0, 24)


def test_a_run_that_ends_in_two_threads_at_once_has_its_record(tmp_path):
    for _ in range(200):  # a second signal ends the process from another thread while the first one is obeyed
        progress = ProgressFile(tmp_path, "score", lambda _: None)
        ending = threading.Thread(target=progress.interrupt)
        progress.__enter__()
        ending.start()
        progress.__exit__(KeyboardInterrupt)
        ending.join()
        assert json.loads((tmp_path / PROGRESS_FILE).read_text())["state"] == "interrupted"


def test_what_is_known_of_the_agents_stays_in_the_file_when_the_run_is_stopped(tmp_path):
    board = BoardSoFar("gem", "nats", (AgentSoFar("ann", 1.5, 2), AgentSoFar("bob", None, 0)))
    with ProgressFile(tmp_path, "score", lambda _: None) as tell:
        tell.so_far([board])
        tell(Progress("scoring", 3, 24, 0, None))
        tell.interrupt()
    found = read_document(tmp_path / PROGRESS_FILE, RunProgress)
    assert found.state == "interrupted"
    assert [(row.agent, row.score, row.tasks) for row in found.so_far[0].rows] == [("ann", 1.5, 2), ("bob", None, 0)]
