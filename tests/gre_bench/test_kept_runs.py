"""Results and evidence of before are kept where new ones would not have them."""

from __future__ import annotations

import json
import re

import pytest
from edition_folders import QUICK, reviewed

from goldless.apps.gre.edition import open_edition
from goldless.apps.gre.scoring import score_edition
from goldless.runs.options import Options

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scored(edition, toy_scorer, asking):
    """An edition that one model reviewed, scored."""
    edition = await reviewed(edition, asking, one={})
    return (await score_edition(edition, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking))[0]


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def runs(edition) -> list[str]:
    return sorted(path.name for path in edition.folder.iterdir() if path.name.startswith("run"))


def hashed(edition) -> str:
    return f"run-{edition.study().fingerprint[:8]}"


@pytest.mark.parametrize(
    ("settings", "scorer"),
    [({"metrics": ["rouge-l"]}, "toy"), ({}, "other"), ({"seed": 5}, "toy"), ({"template": ["general"]}, "toy")],
)
async def test_evidence_and_leaderboards_of_other_settings_are_kept_and_said_to_be(
    scored, toy_scorer, tmp_path, settings, scorer
):
    files = contents(scored.folder / "run")
    assert any(path.parts[0] == "logprobs" for path in files)
    said = []
    asking = Options(journal=tmp_path / "another.sqlite", say=said.append)
    await score_edition(scored, {**QUICK, **settings}, stand_ins={"scorer": toy_scorer(name=scorer)}, options=asking)
    kept = scored.folder / hashed(scored)
    assert contents(kept) == files
    assert any(str(kept) in line for line in said)


async def test_leaderboards_on_clean_papers_are_kept_where_a_cut_off_changes_them(edition, toy_scorer, asking):
    stand_ins = {"scorer": toy_scorer()}
    edition = await reviewed(edition, asking, one={"cutoff_date": "2024-02"})
    await score_edition(edition, QUICK, stand_ins=stand_ins, options=asking)
    before = (edition.folder / "run" / "gre.json").read_bytes()
    # p1 became public on 2024-03-01, p2 on 2024-09-01: the first change leaves both after the cut-off, the second one
    for cutoff, count in (("2024-01", 1), ("2024-05", 2)):
        config = edition.folder / "edition.toml"
        config.write_text(re.sub(r'cutoff_date = ".*"', f'cutoff_date = "{cutoff}"', config.read_text()))
        edition = open_edition(edition.folder)
        last = (edition.folder / "run" / "gre.json").read_bytes()
        await score_edition(edition, QUICK, stand_ins=stand_ins, options=asking)
        assert len(runs(edition)) == count
    kept = edition.folder / hashed(edition) / "gre.json"
    assert kept.read_bytes() == last
    assert json.loads(before)["contamination"]["common"] == json.loads(last)["contamination"]["common"] == ["p1", "p2"]
    assert json.loads((edition.folder / "run" / "gre.json").read_text())["contamination"]["common"] == ["p2"]
