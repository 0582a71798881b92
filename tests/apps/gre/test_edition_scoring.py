"""What scoring an edition keeps, refuses and stores; the contamination clock, and how firm the ranking is."""

from __future__ import annotations

import json
import re

import pytest

from goldless.apps.gre.edition import open_edition
from goldless.apps.gre.results import Clock, contamination_clock, rank_flip
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.errors import UserError
from goldless.records import Agent
from goldless.reports.document import read, write
from goldless.runs.options import Options
from goldless.signature import Signature
from tests.apps.gre.edition_folders import QUICK, reviewed

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


# --- papers under their own name -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seed = 0", "seed = 3", "seed 0, not 3"),
        ("seed = 0", "seed = 0\npapers = 5", "papers none, not 5"),
        ("seed = 0", "seed = 0\nreviews = 2", "reviews 3, not 2"),
        ("from_folder = ", 'venue = "V.cc/2030"\n# ', "source papers, not V.cc/2030"),
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
    asking = Options.of(journal=tmp_path / "another.sqlite", say=said.append)
    await score_edition(scored, {**QUICK, **settings}, stand_ins={"scorer": toy_scorer(name=scorer)}, options=asking)
    kept = scored.folder / hashed(scored)
    assert contents(kept) == files
    assert any(str(kept) in line for line in said)


async def test_a_fingerprint_that_is_a_path_names_no_folder(scored, toy_scorer, asking):
    made = scored.folder / "run" / "made_by.json"
    made.write_text(json.dumps({**json.loads(made.read_text()), "fingerprint": "../../up"}))
    await score_edition(scored, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking)
    assert runs(scored) == ["run", "run-before"]


async def test_damaged_results_on_clean_papers_do_not_stop_a_run(scored, toy_scorer, asking):
    path = scored.folder / "run" / "gre.json"
    results = json.loads(path.read_text())
    results["contamination"]["leaderboards"][0]["metric"] = "NaN"
    path.write_text(json.dumps(results))
    await score_edition(scored, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking)
    assert "NaN" not in path.read_text()


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


async def test_the_results_say_how_few_papers_flip_rank_1(edition, asking, toy_scorer):
    edition = await reviewed(edition, asking, ann={}, bob={})
    _, scores, _ = await score_edition(edition, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking)
    # both wrote the same, so no paper decides between them
    (flip,) = scores.flips
    assert (flip.metric, flip.leader, flip.papers) == ("gem-raw", "ann", 2)
    assert (edition.folder / "run" / "gre.md").read_text().count("How few papers flip rank 1") == 1


FAST = {"resamples": 200}
DATES = {"p1": "2023-01-15", "p2": "2023-06-15", "p3": "2023-12-15", "p4": None}
AGENTS = [
    Agent("human", "human"),
    Agent("reference1", cutoff_date="1999"),
    Agent("old", cutoff_date="2023-03-01"),
    Agent("new", cutoff_date="2023-06-14"),
    Agent("unknown"),
]


def scores(**by_agent):
    """Scores of p1, p2, … in order; None is a missing one."""
    return {"gem": {(f"p{place}", a): score for a, column in by_agent.items() for place, score in enumerate(column, 1)}}


GIVEN = scores(
    human=[1, 2, 3, 4], old=[10, 4, 9, 50], new=[10, 3, 3, 50], unknown=[9, 9, 9, 9], reference1=[7, 7, 7, 7]
)


def clock(agents=AGENTS, dates=DATES, given=GIVEN, **options):
    settings = {metric: {"metric": metric} for metric in given}
    drawing = {"settings": settings, "seed": 0, "level": 0.9, **FAST, **options}
    return contamination_clock(agents, dates, given, **drawing)


def row(found, agent, scope):
    return next(one for one in found.leaderboards if (one.agent, one.scope) == (agent, scope))


def test_an_agent_without_a_cut_off_is_unknown_and_on_no_leaderboard_of_clean_papers():
    found = clock()
    assert "unknown" not in {one.agent for one in found.leaderboards if one.scope != "all"}
    assert any("1 without a cutoff, not counted as clean: unknown" in note for note in found.notes)
    assert "| unknown | unknown | unknown |" in found.tables()[1].to_markdown()


