"""Which agents are compared, over which peers, and what is said where nothing can be decided."""

from __future__ import annotations

import json

import pytest

import goldless as library
from tests.support.study_files import study_folder


@pytest.fixture
def contrasts(tmp_path):
    """Recorded contrasts of 8 tasks and 4 agents: a is better than b, b than c, c than d, on every task."""
    worth = dict(zip("abcd", (0.4, 0.3, 0.2, 0.1), strict=True))
    rows = [
        {"task": f"t{t}", "first": one, "second": other, "contrast": worth[one] + worth[other] + 0.01 * (t % 3)}
        for t in range(8)
        for one in worth
        for other in worth
        if one != other
    ]
    return study_folder(tmp_path / "study", critic_contrasts=rows, tasks=tasks(8), agents=[{"agent": n} for n in worth])


def tasks(number: int) -> list[dict]:
    return [{"task": f"t{t}", "prompt": "?"} for t in range(number)]


def read(study) -> list[dict]:
    return [json.loads(line) for line in (study / "critic_contrasts.jsonl").read_text().splitlines()]


def compared(goldless, study, *options):
    ended = goldless("score", study, "--recorded", "--metric", "tvd-mi", "--format", "json", *options)
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
    assert [row["estimate"]["value"] for row in own["rows"]] == pytest.approx(
        [row["estimate"]["value"] for row in found["rows"]]
    )
    assert "|over:own-peers|" in own["signature"]


def test_a_baseline_and_the_leader_have_their_own_comparisons(goldless, contrasts):
    baseline = compared(goldless, contrasts, "--baseline", "c")
    assert [(c["first"], c["second"]) for c in baseline["comparisons"]] == [("a", "c"), ("b", "c"), ("c", "d")]
    leader = compared(goldless, contrasts, "--compare", "leader")
    assert [(c["first"], c["second"]) for c in leader["comparisons"]] == [("a", "b"), ("a", "c"), ("a", "d")]
    from_python = library.evaluate(contrasts, metrics="tvd-mi", recorded=True, compare="leader").leaderboard()
    assert [c.p_adjusted for c in from_python.comparisons] == [c["p_adjusted"] for c in leader["comparisons"]]


def test_groups_are_compared_under_the_stated_keys_and_in_a_sentence(goldless, contrasts):
    """a has 0.6, b 1.6 / 3, c 1.4 / 3, d 0.4 on every task but for what all share: so without any spread."""
    agents = [{"agent": name, "group": "good" if name in "ab" else "bad"} for name in "abcd"]
    asked = ("--compare-groups", "good", "bad")
    found = compared(goldless, study_folder(contrasts, agents=agents), *asked)
    assert found["groups"]["difference"]["value"] == pytest.approx((0.6 + 1.6 / 3 - 1.4 / 3 - 0.4) / 2)
    assert {"d_task", "d_response"} <= set(found["groups"])
    assert found["groups"]["auc"] == 1.0
    ended = goldless("score", contrasts, "--recorded", "--metric", "tvd-mi", *asked)
    assert "good against bad, 8 tasks: difference 0.133" in ended.out + ended.err


def test_where_five_tasks_can_decide_nothing_table_and_check_say_so(goldless, contrasts, tmp_path):
    rows = read(contrasts)
    kept = [row for row in rows if row["task"] < "t5"]
    study_folder(contrasts, critic_contrasts=kept, tasks=tasks(5))
    said = "5 common tasks no difference can be significant at 0.05 (the smallest p is 0.0625); 6 are needed"
    assert any(said in note for note in compared(goldless, contrasts)["notes"])
    assert said in " ".join(goldless("study", "check", contrasts).err.split())


def test_peers_like_these_have_a_wider_interval_and_the_table_says_so(goldless, contrasts):
    few = compared(goldless, contrasts)
    assert all(row["new_peers"] is None for row in few["rows"])
    assert "Intervals treat the peers as fixed: 3 are too few to allow for other peers." in few["notes"]
    rows = read(contrasts)
    fifth = [{**row, "first": "e"} for row in rows if row["first"] == "d"]
    back = [{**row, "second": "e"} for row in rows if row["second"] == "d"]
    between = [
        {"task": f"t{t}", "first": one, "second": other, "contrast": 0.3}
        for t in range(8)
        for one, other in ("de", "ed")
    ]
    study_folder(contrasts, critic_contrasts=[*rows, *fifth, *back, *between], agents=[{"agent": n} for n in "abcde"])
    found = compared(goldless, contrasts)
    for row in found["rows"]:
        assert row["new_peers"]["low"] < row["estimate"]["low"] <= row["estimate"]["high"] < row["new_peers"]["high"]
    assert found["order_kept"] is None  # two of five agents have three peers in common


def test_missing_scores_have_a_worst_case(goldless, contrasts):
    rows = read(contrasts)
    kept = [row for row in rows if not (row["task"] in {"t0", "t1"} and "d" in {row["first"], row["second"]})]
    study_folder(contrasts, critic_contrasts=kept)
    found = compared(goldless, contrasts)
    row = next(row for row in found["rows"] if row["agent"] == "d")
    score, worst = row["estimate"], row["worst"]
    assert score["n"] == 6
    # two of eight tasks at -1 pull the mean of 0.4 to about 0.05
    assert worst["low"] < 0.05 < score["low"] < score["high"] < worst["high"]
    assert any("if missing scores were -1 or 1 (the limits of the metric)" in note for note in found["notes"])
    assert any("Agents miss other tasks" in note for note in found["notes"])
