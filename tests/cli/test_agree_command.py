"""``goldless agree`` as a user types it."""

from __future__ import annotations

import json

import pytest

from study_files import response_rows, study_folder

PEOPLE = {"ann": 3, "bob": 2, "cy": 1}


@pytest.fixture
def held(goldless, tmp_path, three_agents):
    """Scores of a file beside the labels of raters; they are right but for a tie of bob and cy: 2.5 of 3 pairs a task.

    q is one above p throughout, so both order all pairs alike.
    """
    rows = [f"{t},{a},{s}" for t in three_agents for a, s in (("ann", 2), ("bob", 1), ("cy", 1))]
    (tmp_path / "mine.csv").write_text("task,agent,score\n" + "\n".join(rows) + "\n")

    def agree(raters: str, *more: str):
        labels = [
            {"task": t, "agent": a, "rater": r, "score": score + (r == "q")}
            for t in three_agents
            for a, score in PEOPLE.items()
            for r in raters
        ]
        folder = study_folder(tmp_path / "study", responses=response_rows(three_agents), labels=labels)
        return goldless("agree", folder, "--scores", tmp_path / "mine.csv", "--resamples", 200, *more)

    return agree


def test_scores_of_a_file_are_held_against_people(held):
    ended = held("pq", "--json")
    assert ended.code == 0
    data = json.loads(ended.out)
    (judge,) = data["criteria"][0]["judges"]
    assert judge["name"] == "mine"
    assert judge["accuracy"]["accuracy"] == pytest.approx(7.5 / 9)
    assert (judge["accuracy"]["asked"], judge["accuracy"]["used"], judge["accuracy"]["tied"]) == (9, 9, 3)
    assert data["criteria"][0]["ceiling"]["accuracy"]["value"] == 1
    assert data["signature"].startswith("agreement|")


def test_one_rater_is_said_and_ends_well(held):
    ended = held("p")
    assert ended.code == 0
    assert "none: one rater" in ended.out
