"""What is put into an edition's config: only what was checked, and nothing that puts numbers under a wrong name."""

from __future__ import annotations

import pytest
from edition_folders import QUICK, reviewed

from goldless.apps.gre.edition import open_edition
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.errors import UserError

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


@pytest.mark.parametrize(
    "settings",
    [
        {"scorer": "nosuch:x"},
        {"rewriter": ["nosuch:x"], "metrics": ["rouge-l"]},
        {"synopsis_writer": "nosuch:x", "metrics": ["rouge-l"]},
        {"metrics": ["gemm"]},
        {"metrics": ["gem-s[nosuch]"], "rewriter": ["embedded"]},
        {"template": ["nosuch"]},
        {"level": 2},
    ],
)
@pytest.mark.parametrize("run", [None, "other"])
async def test_scoring_that_cannot_be_done_is_refused_and_not_stored(edition, asking, settings, run):
    edition = await reviewed(edition, asking, m={})
    before = config_text(edition)
    with pytest.raises(UserError):
        await score_edition(edition, {"metrics": ["gem-raw"], **settings}, run=run, options=asking)
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
