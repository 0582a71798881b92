"""Which agents are compared, over which peers, and what is said where nothing can be decided."""

from __future__ import annotations

import json

import pytest

import goldless as library


@pytest.fixture
def contrasts(tmp_path):
    """Recorded contrasts of 8 tasks and 4 agents: a is better than b, b than c, c than d, on every task."""
    folder = tmp_path / "study"
    folder.mkdir()
    worth = dict(zip("abcd", (0.4, 0.3, 0.2, 0.1), strict=True))
    rows = [
        {"task": f"t{t}", "first": one, "second": other, "contrast": worth[one] + worth[other] + 0.01 * (t % 3)}
        for t in range(8)
        for one in worth
        for other in worth
        if one != other
    ]
    (folder / "critic_contrasts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = [{"task": f"t{t}", "prompt": "?"} for t in range(8)]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tasks))
    (folder / "agents.jsonl").write_text("".join(json.dumps({"agent": name}) + "\n" for name in worth))
    return folder


def compared(goldless, study, *options):
    ended = goldless("score", study, "--recorded", "--metric", "tvd-mi", "--json", *options)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["metrics"]["tvd-mi"]


def test_all_pairs_are_decided_by_the_scores(goldless, contrasts):
    found = compared(goldless, contrasts)
    assert [(c["first"], c["second"]) for c in found["comparisons"][:2]] == [("a", "b"), ("a", "c")]
    # a: mean over b, c, d of 0.4 + worth = 0.6; b: 0.3 + (0.4 + 0.2 + 0.1) / 3
    assert found["comparisons"][0]["difference"] == pytest.approx(0.6 - (0.3 + 0.7 / 3))
    # 2 of 2^8 flips for every pair
    assert {c["p_adjusted"] for c in found["comparisons"]} == {2 / 256}
    assert [len(row["better_than"]) for row in found["rows"]] == [3, 2, 1, 0]
    assert "|over:common-peers|" in found["signature"]
    assert "test:sign-flip-max-t-less-skew(all)" in found["signature"]
    own = compared(goldless, contrasts, "--over-peers", "own")
    # both directions are the same here: so is the score over common peers and over one's own
    assert [row["score"] for row in own["rows"]] == pytest.approx([row["score"] for row in found["rows"]])
    assert "|over:own-peers|" in own["signature"]


def test_a_baseline_and_the_leader_have_their_own_comparisons(goldless, contrasts):
    baseline = compared(goldless, contrasts, "--baseline", "c")
    assert [(c["first"], c["second"]) for c in baseline["comparisons"]] == [("a", "c"), ("b", "c"), ("c", "d")]
    leader = compared(goldless, contrasts, "--compare", "leader")
    assert [(c["first"], c["second"]) for c in leader["comparisons"]] == [("a", "b"), ("a", "c"), ("a", "d")]
    from_python = library.evaluate(contrasts, metrics="tvd-mi", recorded=True, compare="leader").leaderboard()
    assert [c.p_adjusted for c in from_python.comparisons] == [c["p_adjusted"] for c in leader["comparisons"]]


def test_where_five_tasks_can_decide_nothing_table_and_check_say_so(goldless, contrasts, tmp_path):
    rows = [json.loads(line) for line in (contrasts / "critic_contrasts.jsonl").read_text().splitlines()]
    kept = [row for row in rows if row["task"] < "t5"]
    (contrasts / "critic_contrasts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    (contrasts / "tasks.jsonl").write_text(
        "".join(json.dumps({"task": f"t{t}", "prompt": "?"}) + "\n" for t in range(5))
    )
    said = "5 common tasks no difference can be significant at 0.05 (the smallest p is 0.0625); 6 are needed"
    assert any(said in note for note in compared(goldless, contrasts)["notes"])
    assert said in " ".join(goldless("study", "check", contrasts).err.split())
