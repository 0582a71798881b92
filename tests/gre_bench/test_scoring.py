"""What scoring an edition keeps, refuses and stores, and how firm the ranking is."""

from __future__ import annotations

import json
import re

import pytest
from edition_folders import QUICK, reviewed

from goldless.apps.gre.edition import open_edition
from goldless.apps.gre.results import edition_standing, rank_flip, standing
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.errors import UserError
from goldless.meta_evaluation.judges import ScoredBy
from goldless.runs.options import Options

pytestmark = pytest.mark.anyio


def config_text(edition) -> str:
    return (edition.folder / "edition.toml").read_text()


def edit(edition, old, new):
    """The edition after somebody wrote something else into its config."""
    assert old in config_text(edition)
    (edition.folder / "edition.toml").write_text(config_text(edition).replace(old, new))
    return open_edition(edition.folder)


# --- what is stored ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    ["http://me:SECRETPW@127.0.0.1:9/v1#m", "http://127.0.0.1:9/v1?api_key=SECRETPW#m", "scripted:/nowhere/x.jsonl"],
)
async def test_a_model_that_cannot_be_asked_is_refused_and_not_stored_and_no_password_is_shown(edition, asking, spec):
    before = config_text(edition)
    with pytest.raises(UserError) as refused:
        await review_edition(edition, {"max_tokens": 7}, models={"x": {"model": spec}}, options=asking)
    assert "SECRETPW" not in str(refused.value)
    assert config_text(edition) == before


async def test_the_settings_of_another_run_hold_for_its_clock_too_and_stay_out_of_the_config(
    edition, toy_scorer, asking
):
    edition = await reviewed(edition, asking, m={"cutoff_date": "2024-02"})
    before, settings = config_text(edition), {**QUICK, "level": 0.5}
    _, scores, evaluation = await score_edition(
        edition, settings, run="other", stand_ins={"scorer": toy_scorer()}, options=asking
    )
    assert (scores.contamination.level, evaluation.leaderboard().level) == (0.5, 0.5)
    assert config_text(edition) == before


# --- papers under their own name -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seed = 0", "seed = 3", "seed 0, not 3"),
        ("seed = 0", "seed = 0\npapers = 5", "papers none, not 5"),
        ("seed = 0", "seed = 0\nreviews = 2", "reviews 3, not 2"),
    ],
)
def test_another_draw_of_the_same_source_is_refused(edition, old, new, told):
    with pytest.raises(UserError, match=told):
        edit(edition, old, new).study()


# --- what is known of models ---------------------------------------------------------------------------------------


async def test_a_cut_off_in_the_config_counts_at_scoring_and_can_be_taken_back(edition, toy_scorer, asking):
    edition = await reviewed(edition, asking, m={"cutoff_date": "2024-12", "family": "f"})

    async def clean(edition):
        _, scores, _ = await score_edition(edition, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking)
        return scores.contamination.agents[0].clean

    # p1 became public on 2024-03-01, p2 on 2024-09-01
    assert await clean(edition) == 0
    edition = edit(edition, 'cutoff_date = "2024-12"', 'cutoff_date = "2024-05"')
    assert await clean(edition) == 1
    edition = edit(edition, 'cutoff_date = "2024-05"\n', "")
    assert await clean(edition) is None
    edition = await reviewed(edition, asking, m={})
    rows = (edition.study_folder / "agents.jsonl").read_text()
    assert "cutoff_date" not in rows
    assert '"family":"f"' in rows.replace(" ", "")


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


DRAWS = {"seed": 0, "resamples": 200, "level": 0.9}


def board(**rows):
    return {(f"p{place}", agent): value for agent, values in rows.items() for place, value in enumerate(values)}


def test_rank_1_flips_against_whoever_needs_the_fewest_papers():
    # the differences to the second are 0, 1, 0, 0.5, which no choice makes negative; to the third -1, 12, -1, 0
    scores = board(first=(1, 9, 1, 1), second=(1, 8, 1, 0.5), third=(2, -3, 2, 1), human=(9, 9, 9, 9))
    (found,) = rank_flip("gem", scores)
    assert (found.leader, found.other, found.removed, found.papers) == ("first", "third", ("p1",), 4)
    assert found.sentence == "gem: without 1 of 4 papers (p1), third would be ahead of first."


def test_ranks_under_two_scorers_stand_beside_their_consistency():
    one = board(a=(3, 3, 4), b=(2, 2, 2), c=(1, 1, 1), human=(2, 3, 2))
    other = board(a=(3, 3, 3), b=(1, 1, 0), c=(2, 2, 1), human=(3, 2, 2))
    found = standing(
        [ScoredBy("run", "gem", one, "gem|scorer:x"), ScoredBy("by-b", "gem", other, "gem|scorer:y")], DRAWS
    )
    assert found.places["gem"] == {
        "a": {"run": 1, "by-b": 1},
        "b": {"run": 2, "by-b": 3},
        "c": {"run": 3, "by-b": 2},
    }
    assert dict(found.scorers) == {"run": "x", "by-b": "y"}
    # means (10/3, 2, 1, 7/3) and (3, 2/3, 5/3, 7/3): Kendall's tau of these orders is (5 - 1) / 6
    (kendall,) = [row.value for row in found.agreement.rows if row.coefficient == "kendall"]
    assert kendall == pytest.approx(4 / 6)


@pytest.mark.anyio
async def test_a_second_run_is_noted_in_the_results_of_the_first(edition, asking, toy_scorer):
    edition = await reviewed(edition, asking, ann={}, bob={})
    edition, alone, _ = await score_edition(edition, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking)
    assert list(alone.standing.scorers) == ["run"]
    before = (edition.folder / "run" / "gre.md").read_text()
    assert "How few papers flip rank 1" in before
    second = {"scorer": toy_scorer(name="other")}
    _, both, _ = await score_edition(edition, QUICK, run="by-b", stand_ins=second, options=asking)
    assert list(both.standing.scorers) == ["run", "by-b"]
    noted = json.loads((edition.folder / "run" / "gre.json").read_text())["standing"]
    assert list(noted["places"]["gem-raw"]) == ["ann", "bob"]
    assert {row["coefficient"] for row in noted["agreement"]["rows"]} == {"pearson", "spearman", "kendall"}
    after = (edition.folder / "run" / "gre.md").read_text()
    assert "Agents under different scorers" in after
    assert after.count("How few papers flip rank 1") == 1
    # results of other reviews than those of the first are left out, and this is said
    made = edition.folder / "by-b" / "made_by.json"
    made.write_text(made.read_text().replace('"fingerprint": "', '"fingerprint": "0'))
    stale = edition_standing(edition, DRAWS)
    assert list(stale.scorers) == ["run"]
    assert "by-b was scored on other papers or reviews" in stale.notes[0]
