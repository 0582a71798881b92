"""Pre-registration: what it covers, and that a run says what has changed since."""

from __future__ import annotations

import json

import pytest
from edition_folders import QUICK, reviewed

from goldless.apps.gre.edition import open_edition
from goldless.apps.gre.preregistration import FILE, PAPERS, check_registration, preregister
from goldless.apps.gre.scoring import score_edition
from goldless.errors import UserError

pytestmark = pytest.mark.anyio


def test_registering_twice_is_the_same_registration_and_reviewers_get_every_paper(edition):
    first = preregister(edition)
    assert preregister(edition) == first
    assert (first.changed, first.reviews_before) == ((), 0)
    rows = [json.loads(line) for line in (edition.folder / PAPERS).read_text().splitlines()]
    study = edition.study()
    assert {row["paper"]: row["text"] for row in rows} == {task: study.task(task).prompt for task in study.tasks}
    assert "human" not in rows[0]


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"score": {"scorer": "hf:other/model"}}, "scorer"),
        ({"score": {"metrics": ["gem"]}}, "metrics"),
        ({"score": {"rewriter": ["embedded"]}}, "preprocessing"),
        ({"score": {"level": 0.5}}, "statistics"),
        ({"score": {"template": ["general"]}}, "scorer"),
        ({"review": {"temperature": 1.0}}, "reviewing"),
    ],
)
def test_every_setting_that_numbers_depend_on_is_covered(edition, settings, part):
    preregister(edition)
    changed = edition.with_settings(settings)
    assert part in check_registration(changed).changed
    with pytest.raises(UserError, match=f"but changed since: .*{part}"):
        preregister(changed)


@pytest.mark.parametrize(
    ("table", "old", "new", "part"),
    [
        ("tasks", "word for word", "word by word", "draw"),
        ("responses", "zarn bluk", "zarn blok", "draw"),
        ("tasks", '"task":"p1"', '"task":"p1","anchor":"2023"', "anchors"),
    ],
)
def test_changed_papers_reviews_and_anchors_are_noticed(edition, table, old, new, part):
    preregister(edition)
    file = edition.study_folder / f"{table}.jsonl"
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new, 1))
    assert check_registration(edition).changed == (part,)


async def test_a_run_says_that_it_is_as_registered_or_what_was_changed(edition, asking, toy_scorer):
    edition = edition.with_settings({"score": QUICK})
    registered = preregister(edition)
    edition = await reviewed(edition, asking, wordy={})
    run = edition.folder / "run" / "gre.json"
    await score_edition(edition, {}, stand_ins={"scorer": toy_scorer()}, options=asking)
    noted = json.loads(run.read_text())["preregistered"]
    assert (noted["hash"], noted["matches"], noted["changed"]) == (registered.hash, True, [])
    _, scores, _ = await score_edition(edition, {"level": 0.5}, stand_ins={"scorer": toy_scorer()}, options=asking)
    noted = json.loads(run.read_text())["preregistered"]
    assert (noted["hash"], noted["matches"], noted["changed"]) == (registered.hash, False, ["statistics"])
    assert any("changed since: statistics" in note for note in scores.table().notes)


def test_a_registration_that_was_edited_says_so_and_one_that_is_none_is_an_error(edition):
    preregister(edition)
    file = edition.folder / FILE
    noted = json.loads(file.read_text())
    noted["parts"]["metrics"] = ["gem"]
    file.write_text(json.dumps(noted))
    assert check_registration(open_edition(edition.folder)).changed == (f"{FILE} itself",)
    for text in ("", "[]", "{}", json.dumps({**noted, "hashes": 3})):
        file.write_text(text)
        with pytest.raises(UserError, match="not a pre-registration"):
            check_registration(edition)
