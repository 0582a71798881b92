"""The sample study that ships with the package."""

from __future__ import annotations

from pathlib import Path

import goldless
from goldless.studies import read_study, sample_study


def test_it_ships_inside_the_package_with_its_licence_and_what_it_is():
    folder = sample_study()
    assert folder.is_relative_to(Path(goldless.__file__).parent)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "Licence" in readme
    assert "invented" in readme


def test_two_raters_rated_every_response():
    raters = {}
    for rating in read_study(sample_study()).ratings():
        raters.setdefault(rating.rater, []).append((rating.task, rating.agent))
    assert len(raters) == 2
    assert all(len(set(rated)) == len(rated) == 84 for rated in raters.values())
