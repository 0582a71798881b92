"""``goldless agree`` as a user types it."""

from __future__ import annotations

import json

import pytest

PEOPLE = {"ann": 3, "bob": 2, "cy": 1}


def label(task, agent, score, rater):
    return {"task": task, "agent": agent, "rater": rater, "score": score}


@pytest.fixture
def folder(tmp_path, three_agents):
    """Two raters on three tasks; ann is better than bob, bob than cy."""
    path = tmp_path / "study"
    path.mkdir()
    rows = [{"task": t, "agent": a, "text": text} for t, by in three_agents.items() for a, text in by.items()]
    labels = [label(t, a, score + (r == "q"), r) for t in three_agents for a, score in PEOPLE.items() for r in "pq"]
    judged = [
        {"reviewer": "rev", "format": "5-level", "task": t, "agent": a, "output": str(5 - score)}
        for t in three_agents
        for a, score in PEOPLE.items()
    ]
    for name, table in (("responses", rows), ("labels", labels), ("judgements", judged)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


@pytest.fixture
def scores(tmp_path, three_agents):
    """Right but for a tie of bob and cy: 2.5 of 3 pairs a task."""
    path = tmp_path / "mine.csv"
    rows = [f"{t},{a},{s}" for t in three_agents for a, s in (("ann", 2), ("bob", 1), ("cy", 1))]
    path.write_text("task,agent,score\n" + "\n".join(rows) + "\n")
    return path


def test_scores_of_a_file_are_held_against_people(goldless, folder, scores):
    ended = goldless("agree", folder, "--scores", scores, "--resamples", 200, "--json")
    assert ended.code == 0
    data = json.loads(ended.out)
    (judge,) = data["criteria"][0]["judges"]
    assert judge["name"] == "mine"
    assert judge["accuracy"]["accuracy"] == pytest.approx(7.5 / 9)
    assert (judge["accuracy"]["asked"], judge["accuracy"]["used"], judge["accuracy"]["tied"]) == (9, 9, 3)
    # q is one above p throughout: both order all pairs alike
    assert data["criteria"][0]["ceiling"]["accuracy"]["value"] == 1
    assert data["signature"].startswith("agreement|")


def test_a_metric_is_computed_from_recorded_evidence_and_held_against_people(goldless, folder, three_agents):
    """What each response tells about its peers rises with what people think of it, so all pairs are right."""
    rows = []
    for task in three_agents:
        for target in PEOPLE:
            rows.append({"scorer": "toy", "task": task, "target": target, "given": None, "sum_logprob_nats": -9.0})
            rows += [
                {"scorer": "toy", "task": task, "target": target, "given": a, "sum_logprob_nats": -9.0 + score}
                for a, score in PEOPLE.items()
                if a != target
            ]
    (folder / "logprobs.jsonl").write_text("".join(json.dumps({**row, "tokens": 3}) + "\n" for row in rows))
    ended = goldless("agree", folder, "--metric", "gem-raw", "--recorded", "--resamples", 200, "--json")
    assert ended.code == 0
    (judge,) = json.loads(ended.out)["criteria"][0]["judges"]
    assert (judge["name"], judge["kind"], judge["accuracy"]["accuracy"]) == ("gem-raw", "metric", 1)
    assert judge["signature"].startswith("gem-raw|scorer:toy")
    # of the 36 pairs of all nine responses 9 are of one agent and tied: tau-a is 27 / 36
    assert [c["value"] for c in judge["correlations"]] == pytest.approx([1, 1, 1, 1, 1, 27 / 36, 1, 1, 1])


def test_labels_of_agents_that_are_not_in_the_study_are_one_message(goldless, folder, scores):
    path = folder / "labels.jsonl"
    strange = [label(t, "zed", 1, r) for t in ("t1", "t2") for r in "pq"]
    path.write_text(path.read_text() + "".join(json.dumps(row) + "\n" for row in strange))
    ended = goldless("agree", folder, "--scores", scores)
    assert ended.code == 2
    assert ended.err.count("zed") == 1
    assert "agent 'zed' is not in responses.jsonl (4 rows from here on)" in " ".join(ended.err.split())


def test_one_rater_is_said_and_ends_well(goldless, folder, scores):
    path = folder / "labels.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"rater": "p"' in line))
    ended = goldless("agree", folder, "--scores", scores, "--resamples", 200)
    assert ended.code == 0
    assert "none: one rater" in ended.out
