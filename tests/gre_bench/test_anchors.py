"""Anchors: papers of an earlier edition in a new one, as they were."""

from __future__ import annotations

import pytest
from edition_folders import papers_folder

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import ANCHOR, marked_papers, open_edition, open_or_begin
from goldless.errors import UserError

pytestmark = pytest.mark.anyio
NEW = {"n1": ("a", "b", "c"), "n2": ("d", "e", "f")}


def next_year(tmp_path, earlier, papers=NEW, **settings):
    papers_folder(tmp_path / "new", papers)
    asked = {"from_folder": str(tmp_path / "new"), "anchors": str(earlier.folder), **settings}
    return collect_edition(open_or_begin(tmp_path / "2025"), asked)


def people(study, task):
    return {response.agent: response.text for response in study.responses(task)}


def test_an_anchor_keeps_its_text_its_candidate_and_its_references_and_names_its_edition(tmp_path, edition):
    before = edition.study()
    study = next_year(tmp_path, edition, anchor_papers=2).study()
    assert marked_papers(study, ANCHOR) == {"p1": "2024", "p2": "2024"}
    assert sorted(study.tasks) == ["n1", "n2", "p1", "p2"]
    for paper in ("p1", "p2"):
        assert study.task(paper).prompt == before.task(paper).prompt
        assert people(study, paper) == people(before, paper)
    assert study.task("n1").extra.get("anchor") is None


def test_the_same_seed_draws_the_same_anchors_and_older_anchors_are_not_handed_on(tmp_path, edition):
    second = next_year(tmp_path, edition, anchor_papers=1, seed=3)
    again = collect_edition(
        open_or_begin(tmp_path / "other"),
        {"from_folder": str(tmp_path / "new"), "anchors": str(edition.folder), "anchor_papers": 1, "seed": 3},
    )
    assert marked_papers(again.study(), ANCHOR) == marked_papers(second.study(), ANCHOR)
    papers_folder(tmp_path / "newest", {"q": ("x", "y", "z")})
    third = {"from_folder": str(tmp_path / "newest"), "anchors": str(second.folder)}
    with pytest.raises(UserError, match=r"it has 2 papers that are not .* but 3 anchors were requested"):
        collect_edition(open_or_begin(tmp_path / "2026"), {**third, "anchor_papers": 3})
    made = collect_edition(open_or_begin(tmp_path / "2026"), {**third, "anchor_papers": 2})
    assert marked_papers(made.study(), ANCHOR) == dict.fromkeys(NEW, "2025")


def test_a_paper_that_is_drawn_anyway_is_no_anchor(tmp_path, edition):
    same = {"p1": ("zarn bluk", "zarn mipo", "quex bluk"), "n1": ("a", "b", "c")}
    study = next_year(tmp_path, edition, same, anchor_papers=1).study()
    assert marked_papers(study, ANCHOR) == {"p2": "2024"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reviews": 2, "anchor_papers": 1}, "3 human reviews each, not 2"),
        ({"anchor_papers": 20}, "it has 2 papers that are not .* but 20"),
        ({"anchors": "nowhere", "anchor_papers": 1}, "not an edition"),
    ],
)
def test_anchors_that_cannot_be_are_refused_before_anything_is_written(tmp_path, edition, settings, message):
    with pytest.raises(UserError, match=message):
        next_year(tmp_path, edition, **settings)
    assert not (tmp_path / "2025" / "edition.toml").exists()


def test_other_anchors_than_those_drawn_are_refused(tmp_path, edition):
    made = next_year(tmp_path, edition, anchor_papers=1)
    made.with_settings({"collect": {"anchor_papers": 2}})
    with pytest.raises(UserError, match="anchor_papers 1, not 2"):
        open_edition(made.folder).study()
