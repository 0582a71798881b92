"""How firm an edition's ranking is."""

from __future__ import annotations

import json

import pytest
from edition_folders import QUICK, reviewed

from goldless.apps.gre.results import edition_standing, rank_flip, standing
from goldless.apps.gre.scoring import score_edition
from goldless.meta_evaluation.judges import ScoredBy

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
