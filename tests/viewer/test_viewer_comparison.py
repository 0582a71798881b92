"""Two runs side by side; differences and Student's t by hand."""

from __future__ import annotations

import pytest
from viewer_runs import written_run

from goldless.reports.run_folder import RunFolder
from goldless.viewer.comparison import common_metrics, compare_page, compare_runs
from goldless.viewer.library import Library
from goldless.viewer.links import Links
from goldless.viewer.task_index import make_index


def opened(path):
    run = RunFolder(path)
    return run, make_index(run)


def scores(values, metric="m"):
    return [(metric, task, agent, value) for (task, agent), value in values.items()]


def test_differences_are_paired_by_task_and_agent_and_have_an_interval(tmp_path):
    """ann differs by 1, 2 and 3: mean 2, standard error 1/sqrt(3); Student's t at 2 degrees of freedom is 4.302653."""
    before = {("t1", "ann"): 1.0, ("t2", "ann"): 1.0, ("t3", "ann"): 1.0, ("t1", "bob"): 5.0}
    after = {("t1", "ann"): 2.0, ("t2", "ann"): 3.0, ("t3", "ann"): 4.0, ("t1", "bob"): 4.0, ("t9", "ann"): 9.0}
    first, second = (
        opened(written_run(tmp_path / name, scores(values), signature=f"m|seed:{name}|level:0.95"))
        for name, values in (("one", before), ("two", after))
    )
    found = compare_runs(first, second, "m")
    by_agent = {row["agent"]: row for row in found.agents}
    ann, half = by_agent["ann"], 4.302653 / 3**0.5
    assert (ann["first"], ann["second"], ann["difference"], ann["n"]) == (1.0, 3.0, 2.0, 3)
    assert (ann["low"], ann["high"]) == pytest.approx((2 - half, 2 + half), abs=1e-5)
    assert (by_agent["bob"]["difference"], by_agent["bob"]["low"]) == (-1.0, None)
    assert (found.common_tasks, found.only_first, found.only_second, found.same_study) == (3, 0, 1, True)
    # t1: ann and bob, (1 - 1) / 2 = 0; t2 and t3: ann alone
    assert [(row["task"], row["difference"], row["agents"]) for row in found.tasks] == [
        ("t3", 3.0, 1),
        ("t2", 2.0, 1),
        ("t1", 0.0, 2),
    ]
    assert [tuple(one.values()) for one in found.settings] == [("seed", "one", "two")]


def test_a_score_that_one_run_lacks_is_in_no_difference(tmp_path):
    before = {("t1", "ann"): 1.0, ("t2", "ann"): None}
    after = {("t1", "ann"): 2.0, ("t2", "ann"): 9.0}
    found = compare_runs(
        opened(written_run(tmp_path / "one", scores(before), fingerprint="f1")),
        opened(written_run(tmp_path / "two", scores(after), fingerprint="f2")),
        "m",
    )
    assert [row["task"] for row in found.tasks] == ["t1"]
    assert found.same_study is False


def test_only_metrics_of_both_runs_are_compared(tmp_path):
    one = written_run(tmp_path / "one", [("m", "t", "a", 1.0), ("x", "t", "a", 1.0)])
    two = written_run(tmp_path / "two", [("y", "t", "a", 1.0), ("m", "t", "a", 1.0)])
    assert common_metrics(make_index(RunFolder(one)), make_index(RunFolder(two))) == ("m",)


def test_runs_without_signatures_are_not_said_to_have_the_same(tmp_path):
    for name in ("a", "b"):
        written_run(tmp_path / "runs" / name, [("m", "t1", "ann", 1.0)], signature="")
    library = Library(tmp_path / "runs", journal=tmp_path / "j.sqlite")
    page = compare_page(library, Links(), {"first": "a", "second": "b"})
    assert "neither run has a signature" in page
    assert "signatures are identical" not in page