@pytest.mark.parametrize(
    ("cutoff", "public", "after"),
    [
        ("2023-06-14", "2023-06-15", True),
        ("2023-06-15", "2023-06-15", False),
        ("2023-06", "2023-06-30", False),
        ("2023-06", "2023-07-01", True),
        ("2023", "2023-12-31", False),
        ("2023", "2024-01-01", True),
        ("2023-06-14", "2023-06", False),
        ("2023-05", "2023-06", True),
        ("2023-05", "2023", False),
        ("2022", "2023", True),
    ],
)
def test_a_paper_is_after_only_if_every_day_it_may_mean_is_later_than_every_day_of_the_cut_off(cutoff, public, after):
    found = clock([Agent("a", cutoff_date=cutoff)], {"p1": public}, {})
    assert found.agents[0].clean == int(after)


def test_the_common_leaderboard_has_the_papers_after_all_cut_offs_for_everybody():
    """p2 and p3 are after both cut-offs: old 6.5, new 3, human 2.5."""
    found = clock()
    assert found.common == ("p2", "p3")
    mine = row(found, "old", "own")  # mean of 4 and 9; less human: mean of 2 and 6
    assert (mine.score.value, mine.difference.value, mine.difference.n, mine.rank) == (6.5, 4.0, 2, None)
    rows = [(one.agent, one.rank, one.score.value) for one in found.rows("gem", "common")]
    assert rows == [("old", 1, 6.5), ("new", 2, 3.0), ("human", None, 2.5)]
    assert "the 2 papers clean for all" in found.tables()[2].to_markdown()


def test_on_all_papers_every_agent_is_compared_with_the_human_on_the_papers_it_has():
    """Old lacks p3: (10 + 4 + 50) / 3, less human (9 + 2 + 46) / 3. Unknown: 9, less human (8 + 7 + 6 + 5) / 4."""
    given = scores(human=[1, 2, 3, 4], old=[10, 4, None, 50], new=[1, 2, 3, 4], unknown=[9, 9, 9, 9])
    found = clock(given=given)
    rows = {one.agent: one for one in found.rows("gem", "all")}
    assert list(rows) == ["old", "unknown", "new", "human"]
    old = rows["old"]
    assert (old.score.value, old.difference.value) == pytest.approx((64 / 3, 19))
    assert (old.score.n, old.missing, old.difference.n, old.rank) == (3, 1, 3, 1)
    # of 8 ways to flip three differences, the smallest p is 2 / 8
    assert (old.difference.low, old.difference.high) == (None, None)
    assert "3 tasks are too few" in old.difference.note
    assert (rows["unknown"].score.value, rows["unknown"].difference.value, rows["unknown"].score.n) == (9, 6.5, 4)
    assert (rows["human"].score.value, rows["human"].difference.value) == (2.5, None)
    shown = found.tables()[0]
    assert "gem on all 4 papers" in shown.to_markdown()
    assert "the papers differ between agents" in shown.notes[0]


def test_each_leaderboard_has_a_signature_that_tells_its_papers_and_draws():
    """The scores' own signature with the papers; a later cut-off or another seed is another signature."""
    line = "gem|scorer:A|interval:x-0.5|test:sign-flip-holm|resamples:9|seed:9|study:1|goldless:0.0"
    of_scores = {"gem": Signature.parse(line).parts}
    found = clock(settings=of_scores, seed=3)
    told = found.scope_signatures["gem"]
    for scope, papers in (("own", "papers:clean-own-"), ("common", "papers:clean-common-2-"), ("all", "papers:all-4|")):
        drawn = "interval:tasks-bootstrap-t-or-t-0.9(skew-t-under-10)|resamples:200|seed:3|"
        assert told[scope].startswith(f"gem|scorer:A|{drawn}")
        assert "|study:1|" in told[scope]
        assert papers in told[scope]
        assert "test:" not in told[scope]
    later = clock([*AGENTS[:3], Agent("new", cutoff_date="2023-06-15")], settings=of_scores, seed=3)
    for scope in ("own", "common"):
        assert later.scope_signatures["gem"][scope] != told[scope]
    assert read(Clock, json.dumps(write(found), allow_nan=False)) == found


def test_a_paper_whose_date_is_none_is_not_dated():
    found = clock([Agent("a", cutoff_date="2020")], {"p1": "15.1.2023", "p2": "2023"}, {})
    assert (found.undated, found.agents[0].clean) == (("p1",), 1)
