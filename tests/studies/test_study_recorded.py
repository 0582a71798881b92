"""The recorded studies, with the counts that are stated where they come from."""

from __future__ import annotations

import pytest

from goldless.studies import read_study

pytestmark = pytest.mark.recorded

STATED = {
    "xsum_peer_review": {"tasks": 100, "agents": 7, "responses": 700},
    "samsum_peer_prediction": {"tasks": 200, "agents": 30, "responses": 6000},
    "reddit_peer_prediction": {"tasks": 200, "agents": 30, "responses": 0},
    "iclr23_reviews": {"tasks": 300, "agents": 3, "responses": 900},
}


@pytest.mark.parametrize("name", STATED)
def test_a_recorded_study_has_the_stated_size(recorded, name):
    study = read_study(recorded / name)
    found = {"tasks": len(study.tasks), "agents": len(study.agents), "responses": study.n_responses}
    assert found == STATED[name]


def test_ten_reviewers_judged_the_summaries_people_labelled(recorded):
    study = read_study(recorded / "xsum_peer_review")
    assert study.table("judgements")["reviewer"].n_unique() == 10
    assert study.n_ratings > 0
    assert study.n_preferences > 0
    assert "pertinence" in study.table("exams")["exam"].to_list()


def test_reviews_have_rewrites_and_abstracts_for_122_papers(recorded):
    study = read_study(recorded / "iclr23_reviews")
    assert study.synopses == ("abstract",)
    assert sum("abstract" in study.task(task).synopses for task in study.tasks) == 122
    assert study.table("rewrites").height == 900


def test_five_clinicians_compared_about_99_items_on_three_criteria(recorded):
    preferences = list(read_study(recorded / "chq_readers").preferences())
    assert len({label.rater for label in preferences}) == 5
    assert len({label.criterion for label in preferences}) == 3
    assert 95 <= len({label.task for label in preferences}) <= 103


def test_reddit_was_recorded_under_four_attacks(recorded):
    attacks = recorded / "reddit_peer_prediction" / "attacks"
    assert len([read_study(path) for path in attacks.iterdir()]) == 4
