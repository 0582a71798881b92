"""``goldless audit``, and its warnings where other verbs show them."""

from __future__ import annotations

import json

import pytest

from tickets import EMPTY, TICKETS


@pytest.fixture
def suspicious(tmp_path):
    """Honest answers beside two agents of one empty text and one that copies the prompt."""
    path = tmp_path / "tickets.jsonl"
    rows = [
        {"task": f"t{i}", "agent": agent, "text": text, "prompt": ticket}
        for i, (ticket, good, _) in enumerate(TICKETS)
        for agent, text in {"good": good, "boiler1": EMPTY, "boiler2": f"{EMPTY} today", "copycat": ticket}.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


EXPECTED = (
    "boiler1 gives the same text to 6 of 6 tasks.",
    "boiler1 and boiler2 give nearly the same responses",
    "copycat repeats its prompt on 6 of 6 tasks.",
)


def test_the_audit_of_a_study_names_what_is_suspicious(goldless, suspicious):
    ended = goldless("audit", suspicious, "--json")
    assert ended.code == 0
    found = json.loads(ended.out)["findings"]
    assert [one["kind"] for one in found] == ["same-text", "same-text", "near-identical", "copied-prompt"]
    assert found[2]["agents"] == ["boiler1", "boiler2"]


@pytest.mark.parametrize("verb", [("study", "check"), ("plan",), ("score",)])
def test_other_verbs_warn_before_anything_is_asked(goldless, suspicious, verb):
    more = () if verb[0] == "study" else ("--metric", "length")
    ended = goldless(*verb, suspicious, *more)
    assert ended.code == 0
    assert all(line in ended.out + ended.err.replace("\n", " ") for line in EXPECTED if verb[0] != "plan")
    assert "boiler1 gives the same text" in ended.out + ended.err


def test_a_run_folder_is_audited_with_its_scores(goldless, suspicious, tmp_path):
    run = tmp_path / "run"
    assert goldless("score", suspicious, "--metric", "length,rouge-l", "--out", run).code == 0
    document = json.loads((run / "leaderboard.json").read_text())
    assert {one["kind"] for one in document["findings"]} >= {"same-text", "near-identical"}
    ended = goldless("audit", run, "--json")
    assert ended.code == 0
    kinds = [one["kind"] for one in json.loads(ended.out)["findings"]]
    assert kinds.count("near-identical") == 1
    assert "Before you trust this ranking" in (run / "report.html").read_text()


def test_a_folder_whose_scores_cannot_be_read_is_an_error(goldless, suspicious, tmp_path):
    run = tmp_path / "run"
    goldless("score", suspicious, "--metric", "length", "--out", run)
    (run / "leaderboard.json").write_text("[1]")
    ended = goldless("audit", run)
    assert ended.code == 2
    assert "leaderboard.json" in ended.err
