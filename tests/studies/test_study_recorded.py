"""The recorded studies and the sample study, with the counts that are stated where they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

import goldless
from goldless.studies import read_study, sample_study


@pytest.mark.recorded
def test_ten_reviewers_judged_the_summaries_people_labelled(recorded):
    study = read_study(recorded / "xsum_peer_review")
    assert study.table("judgements")["reviewer"].n_unique() == 10
    assert study.n_ratings > 0
    assert study.n_preferences > 0
    assert "pertinence" in study.table("exams")["exam"].to_list()


@pytest.mark.recorded
def test_reviews_have_rewrites_and_abstracts_for_122_papers(recorded):
    study = read_study(recorded / "iclr23_reviews")
    assert study.synopses == ("abstract",)
    assert sum("abstract" in study.task(task).synopses for task in study.tasks) == 122
    assert study.table("rewrites").height == 900


@pytest.mark.recorded
def test_five_clinicians_compared_about_99_items_on_three_criteria(recorded):
    preferences = list(read_study(recorded / "chq_readers").preferences())
    assert len({label.rater for label in preferences}) == 5
    assert len({label.criterion for label in preferences}) == 3
    assert 95 <= len({label.task for label in preferences}) <= 103


@pytest.mark.recorded
def test_reddit_was_recorded_under_four_attacks(recorded):
    attacks = recorded / "reddit_peer_prediction" / "attacks"
    assert len([read_study(path) for path in attacks.iterdir()]) == 4


# --- the sample study -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study():
    return read_study(sample_study())


def test_it_has_fourteen_tasks_answered_by_six_agents_without_a_gap(study):
    assert len(study) == 14
    assert len(study.agents) == 6
    assert all(len(responses) == 6 for _, responses in study)


def test_it_ships_inside_the_package_with_its_licence_and_what_it_is():
    folder = sample_study()
    assert folder.is_relative_to(Path(goldless.__file__).parent)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "Licence" in readme
    assert "invented" in readme


def test_two_raters_rated_every_response(study):
    raters = {}
    for rating in study.ratings():
        raters.setdefault(rating.rater, []).append((rating.task, rating.agent))
    assert len(raters) == 2
    assert all(len(set(rated)) == len(rated) == 84 for rated in raters.values())
