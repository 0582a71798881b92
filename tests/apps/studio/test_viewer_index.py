"""The list of tasks: sorted, filtered and searched; expected values by hand from the few numbers written here."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.apps.studio.run_pages import read_query, run_page
from goldless.apps.studio.site import Site, find_runs
from goldless.apps.studio.task_index import kept_index
from goldless.errors import UserError
from goldless.reports.html.page import write_report
from goldless.reports.run_folder import RunFolder
from tests.apps.studio.viewer_runs import listed, written_run

SCORES = [
    ("m", "t1", "ann", 4.0),
    ("m", "t1", "bob", 2.0),
    ("m", "t2", "ann", 1.0),
    ("m", "t2", "bob", 9.0),
    ("m", "t3", "ann", None),
    ("m", "t3", "bob", -1.0),
    ("other", "t1", "ann", 0.5),
]
PROMPTS = {"t1": "Name a RIVER.", "t2": "Name a hill.", "t3": "Name 100% (a.b)"}
RESPONSES = [("t1", "ann", "the Rhine"), ("t2", "bob", "a river hill"), ("t3", "ann", "nothing")]


@pytest.fixture
def index(tmp_path):
    written_run(
        tmp_path / "run",
        SCORES,
        prompts=PROMPTS,
        responses=RESPONSES,
        failures=[("t3", "ann", "refused"), ("t3", "ann", "refused"), ("t2", "bob", "timeout")],
    )
    return kept_index(RunFolder(tmp_path / "run"))


def test_a_task_has_the_mean_the_spread_and_what_is_missing_over_its_agents(index):
    """t1: (4 + 2) / 2; t2: (1 + 9) / 2, spread 8; t3: one score of two, and one of its four pairs was not used."""
    rows = {row["task"]: row for row in index.page(metric="m").rows}
    assert [(rows[t]["score"], rows[t]["spread"]) for t in ("t1", "t2", "t3")] == [(3.0, 2.0), (5.0, 8.0), (-1.0, 0.0)]
    assert (rows["t2"]["best"], rows["t2"]["worst"]) == ("bob", "ann")
    assert (rows["t3"]["missing"], rows["t3"]["asked"], rows["t3"]["failures"]) == (1, 4, 2)
    assert rows["t3"]["best"] == "bob"
    assert index.page(metric="m", agent="ann").rows[2]["score"] is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"order": "score"}, "t3 t1 t2"),
        ({"order": "score", "descending": True}, "t2 t1 t3"),
        ({"order": "spread", "descending": True}, "t2 t1 t3"),
        ({"order": "missing", "descending": True}, "t3 t1 t2"),
        ({"order": "failures", "descending": True}, "t3 t2 t1"),
        # a missing score is never sorted as a number
        ({"agent": "ann", "order": "score"}, "t2 t1 t3"),
        ({"agent": "ann", "order": "score", "descending": True}, "t1 t2 t3"),
        ({"low": 3.0}, "t1 t2"),
        ({"low": 3.0, "high": 4.0}, "t1"),
        ({"agent": "bob", "high": 2.0}, "t1 t3"),
        ({"failure": "refused"}, "t3"),
        ({"failure": "any"}, "t2 t3"),
        ({"failure": "none"}, "t1"),
        ({"failure": "refused", "agent": "bob"}, ""),
        ({"missing": True}, "t3"),
        # whatever the case, and signs are taken literally
        ({"search": "river"}, "t1 t2"),
        ({"search": "RHINE"}, "t1"),
        ({"search": "(a.b)"}, "t3"),
        ({"search": "a.*l"}, ""),
        ({"search": "100%"}, "t3"),
    ],
)
def test_tasks_are_sorted_filtered_and_searched(index, query, expected):
    assert [row["task"] for row in index.page(metric="m", **query).rows] == expected.split()


def test_failures_are_counted_over_all_parts_of_a_table(index):
    whole = index.run.path / "logprobs.parquet"
    (whole.parent / "logprobs").mkdir()
    for number, part in enumerate(pl.read_parquet(whole).iter_slices(2)):
        part.write_parquet(whole.parent / "logprobs" / f"part-{number:05}.parquet")
    whole.unlink()
    (whole.parent / "verdicts").mkdir()  # a folder of parts that is empty is a table without rows
    counted = kept_index(RunFolder(whole.parent)).failures.group_by("kind").agg(pl.len()).sort("kind")
    assert counted.rows() == [("refused", 2), ("timeout", 1)]
    assert "Example: refused among log-probabilities" in write_report(whole.parent).read_text(encoding="utf-8")


def test_judgements_are_scored_by_the_share_of_comparisons_won(tmp_path):
    """ann won 1 and 0.5 of two that could be read, so 0.75; bob 0 and 0.5; one of the three was unparsable."""
    rows = [
        ("r", "pairwise", "t1", "ann", "bob", None, "one", 1.0, None),
        ("r", "pairwise", "t1", "bob", "ann", None, "tie", 0.5, None),
        ("s", "pairwise", "t1", "ann", "bob", None, "hm", None, "unparsable"),
        ("r", "5-level", "t1", None, None, "ann", "4", 4.0, None),
    ]
    names = ["reviewer", "format", "task", "first", "second", "agent", "output", "value", "failure"]
    (tmp_path / "run").mkdir()
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(tmp_path / "run" / "judgements.parquet")
    index = kept_index(RunFolder(tmp_path / "run"))
    found = {key: (row["score"], row["asked"], row["used"]) for key, row in index.scores_of("t1").items()}
    assert found == {
        ("review: pairwise", "ann"): (0.75, 3, 2),
        ("review: pairwise", "bob"): (0.25, 3, 2),
        ("review: 5-level", "ann"): (4.0, 1, 1),
    }
    assert index.page(metric="review: pairwise", search="HM", scope="replies").total == 1


def test_a_pairwise_review_is_listed_by_how_far_its_comparisons_disagree(tmp_path):
    """By hand: on t1 all three say ann; on t2 ann won one of two, so 1 - |2 / 2 - 1| = 1; on t3 3 of 4, so 0.5."""
    won = {"t1": [1.0, 1.0, 1.0], "t2": [1.0, 0.0], "t3": [1.0, 1.0, 1.0, 0.0]}
    rows = [
        # every second one in the other order, where the same verdict is the other number
        ("r", "pairwise", task, *(("ann", "bob", v) if i % 2 else ("bob", "ann", 1 - v)), f"the {task} wins")
        for task, values in won.items()
        for i, v in enumerate(values)
    ]
    names = ["reviewer", "format", "task", "first", "second", "value", "output"]
    (tmp_path / "run").mkdir()
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(tmp_path / "run" / "judgements.parquet")
    index = kept_index(RunFolder(tmp_path / "run"))
    found = index.page(**read_query({}, index)).rows
    assert [(row["task"], row["disagreement"]) for row in found] == [("t2", 1.0), ("t3", 0.5), ("t1", 0.0)]
    assert {row["score"] for row in found} == {0.5}
    assert read_query({"agent": "ann"}, index)["order"] == "task"
    other = read_query({"order": "task"}, index)
    assert [row["task"] for row in index.page(**other).rows] == ["t1", "t2", "t3"]
    row = index.page(**read_query({"q": "T2 WINS", "in": "replies"}, index)).rows[0]
    assert (row["source"], row["passage"]) == ("r", ("the ", "t2 wins", ""))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"order": "size"}, "order must be one of task, score, spread, disagreement, missing, failures, got 'size'"),
        ({"low": "low"}, "the low score limit must be a number, got 'low'"),
        ({"high": "nan"}, "the high score limit must be a number"),
        ({"agent": "zed"}, "this run has no agent 'zed'"),
        ({"metric": "zed"}, "no scores of 'zed' in this run. It has: m, other"),
        ({"failure": "zed"}, "failure must be one of any, none, refused, timeout"),
    ],
)
def test_an_address_that_means_nothing_is_told_what_is_allowed(index, given, said):
    with pytest.raises(UserError) as error:
        read_query(given, index)
    assert said in str(error.value)


# --- run folders -----------------------------------------------------------------------------------------------------


def test_a_folder_of_runs_or_one_run_folder_is_listed_and_nothing_else(tmp_path):
    written_run(tmp_path / "runs" / "one", SCORES)
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "going").mkdir()
    (tmp_path / "runs" / "going" / "progress.json").write_text('{"state": "running", "done": 1, "total": 4}')
    assert list(find_runs(tmp_path / "runs")) == ["going", "one"]
    assert list(find_runs(tmp_path / "runs" / "one")) == ["one"]
    by_name = {run.name: run for run in listed(tmp_path / "runs")}
    assert (by_name["going"].state, by_name["going"].progress.share) == ("running", 0.25)
    assert (by_name["one"].state, by_name["one"].results, by_name["one"].missing) == ("complete", ("m", "other"), 0)
    assert by_name["going"].missing is None


def test_an_interrupted_run_says_how_to_go_on_and_no_rate(tmp_path):
    (tmp_path / "run").mkdir()
    document = (
        '{"state": "interrupted", "stage": "scoring", "done": 4, "total": 9, "per_second": 2.5, "seconds_left": 2}'
    )
    (tmp_path / "run" / "progress.json").write_text(document)
    page = run_page(Site(tmp_path, journal=tmp_path / "j.sqlite"), {}, "run")
    assert "Run the same command again to resume" in page
    assert "4 of 9" in page
    assert "per second" not in page
    assert "0 tasks" not in page


def test_a_run_that_has_been_silent_for_long_is_not_called_running(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "progress.json").write_text('{"state": "running", "updated_at": 1000.0}')
    assert listed(tmp_path)[0].state == "silent"
